/* SPDX-License-Identifier: MIT */
/* Shared memory that is made after a worker with a dispatcher: requests name it while
 * they are queued, and it is passed and freed meanwhile. */
#include "late.h"

#include <errno.h>
#include <string.h>

#include "proc.h"

#define CHIPS	 2
#define ELEMENTS 8
#define REQUESTS 40

/* One request: what its orchestration does, in the dispatcher's thread. */
struct request {
	int (*fn)(struct rp_run *run, struct request *request, const struct rp_arg *x);
	int64_t number;
	uint32_t gate;
	_Atomic uint32_t entered, *go;
	void *made;
	struct rp_handle handle;
};

/* The argument += number, on the chip that the number says. */
static int add(struct rp_run *run, struct request *request, const struct rp_arg *x)
{
	return TASK(run, (int32_t)(request->number % CHIPS), ENTRY_ADD, *x,
		    rp_arg_i64(request->number));
}

static bool has_entered(void *arg)
{
	return atomic_load(&((struct request *)arg)->entered);
}

/* Stay in the orchestration until *go. */
static int hold(struct rp_run *run, struct request *request, const struct rp_arg *x)
{
	(void)run;
	(void)x;
	atomic_store(&request->entered, 1);
	while (!atomic_load(request->go))
		bed_breathe();
	return 0;
}

static int gate(struct rp_run *run, struct request *request, const struct rp_arg *x)
{
	(void)x;
	return TASK(run, 0, ENTRY_GATE, rp_arg_u64(request->gate));
}

/* A block of its own, which both chips use, one after the other. */
static int make_and_add(struct rp_run *run, struct request *request,
			const struct rp_arg *x)
{
	int err = 0;

	(void)x;
	if (rp_shared_alloc(LATE_BYTES, &request->made))
		return -ENOMEM;
	for (int32_t chip = 0; !err && chip < CHIPS; chip++)
		err = TASK(run, chip, ENTRY_ADD,
			   rp_inout(late_tensor(request->made, ELEMENTS)),
			   rp_arg_i64(request->number));
	return err;
}

static int play(struct rp_run *run, const struct rp_arg *args, size_t nargs, void *user)
{
	struct request *request = (struct request *)(uintptr_t)args[0].u.scalar.value.u64;

	(void)nargs;
	(void)user;
	return request->fn(run, request, &args[1]);
}

static void open_queue(struct bed *bed, bool unified)
{
	static const struct rp_param params[] = {
		{ .name = "request", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
		{ .name = "x",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_INOUT,
		  .rank = 1,
		  .shape = { ELEMENTS } },
	};
	struct rp_worker_options options;
	struct rp_program_desc desc;

	bed_describe(&desc, "late", params, COUNT(params));
	desc.orchestrate = play;
	bed_options(&options, CHIPS);
	options.unified_memory = unified;
	options.dispatcher = true;
	options.dispatcher_queue = 64;
	bed_prepare(bed, &desc, &options);
}

static int submit(struct bed *bed, struct request *request, void *block)
{
	return SUBMIT(bed, &request->handle, rp_arg_u64((uint64_t)(uintptr_t)request),
		      rp_arg_tensor(late_tensor(block, ELEMENTS)));
}

static int outcome(struct request *request)
{
	int err = rp_handle_wait(request->handle, RP_WAIT_FOREVER);

	assert_ok(rp_handle_release(request->handle));
	return err;
}

static void expect(const void *block, int64_t value)
{
	for (int i = 0; i < ELEMENTS; i++)
		assert_int_equal(((const int64_t *)block)[i], value);
}

/* Hold the dispatcher, with nothing behind. */
static void hold_dispatcher(struct bed *bed, struct request *holder, _Atomic uint32_t *go,
			    void *block)
{
	atomic_store(go, 0);
	*holder = (struct request){ .fn = hold, .go = go };
	assert_ok(submit(bed, holder, block));
	assert_true(proc_await(has_entered, holder));
}

/* --- As it should be --------------------------------------------------------------- */

/* Small blocks share regions, every third is a region of its own; all are made, named,
 * and waited for while others are queued. */
static void memory_made_after_the_worker_is_there_when_its_request_runs(void **state)
{
	struct request requests[REQUESTS];
	void *blocks[REQUESTS];
	struct bed bed;

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		open_queue(&bed, unified);
		for (int i = 0; i < REQUESTS; i++) {
			blocks[i] = i % 3 ? bed_shared(128, 0) : late_block(0);
			requests[i] = (struct request){ .fn = add, .number = i };
			assert_ok(submit(&bed, &requests[i], blocks[i]));
		}
		for (int i = 0; i < REQUESTS; i++) {
			assert_ok(outcome(&requests[i]));
			expect(blocks[i], i);
			assert_ok(rp_shared_free(blocks[i]));
		}
		bed_close(&bed);
	}
}

