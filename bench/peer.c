/* SPDX-License-Identifier: MIT */
/*
 * Memory order. Each site below names the edge it is an end of.
 *   E1 round  parent writes ops, spin  -> round_seq store-release
 *             round_seq load-acquire   -> peer reads them
 *   E2 ready  peer is about to serve   -> ready_seq store-release
 *             ready_seq load-acquire   -> parent begins to measure
 *   E3 done   peer has served          -> done_seq store-release
 *             done_seq load-acquire    -> parent reads what that wrote
 * A peer that gives up writes status and ends; the parent reads it when waitpid() has
 * told it so.
 * No wake-up is lost: the peer sleeps on round_seq with FUTEX_WAIT, which looks at
 * the word once more in the kernel, and the parent wakes after each store.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "topology.h"

struct bench_peer_words {
	/* The parent writes this block. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t round_seq; /* E1 */
	uint32_t spin;
	uint64_t ops;

	/* The peer writes this block. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t ready_seq; /* E2 */
	_Atomic uint32_t done_seq;			      /* E3 */
	_Atomic int32_t status;				      /* why it gave up */
};

/* ready_seq before the peer has joined; round 0 is "joined". */
#define NOT_JOINED UINT32_MAX

static struct bench_peer *peers;

/* It only has to interrupt a blocking call. */
static void on_alarm(int signo)
{
	(void)signo;
}

static void prepare_once(void)
{
	static bool done;
	struct sigaction action = { .sa_handler = on_alarm };

	if (done)
		return;
	done = true;
	sigemptyset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
	atexit(bench_peers_end);
}

static void heartbeat(bool on)
{
	struct itimerval every = { .it_interval.tv_sec = on, .it_value.tv_sec = on };

	setitimer(ITIMER_REAL, &every, NULL);
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

__attribute__((noreturn)) static void peer_die(struct bench_peer_words *words, int status)
{
	atomic_store_explicit(&words->status, status, memory_order_release);
	_exit(EXIT_FAILURE);
}

__attribute__((noreturn)) static void peer_main(struct bench_peer_words *words,
						const struct bench_peer_ops *ops,
						void *data)
{
	uint32_t served = 0;
	int err = ops->join ? ops->join(data) : 0;

	if (err)
		peer_die(words, err);
	atomic_store_explicit(&words->ready_seq, 0, memory_order_release); /* E2 */
	for (;;) {
		uint32_t round;

		/* E1 */
		while ((round = atomic_load_explicit(&words->round_seq,
						     memory_order_acquire)) == served)
			futex(&words->round_seq, FUTEX_WAIT, served);
		atomic_store_explicit(&words->ready_seq, round,
				      memory_order_release); /* E2 */
		err = ops->serve(data, words->ops, (enum bench_spin)words->spin);
		if (err)
			peer_die(words, err);
		served = round;
		atomic_store_explicit(&words->done_seq, round,
				      memory_order_release); /* E3 */
	}
}

/* The first steps in the child: nothing here may outlive the parent. */
__attribute__((noreturn)) static void child(pid_t parent, int cpu,
					    struct bench_peer_words *words,
					    const struct bench_peer_ops *ops, void *data)
{
	int err;

	peers = NULL;
	/* The parent may have died before the request: then nobody sends the signal. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(EXIT_FAILURE);
	prctl(PR_SET_NAME, "rpbench-peer");
	err = bench_cpu_pin(cpu);
	if (err)
		peer_die(words, err);
	peer_main(words, ops, data);
}

/* The wait outside of what is measured: gives the processor away each time. */
static int wait_word(struct bench_peer *peer, const _Atomic uint32_t *word, uint32_t want)
{
	for (uint32_t looks = 1;; looks++) {
		int err;

		/* E2, E3 */
		if (atomic_load_explicit(word, memory_order_acquire) == want)
			return 0;
		sched_yield();
		if (looks & 0x3ff)
			continue;
		err = bench_peer_check(peer);
		if (err)
			return err;
	}
}

static void unlist(const struct bench_peer *peer)
{
	for (struct bench_peer **at = &peers; *at; at = &(*at)->next)
		if (*at == peer) {
			*at = peer->next;
			return;
		}
}

int bench_peer_start(struct bench_peer *peer, const char *name, int cpu,
		     const struct bench_peer_ops *ops, void *data)
{
	pid_t parent = getpid();
	int err;

	prepare_once();
	memset(peer, 0, sizeof(*peer));
	peer->name = name;
	peer->words = mmap(NULL, sizeof(*peer->words), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (peer->words == MAP_FAILED) {
		peer->words = NULL;
		return rpi_fail(-errno, "mmap: words of peer %s: %s", name,
				strerror(errno));
	}
	atomic_init(&peer->words->ready_seq, NOT_JOINED);

	peer->pid = fork();
	if (!peer->pid)
		child(parent, cpu, peer->words, ops, data);
	if (peer->pid < 0) {
		err = rpi_fail(-errno, "fork: peer %s: %s", name, strerror(errno));
		peer->pid = 0;
		goto unmap;
	}
	peer->next = peers;
	peers = peer;
	err = wait_word(peer, &peer->words->ready_seq, 0);
	if (!err)
		return 0;
	bench_peer_stop(peer);
	return err;

unmap:
	munmap(peer->words, sizeof(*peer->words));
	peer->words = NULL;
	return err;
}

int bench_peer_begin(struct bench_peer *peer, uint64_t ops, enum bench_spin spin)
{
	int err;

	if (!peer->pid)
		return rpi_fail(-EOWNERDEAD, "peer %s: not running", peer->name);
	heartbeat(true);
	peer->words->ops = ops;
	peer->words->spin = spin;
	peer->round_seq++;
	atomic_store_explicit(&peer->words->round_seq, peer->round_seq,
			      memory_order_release); /* E1 */
	futex(&peer->words->round_seq, FUTEX_WAKE, 1);
	err = wait_word(peer, &peer->words->ready_seq, peer->round_seq);
	if (err)
		heartbeat(false);
	return err;
}

int bench_peer_end(struct bench_peer *peer)
{
	int err = wait_word(peer, &peer->words->done_seq, peer->round_seq);

	heartbeat(false);
	return err;
}

int bench_peer_check(struct bench_peer *peer)
{
	int how = 0, status;
	pid_t got;

	if (!peer)
		return 0;
	if (!peer->pid)
		return rpi_fail(-EOWNERDEAD, "peer %s: not running", peer->name);
	got = waitpid(peer->pid, &how, WNOHANG);
	if (!got || (got < 0 && errno == EINTR))
		return 0;
	unlist(peer);
	peer->pid = 0;
	heartbeat(false);
	status = atomic_load_explicit(&peer->words->status, memory_order_acquire);
	if (got > 0 && WIFSIGNALED(how))
		return rpi_fail(-EOWNERDEAD, "peer %s: died of signal %d", peer->name,
				WTERMSIG(how));
	if (status)
		return rpi_fail(-EOWNERDEAD, "peer %s: gave up: %s", peer->name,
				strerror(-status));
	return rpi_fail(-EOWNERDEAD, "peer %s: exited with status %d", peer->name,
			got > 0 ? WEXITSTATUS(how) : -1);
}

void bench_peer_stop(struct bench_peer *peer)
{
	if (peer->pid > 0) {
		unlist(peer);
		heartbeat(false);
		kill(peer->pid, SIGKILL);
		while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
			;
		peer->pid = 0;
	}
	if (peer->words) {
		munmap(peer->words, sizeof(*peer->words));
		peer->words = NULL;
	}
}

void bench_peers_end(void)
{
	while (peers)
		bench_peer_stop(peers);
}
