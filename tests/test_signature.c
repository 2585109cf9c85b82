/* SPDX-License-Identifier: MIT */
/* Scalars that are built into a program or left to run time, and what a program is. */
#include <errno.h>
#include <string.h>

#include "noop.h"
#include "support.h"

/* A tensor, and two scalars of which the first has no default. */
struct draft {
	struct rp_param params[3];
	struct rp_scalar_choice choices[2];
	struct rp_entry entry;
	struct rp_program_desc desc;
};

static int seen_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_scalar tokens;

	if (nargs != 2 || rp_program_scalar(rp_chip_program(chip), "tokens", &tokens))
		return -EINVAL;
	((int64_t *)args[0].u.tensor.data)[0] =
		1000 * tokens.value.i32 + args[1].u.scalar.value.i64;
	return 0;
}

static void draft_init(struct draft *draft)
{
	memset(draft, 0, sizeof(*draft));
	draft->params[0] = (struct rp_param){ .name = "x",
					      .kind = RP_ARG_TENSOR,
					      .dtype = RP_INT64,
					      .access = RP_INOUT,
					      .rank = 1,
					      .shape = { RP_DIM_ANY },
					      .dim_names = { "n" } };
	draft->params[1] = (struct rp_param){ .name = "tokens",
					      .kind = RP_ARG_SCALAR,
					      .dtype = RP_INT32,
					      .flags = RP_PARAM_DECIDE };
	draft->params[2] = (struct rp_param){ .name = "k",
					      .kind = RP_ARG_SCALAR,
					      .dtype = RP_INT64 };
	draft->choices[0] = rp_scalar_is("tokens", rp_arg_i32(128));
	draft->entry = (struct rp_entry){ "seen", seen_entry };
	rp_program_desc_init(&draft->desc);
	draft->desc.name = "draft";
	draft->desc.params = draft->params;
	draft->desc.param_count = 3;
	draft->desc.entries = &draft->entry;
	draft->desc.entry_count = 1;
	draft->desc.scalars = draft->choices;
	draft->desc.scalar_count = 1;
}

static void a_scalar_with_a_value_is_no_argument(void **state)
{
	int64_t *x = bed_shared(64, 0);
	struct draft draft;
	struct bed bed;
	struct rp_scalar value;

	(void)state;
	draft_init(&draft);
	bed_prepare(&bed, &draft.desc, NULL);
	assert_int_equal(rp_program_param_count(bed.program), 2);
	assert_string_equal(rp_program_param(bed.program, 1)->name, "k");
	assert_ok(rp_program_scalar(bed.program, "tokens", &value));
	assert_int_equal(value.value.i32, 128);
	assert_int_equal(rp_program_scalar(bed.program, "k", &value), -ENOENT);
	assert_says("'draft'", "'k'");
	assert_int_equal(rp_program_scalar(bed.program, NULL, &value), -EINVAL);
	assert_ok(RUN(&bed, rp_arg_tensor(TENSOR(x, RP_INT64, 8)), rp_arg_i64(7)));
	assert_int_equal(x[0], 128007);
	assert_int_equal(RUN(&bed, rp_arg_tensor(TENSOR(x, RP_INT64, 8)), rp_arg_i32(128),
			     rp_arg_i64(7)),
			 -EINVAL);
	assert_says("nargs 3", "(x, k)");
	bed_close(&bed);
	rp_shared_free(x);
}

static void a_scalar_left_to_run_time_is_one(void **state)
{
	struct rp_program *program;
	struct draft draft;

	(void)state;
	draft_init(&draft);
	draft.choices[0] = rp_scalar_run_time("tokens");
	assert_ok(rp_program_create(&draft.desc, &program));
	assert_int_equal(rp_program_param_count(program), 3);
	rp_program_free(program);
}

static uint64_t identity_of(const struct draft *draft)
{
	struct rp_program *program;
	uint64_t identity;

	assert_ok(rp_program_create(&draft->desc, &program));
	identity = rp_program_identity(program);
	rp_program_free(program);
	return identity;
}

