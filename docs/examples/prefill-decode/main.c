/* SPDX-License-Identifier: MIT */
/*
 * Two programs on one worker share a KV cache that lives in device memory: "prefill"
 * writes the keys and values of a whole prompt, then "decode" adds those of one token
 * at a time and attends over all of them. Each chip has one head: its weights and its
 * part of the cache stay there from the first dispatch to the last.
 *
 * The attention is a toy, but is one. A serial computation checks every output, and the
 * cache as it is in the end.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <ringplane/ringplane.h>

#include "../example.h"

#define DIM    64  /* of a token, and of a head */
#define TOKENS 256 /* that the cache holds */
#define HEADS  16  /* at most: one chip each */

/* What one head has: matrices, and rows of the cache. */
struct head_weights {
	float query[DIM][DIM], key[DIM][DIM], value[DIM][DIM];
};

struct head_cache {
	float keys[TOKENS][DIM], values[TOKENS][DIM];
};

static void multiply(const float matrix[DIM][DIM], const float *in, float *out)
{
	for (int i = 0; i < DIM; i++) {
		out[i] = 0;
		for (int j = 0; j < DIM; j++)
			out[i] += matrix[i][j] * in[j];
	}
}

/* --- In a chip's process -------------------------------------------------------- */

static void remember(const struct head_weights *weights, struct head_cache *cache,
		     const float *token, int64_t at)
{
	multiply(weights->key, token, cache->keys[at]);
	multiply(weights->value, token, cache->values[at]);
}

static int prefill_head(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct rp_tensor *prompt = &args[0].u.tensor;
	const struct head_weights *weights = args[1].u.tensor.data;
	struct head_cache *cache = args[2].u.tensor.data;

	(void)nargs;
	if (prompt->shape[0] > TOKENS)
		return rp_chip_fail(chip, -ENOSPC, "%d tokens, the cache holds %d",
				    (int)prompt->shape[0], TOKENS);
	for (int64_t at = 0; at < prompt->shape[0]; at++)
		remember(weights, cache, (const float *)prompt->data + at * DIM, at);
	return 0;
}

/* Softmax over the scores as they come, so that one pass over the cache does. */
static int decode_head(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *token = args[0].u.tensor.data;
	const struct head_weights *weights = args[1].u.tensor.data;
	struct head_cache *cache = args[2].u.tensor.data;
	float *out = args[3].u.tensor.data; /* reads zero */
	const int32_t here = args[4].u.scalar.value.i32;
	float query[DIM], sum = 0, most = -INFINITY;

	(void)nargs;
	if (here < 0 || here >= TOKENS)
		return rp_chip_fail(chip, -ENOSPC, "token %d, the cache holds %d",
				    (int)here, TOKENS);
	remember(weights, cache, token, here);
	multiply(weights->query, token, query);
	for (int32_t at = 0; at <= here; at++) {
		float score = 0, shrink, weight;

		for (int i = 0; i < DIM; i++)
			score += query[i] * cache->keys[at][i];
		shrink = score > most ? expf(most - score) : 1;
		most = score > most ? score : most;
		weight = expf(score - most);
		sum = sum * shrink + weight;
		for (int i = 0; i < DIM; i++)
			out[i] = out[i] * shrink + weight * cache->values[at][i];
	}
	for (int i = 0; i < DIM; i++)
		out[i] /= sum;
	return 0;
}

/* --- In the caller --------------------------------------------------------------- */

/* Arguments of both programs; prefill has the first three. */
enum {
	TOKEN, /* or the prompt: the same for all heads */
	WEIGHTS,
	CACHE,
	OUT,
	POSITION,
	DECODE_ARGS,
	PREFILL_ARGS = OUT,
};

