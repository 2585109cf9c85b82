/* SPDX-License-Identifier: MIT */
/*
 * A program without an orchestration is one task with the arguments of the call. What
 * holds for any task holds for it: as many arguments as there may be, of fixed shapes and
 * of any, host memory and resident, outputs apart, on chip 0.
 */
#include <errno.h>
#include <string.h>

#include "support.h"

#define TENSORS_MAX 12
#define WIDTH	    5
#define ADDEND	    7

static int64_t *rows; /* [TENSORS_MAX + 1][WIDTH], shared */

static const char *const names[TENSORS_MAX] = { "a", "b", "c", "d", "e", "f",
						"g", "h", "i", "j", "k", "l" };

#define WAYS 4 /* with a dispatcher or without, shapes fixed or not */

/* Each of `count` tensors += the scalar, which stands behind the first. */
static void open_add(struct bed *bed, uint32_t count, int way)
{
	const bool dispatcher = way & 1, fixed = way & 2;
	struct rp_param params[TENSORS_MAX + 1];
	struct rp_worker_options options;
	struct rp_program_desc desc;

	for (uint32_t i = 0, at = 0; i < count; i++) {
		params[at++] =
			(struct rp_param){ .name = names[i],
					   .kind = RP_ARG_TENSOR,
					   .dtype = RP_INT64,
					   .access = RP_INOUT,
					   .rank = 1,
					   .shape = { fixed ? WIDTH : RP_DIM_ANY } };
		if (!i)
			params[at++] = (struct rp_param){ .name = "addend",
							  .kind = RP_ARG_SCALAR,
							  .dtype = RP_INT64 };
	}
	bed_options(&options, 2);
	options.dispatcher = dispatcher;
	bed_describe(&desc, "add", params, count + 1);
	desc.orchestrate = NULL;
	desc.entries += ENTRY_ADD;
	desc.entry_count = 1;
	bed_prepare(bed, &desc, &options);
}

static struct rp_tensor row(uint32_t i)
{
	return TENSOR(rows + (size_t)i * WIDTH, RP_INT64, WIDTH);
}

static void fill_rows(void)
{
	for (int i = 0; i < (TENSORS_MAX + 1) * WIDTH; i++)
		rows[i] = 100 * i;
}

static void assert_rows(uint32_t from, uint32_t to, int64_t added)
{
	for (uint32_t i = from * WIDTH; i < to * WIDTH; i++)
		assert_int_equal(rows[i], 100 * (int64_t)i + added);
}

static int call(struct bed *bed, const struct rp_tensor *tensors, uint32_t count)
{
	struct rp_arg args[TENSORS_MAX + 1];

	for (uint32_t i = 0, at = 0; i < count; i++) {
		args[at++] = rp_arg_tensor(tensors[i]);
		if (!i)
			args[at++] = rp_arg_i64(ADDEND);
	}
	return rp_worker_run(bed->worker, bed->program, args, count + 1, NULL);
}

/* Host memory alone, then with the tensor at `at` on the chip. */
static void check_places(struct bed *bed, uint32_t count)
{
	const struct rp_tensor host = row(TENSORS_MAX);
	struct rp_tensor tensors[TENSORS_MAX];

	for (uint32_t i = 0; i < count; i++)
		tensors[i] = row(i);
	fill_rows();
	assert_ok(call(bed, tensors, count));
	assert_rows(0, count, ADDEND);
	assert_rows(count, TENSORS_MAX, 0);
	for (uint32_t at = 0; at < count; at++) {
		struct rp_tensor resident;
		int64_t back[WIDTH];
		uint64_t address;
		uint32_t chip;

		fill_rows();
		assert_ok(rp_worker_alloc_tensor(bed->worker, 0, RP_INT64, 1,
						 (int64_t[]){ WIDTH }, &host, &resident));
		tensors[at] = resident;
		assert_ok(call(bed, tensors, count));
		assert_ok(rp_worker_tensor_address(bed->worker, &resident, &chip,
						   &address));
		assert_ok(rp_worker_copy_from(bed->worker, 0, address, 0, back, 0,
					      sizeof(back)));
		for (int i = 0; i < WIDTH; i++)
			assert_int_equal(back[i], rows[TENSORS_MAX * WIDTH + i] + ADDEND);
		assert_rows(0, at, ADDEND);
		assert_rows(at, at + 1, 0);
		assert_rows(at + 1, count, ADDEND);
		assert_ok(rp_worker_free_tensor(bed->worker, &resident));
		tensors[at] = row(at);
	}
}

static void any_number_of_arguments_lies_anywhere(void **state)
{
	struct bed bed;

	(void)state;
	for (uint32_t count = 1; count <= TENSORS_MAX; count += count < 4 ? 1 : 3) {
		for (int way = 0; way < WAYS; way++) {
			open_add(&bed, count, way);
			check_places(&bed, count);
			bed_close(&bed);
		}
	}
}

static void refuse(struct bed *bed, const struct rp_tensor *tensors, uint32_t count,
		   int err, const char *why)
{
	assert_int_equal(call(bed, tensors, count), err);
	assert_says(why);
	assert_rows(0, TENSORS_MAX, 0);
}