static void identity_is_what_a_build_decides(void **state)
{
	uint64_t one, other;
	struct draft draft;

	(void)state;
	draft_init(&draft);
	one = identity_of(&draft);
	assert_int_equal(identity_of(&draft), one);
	/* What "k" will be is nobody's business yet, said or not. */
	draft.choices[1] = rp_scalar_run_time("k");
	draft.desc.scalar_count = 2;
	assert_int_equal(identity_of(&draft), one);
	draft.choices[1] = rp_scalar_is("k", rp_arg_i64(1));
	assert_int_not_equal(identity_of(&draft), one);
	draft.desc.scalar_count = 1;
	draft.choices[0].value.value.i32 = 256;
	other = identity_of(&draft);
	assert_int_not_equal(other, one);
	draft.choices[0] = rp_scalar_run_time("tokens");
	assert_int_not_equal(identity_of(&draft), one);
	assert_int_not_equal(identity_of(&draft), other);
	draft.choices[0] = rp_scalar_is("tokens", rp_arg_i32(128));
	draft.params[0].dim_names[0] = "m";
	assert_int_not_equal(identity_of(&draft), one);
	draft.params[0].dim_names[0] = "n";
	draft.entry.fn = noop_entry;
	assert_int_not_equal(identity_of(&draft), one);
	draft.entry.fn = seen_entry;
	assert_int_equal(identity_of(&draft), one);
}

static void a_choice_that_is_not_right_is_refused(void **state)
{
	static const struct {
		struct rp_scalar_choice choice;
		const char *needles[3];
	} cases[] = {
		{ { .name = NULL }, { "scalars[0]", "no name" } },
		{ { .name = "x", .run_time = 1 }, { "'x'", "scalar parameter" } },
		{ { .name = "tok", .run_time = 1 }, { "'tok'", "scalar parameter" } },
		{ { .name = "k", .run_time = 1 }, { "'tokens'", "left open" } },
		{ { .name = "tokens", .run_time = 2 }, { "'tokens'", "run_time 2" } },
		{ { .name = "tokens", .run_time = 1, .reserved = 1 }, { "reserved 1" } },
		{ { .name = "tokens", .value = { .dtype = RP_INT64 } },
		  { "'tokens'", "int64", "int32" } },
		{ { .name = "tokens",
		    .value = { .dtype = RP_INT32, .value = { .bits = 1ull << 32 } } },
		  { "0x100000000", "32" } },
	};
	struct rp_program *program;
	struct draft draft;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		draft_init(&draft);
		draft.choices[0] = cases[i].choice;
		assert_int_equal(rp_program_create(&draft.desc, &program), -EINVAL);
		for (size_t n = 0; n < 3; n++)
			if (cases[i].needles[n])
				assert_says(cases[i].needles[n]);
	}
	draft_init(&draft);
	draft.choices[1] = draft.choices[0];
	draft.desc.scalar_count = 2;
	assert_int_equal(rp_program_create(&draft.desc, &program), -EINVAL);
	assert_says("'tokens'", "twice");
	draft_init(&draft);
	draft.desc.scalars = NULL;
	assert_int_equal(rp_program_create(&draft.desc, &program), -EINVAL);
	assert_says("scalar_count 1");
	draft_init(&draft);
	draft.params[0].flags = RP_PARAM_DECIDE;
	assert_int_equal(rp_program_create(&draft.desc, &program), -EINVAL);
	assert_says("'x'", "flags 0x1");
	draft_init(&draft);
	draft.desc.flags = 2;
	assert_int_equal(rp_program_create(&draft.desc, &program), -EINVAL);
	assert_says("flags 0x2");
}

/* What a dispatch has whose caller gives it no configuration. */
static uint64_t tag_seen;

static int note_tag(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		    void *user)
{
	(void)args;
	(void)nargs;
	(void)user;
	tag_seen = rp_run_get_config(run)->tag;
	return rp_run_program(run) ? 0 : -EINVAL;
}

static void a_program_has_a_configuration_of_its_own(void **state)
{
	struct rp_entry entry = { "noop", noop_entry };
	struct rp_run_config config, other;
	struct rp_program_desc desc;
	struct rp_program *program;
	struct bed bed;

	(void)state;
	rp_run_config_init(&config);
	config.tag = 42;
	other = config;
	other.tag = 43;
	rp_program_desc_init(&desc);
	desc.name = "configured";
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = note_tag;
	desc.config = &config;
	bed_prepare(&bed, &desc, NULL);
	assert_ok(rp_worker_run(bed.worker, NULL, NULL, 0, NULL));
	assert_int_equal(tag_seen, 42);
	assert_ok(rp_worker_run(bed.worker, NULL, NULL, 0, &other));
	assert_int_equal(tag_seen, 43);
	bed_close(&bed);
	config.ring_heap.all = 1000;
	assert_int_equal(rp_program_create(&desc, &program), -EINVAL);
	assert_says("rp_program_create", "ring_heap", "1000");
	config.size = 1;
	assert_int_equal(rp_program_create(&desc, &program), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_scalar_with_a_value_is_no_argument),
		PROCESS_TEST(a_scalar_left_to_run_time_is_one),
		PROCESS_TEST(identity_is_what_a_build_decides),
		PROCESS_TEST(a_choice_that_is_not_right_is_refused),
		PROCESS_TEST(a_program_has_a_configuration_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
