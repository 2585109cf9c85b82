/* SPDX-License-Identifier: MIT */
/* Rings that are too small, and what a run may not do: each verdict, and that the
 * runtime works afterwards. Each with no compute thread and with two. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bed.h"

static const uint32_t crews[] = { 0, 2 };

#define EACH_CREW(i) for (size_t i = 0; i < COUNT(crews); i++)

/* After a run that failed: the next one works. */
static void assert_usable(struct rpi_runtime *runtime)
{
	struct rp_tensor out = { 0 };
	const char *text;

	rpi_runtime_begin(runtime, NULL);
	for (int i = 0; i < 100; i++)
		assert_ok(kernel_output(runtime, 5000, &out));
	assert_int_equal(rpi_runtime_end(runtime, 0, &text), 0);
	assert_null(text);
}

static void end_failed(struct rpi_runtime *runtime, int want, const char *needle)
{
	const char *text;

	assert_int_equal(rpi_runtime_end(runtime, 0, &text), want);
	assert_non_null(text);
	assert_non_null(strstr(text, needle));
	assert_usable(runtime);
	rpi_runtime_close(runtime);
}

static void a_window_holds_as_many_kernels_as_it_has_slots(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = crews[c], .window = 4 });

		for (int i = 0; i < 4; i++)
			assert_ok(kernel_empty(runtime));
		assert_int_equal(kernel_empty(runtime), -EDEADLK);
		assert_says("ring 0", "window of 4", "4 in use", "scope of depth 0",
			    "ring_task_window 8 would do", "in use: 4 of 4 slots, 0 of ",
			    " heap bytes, 0 of ");
		/* The first fault stays. */
		assert_int_equal(kernel_output(runtime, 1 << 30, NULL), -EDEADLK);
		assert_says("window of 4");
		end_failed(runtime, -EDEADLK, "ring_task_window 8");
	}
}

static void deep_scopes_share_the_last_ring(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = crews[c], .window = 4 });
		int depth, err = 0;

		for (depth = 1; depth <= 8 && !err; depth++) {
			assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
			for (int i = 0; i < 3 && !err; i++)
				err = kernel_empty(runtime);
		}
		assert_int_equal(err, -EDEADLK);
		assert_int_equal(depth, 5);
		assert_says("ring 3", "depth 3 to 4", "share");
		end_failed(runtime, -EDEADLK, "share");
	}
}

static void an_output_larger_than_the_heap_is_refused(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = crews[c], .heap = 1024 });

		assert_int_equal(kernel_output(runtime, 32768, NULL), -ENOSPC);
		assert_says("ring 0", "heap of 1024", "32768", "ring_heap 32768 would do",
			    "in use: 0 of ", "0 of 1024 heap bytes, 0 of ");
		end_failed(runtime, -ENOSPC, "ring_heap");
	}
}

static void a_heap_that_an_open_scope_fills_is_a_deadlock(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = crews[c], .heap = 4096 });

		/* All of it can be in use. */
		assert_ok(kernel_output(runtime, 1, NULL));
		assert_ok(kernel_output(runtime, 1024, NULL));
		assert_ok(kernel_output(runtime, 1025, NULL));
		assert_int_equal(kernel_output(runtime, 1, NULL), -EDEADLK);
		assert_says("ring 0", "heap of 4096", "4096 in use", "depth 0",
			    "ring_heap 8192 would do", "in use: 3 of ",
			    "4096 of 4096 heap bytes, 0 of ");
		end_failed(runtime, -EDEADLK, "ring_heap 8192");
	}
}

