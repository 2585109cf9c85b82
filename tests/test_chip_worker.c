/* SPDX-License-Identifier: MIT */
/*
 * The worker of one chip: programs that come to it, handles, current workers. Arguments:
 * an artifact with callbacks, and two of the same sources without, built with the factors
 * 2 and 3.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "noop.h"
#include "support.h"

#define LENGTH 64

static const char *full_dir, *twice_dir, *thrice_dir;

static int add_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int64_t *x = args[0].u.tensor.data;

	(void)chip;
	(void)nargs;
	for (int64_t i = 0; i < args[0].u.tensor.shape[0]; i++)
		x[i] += args[1].u.scalar.value.i64;
	return 0;
}

static int fail_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return rp_chip_fail(chip, -EIO, "as told");
}

static const struct rp_param add_params[] = {
	{ .name = "x",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_INOUT,
	  .rank = 1,
	  .shape = { RP_DIM_ANY } },
	{ .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
};

static void describe(struct rp_program_desc *desc)
{
	static const struct rp_entry entry = { "add", add_entry };

	rp_program_desc_init(desc);
	desc->name = "add";
	desc->params = add_params;
	desc->param_count = 2;
	desc->entries = &entry;
	desc->entry_count = 1;
}

static struct rp_program *create(const struct rp_program_desc *desc)
{
	struct rp_program *program;

	assert_ok(rp_program_create(desc, &program));
	return program;
}

static struct rp_program *add_program(void)
{
	struct rp_program_desc desc;

	describe(&desc);
	return create(&desc);
}

static struct rp_chip_worker *open_worker(void)
{
	struct rp_chip_worker_options options;
	struct rp_worker_options base;
	struct rp_chip_worker *worker;

	bed_options(&base, 1);
	rp_chip_worker_options_init(&options);
	options.worker = &base;
	assert_ok(rp_chip_worker_open(&options, &worker));
	return worker;
}

static void fill(struct rp_arg args[2], int64_t *x, int64_t k)
{
	args[0] = rp_arg_tensor(TENSOR(x, RP_INT64, LENGTH));
	args[1] = rp_arg_i64(k);
}

static void programs_come_to_a_worker_that_is_open(void **state)
{
	struct rp_chip_worker *worker = open_worker();
	struct rp_program *program = add_program();
	int64_t *x = bed_shared(LENGTH * sizeof(*x), 0);
	struct rp_registration *handle;
	struct rp_handle dispatch;
	struct rp_arg args[2];
	uint64_t wall_ns = 0;

	(void)state;
	fill(args, x, 5);
	assert_ok(rp_chip_worker_run(worker, program, args, 2, NULL, &wall_ns));
	assert_true(wall_ns > 0);
	assert_ok(rp_chip_worker_register(worker, program, &handle));
	wall_ns = 0;
	assert_ok(rp_registration_run(handle, args, 2, NULL, &wall_ns));
	assert_true(wall_ns > 0);
	assert_ok(rp_registration_submit(handle, args, 2, NULL, &dispatch));
	assert_ok(rp_handle_wait(dispatch, RP_WAIT_FOREVER));
	assert_ok(rp_handle_release(dispatch));
	assert_int_equal(x[LENGTH - 1], 15);
	/* The worker beneath knows it by now. */
	assert_ok(rp_worker_run(rp_chip_worker_base(worker), program, args, 2, NULL));
	assert_int_equal(x[0], 20);
	assert_true(rp_registration_assemble_ns(handle) > 0);
	assert_int_equal(rp_registration_run(handle, args, 1, NULL, NULL), -EINVAL);
	assert_says("nargs 1", "'add' expects 2");
	/* The worker and the handle keep what they need. */
	rp_program_free(program);
	assert_ok(rp_registration_run(handle, args, 2, NULL, NULL));
	rp_registration_free(handle);
	assert_ok(rp_chip_worker_close(worker, RP_WAIT_FOREVER));
	rp_chip_worker_free(worker);
	rp_shared_free(x);
}

