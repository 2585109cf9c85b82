/* SPDX-License-Identifier: MIT */
/* One dispatch from arguments to outcome, and several within two frames. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define WORDS 64

/* --- What crosses, and in which direction ---------------------------------- */

struct traffic {
	struct rp_arg args[4];
	uint32_t count;
	uint32_t entry;
};

static int one_task(struct rp_run *run, void *arg)
{
	const struct traffic *traffic = arg;

	return bed_task(run, 0, traffic->entry, traffic->args, traffic->count);
}

static int run_one(struct bed *bed, uint32_t entry, const struct rp_arg *args,
		   uint32_t count)
{
	struct traffic traffic = { .count = count, .entry = entry };

	if (count)
		memcpy(traffic.args, args, count * sizeof(*args));
	return bed_run(bed, one_task, &traffic);
}

#define RUN_ONE(bed, entry, ...)                                    \
	run_one(bed, entry, (const struct rp_arg[]){ __VA_ARGS__ }, \
		sizeof((const struct rp_arg[]){ __VA_ARGS__ }) / sizeof(struct rp_arg))

static void open_either(struct bed *bed, bool unified, uint32_t chips)
{
	struct rp_worker_options options;

	bed_options(&options, chips);
	options.unified_memory = unified;
	bed_open_with(bed, &options);
}

static void an_input_is_not_copied_back(void **state)
{
	int64_t *x = bed_shared(WORDS * 8, 0);
	struct rp_worker_stats before, after;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	for (int i = 0; i < WORDS; i++)
		x[i] = i;
	/* ENTRY_FILL_HALF writes whatever it is given. */
	before = bed_stats(&bed);
	assert_ok(RUN_ONE(&bed, ENTRY_FILL_HALF, rp_in(TENSOR(x, RP_INT64, WORDS))));
	after = bed_stats(&bed);
	for (int i = 0; i < WORDS; i++)
		assert_int_equal(x[i], i);
	assert_int_equal(after.bytes_to_device - before.bytes_to_device, WORDS * 8);
	assert_int_equal(after.copies_to_device - before.copies_to_device, 1);
	assert_int_equal(after.bytes_from_device, before.bytes_from_device);
	assert_int_equal(after.bytes_zeroed, before.bytes_zeroed);
	bed_close(&bed);
	rp_shared_free(x);
}

static void an_output_starts_as_zero_and_is_not_uploaded(void **state)
{
	uint8_t *y = bed_shared(WORDS * 8, 0xff);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_stats stats;
		struct bed bed;

		memset(y, 0xff, WORDS * 8);
		open_either(&bed, unified, 1);
		assert_ok(RUN_ONE(&bed, ENTRY_FILL_HALF,
				  rp_out(TENSOR(y, RP_INT64, WORDS))));
		for (int i = 0; i < WORDS * 8; i++)
			assert_int_equal(y[i], i < WORDS * 4 ? 0x11 : 0);
		stats = bed_stats(&bed);
		assert_int_equal(stats.bytes_to_device, 0);
		assert_int_equal(stats.bytes_zeroed, WORDS * 8);
		assert_int_equal(stats.bytes_from_device, unified ? 0 : WORDS * 8);
		assert_int_equal(stats.copies_from_device, !unified);
		bed_close(&bed);
	}
	rp_shared_free(y);
}

static void an_inout_crosses_both_ways(void **state)
{
	int64_t *z = bed_shared(WORDS * 8, 0);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_stats stats;
		struct bed bed;

		open_either(&bed, unified, 1);
		for (int i = 0; i < WORDS; i++)
			z[i] = 100 * i;
		for (int round = 0; round < 5; round++)
			assert_ok(RUN_ONE(&bed, ENTRY_ADD,
					  rp_inout(TENSOR(z, RP_INT64, WORDS)),
					  rp_arg_i64(3)));
		for (int i = 0; i < WORDS; i++)
			assert_int_equal(z[i], 100 * i + 15);
		stats = bed_stats(&bed);
		assert_int_equal(stats.bytes_to_device, unified ? 0 : 5 * WORDS * 8);
		assert_int_equal(stats.bytes_from_device, unified ? 0 : 5 * WORDS * 8);
		assert_int_equal(stats.copies_to_device, unified ? 0 : 5);
		assert_int_equal(stats.bytes_zeroed, 0);
		assert_int_equal(stats.tasks, 5);
		bed_close(&bed);
	}
	rp_shared_free(z);
}