/* The submitting thread passes it: the dispatcher has no part in that. */
static void it_is_passed_once_by_the_submit_and_before_the_request_runs(void **state)
{
	struct request requests[REQUESTS], holder;
	void *early = late_block(0), *block;
	_Atomic uint32_t go;
	struct bed bed;

	(void)state;
	open_queue(&bed, false);
	hold_dispatcher(&bed, &holder, &go, early);
	late_hook_set(0, "mapper.send", INT64_MAX, LATE_PASS);
	block = late_block(0);
	for (int i = 0; i < REQUESTS; i++) {
		requests[i] = (struct request){ .fn = add, .number = 1 };
		assert_ok(submit(&bed, &requests[i], block));
		assert_int_equal(atomic_load(&late_hooks[0].passed), CHIPS);
	}
	expect(block, 0);
	atomic_store(&go, 1);
	assert_ok(outcome(&holder));
	for (int i = 0; i < REQUESTS; i++)
		assert_ok(outcome(&requests[i]));
	assert_int_equal(atomic_load(&late_hooks[0].passed), CHIPS);
	expect(block, REQUESTS);
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
	assert_ok(rp_shared_free(block));
}

static void an_orchestration_may_make_memory_in_the_dispatchers_thread(void **state)
{
	struct request requests[REQUESTS];
	void *early = late_block(0);
	struct bed bed;

	(void)state;
	open_queue(&bed, false);
	for (int i = 0; i < REQUESTS; i++) {
		requests[i] = (struct request){ .fn = make_and_add, .number = i };
		assert_ok(submit(&bed, &requests[i], early));
	}
	for (int i = 0; i < REQUESTS; i++) {
		assert_ok(outcome(&requests[i]));
		expect(requests[i].made, 2 * i);
		assert_ok(rp_shared_free(requests[i].made));
	}
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
}

/* Chip 0 reads no messages while it is in a task. */
static void a_chip_in_a_long_task_holds_up_neither_submit_nor_queue(void **state)
{
	struct request gated = { .fn = gate, .gate = 3 }, other, behind[REQUESTS];
	void *blocks[REQUESTS], *early = late_block(0), *late;
	struct bed bed;

	(void)state;
	open_queue(&bed, false);
	assert_ok(submit(&bed, &gated, early));
	gate_await_entered(3, 1);
	late = late_block(0);
	other = (struct request){ .fn = add, .number = 1 }; /* on chip 1 */
	assert_ok(submit(&bed, &other, late));
	assert_ok(outcome(&other));
	expect(late, 1);
	for (int i = 0; i < REQUESTS; i++) {
		blocks[i] = late_block(0);
		behind[i] = (struct request){ .fn = add, .number = 2 }; /* on chip 0 */
		assert_ok(submit(&bed, &behind[i], blocks[i]));
	}
	assert_int_equal(rp_handle_done(gated.handle), 0);
	gate_open(3);
	assert_ok(outcome(&gated));
	for (int i = 0; i < REQUESTS; i++) {
		assert_ok(outcome(&behind[i]));
		expect(blocks[i], 2);
		assert_ok(rp_shared_free(blocks[i]));
	}
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
	assert_ok(rp_shared_free(late));
}

/* --- As it should not be -------------------------------------------------------------
 */

static void a_message_that_cannot_be_sent_is_told_by_the_submit(void **state)
{
	void *early = late_block(0), *block;
	struct request request = { .fn = add, .number = 1 };
	struct bed bed;

	(void)state;
	open_queue(&bed, false);
	block = late_block(0);
	for (int n = 0; n < CHIPS; n++) {
		uint64_t dispatches = bed_stats(&bed).dispatches;

		late_hook_set(0, "mapper.send", n, -EMFILE);
		assert_int_equal(submit(&bed, &request, block), -EMFILE);
		assert_says("'x'", "passing it to worker");
		late_hook_clear();
		assert_int_equal(bed_stats(&bed).dispatches, dispatches);
		assert_ok(submit(&bed, &request, early));
		assert_ok(outcome(&request));
	}
	assert_ok(submit(&bed, &request, block));
	assert_ok(outcome(&request));
	expect(block, 1);
	expect(early, CHIPS);
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
	assert_ok(rp_shared_free(block));
}

