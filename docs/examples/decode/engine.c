/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/device.h>
#include <ringplane/handle.h>

#include "clock.h"
#include "fail.h"

#define DEPTH	   2
#define PROBE_RUNS 200
/* What a chip has by default, and what it needs beside the model in a larger one. */
#define DEVICE_BYTES ((size_t)1 << 30)
#define SPARE_BYTES  ((size_t)320 << 20)

struct engine {
	struct engine_options options;
	const struct checkpoint *checkpoint;
	struct program_set programs;
	struct shard_layout layout;
	struct rp_worker *worker;

	/* Shared with the processes. */
	int32_t *tokens;	 /* of a prefill */
	struct report_row *rows; /* DEPTH x (chips + 1) */
	float *logits, *weights, *state;
	struct candidate *room;

	/* Of decode; what prefill has as well is the same. */
	struct rp_arg args[PARAM_DECODE_COUNT_MAX];
	struct rp_arg reports[DEPTH];
	struct {
		struct rp_handle handle;
		int64_t begin_ns;
		int32_t pos;
	} flights[DEPTH];
	unsigned int fed, taken; /* dispatches; their difference is in flight */
	int64_t last_ns;
	struct engine_costs costs;
};

static int shared(size_t bytes, void *pointer_out)
{
	return decode_pass(rp_shared_alloc(bytes, (void **)pointer_out));
}

static int allocate(struct engine *e)
{
	size_t chips = (size_t)e->programs.head.chips;
	size_t vocab = (size_t)e->programs.head.config.vocab_size;
	int err = shared(sizeof(int32_t) * CHUNK_MAX, &e->tokens);

	if (!err)
		err = shared(sizeof(*e->rows) * DEPTH * (chips + 1), &e->rows);
	if (!err)
		err = shared(sizeof(float) * vocab, &e->logits);
	if (!err)
		err = shared(sizeof(*e->room) * vocab, &e->room);
	if (!err)
		err = shared(sizeof(float) * chips * e->layout.weight_floats,
			     &e->weights);
	if (!err && e->options.one_shot)
		err = shared(sizeof(float) * chips * e->layout.state_floats, &e->state);
	for (int32_t rank = 0; rank < e->programs.head.chips && !err; rank++) {
		float *weights = e->weights + (size_t)rank * e->layout.weight_floats;
		struct shard_head head = e->programs.head;

		head.rank = rank;
		err = shard_pack(e->checkpoint, &head, weights);
		if (!err && e->options.host_weights)
			shard_add_embedding(e->checkpoint, &head, weights);
	}
	return err;
}

static int prepare(struct engine *e)
{
	const struct engine_options *o = &e->options;
	struct rp_program *programs[] = { e->programs.prefill, e->programs.decode,
					  e->programs.probe };
	struct rp_worker_options options;
	size_t need = sizeof(float) * (e->layout.weight_floats + e->layout.state_floats +
				       (size_t)e->programs.head.config.vocab_size *
					       (size_t)e->programs.head.config.dim);

	rp_worker_options_init(&options);
	options.chip_count = o->chips;
	options.chip_cpus = o->chip_cpus;
	options.wait = o->wait;
	options.worker_wait = o->worker_wait;
	options.persistent = o->persistent;
	if (o->persistent)
		options.reset_windows = o->reset ? RP_WINDOWS_RESET
						 : RP_WINDOWS_RESET_OFF;
	options.inherited = &e->checkpoint->range;
	options.inherited_count = 1;
	if (need > DEVICE_BYTES / 2)
		options.device_memory_bytes = need + SPARE_BYTES;
	return decode_pass(rp_worker_prepare(programs, 3, &options, &e->worker));
}

/* Of a worker that is there for one dispatch. */
static int end_worker(struct engine *e)
{
	int err = decode_pass(rp_worker_close(e->worker, RP_WAIT_FOREVER));

	rp_worker_free(e->worker);
	e->worker = NULL;
	return err;
}