static void every_dtype_makes_the_round_trip(void **state)
{
	enum {
		BYTES = 4 * 6 * 8
	};
	uint8_t *x = bed_shared(BYTES, 0);
	uint8_t *y = bed_shared(BYTES, 0);

	(void)state;
	for (int i = 0; i < BYTES; i++)
		x[i] = (uint8_t)(i * 37 + 11);
	for (int unified = 0; unified < 2; unified++) {
		struct bed bed;

		open_either(&bed, unified, 1);
		for (int dtype = RP_FLOAT32; dtype < RP_DTYPE_END; dtype++) {
			struct rp_tensor from = TENSOR(x, (enum rp_dtype)dtype, 4, 6);
			struct rp_tensor to = TENSOR(y, (enum rp_dtype)dtype, 4, 6);
			size_t bytes;

			memset(y, 0xaa, BYTES);
			assert_ok(rp_tensor_bytes(&from, &bytes));
			assert_ok(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)));
			assert_memory_equal(x, y, bytes);
			for (size_t i = bytes; i < BYTES; i++)
				assert_int_equal(y[i], 0xaa);
			/* And through strides: every other row, some columns. */
			memset(y, 0xaa, BYTES);
			assert_ok(rp_tensor_slice(&from, 0, 1, 2, 2, &from));
			assert_ok(rp_tensor_slice(&to, 0, 0, 2, 3, &to));
			assert_ok(rp_tensor_slice(&from, 1, 0, 4, 1, &from));
			assert_ok(rp_tensor_slice(&to, 1, 2, 4, 1, &to));
			assert_ok(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)));
			for (int64_t i = 0; i < bed_elements(&from); i++)
				assert_memory_equal(bed_at(&to, i), bed_at(&from, i),
						    bed_element_bytes(&from));
		}
		bed_close(&bed);
	}
	rp_shared_free(x);
	rp_shared_free(y);
}

/* Columns of a matrix: gathered, worked on, scattered; their neighbours untouched. */
static void columns_are_gathered_and_scattered(void **state)
{
	enum {
		ROWS = 7,
		COLUMNS = 9
	};
	int64_t *m = bed_shared(ROWS * COLUMNS * 8, 0);

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct bed bed;

		open_either(&bed, unified, 1);
		for (int64_t first = 0; first < COLUMNS; first += 2) {
			int64_t count = 1 + first % 3;
			int64_t step = first < 4 ? 2 : 1;
			struct rp_tensor view = TENSOR(m, RP_INT64, ROWS, COLUMNS);
			struct rp_worker_stats before = bed_stats(&bed);
			struct rp_worker_stats after;

			if (first + (count - 1) * step >= COLUMNS)
				continue;
			assert_ok(rp_tensor_slice(&view, 1, first, count, step, &view));
			for (int i = 0; i < ROWS * COLUMNS; i++)
				m[i] = i;
			assert_ok(RUN_ONE(&bed, ENTRY_ADD, rp_inout(view),
					  rp_arg_i64(1000)));
			for (int i = 0; i < ROWS * COLUMNS; i++) {
				int64_t at = i % COLUMNS - first;
				bool inside = at >= 0 && at % step == 0 &&
					      at / step < count;

				assert_int_equal(m[i], inside ? 1000 + i : i);
			}
			after = bed_stats(&bed);
			assert_int_equal(after.bytes_to_device - before.bytes_to_device,
					 unified ? 0 : ROWS * count * 8);
			/* As an output the rest of the matrix stays as well. */
			assert_ok(RUN_ONE(&bed, ENTRY_ADD, rp_out(view), rp_arg_i64(-5)));
			for (int i = 0; i < ROWS * COLUMNS; i++) {
				int64_t at = i % COLUMNS - first;
				bool inside = at >= 0 && at % step == 0 &&
					      at / step < count;

				assert_int_equal(m[i], inside ? -5 : i);
			}
		}
		bed_close(&bed);
	}
	rp_shared_free(m);
}