static void aliases_are_one_program_and_end_apart(void **state)
{
	struct rp_chip_worker *worker = open_worker();
	struct rp_worker *base = rp_chip_worker_base(worker);
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_program *program = add_program();
	int64_t *x = bed_shared(LENGTH * sizeof(*x), 0);
	struct rp_registration *first, *second, *third;
	struct rp_arg args[2];

	(void)state;
	fill(args, x, 1);
	assert_ok(rp_chip_worker_register(worker, program, &first));
	assert_ok(rp_worker_get_stats(base, &stats));
	assert_int_equal(stats.dispatches, 1);
	assert_ok(rp_chip_worker_register(worker, program, &second));
	assert_ok(rp_chip_worker_register(worker, program, &third));
	/* Brought once. */
	assert_ok(rp_worker_get_stats(base, &stats));
	assert_int_equal(stats.dispatches, 1);
	assert_int_equal(rp_registration_assemble_ns(first),
			 rp_registration_assemble_ns(third));
	assert_ok(rp_registration_unregister(first));
	assert_ok(rp_registration_unregister(first));
	assert_int_equal(rp_registration_run(first, args, 2, NULL, NULL), -ESHUTDOWN);
	assert_says("rp_registration_run", "unregistered");
	assert_ok(rp_registration_run(second, args, 2, NULL, NULL));
	rp_registration_free(second);
	rp_registration_free(first);
	assert_ok(rp_registration_run(third, args, 2, NULL, NULL));
	assert_int_equal(x[3], 2);
	assert_ok(rp_chip_worker_close(worker, RP_WAIT_FOREVER));
	assert_int_equal(rp_registration_run(third, args, 2, NULL, NULL), -ESHUTDOWN);
	assert_int_equal(rp_chip_worker_run(worker, program, args, 2, NULL, NULL),
			 -ESHUTDOWN);
	assert_int_equal(rp_chip_worker_register(worker, program, &first), -ESHUTDOWN);
	rp_chip_worker_free(worker);
	assert_int_equal(rp_registration_run(third, args, 2, NULL, NULL), -ESHUTDOWN);
	rp_registration_free(third);
	rp_registration_free(NULL);
	rp_program_free(program);
	rp_shared_free(x);
}

/* Loaded before the fork the chip has it, loaded after it the object travels. */
static void artifacts_may_be_loaded_at_any_time(void **state)
{
	struct rp_program *before, *after, *later;
	int64_t *x = bed_shared(LENGTH * sizeof(*x), 1);
	int64_t *y = bed_shared(LENGTH * sizeof(*y), 0);
	struct rp_chip_worker *worker;
	struct rp_registration *handle[3];
	struct rp_arg args[3] = { rp_arg_tensor(TENSOR(x, RP_INT64, LENGTH)),
				  rp_arg_tensor(TENSOR(y, RP_INT64, LENGTH)),
				  rp_arg_i64(7) };

	(void)state;
	for (int i = 0; i < LENGTH; i++)
		x[i] = i;
	/* There is nobody to run callbacks. */
	assert_ok(rp_program_load(full_dir, NULL, &before));
	worker = open_worker();
	assert_int_equal(rp_chip_worker_register(worker, before, &handle[0]), -EINVAL);
	assert_says("'sample'", "callbacks", "'tell'");
	rp_program_free(before);
	rp_chip_worker_free(worker);

	assert_ok(rp_program_load(twice_dir, NULL, &before));
	worker = open_worker();
	assert_ok(rp_program_load(thrice_dir, NULL, &after));
	/* Its descriptor may have the number of one that the chip knows by name. */
	assert_ok(rp_program_load(twice_dir, NULL, &later));
	assert_ok(rp_chip_worker_register(worker, before, &handle[0]));
	assert_ok(rp_chip_worker_register(worker, after, &handle[1]));
	assert_ok(rp_chip_worker_register(worker, later, &handle[2]));
	for (int round = 0; round < 3; round++) {
		int64_t factor = round == 1 ? 3 : 2;

		memset(y, 0, LENGTH * sizeof(*y));
		assert_ok(rp_registration_run(handle[round], args, 3, NULL, NULL));
		for (int i = 0; i < LENGTH; i++)
			assert_int_equal(y[i], factor * i + 107);
	}
	args[2] = rp_arg_i64(-1);
	assert_int_equal(rp_registration_run(handle[1], args, 3, NULL, NULL), -EIO);
	assert_says("entry 'refuse' of 'sample'", "refused by 3");
	for (int i = 0; i < 3; i++)
		rp_registration_free(handle[i]);
	rp_program_free(before);
	rp_program_free(after);
	rp_program_free(later);
	rp_chip_worker_free(worker);
	rp_shared_free(x);
	rp_shared_free(y);
}

