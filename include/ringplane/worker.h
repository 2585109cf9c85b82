/* SPDX-License-Identifier: MIT */
/*
 * A prepared worker: one forked process per chip and per callback worker, the
 * memory that they share with this process, and two frames in which dispatches
 * travel. Only the process that prepared it may use it; no fork of that one.
 */
#ifndef RINGPLANE_WORKER_H
#define RINGPLANE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/capture.h>
#include <ringplane/export.h>
#include <ringplane/handle.h>
#include <ringplane/host.h>
#include <ringplane/memory.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_worker;

/* Chips and callback workers of one worker, together. */
#define RP_MAX_PEERS 64

/* How a side waits. A sleeper is woken by one wake-up, one awake by none. */
enum rp_wait_policy {
	RP_WAIT_HYBRID = 0, /* spin for a budget that follows the gaps, then sleep */
	RP_WAIT_SPIN = 1,   /* never sleep */
	RP_WAIT_BLOCK = 2,  /* look once, then sleep */
};

/* What becomes of retained windows between two runs of a persistent worker. */
enum rp_window_reset {
	RP_WINDOWS_DEFAULT = 0, /* reset when persistent */
	RP_WINDOWS_RESET = 1,	/* read zero when a run's tasks start */
	/* The same, but zeroed as soon as a run is done with them, beside what the host
	 * does until the next one. A chip is busy until all members are done. */
	RP_WINDOWS_RESET_EAGER = 2,
	RP_WINDOWS_RESET_OFF = 3, /* keep what the run before left in them */
};

/* How windows are zeroed. */
enum rp_reset_engine {
	RP_RESET_AUTO = 0,   /* the fastest for the size */
	RP_RESET_MEMSET = 1, /* through the cache */
	RP_RESET_STREAM = 2, /* non-temporal stores */
	RP_RESET_CHUNK = 3,  /* copies of a read-only 1 MiB chunk of zeroes */
	RP_RESET_AHEAD = 4,  /* through the cache, lines asked for ahead */
};

/* What a side sleeps in. */
enum rp_sleep_engine {
	RP_SLEEP_AUTO = 0, /* io_uring where it works, else futex; the environment's
			    * RINGPLANE_PARK=futex or =uring decides instead */
	RP_SLEEP_URING = 1,
	RP_SLEEP_FUTEX = 2,
};

/*
 * Fill with rp_worker_options_init(), then change what matters. Zero means the
 * default, except where a comment says otherwise.
 */
struct rp_worker_options {
	size_t size; /* sizeof(struct rp_worker_options) */

	/* Chips, one process each. Default 1. */
	uint32_t chip_count;

	/* Seconds until every process must be ready: positive and finite; 0 is
	 * refused. rp_worker_options_init() sets 300. */
	double startup_timeout_s;

	/* chip_count CPU numbers to pin the chips to, -1 leaves one free. NULL: none.
	 * Where there are several memory nodes, a pinned chip's memory and the chunks
	 * that its copies pass through are asked for from its CPU's. Read during the call
	 * only. */
	const int *chip_cpus;

	/* Waiting, for the caller's threads and for the worker processes. */
	enum rp_wait_policy wait;
	enum rp_wait_policy worker_wait;

	/* Bounds of the hybrid spin, in us. Defaults 20 and 200. When the processes that
	 * want to spin outnumber the CPUs, a spin gives its CPU away: at once where who
	 * is waited for was last on the same one, else every 2 or 20 us. When they are
	 * more than twice as many nobody spins, unless bounds are given. */
	uint32_t spin_us_min;
	uint32_t spin_us_max;
	enum rp_sleep_engine sleep_engine;

	/* Huge pages for the regions and the device memory. */
	enum rp_page_policy pages;

	/* Device memory of each chip, bytes. Default 1 GiB, backed on first use. A
	 * quarter of it, 256 MiB at most, is scratch for host arguments of tasks. */
	size_t device_memory_bytes;

	/* Entries work on shared host memory in place: no copies, no private
	 * device memory for arguments. */
	bool unified_memory;

