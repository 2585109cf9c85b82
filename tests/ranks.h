/* SPDX-License-Identifier: MIT */
/*
 * The ranks of one domain, all at the same work: as chips of a worker, or as threads of
 * this process over a domain that is made by hand, which sanitizers see whole.
 */
#ifndef RPI_TESTS_RANKS_H
#define RPI_TESTS_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "support.h"

#define RANKS_MAX 8

/* What a rank does; the same memory may not be expected in all: these are values. */
struct rank_job {
	int (*fn)(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job);
	uint64_t words[6];
};

struct ranks_options {
	uint32_t size;
	bool threads;
	bool persistent; /* windows keep what they hold, from run to run */
	/* rank to chip; of a worker with `chips` of them. NULL: all, in order. */
	const uint32_t *members;
	uint32_t chips;
	const struct rp_domain_buffer *buffers;
	uint32_t buffer_count;
	size_t staging_bytes;
	int64_t timeout_ns;
	enum rp_wait_policy wait;
	uint32_t compute_threads; /* of chips */
	uint32_t repeats;	  /* tasks of each rank in one run; 0 is 1 */
	bool singles; /* among them others, that dawdle on a chip and meet nobody */
};

struct ranks;

struct ranks *ranks_open(const struct ranks_options *options);
void ranks_close(struct ranks *ranks);

/* One run: every rank does it once, or the ranks whose bit is set. Its status, and the
 * line of whoever failed it as the last error. */
int ranks_run(struct ranks *ranks, const struct rank_job *job);
int ranks_run_some(struct ranks *ranks, const struct rank_job *job, uint64_t which);

/* In a job: end it with -EBADMSG and a line that says what is not so. */
#define RANK_MUST(chip, cond)                                                     \
	do {                                                                      \
		if (!(cond))                                                      \
			return rp_chip_fail(chip, -EBADMSG, "%s:%d: chip %u: %s", \
					    __FILE__, __LINE__, rp_chip_id(chip), \
					    #cond);                               \
	} while (0)

/* Pass an error on. */
#define RANK_TRY(call)                    \
	do {                              \
		int rank_err_ = (call);   \
		if (rank_err_)            \
			return rank_err_; \
	} while (0)

/* Dawdle, so that ranks come at different times: mostly not, sometimes long enough for
 * the others to sleep. */
void rank_dawdle(uint64_t *seed);

#endif