/* One consumer of `count` producers. */
static int fan_in(struct rpi_runtime *runtime, uint32_t count, bool by_id)
{
	struct rp_arg *args = calloc(count, sizeof(*args));
	rp_kernel_id *ids = calloc(count, sizeof(*ids));
	struct rp_kernel consumer = { .fn = kernel_nothing };
	int err = 0;

	for (uint32_t i = 0; i < count && !err; i++) {
		int64_t bytes = 8;
		struct rp_arg arg = rp_out_new(RP_UINT8, 1, &bytes);
		struct rp_kernel producer = { .fn = kernel_nothing,
					      .args = &arg,
					      .arg_count = 1 };

		err = rpi_runtime_submit(runtime, &producer, &ids[i]);
		args[i] = rp_in(arg.u.tensor);
	}
	assert_ok(err);
	if (by_id) {
		consumer.deps = ids;
		consumer.dep_count = count;
	} else {
		consumer.args = args;
		consumer.arg_count = count;
	}
	err = rpi_runtime_submit(runtime, &consumer, NULL);
	free(args);
	free(ids);
	return err;
}

static void a_fan_in_larger_than_the_pool_is_refused(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		for (int by_id = 0; by_id < 2; by_id++) {
			struct rpi_runtime *runtime = kernel_open(
				(struct kernel_bed){ .threads = crews[c], .pool = 4 });

			assert_int_equal(fan_in(runtime, 128, by_id), -ENOSPC);
			assert_says("ring 0", "pool of 4", "128", "ring_dep_pool 128",
				    "in use: 128 of ", " of 4 edges");
			end_failed(runtime, -ENOSPC, "ring_dep_pool");
			runtime = kernel_open(
				(struct kernel_bed){ .threads = crews[c], .pool = 256 });
			assert_ok(fan_in(runtime, 128, by_id));
			kernel_close(runtime, 0);
		}
	}
}

/* The same producer many times over is one edge. */
static void a_producer_counts_once(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = crews[c], .pool = 4 });
		struct rp_tensor out = { 0 };
		struct rp_arg args[8];

		assert_ok(kernel_output(runtime, 64, &out));
		for (size_t i = 0; i < COUNT(args); i++)
			args[i] = rp_in(out);
		assert_ok(kernel_submit(runtime, kernel_nothing, args, COUNT(args)));
		kernel_close(runtime, 0);
	}
}

static void scopes_nest_64_deep_and_no_deeper(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });

	(void)state;
	for (int i = 0; i < 64; i++)
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
	assert_int_equal(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO), -EINVAL);
	assert_says("rp_scope_begin", "64");
	end_failed(runtime, -EINVAL, "64");
}

static void a_scope_that_is_not_open_does_not_end(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });

	(void)state;
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
	assert_ok(rpi_runtime_scope_end(runtime));
	assert_int_equal(rpi_runtime_scope_end(runtime), -EINVAL);
	end_failed(runtime, -EINVAL, "rp_scope_end");
}

static void automatic_inside_manual_is_refused(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });

	(void)state;
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_MANUAL));
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_MANUAL));
	assert_int_equal(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO), -EINVAL);
	end_failed(runtime, -EINVAL, "manual");
}

static void outputs_of_an_ended_scope_are_refused(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime =
			kernel_open((struct kernel_bed){ .threads = crews[c] });
		struct rp_tensor out = { 0 };
		struct rp_arg arg;

		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		assert_ok(kernel_output(runtime, 5000, &out));
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		arg = rp_in(out);
		assert_ok(kernel_submit(runtime, kernel_nothing, &arg, 1));
		assert_ok(rpi_runtime_scope_end(runtime));
		assert_ok(rpi_runtime_scope_end(runtime));
		arg = rp_in(out);
		assert_int_equal(kernel_submit(runtime, kernel_nothing, &arg, 1),
				 -EINVAL);
		assert_says("args[0]", "ring 1", "still open");
		end_failed(runtime, -EINVAL, "args[0]");
	}
}

static void a_view_past_the_outputs_is_refused(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });
	struct rp_tensor out = { 0 };
	struct rp_arg arg;

	(void)state;
	assert_ok(kernel_output(runtime, 1024, &out));
	out.shape[0] = 1025;
	arg = rp_in(out);
	assert_int_equal(kernel_submit(runtime, kernel_nothing, &arg, 1), -EINVAL);
	end_failed(runtime, -EINVAL, "heap of ring 0");
}

