/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <stddef.h>

#include <ringplane/domain.h>
#include <ringplane/run.h>

#include "fail.h"

/* Of a domain: what `count` positions of this model need. */
static int get_domain(struct rp_run *run, const struct program_set *set, int32_t count,
		      struct rp_domain **out)
{
	const struct shard_head head = { set->config, set->chips, 0, set->parts };
	struct rp_domain_buffer buffers[WINDOW_BUFFER_COUNT];
	struct rp_domain_spec spec;
	struct shard_layout o;

	shard_layout_init(&o, &head);
	buffers[WINDOW_ARRIVED] = (struct rp_domain_buffer){
		.name = "arrived",
		.dtype = RP_INT32,
		.count = (uint64_t)(MEETING_COUNT * set->chips),
	};
	buffers[WINDOW_PARTS] = (struct rp_domain_buffer){
		.name = "parts",
		.dtype = RP_FLOAT32,
		.count = 2 * (uint64_t)o.own_parts * (uint64_t)count *
			 (uint64_t)o.dim_rows,
	};
	buffers[WINDOW_LOGITS] = (struct rp_domain_buffer){
		.name = "logits",
		.dtype = RP_FLOAT32,
		.count = (uint64_t)o.vocab_rows,
	};
	rp_domain_spec_init(&spec);
	spec.name = "sums";
	spec.buffers = buffers;
	spec.buffer_count = WINDOW_BUFFER_COUNT;
	/* No collective is called, so none needs room to stage. */
	spec.staging_bytes = 1;
	return rp_run_domain(run, &spec, out);
}

/* The same task on every chip, on its own shard. */
static int spread(struct rp_run *run, const struct program_set *set,
		  const struct rp_arg *args, uint32_t embedding, int32_t count,
		  uint32_t entry)
{
	struct rp_arg task_args[TASK_COUNT_MAX];
	struct rp_task task = { .entry = entry, .args = task_args };
	struct rp_domain *domain;
	int err = get_domain(run, set, count, &domain);

	for (int32_t chip = 0; chip < set->chips && !err; chip++) {
		struct shard_head head = { set->config, set->chips, chip, set->parts };
		struct rp_tensor weights, state, row, logits;
		int32_t from, rows;

		err = rp_tensor_index(&args[PARAM_WEIGHTS].u.tensor, chip, &weights);
		if (!err)
			err = rp_tensor_index(&args[PARAM_STATE].u.tensor, chip, &state);
		if (!err)
			err = rp_tensor_index(&args[PARAM_REPORT].u.tensor, chip, &row);
		if (err)
			break;
		task_args[TASK_WEIGHTS] = rp_in(weights);
		task_args[TASK_STATE] = rp_inout(state);
		task_args[TASK_TOKENS] = rp_in(args[PARAM_TOKENS].u.tensor);
		task_args[TASK_POS] = args[PARAM_POS];
		task_args[TASK_REPORT] = rp_out(row);
		task_args[TASK_EMBEDDING] =
			rp_in(args[embedding + (uint32_t)chip].u.tensor);
		task_args[TASK_DOMAIN] = rp_arg_domain(domain);
		task.arg_count = TASK_FIRST_OWN;
		if (entry == 0 && embedding == PARAM_DECODE_COUNT) {
			shard_vocab(&head, &from, &rows);
			err = rp_tensor_slice(&args[PARAM_LOGITS].u.tensor, 0, from, rows,
					      1, &logits);
			task_args[task.arg_count++] = rp_out(logits);
		} else if (entry == 1) {
			task_args[task.arg_count++] = args[PARAM_TEMPERATURE];
			task_args[task.arg_count++] = args[PARAM_TOP_P];
			task_args[task.arg_count++] = args[PARAM_SEED];
		}
		task.chip = chip;
		if (!err)
			err = rp_run_task(run, &task);
	}
	return err;
}

static int orchestrate_prefill(struct rp_run *run, const struct rp_arg *args,
			       size_t nargs, void *user)
{
	(void)nargs;
	/* Always room for the longest: a retained domain has one size. */
	return spread(run, user, args, PARAM_PREFILL_COUNT, CHUNK_MAX, 0);
}

static int orchestrate_decode(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			      void *user)
{
	const struct program_set *set = user;
	int32_t chooser = args[PARAM_CHOOSER].u.scalar.value.i32;
	struct rp_tensor row;
	int err = spread(run, set, args, PARAM_DECODE_COUNT, 1, chooser == CHOOSER_CHIP);

	(void)nargs;
	if (err || chooser != CHOOSER_CALLBACK)
		return err;
	err = rp_tensor_index(&args[PARAM_REPORT].u.tensor, set->chips, &row);
	if (!err) {
		/* It reads what all chips write, and so comes after them. */
		const struct rp_arg seen[] = {
			rp_in(args[PARAM_LOGITS].u.tensor),
			rp_out(row),
			rp_inout(args[PARAM_ROOM].u.tensor),
			args[PARAM_POS],
			args[PARAM_TEMPERATURE],
			args[PARAM_TOP_P],
			args[PARAM_SEED],
		};

		err = rp_run_callback(run, 0, seen, sizeof(seen) / sizeof(seen[0]));
	}
	return err;
}