static void an_entry_sees_device_memory_or_the_callers_view(void **state)
{
	int64_t *m = bed_shared(8 * 8 * 8, 0);
	struct rp_tensor view = TENSOR(m, RP_INT64, 8, 8);

	(void)state;
	assert_ok(rp_tensor_slice(&view, 1, 3, 2, 1, &view));
	for (int unified = 0; unified < 2; unified++) {
		const struct rp_tensor *seen = &board->seen.args[0].u.tensor;
		struct bed bed;

		open_either(&bed, unified, 1);
		assert_ok(RUN_ONE(&bed, ENTRY_SEE, rp_inout(view)));
		assert_int_equal(board->seen.args[0].access, RP_INOUT);
		assert_int_equal(seen->rank, 2);
		assert_int_equal(seen->shape[0], 8);
		assert_int_equal(seen->shape[1], 2);
		assert_int_equal(seen->dtype, RP_INT64);
		if (unified) {
			assert_ptr_equal(seen->data, view.data);
			assert_int_equal(seen->strides[0], 8);
		} else {
			assert_ptr_not_equal(seen->data, view.data);
			assert_int_equal(seen->strides[0], 2);
		}
		assert_int_equal(seen->strides[1], 1);
		bed_close(&bed);
	}
	rp_shared_free(m);
}

static void views_of_five_dims_are_accepted(void **state)
{
	int64_t *x = bed_shared(2 * 3 * 2 * 2 * 4 * 8, 0);
	int64_t *y = bed_shared(2 * 3 * 2 * 2 * 2 * 8, 0);
	struct rp_tensor from = TENSOR(x, RP_INT64, 2, 3, 2, 2, 4);
	struct rp_tensor to = TENSOR(y, RP_INT64, 2, 3, 2, 2, 2);
	struct bed bed;

	(void)state;
	for (int i = 0; i < 96; i++)
		x[i] = i;
	bed_open(&bed, 1);
	assert_ok(rp_tensor_slice(&from, 4, 1, 2, 2, &from));
	assert_ok(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)));
	for (int i = 0; i < 48; i++)
		assert_int_equal(y[i], i / 2 * 4 + 1 + i % 2 * 2);
	from.rank = 6;
	assert_int_equal(RUN_ONE(&bed, ENTRY_COPY, rp_in(from), rp_out(to)), -EINVAL);
	assert_says("rp_run_task", "rank", "6");
	bed_close(&bed);
	rp_shared_free(x);
	rp_shared_free(y);
}

/* --- Scalars ------------------------------------------------------------- */