	/* Tasks (a power of two, from 4) and bytes of task arguments (4 KiB or more)
	 * that one process can have queued; a full ring presses back. Defaults 1024
	 * and 256 KiB. */
	uint32_t task_ring_slots;
	size_t arg_ring_bytes;

	/* Handles that may exist unreleased, dispatches in flight that have none or
	 * have been released included; 2 or more. Default 4096. */
	uint32_t handle_count;

	/* An io_uring of the caller, made before this call: each finished dispatch
	 * posts one CQE with this user_data to it. Any other descriptor is refused.
	 * ring_fd -1: none (set by rp_worker_options_init()). */
	int ring_fd;
	uint64_t ring_user_data;

	/* Host ranges that the processes share. Overlapping ones are one storage, which
	 * has one mode. Ranges that the kernel confirms as shared are valid dispatch
	 * arguments too. Read during the call only. */
	const struct rp_host_range *inherited;
	size_t inherited_count;

	/* Retain comm domains for the worker's life instead of one run's. Runs then are
	 * worked off one after the other, and the first that fails after it has enqueued
	 * tasks is the last: one in flight behind it, and every later submit, returns its
	 * error. Default false. */
	bool persistent;
	enum rp_window_reset reset_windows; /* RESET and EAGER need `persistent` */
	enum rp_reset_engine reset_engine;

	/* Memory of each chip for windows of domains. Default 64 MiB, backed as windows
	 * come to use it; what is asked for here is backed before prepare returns. */
	size_t window_memory_bytes;

	/* Chip backend. NULL: the platform that the programs are built for. */
	const char *backend;

	/* Callbacks to bind by name, in every program that declares the name; they take
	 * the place of a program's own functions. No flags. A signature must accept all
	 * that the program's accepts, if both give one. Read during the call only;
	 * functions and user pointers must outlive the worker. */
	const struct rp_callback *callbacks;
	size_t callback_count;

	/* Callback processes, at most RP_MAX_PEERS together with the chips. Default the
	 * most that one of the programs asks for. */
	uint32_t callback_workers;

	/* One background thread takes requests from a queue and makes dispatches of them,
	 * in the order of their submits: a submit checks its arguments, leaves a snapshot
	 * and returns. Orchestrations run in that thread, with every signal blocked, and
	 * what they return is the outcome of the handle. */
	bool dispatcher;

	/* Requests that may be queued, beside the two dispatches in flight; a full queue
	 * blocks the submit. A power of two, at most 65536. Default 64. */
	uint32_t dispatcher_queue;

	/* Threads of each chip that run kernels (see kernel.h), pinned nowhere; the
	 * chip's own joins in while it waits. 0: that one alone. At most 256. */
	uint32_t compute_threads;

	/* Arenas of the chip runtime that each chip keeps, one per sizing of the rings.
	 * Default 1, at most 16. */
	uint32_t arena_cache;

	/* The rings to make ready ahead: those that a dispatch with this config uses.
	 * NULL: those of a dispatch without one. Read during the call only. */
	const struct rp_run_config *prewarm;

	/* How long no kernel of a run may end, while some have not, until the run is
	 * given up: a last net, for kernels that never end. What only waits (for a
	 * `ready`, for a signal) fails the run with -ETIMEDOUT. A kernel that runs can't
	 * be stopped: its chip's process ends, and the worker with it (-EOWNERDEAD). Both
	 * lines name kernel and ring. Must exceed the longest kernel by far. Default 0:
	 * no limit. */
	double kernel_timeout_s;

	/* Of dispatches whose config has none. The directory is made now. */
	struct rp_capture capture;
};

RP_API void rp_worker_options_init(struct rp_worker_options *options);

/* A size for all rings, and for single ones where those differ; 0: unset. */
struct rp_ring_sizes {
	uint64_t all;
	uint64_t ring[RP_RING_COUNT];
};

/*
 * What one dispatch may choose. Snapshotted when it is accepted.
 *
 * The sizes of the chip runtime's rings hold for this dispatch, on each of its chips.
 * What is unset comes from PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP and PTO2_RING_DEP_POOL
 * (one value, or four with commas) as they were when the worker was prepared, else from
 * the default.
 */
