/* SPDX-License-Identifier: MIT */
/*
 * The table of outcomes: a slot belongs to its run and to its user until both have let
 * go, and whoever comes with an old handle afterwards is told so.
 */
#include "dispatch/handles.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

static int outcome(struct rpi_handles *handles, uint64_t run, int *status_out)
{
	*status_out = 12345;
	return rpi_handles_outcome(handles, run, status_out);
}

static void a_zeroed_handle_names_nothing(void **state)
{
	struct rpi_handles handles;
	uint32_t idx;
	int status;

	(void)state;
	assert_ok(rpi_handles_init(&handles, 4));
	assert_null(rpi_handles_find(&handles, 0, &idx));
	assert_int_equal(outcome(&handles, 0, &status), -ESTALE);
	assert_int_equal(rpi_handles_release(&handles, 0), -ESTALE);
	/* An index past the end, a generation that never was. */
	assert_int_equal(rpi_handles_release(&handles, 4), -ESTALE);
	assert_int_equal(rpi_handles_release(&handles, UINT32_MAX), -ESTALE);
	assert_int_equal(rpi_handles_release(&handles, UINT64_MAX), -ESTALE);
	/* The right one, that nobody holds. */
	assert_int_equal(rpi_handles_release(&handles, UINT64_C(1) << 32), -ESTALE);
	rpi_handles_fini(&handles);
}

/* Ends and releases in both orders, with and without an error. */
static void both_sides_let_go_in_either_order(void **state)
{
	(void)state;
	for (int which = 0; which < 4; which++) {
		bool release_first = which & 1;
		int want = which & 2 ? -EIO : 0;
		struct rpi_handles handles;
		uint64_t run, next;
		uint32_t idx, found, other;
		int status;

		assert_ok(rpi_handles_init(&handles, 2));
		assert_ok(rpi_handles_take(&handles, true, &idx, &run));
		assert_int_equal(rpi_handles_word(&handles, idx), run);
		assert_non_null(rpi_handles_find(&handles, run, &found));
		assert_int_equal(found, idx);
		assert_int_equal(outcome(&handles, run, &status), 0);
		if (!release_first) {
			rpi_handles_finish(&handles, idx, want, "it broke");
			for (int i = 0; i < 3; i++) {
				assert_int_equal(outcome(&handles, run, &status), 1);
				assert_int_equal(status, want);
			}
			if (want)
				assert_says("it broke");
			assert_int_equal(rpi_handles_release(&handles, run), 0);
		} else {
			assert_int_equal(rpi_handles_release(&handles, run), 0);
			/* The run still holds the slot: the other one is handed out. */
			assert_ok(rpi_handles_take(&handles, true, &other, &next));
			assert_int_not_equal(other, idx);
			rpi_handles_finish(&handles, idx, want, "it broke");
		}
		assert_int_equal(rpi_handles_release(&handles, run), -ESTALE);
		assert_int_equal(outcome(&handles, run, &status), -ESTALE);
		assert_null(rpi_handles_find(&handles, run, &found));
		/* The slot's next owner is not taken for the last one. */
		assert_ok(rpi_handles_take(&handles, true, &other, &next));
		assert_int_equal(other, idx);
		assert_int_not_equal(next, run);
		assert_int_equal(rpi_handles_release(&handles, run), -ESTALE);
		rpi_handles_fini(&handles);
	}
}

static void all_slots_can_be_taken_and_not_one_more(void **state)
{
	static const uint32_t counts[] = { 2, 3, 64 };

	(void)state;
	for (size_t k = 0; k < COUNT(counts); k++) {
		struct rpi_handles handles;
		uint64_t runs[64];
		uint32_t idx[64], none;
		uint64_t none_run;
		char number[32];

		assert_ok(rpi_handles_init(&handles, counts[k]));
		for (int round = 0; round < 3; round++) {
			for (uint32_t i = 0; i < counts[k]; i++)
				assert_ok(rpi_handles_take(&handles, true, &idx[i],
							   &runs[i]));
			assert_int_equal(
				rpi_handles_take(&handles, true, &none, &none_run),
				-ENOSPC);
			snprintf(number, sizeof(number), "all %u handles", counts[k]);
			assert_says("handle_count", "rp_handle_release()", number);
			for (uint32_t i = 0; i < counts[k]; i++) {
				rpi_handles_finish(&handles, idx[i], 0, NULL);
				/* Ended, but the user still holds it. */
				assert_int_equal(rpi_handles_take(&handles, true, &none,
								  &none_run),
						 -ENOSPC);
				assert_int_equal(rpi_handles_release(&handles, runs[i]),
						 0);
				assert_ok(rpi_handles_take(&handles, true, &idx[i],
							   &runs[i]));
			}
			for (uint32_t i = 0; i < counts[k]; i++)
				rpi_handles_cancel(&handles, idx[i]);
		}
		rpi_handles_fini(&handles);
	}
}

