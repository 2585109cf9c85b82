/* SPDX-License-Identifier: MIT */
/*
 * A decode loop on a persistent worker: each step is a dispatch that turns a token into
 * the next one. Each chip has a part of a toy model's hidden layer and works out its
 * part of the scores; the chips exchange these through the windows of a domain and all
 * see the same sum. The domain is allocated by the first step and leased by the others.
 *
 * What is in a window when a step begins?
 *
 *   by default   zeroes: each chip resets its window before the step's task
 *   --eager      zeroes: reset right after the step before, beside what the host does
 *   --keep       what the step before left. Signals then count on: every step adds one
 *                to each, so the domain's generation, one more for each step, says what
 *                a cell reads once this step's data is there. It is the step's epoch.
 */
#include <time.h>

#include <ringplane/ringplane.h>

#include "../example.h"

#define VOCAB  64
#define HIDDEN 32 /* units of each chip */

/* Buffers of the domain, in the order in which it lists them. */
enum {
	SCORES, /* a row from each rank */
	SIGNAL, /* cell r: the row of rank r is there */
};

/* Set before prepare, so that chips inherit it. */
static int eager, keep;

/* --- The model: whole numbers, so that sums are exact in any order ------------ */

/* One chip's part of a step: its units take in the token, then give scores. */
static void advance(const float *weights, float *state, int token, float *scores)
{
	for (int v = 0; v < VOCAB; v++)
		scores[v] = 0;
	for (int h = 0; h < HIDDEN; h++) {
		state[h] = (float)(((int)state[h] * 31 + (token + 1) * (h + 7)) % 127);
		for (int v = 0; v < VOCAB; v++)
			scores[v] += state[h] * weights[h * VOCAB + v];
	}
}

static int best(const float *scores)
{
	int found = 0;

	for (int v = 1; v < VOCAB; v++)
		if (scores[v] > scores[found])
			found = v;
	return found;
}

/* --- In a chip's process -------------------------------------------------------- */

/* Send this rank's row to all, and wait for theirs. */
static int exchange(struct rp_comm *comm, const float *row)
{
	const uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	/* RP_EQ, because both sides of the comparison may wrap, after 2^31 steps. */
	const int32_t epoch = keep ? (int32_t)rp_comm_generation(comm) : 1;
	int err = 0;

	/* Nobody reads the last step's rows any more: runs of a persistent worker are
	 * worked off one after the other, on all chips. */
	for (uint32_t peer = 0; !err && peer < size; peer++) {
		err = rp_comm_store(comm, peer, SCORES, rank * VOCAB, VOCAB, row);
		if (!err)
			err = rp_comm_notify(comm, SIGNAL, peer, rank, 1, RP_NOTIFY_ADD);
	}
	for (uint32_t peer = 0; !err && peer < size; peer++)
		err = rp_comm_wait(comm, SIGNAL, peer, RP_EQ, epoch, 0);
	return err;
}

static int decode_step(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_comm *comm = args[0].u.comm;
	const int32_t *token = args[1].u.tensor.data;
	const float *weights = args[2].u.tensor.data;
	float *state = args[3].u.tensor.data;
	float scores[VOCAB];
	struct rp_tensor rows;
	int err;

	(void)chip;
	advance(weights, state, *token, scores);
	err = exchange(comm, scores);
	if (!err)
		err = rp_comm_tensor(comm, rp_comm_rank(comm), SCORES, &rows);
	/* All ranks could tell the next token; one of them was given a place for it. */
	if (err || nargs < 5)
		return err;
	for (uint32_t peer = 0; peer < rp_comm_size(comm); peer++)
		for (int v = 0; v < VOCAB; v++)
			scores[v] =
				(peer ? scores[v] : 0) +
				((const float *)rows.data)[peer * VOCAB + (uint32_t)v];
	*(int32_t *)args[4].u.tensor.data = best(scores);
	return 0;
}

/* --- In the caller --------------------------------------------------------------- */

/* Arguments of a call, in the order of `params`. */
enum {
	TOKEN,
	WEIGHTS,
	STATE,
	NEXT,
	ARGS,
};

