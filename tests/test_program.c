/* SPDX-License-Identifier: MIT */
/*
 * What makes a program: each rule is broken once, and the error must be the right one and
 * say what is wrong, its value, and what was expected.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/program.h"
#include "noop.h"
#include "support.h"

/* A description that is right, in parts that a test may spoil. */
struct draft {
	struct rp_program_desc desc;
	struct rp_param params[3];
	struct rp_entry entries[2];
	struct rp_callback callbacks[2];
};

static void draft_init(struct draft *draft)
{
	memset(draft, 0, sizeof(*draft));
	draft->params[0] = (struct rp_param){ .name = "x",
					      .kind = RP_ARG_TENSOR,
					      .dtype = RP_INT64,
					      .access = RP_IN,
					      .rank = 2,
					      .shape = { RP_DIM_ANY, 4 },
					      .dim_names = { "n" } };
	draft->params[1] = draft->params[0];
	draft->params[1].name = "y";
	draft->params[1].access = RP_OUT;
	draft->params[2] = (struct rp_param){ .name = "k",
					      .kind = RP_ARG_SCALAR,
					      .dtype = RP_INT64 };
	draft->entries[0] = (struct rp_entry){ "first", noop_entry };
	draft->entries[1] = (struct rp_entry){ "second", noop_entry };
	draft->callbacks[0] = (struct rp_callback){ .name = "tell", .fn = noop_callback };
	draft->callbacks[1] = (struct rp_callback){ .name = "ask", .fn = noop_callback };
	rp_program_desc_init(&draft->desc);
	draft->desc.name = "draft";
	draft->desc.params = draft->params;
	draft->desc.param_count = 3;
	draft->desc.entries = draft->entries;
	draft->desc.entry_count = 2;
	draft->desc.callbacks = draft->callbacks;
	draft->desc.callback_count = 2;
}

static void no_size(struct draft *d)
{
	d->desc.size = 0;
}

static void size_of_tomorrow(struct draft *d)
{
	d->desc.size += 8;
}

static void no_name(struct draft *d)
{
	d->desc.name = NULL;
}

static void empty_name(struct draft *d)
{
	d->desc.name = "";
}

static void no_entries(struct draft *d)
{
	d->desc.entry_count = 0;
}

static void entries_null(struct draft *d)
{
	d->desc.entries = NULL;
}

static void params_null(struct draft *d)
{
	d->desc.params = NULL;
}

static void callbacks_null(struct draft *d)
{
	d->desc.callbacks = NULL;
}

static void many_params(struct draft *d)
{
	d->desc.param_count = RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS + 1;
}

static void many_entries(struct draft *d)
{
	d->desc.entry_count = UINT16_MAX + 1;
}

static void many_callback_workers(struct draft *d)
{
	d->desc.callback_workers = 3;
}

static void entry_without_function(struct draft *d)
{
	d->entries[1].fn = NULL;
}

static void entry_without_name(struct draft *d)
{
	d->entries[1].name = NULL;
}

static void callback_without_name(struct draft *d)
{
	d->callbacks[1].name = NULL;
}

static void callbacks_of_one_name(struct draft *d)
{
	d->callbacks[1].name = "tell";
}

static void callback_with_unknown_flag(struct draft *d)
{
	d->callbacks[0].flags = RP_CALLBACK_OPTIONAL | 2;
}

static void callback_with_bad_signature(struct draft *d)
{
	static const struct rp_signature signature = { .size = 4 };

	d->callbacks[1].signature = &signature;
}

static void param_without_name(struct draft *d)
{
	d->params[1].name = "";
}

static void two_of_one_name(struct draft *d)
{
	d->params[2].name = "x";
}

static void no_kind(struct draft *d)
{
	d->params[1].kind = 0;
}

static void tensor_of_no_dtype(struct draft *d)
{
	d->params[1].dtype = 0;
}

static void tensor_of_unknown_dtype(struct draft *d)
{
	d->params[1].dtype = RP_DTYPE_END;
}

static void no_access(struct draft *d)
{
	d->params[1].access = 0;
}

static void much_access(struct draft *d)
{
	d->params[1].access = 4;
}

