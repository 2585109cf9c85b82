/* SPDX-License-Identifier: MIT */
/* What a task may be: each rule broken once, and the most that it may take. */
#include <errno.h>
#include <string.h>

#include "support.h"

#define WRONGS 13

static int64_t *wrong_memory;

/* Every broken rule in one run, which goes on and succeeds. */
static int try_wrong_tasks(struct rp_run *run, void *arg)
{
	struct rp_tensor z = TENSOR(wrong_memory, RP_INT64, 8);
	struct rp_tensor head = TENSOR(wrong_memory, RP_INT64, 5);
	struct rp_tensor tail = TENSOR(wrong_memory + 4, RP_INT64, 4);
	struct rp_tensor heap = TENSOR(arg, RP_INT64, 1);
	struct rp_task flagged = { .entry = 0, .flags = 1 };
	struct rp_tensor bent = z;
	struct kept_error *wrong = arg;
	struct rp_arg odd = rp_in(z);

	keep_error(wrong++, rp_run_task(run, NULL));
	keep_error(wrong++, bed_task(run, 0, ENTRY_COUNT, NULL, 0));
	keep_error(wrong++, bed_task(run, 2, 0, NULL, 0));
	keep_error(wrong++, bed_task(run, -2, 0, NULL, 0));
	keep_error(wrong++, rp_run_task(run, &flagged));
	keep_error(wrong++, bed_task(run, 0, 0, NULL, 1));
	odd.access = 4;
	keep_error(wrong++, TASK(run, 0, ENTRY_ADD, rp_arg_i64(1), odd));
	odd = rp_in(z);
	odd.kind = 7;
	keep_error(wrong++, TASK(run, 0, ENTRY_ADD, odd));
	bent.strides[0] = 0;
	keep_error(wrong++, TASK(run, 0, ENTRY_ADD, rp_arg_i64(1), rp_in(bent)));
	keep_error(wrong++, TASK(run, 0, ENTRY_COPY, rp_out(head), rp_inout(tail)));
	keep_error(wrong++, TASK(run, 0, ENTRY_ADD, rp_in(heap)));
	keep_error(wrong++, rp_run_callback(run, CALLBACK_COUNT, NULL, 0));
	keep_error(wrong++, CALL(run, CALLBACK_COPY, rp_out(head), rp_out(tail)));
	/* Overlapping where one is only read is fine. */
	return TASK(run, 0, ENTRY_EMPTY, rp_in(head), rp_inout(tail));
}

static void every_broken_rule_of_a_task_is_named(void **state)
{
	static const struct {
		int err;
		const char *needles[3];
	} want[WRONGS] = {
		{ -EINVAL, { "task NULL" } },
		{ -EINVAL, { "entry 10", "'support'", "10 entries" } },
		{ -EINVAL, { "chip 2", "expected 0..1", "RP_CHIP_ANY" } },
		{ -EINVAL, { "chip -2", "expected 0..1" } },
		{ -EINVAL, { "flags 0x1", "expected 0" } },
		{ -EINVAL, { "args NULL", "expected 1" } },
		{ -EINVAL, { "argument 1", "access 4", "expected RP_IN" } },
		{ -EINVAL, { "argument 0", "kind 7", "expected a tensor" } },
		{ -EINVAL, { "argument 1", "strides[0] 0", "expected 1 or more" } },
		{ -EINVAL, { "argument 1", "another argument" } },
		{ -EFAULT, { "argument 0", "not memory that the chips see" } },
		{ -EINVAL, { "callback 4", "'support'", "4 callbacks" } },
		{ -EINVAL, { "argument 1", "another argument" } },
	};
	static struct kept_error wrong[WRONGS];
	struct bed bed;

	(void)state;
	wrong_memory = bed_shared(8 * 8, 0);
	bed_open(&bed, 2);
	assert_ok(bed_run(&bed, try_wrong_tasks, wrong));
	for (size_t k = 0; k < WRONGS; k++) {
		if (wrong[k].err != want[k].err)
			fail_msg("case %zu returned %d: \"%s\"", k, wrong[k].err,
				 wrong[k].line);
		check_line(
			__FILE__, __LINE__, wrong[k].line,
			(const char *[]){ k < 11 ? "rp_run_task: " : "rp_run_callback: ",
					  want[k].needles[0], want[k].needles[1],
					  want[k].needles[2], NULL });
	}
	assert_int_equal(bed_stats(&bed).tasks, 1);
	bed_close(&bed);
	rp_shared_free(wrong_memory);
}