struct rp_run_config {
	size_t size;  /* sizeof(struct rp_run_config) */
	uint64_t tag; /* handed to the orchestration, entries and callbacks */
	/* Kernels in flight: a power of two, 4..INT32_MAX. Default 16384. */
	struct rp_ring_sizes ring_task_window;
	/* Bytes for outputs: a power of two, at least 1024. Default 256 MiB. */
	struct rp_ring_sizes ring_heap;
	/* Dependency edges: 4..INT32_MAX. Default 16384. */
	struct rp_ring_sizes ring_dep_pool;
	/* Files to write about this dispatch. */
	struct rp_capture capture;
};

RP_API void rp_run_config_init(struct rp_run_config *config);

/*
 * Check a config where it is built, as rp_worker_submit() will.
 *
 * Threads     any. Blocks: no.
 * Returns     0, or -EINVAL; the line names the field, its rule and the value.
 *             -EOPNOTSUPP for a capture that this build does not have
 * Spec        003, Validation
 */
RP_API int rp_run_config_check(const struct rp_run_config *config);

/*
 * Fork the worker processes and wait until all are ready.
 *
 * programs    what the worker can dispatch; at least one, none twice. They must agree
 *             on platform and runtime, and need the chip_count that the options give,
 *             or any. The worker keeps references.
 * options     NULL: all defaults. Read during the call only.
 * worker_out  end it with rp_worker_close(), release it with rp_worker_free().
 *
 * Blocks      yes: startup_timeout_s bounds the wait for the processes. Threads: any.
 * Returns     0
 *             -EINVAL      an option or a program, programs that don't agree, a callback
 *                          bound with another signature; found before any fork, but
 *                          for a CPU of chip_cpus that can't be had
 *             -ENOENT      callbacks that no program declares, or that are declared and
 *                          not bound; the line lists them
 *             -ETIMEDOUT   a process was not ready in time
 *             -EOWNERDEAD  a process died before it was ready, with its status
 *             -ENOMEM, -ENOSPC, -EMFILE, -ENFILE, -EFBIG, -EAGAIN  the system's limits;
 *                          -EMFILE also for more than 1024 workers at once
 *             -EOPNOTSUPP  no such backend, or it has no unified memory; a capture
 *                          that this build or machine does not have
 *             -ENOSYS, -EPERM  the kernel, or a sandbox, has no memfd_create()
 *             -EPROTO      a process wrote what it never may into shared memory
 *             other        what a process's own set-up failed with; with RP_SLEEP_URING
 *                          what the kernel says to a ring; of a capture's output_dir
 *             The line names the process and what it was at. After a failure nothing
 *             is left: no process, descriptor, memory.
 * Spec        001, prepare() Parameters Worth Knowing
 */
RP_API int rp_worker_prepare(struct rp_program *const *programs, size_t program_count,
			     const struct rp_worker_options *options,
			     struct rp_worker **worker_out);

/*
 * Start a dispatch. The program's orchestration runs in this thread. Two
 * dispatches may be in flight; a third first waits for the oldest to end, and
 * does not raise that one's error.
 *
 * On a worker with a dispatcher this queues a request, whose orchestration runs later in
 * the dispatcher's thread: its error, and the death of a process meanwhile, is the
 * outcome of the handle.
 *
 * program     one that the worker was prepared with; NULL when it has only one.
 * args        one per parameter, copied. Host memory must come from
 *             rp_shared_alloc(), before or after prepare, or lie in an inherited
 *             range; it stays the caller's, must not be changed or freed until the
 *             dispatch has ended, and overlapping dispatches need distinct
 *             written buffers.
 * config      NULL: defaults. Copied.
 * handle_out  release it with rp_handle_release().
 *
 * Threads     any, several at once; served in order of arrival.
 * Blocks      while two dispatches are in flight, another thread is submitting, a
 *             ring is full, or a busy process has some hundred new regions yet to
 *             take note of; with a dispatcher, while its queue is full. One that
 *             is captured, until it has ended.
 * Returns     0            accepted
 *             -EINVAL      argument count, kind, dtype, rank, shape, contiguity; the
 *                          config's size; program NULL of several
 *             -EFAULT      host memory that the chips can't see; names it
 *             -EACCES      a read-only inherited range for a parameter that is written
 *             -ESTALE, -EXDEV, -ERANGE  a resident tensor that was freed, is another
 *                          worker's, or reaches past its allocation
 *             -EMFILE, -ENOMEM  memory made after prepare could not be passed to
 *                          the processes; nothing else is wrong, try again
 *             -ENOENT      the program was not prepared on this worker
 *             -ENOSPC      handle_count handles are unreleased
 *             -EDEADLK     called from an orchestration of this worker
 *             -ESHUTDOWN   closed, or being closed
 *             -EOWNERDEAD  a worker process died
 *             -EOPNOTSUPP  a capture that this build or machine does not have
 *             -ENOTEMPTY   files in a capture's directory that no capture wrote
 *             -EBUSY       another worker captures under that number there
 *             other        what the orchestration returned, be it from rp_run_task();
 *                          what the system says of a capture's output_dir
 *             After an error nothing of this dispatch is in flight.
 * Spec        001, Bounded Asynchronous Dispatch
 */
