/* SPDX-License-Identifier: MIT */
/* Callbacks: after whom, before whom, in which process, and what their failure does. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#define WORDS 32

static int produce_then_call(struct rp_run *run, void *arg)
{
	int64_t *memory = arg;
	struct rp_tensor x = TENSOR(memory, RP_INT64, WORDS);
	struct rp_tensor y = TENSOR(memory + WORDS, RP_INT64, WORDS);
	int err;

	err = TASK(run, 0, ENTRY_GATE, rp_out(x), rp_arg_u64(0), rp_arg_i64(7));
	if (!err)
		err = CALL(run, CALLBACK_COPY, rp_in(x), rp_out(y));
	/* And a chip after the callback. */
	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(y), rp_arg_i64(1));
	return err;
}

static void a_callback_follows_its_producers_and_is_followed(void **state)
{
	int64_t *memory = bed_shared(2 * WORDS * 8, 0);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_stats stats;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		memset(memory, 0x55, 2 * WORDS * 8);
		bed_open_unified(&bed, 2, unified);
		assert_ok(bed_submit(&bed, produce_then_call, memory, &handle));
		gate_await_entered(0, 1);
		bed_give_a_chance();
		assert_int_equal(memory[WORDS], 0x5555555555555555);
		gate_open(0);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		for (int i = 0; i < WORDS; i++) {
			assert_int_equal(memory[i], 7);
			assert_int_equal(memory[WORDS + i], 8);
		}
		/* In place: of the callback's arguments nothing crossed. */
		stats = bed_stats(&bed);
		assert_int_equal(stats.bytes_to_device, unified ? 0 : WORDS * 8);
		assert_int_equal(stats.bytes_from_device, unified ? 0 : 2 * WORDS * 8);
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

/* The callback reads x in place, at its leisure; chip 0 writes x after it. */
static int overwrite_under_a_callback(struct rp_run *run, void *arg)
{
	int64_t *memory = arg;
	struct rp_tensor x = TENSOR(memory, RP_INT64, WORDS);
	struct rp_tensor early = TENSOR(memory + WORDS, RP_INT64, WORDS);
	struct rp_tensor late = TENSOR(memory + 2 * WORDS, RP_INT64, WORDS);
	int err;

	err = CALL(run, CALLBACK_GATE_COPY, rp_in(x), rp_out(early), rp_out(late),
		   rp_arg_u64(0));
	if (!err)
		err = TASK(run, 0, ENTRY_ADD, rp_out(x), rp_arg_i64(-1));
	return err;
}

static void a_writer_waits_until_a_callback_that_reads_has_ended(void **state)
{
	int64_t *memory = bed_shared(3 * WORDS * 8, 0);

	(void)state;
	for (int k = 0; k < 4; k++) {
		struct rp_worker_options options;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		for (int i = 0; i < WORDS; i++)
			memory[i] = 40 + i;
		bed_options(&options, 1);
		options.unified_memory = k & 1;
		/* Awake it looks for itself, asleep it has to be told. */
		options.worker_wait = k & 2 ? RP_WAIT_BLOCK : RP_WAIT_SPIN;
		bed_open_with(&bed, &options);
		assert_ok(bed_submit(&bed, overwrite_under_a_callback, memory, &handle));
		gate_await_entered(0, 1);
		bed_give_a_chance();
		gate_open(0);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		for (int i = 0; i < WORDS; i++) {
			assert_int_equal(memory[WORDS + i], 40 + i);
			assert_int_equal(memory[2 * WORDS + i], 40 + i);
			assert_int_equal(memory[i], -1);
		}
		bed_close(&bed);
	}
	rp_shared_free(memory);
}

static int fail_in_a_callback(struct rp_run *run, void *arg)
{
	int err;

	(void)arg;
	err = CALL(run, CALLBACK_FAIL, rp_arg_i64(-ENOLINK));
	return err ? err : CALL(run, CALLBACK_NOTE, rp_arg_i64(3));
}

static int call_twice(struct rp_run *run, void *arg)
{
	int err;

	(void)arg;
	err = CALL(run, CALLBACK_NOTE, rp_arg_i64(1));
	return err ? err : CALL(run, CALLBACK_NOTE, rp_arg_i64(2));
}

static void a_callback_that_fails_ends_its_run_by_name(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	for (int round = 0; round < 3; round++) {
		atomic_store(&board->note_count, 0);
		assert_int_equal(bed_run(&bed, fail_in_a_callback, NULL), -ENOLINK);
		assert_says("callback 'fail-back' of 'support'", "callback worker 0",
			    "the callback was told to fail with -67");
		assert_int_equal(board->note_count, 0);
		assert_ok(bed_run(&bed, call_twice, NULL));
		assert_int_equal(board->note_count, 2);
		assert_int_equal(board->notes[0].word, 1);
		assert_int_equal(board->notes[1].word, 2);
		assert_int_equal(board->notes[1].chip, NOTE_CALLBACK);
	}
	bed_close(&bed);
}

static pid_t whoever;
static int64_t *pids;

static int tell_pid(struct rp_callback_context *context, const struct rp_arg *args,
		    size_t nargs, void *user)
{
	(void)context;
	(void)args;
	(void)nargs;
	*(int64_t *)user = getpid();
	return 0;
}

static int call_each(struct rp_run *run, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < 3; i++) {
		int err = rp_run_callback(run, i, NULL, 0);

		if (err)
			return err;
	}
	return 0;
}

static void callbacks_run_in_processes_of_their_own(void **state)
{
	static const char *const names[] = { "tell", "say", "shout" };
	struct rp_callback callbacks[3];
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	whoever = getpid();
	pids = bed_shared(3 * 8, 0);
	for (int i = 0; i < 3; i++)
		callbacks[i] = (struct rp_callback){ .name = names[i],
						     .fn = tell_pid,
						     .user = &pids[i] };
	for (uint32_t workers = 0; workers <= 3; workers++) {
		uint32_t processes = workers ? workers : 3;

		memset(pids, 0, 3 * 8);
		bed_options(&options, 2);
		bed_describe(&desc, "pids", NULL, 0);
		desc.callbacks = callbacks;
		desc.callback_count = 3;
		desc.callback_workers = workers;
		bed_prepare(&bed, &desc, &options);
		assert_ok(bed_run(&bed, call_each, NULL));
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_not_equal(pids[i], whoever);
			assert_int_equal(pids[i],
					 rp_worker_pid(bed.worker, 2 + i % processes));
		}
		assert_int_equal(rp_worker_pid(bed.worker, 2 + processes), 0);
		bed_close(&bed);
	}
	rp_shared_free(pids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_callback_follows_its_producers_and_is_followed),
		PROCESS_TEST(a_writer_waits_until_a_callback_that_reads_has_ended),
		PROCESS_TEST(a_callback_that_fails_ends_its_run_by_name),
		PROCESS_TEST(callbacks_run_in_processes_of_their_own),
	};

	return cmocka_run_group_tests_name("callback", tests, NULL, NULL);
}
