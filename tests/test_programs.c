/* SPDX-License-Identifier: MIT */
/* Several programs on one worker: which go together, which one a dispatch runs, and what
 * they share. */
#include "noop.h"
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"

#define ELEMENTS 8

/* Shared, and made before any worker. */
static int64_t *cells; /* ELEMENTS for each of 8 tensors */

static int set_up_cells(void **state)
{
	(void)state;
	cells = bed_shared(8 * ELEMENTS * sizeof(*cells), 0);
	return 0;
}

static int tear_down_cells(void **state)
{
	(void)state;
	return rp_shared_free(cells);
}

static struct rp_tensor cell(int n)
{
	return TENSOR(cells + n * ELEMENTS, RP_INT64, ELEMENTS);
}

/* --- Which go together -------------------------------------------------------------- */

struct traits {
	const char *name, *platform, *runtime;
	uint32_t chip_count;
};

static struct rp_program *program_with(const struct traits *traits)
{
	static const struct rp_entry entries[] = { { "noop", noop_entry } };
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = traits->name;
	desc.platform = traits->platform;
	desc.runtime = traits->runtime;
	desc.chip_count = traits->chip_count;
	desc.entries = entries;
	desc.entry_count = 1;
	assert_ok(rp_program_create(&desc, &program));
	return program;
}

static void programs_that_do_not_go_together_are_both_named(void **state)
{
	static const struct {
		struct traits traits[3];
		const char *says[4];
	} cases[] = {
		{ { { .name = "a" },
		    { .name = "b" },
		    { .name = "c", .platform = "a2a3" } },
		  { "'a'", "'sim'", "'c'", "'a2a3'" } },
		{ { { .name = "a", .runtime = "host_build_graph" },
		    { .name = "b" },
		    { .name = "c" } },
		  { "'a'", "'host_build_graph'", "'b'", "'tensormap_and_ringbuffer'" } },
		{ { { .name = "a", .chip_count = 1 },
		    { .name = "b", .chip_count = 2 },
		    { .name = "c" } },
		  { "'a' needs 1", "'b' needs 2", "chips" } },
		/* Neither is the first one, and neither fits the options. */
		{ { { .name = "a" },
		    { .name = "b", .chip_count = 4 },
		    { .name = "c", .chip_count = 3 } },
		  { "'b' needs 4", "'c' needs 3", "chips" } },
		{ { { .name = "a" }, { .name = "b" }, { .name = "c", .chip_count = 2 } },
		  { "'c' needs 2", "chip_count is 1" } },
	};
	struct rp_program *programs[3];
	struct rp_worker_options options;
	struct rp_worker *worker = (void *)1;
	struct proc_census before;

	(void)state;
	proc_census_take(&before);
	bed_options(&options, 1);
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (int k = 0; k < 3; k++)
			programs[k] = program_with(&cases[i].traits[k]);
		assert_int_equal(rp_worker_prepare(programs, 3, &options, &worker),
				 -EINVAL);
		for (int k = 0; k < 4; k++)
			if (cases[i].says[k])
				assert_says(cases[i].says[k]);
		for (int k = 0; k < 3; k++)
			rp_program_free(programs[k]);
	}
	assert_ptr_equal(worker, (void *)1);
	assert_true(proc_census_same(&before));
}

static void programs_of_one_or_any_number_of_chips_go_together(void **state)
{
	static const struct traits traits[] = { { .name = "any" },
						{ .name = "two", .chip_count = 2 },
						{ .name = "two too", .chip_count = 2 } };
	struct rp_program *programs[COUNT(traits)];
	struct rp_worker_options options;
	struct rp_worker *worker;

	(void)state;
	for (size_t i = 0; i < COUNT(traits); i++)
		programs[i] = program_with(&traits[i]);
	bed_options(&options, 2);
	assert_ok(rp_worker_prepare(programs, COUNT(traits), &options, &worker));
	for (size_t i = 0; i < COUNT(traits); i++) {
		assert_ok(rp_worker_run(worker, programs[i], NULL, 0, NULL));
		rp_program_free(programs[i]);
	}
	assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
}

/* --- Which one a dispatch runs ---------------------------------------------------------
 */

/* Entry 0 and callback 0 of each program do something of its own. */
static int entry_add(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int64_t *to = args[0].u.tensor.data;

	(void)chip;
	for (int i = 0; i < ELEMENTS; i++)
		to[i] += nargs > 1 ? args[1].u.scalar.value.i64 : 1;
	return 0;
}

static int entry_negate(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int64_t *to = args[0].u.tensor.data;

	(void)chip;
	(void)nargs;
	for (int i = 0; i < ELEMENTS; i++)
		to[i] = -to[i];
	return 0;
}