static void what_does_not_fit_is_refused_before_any_dispatch(void **state)
{
	struct rp_callback callback = { .name = "ask", .flags = RP_CALLBACK_OPTIONAL };
	struct rp_chip_worker *worker = open_worker();
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_registration *handle = NULL;
	struct rp_program_desc desc;
	struct rp_program *program;

	(void)state;
	describe(&desc);
	desc.platform = "a2a3";
	program = create(&desc);
	assert_int_equal(rp_chip_worker_register(worker, program, &handle), -EINVAL);
	assert_says("rp_chip_worker_register", "'add'", "'a2a3'", "'sim'");
	assert_int_equal(rp_chip_worker_run(worker, program, NULL, 0, NULL, NULL),
			 -EINVAL);
	assert_says("rp_chip_worker_run", "'a2a3'", "'sim'");
	rp_program_free(program);
	desc.platform = NULL;
	desc.runtime = "host_build_graph";
	program = create(&desc);
	assert_int_equal(rp_chip_worker_register(worker, program, &handle), -EINVAL);
	assert_says("'host_build_graph'", "'tensormap_and_ringbuffer'");
	rp_program_free(program);
	desc.runtime = NULL;
	desc.chip_count = 2;
	program = create(&desc);
	assert_int_equal(rp_chip_worker_register(worker, program, &handle), -EINVAL);
	assert_says("needs 2 chips");
	rp_program_free(program);
	desc.chip_count = 0;
	desc.callbacks = &callback;
	desc.callback_count = 1;
	program = create(&desc);
	assert_int_equal(rp_chip_worker_register(worker, program, &handle), -EINVAL);
	assert_says("callbacks");
	rp_program_free(program);
	program = add_program();
	assert_int_equal(rp_chip_worker_register(NULL, program, &handle), -EINVAL);
	assert_int_equal(rp_chip_worker_register(worker, NULL, &handle), -EINVAL);
	assert_int_equal(rp_chip_worker_register(worker, program, NULL), -EINVAL);
	assert_int_equal(rp_registration_run(NULL, NULL, 0, NULL, NULL), -EINVAL);
	assert_int_equal(rp_registration_unregister(NULL), -EINVAL);
	rp_program_free(program);
	assert_null(handle);
	assert_ok(rp_worker_get_stats(rp_chip_worker_base(worker), &stats));
	assert_int_equal(stats.dispatches, 0);
	rp_chip_worker_free(worker);
	rp_chip_worker_free(NULL);
}

static void options_that_are_not_right_are_refused(void **state)
{
	struct rp_chip_worker_options options;
	struct rp_worker_options base;
	struct rp_chip_worker *worker = NULL;

	(void)state;
	rp_chip_worker_options_init(&options);
	options.worker = &base;
	rp_worker_options_init(&base);
	base.chip_count = 2;
	assert_int_equal(rp_chip_worker_open(&options, &worker), -EINVAL);
	assert_says("chip_count 2");
	rp_worker_options_init(&base);
	base.callback_workers = 1;
	assert_int_equal(rp_chip_worker_open(&options, &worker), -EINVAL);
	options.worker = NULL;
	options.platform = "a2a3";
	assert_int_equal(rp_chip_worker_open(&options, &worker), -EOPNOTSUPP);
	assert_says("'a2a3'");
	options.platform = NULL;
	options.runtime = "other";
	assert_int_equal(rp_chip_worker_open(&options, &worker), -EINVAL);
	assert_says("'other'");
	options.size = 1;
	assert_int_equal(rp_chip_worker_open(&options, &worker), -EINVAL);
	assert_int_equal(rp_chip_worker_open(NULL, NULL), -EINVAL);
	assert_null(worker);
}

