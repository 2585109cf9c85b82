/* SPDX-License-Identifier: MIT */
/*
 * The compute threads. They take kernels from the ready queue, and sleep when there have
 * been none for a while; whoever puts one in wakes one of them if any sleeps.
 *
 * Sleep, an edge in one total order (seq_cst): a thread sets `asleep` and counts itself
 * in `sleepers`, then looks at the queue's `put_at`; a producer moves `put_at` (R3), then
 * looks at `sleepers`. One of them sees the other. Whoever takes `asleep` back takes the
 * thread out of the count: a thread is woken by one producer only.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/testing.h"
#include "runtime/runtime.h"

#define PATIENT_NS   20000u
#define IMPATIENT_NS 1000u

static bool stopped(struct rpi_runtime *runtime)
{
	return atomic_load_explicit(&runtime->stop, memory_order_seq_cst);
}

static bool spin(struct rpi_runtime *runtime)
{
	const uint64_t budget =
		rpi_clock_from_ns(runtime->config.patient ? PATIENT_NS : IMPATIENT_NS);
	uint64_t begin = rpi_clock_ticks();

	do {
		rpi_cpu_pause();
		if (rpi_ready_any(&runtime->ready) || stopped(runtime))
			return true;
	} while (rpi_clock_ticks() - begin < budget);
	return false;
}

/* True: it slept, and this call has woken it. */
static bool wake(struct rpi_runtime *runtime, struct rpi_hand *hand)
{
	/* Relaxed: exact is the exchange alone. */
	if (!atomic_load_explicit(&hand->asleep, memory_order_relaxed) ||
	    !atomic_exchange_explicit(&hand->asleep, 0, memory_order_seq_cst))
		return false;
	atomic_fetch_sub_explicit(&runtime->sleepers, 1, memory_order_seq_cst);
	rpi_futex_wake_one(&hand->asleep, RPI_FUTEX_PRIVATE);
	return true;
}

static void sleep_idle(struct rpi_runtime *runtime, struct rpi_hand *hand)
{
	atomic_store_explicit(&hand->asleep, 1, memory_order_seq_cst);
	atomic_fetch_add_explicit(&runtime->sleepers, 1, memory_order_seq_cst);
	while (!rpi_ready_any(&runtime->ready) && !stopped(runtime)) {
		rpi_futex_wait(&hand->asleep, 1, RPI_FUTEX_PRIVATE, UINT64_MAX);
		if (!atomic_load_explicit(&hand->asleep, memory_order_seq_cst))
			return;
	}
	if (atomic_exchange_explicit(&hand->asleep, 0, memory_order_seq_cst))
		atomic_fetch_sub_explicit(&runtime->sleepers, 1, memory_order_seq_cst);
}

/* What is in the queue waits for something outside. A kernel that comes to it meanwhile
 * ends the sleep; one that has come a moment before waits for the sleep's end. */
static void bide(struct rpi_runtime *runtime, struct rpi_hand *hand)
{
	uint64_t sleep_ns = rpi_hand_bide_ns(hand);

	if (!sleep_ns || stopped(runtime))
		return;
	atomic_store_explicit(&hand->asleep, 1, memory_order_seq_cst);
	atomic_fetch_add_explicit(&runtime->sleepers, 1, memory_order_seq_cst);
	rpi_futex_wait(&hand->asleep, 1, RPI_FUTEX_PRIVATE, rpi_now_ns() + sleep_ns);
	if (atomic_exchange_explicit(&hand->asleep, 0, memory_order_seq_cst))
		atomic_fetch_sub_explicit(&runtime->sleepers, 1, memory_order_seq_cst);
}

static void idle(struct rpi_runtime *runtime, struct rpi_hand *hand, enum rpi_work work)
{
	if (work == RPI_WORK_MISS)
		bide(runtime, hand);
	else if (!spin(runtime))
		sleep_idle(runtime, hand);
}

static void *work_on(void *arg)
{
	struct rpi_hand *hand = arg;
	struct rpi_runtime *runtime = hand->runtime;

	prctl(PR_SET_NAME, "rp-compute", 0, 0, 0);
	/* Relaxed: who finds it missing looks again later. */
	atomic_store_explicit(&hand->tid, (int32_t)syscall(SYS_gettid),
			      memory_order_relaxed);
	/* A wish: where it is refused they run where the opener does. */
	if (runtime->config.cpus)
		sched_setaffinity(0, sizeof(*runtime->config.cpus), runtime->config.cpus);
	while (!stopped(runtime)) {
		enum rpi_work work = rpi_hand_work(hand);

		if (work != RPI_WORK_RAN)
			idle(runtime, hand, work);
	}
	return NULL;
}

void rpi_crew_call(struct rpi_runtime *runtime)
{
	uint32_t i;

	if (rpi_likely(!atomic_load_explicit(&runtime->sleepers, memory_order_seq_cst)))
		return;
	for (i = 0; i < runtime->config.compute_threads; i++)
		if (wake(runtime, &runtime->crew[i]))
			return;
}

static int start(struct rpi_hand *hand)
{
	int err = -rpi_test_point("crew.thread");

	if (!err)
		err = pthread_create(&hand->thread, NULL, work_on, hand);
	return -err;
}

int rpi_crew_start(struct rpi_runtime *runtime)
{
	const uint32_t count = runtime->config.compute_threads;
	sigset_t all, before;
	uint32_t i;
	int err = 0;

	if (!count)
		return 0;
	runtime->crew =
		aligned_alloc(_Alignof(struct rpi_hand), count * sizeof(*runtime->crew));
	if (!runtime->crew)
		return rpi_fail(-ENOMEM, "compute_threads %u: no memory", count);
	memset(runtime->crew, 0, count * sizeof(*runtime->crew));
	/* Signals are for the process's own thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < count && !err; i++) {
		runtime->crew[i].runtime = runtime;
		err = start(&runtime->crew[i]);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		return 0;
	/* The last one does not run. */
	runtime->config.compute_threads = i - 1;
	rpi_crew_stop(runtime);
	return rpi_fail(err, "compute_threads %u: starting thread %u: %s", count, i - 1,
			strerror(-err));
}

void rpi_crew_stop(struct rpi_runtime *runtime)
{
	const uint32_t count = runtime->config.compute_threads;
	uint32_t i;

	atomic_store_explicit(&runtime->stop, 1, memory_order_seq_cst);
	for (i = 0; i < count; i++)
		wake(runtime, &runtime->crew[i]);
	for (i = 0; i < count; i++)
		pthread_join(runtime->crew[i].thread, NULL);
	free(runtime->crew);
	runtime->crew = NULL;
}
