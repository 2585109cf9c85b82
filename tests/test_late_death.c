/* SPDX-License-Identifier: MIT */
/* Passing memory to processes that die, or that have no room for it. */
#include "late.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proc.h"
#include "worker/worker.h"

#define CHIPS 2
#define PEERS 3

static int add_one(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_ADD, rp_inout(late_tensor(arg, 8)), rp_arg_i64(1));
}

static int add_on_both(struct rp_run *run, void *arg)
{
	int err = add_one(run, arg);

	return err ? err
		   : TASK(run, 1, ENTRY_ADD, rp_inout(late_tensor(arg, 8)),
			  rp_arg_i64(1));
}

static int hold_chip_0(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_GATE, rp_arg_i64(*(int *)arg));
}

/* --- Limits ---------------------------------------------------------------------- */

static void a_message_that_cannot_be_sent_refuses_the_dispatch_only(void **state)
{
	static const int errors[] = { -EMFILE, -ENOMEM };
	void *early = late_block(0);
	struct bed bed;

	(void)state;
	bed_open(&bed, CHIPS);
	for (size_t k = 0; k < COUNT(errors); k++) {
		void *block = late_block(0);
		uint64_t dispatches = bed_stats(&bed).dispatches;

		/* At each of the processes in turn. */
		for (int n = 0; n < PEERS; n++) {
			late_hook_set(0, "mapper.send", n, errors[k]);
			assert_int_equal(bed_run(&bed, add_one, block), errors[k]);
			assert_says("rp_run_task: argument 0", "passing it to worker",
				    "expected");
			assert_int_equal(bed_stats(&bed).dispatches, dispatches);
			late_hook_clear();
			assert_ok(bed_run(&bed, add_one, early));
			dispatches++;
		}
		assert_ok(bed_run(&bed, add_on_both, block));
		assert_int_equal(*(int64_t *)block, 2);
		/* Some were told of this one, and must be told to let go. */
		assert_ok(rp_shared_free(block));
		block = late_block(0);
		late_hook_set(0, "mapper.send", 2, errors[k]);
		assert_int_equal(bed_run(&bed, add_one, block), errors[k]);
		late_hook_clear();
		assert_ok(bed_run(&bed, add_on_both, early)); /* they have read it */
		assert_ok(rp_shared_free(block));
		assert_true(late_all_mapped(&bed, block, false));
	}
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
}

static void a_message_to_unmap_that_cannot_be_sent_is_sent_later(void **state)
{
	void *block, *other;
	struct bed bed;

	(void)state;
	bed_open(&bed, CHIPS);
	block = late_block(0);
	assert_ok(bed_run(&bed, add_on_both, block));
	late_hook_set(0, "mapper.send", 1, -ENOMEM);
	assert_ok(rp_shared_free(block));
	assert_true(late_is_mapped(rp_worker_pid(bed.worker, 1), block));
	assert_int_equal(bed_run(&bed, add_on_both, block), -EFAULT);
	late_hook_clear();
	other = late_block(0); /* by then it has been sent */
	if (other != block)
		assert_true(late_all_mapped(&bed, block, false));
	assert_ok(bed_run(&bed, add_on_both, other));
	bed_close(&bed);
	assert_ok(rp_shared_free(other));
}

static void a_process_that_cannot_map_fails_its_task_and_tries_again(void **state)
{
	void *early = late_block(0);
	struct bed bed;
	void *block, *next;

	(void)state;
	bed_open(&bed, CHIPS);
	block = late_block(0);
	next = late_block(0);
	late_hook_set(0, "chip.map", 0, -ENOMEM);
	atomic_store(&late_hooks[0].pid, rp_worker_pid(bed.worker, 0));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bed_run(&bed, add_one, block), -ENOMEM);
		assert_says("chip 0", "could not be mapped", "Cannot allocate memory");
		/* What is behind it in line fares no better; what was there does. */
		assert_int_equal(bed_run(&bed, add_one, next), -ENOMEM);
		assert_ok(bed_run(&bed, add_one, early));
	}
	/* Idle, it does not try again and again. */
	proc_pause_us(50000);
	{
		uint64_t tries = atomic_load(&late_hooks[0].passed);

		proc_pause_us(100000);
		assert_int_equal(atomic_load(&late_hooks[0].passed), tries);
	}
	late_hook_clear();
	assert_ok(bed_run(&bed, add_one, block));
	assert_ok(bed_run(&bed, add_one, next));
	assert_int_equal(*(int64_t *)block, 1);
	assert_int_equal(*(int64_t *)early, 3);
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
	assert_ok(rp_shared_free(block));
	assert_ok(rp_shared_free(next));
}

