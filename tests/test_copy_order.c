/* SPDX-License-Identifier: MIT */
/* Copies among dispatches, and among other threads' copies. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "support.h"

#define CHIPS 2
#define WIDTH 40000 /* int64: several pieces */

static struct bed bed;

static int set_up(void **state)
{
	return device_setup(state, &bed, CHIPS, 64 * MIB);
}

static int tear_down(void **state)
{
	return device_teardown(state, &bed);
}

/* A resident row of int64, and where it is. */
struct row {
	struct rp_tensor tensor;
	uint32_t chip;
	uint64_t address;
	size_t width;
	int64_t *host;
};

static void row_open(struct row *row, uint32_t chip, size_t width)
{
	*row = (struct row){ .chip = chip, .width = width };
	row->host = calloc(width, sizeof(*row->host));
	struct rp_tensor init = TENSOR(row->host, RP_INT64, (int64_t)width);

	assert_ok(rp_worker_alloc_tensor(bed.worker, chip, RP_INT64, 1, init.shape, &init,
					 &row->tensor));
	assert_ok(
		rp_worker_tensor_address(bed.worker, &row->tensor, &chip, &row->address));
}

static void row_close(struct row *row)
{
	assert_ok(rp_worker_free_tensor(bed.worker, &row->tensor));
	free(row->host);
}

static int row_put(struct row *row, int64_t value)
{
	for (size_t i = 0; i < row->width; i++)
		row->host[i] = value;
	return rp_worker_copy_to(bed.worker, row->chip, row->address, 0, row->host, 0,
				 row->width * sizeof(*row->host));
}

static int row_get(struct row *row)
{
	memset(row->host, 0xee, row->width * sizeof(*row->host));
	return rp_worker_copy_from(bed.worker, row->chip, row->address, 0, row->host, 0,
				   row->width * sizeof(*row->host));
}

static bool row_is(const struct row *row, int64_t value)
{
	for (size_t i = 0; i < row->width; i++)
		if (row->host[i] != value)
			return false;
	return true;
}

struct addition {
	struct row *row;
	int64_t by;
	int gate; /* -1: none */
};

static int add(struct rp_run *run, void *arg)
{
	const struct addition *addition = arg;
	const struct row *row = addition->row;

	if (addition->gate < 0)
		return TASK(run, (int32_t)row->chip, ENTRY_ADD, rp_inout(row->tensor),
			    rp_arg_i64(addition->by));
	return TASK(run, (int32_t)row->chip, ENTRY_GATE, rp_inout(row->tensor),
		    rp_arg_i64(addition->gate), rp_arg_i64(addition->by));
}

/* What a thread of its own does while this one holds a dispatch at a gate. */
struct errand {
	struct row *row;
	int64_t put; /* -1: get */
	int err;
};

static void *run_errand(void *arg)
{
	struct errand *errand = arg;

	errand->err = errand->put < 0 ? row_get(errand->row)
				      : row_put(errand->row, errand->put);
	return NULL;
}

static void a_copy_waits_for_the_dispatches_of_its_chip_alone(void **state)
{
	static const size_t widths[] = { 4, 500, WIDTH };
	int gate = 0;
	size_t i;
	int up;

	(void)state;
	for (i = 0; i < COUNT(widths); i++) {
		for (up = 0; up < 2; up++, gate++) {
			struct row row, elsewhere;
			struct addition first = { &row, 5, gate };
			struct addition second = { &row, 1, -1 };
			struct errand errand = { .row = &row, .put = up ? 70 : -1 };
			struct rp_handle handles[2];
			pthread_t thread;

			row_open(&row, 0, widths[i]);
			row_open(&elsewhere, 1, widths[i]);
			assert_ok(bed_submit(&bed, add, &first, &handles[0]));
			assert_ok(bed_submit(&bed, add, &second, &handles[1]));
			gate_await_entered((uint32_t)gate, 1);
			trap_meet("copier.reply", 1);
			assert_int_equal(
				pthread_create(&thread, NULL, run_errand, &errand), 0);
			while (!trap_hits())
				bed_breathe();
			trap_off();
			/* That copy has been asked for. On an idle chip others go on. */
			assert_ok(row_put(&elsewhere, 3));
			assert_ok(row_get(&elsewhere));
			assert_true(row_is(&elsewhere, 3));
			assert_int_equal(rp_handle_done(handles[0]), 0);
			gate_open((uint32_t)gate);
			pthread_join(thread, NULL);
			assert_ok(errand.err);
			assert_ok(rp_handle_wait(handles[0], RP_WAIT_FOREVER));
			assert_ok(rp_handle_wait(handles[1], RP_WAIT_FOREVER));
			if (up)
				assert_ok(row_get(&row));
			assert_true(row_is(&row, up ? 70 : 6));
			rp_handle_release(handles[0]);
			rp_handle_release(handles[1]);
			row_close(&row);
			row_close(&elsewhere);
		}
	}
}

