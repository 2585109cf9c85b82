/* SPDX-License-Identifier: MIT */
/* The caller's side of tracing: off the hot path, because nobody pays for it unasked. */
#include "dispatch/plane.h"

void rpi_run_span_record(struct rpi_plane *plane, enum rpi_trace_name name,
			 uint64_t began, uint64_t end, uint64_t run_seq,
			 uint32_t program_idx)
{
	const struct rpi_trace_of of = { .run_seq = run_seq,
					 .program = (uint16_t)program_idx,
					 .entry = RPI_SPAN_UNKNOWN };

	/* The time of a run may be wanted without its spans. */
	if (rpi_trace_wants(&plane->tracer, RPI_TRACE_HOST))
		rpi_trace_record(&plane->tracer, name, began, end, &of);
}

void rpi_run_timed(const struct rp_run *run)
{
	struct rpi_plane *plane = run->plane;
	const uint64_t end = rpi_clock_ticks();

	rpi_run_span_record(plane, RPI_SPAN_RUN, run->began, end, run->seq,
			    run->program_idx);
	if (rpi_trace_wants(&plane->tracer, RPI_TRACE_LATENCY))
		rpi_latency_add(&plane->tracer.trace->latency,
				rpi_clock_to_ns(end - run->began));
}