static const struct rp_param grant_params[] = {
	{ .name = "weights",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_IN,
	  .rank = 1,
	  .shape = { 8 } },
	{ .name = "result",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_OUT,
	  .rank = 1,
	  .shape = { 8 } },
};

static struct kept_error grants[3];

static int overstep(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		    void *user)
{
	struct rp_tensor corner = args[0].u.tensor;
	int err;

	(void)nargs;
	(void)user;
	if (args[0].access != RP_IN || args[1].access != RP_OUT)
		return -EPROTO;
	keep_error(&grants[0],
		   TASK(run, 0, ENTRY_ADD, rp_inout(args[0].u.tensor), rp_arg_i64(1)));
	err = rp_tensor_slice(&corner, 0, 7, 1, 1, &corner);
	keep_error(&grants[1], TASK(run, 0, ENTRY_ADD, rp_out(corner), rp_arg_i64(1)));
	/* What is written may be read back. */
	keep_error(&grants[2], TASK(run, 0, ENTRY_COPY, rp_in(args[0].u.tensor),
				    rp_out(args[1].u.tensor)));
	if (err || grants[2].err)
		return -EPROTO;
	return TASK(run, 0, ENTRY_ADD, rp_inout(args[1].u.tensor), rp_arg_i64(1));
}

static void a_task_may_do_no_more_than_the_parameter_grants(void **state)
{
	int64_t *weights = bed_shared(64, 0);
	int64_t *result = bed_shared(64, 0);
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	weights[7] = 77;
	bed_options(&options, 1);
	bed_describe(&desc, "grants", grant_params, COUNT(grant_params));
	desc.orchestrate = overstep;
	bed_prepare(&bed, &desc, &options);
	assert_ok(RUN(&bed, rp_arg_tensor(TENSOR(weights, RP_INT64, 8)),
		      rp_arg_tensor(TENSOR(result, RP_INT64, 8))));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(grants[i].err, -EACCES);
		assert_non_null(strstr(grants[i].line, "argument 0"));
		assert_non_null(strstr(grants[i].line, "'weights'"));
	}
	assert_int_equal(weights[7], 77);
	assert_int_equal(result[7], 78);
	bed_close(&bed);
	rp_shared_free(weights);
	rp_shared_free(result);
}

struct many {
	uint32_t tensors, scalars;
	int64_t *memory;
};

static int many_arguments(struct rp_run *run, void *arg)
{
	static struct rp_arg args[RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS + 2];
	struct many *many = arg;
	uint32_t count = 0;

	for (uint32_t i = 0; i < many->scalars; i++)
		args[count++] = rp_arg_u64(i ? i : 1000);
	for (uint32_t i = 0; i < many->tensors; i++)
		args[count++] = rp_inout(TENSOR(many->memory + i, RP_INT64, 1));
	return bed_task(run, 0, ENTRY_ADD, args, count);
}

static void a_task_takes_256_tensors_and_128_scalars_and_not_one_more(void **state)
{
	struct many many = { RP_MAX_TASK_TENSORS, RP_MAX_TASK_SCALARS, NULL };
	struct bed bed;

	(void)state;
	many.memory = bed_shared((RP_MAX_TASK_TENSORS + 1) * 8, 0);
	for (int unified = 0; unified < 2; unified++) {
		bed_open_unified(&bed, 2, unified);
		memset(many.memory, 0, RP_MAX_TASK_TENSORS * 8);
		for (int round = 1; round < 4; round++) {
			assert_ok(bed_run(&bed, many_arguments, &many));
			for (int i = 0; i < RP_MAX_TASK_TENSORS; i++)
				assert_int_equal(many.memory[i], 1000 * round);
		}
		many.tensors++;
		assert_int_equal(bed_run(&bed, many_arguments, &many), -EINVAL);
		assert_says("rp_run_task", "385", "384");
		many.scalars--;
		assert_int_equal(bed_run(&bed, many_arguments, &many), -EINVAL);
		assert_says("257 tensors", "256");
		many.tensors = 1;
		many.scalars = RP_MAX_TASK_SCALARS + 1;
		assert_int_equal(bed_run(&bed, many_arguments, &many), -EINVAL);
		assert_says("129 scalars", "128");
		many = (struct many){ RP_MAX_TASK_TENSORS, RP_MAX_TASK_SCALARS,
				      many.memory };
		bed_close(&bed);
	}
	rp_shared_free(many.memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(every_broken_rule_of_a_task_is_named),
		PROCESS_TEST(a_task_may_do_no_more_than_the_parameter_grants),
		PROCESS_TEST(a_task_takes_256_tensors_and_128_scalars_and_not_one_more),
	};

	return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