static void copies_and_dispatches_happen_in_program_order(void **state)
{
	static const size_t widths[] = { 3, 26, 27, 3000, WIDTH };
	uint64_t seed = device_seed(77);
	size_t i;
	int step;

	(void)state;
	for (i = 0; i < COUNT(widths); i++) {
		struct rp_handle handles[2];
		struct row rows[CHIPS];
		int64_t want[CHIPS] = { 0 };
		unsigned flying = 0;

		row_open(&rows[0], 0, widths[i]);
		row_open(&rows[1], 1, widths[i]);
		for (step = 0; step < 150; step++) {
			uint32_t chip = (uint32_t)(bed_random(&seed) % CHIPS);
			int64_t value = (int64_t)(bed_random(&seed) % 1000);
			struct addition addition = { &rows[chip], value, -1 };

			switch (bed_random(&seed) % 3) {
			case 0:
				assert_ok(row_put(&rows[chip], value));
				want[chip] = value;
				break;
			case 1:
				assert_ok(row_get(&rows[chip]));
				assert_true(row_is(&rows[chip], want[chip]));
				break;
			default:
				if (flying >= 2) {
					assert_ok(rp_handle_wait(handles[flying % 2],
								 RP_WAIT_FOREVER));
					rp_handle_release(handles[flying % 2]);
				}
				assert_ok(bed_submit(&bed, add, &addition,
						     &handles[flying % 2]));
				flying++;
				want[chip] += value;
			}
		}
		for (unsigned k = 0; k < 2 && k < flying; k++) {
			assert_ok(rp_handle_wait(handles[k], RP_WAIT_FOREVER));
			rp_handle_release(handles[k]);
		}
		for (uint32_t chip = 0; chip < CHIPS; chip++) {
			assert_ok(row_get(&rows[chip]));
			assert_true(row_is(&rows[chip], want[chip]));
			row_close(&rows[chip]);
		}
	}
}

static void copies_to_two_chips_happen_at_the_same_time(void **state)
{
	struct row rows[CHIPS];
	struct errand errands[CHIPS];
	pthread_t threads[CHIPS];
	uint32_t i;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		row_open(&rows[i], i, WIDTH);
	/* Neither chip goes on before both have begun. */
	trap_meet("chip.command", CHIPS);
	for (i = 0; i < CHIPS; i++) {
		errands[i] = (struct errand){ .row = &rows[i], .put = 9 + i };
		assert_int_equal(
			pthread_create(&threads[i], NULL, run_errand, &errands[i]), 0);
	}
	for (i = 0; i < CHIPS; i++) {
		pthread_join(threads[i], NULL);
		assert_ok(errands[i].err);
	}
	assert_true(trap_met());
	trap_off();
	for (i = 0; i < CHIPS; i++) {
		assert_ok(row_get(&rows[i]));
		assert_true(row_is(&rows[i], 9 + i));
		row_close(&rows[i]);
	}
}

/* Threads that share an allocation on each chip, each with a stretch of it. */
#define THREADS	      8
#define STRETCH_BYTES (600 * KIB + 13)