RP_API int rp_worker_submit(struct rp_worker *worker, struct rp_program *program,
			    const struct rp_arg *args, size_t nargs,
			    const struct rp_run_config *config,
			    struct rp_handle *handle_out);

/* Submit, wait for the end, and release: returns either's error. Takes one of the
 * handle_count places meanwhile. */
RP_API int rp_worker_run(struct rp_worker *worker, struct rp_program *program,
			 const struct rp_arg *args, size_t nargs,
			 const struct rp_run_config *config);

/*
 * End the worker: refuse new dispatches and copies, let the accepted ones (queued
 * requests too) end in order, stop the processes and reap them. Idempotent; of several
 * closers one does the work and all return after it. Handles stay readable.
 *
 * timeout_ns  how long the accepted dispatches and copies may take;
 *             RP_WAIT_FOREVER waits. After it the processes are killed and what
 *             was going on ends with -EOWNERDEAD.
 *
 * Threads     any, also while others submit and wait. Blocks: yes.
 * Returns     0
 *             -ETIMEDOUT   the deadline passed and the processes were killed
 *             -EINVAL      timeout_ns is below RP_WAIT_FOREVER
 *             -EDEADLK     called from an orchestration of this worker
 *             -EBUSY       a window of a domain did not come free
 *             other        the first error among the dispatches that nobody had
 *                          waited for and whose handles are unreleased
 *             A later closer hears 0.
 * Spec        001, Methods (close)
 */
RP_API int rp_worker_close(struct rp_worker *worker, int64_t timeout_ns);

/* Close if that was not done, killing what still runs, and release everything.
 * Handles become stale. No other call on the worker may be going on. NULL: no-op. */
RP_API void rp_worker_free(struct rp_worker *worker);

/*
 * A descriptor for poll, epoll (level or edge triggered) or an io_uring poll:
 * readable once a dispatch accepted after the first call of this function has
 * ended, or a worker process died, until rp_worker_reap() has been called.
 * Before the first call finished dispatches raise nothing and cost nothing.
 *
 * Readable is a hint, after which rp_worker_reap() may find nothing: rp_worker_run()
 * has no handle to give, another thread may have been first, a process may raise it a
 * little after its run was collected, and a death brings no handle by itself.
 *
 * The library sends no signal and interrupts no wait on it. An epoll_wait() still ends
 * with EINTR for the application's own reasons, also without a signal: where the thread
 * has an io_uring with requests in flight, the end of one does it. Wait again then.
 *
 * Ownership   the worker's; never read, write or close it. Valid until free.
 * Returns     the descriptor, -ESHUTDOWN, or -EINVAL for NULL
 */
RP_API int rp_worker_fd(struct rp_worker *worker);

/*
 * Make rp_worker_fd() quiet and take the handles of dispatches that have ended since
 * its first call, or since prepare where ring_fd is given. Call it until it returns
 * less than `max`.
 *
 * handles_out  may hold handles that were released meanwhile (-ESTALE).
 * Returns      how many were stored, 0..max. Never blocks. Threads: any.
 */
RP_API size_t rp_worker_reap(struct rp_worker *worker, struct rp_handle *handles_out,
			     size_t max);

