/* SPDX-License-Identifier: MIT */
/* A worker with a model on it: what is fed comes back as tokens. */
#ifndef DECODE_ENGINE_H
#define DECODE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/worker.h>

#include "checkpoint.h"
#include "program.h"
#include "sampler.h"

struct engine;

struct engine_options {
	uint32_t chips; /* 1 where 0 */
	bool persistent, reset;
	bool host_weights; /* passed with every dispatch instead of resident */
	bool one_shot;	   /* a worker for each dispatch: nothing is resident */
	enum chooser chooser;
	struct sampler sampler;
	enum rp_wait_policy wait, worker_wait;
	const int *chip_cpus; /* NULL, or where to pin the chips */
};

/* Of the decode dispatches so far. */
struct engine_costs {
	uint64_t dispatches;
	int64_t wall_ns; /* from a submit to its outcome, or to the next submit's */
	int64_t chip_ns; /* of that, the slowest chip's entry */
};

/* What a dispatch costs whose entries do nothing, in ns: medians of some hundred, one
 * after the other. Differences may be below 0, by noise. */
struct engine_probe {
	int64_t fixed_ns;    /* without windows and arguments */
	int64_t window_ns;   /* what those add: reset, or allocation and release */
	int64_t argument_ns; /* and these: checks and copies */
	/* Of one dispatch with all of it. */
	uint64_t bytes_in, bytes_out; /* copied for arguments */
	uint64_t window_bytes;	      /* zeroed */
};

/* checkpoint: outlives the engine. 0 or negative errno with a line. */
int engine_open(const struct checkpoint *checkpoint, const struct engine_options *options,
		struct engine **engine_out);

/* First error of a dispatch that was not taken, or of the close. NULL is ignored. */
int engine_close(struct engine *engine);

/* Feed tokens of which no successor is wanted, at positions from `pos` on. Blocks. */
int engine_prefill(struct engine *engine, const int32_t *tokens, int32_t count,
		   int32_t pos);

/*
 * Feed one token, or TOKEN_CHOSEN where chips choose, and take the successor of the
 * oldest that was fed. As many may be fed ahead as engine_depth() says: one, but two
 * where the chips choose and the worker is persistent, so that they never wait.
 */
unsigned int engine_depth(const struct engine *engine);
int engine_feed(struct engine *engine, int32_t token, int32_t pos);
int engine_take(struct engine *engine, int32_t *token_out);

/* After a token was taken where the host or a callback chooses: vocab_size logits. */
const float *engine_logits(const struct engine *engine);

void engine_costs(const struct engine *engine, struct engine_costs *costs_out);

/* Nothing may be in flight, and not one-shot. The logits are gone after it. */
int engine_probe(struct engine *engine, struct engine_probe *probe_out);

#endif
