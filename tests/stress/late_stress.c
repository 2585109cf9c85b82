/* SPDX-License-Identifier: MIT */
/*
 * late_stress [--seconds S] [--seed N] [--threads N] [--rounds N] [--dispatcher]
 *
 * Threads allocate shared memory of any size, dispatch on it, copy it to a chip and
 * back, and free it, all at once, on two workers; some blocks are freed while a run
 * still has them. Every byte that a run was to write is checked. It repeats with the
 * next seed, and new workers, until the seconds are over, at least once.
 *
 * With a dispatcher other blocks are made and freed while a request is queued, and none
 * is freed under its own: whoever got its addresses would be written to.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support.h"
#include "stress.h"

#define THREADS_MAX 16
#define WORKERS	    2
#define CHIPS	    2
#define KEPT_MAX    12
#define MIB	    ((size_t)1 << 20)

static struct {
	int threads;
	int rounds;
	int dispatcher;
} asked = { .threads = 4, .rounds = 150 };

static struct bed beds[WORKERS];

static void must(bool yes, const char *what)
{
	if (yes)
		return;
	fprintf(stderr, "late_stress: %s: \"%s\"\n", what, rp_last_error());
	_exit(1);
}

/* A block in the hands of one thread: `value` stands in its first and its last words. */
struct block {
	int64_t *words;
	size_t count;
	int64_t value;
	bool alone; /* in its region */
};

struct player {
	pthread_t thread;
	uint64_t seed;
	struct block kept[KEPT_MAX], spare;
	uint64_t device[WORKERS][CHIPS];
};

/* Small blocks share regions, large ones have their own. */
static size_t some_bytes(uint64_t *seed)
{
	switch (bed_random(seed) % 4) {
	case 0:
		return 128 + bed_random(seed) % 4096;
	case 1:
		return (size_t)64 << 10;
	default:
		return MIB + bed_random(seed) % (2 * MIB);
	}
}

static void take(struct player *player, struct block *block)
{
	size_t bytes = some_bytes(&player->seed);
	bool own = bed_random(&player->seed) % 4 == 0;
	void *memory;

	must(!(own ? rp_shared_alloc_pages(bytes, RP_PAGES_NEVER, &memory)
		   : rp_shared_alloc(bytes, &memory)),
	     "alloc");
	block->alone = own || bytes >= MIB;
	block->words = memory;
	block->count = bytes / sizeof(*block->words);
	block->value = 0;
	must(!block->words[0] && !block->words[block->count - 1], "fresh memory is zero");
}

static void give(struct block *block)
{
	must(!rp_shared_free(block->words), "free");
	block->words = NULL;
}

static void check(const struct block *block)
{
	must(block->words[0] == block->value &&
		     block->words[block->count - 1] == block->value,
	     "what a run wrote");
}

/* Its first and its last word: one strided tensor over all of it. */
static struct rp_tensor ends_of(const struct block *block)
{
	struct rp_tensor tensor;
	int64_t two = 2;

	must(!rp_tensor_host(&tensor, block->words, RP_INT64, 1, &two), "tensor");
	tensor.strides[0] = (int64_t)block->count - 1;
	return tensor;
}

struct play {
	const struct block *block;
	int64_t add;
	int where;
	bool named; /* by an argument of the call, or in the orchestration */
};

/* In the calling thread, or the dispatcher's. */
static int add_to_ends(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct play *play =
		(const struct play *)(uintptr_t)args[0].u.scalar.value.u64;
	struct rp_tensor ends;

	(void)nargs;
	(void)user;
	if (!play->named)
		ends = ends_of(play->block);
	else if (rp_tensor_slice(&args[1].u.tensor, 0, 0, 2,
				 args[1].u.tensor.shape[0] - 1, &ends))
		return -EINVAL;
	return TASK(run, play->where, ENTRY_ADD, rp_inout(ends), rp_arg_i64(play->add));
}

static void submit_play(struct player *player, const struct play *play,
			struct rp_handle *handle)
{
	const struct bed *bed = &beds[bed_random(&player->seed) % WORKERS];
	const struct block *block = play->named ? play->block : &player->spare;

	must(!SUBMIT(bed, handle, rp_arg_u64((uint64_t)(uintptr_t)play),
		     rp_arg_tensor(
			     TENSOR(block->words, RP_INT64, (int64_t)block->count))),
	     "submit");
}