/*
 * All chips read the token and chip 0 writes the next one: into another tensor. If it
 * were the same one, the others' tasks, reading what chip 0's writes, would start when
 * that has ended; and that one waits for them.
 */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const uint32_t chips = rp_run_chip_count(run);
	const struct rp_domain_buffer buffers[] = {
		[SCORES] = { "scores", RP_FLOAT32, RP_BUFFER_DEFAULT, chips * VOCAB },
		[SIGNAL] = { "signal", RP_INT32, RP_BUFFER_DEFAULT, chips },
	};
	struct rp_domain_spec spec;
	struct rp_domain *domain;
	int err;

	(void)nargs, (void)user;
	rp_domain_spec_init(&spec);
	spec.name = "scores";
	spec.buffers = buffers;
	spec.buffer_count = 2;
	err = rp_run_domain(run, &spec, &domain);
	for (uint32_t rank = 0; !err && rank < chips; rank++) {
		struct rp_tensor weights, state;

		err = rp_tensor_index(&args[WEIGHTS].u.tensor, rank, &weights);
		if (!err)
			err = rp_tensor_index(&args[STATE].u.tensor, rank, &state);
		if (err)
			break;
		struct rp_arg task_args[] = { rp_arg_domain(domain),
					      rp_in(args[TOKEN].u.tensor), rp_in(weights),
					      rp_inout(state),
					      rp_out(args[NEXT].u.tensor) };
		struct rp_task task = { .entry = 0,
					.chip = (int32_t)rank,
					.args = task_args,
					.arg_count = rank ? 4 : 5 };
		err = rp_run_task(run, &task);
	}
	return err;
}

static struct rp_program *build_program(void)
{
	static const struct rp_entry entry = { "decode_step", decode_step };
	static const struct rp_param params[ARGS] = {
		[TOKEN] = { .name = "token",
			    .kind = RP_ARG_TENSOR,
			    .dtype = RP_INT32,
			    .access = RP_IN,
			    .rank = 1,
			    .shape = { 1 } },
		[WEIGHTS] = { .name = "weights",
			      .kind = RP_ARG_TENSOR,
			      .dtype = RP_FLOAT32,
			      .access = RP_IN,
			      .rank = 3,
			      .shape = { RP_DIM_ANY, HIDDEN, VOCAB },
			      .dim_names = { "chips" } },
		[STATE] = { .name = "state",
			    .kind = RP_ARG_TENSOR,
			    .dtype = RP_FLOAT32,
			    .access = RP_INOUT,
			    .rank = 2,
			    .shape = { RP_DIM_ANY, HIDDEN },
			    .dim_names = { "chips" } },
		[NEXT] = { .name = "next",
			   .kind = RP_ARG_TENSOR,
			   .dtype = RP_INT32,
			   .access = RP_OUT,
			   .rank = 1,
			   .shape = { 1 } },
	};
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = "decode";
	desc.params = params;
	desc.param_count = ARGS;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate;
	must(rp_program_create(&desc, &program));
	return program;
}

/* A host tensor in memory that the chips share. */
static void shared_token(struct rp_arg *arg)
{
	struct rp_tensor tensor;
	void *memory;

	must(rp_shared_alloc(sizeof(int32_t), &memory));
	must(rp_tensor_host(&tensor, memory, RP_INT32, 1, (int64_t[]){ 1 }));
	*arg = rp_arg_tensor(tensor);
}

