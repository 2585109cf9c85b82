/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "transport_run.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "spawn.h"
#include "transport_words.h"

#define KINDS_MAX 8
/* From the start of the program to the first round; and how long an end may take. */
#define JOIN_NS INT64_C(10000000000)
#define END_NS	INT64_C(3000000000)
#define LOOK_NS 100000000 /* between two looks whether it lives */

/* One program with its two sides, for all cases of its kind. */
struct transport_link {
	const struct transport_kind *kind;
	struct bench_spawn spawn;
	struct transport_words *words;
	int fd; /* of the words */
	unsigned int users;
	bool failed; /* to start: not tried again */
	char why[BENCH_TEXT_BYTES];
};

static struct transport_link links[KINDS_MAX];

static struct transport_link *find(const struct transport_kind *kind)
{
	for (size_t i = 0; i < KINDS_MAX; i++) {
		if (!links[i].kind)
			links[i] = (struct transport_link){ .kind = kind, .fd = -1 };
		if (links[i].kind == kind)
			return &links[i];
	}
	abort(); /* more kinds than KINDS_MAX */
}

static int map_words(struct transport_link *link, const struct bench_options *options)
{
	struct transport_words *words;

	link->fd = memfd_create("rpbench-transport", MFD_CLOEXEC);
	if (link->fd < 0 || ftruncate(link->fd, sizeof(*words)))
		return rpi_fail(-errno, "memfd_create: words of %s: %s", link->kind->name,
				strerror(errno));
	words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_POPULATE, link->fd, 0);
	if (words == MAP_FAILED)
		return rpi_fail(-errno, "mmap: words of %s: %s", link->kind->name,
				strerror(errno));
	link->words = words;
	words->owner = getpid();
	words->clock = bench_clock;
	words->cma = !link->kind->pieces;
	for (int side = 0; side < 2; side++)
		words->cpu[side] = options->cpu[side];
	return 0;
}

/* Others can't be handed a descriptor by a launcher, but may open it by its path. */
static int start_program(struct transport_link *link)
{
	const struct transport_kind *kind = link->kind;
	char path[64];

	rpi_format(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), link->fd);
	if (!kind->launched) {
		const char *const argv[] = { kind->program, path, NULL };

		return bench_spawn_start(&link->spawn, argv, NULL);
	}
	const char *const argv[] = { "mpirun",
				     "--allow-run-as-root",
				     "--oversubscribe",
				     "--bind-to",
				     "none",
				     "--mca",
				     "pml",
				     "ob1",
				     "--mca",
				     "btl",
				     "self,vader",
				     "--mca",
				     "mpi_yield_when_idle",
				     "0",
				     "-n",
				     "1",
				     kind->program,
				     path,
				     "0",
				     ":",
				     "-n",
				     "1",
				     kind->program,
				     path,
				     "1",
				     NULL };

	return bench_spawn_start(&link->spawn, argv, NULL);
}

/* What it said last, or what it did. */
static int gone(struct transport_link *link, int status)
{
	char line[BENCH_TEXT_BYTES / 2];

	for (int side = 0; side < 2; side++)
		if (link->words->side[side].note[0] &&
		    !atomic_load_explicit(&link->words->side[side].done_seq,
					  memory_order_acquire))
			return rpi_fail(-EOWNERDEAD, "%s: %s", link->kind->name,
					link->words->side[side].note);
	bench_spawn_last_line(&link->spawn, line, sizeof(line));
	return rpi_fail(-EOWNERDEAD, "%s: its program ended with %s %d%s%s",
			link->kind->name, WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
			line[0] ? ": " : "", line);
}

/* Until both sides have done `count` rounds, joining being the first. We sleep: one of
 * them runs on our CPU. */
