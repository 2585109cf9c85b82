/* SPDX-License-Identifier: MIT */
/* Fewer CPUs than processes: when a spin gives its CPU away, and to whom. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "chip/server.h"
#include "completion/spin.h"
#include "dispatch/frame.h"

#define US(n) ((uint64_t)(n)*1000u)
#define LOOKS 1000u

static unsigned yields;

/* Instead of the C library's. */
int sched_yield(void)
{
	yields++;
	return 0;
}

/* Spins for so many looks at the clock; how often it gave the CPU away. */
static unsigned yields_of(bool crowded, uint32_t yield_ns, unsigned looks)
{
	struct rpi_spin_wait wait;
	struct rpi_spin spin;

	rpi_spin_init(&spin, RPI_SPIN_ALWAYS, 0, 0, crowded);
	yields = 0;
	rpi_spin_begin(&wait, &spin);
	assert_int_equal(wait.yield_ns, RPI_SPIN_CROWDED_NS);
	wait.yield_ns = yield_ns;
	for (unsigned i = 0; i < looks * RPI_SPIN_TURNS; i++)
		assert_true(rpi_spin_again(&wait));
	return yields;
}

static void who_has_a_cpu_keeps_it(void **state)
{
	(void)state;
	assert_int_equal(yields_of(false, RPI_SPIN_CROWDED_NS, LOOKS), 0);
	assert_int_equal(yields_of(false, 0, LOOKS), 0);
}

static void it_goes_to_a_neighbour_at_each_look_at_the_clock(void **state)
{
	(void)state;
	assert_int_equal(yields_of(true, 0, 1), 1);
	assert_int_equal(yields_of(true, 0, LOOKS), LOOKS);
}

/* Not at the first look, and no more often than the time allows, however long it took. */
static void it_goes_to_others_now_and_then(void **state)
{
	static const uint32_t periods[] = { RPI_SPIN_CROWDED_NS, RPI_SPIN_ALONE_NS };

	(void)state;
	for (size_t i = 0; i < COUNT(periods); i++) {
		uint64_t begin_ns = rpi_now_ns(), passed_ns;
		unsigned got = yields_of(true, periods[i], 20 * LOOKS);

		passed_ns = rpi_now_ns() - begin_ns;
		/* One part in a hundred for the calibration. */
		assert_true((uint64_t)got * periods[i] <= passed_ns + passed_ns / 100);
		assert_true(got > 0);
	}
}

/* What sleeps after its budget has given way meanwhile. */
static void it_goes_before_a_sleep(void **state)
{
	struct rpi_spin_wait wait;
	struct rpi_spin spin;

	(void)state;
	rpi_spin_init(&spin, RPI_SPIN_HYBRID, 0, 0, true);
	assert_int_equal(rpi_spin_budget(&spin), RPI_SPIN_MIN_NS);
	yields = 0;
	rpi_spin_begin(&wait, &spin);
	wait.yield_ns = 0;
	while (rpi_spin_again(&wait))
		;
	assert_int_equal(yields, wait.turn_count / RPI_SPIN_TURNS - 1);
	rpi_spin_end(&wait, true);
	yields = 0;
	rpi_spin_init(&spin, RPI_SPIN_NEVER, 0, 0, true);
	rpi_spin_begin(&wait, &spin);
	assert_false(rpi_spin_again(&wait));
	assert_int_equal(yields, 0);
}

enum {
	PARENT,
	CHIP,
	OTHER,
	PARKS
};

/* One process's view of a worker of two chips. */
struct crowd {
	struct rpi_park_block *blocks;
	struct rpi_park parks[PARKS];
	struct rp_chip *chip;
};

static struct crowd crowd_new(void)
{
	struct crowd crowd = { .chip = calloc(1, sizeof(*crowd.chip)) };

	crowd.blocks = aligned_alloc(RPI_SHARE_ALIGN, PARKS * sizeof(*crowd.blocks));
	assert_non_null(crowd.blocks);
	assert_non_null(crowd.chip);
	for (int i = 0; i < PARKS; i++)
		assert_ok(rpi_park_create(&crowd.parks[i], RPI_PARK_FUTEX,
					  &crowd.blocks[i]));
	return crowd;
}

static void crowd_free(struct crowd *crowd)
{
	for (int i = 0; i < PARKS; i++)
		rpi_park_destroy(&crowd->parks[i]);
	free(crowd->blocks);
	free(crowd->chip);
}

static int here(void)
{
	cpu_set_t set;
	int cpu = sched_getcpu();

	/* And stay. */
	assert_true(cpu >= 0);
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
	return cpu;
}

static void neighbours_are_those_awake_on_the_same_cpu(void **state)
{
	struct crowd crowd = crowd_new();
	struct rpi_park *mine = &crowd.parks[CHIP], *other = &crowd.parks[OTHER];
	cpu_set_t all;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	here();
	rpi_park_sit(mine);
	assert_false(rpi_park_beside(mine, other)); /* it has never waited */
	rpi_park_sit(other);
	assert_true(rpi_park_beside(mine, other));
	atomic_store(&crowd.blocks[OTHER].asleep, 1);
	assert_false(rpi_park_beside(mine, other));
	atomic_store(&crowd.blocks[OTHER].asleep, 0);
	assert_true(rpi_park_beside(mine, other));
	atomic_fetch_add(&crowd.blocks[OTHER].cpu, 1);
	assert_false(rpi_park_beside(mine, other));
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	crowd_free(&crowd);
}