static const struct rp_param scalar_params[] = {
	{ .name = "f32", .kind = RP_ARG_SCALAR, .dtype = RP_FLOAT32 },
	{ .name = "i8", .kind = RP_ARG_SCALAR, .dtype = RP_INT8 },
	{ .name = "i16", .kind = RP_ARG_SCALAR, .dtype = RP_INT16 },
	{ .name = "i32", .kind = RP_ARG_SCALAR, .dtype = RP_INT32 },
	{ .name = "i64", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
	{ .name = "u8", .kind = RP_ARG_SCALAR, .dtype = RP_UINT8 },
	{ .name = "u16", .kind = RP_ARG_SCALAR, .dtype = RP_UINT16 },
	{ .name = "u32", .kind = RP_ARG_SCALAR, .dtype = RP_UINT32 },
	{ .name = "u64", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	{ .name = "bool", .kind = RP_ARG_SCALAR, .dtype = RP_BOOL },
};

static void scalars_of_every_kind_arrive(void **state)
{
	struct rp_arg args[] = {
		rp_arg_f32(-1.5f),
		rp_arg_bits(RP_INT8, 0x80),
		rp_arg_bits(RP_INT16, 0x8001),
		rp_arg_i32(-7),
		rp_arg_i64(INT64_MIN),
		rp_arg_bits(RP_UINT8, 0xff),
		rp_arg_bits(RP_UINT16, 0xfffe),
		rp_arg_u32(UINT32_MAX),
		rp_arg_u64(UINT64_MAX),
		rp_arg_bits(RP_BOOL, 1),
	};
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	bed_describe(&desc, "scalars", scalar_params, COUNT(scalar_params));
	desc.orchestrate = NULL;
	desc.entries += ENTRY_SEE;
	desc.entry_count = 1;
	bed_prepare(&bed, &desc, &options);
	assert_ok(rp_worker_run(bed.worker, NULL, args, COUNT(args), NULL));
	assert_int_equal(board->seen.nargs, COUNT(args));
	for (size_t i = 0; i < COUNT(args); i++) {
		const struct rp_scalar *seen = &board->seen.args[i].u.scalar;

		assert_int_equal(board->seen.args[i].kind, RP_ARG_SCALAR);
		assert_int_equal(board->seen.args[i].access, 0);
		assert_int_equal(seen->dtype, scalar_params[i].dtype);
		assert_int_equal(seen->value.bits, args[i].u.scalar.value.bits);
	}
	assert_true(board->seen.args[0].u.scalar.value.f32 == -1.5f);
	assert_int_equal(board->seen.args[3].u.scalar.value.i32, -7);
	assert_int_equal(board->seen.args[9].u.scalar.value.boolean, 1);
	/* Each of them, off by one dtype. */
	for (size_t i = 0; i < COUNT(args); i++) {
		struct rp_arg spoilt[COUNT(args)];

		memcpy(spoilt, args, sizeof(args));
		spoilt[i].u.scalar.dtype = args[(i + 1) % COUNT(args)].u.scalar.dtype;
		assert_int_equal(
			rp_worker_run(bed.worker, NULL, spoilt, COUNT(args), NULL),
			-EINVAL);
		assert_says("scalar", scalar_params[i].name, "expected",
			    rp_dtype_name((enum rp_dtype)scalar_params[i].dtype));
	}
	bed_close(&bed);
}

/* --- Snapshots ------------------------------------------------------------ */

static int gate_then_see(struct rp_run *run, void *arg)
{
	uint64_t *tag_out = arg;
	int err;

	*tag_out = rp_run_get_config(run)->tag;
	err = TASK(run, 0, ENTRY_GATE, rp_arg_u64(0));
	return err ? err : bed_task(run, 0, ENTRY_SEE, NULL, 0);
}

static uint64_t tag_in_orchestration;

static int orchestrate_tagged(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			      void *user)
{
	(void)args;
	(void)nargs;
	(void)user;
	return gate_then_see(run, &tag_in_orchestration);
}

static void the_configuration_is_the_callers_as_it_was_at_submit(void **state)
{
	struct rp_worker_options options;
	struct rp_run_config config;
	struct rp_program_desc desc;
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	bed_describe(&desc, "tags", NULL, 0);
	desc.orchestrate = orchestrate_tagged;
	bed_prepare(&bed, &desc, &options);
	for (uint64_t round = 1; round < 5; round++) {
		board->gates[0] = 0;
		rp_run_config_init(&config);
		config.tag = 0xabc + round;
		assert_ok(rp_worker_submit(bed.worker, NULL, NULL, 0, &config, &handle));
		memset(&config, 0xee, sizeof(config));
		assert_int_equal(tag_in_orchestration, 0xabc + round);
		gate_open(0);
		assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
		assert_int_equal(board->seen.tag, 0xabc + round);
		assert_ok(rp_handle_release(handle));
		/* Without one the defaults are in force again, in either frame. */
		for (int i = 0; i < 2; i++) {
			assert_ok(rp_worker_run(bed.worker, NULL, NULL, 0, NULL));
			assert_int_equal(tag_in_orchestration, 0);
			assert_int_equal(board->seen.tag, 0);
		}
	}
	bed_close(&bed);
}

static const struct rp_param add_params[] = {
	{ .name = "z",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_INOUT,
	  .rank = 1,
	  .shape = { RP_DIM_ANY } },
	{ .name = "gate", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	{ .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
};

static void the_arguments_are_the_callers_as_they_were_at_submit(void **state)
{
	int64_t *z = bed_shared(WORDS * 8, 0);
	struct rp_arg args[] = { rp_arg_tensor(TENSOR(z, RP_INT64, WORDS)), rp_arg_u64(0),
				 rp_arg_i64(5) };
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	bed_describe(&desc, "add-later", add_params, COUNT(add_params));
	desc.orchestrate = NULL;
	desc.entries += ENTRY_GATE;
	desc.entry_count = 1;
	bed_prepare(&bed, &desc, &options);
	assert_ok(rp_worker_submit(bed.worker, NULL, args, 3, NULL, &handle));
	memset(args, 0xee, sizeof(args));
	gate_open(0);
	assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
	for (int i = 0; i < WORDS; i++)
		assert_int_equal(z[i], 5);
	assert_ok(rp_handle_release(handle));
	bed_close(&bed);
	rp_shared_free(z);
}

/* --- Two frames ----------------------------------------------------------- */

static int wait_at_gate(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_GATE, rp_arg_u64((uint64_t)(uintptr_t)arg));
}

static int fail_with(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_FAIL, rp_arg_i64(-(int64_t)(intptr_t)arg));
}

struct third {
	struct bed *bed;
	struct rp_handle handle;
	_Atomic int built; /* its orchestration has begun */
	int err;
	_Atomic int over;
};

static int say_built(struct rp_run *run, void *arg)
{
	struct third *third = arg;

	(void)run;
	atomic_store(&third->built, 1);
	return 0;
}

static void *submit_third(void *arg)
{
	struct third *third = arg;

	third->err = bed_submit(third->bed, say_built, third, &third->handle);
	atomic_store(&third->over, 1);
	return NULL;
}

static int gate_then_fail(struct rp_run *run, void *arg)
{
	int err = wait_at_gate(run, arg);

	return err ? err : fail_with(run, (void *)(intptr_t)EIO);
}

static void a_third_submit_waits_for_the_oldest_and_keeps_its_error_to_itself(
	void **state)
{
	struct rp_handle first, second;
	struct third third;
	struct bed bed;
	pthread_t thread;

	(void)state;
	bed_open(&bed, 1);
	for (int round = 0; round < 4; round++) {
		memset(&third, 0, sizeof(third));
		third.bed = &bed;
		memset((void *)board, 0, sizeof(*board));
		assert_ok(bed_submit(&bed, gate_then_fail, (void *)(uintptr_t)1, &first));
		assert_ok(bed_submit(&bed, wait_at_gate, (void *)(uintptr_t)2, &second));
		assert_int_equal(pthread_create(&thread, NULL, submit_third, &third), 0);
		gate_await_entered(1, 1);
		for (int i = 0; i < 100; i++)
			bed_breathe();
		/* It has built nothing while both frames are taken. */
		assert_int_equal(atomic_load(&third.built), 0);
		assert_int_equal(rp_handle_done(first), 0);
		gate_open(1);
		pthread_join(thread, NULL);
		assert_int_equal(third.err, 0);
		assert_int_equal(rp_handle_done(first), 1);
		assert_int_equal(rp_handle_done(second), 0);
		gate_open(2);
		assert_ok(rp_handle_wait(third.handle, RP_WAIT_FOREVER));
		assert_ok(rp_handle_wait(second, RP_WAIT_FOREVER));
		assert_int_equal(rp_handle_wait(first, RP_WAIT_FOREVER), -EIO);
		assert_ok(rp_handle_release(first));
		assert_ok(rp_handle_release(second));
		assert_ok(rp_handle_release(third.handle));
		assert_true(bed_stats(&bed).frame_waits > 0);
	}
	bed_close(&bed);
}

struct flood {
	struct bed *bed;
	_Atomic uint64_t runs;
	_Atomic uint64_t mistakes;
	_Atomic uint64_t ids; /* sum */
};

static int run_and_id(struct rp_run *run, void *arg)
{
	uint64_t *id_out = arg;

	*id_out = rp_run_id(run);
	return TASK(run, 0, ENTRY_NOTE, rp_arg_u64(*id_out));
}

static void *submit_and_wait(void *arg)
{
	struct flood *flood = arg;

	for (int i = 0; i < 250; i++) {
		struct rp_handle handle;
		uint64_t id;

		if (bed_submit(flood->bed, run_and_id, &id, &handle) ||
		    rp_handle_wait(handle, RP_WAIT_FOREVER) || rp_handle_release(handle))
			atomic_fetch_add(&flood->mistakes, 1);
		atomic_fetch_add(&flood->ids, id);
		atomic_fetch_add(&flood->runs, 1);
	}
	return NULL;
}

static void four_threads_of_250_runs_get_1000_outcomes(void **state)
{
	struct flood flood = { 0 };
	pthread_t threads[4];
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	flood.bed = &bed;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, submit_and_wait, &flood), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(flood.mistakes, 0);
	assert_int_equal(flood.runs, 1000);
	/* Numbered from 1 without a gap, and run in the order of their numbers. */
	assert_int_equal(flood.ids, 1000 * 1001 / 2);
	assert_int_equal(board->note_count, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(board->notes[i].word, i + 1);
	bed_close(&bed);
}

/* --- Waiting --------------------------------------------------------------- */

static void a_wait_that_times_out_changes_nothing(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_HYBRID, RP_WAIT_SPIN,
							RP_WAIT_BLOCK };

	(void)state;
	for (size_t k = 0; k < COUNT(policies); k++) {
		struct rp_worker_options options;
		struct rp_handle handle;
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		bed_options(&options, 1);
		options.wait = policies[k];
		bed_open_with(&bed, &options);
		assert_ok(bed_submit(&bed, wait_at_gate, NULL, &handle));
		assert_int_equal(rp_handle_wait(handle, 0), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, 1), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, 2000000), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(handle, -2), -EINVAL);
		assert_says("rp_handle_wait", "timeout_ns -2", "expected 0 or more");
		assert_int_equal(rp_handle_wait(handle, INT64_MIN), -EINVAL);
		assert_int_equal(rp_handle_done(handle), 0);
		gate_open(0);
		/* Long past any clock's end. */
		assert_ok(rp_handle_wait(handle, INT64_MAX));
		assert_int_equal(rp_handle_done(handle), 1);
		assert_ok(rp_handle_wait(handle, 0));
		assert_ok(rp_handle_release(handle));
		bed_close(&bed);
	}
}