static int set_tensor(struct rp_arg *arg, void *data, enum rp_dtype dtype, uint32_t rank,
		      int64_t dim0, int64_t dim1)
{
	const int64_t shape[] = { dim0, dim1 };
	struct rp_tensor tensor;
	int err = decode_pass(rp_tensor_host(&tensor, data, dtype, rank, shape));

	if (!err)
		*arg = rp_arg_tensor(tensor);
	return err;
}

/* Replace a host tensor by its resident, sharded copy. */
static int make_resident(struct engine *e, struct rp_arg *arg)
{
	struct rp_tensor host = arg->u.tensor;

	return decode_pass(rp_worker_alloc_stacked(e->worker, &host, NULL,
						   e->options.chips, &arg->u.tensor));
}

static int make_state(struct engine *e)
{
	int64_t chips = e->programs.head.chips, floats = (int64_t)e->layout.state_floats;
	/* An empty cache; it is copied once, from memory that need not be shared. */
	float *zeroes;
	int err;

	if (e->state)
		return set_tensor(&e->args[PARAM_STATE], e->state, RP_FLOAT32, 2, chips,
				  floats);
	zeroes = calloc((size_t)(chips * floats), sizeof(float));
	if (!zeroes)
		return decode_fail(-ENOMEM, "no memory for a cache of %zu floats",
				   (size_t)(chips * floats));
	err = set_tensor(&e->args[PARAM_STATE], zeroes, RP_FLOAT32, 2, chips, floats);
	if (!err)
		err = make_resident(e, &e->args[PARAM_STATE]);
	free(zeroes);
	return err;
}

/* Into each chip's weights, from where the file is mapped: nothing is staged. */
static int upload_embedding(struct engine *e)
{
	size_t bytes = sizeof(float) * (size_t)e->programs.head.config.vocab_size *
		       (size_t)e->programs.head.config.dim;
	int err = 0;

	for (int64_t rank = 0; rank < e->programs.head.chips && !err; rank++) {
		struct rp_tensor shard;
		uint64_t address;
		uint32_t chip;

		err = rp_tensor_index(&e->args[PARAM_WEIGHTS].u.tensor, rank, &shard);
		if (!err)
			err = rp_worker_tensor_address(e->worker, &shard, &chip,
						       &address);
		if (!err)
			err = rp_worker_copy_to(e->worker, chip, address,
						sizeof(float) * e->layout.embedding,
						e->checkpoint->embedding, 0, bytes);
	}
	return decode_pass(err);
}

static int make_arguments(struct engine *e)
{
	const struct engine_options *o = &e->options;
	size_t rows = (size_t)e->programs.head.chips + 1;
	int64_t vocab = e->programs.head.config.vocab_size;
	int err = set_tensor(&e->args[PARAM_WEIGHTS], e->weights, RP_FLOAT32, 2,
			     e->programs.head.chips, (int64_t)e->layout.weight_floats);

	if (!err && !o->host_weights)
		err = make_resident(e, &e->args[PARAM_WEIGHTS]);
	if (!err && !o->host_weights) {
		rp_shared_free(e->weights);
		e->weights = NULL;
		err = upload_embedding(e);
	}
	if (!err)
		err = make_state(e);
	for (size_t slot = 0; slot < DEPTH && !err; slot++)
		err = set_tensor(&e->reports[slot], e->rows + slot * rows, RP_INT64, 2,
				 (int64_t)rows, 2);
	if (!err && o->chooser != CHOOSER_CHIP)
		err = set_tensor(&e->args[PARAM_LOGITS], e->logits, RP_FLOAT32, 1, vocab,
				 0);
	if (!err && o->chooser == CHOOSER_CALLBACK)
		err = set_tensor(&e->args[PARAM_ROOM], e->room, RP_FLOAT32, 1, 2 * vocab,
				 0);
	return err;
}