static void check_refusals(struct bed *bed, uint32_t count)
{
	const uint32_t last = count - 1;
	struct rp_tensor tensors[TENSORS_MAX], elsewhere;

	for (uint32_t i = 0; i < count; i++)
		tensors[i] = row(i);
	fill_rows();
	/* One element of another's memory, or all of it. */
	tensors[last] = TENSOR(rows + WIDTH - 1, RP_INT64, WIDTH);
	refuse(bed, tensors, count, -EINVAL, "another argument of the task writes");
	tensors[last] = row(0);
	refuse(bed, tensors, count, -EINVAL, "another argument of the task writes");
	/* On the other chip, gone. */
	assert_ok(rp_worker_alloc_tensor(bed->worker, 1, RP_INT64, 1,
					 (int64_t[]){ WIDTH }, NULL, &elsewhere));
	tensors[last] = elsewhere;
	refuse(bed, tensors, count, -EINVAL, "lies on chip 1, the task goes to chip 0");
	assert_ok(rp_worker_free_tensor(bed->worker, &elsewhere));
	refuse(bed, tensors, count, -ESTALE, "freed");
	/* The same one twice. */
	assert_ok(rp_worker_alloc_tensor(bed->worker, 0, RP_INT64, 1,
					 (int64_t[]){ WIDTH }, NULL, &elsewhere));
	tensors[0] = tensors[last] = elsewhere;
	refuse(bed, tensors, count, -EINVAL, "another argument of the task writes");
	/* And the worker goes on. */
	tensors[0] = row(0);
	assert_ok(call(bed, tensors, count));
	assert_rows(0, 1, ADDEND);
}

static void what_no_task_may_have_is_refused(void **state)
{
	static const uint32_t counts[] = { 2, 3, 7, 8, TENSORS_MAX };
	struct bed bed;

	(void)state;
	for (size_t i = 0; i < COUNT(counts); i++) {
		for (int way = 0; way < WAYS; way++) {
			open_add(&bed, counts[i], way);
			check_refusals(&bed, counts[i]);
			bed_close(&bed);
		}
	}
}

/* What one program's arguments are is not what the next one's are. */
static void programs_take_turns(void **state)
{
	const struct rp_param tensor = { .name = "x",
					 .kind = RP_ARG_TENSOR,
					 .dtype = RP_INT64,
					 .access = RP_INOUT,
					 .rank = 1,
					 .shape = { WIDTH } };
	const struct rp_param from = { .name = "from",
				       .kind = RP_ARG_TENSOR,
				       .dtype = RP_INT64,
				       .access = RP_IN,
				       .rank = 2,
				       .shape = { 2, WIDTH } };
	const struct rp_param to = { .name = "to",
				     .kind = RP_ARG_TENSOR,
				     .dtype = RP_INT64,
				     .access = RP_OUT,
				     .rank = 2,
				     .shape = { 2, WIDTH } };
	const struct rp_param addend = { .name = "addend",
					 .kind = RP_ARG_SCALAR,
					 .dtype = RP_INT64 };
	const struct rp_param add[] = { addend, tensor }, copy[] = { from, to };
	const struct rp_param *params[] = { add, copy };
	const uint32_t entries[] = { ENTRY_ADD, ENTRY_COPY };
	struct rp_worker_options options;
	struct rp_program *programs[2];
	struct rp_worker *worker;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct rp_program_desc desc;

		bed_describe(&desc, i ? "copy" : "add", params[i], 2);
		desc.orchestrate = NULL;
		desc.entries += entries[i];
		desc.entry_count = 1;
		assert_ok(rp_program_create(&desc, &programs[i]));
	}
	bed_options(&options, 1);
	assert_ok(rp_worker_prepare(programs, 2, &options, &worker));
	fill_rows();
	for (int64_t turn = 1; turn <= 40; turn++) {
		const struct rp_arg sum[] = { rp_arg_i64(turn), rp_arg_tensor(row(0)) };
		const struct rp_arg moved[] = {
			rp_arg_tensor(TENSOR(rows, RP_INT64, 2, WIDTH)),
			rp_arg_tensor(TENSOR(rows + 2 * WIDTH, RP_INT64, 2, WIDTH))
		};

		assert_ok(rp_worker_run(worker, programs[0], sum, 2, NULL));
		assert_rows(0, 1, turn * (turn + 1) / 2);
		/* Not each time, so that one also follows its own kind. */
		if (turn % 3)
			continue;
		assert_ok(rp_worker_run(worker, programs[1], moved, 2, NULL));
		assert_memory_equal(rows, rows + 2 * WIDTH, 2 * WIDTH * sizeof(*rows));
	}
	rp_worker_free(worker);
	rp_program_free(programs[0]);
	rp_program_free(programs[1]);
}

static int set_up(void **state)
{
	int err = bed_setup(state);

	rows = bed_shared(sizeof(*rows) * (TENSORS_MAX + 1) * WIDTH, 0);
	return err;
}

static int tear_down(void **state)
{
	rp_shared_free(rows);
	return bed_teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(any_number_of_arguments_lies_anywhere),
		TEST(what_no_task_may_have_is_refused),
		TEST(programs_take_turns),
	};

	return cmocka_run_group_tests_name("one_task", tests, NULL, NULL);
}