struct waiters {
	struct rp_handle handle;
	int want;
	const char *text;
	_Atomic int waiting;
	_Atomic uint64_t heard;
	_Atomic uint64_t mistakes;
};

static void *wait_five_times(void *arg)
{
	struct waiters *waiters = arg;

	atomic_fetch_add(&waiters->waiting, 1);
	for (int i = 0; i < 5; i++) {
		int status = rp_handle_wait(waiters->handle, RP_WAIT_FOREVER);

		if (status != waiters->want ||
		    (status && !strstr(rp_last_error(), waiters->text)))
			atomic_fetch_add(&waiters->mistakes, 1);
		atomic_fetch_add(&waiters->heard, 1);
	}
	return NULL;
}

static void all_waiters_hear_the_same_outcome_every_time(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_HYBRID, RP_WAIT_SPIN,
							RP_WAIT_BLOCK };

	(void)state;
	for (size_t k = 0; k < COUNT(policies) * 2; k++) {
		bool fails = k & 1;
		struct waiters waiters = { .want = fails ? -EIO : 0,
					   .text = "told to fail with -5" };
		struct rp_worker_options options;
		pthread_t threads[3];
		struct bed bed;

		memset((void *)board, 0, sizeof(*board));
		bed_options(&options, 1);
		options.wait = policies[k / 2];
		bed_open_with(&bed, &options);
		assert_ok(bed_submit(&bed, fails ? gate_then_fail : wait_at_gate, NULL,
				     &waiters.handle));
		for (size_t i = 0; i < COUNT(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL,
							wait_five_times, &waiters),
					 0);
		while (atomic_load(&waiters.waiting) < (int)COUNT(threads))
			bed_breathe();
		for (int i = 0; i < 40; i++)
			bed_breathe();
		assert_int_equal(waiters.heard, 0);
		gate_open(0);
		for (size_t i = 0; i < COUNT(threads); i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(waiters.heard, 15);
		assert_int_equal(waiters.mistakes, 0);
		/* After close as well. */
		rp_worker_close(bed.worker, RP_WAIT_FOREVER);
		assert_int_equal(rp_handle_wait(waiters.handle, 0), waiters.want);
		if (fails)
			assert_says("entry 'fail' of 'support' on chip 0",
				    "told to fail with -5");
		assert_ok(rp_handle_release(waiters.handle));
		bed_close(&bed);
	}
}

