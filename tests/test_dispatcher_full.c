/* SPDX-License-Identifier: MIT */
/* A dispatcher's queue that is full, and what ends it: close, its deadline, a death. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "job.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/testing.h"
#include "proc.h"

/* --- A full queue ------------------------------------------------------------------ */

static void a_full_queue_blocks_in_order_of_arrival(void **state)
{
	enum {
		BLOCKED = 3
	};
	struct submitter submitters[BLOCKED];
	struct job held, queued[2];
	_Atomic uint32_t go = 0;
	struct bed bed;

	(void)state;
	memset(submitters, 0, sizeof(submitters));
	job_open(&bed, 1, 2);
	job_hold_dispatcher(&bed, &held, &go);
	for (uint64_t i = 0; i < 2; i++) {
		queued[i] = (struct job){ .fn = job_note, .number = i };
		assert_ok(job_submit(&bed, &queued[i]));
	}
	assert_int_equal(bed_stats(&bed).queue_full_waits, 0);
	for (uint64_t i = 0; i < BLOCKED; i++) {
		submitters[i].job.number = 2 + i;
		submitter_start(&submitters[i], &bed);
		submitter_await_blocked(&submitters[i], 1 + i);
	}
	atomic_store(&go, 1);
	for (int i = 0; i < BLOCKED; i++) {
		pthread_join(submitters[i].thread, NULL);
		assert_int_equal(submitters[i].status, 0);
		assert_ok(job_outcome(&submitters[i].job));
	}
	assert_ok(job_outcome(&queued[0]));
	assert_ok(job_outcome(&queued[1]));
	for (uint32_t i = 0; i < 2 + BLOCKED; i++)
		assert_int_equal(board->notes[i].word, i);
	bed_close(&bed);
}

static void *close_in_thread(void *arg)
{
	return (void *)(intptr_t)rp_worker_close(arg, RP_WAIT_FOREVER);
}

static void close_drains_the_queue_and_refuses_who_waits_for_it(void **state)
{
	struct submitter submitters[2];
	struct job held, queued[2], late = { .fn = job_note };
	_Atomic uint32_t go = 0;
	pthread_t closer;
	struct bed bed;

	(void)state;
	memset(submitters, 0, sizeof(submitters));
	job_open(&bed, 1, 2);
	job_hold_dispatcher(&bed, &held, &go);
	for (uint64_t i = 0; i < 2; i++) {
		queued[i] = (struct job){ .fn = job_note, .number = i };
		assert_ok(job_submit(&bed, &queued[i]));
	}
	for (uint64_t i = 0; i < 2; i++) {
		submitter_start(&submitters[i], &bed);
		submitter_await_blocked(&submitters[i], 1 + i);
	}
	assert_int_equal(pthread_create(&closer, NULL, close_in_thread, bed.worker), 0);
	/* While the dispatcher is still held. */
	for (int i = 0; i < 2; i++) {
		pthread_join(submitters[i].thread, NULL);
		assert_int_equal(submitters[i].status, -ESHUTDOWN);
	}
	assert_int_equal(job_submit(&bed, &late), -ESHUTDOWN);
	assert_int_equal(rp_handle_done(queued[1].handle), 0);
	atomic_store(&go, 1);
	pthread_join(closer, NULL);
	assert_ok(rp_handle_wait(held.handle, 0));
	for (uint32_t i = 0; i < 2; i++) {
		assert_ok(rp_handle_wait(queued[i].handle, 0));
		assert_int_equal(board->notes[i].word, i);
	}
	assert_int_equal(job_find_thread("rp-dispatcher"), 0);
	bed_close(&bed);
}

/* --- Bad ends ---------------------------------------------------------------------- */

enum {
	DOOMED = 6
};

/* One in a chip that never comes back, one behind it in the other frame, one that the
 * dispatcher has in hand, three in the queue, and one that waits for room. */
struct doom {
	struct job jobs[DOOMED + 1];
	int accepted;
	struct submitter blocked;
	struct waiter waiters[DOOMED];
};

