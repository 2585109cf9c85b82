/* SPDX-License-Identifier: MIT */
/*
 * Callbacks by name: what a program declares, what a worker binds, what a signature
 * allows. How callbacks are ordered among tasks is test_order's.
 */
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc.h"

/* --- Functions to bind ------------------------------------------------------------ */

/* The first argument is an int64 to write to: what is told depends on the function. */
static int64_t *out_of(const struct rp_arg *args)
{
	return args[0].u.tensor.data;
}

static int tell_one(struct rp_callback_context *context, const struct rp_arg *args,
		    size_t nargs, void *user)
{
	(void)context;
	(void)nargs;
	(void)user;
	*out_of(args) = 1;
	return 0;
}

static int tell_user(struct rp_callback_context *context, const struct rp_arg *args,
		     size_t nargs, void *user)
{
	(void)context;
	(void)nargs;
	*out_of(args) = *(const int64_t *)user;
	return 0;
}

static int tell_count(struct rp_callback_context *context, const struct rp_arg *args,
		      size_t nargs, void *user)
{
	(void)context;
	(void)args;
	atomic_store((_Atomic uint64_t *)user, nargs + 1);
	return 0;
}

static int refuse(struct rp_callback_context *context, const struct rp_arg *args,
		  size_t nargs, void *user)
{
	(void)args;
	(void)nargs;
	(void)user;
	return rp_callback_fail(context, -EILSEQ, "not today");
}

/* Shared, and made before any worker. */
static int64_t *cell;

static int set_up_cell(void **state)
{
	(void)state;
	cell = bed_shared(256, 0);
	return 0;
}

static int tear_down_cell(void **state)
{
	(void)state;
	return rp_shared_free(cell);
}

/* --- Programs --------------------------------------------------------------------- */

static struct rp_program *program_of(const char *name,
				     const struct rp_callback *callbacks, size_t count,
				     uint32_t workers)
{
	struct rp_program_desc desc;
	struct rp_program *program;

	bed_describe(&desc, name, NULL, 0);
	desc.callbacks = callbacks;
	desc.callback_count = count;
	desc.callback_workers = workers;
	assert_ok(rp_program_create(&desc, &program));
	return program;
}

static int prepare(struct rp_program *program, const struct rp_callback *bindings,
		   size_t count, struct rp_worker **worker_out)
{
	struct rp_worker_options options;

	bed_options(&options, 1);
	options.callbacks = bindings;
	options.callback_count = count;
	return rp_worker_prepare(&program, 1, &options, worker_out);
}

/* One call of callback `index`, with what `arg` says as its arguments. */
struct call {
	uint32_t index;
	const struct rp_arg *args;
	uint32_t count;
	int status;  /* of rp_run_callback() */
	bool ignore; /* the orchestration succeeds all the same */
	int bound;
};

static int make_call(struct rp_run *run, void *arg)
{
	struct call *call = arg;

	call->bound = rp_run_callback_bound(run, call->index);
	call->status = rp_run_callback(run, call->index, call->args, call->count);
	return call->ignore ? 0 : call->status;
}

static int call_on(struct rp_worker *worker, struct rp_program *program,
		   struct call *call)
{
	struct bed bed = { .program = program, .worker = worker };

	return bed_run(&bed, make_call, call);
}

/* What callback `index` tells. */
static int64_t told(struct rp_worker *worker, struct rp_program *program, uint32_t index)
{
	struct rp_arg args[] = { rp_out(TENSOR(cell, RP_INT64, 1)) };
	struct call call = { .index = index, .args = args, .count = 1 };

	*cell = 0;
	assert_ok(call_on(worker, program, &call));
	assert_true(call.bound);
	return *cell;
}

static void end(struct rp_worker *worker)
{
	assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
}

/* --- Binding ------------------------------------------------------------------------ */

