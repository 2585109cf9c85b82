/* SPDX-License-Identifier: MIT */
/*
 * comm_stress [--seconds S] [--seed N] [--runs N] [--ranks N] [--threads]
 *
 * Ranks work off random sequences of collectives, each judged against a serial model by
 * every rank, with signals and dawdling between them. How many ranks there are, whether
 * they are threads or chips (--threads: threads only), the staging, the waiting and
 * whether windows are retained change with the seed. It repeats with the next seed until
 * the seconds are over, at least once.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../collective.h"
#include "stress.h"

#define WORK_BYTES ((size_t)256 << 10)
#define CALLS	   40

static struct {
	int runs;
	int ranks;
	int threads;
} asked = { .runs = 6 };

static const struct rp_domain_buffer buffers[] = {
	{ "work", RP_UINT8, RP_BUFFER_DEFAULT, WORK_BYTES },
	{ "signals", RP_INT32, RP_BUFFER_DEFAULT, 64 },
};

/* Each rank adds to a cell of each other and takes back what it got: nothing may be
 * left, nothing may be missing. */
static int signal_round(struct rp_comm *comm)
{
	uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm), peer;

	for (peer = 0; peer < size; peer++)
		RANK_TRY(rp_comm_notify(comm, 1, peer, 3, 1, RP_NOTIFY_ADD));
	RANK_TRY(rp_comm_wait(comm, 1, 3, RP_GE, (int32_t)size, 0));
	return rp_comm_notify(comm, 1, rank, 3, -(int32_t)size, RP_NOTIFY_ADD);
}

/* words: seed. All ranks draw the same calls, and dawdle each for itself. */
static int sequence(struct rp_chip *chip, struct rp_comm *comm,
		    const struct rank_job *job)
{
	uint64_t dice = job->words[0] * 2 + 1, own;
	uint32_t size = rp_comm_size(comm);
	void *memory = malloc(3 * (WORK_BYTES + 128));
	struct collective c;
	int err = 0;

	if (!memory)
		return rp_chip_fail(chip, -ENOMEM, "no memory");
	own = dice + rp_comm_rank(comm) * 1000003;
	for (int i = 0; !err && i < CALLS; i++) {
		collective_random(&c, size, WORK_BYTES, &dice);
		if (bed_random(&dice) % 8 == 0)
			err = signal_round(comm);
		rank_dawdle(&own);
		if (!err)
			err = collective_check(chip, comm, &c, memory);
	}
	free(memory);
	return err;
}

static void choose(struct ranks_options *options, uint64_t *dice)
{
	static const size_t stagings[] = { 0, 4096, 8192, 20480, 262144 };
	static const enum rp_wait_policy waits[] = { RP_WAIT_HYBRID, RP_WAIT_HYBRID,
						     RP_WAIT_BLOCK, RP_WAIT_SPIN };

	*options = (struct ranks_options){
		.size = asked.ranks ? (uint32_t)asked.ranks
				    : 1 + (uint32_t)(bed_random(dice) % 6),
		.threads = asked.threads || bed_random(dice) % 3 == 0,
		.persistent = bed_random(dice) & 1,
		.buffers = buffers,
		.buffer_count = COUNT(buffers),
		.staging_bytes = stagings[bed_random(dice) % COUNT(stagings)],
		.timeout_ns = INT64_C(120) * 1000000000,
		.wait = waits[bed_random(dice) % COUNT(waits)],
		.repeats = 1 + (uint32_t)(bed_random(dice) % 3),
	};
}

static void go_round(uint64_t seed)
{
	uint64_t dice = seed * 7919 + 1;
	struct ranks_options options;
	struct ranks *ranks;

	choose(&options, &dice);
	printf("# seed %" PRIu64 ": %u %s, staging %zu, wait %d%s\n", seed, options.size,
	       options.threads ? "threads" : "chips", options.staging_bytes, options.wait,
	       options.persistent ? ", persistent" : "");
	fflush(stdout);
	ranks = ranks_open(&options);
	for (int run = 0; run < asked.runs; run++) {
		struct rank_job job = { .fn = sequence,
					.words = { seed * 100 + (uint64_t)run } };
		int err = ranks_run(ranks, &job);

		if (err) {
			fprintf(stderr,
				"comm_stress: seed %" PRIu64 ", run %d: %d \"%s\"\n",
				seed, run, err, rp_last_error());
			exit(1);
		}
	}
	ranks_close(ranks);
}

int main(int argc, char **argv)
{
	const struct stress_option options[] = {
		{ "runs", &asked.runs, 1, INT_MAX },
		{ "ranks", &asked.ranks, 0, RANKS_MAX },
		{ "threads", &asked.threads, 0, 0 },
	};

	return stress_run(argc, argv, "comm_stress", options, COUNT(options), go_round);
}