/* A task for each head: shards of the weights and the cache lie on its chip already. */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const bool decodes = nargs == DECODE_ARGS;
	int err = 0;

	(void)user;
	for (uint32_t head = 0; !err && head < rp_run_chip_count(run); head++) {
		struct rp_tensor weights, cache, out;

		err = rp_tensor_index(&args[WEIGHTS].u.tensor, head, &weights);
		if (!err)
			err = rp_tensor_index(&args[CACHE].u.tensor, head, &cache);
		if (!err && decodes)
			err = rp_tensor_index(&args[OUT].u.tensor, head, &out);
		if (err)
			break;
		struct rp_arg task_args[DECODE_ARGS] = { rp_in(args[TOKEN].u.tensor),
							 rp_in(weights),
							 rp_inout(cache) };
		struct rp_task task = { .entry = 0,
					.chip = (int32_t)head,
					.args = task_args,
					.arg_count = (uint32_t)nargs };

		if (decodes) {
			task_args[OUT] = rp_out(out);
			task_args[POSITION] = args[POSITION];
		}
		err = rp_run_task(run, &task);
	}
	return err;
}

/* Both programs have these, so that one worker can serve them with one cache. */
#define SHARED_PARAMS                                        \
	[WEIGHTS] = { .name = "weights",                     \
		      .kind = RP_ARG_TENSOR,                 \
		      .dtype = RP_FLOAT32,                   \
		      .access = RP_IN,                       \
		      .rank = 4,                             \
		      .shape = { RP_DIM_ANY, 3, DIM, DIM },  \
		      .dim_names = { "heads" } },            \
	[CACHE] = { .name = "cache",                         \
		    .kind = RP_ARG_TENSOR,                   \
		    .dtype = RP_FLOAT32,                     \
		    .access = RP_INOUT,                      \
		    .rank = 4,                               \
		    .shape = { RP_DIM_ANY, 2, TOKENS, DIM }, \
		    .dim_names = { "heads" } }

static const struct rp_param prefill_params[PREFILL_ARGS] = {
	[TOKEN] = { .name = "prompt",
		    .kind = RP_ARG_TENSOR,
		    .dtype = RP_FLOAT32,
		    .access = RP_IN,
		    .rank = 2,
		    .shape = { RP_DIM_ANY, DIM } },
	SHARED_PARAMS,
};

static const struct rp_param decode_params[DECODE_ARGS] = {
	[TOKEN] = { .name = "token",
		    .kind = RP_ARG_TENSOR,
		    .dtype = RP_FLOAT32,
		    .access = RP_IN,
		    .rank = 1,
		    .shape = { DIM } },
	SHARED_PARAMS,
	[OUT] = { .name = "out",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_OUT,
		  .rank = 2,
		  .shape = { RP_DIM_ANY, DIM },
		  .dim_names = { "heads" } },
	[POSITION] = { .name = "position", .kind = RP_ARG_SCALAR, .dtype = RP_INT32 },
};

static struct rp_program *build_program(const char *name, rp_entry_fn fn,
					const struct rp_param *params, size_t count)
{
	const struct rp_entry entry = { name, fn };
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = name;
	desc.params = params;
	desc.param_count = count;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate;
	must(rp_program_create(&desc, &program));
	return program;
}

/* --- The serial computation ------------------------------------------------------ */

/* What a head gives for the newest of `count` tokens: nothing is kept between calls,
 * and softmax is done as it is written in a book. */
static void attend(const struct head_weights *weights, const float (*tokens)[DIM],
		   int count, double *out)
{
	static double scores[TOKENS];
	float query[DIM], row[DIM];
	double most = -INFINITY, sum = 0;

	multiply(weights->query, tokens[count - 1], query);
	for (int at = 0; at < count; at++) {
		scores[at] = 0;
		multiply(weights->key, tokens[at], row);
		for (int i = 0; i < DIM; i++)
			scores[at] += (double)query[i] * (double)row[i];
		most = scores[at] > most ? scores[at] : most;
	}
	memset(out, 0, DIM * sizeof(*out));
	for (int at = 0; at < count; at++)
		sum += exp(scores[at] - most);
	for (int at = 0; at < count; at++) {
		multiply(weights->value, tokens[at], row);
		for (int i = 0; i < DIM; i++)
			out[i] += exp(scores[at] - most) / sum * (double)row[i];
	}
}