static void rank_0(struct draft *d)
{
	d->params[1].rank = 0;
}

static void rank_6(struct draft *d)
{
	d->params[1].rank = RP_MAX_DIMS + 1;
}

static void dim_0(struct draft *d)
{
	d->params[1].shape[1] = 0;
}

static void dim_below_any(struct draft *d)
{
	d->params[1].shape[1] = -2;
}

static void fixed_dim_with_name(struct draft *d)
{
	d->params[1].dim_names[1] = "m";
}

static void scalar_of_16_bit_float(struct draft *d)
{
	d->params[2].dtype = RP_FLOAT16;
}

static void scalar_of_half_a_byte(struct draft *d)
{
	d->params[2].dtype = RP_FP4E2M1;
}

static void scalar_with_rank(struct draft *d)
{
	d->params[2].rank = 1;
}

static void scalar_with_access(struct draft *d)
{
	d->params[2].access = RP_IN;
}

static void a_description_that_is_not_right_is_refused(void **state)
{
	static const struct {
		void (*spoil)(struct draft *draft);
		const char *needles[3];
	} cases[] = {
		{ no_size, { "size 0", "expected", "rp_program_desc_init()" } },
		{ size_of_tomorrow, { "size", "expected" } },
		{ no_name, { "name", "expected" } },
		{ empty_name, { "name", "expected" } },
		{ no_entries, { "entry_count 0", "expected 1.." } },
		{ entries_null, { "entries", "NULL" } },
		{ params_null, { "params", "NULL" } },
		{ callbacks_null, { "callbacks", "NULL" } },
		{ many_params, { "param_count 385", "expected at most 384" } },
		{ many_entries, { "entry_count 65536", "expected 1..65535" } },
		{ many_callback_workers, { "callback_workers 3", "at most", "2" } },
		{ entry_without_function, { "entry 1", "'second'", "function" } },
		{ entry_without_name, { "entry 1", "name" } },
		{ callback_without_name, { "callback 1", "name", "expected" } },
		{ callbacks_of_one_name, { "callbacks 0 and 1", "'tell'" } },
		{ callback_with_unknown_flag, { "'tell'", "flags 0x3", "expected" } },
		{ callback_with_bad_signature, { "'ask'", "size 4", "expected" } },
		{ param_without_name, { "parameter 1", "name", "expected" } },
		{ two_of_one_name, { "parameters 0 and 2", "'x'" } },
		{ no_kind, { "'y'", "kind 0", "expected" } },
		{ tensor_of_no_dtype, { "'y'", "dtype 0", "expected" } },
		{ tensor_of_unknown_dtype, { "'y'", "dtype 16", "expected" } },
		{ no_access, { "'y'", "access 0", "expected RP_IN" } },
		{ much_access, { "'y'", "access 4", "expected RP_IN" } },
		{ rank_0, { "'y'", "rank 0", "expected 1..5" } },
		{ rank_6, { "'y'", "rank 6", "expected 1..5" } },
		{ dim_0, { "'y' dim 1 is 0", "expected", "RP_DIM_ANY" } },
		{ dim_below_any, { "'y' dim 1 is -2", "expected", "RP_DIM_ANY" } },
		{ fixed_dim_with_name, { "'y' dim 1", "'m'", "fixed at 4" } },
		{ scalar_of_16_bit_float, { "'k'", "dtype 2", "expected" } },
		{ scalar_of_half_a_byte, { "'k'", "dtype 15", "expected" } },
		{ scalar_with_rank, { "'k'", "rank 1", "expected 0" } },
		{ scalar_with_access, { "'k'", "access 1", "0" } },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(cases); k++) {
		struct rp_program *program = (void *)1;
		struct draft draft;

		draft_init(&draft);
		cases[k].spoil(&draft);
		if (rp_program_create(&draft.desc, &program) != -EINVAL)
			fail_msg("case %zu was not refused", k);
		assert_ptr_equal(program, (void *)1);
		assert_says("rp_program_create: ");
		for (size_t n = 0; n < COUNT(cases[k].needles); n++)
			if (cases[k].needles[n])
				assert_says(cases[k].needles[n]);
	}
}