/* --- Failures -------------------------------------------------------------- */

static void a_failed_run_poisons_nothing(void **state)
{
	int64_t *z = bed_shared(8, 0);
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	for (int round = 1; round < 20; round++) {
		assert_int_equal(bed_run(&bed, fail_with, (void *)(intptr_t)(round + 1)),
				 -round - 1);
		assert_says("run ", "entry 'fail' of 'support' on chip 0: told to fail");
		assert_ok(RUN_ONE(&bed, ENTRY_ADD, rp_inout(TENSOR(z, RP_INT64, 1)),
				  rp_arg_i64(1)));
		assert_int_equal(z[0], round);
		assert_int_equal(bed_stats(&bed).dispatches_failed, (uint64_t)round);
	}
	bed_close(&bed);
	rp_shared_free(z);
}

static int return_code(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_RETURN, rp_arg_i64((intptr_t)arg));
}

static void what_an_entry_returns_is_the_outcome(void **state)
{
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	assert_ok(bed_run(&bed, return_code, NULL));
	assert_int_equal(bed_run(&bed, return_code, (void *)(intptr_t)-ENODATA),
			 -ENODATA);
	assert_says("entry 'return'", strerror(ENODATA));
	/* No errno: what the entry did wrong is said, and no stale text is used. */
	assert_int_equal(bed_run(&bed, fail_with, (void *)(intptr_t)ENODATA), -ENODATA);
	assert_int_equal(bed_run(&bed, return_code, (void *)(intptr_t)3), -EINVAL);
	assert_says("entry 'return'", "returned 3", "expected 0 or a negative errno");
	assert_int_equal(bed_run(&bed, return_code, (void *)(intptr_t)-ENODATA),
			 -ENODATA);
	assert_says(strerror(ENODATA));
	bed_close(&bed);
}