/* A chip gives way to whom it waits for, and to nobody else. */
static void a_chip_gives_way_to_whom_it_waits_for(void **state)
{
	struct crowd crowd = crowd_new();
	struct rp_chip *chip = crowd.chip;
	const uint64_t other = UINT64_C(1) << 1;
	struct rpi_spin_wait wait;
	cpu_set_t all;
	int cpu;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	cpu = here();
	chip->chip_count = chip->peer_count = 2;
	chip->park = &crowd.parks[CHIP];
	chip->parent_park = &crowd.parks[PARENT];
	chip->rouser.parks = &crowd.parks[CHIP];
	assert_true(rpi_server_other_chips(chip) == other);
	rpi_spin_init(&chip->spin, RPI_SPIN_HYBRID, 0, 0, true);
	for (int parent = 0; parent < 2; parent++) {
		for (int peer = 0; peer < 2; peer++) {
			const uint32_t rarely = peer ? RPI_SPIN_CROWDED_NS
						     : RPI_SPIN_ALONE_NS;

			atomic_store(&crowd.blocks[PARENT].cpu, parent ? cpu : cpu + 1);
			atomic_store(&crowd.blocks[OTHER].cpu, peer ? cpu : cpu + 1);
			rpi_server_spin_begin(chip, &wait, &chip->spin, 0, true);
			assert_int_equal(wait.yield_ns, parent ? 0 : rarely);
			rpi_server_spin_begin(chip, &wait, &chip->spin, other, false);
			assert_int_equal(wait.yield_ns, peer ? 0 : rarely);
			rpi_server_spin_begin(chip, &wait, &chip->spin, other, true);
			assert_int_equal(wait.yield_ns, parent || peer ? 0 : rarely);
		}
	}
	/* One that waits for somebody else, and another chip is here. */
	atomic_store(&crowd.blocks[OTHER].cpu, cpu);
	rpi_server_spin_begin(chip, &wait, &chip->spin, 0, false);
	assert_int_equal(wait.yield_ns, RPI_SPIN_CROWDED_NS);
	assert_int_equal(atomic_load(&crowd.blocks[CHIP].cpu), cpu);
	chip->spin.crowded = false;
	atomic_store(&crowd.blocks[CHIP].cpu, cpu + 1);
	rpi_server_spin_begin(chip, &wait, &chip->spin, other, true);
	assert_int_equal(atomic_load(&crowd.blocks[CHIP].cpu), cpu + 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	crowd_free(&crowd);
}

/* Whom a caller waits for: who has a part in the run and is not done with it. */
static void a_run_is_busy_where_tasks_are_left(void **state)
{
	static const uint32_t used[] = { 0, 3, RP_MAX_PEERS - 1 };
	struct rpi_frame *frame = aligned_alloc(RPI_SHARE_ALIGN, sizeof(*frame));
	struct rpi_peer *peers =
		aligned_alloc(RPI_SHARE_ALIGN, RP_MAX_PEERS * sizeof(*peers));
	uint64_t all = 0;

	(void)state;
	assert_non_null(frame);
	assert_non_null(peers);
	memset(frame, 0, sizeof(*frame));
	memset(peers, 0, RP_MAX_PEERS * sizeof(*peers));
	atomic_store(&frame->target_seq[1], 9); /* of an earlier run */
	for (size_t i = 0; i < COUNT(used); i++) {
		atomic_store(&frame->target_seq[used[i]], 5);
		all |= UINT64_C(1) << used[i];
	}
	assert_true(rpi_frame_busy(frame, peers) == 0);
	atomic_store(&frame->peers, all);
	for (size_t i = 0; i < COUNT(used); i++) {
		assert_true(rpi_frame_busy(frame, peers) == all);
		atomic_store(&peers[used[i]].done_seq, 4);
		assert_true(rpi_frame_busy(frame, peers) == all);
		atomic_store(&peers[used[i]].done_seq, 5 + i);
		all &= ~(UINT64_C(1) << used[i]);
	}
	assert_true(rpi_frame_busy(frame, peers) == 0);
	free(frame);
	free(peers);
}

int main(void)
{
	const struct CMUnitTest yield[] = {
		cmocka_unit_test(who_has_a_cpu_keeps_it),
		cmocka_unit_test(it_goes_to_a_neighbour_at_each_look_at_the_clock),
		cmocka_unit_test(it_goes_to_others_now_and_then),
		cmocka_unit_test(it_goes_before_a_sleep),
		cmocka_unit_test(neighbours_are_those_awake_on_the_same_cpu),
		cmocka_unit_test(a_chip_gives_way_to_whom_it_waits_for),
		cmocka_unit_test(a_run_is_busy_where_tasks_are_left),
	};

	rpi_clock_setup();
	return cmocka_run_group_tests(yield, NULL, NULL);
}