/* --- The program ------------------------------------------------------------------- */

static struct {
	struct head_weights weights[HEADS];
	struct head_cache cache[HEADS];
	float tokens[TOKENS][DIM]; /* prompt, and what was decoded */
} host;

static struct rp_tensor describe(void *data, uint32_t rank, const int64_t *shape)
{
	struct rp_tensor tensor;

	must(rp_tensor_host(&tensor, data, RP_FLOAT32, rank, shape));
	return tensor;
}

static float some_value(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (float)(state >> 8) / (float)(1 << 24) - 0.5f;
}

static void make_up(int heads, int prompt)
{
	float *weight = (float *)host.weights;

	for (size_t i = 0; i < (size_t)heads * sizeof(host.weights[0]) / sizeof(float);
	     i++)
		weight[i] = some_value();
	for (int at = 0; at < prompt; at++)
		for (int i = 0; i < DIM; i++)
			host.tokens[at][i] = some_value();
}

/* The next token is the mean of what the heads say. */
static void append_token(const float *out, int heads, int at)
{
	for (int i = 0; i < DIM; i++) {
		host.tokens[at][i] = 0;
		for (int head = 0; head < heads; head++)
			host.tokens[at][i] += out[head * DIM + i] / (float)heads;
	}
}

static double furthest(double worst, double got, double expected)
{
	double off = fabs(got - expected);

	/* A NaN counts. */
	return off <= worst ? worst : off;
}

static double check_step(const float *out, int heads, int count)
{
	double expected[DIM], worst = 0;

	for (int head = 0; head < heads; head++) {
		attend(&host.weights[head], (const float(*)[DIM])host.tokens, count,
		       expected);
		for (int i = 0; i < DIM; i++)
			worst = furthest(worst, (double)out[head * DIM + i], expected[i]);
	}
	return worst;
}

/* The cache as it was read back, row by row; what nobody wrote is zero still. */
static double check_cache(int heads, int count)
{
	double worst = 0;

	for (int head = 0; head < heads; head++)
		for (int at = 0; at < TOKENS; at++) {
			float keys[DIM] = { 0 }, values[DIM] = { 0 };
			const struct head_cache *cache = &host.cache[head];

			if (at < count) {
				multiply(host.weights[head].key, host.tokens[at], keys);
				multiply(host.weights[head].value, host.tokens[at],
					 values);
			}
			for (int i = 0; i < DIM; i++) {
				worst = furthest(worst, (double)cache->keys[at][i],
						 (double)keys[i]);
				worst = furthest(worst, (double)cache->values[at][i],
						 (double)values[i]);
			}
		}
	return worst;
}

/* Both programs with what they need; all of it is made once. */
struct session {
	struct rp_program *prefill, *decode;
	struct rp_worker *worker;
	float *prompt, *token, *out; /* what a dispatch brings and takes: shared memory */
	struct rp_tensor weights, cache; /* stay on the chips, a shard on each */
};

static float *shared_floats(int count)
{
	void *memory;

	must(rp_shared_alloc((size_t)count * sizeof(float), &memory));
	return memory;
}

