/* SPDX-License-Identifier: MIT */
/*
 * The watch: a thread that looks now and then whether kernels still end. When none has
 * ended, and none was submitted, for the time that the opener gave, while there are some,
 * the run has stalled. A kernel that runs can't be stopped, so the process has to be
 * given up; all else fails the run, and what waits is not waited for any more.
 *
 * Opened only where a time was given: without it nothing of this costs anything.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/testing.h"
#include "runtime/runtime.h"

/* Looks in the time that makes a stall, and how far apart they are. */
#define LOOKS	    8u
#define LOOK_NS_MIN 1000000u
#define LOOK_NS_MAX 250000000u

/* A hand may hold the only kernel of the queue for a moment, while it asks it. */
#define TAKE_TRIES 1000u

/* What has not changed since when. */
struct progress {
	uint64_t submitted, ended;
	uint64_t since_ns;
};

/* A kernel that doesn't end, and why. */
struct stall {
	const char *name;
	uint64_t index;
	uint32_t ring;
	const char *why;
};

static struct rpi_hand *hand_of(struct rpi_runtime *runtime, uint32_t i)
{
	return i ? &runtime->crew[i - 1] : &runtime->hand;
}

static uint64_t count_ended(struct rpi_runtime *runtime)
{
	uint64_t ended = 0;
	uint32_t i;

	for (i = 0; i <= runtime->config.compute_threads; i++)
		ended += atomic_load_explicit(&hand_of(runtime, i)->turn.ended,
					      memory_order_acquire);
	return ended;
}

static bool find_running(struct rpi_runtime *runtime, struct stall *stall)
{
	uint32_t i;

	for (i = 0; i <= runtime->config.compute_threads; i++)
		if (rpi_turn_read(&hand_of(runtime, i)->turn, &stall->name, &stall->index,
				  &stall->ring)) {
			stall->why = "runs: running-stalled";
			return true;
		}
	return false;
}

static void put_back(struct rpi_runtime *runtime, struct rpi_flight *slot)
{
	while (!rpi_ready_put(&runtime->ready, slot))
		sched_yield();
	rpi_crew_call(runtime);
}

/* Taken out of the queue a kernel is this thread's, as it would be a hand's. */
static bool find_queued(struct rpi_runtime *runtime, struct stall *stall)
{
	struct rpi_flight *slot = NULL;
	uint32_t i;

	for (i = 0; i < TAKE_TRIES && !slot; i++) {
		slot = rpi_ready_take(&runtime->ready);
		if (!slot)
			sched_yield();
	}
	if (!slot)
		return false;
	stall->name = slot->name;
	stall->index = slot->index;
	stall->ring = slot->ring;
	if (!slot->ready && !slot->hurdle)
		stall->why = "may start and nobody takes it: ready-idle";
	/* Relaxed: a moment's difference is none. */
	else if (atomic_load_explicit(&runtime->awaiting, memory_order_relaxed))
		stall->why = "waits for what does not come, and the rest for it: "
			     "dependency deadlock";
	else
		stall->why = "waits for what does not come, and the entry neither "
			     "submits nor ends: orchestrator-starved";
	put_back(runtime, slot);
	return true;
}

static void judge(struct rpi_runtime *runtime)
{
	struct stall stall = { .why = "" };
	bool running = find_running(runtime, &stall);
	char text[RPI_ERROR_BYTES];

	if (!running && !find_queued(runtime, &stall))
		return; /* it went on a moment ago */
	rpi_format(text, sizeof(text),
		   "kernel %" PRIu64 " '%s' (ring %u) %s; no kernel has ended for %g s",
		   stall.index, stall.name ? stall.name : "", stall.ring, stall.why,
		   (double)runtime->config.stall_ns * 1e-9);
	rpi_fault_set(&runtime->fault, -ETIMEDOUT, text);
	if (running && runtime->config.abandon)
		runtime->config.abandon(runtime->config.context, text);
}

static void look(struct rpi_runtime *runtime, struct progress *last)
{
	/* Ended first: what it counts has been submitted by then. */
	uint64_t ended = count_ended(runtime), now_ns = rpi_now_ns();
	uint64_t submitted =
		atomic_load_explicit(&runtime->submitted, memory_order_acquire);

	if (submitted != last->submitted || ended != last->ended || submitted == ended) {
		*last = (struct progress){ submitted, ended, now_ns };
		return;
	}
	if (now_ns - last->since_ns < runtime->config.stall_ns)
		return;
	judge(runtime);
	last->since_ns = now_ns;
}

static void *watch(void *arg)
{
	struct rpi_runtime *runtime = arg;
	struct progress last = { .since_ns = rpi_now_ns() };
	uint64_t period_ns = runtime->config.stall_ns / LOOKS;

	prctl(PR_SET_NAME, "rp-watch", 0, 0, 0);
	if (period_ns < LOOK_NS_MIN)
		period_ns = LOOK_NS_MIN;
	if (period_ns > LOOK_NS_MAX)
		period_ns = LOOK_NS_MAX;
	while (!atomic_load_explicit(&runtime->watch_stop, memory_order_acquire)) {
		rpi_futex_wait(&runtime->watch_stop, 0, RPI_FUTEX_PRIVATE,
			       rpi_now_ns() + period_ns);
		look(runtime, &last);
	}
	return NULL;
}

int rpi_watch_start(struct rpi_runtime *runtime)
{
	sigset_t all, before;
	int err;

	if (!runtime->config.stall_ns)
		return 0;
	/* Signals are for the process's own thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -rpi_test_point("watch.thread");
	if (!err)
		err = pthread_create(&runtime->watch, NULL, watch, runtime);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return rpi_fail(-err, "kernel_timeout_s: starting a thread: %s",
				strerror(err));
	runtime->watched = true;
	return 0;
}

void rpi_watch_stop(struct rpi_runtime *runtime)
{
	if (!runtime->watched)
		return;
	atomic_store_explicit(&runtime->watch_stop, 1, memory_order_release);
	rpi_futex_wake_all(&runtime->watch_stop, RPI_FUTEX_PRIVATE);
	pthread_join(runtime->watch, NULL);
}
