/* SPDX-License-Identifier: MIT */
/*
 * transport WORDS [RANK]: both sides of one transport, or with RANK the one that a
 * launcher started. Each is pinned, and asleep between rounds. A round is an exchange
 * that is not counted, and so many that are.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "topology.h"
#include "transport.h"

/* How often a side that sleeps looks whether rpbench still lives. */
#define LOOK_S	    1

#define SMALL_WORDS (TRANSPORT_SMALL_BYTES / sizeof(uint64_t))

static unsigned char *big; /* of either side its own */

static struct transport_words *map_words(const char *path)
{
	struct transport_words *words;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return words == MAP_FAILED ? NULL : words;
}

void transport_check(const struct transport *t)
{
	if (kill(t->words->owner, 0) && errno == ESRCH)
		_exit(EXIT_FAILURE);
}

int transport_swap(struct transport *t, const void *mine, size_t bytes,
		   const void **other_out)
{
	struct transport_side *own = &t->words->side[t->side];
	struct transport_side *other = &t->words->side[!t->side];

	if (!bytes || bytes > sizeof(own->address))
		return rpi_fail(-E2BIG, "an address of %zu bytes, expected 1 to %zu",
				bytes, sizeof(own->address));
	memcpy(own->address, mine, bytes);
	atomic_store_explicit(&own->address_bytes, (uint32_t)bytes,
			      memory_order_release); /* E3 */
	/* E3 */
	while (!atomic_load_explicit(&other->address_bytes, memory_order_acquire)) {
		transport_check(t);
		usleep(1000);
	}
	*other_out = other->address;
	return 0;
}

/* The word that message `i` of the round has, at a place that moves. */
static uint64_t word_of(const struct transport_words *words, uint64_t i)
{
	return words->seed + i;
}

static size_t place_of(uint64_t i)
{
	return (size_t)i * 4096 % TRANSPORT_BIG_BYTES;
}

static int ping_small(struct transport *t, uint64_t i)
{
	struct transport_side *own = &t->words->side[t->side];
	uint64_t out[SMALL_WORDS], in[SMALL_WORDS], last;
	const void *at = in;
	int err;

	for (size_t w = 0; w < SMALL_WORDS; w++)
		out[w] = word_of(t->words, i) + w;
	err = transport_send(t, out, sizeof(out));
	if (!err)
		err = transport_recv(t, in, sizeof(in), &at);
	if (err)
		return err;
	memcpy(&last, (const unsigned char *)at + sizeof(in) - sizeof(last),
	       sizeof(last));
	own->failures += last != out[SMALL_WORDS - 1];
	own->work += last;
	return 0;
}

static int echo_small(struct transport *t)
{
	uint64_t in[SMALL_WORDS];
	const void *at = in;
	int err = transport_recv(t, in, sizeof(in), &at);

	return err ? err : transport_send(t, at, sizeof(in));
}

static int ping_big(struct transport *t)
{
	uint64_t answer;
	const void *at = &answer;
	int err = transport_send(t, big, TRANSPORT_BIG_BYTES);

	return err ? err : transport_recv(t, &answer, sizeof(answer), &at);
}

static int echo_big(struct transport *t, uint64_t i)
{
	struct transport_side *own = &t->words->side[t->side];
	const void *at = big;
	uint64_t got;
	int err = transport_recv(t, big, TRANSPORT_BIG_BYTES, &at);

	if (err)
		return err;
	memcpy(&got, (const unsigned char *)at + place_of(i), sizeof(got));
	own->failures += got != word_of(t->words, i);
	return transport_send(t, &got, sizeof(got));
}

static int act(struct transport *t, uint64_t i)
{
	bool copy = t->words->what == TRANSPORT_COPY;

	if (t->side == BENCH_PEER)
		return copy ? echo_big(t, i) : echo_small(t);
	return copy ? ping_big(t) : ping_small(t, i);
}

static int serve(struct transport *t)
{
	struct transport_words *words = t->words;
	struct transport_side *own = &words->side[t->side];

	own->work = own->failures = 0;
	for (uint64_t i = 0; i <= words->ops; i++) {
		uint64_t word = word_of(words, i), before;
		int err;

		if (t->side == BENCH_PARENT && words->what == TRANSPORT_COPY)
			memcpy(big + place_of(i), &word, sizeof(word));
		before = bench_ticks();
		err = act(t, i);
		if (err)
			return err;
		if (i && t->side == BENCH_PARENT)
			words->ns[i - 1] = bench_ticks_ns(bench_ticks() - before);
	}
	return 0;
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void wait_round(const struct transport *t, uint32_t seen)
{
	const struct timespec look = { .tv_sec = LOOK_S };
	_Atomic uint32_t *word = &t->words->round_seq;

	/* E1 */
	while (atomic_load_explicit(word, memory_order_acquire) == seen) {
		syscall(SYS_futex, word, FUTEX_WAIT, seen, &look, NULL, 0);
		transport_check(t);
	}
}

static void say_done(const struct transport *t, uint32_t count)
{
	_Atomic uint32_t *word = &t->words->side[t->side].done_seq;

	atomic_store_explicit(word, count, memory_order_release); /* E2 */
	futex_wake(word);
}

static int open_side(struct transport *t)
{
	int err = bench_cpu_pin(t->words->cpu[t->side]);

	/* As malloc() gives it, and touched. */
	big = err ? NULL : aligned_alloc(4096, TRANSPORT_BIG_BYTES);
	if (!err && !big)
		err = rpi_fail(-ENOMEM, "no memory for %zu bytes", TRANSPORT_BIG_BYTES);
	if (!err)
		memset(big, 0x5a, TRANSPORT_BIG_BYTES);
	return err ? err : transport_open(t);
}

static int live(struct transport *t)
{
	int err = open_side(t);

	for (uint32_t seen = 0; !err; seen++) {
		say_done(t, seen + 1);
		wait_round(t, seen);
		if (t->words->what == TRANSPORT_END) {
			signal(SIGCHLD, SIG_DFL);
			transport_close(t);
			return 0;
		}
		err = serve(t);
	}
	rpi_format(t->words->side[t->side].note, BENCH_TEXT_BYTES, "%s", rp_last_error());
	return err;
}

/* One side less is one too few. */
static void on_child(int signo)
{
	(void)signo;
	_exit(EXIT_FAILURE);
}

static int split(struct transport *t)
{
	pid_t parent = getpid(), child;

	signal(SIGCHLD, on_child);
	child = fork();
	if (child < 0)
		return -errno;
	if (child)
		return 0;
	signal(SIGCHLD, SIG_DFL);
	t->side = BENCH_PEER;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(EXIT_FAILURE);
	return 0;
}

int main(int argc, char **argv)
{
	struct transport t = { .side = BENCH_PARENT };
	int err;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: %s WORDS [RANK], by rpbench peers\n", argv[0]);
		return EXIT_FAILURE;
	}
	t.words = map_words(argv[1]);
	if (!t.words) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return EXIT_FAILURE;
	}
	bench_clock = t.words->clock;
	if (argc == 3)
		t.side = strcmp(argv[2], "0") ? BENCH_PEER : BENCH_PARENT;
	else if (split(&t))
		return EXIT_FAILURE;
	err = live(&t);
	/* The other side goes too, and should not be left to somebody else to reap. */
	while (!err && (wait(NULL) >= 0 || errno == EINTR))
		;
	/* No handler of a library: it could only get in the way now. */
	_exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}