/* The first failure is the run's, also where a later task of it fails otherwise, and
 * what depends on the failed task does not run. */
static int fail_before_dependents(struct rp_run *run, void *arg)
{
	struct rp_tensor z = TENSOR(arg, RP_INT64, 1);
	int err;

	err = TASK(run, 0, ENTRY_FAIL, rp_inout(z), rp_arg_i64(-EIO));
	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(z), rp_arg_i64(1));
	if (!err)
		err = TASK(run, 0, ENTRY_FAIL, rp_inout(z), rp_arg_i64(-ENODEV));
	if (!err)
		err = TASK(run, 1, ENTRY_NOTE, rp_in(z), rp_arg_i64(1));
	if (!err)
		err = CALL(run, CALLBACK_NOTE, rp_in(z), rp_arg_i64(2));
	return err;
}

static void the_first_error_wins_and_dependents_do_not_run(void **state)
{
	int64_t *z = bed_shared(8, 0);
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	for (int round = 0; round < 20; round++) {
		assert_int_equal(bed_run(&bed, fail_before_dependents, z), -EIO);
		assert_says("told to fail with -5", "on chip 0");
		assert_int_equal(z[0], 0);
		assert_int_equal(board->note_count, 0);
	}
	assert_int_equal(bed_stats(&bed).tasks, 20);
	assert_int_equal(bed_stats(&bed).tasks_cancelled, 80);
	bed_close(&bed);
	rp_shared_free(z);
}

static int enqueue_then_fail(struct rp_run *run, void *arg)
{
	struct rp_tensor z = TENSOR(arg, RP_INT64, 1);
	int err;

	/* Chip 1 waits for chip 0, which waits at a gate that nobody opens. */
	err = TASK(run, 0, ENTRY_GATE, rp_inout(z), rp_arg_u64(5));
	for (int i = 0; i < 20 && !err; i++)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(z), rp_arg_i64(1));
	if (!err)
		gate_await_entered(5, 1);
	return err ? err : rp_run_fail(run, -ECHILD, "the script gave up at %d", 42);
}

static int return_positive(struct rp_run *run, void *arg)
{
	(void)run;
	(void)arg;
	return 1;
}

static int return_negative(struct rp_run *run, void *arg)
{
	return rp_run_fail(run, (int)(intptr_t)arg, "nothing was enqueued");
}

static void a_failed_orchestration_leaves_nothing_in_flight(void **state)
{
	int64_t *z = bed_shared(8, 0);
	struct rp_handle handle = { 1, 2 };
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	for (uint64_t round = 1; round < 8; round++) {
		struct rp_worker_stats stats;

		atomic_store(&board->entered[5], 0);
		assert_int_equal(bed_submit(&bed, enqueue_then_fail, z, &handle),
				 -ECHILD);
		assert_says("the script gave up at 42");
		assert_int_equal(handle.worker, 1);
		assert_int_equal(board->passed[5], 0);
		assert_int_equal(z[0], 0);
		stats = bed_stats(&bed);
		/* All of them have ended by now, the second chip's without running. */
		assert_int_equal(stats.tasks + stats.tasks_cancelled, 21 * round);
		assert_int_equal(bed_submit(&bed, return_negative,
					    (void *)(intptr_t)-EXDEV, &handle),
				 -EXDEV);
		assert_says("nothing was enqueued");
		assert_int_equal(bed_submit(&bed, return_positive, NULL, &handle),
				 -EINVAL);
		assert_says("'support'", "returned 1", "expected 0 or a negative errno");
		assert_int_equal(stats.dispatches, 0);
	}
	/* Both frames and all handles are there. */
	for (int i = 0; i < 200; i++)
		assert_ok(bed_run(&bed, NULL, NULL));
	bed_close(&bed);
	rp_shared_free(z);
}

/* --- Handles ---------------------------------------------------------------- */