static void a_declared_callback_runs_what_the_worker_binds(void **state)
{
	static const struct rp_callback declared[] = { { .name = "sample" } };
	int64_t private = 5;
	int64_t *shared;
	struct rp_callback binding = { .name = "sample", .fn = tell_user };
	struct rp_program *program = program_of("p", declared, 1, 0);
	struct rp_worker *worker;

	(void)state;
	binding.user = &private;
	assert_ok(prepare(program, &binding, 1, &worker));
	assert_int_equal(told(worker, program, 0), 5);
	/* Private memory is seen as it was at prepare. */
	private = 6;
	assert_int_equal(told(worker, program, 0), 5);
	end(worker);

	shared = bed_shared(sizeof(*shared), 0);
	binding.user = shared;
	assert_ok(prepare(program, &binding, 1, &worker));
	/* The array is the caller's again. */
	memset(&binding, 0xee, sizeof(binding));
	*shared = 8;
	assert_int_equal(told(worker, program, 0), 8);
	*shared = 9;
	assert_int_equal(told(worker, program, 0), 9);
	end(worker);
	rp_shared_free(shared);
	rp_program_free(program);
}

static void two_workers_bind_one_program_differently(void **state)
{
	static const int64_t two = 2, three = 3;
	static const struct rp_callback declared[] = {
		{ .name = "other", .fn = tell_one },
		{ .name = "sample", .fn = tell_one },
	};
	struct rp_callback bindings[2] = {
		{ .name = "sample", .fn = tell_user, .user = (void *)&two },
		{ .name = "sample", .fn = tell_user, .user = (void *)&three },
	};
	struct rp_program *program = program_of("p", declared, 2, 1);
	struct rp_worker *workers[3];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_ok(prepare(program, &bindings[i], 1, &workers[i]));
	assert_ok(prepare(program, NULL, 0, &workers[2]));
	for (int round = 0; round < 2; round++) {
		static const int64_t wants[] = { 2, 3, 1 };

		for (int i = 0; i < 3; i++) {
			assert_int_equal(told(workers[i], program, 1), wants[i]);
			assert_int_equal(told(workers[i], program, 0), 1);
		}
	}
	for (int i = 0; i < 3; i++)
		end(workers[i]);
	rp_program_free(program);
}

static void one_binding_serves_every_program_that_declares_the_name(void **state)
{
	static const int64_t seven = 7;
	static const struct rp_callback first[] = { { .name = "sample" } };
	static const struct rp_callback second[] = {
		{ .name = "own", .fn = tell_one }, { .name = "sample", .fn = tell_one }
	};
	struct rp_callback binding = { .name = "sample",
				       .fn = tell_user,
				       .user = (void *)&seven };
	struct rp_program *programs[2];
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	programs[0] = program_of("first", first, 1, 0);
	programs[1] = program_of("second", second, 2, 0);
	bed_options(&options, 1);
	options.callbacks = &binding;
	options.callback_count = 1;
	assert_ok(rp_worker_prepare(programs, 2, &options, &worker));
	assert_int_equal(told(worker, programs[0], 0), 7);
	assert_int_equal(told(worker, programs[1], 1), 7);
	assert_int_equal(told(worker, programs[1], 0), 1);
	end(worker);
	for (int i = 0; i < 2; i++)
		rp_program_free(programs[i]);
}

static void the_error_of_a_bound_callback_names_it(void **state)
{
	static const struct rp_callback declared[] = { { .name = "inspect" } };
	static const struct rp_callback binding = { .name = "inspect", .fn = refuse };
	struct rp_program *program = program_of("p", declared, 1, 0);
	struct call call = { .index = 0 };
	struct rp_worker *worker;

	(void)state;
	assert_ok(prepare(program, &binding, 1, &worker));
	for (int round = 0; round < 3; round++) {
		assert_int_equal(call_on(worker, program, &call), -EILSEQ);
		assert_says("'inspect'", "'p'", "not today");
	}
	end(worker);
	rp_program_free(program);
}

/* --- What prepare refuses -------------------------------------------------------------
 */

