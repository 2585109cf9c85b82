/* SPDX-License-Identifier: MIT */
/*
 * Per request, with both sides awake: no system call, no allocation, no lock, no log.
 *
 * Memory order.
 *   Q1 queued   a submitter fills the request -> the ring's tail release;  the
 *               dispatcher acquire -> reads it
 *   Q2 free     the dispatcher has taken the contents over -> `spare`, or the free
 *               ring's tail, release;  a submitter acquire -> fills it anew
 *   Q3 doze     the dispatcher stores `dozing`, fence, looks at the ring; a
 *               submitter queues, fence, reads `dozing`
 *   Q4 room     who waits for a request stores `room`, fence, looks for one and
 *               at `closing` and `fall`; who gives one back, fence, reads `room`
 *   Q5 passed   the dispatcher builds a run -> the ring's cons.tail release;  acquire ->
 *               a thread that queued it knows what was published
 * Invariant: a request is free, or in one submitter's hands, or queued once, or in the
 * dispatcher's hands, or, at the end, the closer's: who has all of them knows that no
 * other thread has one.
 */
#include "dispatch/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/futex.h"
#include "base/testing.h"
#include "completion/fence.h"
#include "ring/burst.h"

/* Between a closer's looks. */
#define DRAIN_LOOK_NS 200000

static size_t aligned(size_t bytes)
{
	return (bytes + RPI_SHARE_ALIGN - 1) & ~(size_t)(RPI_SHARE_ALIGN - 1);
}

static struct rpi_request *request_at(const struct rpi_queue *queue, uint32_t idx)
{
	return (struct rpi_request *)(queue->requests + idx * queue->request_bytes);
}

static uint32_t index_of(const struct rpi_queue *queue, const struct rpi_request *request)
{
	return (uint32_t)((size_t)((const uint8_t *)request - queue->requests) /
			  queue->request_bytes);
}

/* --- Set-up ---------------------------------------------------------------- */

static struct rpi_burst *create_ring(uint32_t count, unsigned int flags)
{
	size_t bytes = aligned(rpi_burst_bytes(sizeof(uint32_t), count));
	struct rpi_burst *ring = aligned_alloc(RPI_SHARE_ALIGN, bytes);

	if (ring)
		rpi_burst_init(ring, bytes, sizeof(uint32_t), count, flags);
	return ring;
}

static void lay_out_requests(struct rpi_queue *queue, uint32_t params)
{
	uint32_t idx;

	/* Whole: the first requests must not fault. */
	memset(queue->requests, 0, queue->count * queue->request_bytes);
	for (idx = 0; idx < queue->count; idx++) {
		struct rpi_request *request = request_at(queue, idx);
		uint8_t *at = (uint8_t *)(request + 1);

		request->args = (struct rp_arg *)(void *)at;
		at += params * sizeof(*request->args);
		request->grants = (struct rpi_grant *)(void *)at;
		rpi_burst_push(queue->free, &idx, 1);
	}
}

int rpi_queue_create(struct rpi_plane *plane, uint32_t count, uint32_t params,
		     uint32_t tensors, struct rpi_queue **queue_out)
{
	struct rpi_queue *queue = aligned_alloc(RPI_SHARE_ALIGN, aligned(sizeof(*queue)));
	const size_t bytes =
		aligned(sizeof(struct rpi_request) + params * sizeof(struct rp_arg) +
			tensors * sizeof(struct rpi_grant));

	if (!queue)
		return rpi_fail(-ENOMEM, "prepare: no memory for the request queue");
	memset(queue, 0, sizeof(*queue));
	queue->plane = plane;
	queue->count = count;
	queue->request_bytes = bytes;
	queue->requests = aligned_alloc(RPI_SHARE_ALIGN, count * bytes);
	/* One more: a request is free before its run is built, and then leaves the ring.
	 */
	queue->ring = create_ring(count + 1, RPI_BURST_SC);
	queue->free = create_ring(count, 0);
	if (!queue->requests || !queue->ring || !queue->free ||
	    rpi_admission_init(&queue->turn)) {
		rpi_queue_destroy(queue);
		return rpi_fail(-ENOMEM,
				"prepare: no memory for %u requests of %zu bytes", count,
				bytes);
	}
	queue->spin = plane->gate.spin;
	lay_out_requests(queue, params);
	*queue_out = queue;
	return 0;
}