static void finish_play(struct rp_handle handle)
{
	must(!rp_handle_wait(handle, RP_WAIT_FOREVER), "wait");
	must(!rp_handle_release(handle), "release");
}

static void play_run(struct player *player, struct block *block)
{
	struct play play = { .block = block,
			     .add = (int64_t)(bed_random(&player->seed) % 1000),
			     .where = (int)(bed_random(&player->seed) % CHIPS),
			     .named = bed_random(&player->seed) % 2 };
	struct block *other = &player->kept[bed_random(&player->seed) % KEPT_MAX];
	struct rp_handle handle;

	submit_play(player, &play, &handle);
	if (!asked.dispatcher && block->alone && bed_random(&player->seed) % 4 == 0) {
		/* Freed under the run, which ends as if nothing had happened. A small
		 * block would be somebody else's at once. */
		give(block);
		finish_play(handle);
		return;
	}
	if (asked.dispatcher && other != block) {
		if (other->words)
			give(other);
		else
			take(player, other);
	}
	finish_play(handle);
	block->value += play.add;
	check(block);
}

static void play_copy(struct player *player, struct block *block)
{
	uint32_t which = (uint32_t)(bed_random(&player->seed) % WORKERS);
	uint32_t chip = (uint32_t)(bed_random(&player->seed) % CHIPS);
	struct rp_worker *worker = beds[which].worker;
	uint64_t address = player->device[which][chip];
	size_t bytes = block->count * sizeof(*block->words);

	must(!rp_worker_copy_to(worker, chip, address, 0, block->words, 0, bytes),
	     "copy to");
	block->words[0] = block->words[block->count - 1] = -1;
	must(!rp_worker_copy_from(worker, chip, address, 0, block->words, 0, bytes),
	     "copy from");
	check(block);
}

static void *play(void *arg)
{
	struct player *player = arg;

	take(player, &player->spare);
	for (int round = 0; round < asked.rounds; round++) {
		struct block *block = &player->kept[bed_random(&player->seed) % KEPT_MAX];

		if (!block->words)
			take(player, block);
		switch (bed_random(&player->seed) % 8) {
		case 0:
			give(block);
			break;
		case 1:
			play_copy(player, block);
			break;
		default:
			play_run(player, block);
			break;
		}
	}
	for (int i = 0; i < KEPT_MAX; i++)
		if (player->kept[i].words)
			give(&player->kept[i]);
	give(&player->spare);
	return NULL;
}

static void open_bed(struct bed *bed, bool unified)
{
	static const struct rp_param params[] = {
		{ .name = "play", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
		{ .name = "block",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_INOUT,
		  .rank = 1,
		  .shape = { RP_DIM_ANY } },
	};
	struct rp_worker_options options;
	struct rp_program_desc desc;

	bed_describe(&desc, "late", params, COUNT(params));
	desc.orchestrate = add_to_ends;
	bed_options(&options, CHIPS);
	options.unified_memory = unified;
	options.device_memory_bytes = 128 * MIB;
	options.dispatcher = asked.dispatcher;
	options.dispatcher_queue = 4;
	bed_prepare(bed, &desc, &options);
}

static void go_round(uint64_t seed)
{
	static struct player players[THREADS_MAX];

	bed_setup(NULL);
	memset(players, 0, sizeof(players));
	for (int which = 0; which < WORKERS; which++)
		open_bed(&beds[which], which);
	for (int i = 0; i < asked.threads; i++) {
		struct player *player = &players[i];

		player->seed = seed * 1000 + (uint64_t)i;
		for (uint32_t at = 0; at < WORKERS * CHIPS; at++)
			must(!rp_worker_device_alloc(
				     beds[at / CHIPS].worker, at % CHIPS, 4 * MIB,
				     &player->device[at / CHIPS][at % CHIPS]),
			     "device alloc");
		must(!pthread_create(&player->thread, NULL, play, player), "thread");
	}
	for (int i = 0; i < asked.threads; i++)
		pthread_join(players[i].thread, NULL);
	for (int which = 0; which < WORKERS; which++)
		bed_close(&beds[which]);
}

int main(int argc, char **argv)
{
	const struct stress_option options[] = {
		{ "threads", &asked.threads, 1, THREADS_MAX },
		{ "rounds", &asked.rounds, 1, INT_MAX },
		{ "dispatcher", &asked.dispatcher, 0, 0 },
	};

	return stress_run(argc, argv, "late_stress", options, COUNT(options), go_round);
}