static void open_session(struct session *session, int chips, int prompt)
{
	struct rp_program *programs[2];
	struct rp_worker_options options;
	struct rp_tensor shards;

	session->prefill =
		build_program("prefill", prefill_head, prefill_params, PREFILL_ARGS);
	session->decode =
		build_program("decode", decode_head, decode_params, DECODE_ARGS);
	session->prompt = shared_floats(prompt * DIM);
	session->token = shared_floats(DIM);
	session->out = shared_floats(chips * DIM);

	rp_worker_options_init(&options);
	options.chip_count = (uint32_t)chips;
	programs[0] = session->prefill;
	programs[1] = session->decode;
	must(rp_worker_prepare(programs, 2, &options, &session->worker));

	/* Uploaded from any memory; the cache begins with zeroes. */
	shards = describe(host.weights, 4, (int64_t[]){ chips, 3, DIM, DIM });
	must(rp_worker_alloc_stacked(session->worker, &shards, NULL, 0,
				     &session->weights));
	shards = describe(host.cache, 4, (int64_t[]){ chips, 2, TOKENS, DIM });
	must(rp_worker_alloc_stacked(session->worker, &shards, NULL, 0, &session->cache));
}

static void close_session(struct session *session)
{
	must(rp_worker_free_stacked(session->worker, &session->weights));
	must(rp_worker_free_stacked(session->worker, &session->cache));
	must(rp_worker_close(session->worker, RP_WAIT_FOREVER));
	rp_worker_free(session->worker);
	rp_program_free(session->prefill);
	rp_program_free(session->decode);
	must(rp_shared_free(session->prompt));
	must(rp_shared_free(session->token));
	must(rp_shared_free(session->out));
}

static void run_prefill(struct session *session, int prompt)
{
	const struct rp_arg args[PREFILL_ARGS] = {
		rp_arg_tensor(describe(session->prompt, 2, (int64_t[]){ prompt, DIM })),
		rp_arg_tensor(session->weights),
		rp_arg_tensor(session->cache),
	};

	memcpy(session->prompt, host.tokens, (size_t)prompt * sizeof(host.tokens[0]));
	must(rp_worker_run(session->worker, session->prefill, args, PREFILL_ARGS, NULL));
}

static void run_decode(struct session *session, int chips, int at)
{
	const struct rp_arg args[DECODE_ARGS] = {
		rp_arg_tensor(describe(session->token, 1, (int64_t[]){ DIM })),
		rp_arg_tensor(session->weights),
		rp_arg_tensor(session->cache),
		rp_arg_tensor(describe(session->out, 2, (int64_t[]){ chips, DIM })),
		rp_arg_i32(at),
	};

	memcpy(session->token, host.tokens[at], sizeof(host.tokens[at]));
	must(rp_worker_run(session->worker, session->decode, args, DECODE_ARGS, NULL));
}

int main(int argc, char **argv)
{
	int chips = 2, prompt = 32, steps = 64;
	const struct example_option asked[] = {
		{ "chips", "how many chips, each with one head", &chips, 1, HEADS },
		{ "prompt", "tokens of the prompt", &prompt, 1, TOKENS / 2 },
		{ "steps", "tokens to decode", &steps, 1, TOKENS / 2 },
		{ NULL, NULL, NULL, 0, 0 },
	};
	double worst = 0, cache_worst;
	struct session session;
	struct rp_tensor back;

	example_options(argc, argv, "prefill and decode share one KV cache", asked);
	make_up(chips, prompt);
	open_session(&session, chips, prompt);
	run_prefill(&session, prompt);

	/* The first step takes in the prompt's last token again, in its own place. */
	for (int at = prompt - 1; at < prompt - 1 + steps; at++) {
		run_decode(&session, chips, at);
		worst = furthest(worst, check_step(session.out, chips, at + 1), 0);
		append_token(session.out, chips, at + 1);
	}
	/* Resident memory comes back when it is asked for, and not before. */
	back = describe(host.cache, 4, (int64_t[]){ chips, 2, TOKENS, DIM });
	must(rp_worker_copy_stacked_from(session.worker, &session.cache, &back));
	cache_worst = check_cache(chips, prompt - 1 + steps);
	printf("%d heads, a prompt of %d tokens, %d decoded\n", chips, prompt, steps);
	printf("furthest from the serial computation: outputs %.1e, cache %.1e\n", worst,
	       cache_worst);
	close_session(&session);
	return worst < 1e-3 && cache_worst < 1e-5 ? 0 : 1;
}