void rpi_queue_destroy(struct rpi_queue *queue)
{
	if (!queue)
		return;
	rpi_admission_fini(&queue->turn);
	free(queue->requests);
	free(queue->ring);
	free(queue->free);
	free(queue);
}

/* --- Free requests --------------------------------------------------------- */

static struct rpi_request *try_take(struct rpi_queue *queue)
{
	/* Q2 */
	uint32_t idx = atomic_exchange_explicit(&queue->spare, 0, memory_order_acq_rel);

	if (idx)
		idx--;
	else if (!rpi_burst_pop(queue->free, &idx, 1))
		return NULL;
	return request_at(queue, idx);
}

static void wake_room(struct rpi_queue *queue)
{
	if (atomic_exchange_explicit(&queue->room, 0, memory_order_acq_rel))
		rpi_futex_wake_all(&queue->room, RPI_FUTEX_PRIVATE);
}

void rpi_queue_give_back(struct rpi_queue *queue, struct rpi_request *request)
{
	/* Q2 */
	uint32_t old = atomic_exchange_explicit(
		&queue->spare, index_of(queue, request) + 1, memory_order_acq_rel);

	if (old--)
		rpi_burst_push(queue->free, &old, 1);
	rpi_fence(); /* Q4 */
	if (rpi_unlikely(atomic_load_explicit(&queue->room, memory_order_relaxed)))
		wake_room(queue);
}

void rpi_queue_rouse(struct rpi_queue *queue)
{
	if (!queue)
		return;
	rpi_fence(); /* Q4 */
	wake_room(queue);
}

static bool none_free(const struct rpi_queue *queue)
{
	return !atomic_load_explicit(&queue->spare, memory_order_acquire) &&
	       !rpi_burst_count(queue->free);
}

static void sleep_for_room(struct rpi_queue *queue)
{
	struct rpi_plane *plane = queue->plane;

	atomic_store_explicit(&queue->room, 1, memory_order_relaxed);
	rpi_fence(); /* Q4 */
	if (none_free(queue) &&
	    !atomic_load_explicit(&plane->closing, memory_order_seq_cst) &&
	    atomic_load_explicit(&plane->fall, memory_order_acquire) == RPI_FALL_NONE)
		rpi_futex_wait(&queue->room, 1, RPI_FUTEX_PRIVATE, UINT64_MAX);
	atomic_exchange_explicit(&queue->room, 0, memory_order_acq_rel);
}

/* This thread's turn has come; those behind it wait for theirs. */
static int await_free(struct rpi_queue *queue, struct rpi_request **request_out)
{
	struct rpi_spin_wait wait;
	struct rpi_spin mine;
	bool spins = true;
	int err;

	rpi_gate_borrow(queue->plane, &mine);
	rpi_spin_begin(&wait, &mine);
	for (;;) {
		err = rpi_plane_check_open(queue->plane);
		if (err)
			return err;
		*request_out = try_take(queue);
		if (*request_out)
			return 0;
		spins = spins && rpi_spin_again(&wait);
		if (!spins)
			sleep_for_room(queue);
	}
}

static __attribute__((noinline)) void leave_turn(struct rpi_queue *queue)
{
	rpi_admission_leave(&queue->turn);
	atomic_fetch_sub_explicit(&queue->blocked, 1, memory_order_relaxed);
}

static __attribute__((noinline)) int take_in_turn(struct rpi_queue *queue,
						  struct rpi_request **request_out)
{
	int err;

