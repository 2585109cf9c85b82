/* SPDX-License-Identifier: MIT */
/* Copies that meet the end of their worker: they end, or are refused; close ends too. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deed.h"
#include "device.h"
#include "proc.h"
#include "support.h"

#define CHIPS	   2
#define ROOM_BYTES (3 * MIB)

static struct rp_worker *worker;
static uint64_t addresses[CHIPS];
static struct proc_census at_start;

static int set_up(void **state)
{
	int err = bed_setup(state);

	deed_pad_reset();
	trap_install();
	proc_census_take(&at_start);
	return err;
}

static int tear_down(void **state)
{
	trap_uninstall();
	return bed_teardown(state);
}

static void open_worker(void)
{
	struct rp_worker_options options;
	uint32_t i;

	deed_options(&options, CHIPS);
	options.device_memory_bytes = 32 * MIB;
	assert_ok(deed_prepare(&options, &worker));
	for (i = 0; i < CHIPS; i++) {
		assert_ok(rp_worker_device_alloc(worker, i, ROOM_BYTES, &addresses[i]));
		/* The chunks' pages are there. */
		assert_ok(device_round_trip(worker, i, addresses[i], ROOM_BYTES, i));
	}
}

static void free_worker(void)
{
	rp_worker_free(worker);
	assert_true(proc_census_same(&at_start));
}

struct hand {
	pthread_t thread;
	uint64_t seed;
	unsigned idx;
	unsigned done; /* turns that succeeded */
	int err;       /* of the one that did not */
};

static _Atomic unsigned turns; /* of all threads */

/* Mostly small, now and then all that there is room for. */
static size_t some_bytes(struct hand *me, size_t bytes_max)
{
	size_t below = (size_t)1 << (1 + bed_random(&me->seed) % 22);

	return 1 + bed_random(&me->seed) % (below < bytes_max ? below : bytes_max);
}

/* A tensor of its own, up, down and away again. */
static int keep_for_a_moment(struct hand *me, uint8_t *host)
{
	int64_t bytes = (int64_t)some_bytes(me, 600 * KIB);
	uint32_t chip = (uint32_t)(bed_random(&me->seed) % CHIPS);
	uint64_t seed = bed_random(&me->seed);
	struct rp_tensor init, t;
	uint64_t address;
	int err;

	device_fill(host, (size_t)bytes, seed);
	err = rp_tensor_host(&init, host, RP_UINT8, 1, &bytes);
	if (!err)
		err = rp_worker_alloc_tensor(worker, chip, RP_UINT8, 1, &bytes, &init,
					     &t);
	if (err)
		return err;
	err = rp_worker_tensor_address(worker, &t, &chip, &address);
	if (!err)
		err = rp_worker_copy_from(worker, chip, address, 0, host, 0,
					  (size_t)bytes);
	if (!err && !device_holds(host, (size_t)bytes, seed))
		err = -EBADMSG;
	/* Also when the worker is closed meanwhile. */
	return rp_worker_free_tensor(worker, &t) ? -EBADMSG : err;
}

static int fan_out(struct hand *me, uint8_t *host)
{
	size_t bytes = some_bytes(me, ROOM_BYTES);

	return rp_worker_copy_to_all(worker, (uint32_t[]){ 1, 0 },
				     (uint64_t[]){ addresses[1], addresses[0] }, CHIPS, 0,
				     host, bytes);
}

static int stack_for_a_moment(struct hand *me, uint8_t *host)
{
	int64_t shape[] = { CHIPS, (int64_t)some_bytes(me, 500 * KIB) };
	struct rp_tensor tensor, stack;
	int err = rp_tensor_host(&tensor, host, RP_UINT8, 2, shape);

	if (!err)
		err = rp_worker_alloc_stacked(worker, &tensor, NULL, 0, &stack);
	if (err)
		return err;
	err = rp_worker_copy_stacked_from(worker, &stack, &tensor);
	return rp_worker_free_stacked(worker, &stack) ? -EBADMSG : err;
}

static void *work_until_refused(void *arg)
{
	struct hand *me = arg;
	uint8_t *host = calloc(1, ROOM_BYTES);

	for (;; me->done++) {
		switch ((me->idx + me->done) % 4) {
		case 0:
			me->err = fan_out(me, host);
			break;
		case 1:
			me->err = stack_for_a_moment(me, host);
			break;
		default:
			me->err = keep_for_a_moment(me, host);
		}
		if (me->err)
			break;
		atomic_fetch_add(&turns, 1);
	}
	free(host);
	return NULL;
}

static void race(uint64_t seed, int64_t timeout_ns, bool forced)
{
	struct hand hands[4];
	unsigned done = 0;
	unsigned want;
	size_t i;
	int err;

	open_worker();
	atomic_store(&turns, 0);
	for (i = 0; i < COUNT(hands); i++) {
		hands[i] = (struct hand){ .seed = seed + i, .idx = (unsigned)i };
		assert_int_equal(pthread_create(&hands[i].thread, NULL,
						work_until_refused, &hands[i]),
				 0);
	}
	want = (unsigned)(bed_random(&seed) % 60);
	while (atomic_load(&turns) < want)
		proc_pause_us(50);
	err = rp_worker_close(worker, timeout_ns);
	assert_true(!err || (forced && err == -ETIMEDOUT));
	for (i = 0; i < COUNT(hands); i++) {
		pthread_join(hands[i].thread, NULL);
		done += hands[i].done;
		if (hands[i].err != -ESHUTDOWN &&
		    !(forced && hands[i].err == -EOWNERDEAD))
			fail_msg("seed %" PRIu64 ": thread %zu ended with %d", seed, i,
				 hands[i].err);
	}
	print_message("close returned %d after %u turns\n", err, done);
	free_worker();
}