/* A shard for each chip, uploaded once. `host` may be any memory. */
static void upload(struct rp_worker *worker, float *host, uint32_t rank,
		   const int64_t *shape, struct rp_arg *arg)
{
	struct rp_tensor from, resident;

	must(rp_tensor_host(&from, host, RP_FLOAT32, rank, shape));
	must(rp_worker_alloc_stacked(worker, &from, NULL, 0, &resident));
	*arg = rp_arg_tensor(resident);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Tokens, one after the other; each step's answer is the next one's input. */
static void decode(struct rp_worker *worker, const struct rp_arg *args, int *tokens,
		   int steps)
{
	int32_t *token = args[TOKEN].u.tensor.data;
	const int32_t *next = args[NEXT].u.tensor.data;
	double begin = now_us();

	for (int step = 0; step < steps; step++) {
		must(rp_worker_run(worker, NULL, args, ARGS, NULL));
		tokens[step] = *token = *next;
	}
	printf("%d tokens, %.1f us each\n", steps, (now_us() - begin) / steps);
}

/* What the host keeps: the shards to upload, and to check against. */
struct model {
	float *weights, *state;
	int *tokens;
};

static void *must_calloc(int count, size_t bytes)
{
	void *memory = calloc((size_t)count, bytes);

	if (memory)
		return memory;
	fprintf(stderr, "decode-loop: no memory\n");
	exit(1);
}

static struct model make_model(int chips, int steps)
{
	struct model model = { must_calloc(chips * HIDDEN * VOCAB, sizeof(float)),
			       must_calloc(chips * HIDDEN, sizeof(float)),
			       must_calloc(steps, sizeof(int)) };

	for (int i = 0; i < chips * HIDDEN * VOCAB; i++)
		model.weights[i] = (float)(i % 977 * (i % 977) % 23 - 11);
	return model;
}

static struct rp_worker *prepare(struct rp_program *program, int chips)
{
	struct rp_worker_options options;
	struct rp_worker *worker;

	rp_worker_options_init(&options);
	options.chip_count = (uint32_t)chips;
	options.persistent = true;
	options.reset_windows = keep	? RP_WINDOWS_RESET_OFF
				: eager ? RP_WINDOWS_RESET_EAGER
					: RP_WINDOWS_RESET;
	must(rp_worker_prepare(&program, 1, &options, &worker));
	return worker;
}

/* The same loop with one thread and no chips: how many tokens differ. */
static int count_wrong(const struct model *model, int steps, int chips)
{
	int token = 0, wrong = 0;

	for (int step = 0; step < steps; step++) {
		float sum[VOCAB] = { 0 }, scores[VOCAB];

		for (int chip = 0; chip < chips; chip++) {
			advance(model->weights + chip * HIDDEN * VOCAB,
				model->state + chip * HIDDEN, token, scores);
			for (int v = 0; v < VOCAB; v++)
				sum[v] += scores[v];
		}
		token = best(sum);
		wrong += token != model->tokens[step];
	}
	return wrong;
}

int main(int argc, char **argv)
{
	int chips = 2, steps = 1000, wrong;
	const struct example_option asked[] = {
		{ "chips", "how many chips share the model", &chips, 1, 16 },
		{ "steps", "how many tokens", &steps, 1, 1000000 },
		{ "eager", "zero the windows right after each step", &eager, 0, 0 },
		{ "keep", "never zero them: signals go by epochs", &keep, 0, 0 },
		{ NULL, NULL, NULL, 0, 0 },
	};
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_arg args[ARGS];
	struct rp_program *program;
	struct rp_worker *worker;
	struct model model;

	example_options(argc, argv, "a decode loop on a persistent worker", asked);
	if (eager && keep) {
		fprintf(stderr, "decode-loop: --eager and --keep exclude each other\n");
		return 2;
	}
	model = make_model(chips, steps);
	program = build_program();
	shared_token(&args[TOKEN]);
	shared_token(&args[NEXT]);
	worker = prepare(program, chips);
	upload(worker, model.weights, 3, (int64_t[]){ chips, HIDDEN, VOCAB },
	       &args[WEIGHTS]);
	upload(worker, model.state, 2, (int64_t[]){ chips, HIDDEN }, &args[STATE]);

	decode(worker, args, model.tokens, steps);
	must(rp_worker_get_stats(worker, &stats));
	printf("the domain: allocated %d time, leased %d times, windows reset %d times\n",
	       (int)stats.domains_allocated, (int)stats.domains_leased,
	       (int)stats.window_resets);
	wrong = count_wrong(&model, steps, chips);
	printf("%d tokens differ from those of a serial loop\n", wrong);

	/* The retained domain and the resident tensors go with the worker. */
	must(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(program);
	must(rp_shared_free(args[TOKEN].u.tensor.data));
	must(rp_shared_free(args[NEXT].u.tensor.data));
	free(model.weights);
	free(model.state);
	free(model.tokens);
	return wrong ? 1 : 0;
}