static void a_run_without_a_handle_is_settled_by_the_one_who_waits(void **state)
{
	struct rpi_handles handles;
	uint64_t run;
	uint32_t idx, first;

	(void)state;
	assert_ok(rpi_handles_init(&handles, 2));
	for (int i = 0; i < 10; i++) {
		assert_ok(rpi_handles_take(&handles, false, &idx, &run));
		if (!i)
			first = idx;
		/* No user may have this word. */
		assert_int_equal(rpi_handles_release(&handles, run), -ESTALE);
		rpi_handles_finish(&handles, idx, i & 1 ? -EIO : 0, "it broke again");
		assert_int_equal(rpi_handles_settle(&handles, idx), i & 1 ? -EIO : 0);
		if (i & 1)
			assert_says("it broke again");
		assert_int_equal(idx, first);
	}
	rpi_handles_fini(&handles);
}

static void generations_skip_the_one_that_is_nobodys(void **state)
{
	struct rpi_handles handles;
	uint64_t run;
	uint32_t idx;

	(void)state;
	assert_ok(rpi_handles_init(&handles, 1));
	atomic_store(&handles.slots[0].word, (uint64_t)UINT32_MAX << 32);
	assert_ok(rpi_handles_take(&handles, true, &idx, &run));
	rpi_handles_finish(&handles, idx, 0, NULL);
	assert_int_equal(rpi_handles_release(&handles, run), 0);
	assert_ok(rpi_handles_take(&handles, true, &idx, &run));
	assert_int_not_equal(run >> 32, 0);
	assert_int_equal(rpi_handles_release(&handles, 0), -ESTALE);
	rpi_handles_fini(&handles);
}

/* --- Against a model ----------------------------------------------------- */

struct model {
	uint64_t run;
	uint32_t idx;
	int status;
	bool user, running, done;
};

static void random_lives_agree_with_a_model(void **state)
{
	enum {
		SLOTS = 7,
		LIVES = 64,
		STEPS = 40000
	};
	static struct model lives[LIVES];
	uint64_t seed = 7;
	struct rpi_handles handles;
	uint32_t held = 0;

	(void)state;
	memset(lives, 0, sizeof(lives));
	assert_ok(rpi_handles_init(&handles, SLOTS));
	for (int step = 0; step < STEPS; step++) {
		struct model *life = &lives[bed_random(&seed) % LIVES];
		int status;

		switch (bed_random(&seed) % 5) {
		case 0: { /* take, in the place of a life that is over */
			int err;

			if (life->user || life->running)
				break;
			err = rpi_handles_take(&handles, true, &life->idx, &life->run);
			assert_int_equal(err, held < SLOTS ? 0 : -ENOSPC);
			if (err) {
				life->run = 0;
				break;
			}
			held++;
			life->user = life->running = true;
			life->done = false;
			for (int i = 0; i < LIVES; i++)
				assert_false(&lives[i] != life &&
					     lives[i].run == life->run);
			break;
		}
		case 1: /* the run ends */
			if (!life->running)
				break;
			life->status = bed_random(&seed) % 2 ? -(int)life->idx - 1 : 0;
			rpi_handles_finish(&handles, life->idx, life->status, "text");
			life->running = false;
			life->done = true;
			held -= !life->user;
			break;
		case 2: /* the user releases, perhaps not for the first time */
			assert_int_equal(rpi_handles_release(&handles, life->run),
					 life->user ? 0 : -ESTALE);
			if (!life->user)
				break;
			life->user = false;
			held -= !life->running;
			break;
		default: /* and asks */
			assert_int_equal(outcome(&handles, life->run, &status),
					 life->user ? life->done : -ESTALE);
			if (life->user && life->done)
				assert_int_equal(status, life->status);
		}
	}
	rpi_handles_fini(&handles);
}

/* --- Threads ------------------------------------------------------------- */

#define POST_SLOTS 8

/* A submitter takes, a collector ends, users ask and release. Each takes a run from
 * the post of the step before by exchange; 0 is an empty box. */
