/* SPDX-License-Identifier: MIT */
/*
 * What makes a call of a program: each rule is broken once, and the error must be the
 * right one and say which argument, its value, and what was expected.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define ROWS 6

/* y = x, with k along for the ride. */
static const struct rp_param copy_params[] = {
	{ .name = "x",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_IN,
	  .rank = 2,
	  .shape = { RP_DIM_ANY, 4 },
	  .dim_names = { "n" } },
	{ .name = "y",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_OUT,
	  .rank = 2,
	  .shape = { RP_DIM_ANY, 4 },
	  .dim_names = { "n" } },
	{ .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
};

static void open_copy(struct bed *bed)
{
	struct rp_worker_options options;
	struct rp_program_desc desc;

	bed_options(&options, 1);
	bed_describe(&desc, "copy-rows", copy_params, COUNT(copy_params));
	desc.orchestrate = NULL;
	desc.entries += ENTRY_COPY;
	desc.entry_count = 1;
	bed_prepare(bed, &desc, &options);
}

/* A call that is right, for a test to spoil. */
struct call {
	struct rp_arg args[3];
	size_t nargs;
	const struct rp_arg *given;
};

static void a_count(struct call *c)
{
	c->nargs = 2;
}

static void a_count_above(struct call *c)
{
	c->nargs = 4;
}

static void a_count_of_none(struct call *c)
{
	c->nargs = 0;
	c->given = NULL;
}

static void a_null(struct call *c)
{
	c->given = NULL;
}

static void a_scalar_for_a_tensor(struct call *c)
{
	c->args[0] = rp_arg_i64(1);
}

static void a_tensor_for_a_scalar(struct call *c)
{
	c->args[2] = c->args[0];
}

static void an_unknown_kind(struct call *c)
{
	c->args[1].kind = 9;
}

static void a_scalar_of_another_dtype(struct call *c)
{
	c->args[2] = rp_arg_f32(1);
}

static void a_dtype(struct call *c)
{
	c->args[0].u.tensor.dtype = RP_UINT64;
}

static void no_dtype(struct call *c)
{
	c->args[0].u.tensor.dtype = 0;
}

static void a_rank_below(struct call *c)
{
	c->args[0].u.tensor.rank = 1;
}

static void a_rank_above(struct call *c)
{
	c->args[0].u.tensor.rank = 3;
	c->args[0].u.tensor.shape[2] = 1;
	c->args[0].u.tensor.strides[2] = 1;
}

static void a_rank_of_nothing(struct call *c)
{
	c->args[0].u.tensor.rank = UINT32_MAX;
}

static void a_fixed_dim(struct call *c)
{
	c->args[1].u.tensor.shape[1] = 3;
	c->args[1].u.tensor.strides[0] = 3;
}

static void named_dims_that_differ(struct call *c)
{
	c->args[1].u.tensor.shape[0] = ROWS - 1;
}

static void a_dim_of_zero(struct call *c)
{
	c->args[0].u.tensor.shape[0] = 0;
}

static void a_negative_dim(struct call *c)
{
	c->args[0].u.tensor.shape[0] = -1;
}

static void a_stride_of_zero(struct call *c)
{
	c->args[0].u.tensor.strides[0] = 0;
}

static void a_strided_view(struct call *c)
{
	c->args[0].u.tensor.strides[0] = 5;
}

static void no_data(struct call *c)
{
	c->args[1].u.tensor.data = NULL;
}

static void a_huge_shape(struct call *c)
{
	c->args[0].u.tensor.shape[0] = INT64_MAX / 4;
}

static void every_broken_rule_of_a_call_is_named(void **state)
{
	static const struct {
		void (*spoil)(struct call *call);
		const char *needles[3];
	} cases[] = {
		{ a_count, { "nargs 2", "'copy-rows' expects 3", "(x, y, k)" } },
		{ a_count_above, { "nargs 4", "expects 3", "(x, y, k)" } },
		{ a_count_of_none, { "nargs 0", "expects 3" } },
		{ a_null, { "args NULL", "expected 3" } },
		{ a_scalar_for_a_tensor, { "'x'", "kind 2", "expected a tensor" } },
		{ a_tensor_for_a_scalar, { "'k'", "kind 1", "expected a scalar" } },
		{ an_unknown_kind, { "'y'", "kind 9", "expected a tensor" } },
		{ a_scalar_of_another_dtype, { "'k'", "float32", "expected int64" } },
		{ a_dtype, { "'x'", "uint64", "expected int64" } },
		{ no_dtype, { "'x'", "dtype", "expected int64" } },
		{ a_rank_below, { "'x'", "[6]", "expected [*,4]" } },
		{ a_rank_above, { "'x'", "[6,4,1]", "expected [*,4]" } },
		{ a_rank_of_nothing, { "'x'", "shape", "expected [*,4]" } },
		{ a_fixed_dim, { "'y'", "[6,3]", "expected [*,4]" } },
		{ named_dims_that_differ, { "'y' dim 0 ('n')", "is 5", "expected 6" } },
		{ a_dim_of_zero, { "'x'", "shape[0] 0", "expected" } },
		{ a_negative_dim, { "'x'", "shape[0] -1", "expected" } },
		{ a_stride_of_zero, { "'x'", "strides[0] 0", "expected" } },
		{ a_strided_view, { "'x'", "strided", "expected a contiguous" } },
		{ no_data, { "'y'", "data NULL", "expected" } },
		{ a_huge_shape, { "'x'", "expected" } },
	};
	int64_t *x = bed_shared(ROWS * 4 * 8, 1);
	int64_t *y = bed_shared(ROWS * 4 * 8, 2);
	struct rp_handle handle;
	struct bed bed;

	(void)state;
	open_copy(&bed);
	for (size_t k = 0; k < COUNT(cases); k++) {
		struct call call = {
			.args = { rp_arg_tensor(TENSOR(x, RP_INT64, ROWS, 4)),
				  rp_arg_tensor(TENSOR(y, RP_INT64, ROWS, 4)),
				  rp_arg_i64(7) },
			.nargs = 3,
		};
		struct rp_handle before = handle = (struct rp_handle){ 11, 22 };

		call.given = call.args;
		cases[k].spoil(&call);
		if (rp_worker_submit(bed.worker, NULL, call.given, call.nargs, NULL,
				     &handle) != -EINVAL)
			fail_msg("case %zu was not refused: \"%s\"", k, rp_last_error());
		assert_memory_equal(&handle, &before, sizeof(handle));
		assert_says("rp_worker_submit: ");
		for (size_t n = 0; n < COUNT(cases[k].needles); n++)
			if (cases[k].needles[n])
				assert_says(cases[k].needles[n]);
		/* Nothing stayed behind: both frames can be used at once. */
		y[0] = (int64_t)k;
		for (int i = 0; i < 3; i++)
			assert_ok(RUN(&bed, rp_arg_tensor(TENSOR(x, RP_INT64, ROWS, 4)),
				      rp_arg_tensor(TENSOR(y, RP_INT64, ROWS, 4)),
				      rp_arg_i64(7)));
		assert_memory_equal(x, y, ROWS * 4 * 8);
	}
	assert_int_equal(bed_stats(&bed).dispatches, 3 * COUNT(cases));
	assert_int_equal(bed_stats(&bed).tasks, 3 * COUNT(cases));
	bed_close(&bed);
	rp_shared_free(x);
	rp_shared_free(y);
}

/* Dims that a call may choose. */
static void a_dynamic_dim_is_any_and_a_fixed_one_is_not(void **state)
{
	int64_t *x = bed_shared(9 * 4 * 8, 1);
	int64_t *y = bed_shared(9 * 4 * 8, 2);
	struct bed bed;

	(void)state;
	open_copy(&bed);
	for (int64_t rows = 9; rows > 0; rows -= 4) {
		memset(y, 2, 9 * 4 * 8);
		assert_ok(RUN(&bed, rp_arg_tensor(TENSOR(x, RP_INT64, rows, 4)),
			      rp_arg_tensor(TENSOR(y, RP_INT64, rows, 4)),
			      rp_arg_i64(0)));
		assert_memory_equal(x, y, (size_t)rows * 4 * 8);
		if (rows < 9)
			assert_int_equal(((char *)y)[rows * 4 * 8], 2);
		assert_int_equal(RUN(&bed, rp_arg_tensor(TENSOR(x, RP_INT64, rows, 3)),
				     rp_arg_tensor(TENSOR(y, RP_INT64, rows, 3)),
				     rp_arg_i64(0)),
				 -EINVAL);
	}
	bed_close(&bed);
	rp_shared_free(x);
	rp_shared_free(y);
}

static int run_from(struct bed *bed, void *from, void *to)
{
	return RUN(bed, rp_arg_tensor(TENSOR(from, RP_INT64, 1, 4)),
		   rp_arg_tensor(TENSOR(to, RP_INT64, 1, 4)), rp_arg_i64(0));
}

static void memory_that_the_chips_cannot_see_is_refused_by_name(void **state)
{
	void *arena = bed_shared(256, 1);
	void *region = bed_shared((size_t)2 << 20, 2);
	void *late, *late_region, *heap;
	char page[256];
	struct bed bed;

	(void)state;
	open_copy(&bed);
	assert_ok(run_from(&bed, arena, region));
	assert_memory_equal(arena, region, 32);

	heap = malloc(32);
	assert_non_null(heap);
	assert_int_equal(run_from(&bed, heap, region), -EFAULT);
	assert_says("rp_worker_submit: 'x'", "32 bytes", "rp_shared_alloc()");
	assert_int_equal(run_from(&bed, region, heap), -EFAULT);
	assert_says("rp_worker_submit: 'y'", "rp_shared_alloc()");
	free(heap);
	assert_int_equal(run_from(&bed, page, region), -EFAULT);

	/* A region made after the processes is not theirs, ... */
	assert_ok(rp_shared_alloc((size_t)2 << 20, &late_region));
	assert_int_equal(run_from(&bed, late_region, arena), -EFAULT);
	assert_says("'x'", "rp_shared_alloc()");
	/* ... a block from one that they have is. */
	assert_ok(rp_shared_alloc(64, &late));
	memset(late, 3, 64);
	assert_ok(run_from(&bed, late, region));
	assert_memory_equal(late, region, 32);

	/* Across the end of what is seen. */
	assert_int_equal(run_from(&bed, (char *)region + ((size_t)2 << 20) - 16, arena),
			 -EFAULT);
	/* Given back, it is refused from then on. */
	rp_shared_free(region);
	assert_int_equal(run_from(&bed, region, arena), -EFAULT);
	assert_ok(run_from(&bed, arena, late));
	bed_close(&bed);
	rp_shared_free(late);
	rp_shared_free(late_region);
	rp_shared_free(arena);
}

/* --- Which program, which worker --------------------------------------------- */

static void what_is_not_there_is_refused(void **state)
{
	struct rp_run_config config;
	struct rp_handle handle = { 0, 0 };
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	assert_int_equal(rp_worker_submit(NULL, bed.program, NULL, 0, NULL, &handle),
			 -EINVAL);
	assert_says("rp_worker_submit", "worker NULL");
	assert_int_equal(rp_worker_submit(bed.worker, bed.program, NULL, 0, NULL, NULL),
			 -EINVAL);
	assert_says("rp_worker_submit", "handle_out NULL");
	assert_int_equal(rp_worker_run(NULL, bed.program, NULL, 0, NULL), -EINVAL);
	assert_says("rp_worker_run", "worker NULL");
	rp_run_config_init(&config);
	config.size--;
	assert_int_equal(rp_worker_run(bed.worker, NULL, NULL, 0, &config), -EINVAL);
	assert_says("config size", "expected", "rp_run_config_init()");
	assert_int_equal(handle.worker, 0);
	bed_close(&bed);
}

static struct rp_program *named_program(const char *name)
{
	struct rp_program *program;
	struct rp_program_desc desc;

	bed_describe(&desc, name, NULL, 0);
	assert_ok(rp_program_create(&desc, &program));
	return program;
}

static void only_prepared_programs_run_and_identity_is_the_object(void **state)
{
	struct rp_program *programs[] = { named_program("alpha"), named_program("beta") };
	struct rp_program *twin = named_program("beta");
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	bed_options(&options, 1);
	assert_ok(rp_worker_prepare(programs, 2, &options, &worker));
	assert_ok(rp_worker_run(worker, programs[0], NULL, 0, NULL));
	assert_ok(rp_worker_run(worker, programs[1], NULL, 0, NULL));
	assert_int_equal(rp_worker_run(worker, twin, NULL, 0, NULL), -ENOENT);
	assert_says("'beta'", "not prepared", "alpha, beta");
	assert_int_equal(rp_worker_run(worker, NULL, NULL, 0, NULL), -EINVAL);
	assert_says("program NULL", "2");
	/* The worker keeps what it needs. */
	rp_program_free(programs[0]);
	assert_ok(rp_worker_run(worker, programs[0], NULL, 0, NULL));
	assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(programs[1]);
	rp_program_free(twin);
}

static int submit_again(struct rp_run *run, void *arg)
{
	struct bed *bed = arg;
	struct rp_handle handle;
	int err;

	(void)run;
	err = rp_worker_submit(bed->worker, bed->program, NULL, 0, NULL, &handle);
	return err ? err : rp_handle_release(handle);
}

static void a_submit_from_an_orchestration_is_refused(void **state)
{
	struct bed bed, other;

	(void)state;
	bed_open(&bed, 1);
	bed_open(&other, 1);
	assert_int_equal(bed_run(&bed, submit_again, &bed), -EDEADLK);
	assert_says("rp_worker_submit", "orchestration");
	assert_ok(bed_run(&bed, NULL, NULL));
	bed_close(&other);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(every_broken_rule_of_a_call_is_named),
		PROCESS_TEST(a_dynamic_dim_is_any_and_a_fixed_one_is_not),
		PROCESS_TEST(memory_that_the_chips_cannot_see_is_refused_by_name),
		PROCESS_TEST(what_is_not_there_is_refused),
		PROCESS_TEST(only_prepared_programs_run_and_identity_is_the_object),
		PROCESS_TEST(a_submit_from_an_orchestration_is_refused),
	};

	return cmocka_run_group_tests_name("call", tests, NULL, NULL);
}