int engine_open(const struct checkpoint *checkpoint, const struct engine_options *options,
		struct engine **out)
{
	struct shard_head head = { .config = checkpoint->config,
				   .sampler = options->sampler };
	uint32_t chips = options->chips ? options->chips : 1;
	struct engine *e;
	int err = shard_check(&checkpoint->config, chips);

	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e)
		return decode_fail(-ENOMEM, "no memory for an engine");
	e->options = *options;
	e->options.chips = chips;
	e->options.host_weights |= options->one_shot;
	e->checkpoint = checkpoint;
	head.chips = (int32_t)chips;
	head.parts = shard_parts(&checkpoint->config);
	shard_layout_init(&e->layout, &head);
	e->programs = (struct program_set){ .head = head, .chooser = options->chooser };
	err = allocate(e);
	if (!err)
		err = program_set_create(&e->programs);
	if (!err && !options->one_shot)
		err = prepare(e);
	if (!err)
		err = make_arguments(e);
	if (err) {
		engine_close(e);
		return err;
	}
	*out = e;
	return 0;
}

int engine_close(struct engine *e)
{
	void *blocks[6];
	int err = 0;

	if (!e)
		return 0;
	if (e->worker)
		err = rp_worker_close(e->worker, RP_WAIT_FOREVER);
	/* While its line is there; what follows can't fail. */
	if (err)
		decode_pass(err);
	rp_worker_free(e->worker);
	program_set_free(&e->programs);
	memcpy(blocks,
	       (void *[]){ e->tokens, e->rows, e->logits, e->room, e->weights, e->state },
	       sizeof(blocks));
	for (int i = 0; i < 6; i++)
		rp_shared_free(blocks[i]);
	free(e);
	return err;
}

unsigned int engine_depth(const struct engine *e)
{
	const struct engine_options *o = &e->options;

	return o->persistent && !o->one_shot && o->chooser == CHOOSER_CHIP ? DEPTH : 1;
}

static int prefill(struct engine *e, const int32_t *tokens, int32_t count, int32_t pos)
{
	struct rp_arg args[PARAM_PREFILL_COUNT];
	int err;

	memcpy(args, e->args, PARAM_PREFILL_COUNT * sizeof(*args));
	memcpy(e->tokens, tokens, (size_t)count * sizeof(*tokens));
	args[PARAM_POS] = rp_arg_i32(pos);
	args[PARAM_REPORT] = e->reports[0];
	err = set_tensor(&args[PARAM_TOKENS], e->tokens, RP_INT32, 1, count, 0);
	if (!err && e->options.one_shot)
		err = prepare(e);
	if (!err)
		err = decode_pass(rp_worker_run(e->worker, e->programs.prefill, args,
						PARAM_PREFILL_COUNT, NULL));
	if (!err && e->options.one_shot)
		err = end_worker(e);
	return err;
}

int engine_prefill(struct engine *e, const int32_t *tokens, int32_t count, int32_t pos)
{
	int err = 0;

	for (int32_t fed = 0, chunk; fed < count && !err; fed += chunk) {
		chunk = count - fed < CHUNK_MAX ? count - fed : CHUNK_MAX;
		err = prefill(e, tokens + fed, chunk, pos + fed);
	}
	return err;
}

int engine_feed(struct engine *e, int32_t token, int32_t pos)
{
	unsigned int slot = e->fed % DEPTH;
	int err = 0;

	if (e->fed - e->taken >= engine_depth(e))
		return decode_fail(-EINVAL, "%u tokens are in flight, expected fewer",
				   e->fed - e->taken);
	e->flights[slot].begin_ns = now_ns();
	e->flights[slot].pos = pos;
	e->args[PARAM_POS] = rp_arg_i32(pos);
	e->args[PARAM_TOKEN] = rp_arg_i32(token);
	e->args[PARAM_REPORT] = e->reports[slot];
	if (e->options.one_shot)
		err = prepare(e);
	/* The submit copies the arguments. */
	if (!err)
		err = decode_pass(rp_worker_submit(e->worker, e->programs.decode, e->args,
						   e->programs.decode_count, NULL,
						   &e->flights[slot].handle));
	if (!err)
		e->fed++;
	return err;
}