static void a_resident_weight_serves_every_call(void **state)
{
	struct rp_chip_worker *worker = open_worker();
	struct rp_program *program = add_program();
	const int64_t shape[] = { LENGTH };
	int64_t up[LENGTH], down[LENGTH];
	struct rp_registration *handle;
	struct rp_tensor weight, init;
	struct rp_arg args[2];

	(void)state;
	for (int i = 0; i < LENGTH; i++)
		up[i] = i;
	assert_ok(rp_tensor_host(&init, up, RP_INT64, 1, shape));
	assert_ok(
		rp_chip_worker_alloc_tensor(worker, RP_INT64, 1, shape, &init, &weight));
	assert_ok(rp_chip_worker_register(worker, program, &handle));
	args[0] = rp_arg_tensor(weight);
	args[1] = rp_arg_i64(10);
	for (int round = 0; round < 3; round++)
		assert_ok(rp_registration_run(handle, args, 2, NULL, NULL));
	assert_ok(rp_chip_worker_copy_from(worker, &weight, down));
	for (int i = 0; i < LENGTH; i++)
		assert_int_equal(down[i], i + 30);
	assert_ok(rp_chip_worker_copy_to(worker, &weight, up));
	assert_ok(rp_registration_run(handle, args, 2, NULL, NULL));
	assert_ok(rp_chip_worker_copy_from(worker, &weight, down));
	assert_int_equal(down[1], 11);
	assert_ok(rp_chip_worker_free_tensor(worker, &weight));
	assert_int_equal(rp_registration_run(handle, args, 2, NULL, NULL), -ESTALE);
	assert_int_equal(rp_chip_worker_copy_from(worker, &weight, down), -ESTALE);
	assert_ok(rp_chip_worker_close(worker, RP_WAIT_FOREVER));
	assert_int_equal(
		rp_chip_worker_alloc_tensor(worker, RP_INT64, 1, shape, NULL, &weight),
		-ESHUTDOWN);
	assert_int_equal(rp_chip_worker_copy_to(NULL, &weight, up), -EINVAL);
	assert_int_equal(rp_chip_worker_free_tensor(NULL, &weight), -EINVAL);
	rp_registration_free(handle);
	rp_chip_worker_free(worker);
	rp_program_free(program);
}

static void a_failure_of_one_call_is_its_own(void **state)
{
	struct rp_entry entry = { "fail", fail_entry };
	struct rp_chip_worker *worker = open_worker();
	struct rp_registration *good, *bad;
	struct rp_program *program = add_program(), *failing;
	int64_t *x = bed_shared(LENGTH * sizeof(*x), 0);
	struct rp_program_desc desc;
	struct rp_arg args[2];

	(void)state;
	fill(args, x, 1);
	rp_program_desc_init(&desc);
	desc.name = "failing";
	desc.entries = &entry;
	desc.entry_count = 1;
	failing = create(&desc);
	assert_ok(rp_chip_worker_register(worker, program, &good));
	assert_ok(rp_chip_worker_register(worker, failing, &bad));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rp_registration_run(bad, NULL, 0, NULL, NULL), -EIO);
		assert_says("entry 'fail' of 'failing'", "as told");
		assert_ok(rp_registration_run(good, args, 2, NULL, NULL));
	}
	assert_int_equal(x[0], 3);
	rp_registration_free(good);
	rp_registration_free(bad);
	rp_program_free(program);
	rp_program_free(failing);
	rp_chip_worker_free(worker);
	rp_shared_free(x);
}