static int entry_copy(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)nargs;
	memcpy(args[1].u.tensor.data, args[0].u.tensor.data, ELEMENTS * sizeof(int64_t));
	return 0;
}

static int entry_refuse(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return rp_chip_fail(chip, -EILSEQ, "refused");
}

#define TENSOR_PARAM(n, a)                                                          \
	{                                                                           \
		.name = n, .kind = RP_ARG_TENSOR, .dtype = RP_INT64, .access = (a), \
		.rank = 1, .shape = { ELEMENTS },                                   \
	}

enum {
	ADD,	/* to, k */
	NEGATE, /* x */
	COPY,	/* from, to */
	REFUSE, /* nothing */
	PROGRAMS
};

static const struct rp_entry entries[PROGRAMS] = {
	[ADD] = { "work", entry_add },
	[NEGATE] = { "work", entry_negate },
	[COPY] = { "work", entry_copy },
	[REFUSE] = { "work", entry_refuse },
};

static const struct rp_param params[PROGRAMS][2] = {
	[ADD] = { TENSOR_PARAM("to", RP_INOUT),
		  { .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 } },
	[NEGATE] = { TENSOR_PARAM("x", RP_INOUT) },
	[COPY] = { TENSOR_PARAM("from", RP_IN), TENSOR_PARAM("to", RP_OUT) },
};

static const char *const names[PROGRAMS] = { "add", "negate", "copy", "refuse" };
static const size_t param_counts[PROGRAMS] = { 2, 1, 2, 0 };

struct several {
	struct rp_program *programs[PROGRAMS];
	struct rp_worker *worker;
};

static void several_open(struct several *several, bool dispatcher, uint32_t chips)
{
	struct rp_worker_options options;

	for (int i = 0; i < PROGRAMS; i++) {
		struct rp_program_desc desc;

		rp_program_desc_init(&desc);
		desc.name = names[i];
		desc.params = params[i];
		desc.param_count = param_counts[i];
		desc.entries = &entries[i];
		desc.entry_count = 1;
		assert_ok(rp_program_create(&desc, &several->programs[i]));
	}
	bed_options(&options, chips);
	options.dispatcher = dispatcher;
	options.dispatcher_queue = 4;
	assert_ok(rp_worker_prepare(several->programs, PROGRAMS, &options,
				    &several->worker));
}

static void several_close(struct several *several)
{
	rp_worker_close(several->worker, RP_WAIT_FOREVER);
	rp_worker_free(several->worker);
	for (int i = 0; i < PROGRAMS; i++)
		rp_program_free(several->programs[i]);
}

#define RUN_OF(several, which, ...)                                    \
	rp_worker_run((several)->worker, (several)->programs[which],   \
		      (const struct rp_arg[]){ __VA_ARGS__ },          \
		      sizeof((const struct rp_arg[]){ __VA_ARGS__ }) / \
			      sizeof(struct rp_arg),                   \
		      NULL)

static void a_dispatch_runs_the_program_that_it_names(void **state)
{
	(void)state;
	for (int dispatcher = 0; dispatcher < 2; dispatcher++) {
		struct several several;
		struct rp_handle handles[3];
		int64_t want = 0;

		memset(cells, 0, 8 * ELEMENTS * sizeof(*cells));
		several_open(&several, dispatcher, 2);
		for (int64_t round = 1; round < 100; round++) {
			assert_ok(RUN_OF(&several, ADD, rp_arg_tensor(cell(0)),
					 rp_arg_i64(round)));
			want += round;
			assert_int_equal(cells[3], want);
			assert_ok(RUN_OF(&several, NEGATE, rp_arg_tensor(cell(0))));
			want = -want;
			assert_ok(RUN_OF(&several, COPY, rp_arg_tensor(cell(0)),
					 rp_arg_tensor(cell(1))));
			assert_int_equal(cells[ELEMENTS + 7], want);
			/* One that fails is nobody else's affair. */
			assert_int_equal(rp_worker_run(several.worker,
						       several.programs[REFUSE], NULL, 0,
						       NULL),
					 -EILSEQ);
			assert_says("'refuse'", "refused");
		}
		/* Several in flight, of different programs. */
		for (int64_t round = 0; round < 50; round++) {
			const struct rp_arg add[] = { rp_arg_tensor(cell(2)),
						      rp_arg_i64(3) };
			const struct rp_arg negate[] = { rp_arg_tensor(cell(3)) };

			cells[3 * ELEMENTS] = round;
			assert_ok(rp_worker_submit(several.worker, several.programs[ADD],
						   add, 2, NULL, &handles[0]));
			assert_ok(rp_worker_submit(several.worker,
						   several.programs[REFUSE], NULL, 0,
						   NULL, &handles[1]));
			assert_ok(rp_worker_submit(several.worker,
						   several.programs[NEGATE], negate, 1,
						   NULL, &handles[2]));
			assert_ok(rp_handle_wait(handles[2], RP_WAIT_FOREVER));
			assert_int_equal(rp_handle_wait(handles[1], RP_WAIT_FOREVER),
					 -EILSEQ);
			assert_ok(rp_handle_wait(handles[0], RP_WAIT_FOREVER));
			assert_int_equal(cells[2 * ELEMENTS], 3 * (round + 1));
			assert_int_equal(cells[3 * ELEMENTS], -round);
			for (int i = 0; i < 3; i++)
				assert_ok(rp_handle_release(handles[i]));
		}
		several_close(&several);
	}
}