static void doom_open(struct bed *bed, struct doom *doom)
{
	memset(doom, 0, sizeof(*doom));
	job_open(bed, 2, 4);
	for (int i = 0; i < DOOMED; i++) {
		doom->jobs[i] = (struct job){ .fn = i ? job_note : job_gate,
					      .number = (uint64_t)i };
		assert_ok(job_submit(bed, &doom->jobs[i]));
		if (!i)
			gate_await_entered(0, 1);
	}
	submitter_start(&doom->blocked, bed);
	submitter_await_blocked(&doom->blocked, 1);
	for (int i = 0; i < DOOMED; i++) {
		waiter_start(&doom->waiters[i], &doom->jobs[i]);
	}
}

static void doom_check(struct doom *doom, int blocked, const char *says)
{
	pthread_join(doom->blocked.thread, NULL);
	/* It may have got the place of one that ended; then it ends as they do. */
	if (doom->blocked.status) {
		assert_int_equal(doom->blocked.status, blocked);
	} else {
		assert_int_equal(job_outcome(&doom->blocked.job), -EOWNERDEAD);
	}
	for (int i = 0; i < DOOMED; i++) {
		int status;

		pthread_join(doom->waiters[i].thread, NULL);
		status = doom->waiters[i].status;
		/* The one on the other chip may have made it. */
		if (i == 1 && !status)
			continue;
		assert_int_equal(status, -EOWNERDEAD);
		assert_int_equal(rp_handle_wait(doom->jobs[i].handle, 0), -EOWNERDEAD);
		assert_says(says);
	}
}

static void a_death_ends_what_is_queued_and_who_waits(void **state)
{
	struct job late = { .fn = job_note };
	struct pollfd poller;
	struct doom doom;
	struct bed bed;

	(void)state;
	for (int round = 0; round < 6; round++) {
		memset((void *)board, 0, sizeof(*board));
		doom_open(&bed, &doom);
		poller = (struct pollfd){ .fd = rp_worker_fd(bed.worker),
					  .events = POLLIN };
		assert_int_equal(
			kill(rp_worker_pid(bed.worker, round % 2 ? 1u : 0u), SIGKILL), 0);
		doom_check(&doom, -EOWNERDEAD, "killed by signal 9");
		assert_int_equal(poll(&poller, 1, 60000), 1);
		assert_int_equal(job_submit(&bed, &late), -EOWNERDEAD);
		assert_int_equal(RUN(&bed, job_arg(&late)), -EOWNERDEAD);
		bed_close(&bed);
	}
}

