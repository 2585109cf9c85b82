/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <stddef.h>

#include <ringplane/run.h>
#include <ringplane/worker.h>

#include "fail.h"

/* What each chip's window must have for `count` positions at a time. */
static void plan_domain(const struct program_set *set, int32_t count,
			struct rp_domain_buffer *buffers, struct rp_domain_spec *spec)
{
	const struct shard_layout *o = &set->layouts[0];

	buffers[WINDOW_ARRIVED] = (struct rp_domain_buffer){
		.name = "arrived",
		.dtype = RP_INT32,
		.count = (uint64_t)(MEETING_COUNT * set->head.chips),
	};
	buffers[WINDOW_PARTS] = (struct rp_domain_buffer){
		.name = "parts",
		.dtype = RP_FLOAT32,
		.count = 2 * (uint64_t)o->own_parts * (uint64_t)count *
			 (uint64_t)o->dim_rows,
	};
	buffers[WINDOW_LOGITS] = (struct rp_domain_buffer){
		.name = "logits",
		.dtype = RP_FLOAT32,
		.count = (uint64_t)o->vocab_rows,
	};
	rp_domain_spec_init(spec);
	spec->name = "sums";
	spec->buffers = buffers;
	spec->buffer_count = WINDOW_BUFFER_COUNT;
	/* No collective is called, so as little room to stage as there may be. */
	spec->staging_bytes = 256 * (size_t)set->head.chips;
}

/* What every task of a chip has, its own shards first. */
static int fill_common(const struct rp_arg *args, int32_t chip, struct rp_domain *domain,
		       struct rp_arg *task_args)
{
	struct rp_tensor weights, state, row;
	int err = rp_tensor_index(&args[PARAM_WEIGHTS].u.tensor, chip, &weights);

	if (!err)
		err = rp_tensor_index(&args[PARAM_STATE].u.tensor, chip, &state);
	if (!err)
		err = rp_tensor_index(&args[PARAM_REPORT].u.tensor, chip, &row);
	if (err)
		return err;
	task_args[TASK_WEIGHTS] = rp_in(weights);
	task_args[TASK_STATE] = rp_inout(state);
	task_args[TASK_POS] = args[PARAM_POS];
	task_args[TASK_REPORT] = rp_out(row);
	task_args[TASK_DOMAIN] = rp_arg_domain(domain);
	return 0;
}

static int orchestrate_prefill(struct rp_run *run, const struct rp_arg *args,
			       size_t nargs, void *user)
{
	const struct program_set *set = user;
	struct rp_arg task_args[TASK_COUNT_MAX];
	struct rp_task task = { .args = task_args, .arg_count = TASK_LOGITS };
	struct rp_domain *domain;
	int err = rp_run_domain(run, &set->prefill_domain, &domain);

	(void)nargs;
	task_args[TASK_TOKENS] = rp_in(args[PARAM_TOKENS].u.tensor);
	for (task.chip = 0; task.chip < set->head.chips && !err; task.chip++) {
		err = fill_common(args, task.chip, domain, task_args);
		if (!err)
			err = rp_run_task(run, &task);
	}
	return err;
}

static int run_callback(struct rp_run *run, const struct program_set *set,
			const struct rp_arg *args)
{
	struct rp_tensor row;
	int err = rp_tensor_index(&args[PARAM_REPORT].u.tensor, set->head.chips, &row);

	if (err)
		return err;
	/* It reads what all chips write, and so comes after them. */
	const struct rp_arg seen[] = {
		rp_in(args[PARAM_LOGITS].u.tensor),
		rp_out(row),
		rp_inout(args[PARAM_ROOM].u.tensor),
		args[PARAM_POS],
	};

	return rp_run_callback(run, 0, seen, sizeof(seen) / sizeof(seen[0]));
}