static void the_arguments_are_judged_by_the_program_that_is_named(void **state)
{
	struct several several;

	(void)state;
	several_open(&several, false, 1);
	assert_int_equal(RUN_OF(&several, NEGATE, rp_arg_tensor(cell(0)), rp_arg_i64(1)),
			 -EINVAL);
	assert_says("nargs 2", "'negate' expects 1", "(x)");
	assert_int_equal(RUN_OF(&several, ADD, rp_arg_tensor(cell(0))), -EINVAL);
	assert_says("nargs 1", "'add' expects 2", "(to, k)");
	assert_int_equal(RUN_OF(&several, COPY, rp_arg_tensor(cell(0)), rp_arg_i64(1)),
			 -EINVAL);
	assert_says("'to'", "expected a tensor");
	several_close(&several);
}

static void what_was_not_prepared_and_what_is_not_named_is_refused(void **state)
{
	(void)state;
	for (int dispatcher = 0; dispatcher < 2; dispatcher++) {
		const struct traits traits = { .name = "add" };
		struct rp_program *twin = program_with(&traits);
		struct rp_handle handle;
		struct several several;

		several_open(&several, dispatcher, 1);
		/* The name alone makes it no other program. */
		assert_int_equal(
			rp_worker_submit(several.worker, twin, NULL, 0, NULL, &handle),
			-ENOENT);
		assert_says("'add'", "not prepared", "add, negate, copy, refuse");
		assert_int_equal(rp_worker_run(several.worker, twin, NULL, 0, NULL),
				 -ENOENT);
		assert_int_equal(
			rp_worker_submit(several.worker, NULL, NULL, 0, NULL, &handle),
			-EINVAL);
		assert_says("program NULL", "4");
		assert_int_equal(rp_worker_run(several.worker, NULL, NULL, 0, NULL),
				 -EINVAL);
		several_close(&several);
		rp_program_free(twin);
	}
}

/* --- What they share
 * -------------------------------------------------------------------- */

static void a_resident_tensor_serves_every_program(void **state)
{
	static const int64_t shape[] = { ELEMENTS };

	(void)state;
	for (int dispatcher = 0; dispatcher < 2; dispatcher++) {
		struct rp_worker_stats before = { .size = sizeof(before) };
		struct rp_worker_stats after = { .size = sizeof(after) };
		struct rp_tensor init = cell(0), tensor;
		struct several several;

		several_open(&several, dispatcher, 2);
		for (int i = 0; i < ELEMENTS; i++)
			cells[i] = i;
		assert_ok(rp_worker_alloc_tensor(several.worker, 0, RP_INT64, 1, shape,
						 &init, &tensor));
		assert_ok(rp_worker_get_stats(several.worker, &before));
		for (int64_t round = 1; round <= 20; round++) {
			assert_ok(RUN_OF(&several, ADD, rp_arg_tensor(tensor),
					 rp_arg_i64(10)));
			assert_ok(RUN_OF(&several, NEGATE, rp_arg_tensor(tensor)));
			assert_ok(RUN_OF(&several, NEGATE, rp_arg_tensor(tensor)));
		}
		/* It crossed nothing, until a program copied it to the host. */
		assert_ok(rp_worker_get_stats(several.worker, &after));
		assert_int_equal(after.bytes_to_device, before.bytes_to_device);
		assert_int_equal(after.bytes_from_device, before.bytes_from_device);
		assert_ok(RUN_OF(&several, COPY, rp_arg_tensor(tensor),
				 rp_arg_tensor(cell(1))));
		for (int i = 0; i < ELEMENTS; i++)
			assert_int_equal(cells[ELEMENTS + i], i + 200);
		assert_ok(rp_worker_free_tensor(several.worker, &tensor));
		assert_int_equal(RUN_OF(&several, NEGATE, rp_arg_tensor(tensor)),
				 -ESTALE);
		several_close(&several);
	}
}

/* Writes what the first parameter names, whatever that one grants. */
static int write_it(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		    void *user)
{
	struct rp_arg task_args[] = { rp_inout(args[0].u.tensor) };
	struct rp_task task = { .args = task_args, .arg_count = 1 };

	(void)nargs;
	(void)user;
	return rp_run_task(run, &task);
}

