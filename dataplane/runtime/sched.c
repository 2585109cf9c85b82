/* SPDX-License-Identifier: MIT */
/* When kernels ran, for those who trace. */
#include "runtime/runtime.h"

void rpi_sched_note(struct rpi_hand *hand, uint64_t index, uint64_t submitted,
		    uint64_t ready, uint64_t began)
{
	const struct rpi_tracer *tracer = &hand->runtime->config.tracer;
	struct rpi_trace_of of = hand->runtime->of;
	uint64_t end = rpi_clock_ticks();

	if (!hand->first_begin)
		hand->first_begin = began;
	hand->last_end = end;
	of.value = index;
	if (rpi_trace_wants(tracer, RPI_TRACE_KERNELS))
		rpi_trace_record(tracer, RPI_SPAN_DEVICE_KERNEL, began, end, &of);
	if (rpi_runtime_noted(hand->runtime, RPI_TRACE_LIFE))
		rpi_trace_record(tracer, RPI_SPAN_KERNEL_LIFE, submitted, ready, &of);
	/* Its followers wait with this thread; better than a record that is lost. */
	if (hand->runtime->noted)
		rpi_trace_await_room(tracer, &hand->runtime->of);
}

static void fold(struct rpi_hand *hand, uint64_t *first_io, uint64_t *last_io)
{
	/* K3: the kernels of all hands have ended. */
	if (hand->first_begin && (!*first_io || hand->first_begin < *first_io))
		*first_io = hand->first_begin;
	if (hand->last_end > *last_io)
		*last_io = hand->last_end;
	hand->first_begin = hand->last_end = 0;
}

void rpi_sched_close(struct rpi_runtime *runtime)
{
	const struct rpi_tracer *tracer = &runtime->config.tracer;
	uint64_t first = 0, last = 0;
	uint32_t i;

	fold(&runtime->hand, &first, &last);
	for (i = 0; i < runtime->config.compute_threads; i++)
		fold(&runtime->crew[i], &first, &last);
	if (first && rpi_trace_wants(tracer, RPI_TRACE_DEVICE))
		rpi_trace_record(tracer, RPI_SPAN_DEVICE_SCHED, first, last,
				 &runtime->of);
}