/* Programs of as many parameters as there can be find room. */
static void a_program_may_be_as_wide_as_any(void **state)
{
	static struct rp_param params[RP_MAX_TASK_SCALARS];
	static char names[RP_MAX_TASK_SCALARS][16];
	static struct rp_arg args[RP_MAX_TASK_SCALARS];
	struct rp_entry entry = { "noop", noop_entry };
	struct rp_chip_worker *worker = open_worker();
	struct rp_program_desc desc;
	struct rp_program *program;

	(void)state;
	for (int i = 0; i < RP_MAX_TASK_SCALARS; i++) {
		snprintf(names[i], sizeof(names[i]), "p%d", i);
		params[i] = (struct rp_param){ .name = names[i],
					       .kind = RP_ARG_SCALAR,
					       .dtype = RP_INT64 };
		args[i] = rp_arg_i64(i);
	}
	rp_program_desc_init(&desc);
	desc.name = "wide";
	desc.params = params;
	desc.param_count = RP_MAX_TASK_SCALARS;
	desc.entries = &entry;
	desc.entry_count = 1;
	program = create(&desc);
	assert_ok(rp_chip_worker_run(worker, program, args, RP_MAX_TASK_SCALARS, NULL,
				     NULL));
	rp_program_free(program);
	rp_chip_worker_free(worker);
}

static void only_so_many_programs_fit(void **state)
{
	struct rp_chip_worker *worker = open_worker();
	struct rp_registration *handle = NULL;
	struct rp_program *program;

	(void)state;
	for (int i = 0; i < RP_CHIP_WORKER_PROGRAMS; i++) {
		program = add_program();
		assert_ok(rp_chip_worker_register(worker, program, &handle));
		rp_registration_free(handle);
		rp_program_free(program);
	}
	program = add_program();
	assert_int_equal(rp_chip_worker_register(worker, program, &handle), -ENOSPC);
	assert_says("1024 programs");
	rp_program_free(program);
	rp_chip_worker_free(worker);
}

static void the_topmost_that_matches_is_current(void **state)
{
	struct rp_chip_worker *outer = open_worker(), *inner = open_worker();
	struct rp_program *program = add_program(), *foreign;
	int64_t *x = bed_shared(LENGTH * sizeof(*x), 0);
	struct rp_program_desc desc;
	struct rp_arg args[2];

	(void)state;
	describe(&desc);
	desc.platform = "a2a3";
	foreign = create(&desc);
	fill(args, x, 1);
	assert_int_equal(rp_program_call(program, args, 2, NULL, NULL), -ENOENT);
	assert_says("'add'", "'sim'", "none");
	assert_ok(rp_chip_worker_push(outer));
	assert_ptr_equal(rp_chip_worker_current(program), outer);
	assert_int_equal(rp_chip_worker_push(outer), -EEXIST);
	assert_ok(rp_chip_worker_push(inner));
	assert_ptr_equal(rp_chip_worker_current(program), inner);
	assert_int_equal(rp_chip_worker_push(outer), -EEXIST);
	assert_ok(rp_program_call(program, args, 2, NULL, NULL));
	assert_int_equal(x[0], 1);
	assert_null(rp_chip_worker_current(foreign));
	assert_int_equal(rp_program_call(foreign, args, 2, NULL, NULL), -ENOENT);
	assert_says("'a2a3'", "'sim'");
	assert_int_equal(rp_chip_worker_pop(outer), -EINVAL);
	/* A closed one matches nothing. */
	assert_ok(rp_chip_worker_close(inner, RP_WAIT_FOREVER));
	assert_ptr_equal(rp_chip_worker_current(program), outer);
	assert_ok(rp_program_call(program, args, 2, NULL, NULL));
	assert_ok(rp_chip_worker_pop(inner));
	assert_ok(rp_chip_worker_pop(outer));
	assert_int_equal(rp_chip_worker_pop(outer), -EINVAL);
	assert_null(rp_chip_worker_current(program));
	{
		RP_SCOPED_CURRENT current = NULL;

		assert_ok(rp_chip_worker_push(outer));
		current = outer;
		assert_ptr_equal(rp_chip_worker_current(program), current);
	}
	assert_null(rp_chip_worker_current(program));
	/* What goes is forgotten. */
	assert_ok(rp_chip_worker_push(outer));
	rp_chip_worker_free(outer);
	assert_null(rp_chip_worker_current(program));
	rp_chip_worker_free(inner);
	rp_program_free(program);
	rp_program_free(foreign);
	rp_shared_free(x);
}

