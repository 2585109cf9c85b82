/* SPDX-License-Identifier: MIT */
/* What freeing shared memory does in the processes of a worker: it goes from all of
 * them, after the tasks that were submitted before, and nobody is harmed. */
#include "late.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"
#include "worker/worker.h"

#define CHIPS 2

struct gated {
	void *block;
	uint32_t gate;
	int32_t chip;
};

static int add_one(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_ADD, rp_inout(late_tensor(arg, 8)), rp_arg_i64(1));
}

/* Reads the block, waits, then writes it. */
static int add_behind_gate(struct rp_run *run, void *arg)
{
	const struct gated *gated = arg;

	return TASK(run, gated->chip, ENTRY_GATE, rp_inout(late_tensor(gated->block, 8)),
		    rp_arg_i64(gated->gate), rp_arg_i64(1));
}

static void freed_memory_is_refused_and_gone_from_every_process(void **state)
{
	void *early = late_block(1);
	struct bed bed;
	void *late;

	(void)state;
	bed_open(&bed, CHIPS);
	late = late_block(2);
	assert_ok(bed_run(&bed, add_one, early));
	assert_ok(bed_run(&bed, add_one, late));
	assert_true(late_all_mapped(&bed, early, true));
	assert_true(late_is_mapped(rp_worker_pid(bed.worker, 0), late));
	/* Idle processes have let go when the call returns, asleep or not. */
	assert_ok(rp_shared_free(early));
	assert_ok(rp_shared_free(late));
	for (uint32_t peer = 0; peer <= CHIPS; peer++) {
		assert_false(late_is_mapped(rp_worker_pid(bed.worker, peer), early));
		assert_false(late_is_mapped(rp_worker_pid(bed.worker, peer), late));
	}
	assert_int_equal(bed_run(&bed, add_one, early), -EFAULT);
	assert_int_equal(bed_run(&bed, add_one, late), -EFAULT);
	assert_says("not memory that the chips see");
	bed_close(&bed);
}

static void an_address_that_comes_again_is_the_new_memory(void **state)
{
	int again = 0;
	struct bed bed;
	void *last = &bed;

	(void)state;
	bed_open(&bed, CHIPS);
	for (int i = 1; i <= 50; i++) {
		void *block = late_block(0);

		again += block == last;
		*(int64_t *)block = i;
		assert_ok(bed_run(&bed, add_one, block));
		assert_int_equal(*(int64_t *)block, i + 1);
		last = block;
		assert_ok(rp_shared_free(block));
	}
	assert_true(again > 0);
	bed_close(&bed);
}

static void a_run_in_flight_keeps_memory_that_is_freed_under_it(void **state)
{
	struct gated gated = { .gate = 2 };
	struct rp_handle handle;
	void *others[8];
	struct bed bed;
	pid_t pid;

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_options options;

		late_setup(NULL);
		bed_options(&options, CHIPS);
		options.unified_memory = unified;
		bed_open_with(&bed, &options);
		pid = rp_worker_pid(bed.worker, 0);
		gated.block = late_block(0);
		assert_ok(bed_submit(&bed, add_behind_gate, &gated, &handle));
		gate_await_entered(2, 1);
		/* It does not wait for the run, nor pull the memory from it, ... */
		assert_ok(rp_shared_free(gated.block));
		assert_int_equal(rp_handle_done(handle), 0);
		assert_true(late_is_mapped(pid, gated.block));
		assert_false(late_is_mapped(getpid(), gated.block));
		/* ... and nobody gets its addresses. */
		for (size_t i = 0; i < COUNT(others); i++) {
			others[i] = late_block(0);
			assert_ptr_not_equal(others[i], gated.block);
		}
		/* Other memory comes to the busy chip behind it. */
		gate_open(2);
		assert_ok(bed_run(&bed, add_one, others[0]));
		assert_int_equal(*(int64_t *)others[0], 1);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		assert_ok(rp_handle_release(handle));
		assert_true(late_all_mapped(&bed, gated.block, false));
		for (size_t i = 0; i < COUNT(others); i++)
			assert_ok(rp_shared_free(others[i]));
		/* Settled by now: the lowest room is given out first. */
		others[0] = late_block(0);
		assert_true((uintptr_t)others[0] <= (uintptr_t)gated.block);
		assert_ok(bed_run(&bed, add_one, others[0]));
		bed_close(&bed);
		assert_ok(rp_shared_free(others[0]));
	}
}

/* --- Against the contract ------------------------------------------------------ */

static const struct rp_param param = { .name = "x",
				       .kind = RP_ARG_TENSOR,
				       .dtype = RP_INT64,
				       .access = RP_INOUT,
				       .rank = 1,
				       .shape = { 8 } };

/* The argument was checked, the tasks are not submitted yet. */
static int free_then_use(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			 void *user)
{
	struct rp_task task = { .entry = ENTRY_ADD,
				.args = (const struct rp_arg[]){ args[0], rp_arg_i64(1) },
				.arg_count = 2 };

	(void)nargs;
	if (*(bool *)user && rp_shared_free(args[0].u.tensor.data))
		return -EIO;
	return rp_run_task(run, &task);
}