static void unknown_and_unbound_names_are_listed(void **state)
{
	static const struct rp_callback declared[] = {
		{ .name = "sample" },
		{ .name = "collect", .flags = RP_CALLBACK_OPTIONAL },
		{ .name = "inspect" },
		{ .name = "log", .fn = tell_one },
	};
	static const struct rp_callback bindings[] = {
		{ .name = "smaple", .fn = tell_one },
		{ .name = "sample", .fn = tell_one },
		{ .name = "inspekt", .fn = tell_one },
	};
	struct rp_program *program = program_of("decode", declared, COUNT(declared), 1);
	struct rp_program *bare = program_of("bare", NULL, 0, 0);
	struct rp_worker *worker = (void *)1;
	struct proc_census before;

	(void)state;
	proc_census_take(&before);
	assert_int_equal(prepare(program, bindings, 3, &worker), -ENOENT);
	assert_says("'smaple', 'inspekt'", "expected", "'sample'", "'collect'",
		    "'inspect'", "'log'");
	assert_int_equal(prepare(program, NULL, 0, &worker), -ENOENT);
	assert_says("'decode'", "'sample', 'inspect'");
	assert_null(strstr(rp_last_error(), "'collect'"));
	assert_int_equal(prepare(program, &bindings[1], 1, &worker), -ENOENT);
	assert_says("'decode'", "'inspect'");
	assert_null(strstr(rp_last_error(), "'sample'"));
	assert_int_equal(prepare(bare, bindings, 1, &worker), -ENOENT);
	assert_says("'smaple'", "there are none");
	assert_ptr_equal(worker, (void *)1);
	assert_true(proc_census_same(&before));
	rp_program_free(program);
	rp_program_free(bare);
}

static void broken_bindings_are_refused(void **state)
{
	static const struct rp_param params[] = {
		{ .kind = RP_ARG_TENSOR, .dtype = RP_INT64, .access = RP_IN },
		{ .kind = 7, .dtype = RP_INT64 },
		{ .kind = RP_ARG_TENSOR, .dtype = RP_DTYPE_END, .access = RP_IN },
		{ .kind = RP_ARG_TENSOR, .dtype = RP_INT64 },
		{ .kind = RP_ARG_SCALAR, .dtype = RP_INT64, .access = RP_IN },
		{ .kind = RP_ARG_TENSOR, .dtype = RP_INT64, .access = RP_IN, .rank = 6 },
		{ .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_IN,
		  .rank = 1,
		  .shape = { 0 } },
		{ .kind = RP_ARG_SCALAR, .dtype = RP_INT64, .rank = 1, .shape = { 4 } },
	};
	static const struct rp_signature sized = { .size = 8 };
	static const struct rp_signature null = { .size = sizeof(null),
						  .param_count = 1 };
	static const struct rp_signature many = {
		.size = sizeof(many),
		.params = params,
		.param_count = RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS + 1,
	};
	static const struct {
		struct rp_callback binding;
		const char *says;
	} cases[] = {
		{ { .fn = tell_one }, "no name" },
		{ { .name = "", .fn = tell_one }, "no name" },
		{ { .name = "a" }, "no function" },
		{ { .name = "a", .fn = tell_one, .flags = RP_CALLBACK_OPTIONAL },
		  "flags 0x1" },
		{ { .name = "b", .fn = tell_one }, "'b' twice" },
		{ { .name = "a", .fn = tell_one, .signature = &sized }, "size 8" },
		{ { .name = "a", .fn = tell_one, .signature = &null }, "params NULL" },
		{ { .name = "a", .fn = tell_one, .signature = &many },
		  "param_count 385" },
	};
	static const char *const param_says[COUNT(params)] = {
		NULL,	    "kind 7", "dtype 16", "access 0",
		"access 1", "rank 6", "dim 0",	  "rank 1",
	};
	static const struct rp_callback declared[] = { { .name = "a" }, { .name = "b" } };
	struct rp_program *program = program_of("p", declared, 2, 1);
	struct rp_worker *worker = (void *)1;
	struct rp_callback pair[2] = { { .name = "b", .fn = tell_one } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		pair[1] = cases[i].binding;
		assert_int_equal(prepare(program, pair, 2, &worker), -EINVAL);
		assert_says("rp_worker_prepare", cases[i].says);
	}
	for (size_t i = 1; i < COUNT(params); i++) {
		struct rp_signature signature = { .size = sizeof(signature),
						  .params = &params[i],
						  .param_count = 1 };

		pair[1] = (struct rp_callback){ .name = "a",
						.fn = tell_one,
						.signature = &signature };
		assert_int_equal(prepare(program, pair, 2, &worker), -EINVAL);
		assert_says("'a'", "parameter 0", param_says[i]);
	}
	assert_int_equal(prepare(program, NULL, 2, &worker), -EINVAL);
	assert_says("callbacks NULL", "2");
	assert_ptr_equal(worker, (void *)1);
	rp_program_free(program);
}