	atomic_fetch_add_explicit(&queue->full_waits, 1, memory_order_relaxed);
	/* Relaxed: who comes later and does not see it yet is hardly later. */
	atomic_fetch_add_explicit(&queue->blocked, 1, memory_order_relaxed);
	rpi_admission_enter(&queue->turn);
	err = await_free(queue, request_out);
	if (err)
		leave_turn(queue);
	return err;
}

/* Who had to wait keeps its turn, until it has queued the request: else the next one
 * might be first. *turn_out says so; leave_turn() is due then. */
static int take(struct rpi_queue *queue, struct rpi_request **request_out, bool *turn_out)
{
	*turn_out = false;
	if (rpi_likely(!atomic_load_explicit(&queue->blocked, memory_order_relaxed))) {
		*request_out = try_take(queue);
		if (rpi_likely(*request_out))
			return 0;
	}
	*turn_out = true;
	return take_in_turn(queue, request_out);
}

/* --- Submitters ------------------------------------------------------------ */

static __attribute__((noinline)) void wake_dispatcher(struct rpi_queue *queue)
{
	/* Whoever takes the 1 owes the wake-up, so that there is exactly one. */
	if (!atomic_exchange_explicit(&queue->dozing, 0, memory_order_acq_rel))
		return;
	rpi_futex_wake_all(&queue->dozing, RPI_FUTEX_PRIVATE);
	atomic_fetch_add_explicit(&queue->wakes, 1, memory_order_relaxed);
}

static void queue_up(struct rpi_queue *queue, const struct rpi_request *request)
{
	uint32_t idx = index_of(queue, request);

	/* Q1. It has room for every request there is. */
	rpi_burst_push(queue->ring, &idx, 1);
	rpi_fence(); /* Q3 */
	if (rpi_unlikely(atomic_load_explicit(&queue->dozing, memory_order_relaxed)))
		wake_dispatcher(queue);
}

/* Fill the request with what the call was, and queue it. */
static int submit(struct rpi_queue *queue, struct rpi_request *request,
		  const struct rpi_offer *offer, uint64_t began,
		  struct rpi_ticket *ticket_out)
{
	struct rpi_handles *handles = &queue->plane->handles;
	struct rpi_call call = { .plane = queue->plane,
				 .program = request->program,
				 .args = request->args,
				 .grants = request->grants };
	uint64_t handle;
	int err;

	err = rpi_call_bind(&call, offer->args, offer->nargs);
	if (!err)
		err = rpi_handles_take(handles, offer->wants_handle, &request->handle_idx,
				       &handle);
	if (rpi_unlikely(err))
		return err;
	request->grant_count = call.grant_count;
	request->has_config = offer->config;
	request->capture = offer->capture;
	if (rpi_unlikely(offer->config != NULL))
		request->config = *offer->config;
	*ticket_out = (struct rpi_ticket){ .handle = handle,
					   .handle_idx = request->handle_idx };
	/* Relaxed: goes with the request, and with the handle. */
	atomic_store_explicit(&handles->slots[request->handle_idx].queued, RPI_QUEUED_YES,
			      memory_order_relaxed);
	request->began = began;
	request->queued = rpi_trace_open(&queue->plane->tracer, RPI_TRACE_HOST);
	queue_up(queue, request);
	return 0;
}

int rpi_queue_submit(struct rpi_queue *queue, const struct rpi_offer *offer,
		     uint64_t began, struct rpi_ticket *ticket_out)
{
	struct rpi_request *request;
	bool turn;
	int err;

	err = take(queue, &request, &turn);
	if (rpi_unlikely(err))
		return err;
	rpi_test_point("queue.taken");
	request->program = offer->program;
	request->program_idx = offer->program_idx;
	err = submit(queue, request, offer, began, ticket_out);
	if (rpi_unlikely(err))
		rpi_queue_give_back(queue, request);
	if (rpi_unlikely(turn))
		leave_turn(queue);
	return err;
}

/* Q5. Certain of this thread's own calls, whatever others do meanwhile: a request leaves
 * the ring once its run is built. */
static bool is_through(const struct rpi_queue *queue)
{
	return !rpi_burst_count(queue->ring);
}