struct factory {
	struct rpi_handles handles;
	_Atomic uint64_t running[POST_SLOTS];
	_Atomic uint64_t held[POST_SLOTS];
	_Atomic uint64_t taken, ended, released, mistakes;
	uint64_t goal;
};

static int status_of(uint64_t run)
{
	return run % 3 ? 0 : -1 - (int)(run % 100);
}

static void post(_Atomic uint64_t *boxes, uint64_t run, uint64_t *seed)
{
	for (;;) {
		uint64_t empty = 0;

		if (atomic_compare_exchange_strong(&boxes[bed_random(seed) % POST_SLOTS],
						   &empty, run))
			return;
		sched_yield();
	}
}

static uint64_t collect(_Atomic uint64_t *boxes, uint64_t *seed)
{
	return atomic_exchange(&boxes[bed_random(seed) % POST_SLOTS], 0);
}

static void *submit_runs(void *arg)
{
	struct factory *factory = arg;
	uint64_t seed = 1;
	uint64_t run;
	uint32_t idx;

	while (atomic_load(&factory->taken) < factory->goal) {
		if (rpi_handles_take(&factory->handles, true, &idx, &run)) {
			sched_yield();
			continue;
		}
		atomic_fetch_add(&factory->taken, 1);
		post(factory->running, run, &seed);
		post(factory->held, run, &seed);
	}
	return NULL;
}

static void *end_runs(void *arg)
{
	struct factory *factory = arg;
	uint64_t seed = 2;

	while (atomic_load(&factory->ended) < factory->goal) {
		uint64_t run = collect(factory->running, &seed);
		char text[32];

		if (!run) {
			sched_yield();
			continue;
		}
		snprintf(text, sizeof(text), "%" PRIu64, run);
		rpi_handles_finish(&factory->handles, (uint32_t)run, status_of(run),
				   text);
		atomic_fetch_add(&factory->ended, 1);
	}
	return NULL;
}

static void *use_handles(void *arg)
{
	struct factory *factory = arg;
	uint64_t seed = (uint64_t)(uintptr_t)&seed;

	while (atomic_load(&factory->released) < factory->goal) {
		uint64_t run = collect(factory->held, &seed);
		char text[32];
		int status = 0;
		int ret;

		if (!run) {
			sched_yield();
			continue;
		}
		ret = rpi_handles_outcome(&factory->handles, run, &status);
		snprintf(text, sizeof(text), "%" PRIu64, run);
		if (ret < 0 || (ret && status != status_of(run)) ||
		    (ret && status && strcmp(text, rp_last_error())))
			atomic_fetch_add(&factory->mistakes, 1);
		if (!ret && bed_random(&seed) % 4) {
			post(factory->held, run, &seed);
			continue;
		}
		if (rpi_handles_release(&factory->handles, run) ||
		    rpi_handles_release(&factory->handles, run) != -ESTALE)
			atomic_fetch_add(&factory->mistakes, 1);
		atomic_fetch_add(&factory->released, 1);
	}
	return NULL;
}

static void threads_that_take_end_and_release_lose_no_slot(void **state)
{
	static struct factory factory;
	pthread_t threads[4];
	uint64_t run;
	uint32_t idx;

	(void)state;
	memset(&factory, 0, sizeof(factory));
	factory.goal = 4000;
	assert_ok(rpi_handles_init(&factory.handles, 5));
	assert_int_equal(pthread_create(&threads[0], NULL, submit_runs, &factory), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, end_runs, &factory), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, use_handles, &factory), 0);
	assert_int_equal(pthread_create(&threads[3], NULL, use_handles, &factory), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(factory.mistakes, 0);
	assert_int_equal(factory.ended, factory.goal);
	for (int i = 0; i < 5; i++)
		assert_ok(rpi_handles_take(&factory.handles, true, &idx, &run));
	assert_int_equal(rpi_handles_take(&factory.handles, true, &idx, &run), -ENOSPC);
	rpi_handles_fini(&factory.handles);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_zeroed_handle_names_nothing),
		cmocka_unit_test(both_sides_let_go_in_either_order),
		cmocka_unit_test(all_slots_can_be_taken_and_not_one_more),
		cmocka_unit_test(a_run_without_a_handle_is_settled_by_the_one_who_waits),
		cmocka_unit_test(generations_skip_the_one_that_is_nobodys),
		cmocka_unit_test(random_lives_agree_with_a_model),
		cmocka_unit_test_setup_teardown(
			threads_that_take_end_and_release_lose_no_slot, bed_setup,
			bed_teardown),
	};

	return cmocka_run_group_tests_name("handles", tests, NULL, NULL);
}