/* --- Signatures
 * ------------------------------------------------------------------------- */

#define TENSOR_PARAM(...)                          \
	{                                          \
		.kind = RP_ARG_TENSOR, __VA_ARGS__ \
	}

static const struct rp_param plain =
	TENSOR_PARAM(.dtype = RP_INT64, .access = RP_OUT, .rank = 2, .shape = { 4, 2 });

static void a_binding_must_take_all_that_the_program_declares(void **state)
{
	static const struct {
		struct rp_param bound;
		const char *says; /* NULL: fits */
	} cases[] = {
		{ TENSOR_PARAM(.dtype = RP_INT64, .access = RP_OUT, .rank = 2,
			       .shape = { 4, 2 }),
		  NULL },
		{ TENSOR_PARAM(.dtype = RP_INT64, .access = RP_OUT, .rank = 2,
			       .shape = { RP_DIM_ANY, 2 }),
		  NULL },
		{ TENSOR_PARAM(.dtype = RP_INT64, .access = RP_OUT), NULL },
		{ TENSOR_PARAM(.dtype = RP_UINT64, .access = RP_OUT), "uint64" },
		{ TENSOR_PARAM(.dtype = RP_INT64, .access = RP_IN), "RP_IN" },
		{ TENSOR_PARAM(.dtype = RP_INT64, .access = RP_INOUT), "RP_INOUT" },
		{ TENSOR_PARAM(.dtype = RP_INT64, .access = RP_OUT, .rank = 1,
			       .shape = { RP_DIM_ANY }),
		  "[*]" },
		{ TENSOR_PARAM(.dtype = RP_INT64, .access = RP_OUT, .rank = 2,
			       .shape = { 4, 3 }),
		  "[4,3]" },
		{ { .kind = RP_ARG_SCALAR, .dtype = RP_INT64 }, "a scalar" },
	};
	const struct rp_signature declared_signature = {
		.size = sizeof(struct rp_signature), .params = &plain, .param_count = 1
	};
	const struct rp_callback declared[] = {
		{ .name = "x", .signature = &declared_signature },
		{ .name = "y", .signature = &declared_signature },
	};
	struct rp_program *program = program_of("p", declared, 2, 1);
	struct rp_signature bound = { .size = sizeof(bound), .param_count = 1 };
	struct rp_worker *worker;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rp_callback bindings[2] = {
			{ .name = "x", .fn = tell_one, .signature = &bound },
			{ .name = "y", .fn = tell_one },
		};
		int err;

		bound.params = &cases[i].bound;
		err = prepare(program, bindings, 2, &worker);
		if (!cases[i].says) {
			assert_ok(err);
			end(worker);
			continue;
		}
		assert_int_equal(err, -EINVAL);
		assert_says("'x' bound", "'p'", "argument 0", cases[i].says,
			    "expected a tensor of int64 RP_OUT [4,2]");
		/* Both are named when both are wrong. */
		bindings[1].signature = &bound;
		assert_int_equal(prepare(program, bindings, 2, &worker), -EINVAL);
		assert_says("'x', 'y' bound");
	}
	bound.param_count = 0;
	assert_int_equal(
		prepare(program,
			(const struct rp_callback[]){
				{ .name = "x", .fn = tell_one, .signature = &bound },
				{ .name = "y", .fn = tell_one } },
			2, &worker),
		-EINVAL);
	assert_says("0 arguments, expected 1");
	rp_program_free(program);
}

static const struct rp_param call_params[] = {
	{ .name = "to",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_OUT,
	  .rank = 2,
	  .shape = { RP_DIM_ANY, 2 } },
	{ .kind = RP_ARG_TENSOR, .dtype = RP_UINT8, .access = RP_IN },
	{ .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT32 },
};