/* Against the contract: nothing is touched that is not there. */
static void memory_freed_under_a_queued_request_fails_it_and_nothing_else(void **state)
{
	void *early, *late, *good;
	struct request holder, spoilt[2], fine;
	_Atomic uint32_t go;
	struct bed bed;

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		early = late_block(0);
		open_queue(&bed, unified);
		late = late_block(0);
		good = late_block(0);
		hold_dispatcher(&bed, &holder, &go, good);
		spoilt[0] = spoilt[1] = (struct request){ .fn = add, .number = 1 };
		fine = spoilt[0];
		assert_ok(submit(&bed, &spoilt[0], early));
		assert_ok(submit(&bed, &spoilt[1], late));
		assert_ok(submit(&bed, &fine, good));
		assert_ok(rp_shared_free(early));
		assert_ok(rp_shared_free(late));
		atomic_store(&go, 1);
		assert_ok(outcome(&holder));
		for (int i = 0; i < 2; i++) {
			assert_int_equal(outcome(&spoilt[i]), -EFAULT);
			assert_says("'add'", "was freed before this task");
		}
		assert_ok(outcome(&fine));
		expect(good, 1);
		bed_close(&bed);
		assert_ok(rp_shared_free(good));
	}
}

/* The address is another block's by the time that the request runs: then it is that one
 * that is used, if the chips have it, and no process dies of it. */
static void an_address_that_comes_again_under_a_request_harms_no_process(void **state)
{
	void *early = late_block(0);
	_Atomic uint32_t go;
	struct bed bed;
	int again = 0;

	(void)state;
	open_queue(&bed, false);
	for (int round = 0; round < 20; round++) {
		struct request holder, request = { .fn = add, .number = 2 };
		struct request after = { .fn = add, .number = 2 };
		void *block = late_block(0), *next;
		int64_t value;
		int err;

		hold_dispatcher(&bed, &holder, &go, early);
		assert_ok(submit(&bed, &request, block));
		assert_ok(rp_shared_free(block));
		next = late_block(0);
		again += next == block;
		/* The second time they are given it before. */
		if (round % 2)
			assert_ok(submit(&bed, &after, next));
		atomic_store(&go, 1);
		assert_ok(outcome(&holder));
		err = outcome(&request);
		assert_true(!err || err == -EFAULT);
		assert_true(!err || next != block || !(round % 2));
		if (!(round % 2))
			assert_ok(submit(&bed, &after, next));
		assert_ok(outcome(&after));
		value = next == block && !err ? 4 : 2;
		expect(next, value);
		assert_ok(rp_shared_free(next));
	}
	assert_true(again > 0);
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
}

static void a_process_that_dies_of_a_new_block_ends_what_is_queued(void **state)
{
	struct request holder, requests[4];
	void *early = late_block(0), *block;
	_Atomic uint32_t go;
	struct bed bed;

	(void)state;
	open_queue(&bed, false);
	hold_dispatcher(&bed, &holder, &go, early);
	late_hook_set(0, "chip.map", 0, LATE_DIE);
	block = late_block(0);
	for (size_t i = 0; i < COUNT(requests); i++) {
		requests[i] = (struct request){ .fn = add, .number = 1 };
		assert_ok(submit(&bed, &requests[i], block));
	}
	atomic_store(&go, 1);
	for (size_t i = 0; i < COUNT(requests); i++)
		assert_int_equal(outcome(&requests[i]), -EOWNERDEAD);
	outcome(&holder); /* it has no task: it may have ended before */
	late_hook_clear();
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
	assert_ok(rp_shared_free(block));
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)
	const struct CMUnitTest tests[] = {
		TEST(memory_made_after_the_worker_is_there_when_its_request_runs),
		TEST(it_is_passed_once_by_the_submit_and_before_the_request_runs),
		TEST(an_orchestration_may_make_memory_in_the_dispatchers_thread),
		TEST(a_chip_in_a_long_task_holds_up_neither_submit_nor_queue),
		TEST(a_message_that_cannot_be_sent_is_told_by_the_submit),
		TEST(memory_freed_under_a_queued_request_fails_it_and_nothing_else),
		TEST(an_address_that_comes_again_under_a_request_harms_no_process),
		TEST(a_process_that_dies_of_a_new_block_ends_what_is_queued),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("late_queue", tests, NULL, NULL);
}
