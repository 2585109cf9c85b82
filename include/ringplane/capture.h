/* SPDX-License-Identifier: MIT */
/*
 * A capture writes files about one dispatch: where its time went, what followed what. It
 * is asked for in the dispatch's configuration (struct rp_run_config), or for every
 * dispatch of a worker that has none of its own (struct rp_worker_options).
 *
 * A captured dispatch is synchronous. It waits until earlier ones have ended, runs, and
 * writes; then rp_worker_submit() returns a handle that is done. So it must not be made
 * while an earlier dispatch waits for a later one. If the run fails there are still files
 * of what was seen of it, and its error is the handle's; if only the files fail, their
 * error is: what the system says of a file, -ENOBUFS where counters were lost, what
 * perf_event_open() says to a chip, -EPROTO where a process wrote nonsense.
 *
 * Files are in DIR/dispatch_N/: of all processes together, and in its rank<K>/ of each
 * chip, callback<K>/ of each callback worker. N is the run's number (rp_run_id()), of the
 * first one where the dispatch runs twice. Each file appears whole or not at all. The
 * first capture of a worker into a directory removes the dispatch_N/ of earlier ones,
 * whoever made them; what no capture has written there is never touched, and refused
 * (-ENOTEMPTY), and so is what another worker is writing just then (-EBUSY). So give
 * each of several workers a directory of its own.
 *
 * Swimlane of a program that has an orchestration, on a worker of more than one chip: the
 * dispatch runs twice. The first run notes who follows whom, the second is timed with
 * nothing else going on. Host tensors that the program writes are given their contents
 * back in between, so that they end up as after one run. What is not given back: resident
 * tensors, host memory that is no argument, windows of a persistent worker that are not
 * reset. Callbacks and the orchestration run twice; rp_run_pass() tells it which run it
 * is. If the first run fails there is no second one.
 *
 * Spec: 004, RunConfig (the capture fields); 001, Bounded Asynchronous Dispatch (two-pass
 * swimlane)
 */
#ifndef RINGPLANE_CAPTURE_H
#define RINGPLANE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Nothing is captured where no flag is set. With output_dir, but no flag, it is one of
 * its own all the same: such a dispatch is not captured by its worker's options.
 */
struct rp_capture {
	/* chip_swimlane_records.json: when things ran. Level 1: tasks. 2: and their
	 * parts, on the host and on the chip, and those of the submit. 3: and kernels,
	 * with their names. 4: and when each kernel was submitted, and when all that it
	 * follows had ended, so that waiting for others and waiting for a thread can be
	 * told apart. 0: none. */
	uint32_t enable_chip_swimlane;

	/* dep_gen.json and dep_gen.dot: who follows whom, and because of what memory:
	 * tasks of the run, and kernels of each task. */
	bool enable_dep_gen;

	/* pmu.csv: what the processor and the system counted around each task's entry,
	 * or callback, on its process's own thread and the chip's compute threads.
	 * -EOPNOTSUPP where nothing can be counted; what only some machines count is
	 * empty elsewhere. */
	bool enable_pmu;

	/* dump_args.json, and files of raw bytes: the arguments of each task as its entry
	 * saw them, before it and after. Takes its time: tasks that wait for each other
	 * with a time limit may miss it. */
	bool enable_dump_args;

	/* scope_stats.jsonl: how full each scope's rings have been, and what its submits
	 * waited for. An entry that used no kernels has no scope. */
	bool enable_scope_stats;

	/* Where to; made if it is not there, with its parents. Needed with any flag.
	 * Longer than the system takes, it is refused with -ENAMETOOLONG. Read during
	 * the call that it is given to. */
	const char *output_dir;

	/* The most that dump_args writes of one tensor, in bytes: its first elements. 0:
	 * all of it. */
	uint64_t dump_args_max_bytes;
};

/* The highest level of enable_chip_swimlane. */
#define RP_SWIMLANE_LEVEL_MAX 4

/*
 * Write a chip_swimlane_records.json as rp_trace_export() writes spans, for Perfetto and
 * chrome://tracing.
 *
 * Blocks      for the files. Threads: any.
 * Returns     0
 *             -EINVAL  a NULL; the file is no such record, or of another version
 *             -ENOMEM, or what one of the files says
 */
RP_API int rp_capture_export(const char *records_path, const char *path);

#ifdef __cplusplus
}
#endif

#endif