static void a_process_at_its_descriptor_limit_says_so_and_recovers(void **state)
{
	void *early = late_block(0);
	struct rlimit none, before;
	uint64_t address;
	struct bed bed;
	void *block;
	pid_t pid;
	int fds;

	(void)state;
	bed_open(&bed, 1);
	pid = rp_worker_pid(bed.worker, 0);
	assert_ok(rp_worker_device_alloc(bed.worker, 0, LATE_BYTES, &address));
	assert_ok(bed_run(&bed, add_one, early)); /* it has started for good */
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &none, NULL), 0);
	block = late_block(0);
	fds = proc_fd_count(pid);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bed_run(&bed, add_one, block), -EMFILE);
		assert_says("could not be mapped", "Too many open files");
		assert_ok(bed_run(&bed, add_one, early));
	}
	/* Copies that name it, and copies that are staged. */
	assert_int_equal(
		rp_worker_copy_to(bed.worker, 0, address, 0, block, 0, LATE_BYTES),
		-EMFILE);
	assert_ok(rp_worker_copy_to(bed.worker, 0, address, 0, &bed, 0, sizeof(bed)));
	assert_ok(rp_worker_copy_to(bed.worker, 0, address, 0, early, 0, LATE_BYTES));
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_ok(bed_run(&bed, add_one, block));
	assert_int_equal(*(int64_t *)block, 1);
	assert_int_equal(proc_fd_count(pid), fds);
	/* Freed while it can't be read: nothing is left of it afterwards. */
	assert_ok(rp_shared_free(block));
	block = late_block(0);
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &none, NULL), 0);
	assert_int_equal(bed_run(&bed, add_one, block), -EMFILE);
	assert_ok(rp_shared_free(block));
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_ok(bed_run(&bed, add_one, early));
	assert_true(late_all_mapped(&bed, block, false));
	bed_close(&bed);
	assert_ok(rp_shared_free(early));
}

/* At the descriptor limit of the application itself nothing is needed. */
static int pass_at_the_limit(void *arg)
{
	struct rlimit limit;
	struct bed bed;
	void *block;

	(void)arg;
	bed_open(&bed, CHIPS);
	block = late_block(0);
	PROC_MUST(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = (rlim_t)proc_fd_count(getpid());
	PROC_MUST(!setrlimit(RLIMIT_NOFILE, &limit));
	while (dup(0) >= 0)
		;
	PROC_MUST(errno == EMFILE);
	PROC_MUST(!bed_run(&bed, add_on_both, block));
	PROC_MUST(*(int64_t *)block == 2);
	PROC_MUST(!rp_shared_free(block));
	bed_close(&bed);
	return 0;
}

static void an_application_at_its_descriptor_limit_can_still_pass_memory(void **state)
{
	(void)state;
	assert_int_equal(proc_in_host(pass_at_the_limit, NULL), 0);
}

static void prepare_fails_without_a_socket_and_leaves_nothing(void **state)
{
	struct rp_program *program;
	struct rp_program_desc desc;
	struct proc_census before;
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	bed_describe(&desc, "sockets", NULL, 0);
	assert_ok(rp_program_create(&desc, &program));
	bed_options(&options, 3);
	assert_ok(rp_worker_prepare(&program, 1, &options, &worker));
	rp_worker_free(worker);
	proc_census_take(&before);
	for (int n = 0; n < 3; n++) {
		late_hook_set(0, "mapper.socket", n, -EMFILE);
		assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker),
				 -EMFILE);
		assert_says("rp_worker_prepare", "a socket to worker process");
		assert_true(proc_census_same(&before));
	}
	late_hook_clear();
	rp_program_free(program);
}

/* --- Deaths ----------------------------------------------------------------------- */

/* Everything that was held is given back, whatever went wrong in between. */
static void end_and_compare(struct bed *bed, struct proc_census *before)
{
	bed_close(bed);
	assert_true(proc_census_same(before));
}

static void census_of_a_used_library(struct proc_census *out)
{
	struct bed bed;

	bed_open(&bed, CHIPS);
	bed_close(&bed);
	proc_census_take(out);
}

static void a_process_that_dies_while_it_maps_ends_the_run(void **state)
{
	struct proc_census before;
	struct bed bed;
	void *block;

	(void)state;
	census_of_a_used_library(&before);
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_options options;

		bed_options(&options, CHIPS);
		options.unified_memory = unified;
		bed_open_with(&bed, &options);
		block = late_block(0);
		late_hook_set(0, "chip.map", 0, LATE_DIE);
		assert_int_equal(bed_run(&bed, add_on_both, block), -EOWNERDEAD);
		assert_says("killed by signal 9");
		late_hook_clear();
		assert_int_equal(bed_run(&bed, add_on_both, block), -EOWNERDEAD);
		/* Nobody is left who has it. */
		assert_ok(rp_shared_free(block));
		end_and_compare(&bed, &before);
	}
}