static void copies_that_race_with_close_end_or_are_refused(void **state)
{
	uint64_t seed = device_seed(100);
	int round;

	(void)state;
	for (round = 0; round < 15; round++)
		race(seed + (uint64_t)round * 1000, RP_WAIT_FOREVER, false);
}

static void copies_that_race_with_a_close_that_kills_end_too(void **state)
{
	uint64_t seed = device_seed(200);
	int round;

	(void)state;
	for (round = 0; round < 10; round++)
		race(seed + (uint64_t)round * 1000, round % 2 ? 0 : 1000000, true);
}

/* A copy of a thread's own. */
struct errand {
	pthread_t thread;
	uint32_t chip;
	size_t bytes;
	uint8_t *host;
	_Atomic int done;
	int err;
};

static void *copy_once(void *arg)
{
	struct errand *errand = arg;

	errand->err = rp_worker_copy_to(worker, errand->chip, addresses[errand->chip], 0,
					errand->host, 0, errand->bytes);
	atomic_store(&errand->done, 1);
	return NULL;
}

static void begin(struct errand *errand, uint32_t chip, size_t bytes)
{
	*errand = (struct errand){ .chip = chip, .bytes = bytes };
	errand->host = calloc(1, bytes);
	assert_int_equal(pthread_create(&errand->thread, NULL, copy_once, errand), 0);
}

static int end(struct errand *errand)
{
	pthread_join(errand->thread, NULL);
	free(errand->host);
	return errand->err;
}

static void await_hit(void)
{
	while (!trap_hits())
		bed_breathe();
}

static void *close_for_ever(void *err_out)
{
	atomic_store((_Atomic int *)err_out, rp_worker_close(worker, RP_WAIT_FOREVER));
	return NULL;
}

static void close_waits_for_the_copy_that_is_under_way(void **state)
{
	struct errand under_way, late;
	pthread_t closer;
	char host[8] = { 0 };
	_Atomic int closed = 77;
	int err;

	(void)state;
	open_worker();
	/* The chip is held in the first command; another thread waits for its turn. */
	trap_meet("chip.command", UINT32_MAX);
	begin(&under_way, 0, ROOM_BYTES);
	await_hit();
	begin(&late, 0, 64);
	assert_int_equal(pthread_create(&closer, NULL, close_for_ever, &closed), 0);
	while (rp_worker_copy_to(worker, 1, addresses[1], 0, host, 0, 0) != -ESHUTDOWN)
		bed_breathe();
	assert_int_equal(rp_worker_copy_to(worker, 1, addresses[1], 0, host, 0, 8),
			 -ESHUTDOWN);
	assert_int_equal(atomic_load(&under_way.done), 0);
	assert_int_equal(atomic_load(&closed), 77);
	trap_off();
	assert_int_equal(end(&under_way), 0);
	/* It got its turn before the close began, or after. */
	err = end(&late);
	assert_true(err == 0 || err == -ESHUTDOWN);
	pthread_join(closer, NULL);
	assert_int_equal(atomic_load(&closed), 0);
	free_worker();
}

static void a_copy_into_a_stopped_chip_ends_at_the_deadline_of_close(void **state)
{
	static const size_t sizes[] = { 64, 5000, ROOM_BYTES };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(sizes); i++) {
		struct errand errand;

		open_worker();
		assert_int_equal(kill(rp_worker_pid(worker, 0), SIGSTOP), 0);
		trap_meet("copier.reply", 1);
		begin(&errand, 0, sizes[i]);
		await_hit();
		assert_int_equal(rp_worker_close(worker, 20000000), -ETIMEDOUT);
		assert_says("rp_worker_close", "copies");
		assert_int_equal(end(&errand), -EOWNERDEAD);
		free_worker();
	}
}

static void a_copy_behind_a_hanging_dispatch_ends_with_it(void **state)
{
	struct rp_handle handle;
	struct errand errand;

	(void)state;
	open_worker();
	assert_ok(deed_submit(worker, 0, DEED_HANG, 0, &handle));
	deed_await_entered(0, 1);
	trap_meet("copier.reply", 1);
	begin(&errand, 0, 5000);
	await_hit();
	/* The other chip is none the worse. */
	assert_ok(device_round_trip(worker, 1, addresses[1], 5000, 1));
	assert_int_equal(rp_worker_close(worker, 20000000), -ETIMEDOUT);
	assert_int_equal(end(&errand), -EOWNERDEAD);
	assert_int_equal(rp_handle_wait(handle, 0), -EOWNERDEAD);
	free_worker();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copies_that_race_with_close_end_or_are_refused),
		TEST(copies_that_race_with_a_close_that_kills_end_too),
		TEST(close_waits_for_the_copy_that_is_under_way),
		TEST(a_copy_into_a_stopped_chip_ends_at_the_deadline_of_close),
		TEST(a_copy_behind_a_hanging_dispatch_ends_with_it),
	};

	return cmocka_run_group_tests_name("test_copy_close", tests, NULL, NULL);
}