static void what_one_program_grants_another_does_not(void **state)
{
	static const enum rp_access accesses[] = { RP_INOUT, RP_IN };
	struct rp_program *programs[2];
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_arg arg;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct rp_param param = TENSOR_PARAM("x", accesses[i]);
		struct rp_program_desc desc;

		rp_program_desc_init(&desc);
		desc.name = i ? "reads" : "writes";
		desc.params = &param;
		desc.param_count = 1;
		desc.entries = &entries[NEGATE];
		desc.entry_count = 1;
		desc.orchestrate = write_it;
		assert_ok(rp_program_create(&desc, &programs[i]));
	}
	bed_options(&options, 1);
	assert_ok(rp_worker_prepare(programs, 2, &options, &worker));
	arg = rp_arg_tensor(cell(0));
	/* By turns, in both frames. */
	for (int round = 0; round < 6; round++) {
		assert_ok(rp_worker_run(worker, programs[0], &arg, 1, NULL));
		assert_int_equal(rp_worker_run(worker, programs[1], &arg, 1, NULL),
				 -EACCES);
		assert_says("'x'", "only reads");
	}
	assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	for (int i = 0; i < 2; i++)
		rp_program_free(programs[i]);
}

static int call_back(struct rp_callback_context *context, const struct rp_arg *args,
		     size_t nargs, void *user)
{
	(void)context;
	(void)nargs;
	*(int64_t *)args[0].u.tensor.data = *(const int64_t *)user;
	return 0;
}

/* Every callback of the program, with an element of the tensor each. */
static int call_each(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		     void *user)
{
	const uint32_t *count = user;

	(void)nargs;
	for (uint32_t i = 0; i < *count; i++) {
		struct rp_arg out = args[0];
		int err = rp_tensor_slice(&args[0].u.tensor, 0, i, 1, 1, &out.u.tensor);

		out.access = RP_OUT;
		if (!err)
			err = rp_run_callback(run, i, &out, 1);
		if (err)
			return err;
	}
	return 0;
}

static void there_are_as_many_callback_processes_as_the_most_needs(void **state)
{
	static const uint32_t counts[] = { 1, 3, 0 };
	static const int64_t numbers[3][3] = { { 11 }, { 21, 22, 23 } };
	static const char *const callback_names[] = { "a", "b", "c" };
	static const struct rp_param param = TENSOR_PARAM("out", RP_OUT);
	struct rp_program *programs[3];
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_arg arg;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct rp_callback callbacks[3];
		struct rp_program_desc desc;

		for (uint32_t k = 0; k < counts[i]; k++)
			callbacks[k] =
				(struct rp_callback){ .name = callback_names[k],
						      .fn = call_back,
						      .user = (void *)&numbers[i][k] };
		rp_program_desc_init(&desc);
		desc.name = names[i];
		desc.params = &param;
		desc.param_count = 1;
		desc.entries = &entries[NEGATE];
		desc.entry_count = 1;
		desc.callbacks = callbacks;
		desc.callback_count = counts[i];
		desc.orchestrate = call_each;
		desc.user = (void *)&counts[i];
		assert_ok(rp_program_create(&desc, &programs[i]));
	}
	bed_options(&options, 2);
	assert_ok(rp_worker_prepare(programs, 3, &options, &worker));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_not_equal(rp_worker_pid(worker, 2 + i), 0);
	assert_int_equal(rp_worker_pid(worker, 2 + 3), 0);
	arg = rp_arg_tensor(cell(0));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++) {
			memset(cells, 0, ELEMENTS * sizeof(*cells));
			assert_ok(rp_worker_run(worker, programs[i], &arg, 1, NULL));
			/* Each program's own, though names and indices are the same. */
			for (uint32_t k = 0; k < 3; k++)
				assert_int_equal(cells[k],
						 k < counts[i] ? numbers[i][k] : 0);
		}
	}
	assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	for (int i = 0; i < 3; i++)
		rp_program_free(programs[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(programs_that_do_not_go_together_are_both_named),
		TEST(programs_of_one_or_any_number_of_chips_go_together),
		TEST(a_dispatch_runs_the_program_that_it_names),
		TEST(the_arguments_are_judged_by_the_program_that_is_named),
		TEST(what_was_not_prepared_and_what_is_not_named_is_refused),
		TEST(a_resident_tensor_serves_every_program),
		TEST(what_one_program_grants_another_does_not),
		TEST(there_are_as_many_callback_processes_as_the_most_needs),
	};

	return cmocka_run_group_tests_name("programs", tests, set_up_cells,
					   tear_down_cells);
}
