/* SPDX-License-Identifier: MIT */
/*
 * The programs that a worker runs: prefill feeds a prompt, decode feeds one token and has
 * its successor chosen, probe does nothing and shows what that costs. All share one
 * resident cache. Their parameters, in this order:
 */
#ifndef DECODE_PROGRAM_H
#define DECODE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/domain.h>
#include <ringplane/program.h>

#include "shard.h"

#define CHIPS_MAX PARTS_MAX

enum program_param {
	PARAM_WEIGHTS, /* chips x weight_floats */
	PARAM_STATE,   /* chips x state_floats: the cache, and room for activations */
	PARAM_POS,
	PARAM_REPORT, /* chips + 1 rows of struct report_row */
	PARAM_OWN,

	/* Of prefill: */
	PARAM_TOKENS = PARAM_OWN,
	PARAM_PREFILL_COUNT,

	/* Of decode: */
	PARAM_TOKEN = PARAM_OWN,
	PARAM_LOGITS, /* unless chips choose */
	PARAM_ROOM,   /* for a callback to sort in */
	PARAM_DECODE_COUNT_MAX,
};

/* Who chooses the next token. */
enum chooser {
	CHOOSER_HOST,
	CHOOSER_CALLBACK, /* a process of its own, ordered behind all chips */
	CHOOSER_CHIP,	  /* every chip, each the same: nothing has to come back first */
};

/* In place of a token: the one that the chips chose last. */
#define TOKEN_CHOSEN (-1)

/* What a chip tells of a run; the last row is the callback's. */
struct report_row {
	int64_t token; /* that it chose */
	int64_t ns;    /* that its entry took */
};

/* What probe's tasks have of decode's, as the tag of the run says. */
enum probe_with {
	PROBE_EMPTY,
	PROBE_WINDOWS,
	PROBE_ALL, /* windows and arguments */
	PROBE_COUNT,
};

/* Buffers of the domain, by their index. */
enum window_buffer {
	WINDOW_ARRIVED, /* int32: a cell for each kind of meeting and rank */
	WINDOW_PARTS,	/* two turns of parts */
	WINDOW_LOGITS,
	WINDOW_BUFFER_COUNT,
};

/* Meetings of one kind reuse a cell; between two of them lies one of another kind. */
enum meeting {
	MEETING_EVEN,
	MEETING_ODD,
	MEETING_LOGITS,
	MEETING_COUNT,
};

struct program_set {
	struct shard_head head; /* chip 0's */
	enum chooser chooser;
	struct rp_program *prefill, *decode, *probe;
	uint32_t decode_count; /* its parameters, and probe's */

	/* Made once, because each dispatch needs them. */
	struct shard_layout layouts[CHIPS_MAX];
	struct rp_domain_buffer buffers[2][WINDOW_BUFFER_COUNT];
	struct rp_domain_spec prefill_domain, decode_domain;
};

/* Build all three for the head and the chooser that are filled in; `set` stays where it
 * is as long as they live. */
int program_set_create(struct program_set *set);
void program_set_free(struct program_set *set);

/* Names of programs' entries, and the functions; see entry.c. */
int entry_prefill(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);
int entry_logits(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);
int entry_choose(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);
int entry_nothing(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);
int callback_choose(struct rp_callback_context *context, const struct rp_arg *args,
		    size_t nargs, void *user);

/* Arguments of tasks. */
enum task_arg {
	TASK_WEIGHTS,
	TASK_STATE,
	TASK_POS,
	TASK_REPORT,
	TASK_DOMAIN,
	TASK_TOKENS, /* of prefill a tensor, of decode a scalar */
	TASK_LOGITS, /* of entry_logits */
	TASK_COUNT_MAX,
};

#endif