/* The same task on every chip, on its own shard. */
static int send_decode(struct rp_run *run, const struct program_set *set,
		       const struct rp_arg *args, uint32_t entry)
{
	bool chips_choose = set->chooser == CHOOSER_CHIP;
	struct rp_arg task_args[TASK_COUNT_MAX];
	struct rp_task task = { .entry = entry, .args = task_args };
	struct rp_domain *domain;
	int err = rp_run_domain(run, &set->decode_domain, &domain);

	task.arg_count = chips_choose ? TASK_LOGITS : TASK_COUNT_MAX;
	task_args[TASK_TOKENS] = args[PARAM_TOKEN];
	for (task.chip = 0; task.chip < set->head.chips && !err; task.chip++) {
		const struct shard_layout *o = &set->layouts[task.chip];
		struct rp_tensor logits;

		err = fill_common(args, task.chip, domain, task_args);
		if (!err && !chips_choose) {
			err = rp_tensor_slice(&args[PARAM_LOGITS].u.tensor, 0,
					      o->vocab_from, o->vocab, 1, &logits);
			task_args[TASK_LOGITS] = rp_out(logits);
		}
		if (!err)
			err = rp_run_task(run, &task);
	}
	return err;
}

static int orchestrate_decode(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			      void *user)
{
	const struct program_set *set = user;
	int err = send_decode(run, set, args, set->chooser == CHOOSER_CHIP);

	(void)nargs;
	if (!err && set->chooser == CHOOSER_CALLBACK)
		err = run_callback(run, set, args);
	return err;
}

/* What a decode costs without its work. */
static int orchestrate_probe(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			     void *user)
{
	const uint64_t with = rp_run_get_config(run)->tag;
	const struct program_set *set = user;
	struct rp_arg task_arg;
	struct rp_task task = { .args = &task_arg };
	struct rp_domain *domain;
	int err = 0;

	(void)nargs;
	if (with == PROBE_ALL)
		return send_decode(run, set, args, 0);
	if (with == PROBE_WINDOWS) {
		err = rp_run_domain(run, &set->decode_domain, &domain);
		if (err)
			return err;
		task_arg = rp_arg_domain(domain);
		task.arg_count = 1;
	}
	for (int32_t chip = 0; chip < set->head.chips && !err; chip++) {
		task.chip = chip;
		err = rp_run_task(run, &task);
	}
	return err;
}

#define SCALAR(text, type)                                             \
	{                                                              \
		.name = (text), .kind = RP_ARG_SCALAR, .dtype = (type) \
	}
#define TENSOR(text, type, grant, dims)                                 \
	{                                                               \
		.name = (text), .kind = RP_ARG_TENSOR, .dtype = (type), \
		.access = (grant), .rank = (dims)                       \
	}

static const struct rp_param prefill_params[PARAM_PREFILL_COUNT] = {
	[PARAM_WEIGHTS] = TENSOR("weights", RP_FLOAT32, RP_IN, 2),
	[PARAM_STATE] = TENSOR("state", RP_FLOAT32, RP_INOUT, 2),
	[PARAM_POS] = SCALAR("pos", RP_INT32),
	[PARAM_REPORT] = TENSOR("report", RP_INT64, RP_OUT, 2),
	[PARAM_TOKENS] = TENSOR("tokens", RP_INT32, RP_IN, 1),
};

static const struct rp_param decode_params[PARAM_DECODE_COUNT_MAX] = {
	[PARAM_WEIGHTS] = TENSOR("weights", RP_FLOAT32, RP_IN, 2),
	[PARAM_STATE] = TENSOR("state", RP_FLOAT32, RP_INOUT, 2),
	[PARAM_POS] = SCALAR("pos", RP_INT32),
	[PARAM_REPORT] = TENSOR("report", RP_INT64, RP_OUT, 2),
	[PARAM_TOKEN] = SCALAR("token", RP_INT32),
	[PARAM_LOGITS] = TENSOR("logits", RP_FLOAT32, RP_OUT, 1),
	[PARAM_ROOM] = TENSOR("room", RP_FLOAT32, RP_INOUT, 1),
};