static int await(struct transport_link *link, uint32_t count, int64_t timeout_ns)
{
	const struct timespec look = { .tv_nsec = LOOK_NS };
	uint64_t begin = rpi_now_ns();

	for (int side = 0; side < 2; side++) {
		_Atomic uint32_t *word = &link->words->side[side].done_seq;
		uint32_t seen;
		int status;

		/* E2 */
		while ((seen = atomic_load_explicit(word, memory_order_acquire)) !=
		       count) {
			syscall(SYS_futex, word, FUTEX_WAIT, seen, &look, NULL, 0);
			if (bench_spawn_wait(&link->spawn, 0, &status))
				return gone(link, status);
			if ((int64_t)(rpi_now_ns() - begin) > timeout_ns)
				return rpi_fail(-ETIMEDOUT,
						"%s: not ready after %" PRId64 " s",
						link->kind->name,
						timeout_ns / INT64_C(1000000000));
		}
	}
	return 0;
}

static uint32_t post(struct transport_link *link, enum transport_what what, uint64_t ops,
		     uint64_t seed)
{
	struct transport_words *words = link->words;
	/* relaxed: only this thread writes it */
	uint32_t seq = atomic_load_explicit(&words->round_seq, memory_order_relaxed) + 1;

	words->what = what;
	words->ops = ops;
	words->seed = seed;
	atomic_store_explicit(&words->round_seq, seq, memory_order_release); /* E1 */
	syscall(SYS_futex, &words->round_seq, FUTEX_WAKE, 2, NULL, NULL, 0);
	return seq;
}

static void stop(struct transport_link *link)
{
	int status;

	if (link->spawn.pid > 0 && link->words && link->users) {
		post(link, TRANSPORT_END, 0, 0);
		bench_spawn_wait(&link->spawn, END_NS, &status);
	}
	bench_spawn_stop(&link->spawn);
	if (link->words)
		munmap(link->words, sizeof(*link->words));
	if (link->fd >= 0)
		close(link->fd);
	link->words = NULL;
	link->fd = -1;
}

static int start(struct transport_link *link, const struct bench_options *options)
{
	int err;

	link->spawn = (struct bench_spawn){ .out = -1, .err = -1 };
	if (!link->kind->program)
		err = rpi_fail(-ENOENT, "built without %s, which is in %s",
			       link->kind->name, link->kind->package);
	else
		err = map_words(link, options);
	if (!err)
		err = start_program(link);
	if (!err)
		err = await(link, 1, JOIN_NS);
	if (!err)
		return 0;
	rpi_format(link->why, sizeof(link->why), "%s", rp_last_error());
	stop(link);
	return err;
}

int transport_setup(struct bench_case *c)
{
	const struct transport_variant *variant = c->arg;
	struct transport_link *link = find(variant->kind);

	if (!link->users && !link->failed)
		link->failed = start(link, c->options) != 0;
	if (link->failed)
		return rpi_fail(BENCH_SKIP, "%s", link->why);
	link->users++;
	c->data = link;
	rpi_format(c->remark, sizeof(c->remark), "%s",
		   link->words->side[BENCH_PARENT].note);
	return 0;
}

int transport_round(struct bench_case *c, struct bench_round *round)
{
	const struct transport_variant *variant = c->arg;
	struct transport_link *link = c->data;
	uint32_t seq;
	int err;

	if (!link->spawn.pid)
		return rpi_fail(-EOWNERDEAD, "%s: its program has ended",
				link->kind->name);
	seq = post(link, variant->what, round->ops, round->seed);
	err = await(link, seq + 1, INT64_MAX);
	if (err)
		return err;
	for (uint64_t i = 0; i < round->ops; i++)
		bench_samples_add(round->samples, link->words->ns[i]);
	for (int side = 0; side < 2; side++) {
		round->work += link->words->side[side].work;
		round->failures += link->words->side[side].failures;
	}
	if (round->failures)
		rpi_fail(-EIO, "%s: another word arrived", link->kind->name);
	return 0;
}

void transport_teardown(struct bench_case *c)
{
	struct transport_link *link = c->data;

	if (link->users == 1)
		stop(link);
	link->users--;
}