/* Stage later copies of inherited ranges again, those of rp_shared_alloc() excepted;
 * the processes keep their mappings until close. Idempotent. 0, or -EINVAL for NULL. */
RP_API int rp_worker_release_inherited(struct rp_worker *worker);

RP_API uint32_t rp_worker_chip_count(const struct rp_worker *worker);

/* Process id of a chip (0..chip_count-1) or, past those, a callback worker;
 * 0 when there is no such one or it has ended. */
RP_API int rp_worker_pid(const struct rp_worker *worker, uint32_t peer);

/* What this worker's sides sleep in, and why it is not io_uring ("" if it is). */
RP_API enum rp_sleep_engine rp_worker_sleep_engine(const struct rp_worker *worker,
						   const char **reason_out);

/*
 * What each region got: fills up to `max` entries and returns how many there
 * are. Reads /proc; not for the hot path.
 */
RP_API size_t rp_worker_memory_report(struct rp_worker *worker,
				      struct rp_region_info *info_out, size_t max);

/* Counters since prepare. Sums over the processes; read while they run. */
struct rp_worker_stats {
	size_t size;	     /* sizeof(struct rp_worker_stats), set by the caller */
	uint64_t dispatches; /* accepted */
	/* Ended with an error; also refused ones, of which tasks had been enqueued. */
	uint64_t dispatches_failed;
	uint64_t tasks;		  /* ended on chips and callback workers */
	uint64_t tasks_cancelled; /* not run because their run had failed */
	uint64_t bytes_to_device; /* copied for arguments */
	uint64_t bytes_from_device;
	uint64_t bytes_zeroed; /* of OUT arguments */
	uint64_t copies_to_device;
	uint64_t copies_from_device;
	uint64_t worker_sleeps;	  /* times a worker process slept */
	uint64_t worker_wakes;	  /* wake-ups that the caller sent to workers */
	uint64_t caller_sleeps;	  /* times a thread that waits for a run slept */
	uint64_t caller_wakes;	  /* wake-ups that workers sent to the caller */
	uint64_t ring_full_waits; /* times a full ring pressed back */
	uint64_t frame_waits;	  /* submits that found both frames taken */
	uint64_t bytes_staged;	  /* of explicit copies, through staging chunks */
	uint64_t bytes_named;	  /* of explicit copies, in place */
	uint64_t domains_allocated;
	uint64_t domains_released;
	uint64_t domains_leased;     /* uses of a retained one */
	uint64_t window_resets;	     /* one per chip and reset */
	uint64_t window_bytes_reset; /* zeroed by them */

	/* Of the dispatcher. */
	uint64_t queue_full_waits;  /* submits that found its queue full */
	uint64_t dispatcher_sleeps; /* times it slept */
	uint64_t dispatcher_wakes;  /* wake-ups sent to it */

	uint64_t kernels;	 /* submitted by entries */
	uint64_t arena_hits;	 /* entries with kernels that found their rings made */
	uint64_t arena_misses;	 /* and those that had to wait for them to be built */
	uint64_t arena_builds;	 /* at prepare, and for each miss */
	uint64_t arena_build_ns; /* what those took */
	uint64_t arena_bytes;	 /* of the arenas that chips hold now, as sized */
	/* Of heaps of the rings: used for the first time, and not backed ahead. */
	uint64_t arena_grown_bytes;

	/* Of dispatches_failed, by error: the death or the nonsense of a process
	 * (-EOWNERDEAD, -EPROTO); lack of memory or room (-ENOMEM, -ENOSPC); rings that
	 * could never drain (-EDEADLK); waits (-ETIMEDOUT, -ECANCELED); arguments or
	 * memory that may not be used (-EINVAL, -EFAULT, -EACCES, -ERANGE); any other. */
	uint64_t failed_process;
	uint64_t failed_memory;
	uint64_t failed_deadlock;
	uint64_t failed_timeout;
	uint64_t failed_argument;
	uint64_t failed_other;
};

/* Returns 0, or -EINVAL when size is not one this build knows. Threads: any. */
RP_API int rp_worker_get_stats(struct rp_worker *worker,
			       struct rp_worker_stats *stats_out);

#ifdef __cplusplus
}
#endif

#endif
