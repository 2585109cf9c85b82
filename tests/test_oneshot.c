/* SPDX-License-Identifier: MIT */
/* Programs that are run once, with all that this takes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "device.h"
#include "noop.h"
#include "support.h"

#define LENGTH 1000

/* y = x + z + k on as many chips as there are; z may be x or y. */
static int add_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const int64_t *x = args[0].u.tensor.data;
	int64_t *y = args[1].u.tensor.data, *z = args[2].u.tensor.data;
	int64_t k = args[3].u.scalar.value.i64;

	(void)nargs;
	if (k < 0)
		return rp_chip_fail(chip, (int)k, "told to");
	for (int64_t i = 0; i < args[0].u.tensor.shape[0]; i++) {
		z[i] += x[i];
		y[i] = z[i] + k;
	}
	return 0;
}

static int spread(struct rp_run *run, const struct rp_arg *args, size_t nargs, void *user)
{
	const uint32_t chips = rp_run_chip_count(run);
	int err = 0;

	(void)user;
	for (uint32_t chip = 0; chip < chips && !err; chip++) {
		struct rp_arg part[4] = { args[0], args[1], args[2], args[3] };
		int64_t length = args[0].u.tensor.shape[0];
		int64_t from = length * chip / chips;
		int64_t count = length * (chip + 1) / chips - from;
		struct rp_task task = { .chip = (int32_t)chip,
					.args = part,
					.arg_count = (uint32_t)nargs };

		for (int i = 0; i < 3 && !err; i++)
			err = rp_tensor_slice(&args[i].u.tensor, 0, from, count, 1,
					      &part[i].u.tensor);
		if (!err)
			err = rp_run_task(run, &task);
	}
	return err;
}

static struct rp_program *program_of(uint32_t chips)
{
	struct rp_param params[4] = {
		{ .name = "x", .access = RP_IN },
		{ .name = "y", .access = RP_OUT },
		{ .name = "z", .access = RP_INOUT },
		{ .name = "k", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
	};
	struct rp_entry entry = { "add", add_entry };
	struct rp_program_desc desc;
	struct rp_program *program;