static void account(struct engine *e, unsigned int slot, const struct report_row *rows)
{
	int64_t now = now_ns(), begin = e->flights[slot].begin_ns, chip_ns = 0;

	for (uint32_t chip = 0; chip < e->options.chips; chip++)
		if (rows[chip].ns > chip_ns)
			chip_ns = rows[chip].ns;
	/* One that was fed ahead counts from when its turn came. */
	e->costs.wall_ns += now - (begin > e->last_ns ? begin : e->last_ns);
	e->costs.chip_ns += chip_ns;
	e->costs.dispatches++;
	e->last_ns = now;
}

int engine_take(struct engine *e, int32_t *token_out)
{
	unsigned int slot = e->taken % DEPTH;
	const struct report_row *rows =
		e->rows + slot * ((size_t)e->programs.head.chips + 1);
	int err;

	if (e->fed == e->taken)
		return decode_fail(-EINVAL, "no token is in flight");
	err = decode_pass(rp_handle_wait(e->flights[slot].handle, RP_WAIT_FOREVER));
	rp_handle_release(e->flights[slot].handle);
	e->taken++;
	if (!err && e->options.one_shot)
		err = end_worker(e);
	if (err)
		return err;
	account(e, slot, rows);
	switch (e->options.chooser) {
	case CHOOSER_HOST:
		*token_out = sampler_choose(&e->options.sampler, e->logits,
					    e->programs.head.config.vocab_size,
					    e->flights[slot].pos, e->room);
		break;
	case CHOOSER_CALLBACK:
		*token_out = (int32_t)rows[e->programs.head.chips].token;
		break;
	case CHOOSER_CHIP:
		*token_out = (int32_t)rows[0].token;
		break;
	}
	return 0;
}

const float *engine_logits(const struct engine *e)
{
	return e->logits;
}

void engine_costs(const struct engine *e, struct engine_costs *out)
{
	*out = e->costs;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int probe(struct engine *e, enum probe_with with, int64_t *median_out)
{
	struct rp_run_config config;
	int64_t ns[PROBE_RUNS];
	int err = 0;

	rp_run_config_init(&config);
	config.tag = with;
	for (int i = 0; i < PROBE_RUNS && !err; i++) {
		ns[i] = now_ns();
		err = decode_pass(rp_worker_run(e->worker, e->programs.probe, e->args,
						e->programs.decode_count, &config));
		ns[i] = now_ns() - ns[i];
	}
	if (err)
		return err;
	qsort(ns, PROBE_RUNS, sizeof(ns[0]), ascending);
	*median_out = ns[PROBE_RUNS / 2];
	return 0;
}

int engine_probe(struct engine *e, struct engine_probe *out)
{
	struct rp_worker_stats before = { .size = sizeof(before) }, after = before;
	int64_t ns[PROBE_COUNT];
	int err = 0;

	/* `before` stays that of the last one, which has all. */
	for (int with = PROBE_EMPTY; with < PROBE_COUNT && !err; with++) {
		err = decode_pass(rp_worker_get_stats(e->worker, &before));
		if (!err)
			err = probe(e, (enum probe_with)with, &ns[with]);
	}
	if (!err)
		err = decode_pass(rp_worker_get_stats(e->worker, &after));
	if (err)
		return err;
	out->fixed_ns = ns[PROBE_EMPTY];
	out->window_ns = ns[PROBE_WINDOWS] - ns[PROBE_EMPTY];
	out->argument_ns = ns[PROBE_ALL] - ns[PROBE_WINDOWS];
	out->bytes_in = (after.bytes_to_device - before.bytes_to_device) / PROBE_RUNS;
	out->bytes_out =
		(after.bytes_from_device - before.bytes_from_device) / PROBE_RUNS;
	out->window_bytes =
		(after.window_bytes_reset - before.window_bytes_reset) / PROBE_RUNS;
	return 0;
}
