/* SPDX-License-Identifier: MIT */
/* How copies wait: with every policy and engine, and with no wake-up lost. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "device.h"
#include "support.h"

#define CHIPS 2

static struct bed bed;
static _Atomic unsigned sleeps;

/* No sleep for a reply ends by itself. */
static int sleep_without_bound(const char *point)
{
	if (strcmp(point, "copier.sleep"))
		return 0;
	atomic_fetch_add(&sleeps, 1);
	return 1;
}

struct hand {
	pthread_t thread;
	uint32_t chip;
	uint64_t address;
	unsigned rounds;
	int err;
};

static void *copy_back_and_forth(void *arg)
{
	struct hand *me = arg;

	for (unsigned i = 0; i < me->rounds && !me->err; i++) {
		/* In the command, in one piece, in several. */
		static const size_t sizes[] = { 8, 64, 3000, 200000 };

		me->err = device_round_trip(bed.worker, me->chip, me->address,
					    sizes[i % COUNT(sizes)], i);
	}
	return NULL;
}

static int one_task(struct rp_run *run, void *arg)
{
	(void)arg;
	return TASK(run, 0, ENTRY_EMPTY);
}

static void copy_with(const struct rp_worker_options *options, unsigned rounds)
{
	struct hand hands[3];
	unsigned i;

	bed_open_with(&bed, options);
	/* Two threads take turns on chip 0; tasks come in between. */
	for (i = 0; i < COUNT(hands); i++) {
		hands[i] = (struct hand){ .chip = i % CHIPS, .rounds = rounds };
		if (i == 2)
			hands[i].rounds /= 2;
		assert_ok(rp_worker_device_alloc(bed.worker, hands[i].chip, MIB,
						 &hands[i].address));
		assert_int_equal(pthread_create(&hands[i].thread, NULL,
						copy_back_and_forth, &hands[i]),
				 0);
	}
	for (i = 0; i < rounds; i++)
		assert_ok(bed_run(&bed, one_task, NULL));
	for (i = 0; i < COUNT(hands); i++) {
		pthread_join(hands[i].thread, NULL);
		assert_int_equal(hands[i].err, 0);
	}
	bed_close(&bed);
}

static void no_wake_up_is_lost(void **state)
{
	static const enum rp_sleep_engine engines[] = { RP_SLEEP_AUTO, RP_SLEEP_FUTEX };
	static const struct {
		enum rp_wait_policy wait, worker_wait;
		bool may_sleep;
	} policies[] = {
		{ RP_WAIT_BLOCK, RP_WAIT_BLOCK, true },
		{ RP_WAIT_BLOCK, RP_WAIT_HYBRID, true },
		{ RP_WAIT_HYBRID, RP_WAIT_BLOCK, true },
		{ RP_WAIT_HYBRID, RP_WAIT_HYBRID, true },
		{ RP_WAIT_SPIN, RP_WAIT_BLOCK, false },
	};
	size_t engine, i;

	(void)state;
	rpi_test_hook = sleep_without_bound;
	for (engine = 0; engine < COUNT(engines); engine++) {
		for (i = 0; i < COUNT(policies); i++) {
			struct rp_worker_options options;

			bed_options(&options, CHIPS);
			options.wait = policies[i].wait;
			options.worker_wait = policies[i].worker_wait;
			options.sleep_engine = engines[engine];
			atomic_store(&sleeps, 0);
			copy_with(&options, 200);
			print_message("engine %d, wait %d and %d: %u sleeps\n",
				      (int)engines[engine], (int)policies[i].wait,
				      (int)policies[i].worker_wait, sleeps);
			if (!policies[i].may_sleep)
				assert_int_equal(sleeps, 0);
		}
	}
	rpi_test_hook = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_wake_up_is_lost, bed_setup,
						bed_teardown),
	};

	return cmocka_run_group_tests_name("test_copy_wait", tests, NULL, NULL);
}
