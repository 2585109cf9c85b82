/* SPDX-License-Identifier: MIT */
/*
 * What the cases of `rpbench copy` have in common: host memory of each kind, workers to
 * copy to and from, and the words for one case. Cases of one kind of worker share it. A
 * worker that spins lives for a slice only: it would take the peer's CPU from others.
 */
#ifndef BENCH_COPY_BED_H
#define BENCH_COPY_BED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/tensor.h>
#include <ringplane/worker.h>

#include "case.h"

enum copy_way {
	COPY_H2D,
	COPY_D2H
};

enum copy_path {
	COPY_STAGED,	/* host memory that the chips can't see */
	COPY_INHERITED, /* shared with the chips before they were forked */
	COPY_FANOUT,	/* staged, the same bytes to every chip */
};

enum copy_pages {
	COPY_PAGES_USUAL, /* malloc()'s, and what pages = auto gives a worker */
	COPY_PAGES_4K,
	COPY_PAGES_HUGE,
};

struct copy_variant {
	size_t bytes;
	enum copy_way way;
	enum copy_path path;
	enum copy_pages pages;
	uint32_t chip_count; /* 2: a half to each, or with COPY_FANOUT all to both */
	bool rtt;	     /* a time, both sides spinning; else a rate */
};

/* Blocks of host memory, each as large as the largest case of its kind. They stay out
 * of forked processes, which would make the next write to every page a fault, unless
 * they are there to be shared. */
enum copy_block {
	COPY_HOST_USUAL,
	COPY_HOST_4K,
	COPY_HOST_HUGE,
	COPY_DEVICE_USUAL, /* on the pages that device memory has */
	COPY_DEVICE_4K,
	COPY_SHARED_USUAL,
	COPY_SHARED_4K,
	COPY_SHARED_HUGE,
	COPY_BLOCK_COUNT
};

/* 0, BENCH_SKIP with a text, or negative errno; each get needs a put. */
int copy_block_get(enum copy_block which, size_t bytes);
void copy_block_put(enum copy_block which);
/* Valid once every case has been set up. */
uint8_t *copy_block_at(enum copy_block which);
size_t copy_block_bytes(enum copy_block which);

/* Where the host's side of a case lies, and where memory like its device's. */
enum copy_block copy_host_block(const struct copy_variant *variant);
enum copy_block copy_device_block(const struct copy_variant *variant);

struct copy_bed {
	const struct copy_variant *variant;
	struct copy_worker *at;	  /* the worker, shared with other cases */
	uint8_t *host;		  /* the host's side */
	struct rp_tensor stacked; /* with two chips, unless COPY_FANOUT */
	bool has_stacked;
	uint64_t copy_count; /* since the worker began, as far as this case made them */
	/* Over all measured rounds, for the remark. */
	double caller_s, chips_s, gigabytes;
};

/* Add the case, and before it its limit unless the plan has that. What is given has to
 * outlive the plan. */
int copy_bed_plan(struct bench_plan *plan, const struct bench_options *options,
		  const struct copy_variant *variant, const char *name,
		  const char *limit);

/* .arg is the variant, .data the bed. */
int copy_bed_setup(struct bench_case *c);
int copy_bed_enter(struct bench_case *c);
void copy_bed_leave(struct bench_case *c);
void copy_bed_teardown(struct bench_case *c);

/* One copy of the case, waited for. */
int copy_bed_transfer(struct copy_bed *bed);

/* Put a word into the source at byte `at`, and take it from where it must have come
 * to; on every chip that it must have come to, else the word differs. */
int copy_bed_mark(struct copy_bed *bed, size_t at, uint64_t word);
int copy_bed_look(struct copy_bed *bed, size_t at, uint64_t *word_out);

/* CPU seconds so far of this process, and of the chips' processes. */
void copy_bed_cpu(const struct copy_bed *bed, double *caller_s_out, double *chips_s_out);

/* Bytes that went through staging since prepare, and that were named in place. */
int copy_bed_counted(const struct copy_bed *bed, uint64_t *staged_out,
		     uint64_t *named_out);

/* The rounds. */
int copy_rate_round(struct bench_case *c, struct bench_round *round);
int copy_rtt_round(struct bench_case *c, struct bench_round *round);

/* The limit of a rate: one memcpy() of the same bytes between the same kinds of pages.
 * .arg is the variant. */
int copy_memcpy_setup(struct bench_case *c);
int copy_memcpy_round(struct bench_case *c, struct bench_round *round);
void copy_memcpy_teardown(struct bench_case *c);

/* The limit of a time: what the variant must do at least, between two bare processes.
 * .arg is the variant. */
int copy_relay_setup(struct bench_case *c);
int copy_relay_round(struct bench_case *c, struct bench_round *round);
void copy_relay_teardown(struct bench_case *c);

#endif