struct other {
	struct rp_chip_worker *worker;
	struct rp_program *program;
	int64_t *x;
	int err;
	bool had_none;
};

static void *register_and_call(void *arg)
{
	struct other *other = arg;
	struct rp_arg args[2];

	other->had_none = !rp_chip_worker_current(other->program);
	fill(args, other->x, 1);
	for (int i = 0; i < 50 && !other->err; i++) {
		RP_SCOPED_REGISTRATION handle = NULL;

		other->err =
			rp_chip_worker_register(other->worker, other->program, &handle);
		if (!other->err)
			other->err = rp_registration_run(handle, args, 2, NULL, NULL);
	}
	return NULL;
}

static void threads_register_and_call_beside_each_other(void **state)
{
	RP_SCOPED_CHIP_WORKER worker = open_worker();
	struct rp_program *program = add_program(), *own = add_program();
	struct other others[4];
	pthread_t threads[4];

	(void)state;
	assert_ok(rp_chip_worker_push(worker));
	for (int i = 0; i < 4; i++) {
		others[i] = (struct other){
			.worker = worker,
			.program = i < 3 ? program : own,
			.x = bed_shared(LENGTH * sizeof(int64_t), 0),
		};
		assert_int_equal(
			pthread_create(&threads[i], NULL, register_and_call, &others[i]),
			0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_ok(others[i].err);
		assert_true(others[i].had_none);
		assert_int_equal(others[i].x[LENGTH - 1], 50);
		rp_shared_free(others[i].x);
	}
	assert_ok(rp_chip_worker_pop(worker));
	rp_program_free(program);
	rp_program_free(own);
}

static void a_dead_chip_is_told_by_every_call(void **state)
{
	struct rp_chip_worker *worker = open_worker();
	struct rp_program *program = add_program(), *other = add_program();
	int64_t *x = bed_shared(LENGTH * sizeof(*x), 0);
	struct rp_registration *handle, *none = NULL;
	struct rp_arg args[2];

	(void)state;
	fill(args, x, 1);
	assert_ok(rp_chip_worker_register(worker, program, &handle));
	kill(rp_worker_pid(rp_chip_worker_base(worker), 0), SIGKILL);
	while (rp_registration_run(handle, args, 2, NULL, NULL) != -EOWNERDEAD)
		bed_breathe();
	assert_int_equal(rp_chip_worker_register(worker, other, &none), -EOWNERDEAD);
	assert_null(none);
	rp_registration_free(handle);
	rp_program_free(program);
	rp_program_free(other);
	rp_chip_worker_free(worker);
	rp_shared_free(x);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(programs_come_to_a_worker_that_is_open),
		PROCESS_TEST(aliases_are_one_program_and_end_apart),
		PROCESS_TEST(artifacts_may_be_loaded_at_any_time),
		PROCESS_TEST(what_does_not_fit_is_refused_before_any_dispatch),
		PROCESS_TEST(options_that_are_not_right_are_refused),
		PROCESS_TEST(a_resident_weight_serves_every_call),
		PROCESS_TEST(a_failure_of_one_call_is_its_own),
		PROCESS_TEST(a_program_may_be_as_wide_as_any),
		PROCESS_TEST(only_so_many_programs_fit),
		PROCESS_TEST(the_topmost_that_matches_is_current),
		PROCESS_TEST(threads_register_and_call_beside_each_other),
		PROCESS_TEST(a_dead_chip_is_told_by_every_call),
	};

	if (argc != 4)
		return 2;
	full_dir = argv[1];
	twice_dir = argv[2];
	thrice_dir = argv[3];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