/* Who waits for room hears of a death at once, also while nothing makes room. */
static void a_death_ends_who_waits_behind_a_slow_orchestration(void **state)
{
	struct submitter blocked[2];
	struct job held, queued[2];
	_Atomic uint32_t go = 0;
	struct bed bed;

	(void)state;
	memset(blocked, 0, sizeof(blocked));
	job_open(&bed, 1, 2);
	job_hold_dispatcher(&bed, &held, &go);
	for (int i = 0; i < 2; i++) {
		queued[i] = (struct job){ .fn = job_note };
		assert_ok(job_submit(&bed, &queued[i]));
	}
	for (uint64_t i = 0; i < 2; i++) {
		submitter_start(&blocked[i], &bed);
		submitter_await_blocked(&blocked[i], 1 + i);
	}
	assert_int_equal(kill(rp_worker_pid(bed.worker, 0), SIGKILL), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(blocked[i].thread, NULL);
		assert_int_equal(blocked[i].status, -EOWNERDEAD);
	}
	atomic_store(&go, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(job_outcome(&queued[i]), -EOWNERDEAD);
	bed_close(&bed);
}

static void the_deadline_of_close_ends_the_queue(void **state)
{
	struct job late = { .fn = job_note };
	struct doom doom;
	struct bed bed;

	(void)state;
	for (int round = 0; round < 4; round++) {
		memset((void *)board, 0, sizeof(*board));
		doom_open(&bed, &doom);
		assert_int_equal(rp_worker_close(bed.worker, round * 5000000),
				 -ETIMEDOUT);
		doom_check(&doom, -ESHUTDOWN, "deadline of rp_worker_close()");
		assert_int_equal(job_submit(&bed, &late), -ESHUTDOWN);
		assert_int_equal(rp_worker_close(bed.worker, 0), 0);
		bed_close(&bed);
	}
}

static void free_without_close_ends_the_queue(void **state)
{
	struct proc_census before;
	struct job jobs[5];
	struct bed bed;

	(void)state;
	proc_census_take(&before);
	for (int round = 0; round < 3; round++) {
		memset((void *)board, 0, sizeof(*board));
		job_open(&bed, 1, 4);
		for (int i = 0; i < 5; i++) {
			jobs[i] = (struct job){ .fn = i ? job_note : job_gate };
			assert_ok(job_submit(&bed, &jobs[i]));
		}
		rp_worker_free(bed.worker);
		rp_program_free(bed.program);
		for (int i = 0; i < 5; i++)
			assert_int_equal(rp_handle_wait(jobs[i].handle, 0), -ESTALE);
	}
	assert_true(proc_census_same(&before));
}

static int job_reenter(struct rp_run *run, struct job *job)
{
	struct job inner = { .fn = job_note };
	struct rp_handle handle;
	struct rp_arg arg = job_arg(&inner);

	(void)run;
	job->heard[0] = rp_worker_submit(job->bed->worker, NULL, &arg, 1, NULL, &handle);
	job->heard[1] = rp_worker_run(job->bed->worker, NULL, &arg, 1, NULL);
	job->heard[2] = rp_worker_close(job->bed->worker, RP_WAIT_FOREVER);
	/* One that is queued behind this. */
	while (!atomic_load(job->go))
		bed_breathe();
	job->heard[3] = rp_handle_wait(job->handle, RP_WAIT_FOREVER);
	return rp_handle_wait(job->handle, 1000000) == -ETIMEDOUT ? 0 : -EINVAL;
}

static void an_orchestration_cannot_wait_for_itself(void **state)
{
	_Atomic uint32_t go = 0;
	struct job outer = { .fn = job_reenter, .go = &go }, behind = { .fn = job_note };
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	job_open(&bed, 1, 0);
	outer.bed = &bed;
	assert_ok(SUBMIT(&bed, &handle, job_arg(&outer)));
	assert_ok(job_submit(&bed, &behind));
	outer.handle = behind.handle;
	atomic_store(&go, 1);
	assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
	for (int i = 0; i < 4; i++)
		assert_int_equal(outer.heard[i], -EDEADLK);
	assert_ok(job_outcome(&behind));
	bed_close(&bed);
}

static int fail_third_fork(const char *point)
{
	static int forks;

	return !strcmp(point, "process.fork") && ++forks % 2 == 0 ? -EAGAIN : 0;
}

static void a_prepare_that_fails_leaves_no_thread(void **state)
{
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct proc_census before;
	struct rp_program *program;
	struct rp_worker *worker;

	(void)state;
	bed_options(&options, 2);
	options.dispatcher = true;
	job_describe(&desc);
	assert_ok(rp_program_create(&desc, &program));
	proc_census_take(&before);
	rpi_test_hook = fail_third_fork;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EAGAIN);
	rpi_test_hook = NULL;
	assert_true(proc_census_same(&before));
	rp_program_free(program);
}

static void a_child_of_the_host_disturbs_nothing(void **state)
{
	struct job held, job = { .fn = job_note, .number = 5 };
	_Atomic uint32_t go = 0;
	struct bed bed;
	int status;
	pid_t child;

	(void)state;
	job_open(&bed, 1, 0);
	job_hold_dispatcher(&bed, &held, &go);
	assert_ok(job_submit(&bed, &job));
	child = fork();
	assert_true(child >= 0);
	if (!child)
		exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	atomic_store(&go, 1);
	assert_ok(job_outcome(&job));
	assert_int_equal(board->notes[0].word, 5);
	bed_close(&bed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_full_queue_blocks_in_order_of_arrival),
		TEST(close_drains_the_queue_and_refuses_who_waits_for_it),
		TEST(a_death_ends_what_is_queued_and_who_waits),
		TEST(a_death_ends_who_waits_behind_a_slow_orchestration),
		TEST(the_deadline_of_close_ends_the_queue),
		TEST(free_without_close_ends_the_queue),
		TEST(an_orchestration_cannot_wait_for_itself),
		TEST(a_prepare_that_fails_leaves_no_thread),
		TEST(a_child_of_the_host_disturbs_nothing),
	};

	return cmocka_run_group_tests_name("dispatcher_full", tests, NULL, NULL);
}
