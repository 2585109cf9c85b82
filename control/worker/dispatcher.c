/* SPDX-License-Identifier: MIT */
/* The thread that makes runs of queued requests; dispatch/queue.c is what it does. */
#include "dispatch/queue.h"

#include "process/thread.h"
#include "worker/worker.h"

static void *dispatch(void *arg)
{
	struct rp_worker *worker = arg;

	rpi_queue_run(worker->plane.queue);
	return NULL;
}

int rpi_dispatcher_create(struct rp_worker *worker, uint32_t params, uint32_t tensors)
{
	if (!worker->options.dispatcher)
		return 0;
	return rpi_queue_create(&worker->plane, worker->options.dispatcher_queue, params,
				tensors, &worker->plane.queue);
}

int rpi_dispatcher_start(struct rp_worker *worker)
{
	int err;

	if (!worker->plane.queue)
		return 0;
	err = rpi_thread_start(&worker->dispatcher, "rp-dispatcher", dispatch, worker);
	worker->has_dispatcher = !err;
	return err;
}

int rpi_dispatcher_drain(struct rp_worker *worker, uint64_t deadline_ns)
{
	return worker->plane.queue ? rpi_queue_drain(worker->plane.queue, deadline_ns)
				   : 0;
}

void rpi_dispatcher_stop(struct rp_worker *worker)
{
	if (!worker->has_dispatcher)
		return;
	rpi_queue_stop(worker->plane.queue);
	pthread_join(worker->dispatcher, NULL);
	worker->has_dispatcher = false;
}