static void a_process_that_dies_while_it_unmaps_holds_up_no_free(void **state)
{
	struct proc_census before;
	struct bed bed;
	void *block, *again;

	(void)state;
	census_of_a_used_library(&before);
	bed_open(&bed, CHIPS);
	block = late_block(0);
	assert_ok(bed_run(&bed, add_on_both, block));
	late_hook_set(0, "chip.unmap", 0, LATE_DIE);
	assert_ok(rp_shared_free(block));
	late_hook_clear();
	again = late_block(0);
	assert_int_equal(bed_run(&bed, add_on_both, again), -EOWNERDEAD);
	assert_ok(rp_shared_free(again));
	end_and_compare(&bed, &before);
}

static int add_on_chip_1(struct rp_run *run, void *arg)
{
	return TASK(run, 1, ENTRY_ADD, rp_inout(late_tensor(arg, 8)), rp_arg_i64(1));
}

static void memory_that_a_process_never_read_of_goes_with_it(void **state)
{
	struct proc_census before;
	void *blocks[8];
	int gate = 6;

	(void)state;
	census_of_a_used_library(&before);
	for (int kill_it = 0; kill_it < 2; kill_it++) {
		struct rp_handle handle;
		struct bed bed;

		atomic_store(&board->entered[6], 0);
		bed_open(&bed, CHIPS);
		assert_ok(bed_submit(&bed, hold_chip_0, &gate, &handle));
		gate_await_entered(6, 1);
		for (size_t i = 0; i < COUNT(blocks); i++) {
			blocks[i] = late_block(0);
			assert_ok(bed_run(&bed, add_on_chip_1, blocks[i]));
		}
		if (kill_it)
			kill(rp_worker_pid(bed.worker, 0), SIGKILL);
		else
			assert_int_equal(rp_worker_close(bed.worker, 0), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), -EOWNERDEAD);
		for (size_t i = 0; i < COUNT(blocks); i++)
			assert_ok(rp_shared_free(blocks[i]));
		end_and_compare(&bed, &before);
	}
}

static void killed_at_any_moment_a_worker_hangs_nobody_and_leaves_nothing(void **state)
{
	struct proc_census before;
	uint64_t seed = 42;

	(void)state;
	census_of_a_used_library(&before);
	for (int round = 0; round < 12; round++) {
		int err = 0;
		pid_t pid;
		struct bed bed;

		bed_open(&bed, CHIPS);
		pid = rp_worker_pid(bed.worker, (uint32_t)(bed_random(&seed) % PEERS));
		late_hook_set(0, "mapper.send", (int64_t)(bed_random(&seed) % 100),
			      LATE_PASS);
		for (int i = 0; !err; i++) {
			void *block = late_block(0);

			if (i == (int)(bed_random(&seed) % 8) || i > 20)
				kill(pid, SIGKILL);
			err = bed_run(&bed, add_on_both, block);
			if (!err)
				assert_int_equal(*(int64_t *)block, 2);
			assert_ok(rp_shared_free(block));
		}
		assert_int_equal(err, -EOWNERDEAD);
		end_and_compare(&bed, &before);
	}
}

static void a_stopped_process_holds_up_no_free(void **state)
{
	struct bed bed;
	void *block;
	pid_t pid;

	(void)state;
	bed_open(&bed, 1);
	pid = rp_worker_pid(bed.worker, 0);
	block = late_block(0);
	assert_ok(bed_run(&bed, add_one, block));
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_ok(rp_shared_free(block));
	assert_true(late_is_mapped(pid, block));
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_true(late_all_mapped(&bed, block, false));
	bed_close(&bed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_that_cannot_be_sent_refuses_the_dispatch_only),
		TEST(a_message_to_unmap_that_cannot_be_sent_is_sent_later),
		TEST(a_process_that_cannot_map_fails_its_task_and_tries_again),
		TEST(a_process_at_its_descriptor_limit_says_so_and_recovers),
		TEST(an_application_at_its_descriptor_limit_can_still_pass_memory),
		TEST(prepare_fails_without_a_socket_and_leaves_nothing),
		TEST(a_process_that_dies_while_it_maps_ends_the_run),
		TEST(a_process_that_dies_while_it_unmaps_holds_up_no_free),
		TEST(memory_that_a_process_never_read_of_goes_with_it),
		TEST(killed_at_any_moment_a_worker_hangs_nobody_and_leaves_nothing),
		TEST(a_stopped_process_holds_up_no_free),
	};

	return cmocka_run_group_tests_name("late_death", tests, NULL, NULL);
}