void rpi_queue_pass(struct rpi_queue *queue)
{
	struct rpi_request *mark;
	struct rpi_spin_wait wait;
	struct rpi_spin mine;
	bool turn;

	if (rpi_plane_orchestrates(queue->plane) || is_through(queue))
		return;
	if (take(queue, &mark, &turn))
		return;
	mark->program = NULL;
	atomic_store_explicit(&mark->passed, 0, memory_order_relaxed);
	queue_up(queue, mark);
	if (turn)
		leave_turn(queue);
	rpi_gate_borrow(queue->plane, &mine);
	rpi_spin_begin(&wait, &mine);
	while (!atomic_load_explicit(&mark->passed, memory_order_acquire) &&
	       rpi_spin_again(&wait))
		;
	while (!atomic_load_explicit(&mark->passed, memory_order_acquire))
		rpi_futex_wait(&mark->passed, 0, RPI_FUTEX_PRIVATE, UINT64_MAX);
	rpi_queue_give_back(queue, mark);
}

/* --- The dispatcher -------------------------------------------------------- */

static bool stopped(const struct rpi_queue *queue)
{
	return atomic_load_explicit(&queue->stop, memory_order_acquire);
}

static bool has_work(const struct rpi_queue *queue)
{
	return !rpi_burst_empty(queue->ring) || stopped(queue);
}

static void doze(struct rpi_queue *queue)
{
	/* Also those that end before they begin: each is worth one wake-up at most. */
	atomic_fetch_add_explicit(&queue->sleeps, 1, memory_order_relaxed);
	atomic_store_explicit(&queue->dozing, 1, memory_order_relaxed);
	rpi_fence(); /* Q3 */
	if (!has_work(queue))
		rpi_futex_wait(&queue->dozing, 1, RPI_FUTEX_PRIVATE, UINT64_MAX);
	atomic_exchange_explicit(&queue->dozing, 0, memory_order_acq_rel);
}

static void await_work(struct rpi_queue *queue)
{
	struct rpi_spin_wait wait;
	bool slept = false;

	rpi_spin_begin(&wait, &queue->spin);
	while (!has_work(queue) && rpi_spin_again(&wait))
		;
	while (!has_work(queue)) {
		doze(queue);
		slept = true;
	}
	rpi_spin_end(&wait, slept);
}

/* Everything before the mark is a run by now. The waiting thread owns it once it says
 * so; a wake-up that comes late wakes nobody. */
static void pass_mark(struct rpi_request *mark)
{
	atomic_store_explicit(&mark->passed, 1, memory_order_release);
	rpi_futex_wake_all(&mark->passed, RPI_FUTEX_PRIVATE);
}

void rpi_queue_run(struct rpi_queue *queue)
{
	struct rpi_burst_span span;
	struct rpi_request *request;

	for (;;) {
		/* Q1 */
		if (!rpi_burst_peek(queue->ring, 1, &span)) {
			if (stopped(queue))
				return;
			await_work(queue);
			continue;
		}
		request = request_at(queue, *(const uint32_t *)span.first);
		rpi_test_point("dispatcher.taken");
		if (rpi_likely(request->program))
			rpi_plane_dispatch(queue->plane, request);
		else
			pass_mark(request);
		rpi_burst_consume(queue->ring, 1); /* Q5 */
	}
}

/* --- The end --------------------------------------------------------------- */

int rpi_queue_drain(struct rpi_queue *queue, uint64_t deadline_ns)
{
	struct timespec moment = { .tv_nsec = DRAIN_LOOK_NS };

	rpi_queue_rouse(queue);
	while (queue->collected < queue->count) {
		if (try_take(queue)) {
			queue->collected++;
			continue;
		}
		if (deadline_ns != UINT64_MAX && rpi_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&moment, NULL);
	}
	return 0;
}

void rpi_queue_stop(struct rpi_queue *queue)
{
	atomic_store_explicit(&queue->stop, 1, memory_order_seq_cst);
	rpi_fence(); /* Q3 */
	wake_dispatcher(queue);
}