/* The first `count` of them with this set's shapes. */
static size_t fill_params(const struct program_set *set, const struct rp_param *from,
			  size_t count, struct rp_param *params)
{
	const struct shard_layout *o = &set->layouts[0];

	for (size_t i = 0; i < count; i++)
		params[i] = from[i];
	params[PARAM_WEIGHTS].shape[0] = set->head.chips;
	params[PARAM_WEIGHTS].shape[1] = (int64_t)o->weight_floats;
	params[PARAM_STATE].shape[0] = set->head.chips;
	params[PARAM_STATE].shape[1] = (int64_t)o->state_floats;
	params[PARAM_REPORT].shape[0] = set->head.chips + 1;
	params[PARAM_REPORT].shape[1] = 2;
	if (from == prefill_params)
		params[PARAM_TOKENS].shape[0] = RP_DIM_ANY;
	if (count > PARAM_LOGITS)
		params[PARAM_LOGITS].shape[0] = set->head.config.vocab_size;
	if (count > PARAM_ROOM)
		params[PARAM_ROOM].shape[0] = 2 * (int64_t)set->head.config.vocab_size;
	return count;
}

static void plan(struct program_set *set)
{
	for (int32_t chip = 0; chip < set->head.chips; chip++) {
		struct shard_head head = set->head;

		head.rank = chip;
		shard_layout_init(&set->layouts[chip], &head);
	}
	/* Always room for the longest: a retained domain has one size. */
	plan_domain(set, CHUNK_MAX, set->buffers[0], &set->prefill_domain);
	plan_domain(set, 1, set->buffers[1], &set->decode_domain);
	set->decode_count = set->chooser == CHOOSER_CHIP   ? PARAM_LOGITS
			    : set->chooser == CHOOSER_HOST ? PARAM_ROOM
							   : PARAM_DECODE_COUNT_MAX;
}

int program_set_create(struct program_set *set)
{
	static const struct rp_entry prefill[] = { { "prefill", entry_prefill } };
	static const struct rp_entry decode[] = { { "logits", entry_logits },
						  { "choose", entry_choose } };
	static const struct rp_entry nothing[] = { { "nothing", entry_nothing } };
	const struct rp_callback callback = { .name = "choose",
					      .fn = callback_choose,
					      .user = &set->head.sampler };
	struct rp_param params[PARAM_DECODE_COUNT_MAX];
	struct rp_program_desc desc;
	int err;

	set->prefill = set->decode = set->probe = NULL;
	plan(set);
	rp_program_desc_init(&desc);
	desc.chip_count = (uint32_t)set->head.chips;
	desc.user = set;
	desc.params = params;

	desc.name = "prefill";
	desc.param_count = fill_params(set, prefill_params, PARAM_PREFILL_COUNT, params);
	desc.entries = prefill;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate_prefill;
	err = rp_program_create(&desc, &set->prefill);

	desc.name = "decode";
	desc.param_count = fill_params(set, decode_params, set->decode_count, params);
	desc.entries = decode;
	desc.entry_count = 2;
	desc.callback_count = set->chooser == CHOOSER_CALLBACK;
	desc.callbacks = desc.callback_count ? &callback : NULL;
	desc.orchestrate = orchestrate_decode;
	if (!err)
		err = rp_program_create(&desc, &set->decode);

	desc.name = "probe";
	desc.entries = nothing;
	desc.entry_count = 1;
	desc.callbacks = NULL;
	desc.callback_count = 0;
	desc.orchestrate = orchestrate_probe;
	if (!err)
		err = rp_program_create(&desc, &set->probe);
	if (err)
		program_set_free(set);
	return decode_pass(err);
}

void program_set_free(struct program_set *set)
{
	rp_program_free(set->prefill);
	rp_program_free(set->decode);
	rp_program_free(set->probe);
	set->prefill = set->decode = set->probe = NULL;
}