static void check_calls(struct rp_worker *worker, struct rp_program *program)
{
	int64_t *memory = cell;
	uint8_t *bytes = (uint8_t *)(memory + 16);
	const struct rp_arg to = rp_out(TENSOR(memory, RP_INT64, 3, 2));
	const struct rp_arg from = rp_in(TENSOR(bytes, RP_UINT8, 7));
	const struct rp_arg k = rp_arg_i32(4);
	const struct {
		struct rp_arg args[4];
		uint32_t count;
		const char *says; /* NULL: fits */
	} cases[] = {
		{ { to, from, k }, 3, NULL },
		{ { rp_out(TENSOR(memory, RP_INT64, 1, 2)),
		    rp_in(TENSOR(bytes, RP_UINT8, 2, 2, 2)), k },
		  3,
		  NULL },
		{ { to, from }, 2, "2 arguments" },
		{ { to, from, k, k }, 4, "4 arguments" },
		{ { to, from, from }, 3, "argument 2 ('k')" },
		{ { k, from, k }, 3, "argument 0 ('to')" },
		{ { to, from, rp_arg_i64(4) }, 3, "dtype int64" },
		{ { to, rp_in(TENSOR(bytes, RP_INT8, 7)), k }, 3, "dtype int8" },
		{ { rp_inout(to.u.tensor), from, k }, 3, "RP_INOUT" },
		{ { to, rp_out(from.u.tensor), k }, 3, "RP_OUT" },
		{ { rp_out(TENSOR(memory, RP_INT64, 4)), from, k }, 3, "rank 1" },
		{ { rp_out(TENSOR(memory, RP_INT64, 2, 3)), from, k }, 3, "dim 1 is 3" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct call call = { .args = cases[i].args, .count = cases[i].count };

		if (!cases[i].says) {
			assert_ok(call_on(worker, program, &call));
			continue;
		}
		assert_int_equal(call_on(worker, program, &call), -EINVAL);
		assert_says("rp_run_callback", "'x'", cases[i].says);
		/* The run may go on without it. */
		call.ignore = true;
		assert_ok(call_on(worker, program, &call));
		assert_int_equal(call.status, -EINVAL);
	}
}

static void a_call_must_fit_the_signature(void **state)
{
	struct rp_param params[3];
	char name[] = "to";
	struct rp_signature signature = { .size = sizeof(signature),
					  .params = params,
					  .param_count = 3 };
	struct rp_callback with = { .name = "x",
				    .fn = tell_one,
				    .signature = &signature };
	struct rp_callback without = { .name = "x", .fn = tell_one };
	struct rp_worker *worker;

	(void)state;
	/* The program's, the binding's, or both: whichever there is. */
	for (int way = 0; way < 3; way++) {
		struct rp_program *program;

		memcpy(params, call_params, sizeof(params));
		params[0].name = name;
		memcpy(name, "to", sizeof(name));
		program = program_of("p", way == 1 ? &without : &with, 1, 0);
		if (way == 0)
			memset(params, 0xee, sizeof(params));
		assert_ok(prepare(program, way == 0 ? &without : &with, 1, &worker));
		/* All of it was copied. */
		memset(params, 0xee, sizeof(params));
		memcpy(name, "no", sizeof(name));
		check_calls(worker, program);
		end(worker);
		rp_program_free(program);
	}
}

static void a_signature_of_nothing_takes_nothing(void **state)
{
	_Atomic uint64_t *count = bed_shared(8, 0);
	const struct rp_signature nothing = { .size = sizeof(nothing) };
	const struct rp_callback callback = {
		.name = "x", .fn = tell_count, .user = count, .signature = &nothing
	};
	struct rp_program *program = program_of("p", &callback, 1, 0);
	const struct rp_arg one = rp_arg_i32(1);
	struct call call = { .count = 0 };
	struct rp_worker *worker;

	(void)state;
	assert_ok(prepare(program, NULL, 0, &worker));
	assert_ok(call_on(worker, program, &call));
	assert_int_equal(atomic_load(count), 1);
	call.args = &one;
	call.count = 1;
	assert_int_equal(call_on(worker, program, &call), -EINVAL);
	assert_says("1 arguments", "has 0");
	end(worker);
	rp_program_free(program);
	rp_shared_free((void *)count);
}

/* --- Optional ones
 * ------------------------------------------------------------------------ */

static void an_optional_callback_may_stay_unbound(void **state)
{
	_Atomic uint64_t *count = bed_shared(8, 0);
	static const struct rp_callback declared[] = {
		{ .name = "must", .fn = tell_one },
		{ .name = "may", .flags = RP_CALLBACK_OPTIONAL },
	};
	struct rp_callback binding = { .name = "may", .fn = tell_count, .user = count };
	struct rp_program *program = program_of("p", declared, 2, 0);
	struct call call = { .index = 1 };
	struct rp_worker *worker;

	(void)state;
	assert_ok(prepare(program, NULL, 0, &worker));
	assert_int_equal(call_on(worker, program, &call), -ENOENT);
	assert_says("'may'", "not bound");
	assert_false(call.bound);
	call.ignore = true;
	assert_ok(call_on(worker, program, &call));
	assert_int_equal(call.status, -ENOENT);
	assert_int_equal(told(worker, program, 0), 1);
	end(worker);
	assert_ok(prepare(program, &binding, 1, &worker));
	assert_ok(call_on(worker, program, &call));
	assert_true(call.bound);
	assert_int_equal(call.status, 0);
	assert_int_equal(atomic_load(count), 1);
	/* None at all. */
	call.index = 2;
	assert_ok(call_on(worker, program, &call));
	assert_int_equal(call.status, -EINVAL);
	assert_false(call.bound);
	end(worker);
	rp_program_free(program);
	rp_shared_free((void *)count);
}

/* --- Their processes
 * -------------------------------------------------------------------------- */

static void the_number_of_callback_processes_can_be_chosen(void **state)
{
	static const struct rp_callback callbacks[] = {
		{ .name = "a", .fn = tell_one },
		{ .name = "b", .fn = tell_one },
		{ .name = "c", .fn = tell_one },
	};
	static const struct {
		uint32_t asked, want;
	} cases[] = { { 0, 2 }, { 1, 1 }, { 2, 2 }, { 3, 3 }, { 5, 5 } };
	struct rp_program *program = program_of("p", callbacks, 3, 2);
	struct rp_program *bare = program_of("bare", NULL, 0, 0);
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		bed_options(&options, 2);
		options.callback_workers = cases[i].asked;
		assert_ok(rp_worker_prepare(&program, 1, &options, &worker));
		assert_int_not_equal(rp_worker_pid(worker, 1 + cases[i].want), 0);
		assert_int_equal(rp_worker_pid(worker, 2 + cases[i].want), 0);
		for (uint32_t k = 0; k < 3; k++)
			assert_int_equal(told(worker, program, k), 1);
		end(worker);
	}
	options.callback_workers = RP_MAX_PEERS - 1;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EINVAL);
	assert_says("callback_workers 63", "2 chips", "at most 64");
	options.callback_workers = UINT32_MAX;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EINVAL);
	options.callback_workers = 1;
	assert_int_equal(rp_worker_prepare(&bare, 1, &options, &worker), -EINVAL);
	assert_says("callback_workers 1", "no program has callbacks");
	rp_program_free(program);
	rp_program_free(bare);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_declared_callback_runs_what_the_worker_binds),
		TEST(two_workers_bind_one_program_differently),
		TEST(one_binding_serves_every_program_that_declares_the_name),
		TEST(the_error_of_a_bound_callback_names_it),
		TEST(unknown_and_unbound_names_are_listed),
		TEST(broken_bindings_are_refused),
		TEST(a_binding_must_take_all_that_the_program_declares),
		TEST(a_call_must_fit_the_signature),
		TEST(a_signature_of_nothing_takes_nothing),
		TEST(an_optional_callback_may_stay_unbound),
		TEST(the_number_of_callback_processes_can_be_chosen),
	};

	return cmocka_run_group_tests_name("callbacks", tests, set_up_cell,
					   tear_down_cell);
}