struct hand {
	pthread_t thread;
	const uint64_t *addresses;
	uint64_t seed;
	unsigned idx;
	int err;
};

static void *copy_stretches(void *arg)
{
	struct hand *me = arg;
	const size_t base = me->idx * STRETCH_BYTES;
	uint8_t *host = malloc(STRETCH_BYTES);
	size_t lengths[CHIPS] = { 0 };
	uint64_t seeds[CHIPS] = { 0 };
	int round;

	for (round = 0; round < 40 && !me->err; round++) {
		uint32_t chip = (uint32_t)(bed_random(&me->seed) % CHIPS);
		bool small = bed_random(&me->seed) % 2;
		size_t n = 1 + bed_random(&me->seed) % (small ? 300 : STRETCH_BYTES - 1);

		if (lengths[chip]) {
			me->err = rp_worker_copy_from(bed.worker, chip,
						      me->addresses[chip], base, host, 0,
						      lengths[chip]);
			if (!me->err && !device_holds(host, lengths[chip], seeds[chip]))
				me->err = -EBADMSG;
		}
		lengths[chip] = n;
		seeds[chip] = bed_random(&me->seed);
		device_fill(host, n, seeds[chip]);
		if (!me->err)
			me->err = rp_worker_copy_to(bed.worker, chip, me->addresses[chip],
						    base, host, 0, n);
	}
	free(host);
	return NULL;
}

static void let_run(struct hand *hands, unsigned count, void *(*body)(void *),
		    const uint64_t *addresses, uint64_t seed)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		hands[i] = (struct hand){ .addresses = addresses,
					  .seed = seed + i,
					  .idx = i };
		assert_int_equal(pthread_create(&hands[i].thread, NULL, body, &hands[i]),
				 0);
	}
	for (i = 0; i < count; i++) {
		pthread_join(hands[i].thread, NULL);
		assert_int_equal(hands[i].err, 0);
	}
}

static void threads_copy_their_stretches_of_one_allocation(void **state)
{
	struct hand hands[THREADS];
	uint64_t addresses[CHIPS];
	uint32_t i;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		assert_ok(rp_worker_device_alloc(bed.worker, i, THREADS * STRETCH_BYTES,
						 &addresses[i]));
	let_run(hands, THREADS, copy_stretches, addresses, device_seed(5));
}

/* A tensor that a thread holds: what it put there must stay. */
struct held {
	struct rp_tensor tensor;
	uint32_t chip;
	uint64_t address, seed;
	size_t bytes;
};

static int hold(struct hand *me, struct held *held, uint8_t *host)
{
	int64_t bytes = (int64_t)(1 + bed_random(&me->seed) % 9000);
	struct rp_tensor init;
	int err;

	held->chip = (uint32_t)(bed_random(&me->seed) % CHIPS);
	held->seed = bed_random(&me->seed);
	held->bytes = (size_t)bytes;
	device_fill(host, held->bytes, held->seed);
	err = rp_tensor_host(&init, host, RP_UINT8, 1, &bytes);
	if (!err)
		err = rp_worker_alloc_tensor(bed.worker, held->chip, RP_UINT8, 1, &bytes,
					     &init, &held->tensor);
	return err ? err
		   : rp_worker_tensor_address(bed.worker, &held->tensor, &held->chip,
					      &held->address);
}

static int let_go(struct held *held, uint8_t *host)
{
	int err = rp_worker_copy_from(bed.worker, held->chip, held->address, 0, host, 0,
				      held->bytes);

	if (!err && !device_holds(host, held->bytes, held->seed))
		err = -EBADMSG;
	if (!err)
		err = rp_worker_free_tensor(bed.worker, &held->tensor);
	held->bytes = 0;
	return err;
}

static void *hold_tensors(void *arg)
{
	struct hand *me = arg;
	struct held held[30] = { { .bytes = 0 } };
	uint8_t *host = malloc(9000);
	size_t i;

	for (int round = 0; round < 400 && !me->err; round++) {
		i = bed_random(&me->seed) % COUNT(held);
		me->err = held[i].bytes ? let_go(&held[i], host)
					: hold(me, &held[i], host);
	}
	for (i = 0; i < COUNT(held) && !me->err; i++)
		if (held[i].bytes)
			me->err = let_go(&held[i], host);
	free(host);
	return NULL;
}