static void every_broken_rule_of_a_kernel_is_named(void **state)
{
	static float data[8];
	struct rp_tensor good = { .data = data,
				  .dtype = RP_FLOAT32,
				  .rank = 1,
				  .shape = { 8 },
				  .strides = { 1 } };
	struct rp_tensor none = good, resident = good, rankless = good;
	static const rp_kernel_id future = 77;
	struct rp_arg two_out[2] = { rp_out(good), rp_inout(good) };
	struct rp_arg no_data, in_resident, no_rank, bad_access, bad_kind, bits;
	struct {
		struct rp_kernel kernel;
		const char *says;
	} cases[] = {
		{ { .fn = NULL }, "fn" },
		{ { .fn = kernel_nothing, .flags = 1 }, "flags" },
		{ { .fn = kernel_nothing, .arg_count = 1 }, "args NULL" },
		{ { .fn = kernel_nothing, .args = two_out, .arg_count = 100000 },
		  "arg_count" },
		{ { .fn = kernel_nothing, .args = &no_data, .arg_count = 1 }, "NULL" },
		{ { .fn = kernel_nothing, .args = &in_resident, .arg_count = 1 },
		  "resident" },
		{ { .fn = kernel_nothing, .args = &no_rank, .arg_count = 1 }, "rank" },
		{ { .fn = kernel_nothing, .args = &bad_access, .arg_count = 1 },
		  "access" },
		{ { .fn = kernel_nothing, .args = &bits, .arg_count = 1 }, "access" },
		{ { .fn = kernel_nothing, .args = &bad_kind, .arg_count = 1 }, "kind" },
		{ { .fn = kernel_nothing, .args = two_out, .arg_count = 2 }, "overlap" },
		{ { .fn = kernel_nothing, .dep_count = 1 }, "deps NULL" },
		{ { .fn = kernel_nothing, .deps = &future, .dep_count = 1 }, "deps[0]" },
	};

	(void)state;
	none.data = NULL;
	resident.resident = 5;
	rankless.rank = 9;
	no_data = rp_in(none);
	in_resident = rp_in(resident);
	no_rank = rp_in(rankless);
	bad_access = rp_in(good);
	bad_access.access = 0;
	bits = rp_in(good);
	bits.access |= 0x40;
	bad_kind = rp_in(good);
	bad_kind.kind = 9;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });

		assert_int_equal(rpi_runtime_submit(runtime, &cases[i].kernel, NULL),
				 -EINVAL);
		assert_says("rp_chip_submit", cases[i].says);
		end_failed(runtime, -EINVAL, cases[i].says);
	}
}

static int fail_badly(const struct rp_arg *args, size_t nargs)
{
	(void)nargs;
	return args[0].u.scalar.value.i32;
}

static _Atomic uint32_t ran;

static int count_up(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	atomic_fetch_add(&ran, 1);
	return 0;
}

static void a_failed_kernel_fails_the_run_and_its_followers_do_not_run(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime =
			kernel_open((struct kernel_bed){ .threads = crews[c] });
		static float data[8];
		struct rp_tensor t = { .data = data,
				       .dtype = RP_FLOAT32,
				       .rank = 1,
				       .shape = { 8 },
				       .strides = { 1 } };
		struct rp_arg args[2] = { rp_arg_i32(-EIO), rp_inout(t) };
		struct rp_kernel bad = {
			.fn = fail_badly, .name = "bad", .args = args, .arg_count = 2
		};
		int err;

		atomic_store(&ran, 0);
		assert_ok(kernel_empty(runtime));
		err = rpi_runtime_submit(runtime, &bad, NULL);
		assert_true(!err || err == -EIO);
		for (int i = 0; i < 20; i++)
			kernel_submit(runtime, count_up, &args[1], 1);
		assert_int_equal(rpi_runtime_drain(runtime), -EIO);
		assert_says("kernel 1 'bad'", "ring 0");
		assert_int_equal(atomic_load(&ran), 0);
		end_failed(runtime, -EIO, "'bad'");
	}
}

