/* SPDX-License-Identifier: MIT */
/* Many threads press on a small queue, some of them beside a close. */
#include "job.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"

enum {
	CROWD = 4,
	EACH = 400,
	AHEAD = 6
};

struct crowd_member {
	pthread_t thread;
	struct bed *bed;
	uint64_t number;
	uint64_t seed;
	uint64_t accepted;
	uint64_t refused; /* by a close */
	int wrong;
	struct job jobs[EACH];
};

static int want_of(const struct job *job)
{
	return job->status;
}

static void settle(struct crowd_member *member, struct job *job)
{
	static const int64_t timeouts[] = { 0, 20000, RP_WAIT_FOREVER };
	int status;

	do {
		status = rp_handle_wait(job->handle,
					timeouts[bed_random(&member->seed) % 3]);
	} while (status == -ETIMEDOUT);
	if (status != want_of(job) && !member->wrong)
		member->wrong = status ? status : 1;
	rp_handle_release(job->handle);
}

static void *press(void *arg)
{
	static int (*const kinds[])(struct rp_run *, struct job *) = {
		job_note, job_note,	    job_note,	  job_nothing,
		job_say,  job_fail_in_chip, job_fail_late
	};
	struct crowd_member *member = arg;
	uint64_t settled = 0;

	for (uint64_t i = 0; i < EACH; i++) {
		uint64_t kind = bed_random(&member->seed) % COUNT(kinds);
		struct job *job = &member->jobs[i];
		int err;

		*job = (struct job){ .fn = kinds[kind],
				     .status = kind < 4 ? 0 : -EDOM,
				     .number = member->number << 16 | i };
		if (bed_random(&member->seed) % 4 == 0 && settled == i) {
			struct rp_arg arg_of = job_arg(job);

			err = rp_worker_run(member->bed->worker, NULL, &arg_of, 1, NULL);
			if (err == -ESHUTDOWN)
				break;
			if (err != want_of(job))
				member->wrong = err ? err : 1;
			member->accepted++;
			settled = i + 1;
			continue;
		}
		err = job_submit(member->bed, job);
		if (err == -ESHUTDOWN)
			break;
		if (err) {
			member->wrong = err;
			break;
		}
		member->accepted++;
		while (settled < i + 1 &&
		       (i + 1 - settled > AHEAD || bed_random(&member->seed) % 3 == 0))
			settle(member, &member->jobs[settled++]);
	}
	while (settled < member->accepted)
		settle(member, &member->jobs[settled++]);
	return NULL;
}

/* Each member's notes stand in the order of its submits. */
static void check_order(void)
{
	uint64_t count = atomic_load(&board->note_count);
	uint32_t last[CROWD] = { 0 };

	assert_true(count < BOARD_NOTES);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t member = board->notes[i].word >> 16;

		assert_true(member < CROWD);
		assert_true(board->notes[i].word >= last[member]);
		last[member] = board->notes[i].word;
	}
}

static void crowd(uint32_t queue, uint32_t chips, int64_t close_after_us)
{
	struct crowd_member *members = calloc(CROWD, sizeof(*members));
	uint64_t accepted = 0;
	struct bed bed;

	assert_non_null(members);
	memset((void *)board, 0, sizeof(*board));
	job_open(&bed, chips, queue);
	for (uint64_t i = 0; i < CROWD; i++) {
		members[i].bed = &bed;
		members[i].number = i;
		members[i].seed = queue * 100 + chips * 10 + i;
		assert_int_equal(
			pthread_create(&members[i].thread, NULL, press, &members[i]), 0);
	}
	if (close_after_us >= 0) {
		int err;

		proc_pause_us((unsigned)close_after_us);
		err = rp_worker_close(bed.worker, RP_WAIT_FOREVER);
		if (err)
			assert_int_equal(err, -EDOM);
	}
	for (int i = 0; i < CROWD; i++) {
		pthread_join(members[i].thread, NULL);
		assert_int_equal(members[i].wrong, 0);
		accepted += members[i].accepted;
	}
	if (close_after_us < 0)
		assert_int_equal(accepted, CROWD * EACH);
	assert_int_equal(bed_stats(&bed).dispatches, accepted);
	if (chips == 1)
		check_order();
	bed_close(&bed);
	free(members);
}

static void a_crowd_presses_on_a_small_queue(void **state)
{
	(void)state;
	crowd(1, 1, -1);
	crowd(2, 1, -1);
	crowd(2, 2, -1);
	crowd(16, 1, -1);
}

static void a_close_beside_a_crowd_runs_or_refuses_each(void **state)
{
	(void)state;
	for (int round = 0; round < 12; round++)
		crowd(2, 1 + (uint32_t)round % 2, round * 1500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_crowd_presses_on_a_small_queue),
		TEST(a_close_beside_a_crowd_runs_or_refuses_each),
	};

	return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}