static void a_task_that_names_freed_memory_fails_and_its_process_lives(void **state)
{
	static bool spoil;
	void *blocks[2];

	(void)state;
	blocks[0] = late_block(1); /* one that they inherit, one that they are given */
	for (int late = 0; late < 2; late++) {
		for (int unified = 0; unified < 2; unified++) {
			struct rp_worker_options options;
			struct rp_program_desc desc;
			struct bed bed;
			void *good;
			pid_t pid;

			bed_describe(&desc, "spoil", &param, 1);
			desc.orchestrate = free_then_use;
			desc.user = &spoil;
			bed_options(&options, 1);
			options.unified_memory = unified;
			blocks[0] = late_block(1);
			bed_prepare(&bed, &desc, &options);
			pid = rp_worker_pid(bed.worker, 0);
			blocks[1] = late_block(1);
			good = late_block(0);
			spoil = false;
			assert_ok(RUN(&bed, rp_arg_tensor(late_tensor(blocks[late], 8))));
			spoil = true;
			assert_int_equal(
				RUN(&bed, rp_arg_tensor(late_tensor(blocks[late], 8))),
				-EFAULT);
			assert_says("'add'", "chip 0", "was freed before this task");
			spoil = false;
			assert_ok(RUN(&bed, rp_arg_tensor(late_tensor(good, 8))));
			assert_int_equal(*(int64_t *)good, 1);
			assert_int_equal(rp_worker_pid(bed.worker, 0), pid);
			bed_close(&bed);
			assert_ok(rp_shared_free(good));
			assert_ok(rp_shared_free(blocks[!late]));
		}
	}
}

/* A copy that waits behind a run, whose host memory goes meanwhile. */
struct copier {
	struct bed *bed;
	void *host;
	uint64_t device;
	int err;
};

static void *copy_in(void *arg)
{
	struct copier *copier = arg;

	copier->err = rp_worker_copy_to(copier->bed->worker, 0, copier->device, 0,
					copier->host, 0, LATE_BYTES);
	return NULL;
}

