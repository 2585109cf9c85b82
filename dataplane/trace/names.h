/* SPDX-License-Identifier: MIT */
/*
 * The names of spans. Nesting is in the dots: a span's parent is the longest name of the
 * same task that its own begins with.
 *
 * X(identifier, domain, name): the domain is RPI_TRACE_*, the bit that turns it on.
 */
#ifndef RPI_TRACE_NAMES_H
#define RPI_TRACE_NAMES_H

#define RPI_SPAN_NAMES(X)                                                         \
	/* The caller's process. */                                               \
	X(QUEUE, HOST, "host.queue")                                              \
	X(SUBMIT, HOST, "host.submit")                                            \
	X(SUBMIT_FRAME, HOST, "host.submit.frame")                                \
	X(SUBMIT_BIND, HOST, "host.submit.bind")                                  \
	X(SUBMIT_ORCHESTRATE, HOST, "host.submit.orchestrate")                    \
	X(SUBMIT_PUBLISH, HOST, "host.submit.publish")                            \
	X(RUN, HOST, "host.run")                                                  \
	X(WAIT, HOST, "host.wait")                                                \
	/* A chip's process, per task. */                                         \
	X(CHIP_RUN, HOST, "chip.run")                                             \
	X(CHIP_FOLLOW, HOST, "chip.run.follow")                                   \
	X(CHIP_BIND, HOST, "chip.run.bind")                                       \
	X(CHIP_RUNNER, HOST, "chip.run.runner_run")                               \
	X(CHIP_WRITEBACK, HOST, "chip.run.writeback")                             \
	X(CHIP_RESET, HOST, "chip.reset")                                         \
	X(DEVICE_WALL, DEVICE, "chip.run.runner_run.device_wall")                 \
	X(DEVICE_ORCH, DEVICE, "chip.run.runner_run.device_wall.orch")            \
	X(DEVICE_SCHED, DEVICE, "chip.run.runner_run.device_wall.sched")          \
	X(DEVICE_KERNEL, KERNELS, "chip.run.runner_run.device_wall.sched.kernel") \
	/* A callback worker's process, per task. */                              \
	X(CALLBACK_RUN, HOST, "callback.run")                                     \
	X(CALLBACK_FOLLOW, HOST, "callback.run.follow")                           \
	X(CALLBACK_BIND, HOST, "callback.run.bind")                               \
	X(CALLBACK_CALL, HOST, "callback.run.call")                               \
	/* No length: the task follows another process's, `value` says which. */  \
	X(EDGE, EDGES, "edge")                                                    \
	/* For captures alone, of one kernel, whose number is in `value`.         \
	 * 16 bytes of its name, in `begin` and `end`; which, in `value`. */      \
	X(KERNEL_NAME, NAMES, "kernel.name")                                      \
	/* When it was submitted, and when it could start. */                     \
	X(KERNEL_LIFE, LIFE, "kernel.life")                                       \
	/* The chip waited for the capture's reader, between kernels. */          \
	X(PAUSE, NAMES, "capture.pause")                                          \
	/* It follows kernel `begin`; `end` says why: runtime/note.h. */          \
	X(KERNEL_EDGE, GRAPH, "kernel.edge")                                      \
	/* A scope has ended: a part of what is told of it; runtime/mark.h. */    \
	X(SCOPE, SCOPES, "scope")                                                 \
	/* Around an entry: when, and rpi_pmu_sum() in `value`; in `begin` and    \
	 * `end` how long its counters were on, and in how much of that they      \
	 * counted; a count, and in `value` of what: trace/pmu.h. */              \
	X(PMU_TIME, PMU, "pmu.time")                                              \
	X(PMU_ON, PMU, "pmu.on")                                                  \
	X(PMU_COUNT, PMU, "pmu.count")

enum rpi_trace_name {
#define RPI_SPAN_ID(id, domain, name) RPI_SPAN_##id,
	RPI_SPAN_NAMES(RPI_SPAN_ID)
#undef RPI_SPAN_ID
	RPI_SPAN_COUNT
};

#endif