static void a_positive_outcome_is_none(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ 0 });
	struct rp_arg arg = rp_arg_i32(3);

	(void)state;
	assert_int_equal(kernel_submit(runtime, fail_badly, &arg, 1), -EINVAL);
	assert_says("returned 3");
	end_failed(runtime, -EINVAL, "returned 3");
}

static void an_orchestration_that_fails_is_heard_before_later_faults(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ .threads = 2 });
	const char *text;

	(void)state;
	assert_ok(kernel_empty(runtime));
	assert_int_equal(rpi_runtime_end(runtime, -ENOTTY, &text), -ENOTTY);
	assert_null(text);
	assert_usable(runtime);
	rpi_runtime_close(runtime);
}

static void usage_is_told_after_a_failure_too(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime = kernel_open((struct kernel_bed){
			.threads = crews[c], .window = 8, .heap = 8192, .pool = 9 });
		struct rp_ring_state seen;

		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		for (int i = 0; i < 5; i++)
			assert_ok(kernel_output(runtime, 1000, NULL));
		assert_int_equal(kernel_output(runtime, 9000, NULL), -ENOSPC);
		assert_ok(rpi_runtime_ring_state(runtime, 1, &seen));
		assert_int_equal(seen.task_window.size, 8);
		assert_int_equal(seen.task_window.in_use, 5);
		assert_int_equal(seen.task_window.peak, 5);
		assert_int_equal(seen.heap.size, 8192);
		assert_int_equal(seen.heap.in_use, 5 * 1024);
		assert_int_equal(seen.heap.peak, 5 * 1024);
		assert_int_equal(seen.dep_pool.size, 9);
		assert_int_equal(rpi_runtime_ring_state(runtime, 4, &seen), -EINVAL);
		end_failed(runtime, -ENOSPC, "9216");
	}
}

/* Streaming: many more kernels than there are slots, and more outputs than bytes. */
static void scopes_stream_through_small_rings(void **state)
{
	(void)state;
	EACH_CREW(c)
	{
		struct rpi_runtime *runtime = kernel_open((struct kernel_bed){
			.threads = crews[c], .window = 16, .heap = 16384, .pool = 8 });

		for (int scope = 0; scope < 5000; scope++) {
			struct rp_tensor last = { 0 };

			assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
			for (int i = 0; i < 8; i++) {
				int64_t bytes = 1 + (scope * 131 + i * 17) % 1500;
				struct rp_arg args[2] = { rp_out_new(RP_UINT8, 1, &bytes),
							  rp_in(last) };

				assert_ok(kernel_submit(runtime, count_up, args,
							i ? 2 : 1));
				last = args[0].u.tensor;
			}
			assert_ok(rpi_runtime_scope_end(runtime));
		}
		kernel_close(runtime, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_holds_as_many_kernels_as_it_has_slots),
		cmocka_unit_test(deep_scopes_share_the_last_ring),
		cmocka_unit_test(an_output_larger_than_the_heap_is_refused),
		cmocka_unit_test(a_heap_that_an_open_scope_fills_is_a_deadlock),
		cmocka_unit_test(a_fan_in_larger_than_the_pool_is_refused),
		cmocka_unit_test(a_producer_counts_once),
		cmocka_unit_test(scopes_nest_64_deep_and_no_deeper),
		cmocka_unit_test(a_scope_that_is_not_open_does_not_end),
		cmocka_unit_test(automatic_inside_manual_is_refused),
		cmocka_unit_test(outputs_of_an_ended_scope_are_refused),
		cmocka_unit_test(a_view_past_the_outputs_is_refused),
		cmocka_unit_test(every_broken_rule_of_a_kernel_is_named),
		cmocka_unit_test(
			a_failed_kernel_fails_the_run_and_its_followers_do_not_run),
		cmocka_unit_test(a_positive_outcome_is_none),
		cmocka_unit_test(
			an_orchestration_that_fails_is_heard_before_later_faults),
		cmocka_unit_test(usage_is_told_after_a_failure_too),
		cmocka_unit_test(scopes_stream_through_small_rings),
	};

	return cmocka_run_group_tests_name("runtime_limits", tests, NULL, NULL);
}