static void null_is_refused_and_a_good_one_is_not(void **state)
{
	struct rp_program *program;
	struct draft draft;

	(void)state;
	draft_init(&draft);
	assert_int_equal(rp_program_create(NULL, &program), -EINVAL);
	assert_says("rp_program_create", "desc NULL");
	assert_int_equal(rp_program_create(&draft.desc, NULL), -EINVAL);
	assert_says("rp_program_create", "program_out NULL");
	assert_ok(rp_program_create(&draft.desc, &program));
	rp_program_free(program);
	rp_program_free(NULL);
}

static void a_program_keeps_copies_of_what_it_was_told(void **state)
{
	struct rp_program *program;
	char name[] = "name", param[] = "x", dim[] = "n", entry[] = "first";
	const struct rp_param *copy;
	struct draft draft;

	(void)state;
	draft_init(&draft);
	draft.desc.name = name;
	draft.params[0].name = param;
	draft.params[0].dim_names[0] = dim;
	draft.entries[0].name = entry;
	assert_ok(rp_program_create(&draft.desc, &program));
	name[0] = param[0] = dim[0] = entry[0] = '?';
	memset(draft.params, 0xee, sizeof(draft.params));
	memset(draft.entries, 0xee, sizeof(draft.entries));
	memset(draft.callbacks, 0xee, sizeof(draft.callbacks));

	assert_string_equal(rp_program_name(program), "name");
	assert_string_equal(rp_program_platform(program), "sim");
	assert_string_equal(rp_program_runtime(program), "tensormap_and_ringbuffer");
	assert_int_equal(rp_program_param_count(program), 3);
	copy = rp_program_param(program, 0);
	assert_string_equal(copy->name, "x");
	assert_string_equal(copy->dim_names[0], "n");
	assert_null(copy->dim_names[1]);
	assert_int_equal(copy->shape[0], RP_DIM_ANY);
	assert_int_equal(copy->shape[1], 4);
	assert_string_equal(rp_program_param(program, 2)->name, "k");
	assert_null(rp_program_param(program, 3));
	assert_int_equal(rp_program_entry(program, "first"), 0);
	assert_int_equal(rp_program_entry(program, "second"), 1);
	assert_int_equal(rp_program_entry(program, "third"), -ENOENT);
	assert_says("rp_program_entry", "'name'", "'third'");
	assert_int_equal(rp_program_entry(program, NULL), -ENOENT);
	assert_int_equal(rp_program_callback(program, "ask"), 1);
	assert_int_equal(rp_program_callback(program, "first"), -ENOENT);
	assert_says("rp_program_callback", "'name'", "'first'");
	rp_program_free(program);
}

static void at_most_as_many_dim_names_as_are_kept(void **state)
{
	static char names[RPI_DIM_NAMES_MAX + 1][8];
	static struct rp_param params[RPI_DIM_NAMES_MAX + 1];
	struct rp_program *program;
	struct draft draft;

	(void)state;
	draft_init(&draft);
	for (size_t i = 0; i < COUNT(params); i++) {
		snprintf(names[i], sizeof(names[i]), "d%zu", i);
		params[i] = (struct rp_param){ .name = names[i],
					       .kind = RP_ARG_TENSOR,
					       .dtype = RP_INT8,
					       .access = RP_IN,
					       .rank = 1,
					       .shape = { RP_DIM_ANY },
					       .dim_names = { names[i] } };
	}
	draft.desc.params = params;
	draft.desc.param_count = COUNT(params) - 1;
	assert_ok(rp_program_create(&draft.desc, &program));
	rp_program_free(program);
	draft.desc.param_count = COUNT(params);
	assert_int_equal(rp_program_create(&draft.desc, &program), -EINVAL);
	assert_says("rp_program_create", "64");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_description_that_is_not_right_is_refused),
		cmocka_unit_test(null_is_refused_and_a_good_one_is_not),
		cmocka_unit_test(a_program_keeps_copies_of_what_it_was_told),
		cmocka_unit_test(at_most_as_many_dim_names_as_are_kept),
	};

	return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