	for (int i = 0; i < 3; i++) {
		params[i].kind = RP_ARG_TENSOR;
		params[i].dtype = RP_INT64;
		params[i].rank = 1;
		params[i].shape[0] = RP_DIM_ANY;
		params[i].dim_names[0] = "n";
	}
	rp_program_desc_init(&desc);
	desc.name = "add";
	desc.params = params;
	desc.param_count = 4;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = spread;
	desc.chip_count = chips;
	assert_ok(rp_program_create(&desc, &program));
	return program;
}

static void fill_args(struct rp_arg args[4], int64_t *x, int64_t *y, int64_t *z,
		      int64_t k)
{
	args[0] = rp_arg_tensor(TENSOR(x, RP_INT64, LENGTH));
	args[1] = rp_arg_tensor(TENSOR(y, RP_INT64, LENGTH));
	args[2] = rp_arg_tensor(TENSOR(z, RP_INT64, LENGTH));
	args[3] = rp_arg_i64(k);
}

static void check_result(const int64_t *y, const int64_t *z)
{
	for (int64_t i = 0; i < LENGTH; i++) {
		assert_int_equal(z[i], 3 * i);
		assert_int_equal(y[i], 3 * i + 5);
	}
}

static void count_up(int64_t *at, int64_t step)
{
	for (int64_t i = 0; i < LENGTH; i++)
		at[i] = step * i;
}

/* Memory of any kind is taken as it is, and written where the caller has it. */
static void any_host_memory_will_do(void **state)
{
	int64_t *shared = bed_shared(3 * LENGTH * sizeof(*shared), 0);
	int64_t *private = malloc(3 * LENGTH * sizeof(*private));
	static int64_t fixed[LENGTH];

	(void)state;
	for (uint32_t chips = 0; chips <= 2; chips++) {
		struct rp_program *program = program_of(chips);
		uint64_t wall_ns = 0;
		struct rp_arg args[4];

		count_up(private, 1);
		count_up(private + LENGTH, -1);
		count_up(private + 2 * LENGTH, 2);
		fill_args(args, private, private + LENGTH, private + 2 * LENGTH, 5);
		assert_ok(rp_program_run(program, args, 4, NULL, &wall_ns));
		check_result(private + LENGTH, private + 2 * LENGTH);
		assert_true(wall_ns > 0);

		count_up(shared, 1);
		count_up(fixed, 2);
		fill_args(args, shared, shared + LENGTH, fixed, 5);
		assert_ok(rp_program_run(program, args, 4, NULL, NULL));
		check_result(shared + LENGTH, fixed);
		rp_program_free(program);
	}
	rp_shared_free(shared);
	free(private);
}

/* Two arguments of one memory stay one. */
static void arguments_that_share_bytes_still_do(void **state)
{
	struct rp_program *program = program_of(1);
	static int64_t x[LENGTH], y[LENGTH];
	struct rp_arg args[4];

	(void)state;
	count_up(x, 1);
	/* x is read and z is x: twice as much. */
	fill_args(args, x, y, x, 5);
	assert_ok(rp_program_run(program, args, 4, NULL, NULL));
	for (int64_t i = 0; i < LENGTH; i++) {
		assert_int_equal(x[i], 2 * i);
		assert_int_equal(y[i], 2 * i + 5);
	}
	rp_program_free(program);
}

static void a_failure_leaves_nothing_and_says_what_it_was(void **state)
{
	struct rp_program *program = program_of(2);
	static int64_t x[LENGTH], y[LENGTH], z[LENGTH];
	struct rp_arg args[4];
	uint64_t wall_ns = 0;

	(void)state;
	count_up(y, 7);
	fill_args(args, x, y, z, -EIO);
	assert_int_equal(rp_program_run(program, args, 4, NULL, &wall_ns), -EIO);
	assert_says("entry 'add'", "told to");
	assert_true(wall_ns > 0);
	assert_int_equal(y[1], 7);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	rp_program_free(program);
}

static void what_is_wrong_is_found_before_any_set_up(void **state)
{
	struct rp_program *program = program_of(2);
	static int64_t x[LENGTH], y[LENGTH], z[LENGTH];
	struct rp_run_config config;
	struct rp_arg args[4];

	(void)state;
	trap_install();
	trap_fail("prepare.eventfd", 0, 1, 1, -EMFILE);
	fill_args(args, x, y, z, 1);
	assert_int_equal(rp_program_run(NULL, args, 4, NULL, NULL), -EINVAL);
	assert_int_equal(rp_program_run(program, args, 3, NULL, NULL), -EINVAL);
	assert_says("nargs 3", "'add' expects 4");
	assert_int_equal(rp_program_run(program, NULL, 4, NULL, NULL), -EINVAL);
	args[1].u.tensor.resident = 77;
	assert_int_equal(rp_program_run(program, args, 4, NULL, NULL), -EINVAL);
	assert_says("'y'", "resident", "prepared worker");
	fill_args(args, x, y, z, 1);
	args[0].u.tensor.strides[0] = 2;
	assert_int_equal(rp_program_run(program, args, 4, NULL, NULL), -EINVAL);
	assert_says("'x'", "strided");
	fill_args(args, x, y, z, 1);
	args[0].u.tensor.data = NULL;
	assert_int_equal(rp_program_run(program, args, 4, NULL, NULL), -EINVAL);
	args[0] = rp_arg_i64(1);
	assert_int_equal(rp_program_run(program, args, 4, NULL, NULL), -EINVAL);
	assert_says("'x'", "kind 2", "tensor");
	fill_args(args, x, y, z, 1);
	rp_run_config_init(&config);
	config.ring_heap.all = 1000;
	assert_int_equal(rp_program_run(program, args, 4, &config, NULL), -EINVAL);
	assert_says("ring_heap");
	assert_int_equal(trap_hits(), 0);
	trap_uninstall();
	rp_program_free(program);
}

static void a_close_that_fails_is_tried_once_more(void **state)
{
	struct rp_program *program = program_of(1);
	static int64_t x[LENGTH], y[LENGTH], z[LENGTH];
	struct rp_arg args[4];

	(void)state;
	fill_args(args, x, y, z, 1);
	trap_install();
	trap_fail("oneshot.close", 0, 1, 1, -EBUSY);
	assert_ok(rp_program_run(program, args, 4, NULL, NULL));
	assert_int_equal(trap_hits(), 2);
	trap_fail("oneshot.close", 0, 1, 2, -EBUSY);
	assert_int_equal(rp_program_run(program, args, 4, NULL, NULL), -EBUSY);
	assert_says("closing failed");
	assert_int_equal(trap_hits(), 2);
	/* It never hides what came first. */
	args[3] = rp_arg_i64(-EIO);
	trap_fail("oneshot.close", 0, 1, 2, -EBUSY);
	assert_int_equal(rp_program_run(program, args, 4, NULL, NULL), -EIO);
	assert_says("told to");
	assert_int_equal(trap_hits(), 2);
	trap_uninstall();
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	rp_program_free(program);
}

/* The rings of the config are there before the entry asks for them. */
static int count_misses(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_ring_state state;

	(void)args;
	(void)nargs;
	if (rp_chip_ring_state(chip, 0, &state))
		return -EPROTO;
	if (state.task_window.size == 32)
		return 0;
	return rp_chip_fail(chip, -ERANGE, "%llu",
			    (unsigned long long)state.task_window.size);
}

static void the_rings_of_the_config_apply(void **state)
{
	struct rp_entry entry = { "rings", count_misses };
	struct rp_run_config config;
	struct rp_program_desc desc;
	struct rp_program *program;

	(void)state;
	rp_run_config_init(&config);
	config.ring_task_window.all = 32;
	rp_program_desc_init(&desc);
	desc.name = "rings";
	desc.entries = &entry;
	desc.entry_count = 1;
	assert_ok(rp_program_create(&desc, &program));
	assert_ok(rp_program_run(program, NULL, 0, &config, NULL));
	assert_int_equal(rp_program_run(program, NULL, 0, NULL, NULL), -ERANGE);
	rp_program_free(program);
	desc.config = &config;
	assert_ok(rp_program_create(&desc, &program));
	assert_ok(rp_program_run(program, NULL, 0, NULL, NULL));
	rp_program_free(program);
}

static void a_callback_that_nobody_binds_is_refused(void **state)
{
	struct rp_entry entry = { "noop", noop_entry };
	struct rp_callback callback = { .name = "sample" };
	struct rp_program_desc desc;
	struct rp_program *program;

	(void)state;
	rp_program_desc_init(&desc);
	desc.name = "asks";
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.callbacks = &callback;
	desc.callback_count = 1;
	assert_ok(rp_program_create(&desc, &program));
	assert_int_equal(rp_program_run(program, NULL, 0, NULL, NULL), -ENOENT);
	assert_says("'sample'");
	rp_program_free(program);
}

static void another_runtime_is_refused_with_both_names(void **state)
{
	struct rp_entry entry = { "noop", noop_entry };
	struct rp_program_desc desc;
	struct rp_program *program;

	(void)state;
	rp_program_desc_init(&desc);
	desc.name = "other";
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.runtime = "host_build_graph";
	assert_ok(rp_program_create(&desc, &program));
	assert_int_equal(rp_program_run(program, NULL, 0, NULL, NULL), -EINVAL);
	assert_says("'other'", "'host_build_graph'", "'tensormap_and_ringbuffer'");
	rp_program_free(program);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(any_host_memory_will_do),
		PROCESS_TEST(arguments_that_share_bytes_still_do),
		PROCESS_TEST(a_failure_leaves_nothing_and_says_what_it_was),
		PROCESS_TEST(what_is_wrong_is_found_before_any_set_up),
		PROCESS_TEST(a_close_that_fails_is_tried_once_more),
		PROCESS_TEST(the_rings_of_the_config_apply),
		PROCESS_TEST(a_callback_that_nobody_binds_is_refused),
		PROCESS_TEST(another_runtime_is_refused_with_both_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