static void a_handle_is_told_apart_once_it_was_released(void **state)
{
	struct rp_handle zero = { 0, 0 };
	struct rp_handle handle, after;
	struct bed bed;

	(void)state;
	assert_int_equal(rp_handle_wait(zero, 0), -ESTALE);
	assert_says("rp_handle_wait", "no such handle");
	assert_int_equal(rp_handle_done(zero), -ESTALE);
	assert_int_equal(rp_handle_release(zero), -ESTALE);
	bed_open(&bed, 1);
	zero.worker = 0;
	assert_int_equal(rp_handle_wait(zero, RP_WAIT_FOREVER), -ESTALE);

	/* While it runs: it goes on, and its frame comes back. */
	assert_ok(bed_submit(&bed, wait_at_gate, NULL, &handle));
	zero = (struct rp_handle){ .worker = handle.worker };
	assert_int_equal(rp_handle_wait(zero, RP_WAIT_FOREVER), -ESTALE);
	assert_ok(rp_handle_release(handle));
	assert_int_equal(rp_handle_release(handle), -ESTALE);
	assert_says("rp_handle_release", "not released");
	assert_int_equal(rp_handle_done(handle), -ESTALE);
	assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), -ESTALE);
	gate_open(0);
	for (int i = 0; i < 200; i++) {
		assert_ok(bed_submit(&bed, NULL, NULL, &after));
		assert_ok(rp_handle_release(after));
	}
	assert_int_equal(board->passed[0], 1);

	assert_ok(bed_submit(&bed, NULL, NULL, &handle));
	assert_ok(bed_submit(&bed, NULL, NULL, &after));
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	assert_ok(rp_handle_wait(handle, 0));
	assert_ok(rp_handle_release(handle));
	assert_int_equal(rp_handle_release(handle), -ESTALE);
	bed_close(&bed);
	assert_int_equal(rp_handle_wait(after, 0), -ESTALE);
	assert_int_equal(rp_handle_done(after), -ESTALE);
	assert_int_equal(rp_handle_release(after), -ESTALE);
	/* Also when another worker has come. */
	bed_open(&bed, 1);
	assert_int_equal(rp_handle_release(after), -ESTALE);
	bed_close(&bed);
}

static void handles_run_out_by_name_and_come_back(void **state)
{
	enum {
		HANDLES = 5
	};
	struct rp_handle handles[HANDLES], more;
	struct rp_worker_options options;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	options.handle_count = HANDLES;
	bed_open_with(&bed, &options);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < HANDLES; i++)
			assert_ok(bed_submit(&bed, NULL, NULL, &handles[i]));
		assert_int_equal(bed_submit(&bed, NULL, NULL, &more), -ENOSPC);
		assert_says("rp_worker_submit", "all 5 handles", "handle_count");
		for (int i = 0; i < HANDLES; i++)
			assert_ok(rp_handle_wait(handles[i], RP_WAIT_FOREVER));
		/* Ended is not released. */
		assert_int_equal(bed_submit(&bed, NULL, NULL, &more), -ENOSPC);
		assert_ok(rp_handle_release(handles[2]));
		assert_ok(bed_submit(&bed, NULL, NULL, &handles[2]));
		assert_int_equal(bed_submit(&bed, NULL, NULL, &more), -ENOSPC);
		for (int i = 0; i < HANDLES; i++)
			assert_ok(rp_handle_release(handles[i]));
	}
	bed_close(&bed);
}

#define PROCESS_TEST(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(an_input_is_not_copied_back),
		PROCESS_TEST(an_output_starts_as_zero_and_is_not_uploaded),
		PROCESS_TEST(an_inout_crosses_both_ways),
		PROCESS_TEST(every_dtype_makes_the_round_trip),
		PROCESS_TEST(columns_are_gathered_and_scattered),
		PROCESS_TEST(an_entry_sees_device_memory_or_the_callers_view),
		PROCESS_TEST(views_of_five_dims_are_accepted),
		PROCESS_TEST(scalars_of_every_kind_arrive),
		PROCESS_TEST(the_configuration_is_the_callers_as_it_was_at_submit),
		PROCESS_TEST(the_arguments_are_the_callers_as_they_were_at_submit),
		PROCESS_TEST(
			a_third_submit_waits_for_the_oldest_and_keeps_its_error_to_itself),
		PROCESS_TEST(four_threads_of_250_runs_get_1000_outcomes),
		PROCESS_TEST(a_wait_that_times_out_changes_nothing),
		PROCESS_TEST(all_waiters_hear_the_same_outcome_every_time),
		PROCESS_TEST(a_failed_run_poisons_nothing),
		PROCESS_TEST(what_an_entry_returns_is_the_outcome),
		PROCESS_TEST(the_first_error_wins_and_dependents_do_not_run),
		PROCESS_TEST(a_failed_orchestration_leaves_nothing_in_flight),
		PROCESS_TEST(a_handle_is_told_apart_once_it_was_released),
		PROCESS_TEST(handles_run_out_by_name_and_come_back),
	};

	return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