/* What a decode costs without its arguments and its work; 0: and without its windows. */
static int orchestrate_probe(struct rp_run *run, const struct rp_arg *args, size_t nargs,
			     void *user)
{
	const struct program_set *set = user;
	struct rp_arg task_arg;
	struct rp_task task = { .args = &task_arg };
	struct rp_domain *domain;
	int err = 0;

	(void)nargs;
	if (args[0].u.scalar.value.i32) {
		err = get_domain(run, set, 1, &domain);
		if (err)
			return err;
		task_arg = rp_arg_domain(domain);
		task.arg_count = 1;
	}
	for (int32_t chip = 0; chip < set->chips && !err; chip++) {
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

static const struct rp_param common[PARAM_DECODE_COUNT] = {
	[PARAM_WEIGHTS] = TENSOR("weights", RP_FLOAT32, RP_IN, 2),
	[PARAM_STATE] = TENSOR("state", RP_FLOAT32, RP_INOUT, 2),
	[PARAM_TOKENS] = TENSOR("tokens", RP_INT32, RP_IN, 1),
	[PARAM_POS] = SCALAR("pos", RP_INT32),
	[PARAM_REPORT] = TENSOR("report", RP_INT64, RP_OUT, 2),
	[PARAM_LOGITS] = TENSOR("logits", RP_FLOAT32, RP_OUT, 1),
	[PARAM_ROOM] = TENSOR("room", RP_FLOAT32, RP_INOUT, 1),
	[PARAM_CHOOSER] = SCALAR("chooser", RP_INT32),
	[PARAM_TEMPERATURE] = SCALAR("temperature", RP_FLOAT32),
	[PARAM_TOP_P] = SCALAR("top_p", RP_FLOAT32),
	[PARAM_SEED] = SCALAR("seed", RP_UINT64),
};

static const char *const embedding_names[CHIPS_MAX] = {
	"embedding0", "embedding1", "embedding2", "embedding3",
	"embedding4", "embedding5", "embedding6", "embedding7",
};

/* The first `count` of the common ones with this set's shapes, then the embeddings. */
static size_t fill_params(const struct program_set *set, size_t count,
			  struct rp_param *params)
{
	const struct shard_head head = { set->config, set->chips, 0, set->parts };
	struct shard_layout o;

	shard_layout_init(&o, &head);
	for (size_t i = 0; i < count; i++)
		params[i] = common[i];
	params[PARAM_WEIGHTS].shape[0] = set->chips;
	params[PARAM_WEIGHTS].shape[1] = (int64_t)o.weight_floats;
	params[PARAM_STATE].shape[0] = set->chips;
	params[PARAM_STATE].shape[1] = (int64_t)o.state_floats;
	params[PARAM_TOKENS].shape[0] = RP_DIM_ANY;
	params[PARAM_REPORT].shape[0] = set->chips + 1;
	params[PARAM_REPORT].shape[1] = 2;
	if (count > PARAM_PREFILL_COUNT) {
		params[PARAM_TOKENS].shape[0] = 1;
		params[PARAM_LOGITS].shape[0] = set->config.vocab_size;
		params[PARAM_ROOM].shape[0] = 2 * (int64_t)set->config.vocab_size;
	}
	for (int32_t chip = 0; chip < set->chips; chip++)
		params[count++] = (struct rp_param){
			.name = embedding_names[chip],
			.kind = RP_ARG_TENSOR,
			.dtype = RP_FLOAT32,
			.access = RP_IN,
			.rank = 2,
			.shape = { set->config.vocab_size, set->config.dim },
		};
	return count;
}

int program_set_create(struct program_set *set)
{
	static const struct rp_entry prefill[] = { { "prefill", entry_prefill } };
	static const struct rp_entry decode[] = { { "logits", entry_logits },
						  { "choose", entry_choose } };
	static const struct rp_entry nothing[] = { { "nothing", entry_nothing } };
	static const struct rp_callback callback = { .name = "choose",
						     .fn = callback_choose };
	static const struct rp_param window = SCALAR("window", RP_INT32);
	struct rp_param params[PARAM_DECODE_COUNT + CHIPS_MAX];
	struct rp_program_desc desc;
	int err;

	set->prefill = set->decode = set->probe = NULL;
	rp_program_desc_init(&desc);
	desc.chip_count = (uint32_t)set->chips;
	desc.user = set;
	desc.params = params;

	desc.name = "prefill";
	desc.param_count = fill_params(set, PARAM_PREFILL_COUNT, params);
	desc.entries = prefill;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate_prefill;
	err = rp_program_create(&desc, &set->prefill);

	desc.name = "decode";
	desc.param_count = fill_params(set, PARAM_DECODE_COUNT, params);
	desc.entries = decode;
	desc.entry_count = 2;
	desc.callbacks = set->callback ? &callback : NULL;
	desc.callback_count = set->callback;
	desc.orchestrate = orchestrate_decode;
	if (!err)
		err = rp_program_create(&desc, &set->decode);

	desc.name = "probe";
	desc.params = &window;
	desc.param_count = 1;
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