static void a_copy_that_names_freed_memory_fails_and_its_process_lives(void **state)
{
	struct gated gated = { .gate = 1 };
	struct copier copier;
	struct rp_handle handle;
	pthread_t thread;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	copier = (struct copier){ .bed = &bed, .host = late_block(1) };
	assert_ok(rp_worker_device_alloc(bed.worker, 0, LATE_BYTES, &copier.device));
	copy_in(&copier);
	assert_ok(copier.err);
	gated.block = late_block(0);
	assert_ok(bed_submit(&bed, add_behind_gate, &gated, &handle));
	gate_await_entered(1, 1);
	assert_int_equal(pthread_create(&thread, NULL, copy_in, &copier), 0);
	/* Until it has sent its second command. */
	while (atomic_load(&bed.worker->command_lanes[0].commands[2].seq) != 2)
		bed_breathe();
	assert_ok(rp_shared_free(copier.host));
	gate_open(1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(copier.err, -EFAULT);
	assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
	assert_ok(rp_handle_release(handle));
	copier.host = late_block(2);
	copy_in(&copier);
	assert_ok(copier.err);
	bed_close(&bed);
	assert_ok(rp_shared_free(copier.host));
	assert_ok(rp_shared_free(gated.block));
}

/* --- Who else is there ----------------------------------------------------------- */

/* In a process that the application forked. */
static int free_in_a_child(void *arg)
{
	void **blocks = arg;
	void *own;

	/* Its own affair, with no process of its parent's worker. */
	PROC_MUST(!rp_shared_free(blocks[0]));
	PROC_MUST(!rp_shared_free(blocks[1]));
	PROC_MUST(!rp_shared_alloc(LATE_BYTES, &own));
	memset(own, 0xee, LATE_BYTES);
	/* Addresses that are free in the child at once. */
	PROC_MUST(own == blocks[0] || own == blocks[1] || own < blocks[0]);
	PROC_MUST(!rp_shared_free(own));
	return 0;
}

static void what_a_child_of_the_application_frees_stays_with_its_parent(void **state)
{
	void *blocks[2];
	struct bed bed;

	(void)state;
	blocks[0] = late_block(0);
	bed_open(&bed, CHIPS);
	blocks[1] = late_block(0);
	assert_ok(bed_run(&bed, add_one, blocks[1]));
	assert_int_equal(proc_in_host(free_in_a_child, blocks), 0);
	for (int i = 0; i < 2; i++)
		assert_ok(bed_run(&bed, add_one, blocks[i]));
	assert_int_equal(*(int64_t *)blocks[0], 1);
	assert_int_equal(*(int64_t *)blocks[1], 2);
	assert_true(late_is_mapped(rp_worker_pid(bed.worker, 0), blocks[1]));
	assert_ok(rp_shared_free(blocks[0]));
	assert_ok(rp_shared_free(blocks[1]));
	bed_close(&bed);
}

static void each_worker_has_the_regions_that_it_was_shown(void **state)
{
	struct bed first, second;
	void *both, *one;

	(void)state;
	bed_open(&first, 1);
	bed_open(&second, 1);
	both = late_block(0);
	one = late_block(0);
	assert_ok(bed_run(&first, add_one, both));
	assert_ok(bed_run(&second, add_one, both));
	assert_ok(bed_run(&first, add_one, one));
	assert_int_equal(*(int64_t *)both, 2);
	assert_true(late_is_mapped(rp_worker_pid(first.worker, 0), one));
	assert_false(late_is_mapped(rp_worker_pid(second.worker, 0), one));
	/* One ends; the other goes on with memory that both had. */
	bed_close(&first);
	assert_ok(bed_run(&second, add_one, both));
	assert_int_equal(*(int64_t *)both, 3);
	assert_ok(rp_shared_free(both));
	assert_false(late_is_mapped(rp_worker_pid(second.worker, 0), both));
	assert_ok(bed_run(&second, add_one, one));
	bed_close(&second);
	assert_ok(rp_shared_free(one));
}

static void memory_is_unmapped_in_each_of_several_workers(void **state)
{
	struct gated gated = { .gate = 4 };
	struct bed first, second;
	struct rp_handle handle;
	void *block, *others[8];
	bool again = false;

	(void)state;
	bed_open(&first, 1);
	bed_open(&second, 1);
	block = late_block(0);
	gated.block = block;
	assert_ok(bed_run(&first, add_one, block));
	assert_ok(bed_submit(&second, add_behind_gate, &gated, &handle));
	gate_await_entered(4, 1);
	assert_ok(rp_shared_free(block));
	assert_true(late_all_mapped(&first, block, false));
	assert_true(late_is_mapped(rp_worker_pid(second.worker, 0), block));
	/* The worker that still had it is closed: nobody claims it any more. Its own
	 * regions stay till it is freed, so that the lowest room is this one's. */
	gate_open(4);
	assert_ok(rp_handle_release(handle));
	assert_ok(rp_worker_close(second.worker, RP_WAIT_FOREVER));
	for (size_t i = 0; i < COUNT(others); i++) {
		others[i] = late_block(0);
		again |= others[i] == block;
		assert_ok(bed_run(&first, add_one, others[i]));
	}
	assert_true(again);
	bed_close(&first);
	bed_close(&second);
	for (size_t i = 0; i < COUNT(others); i++)
		assert_ok(rp_shared_free(others[i]));
}

/* Memory that is allocated and freed while processes are being forked: some inherit
 * it, and hear of its end before they serve. */
struct churn {
	_Atomic bool stop;
	int err;
};

static void *churn(void *arg)
{
	struct churn *life = arg;

	while (!atomic_load(&life->stop) && !life->err) {
		void *blocks[4];

		for (int i = 0; i < 4 && !life->err; i++)
			life->err =
				rp_shared_alloc_pages(8192, RP_PAGES_NEVER, &blocks[i]);
		for (int i = 0; i < 4 && !life->err; i++)
			life->err = rp_shared_free(blocks[i]);
	}
	return NULL;
}

static void memory_may_come_and_go_while_workers_start_and_end(void **state)
{
	struct churn life = { .stop = false };
	struct proc_census before;
	pthread_t thread;

	(void)state;
	/* What the first worker makes once and for all. */
	for (int i = 0; i < 2; i++) {
		struct bed bed;

		bed_open(&bed, 1);
		bed_close(&bed);
	}
	proc_census_take(&before);
	assert_int_equal(pthread_create(&thread, NULL, churn, &life), 0);
	for (int i = 0; i < 15; i++) {
		void *block = late_block(0);
		struct bed bed;

		bed_open(&bed, CHIPS);
		assert_ok(bed_run(&bed, add_one, block));
		assert_ok(rp_shared_free(block));
		block = late_block(0);
		assert_ok(bed_run(&bed, add_one, block));
		bed_close(&bed);
		assert_ok(rp_shared_free(block));
	}
	atomic_store(&life.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_ok(life.err);
	assert_true(proc_census_same(&before));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(freed_memory_is_refused_and_gone_from_every_process),
		TEST(an_address_that_comes_again_is_the_new_memory),
		TEST(a_run_in_flight_keeps_memory_that_is_freed_under_it),
		TEST(a_task_that_names_freed_memory_fails_and_its_process_lives),
		TEST(a_copy_that_names_freed_memory_fails_and_its_process_lives),
		TEST(what_a_child_of_the_application_frees_stays_with_its_parent),
		TEST(each_worker_has_the_regions_that_it_was_shown),
		TEST(memory_is_unmapped_in_each_of_several_workers),
		TEST(memory_may_come_and_go_while_workers_start_and_end),
	};

	return cmocka_run_group_tests_name("late_free", tests, NULL, NULL);
}