static void threads_allocate_copy_and_free_apart(void **state)
{
	struct hand hands[4];

	(void)state;
	let_run(hands, COUNT(hands), hold_tensors, NULL, device_seed(6));
	assert_int_equal(device_committed(bed.worker, 0), 0);
	assert_int_equal(device_committed(bed.worker, 1), 0);
}

/* Fan-outs that name the chips in opposite orders wait for each other's turns. */
static void *fan_out_often(void *arg)
{
	static const uint32_t orders[][CHIPS] = { { 0, 1 }, { 1, 0 } };
	struct hand *me = arg;
	const uint32_t *chips = orders[me->idx % 2];
	uint8_t *host = malloc(STRETCH_BYTES);
	uint64_t at[CHIPS];
	uint32_t i;

	for (i = 0; i < CHIPS; i++)
		at[i] = me->addresses[chips[i]];
	for (unsigned round = 0; round < 60 && !me->err; round++) {
		size_t n = 1 + bed_random(&me->seed) % (round % 4 ? 5000 : STRETCH_BYTES);
		/* Both, or the one that this thread names second. */
		uint32_t first = round % 3 == 2;

		device_fill(host, n, me->seed);
		me->err = rp_worker_copy_to_all(bed.worker, chips + first, at + first,
						CHIPS - first, me->idx * STRETCH_BYTES,
						host, n);
		for (i = first; i < CHIPS && !me->err; i++) {
			memset(host, 0, n);
			me->err = rp_worker_copy_from(bed.worker, chips[i], at[i],
						      me->idx * STRETCH_BYTES, host, 0,
						      n);
			if (!me->err && !device_holds(host, n, me->seed))
				me->err = -EBADMSG;
		}
	}
	free(host);
	return NULL;
}

static void fan_outs_in_opposite_orders_do_not_block_each_other(void **state)
{
	struct hand hands[4];
	uint64_t addresses[CHIPS];
	uint32_t i;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		assert_ok(rp_worker_device_alloc(
			bed.worker, i, COUNT(hands) * STRETCH_BYTES, &addresses[i]));
	let_run(hands, COUNT(hands), fan_out_often, addresses, device_seed(9));
}

/* One thread dispatches, others copy: each sees its own bytes only. */
static void *add_and_look(void *arg)
{
	struct hand *me = arg;
	struct row row;

	if (me->idx)
		return copy_stretches(arg);
	row_open(&row, 0, 1000);
	for (int64_t i = 1; i <= 200 && !me->err; i++) {
		struct addition addition = { &row, 1, -1 };

		me->err = bed_run(&bed, add, &addition);
		if (!me->err && i % 10 == 0)
			me->err = row_get(&row) ?: row_is(&row, i) ? 0 : -EBADMSG;
	}
	row_close(&row);
	return NULL;
}

static void threads_copy_while_others_dispatch(void **state)
{
	struct hand hands[3];
	uint64_t addresses[CHIPS];
	uint32_t i;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		assert_ok(rp_worker_device_alloc(bed.worker, i, 3 * STRETCH_BYTES,
						 &addresses[i]));
	let_run(hands, 3, add_and_look, addresses, device_seed(8));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_copy_waits_for_the_dispatches_of_its_chip_alone),
		TEST(copies_and_dispatches_happen_in_program_order),
		TEST(copies_to_two_chips_happen_at_the_same_time),
		TEST(threads_copy_their_stretches_of_one_allocation),
		TEST(threads_allocate_copy_and_free_apart),
		TEST(fan_outs_in_opposite_orders_do_not_block_each_other),
		TEST(threads_copy_while_others_dispatch),
	};

	return cmocka_run_group_tests_name("test_copy_order", tests, NULL, NULL);
}
