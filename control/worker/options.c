/* SPDX-License-Identifier: MIT */
/* Options, from what the caller gave to what is in force. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "completion/ring_fd.h"
#include "runtime/runtime.h"
#include "worker/worker.h"

#define DEFAULT_STARTUP_TIMEOUT_S 300.0
#define DEFAULT_DEVICE_MEMORY	  ((size_t)1 << 30)
#define DEFAULT_TASK_SLOTS	  1024u
#define DEFAULT_ARG_BYTES	  ((size_t)256 << 10)
#define DEFAULT_HANDLES		  4096u
#define DEFAULT_QUEUE		  64u
#define MAX_WINDOW_MEMORY	  ((size_t)1 << 40)

#define MAX_TASK_SLOTS		  (1u << 20)
#define MAX_ARG_BYTES		  ((size_t)1 << 30)
#define MIN_ARG_BYTES		  ((size_t)4 << 10)
#define MAX_HANDLES		  (1u << 20)
#define MAX_QUEUE		  (1u << 16)
#define MAX_SPIN_US		  10000000u

void rp_worker_options_init(struct rp_worker_options *options)
{
	memset(options, 0, sizeof(*options));
	options->size = sizeof(*options);
	options->startup_timeout_s = DEFAULT_STARTUP_TIMEOUT_S;
	options->ring_fd = -1;
}

void rp_run_config_init(struct rp_run_config *config)
{
	memset(config, 0, sizeof(*config));
	config->size = sizeof(*config);
}

static int check_range(const char *name, uint64_t value, uint64_t low, uint64_t high)
{
	if (value >= low && value <= high)
		return 0;
	return rpi_fail(-EINVAL,
			"rp_worker_prepare: %s %llu, expected %llu..%llu, or 0 for the "
			"default",
			name, (unsigned long long)value, (unsigned long long)low,
			(unsigned long long)high);
}

static int check_enum(const char *name, uint64_t value, uint64_t last)
{
	if (value <= last)
		return 0;
	return rpi_fail(-EINVAL, "rp_worker_prepare: %s %llu, expected 0..%llu", name,
			(unsigned long long)value, (unsigned long long)last);
}

static int check_power(const char *name, uint32_t value)
{
	if (!(value & (value - 1)))
		return 0;
	return rpi_fail(-EINVAL, "rp_worker_prepare: %s %u, expected a power of two",
			name, value);
}

static int check_timeout(double seconds)
{
	if (isfinite(seconds) && seconds > 0)
		return 0;
	return rpi_fail(
		-EINVAL,
		"rp_worker_prepare: startup_timeout_s %g, expected a positive finite "
		"number of seconds",
		seconds);
}

/* What 64 bits of nanoseconds hold, and more than anybody waits. */
#define MAX_KERNEL_TIMEOUT_S 1e9

static int check_kernel_timeout(double seconds)
{
	if (seconds >= 0 && seconds <= MAX_KERNEL_TIMEOUT_S)
		return 0;
	return rpi_fail(
		-EINVAL,
		"rp_worker_prepare: kernel_timeout_s %g, expected 0, for none, to "
		"%g seconds",
		seconds, MAX_KERNEL_TIMEOUT_S);
}

static int check_reset(const struct rp_worker_options *options)
{
	if (options->persistent || options->reset_windows == RP_WINDOWS_DEFAULT ||
	    options->reset_windows == RP_WINDOWS_RESET_OFF)
		return 0;
	return rpi_fail(-EINVAL,
			"rp_worker_prepare: reset_windows %d without persistent: there "
			"are no retained windows to reset",
			(int)options->reset_windows);
}

static int check(const struct rp_worker_options *options)
{
	int err;

	err = check_timeout(options->startup_timeout_s);
	if (!err)
		err = check_kernel_timeout(options->kernel_timeout_s);
	if (!err)
		err = check_range("chip_count", options->chip_count, 1, RP_MAX_PEERS);
	if (!err)
		err = check_enum("wait", options->wait, RP_WAIT_BLOCK);
	if (!err)
		err = check_enum("worker_wait", options->worker_wait, RP_WAIT_BLOCK);
	if (!err)
		err = check_enum("sleep_engine", options->sleep_engine, RP_SLEEP_FUTEX);
	if (!err)
		err = check_enum("pages", options->pages, RP_PAGES_NEVER);
	if (!err)
		err = check_enum("spin_us_min", options->spin_us_min, MAX_SPIN_US);
	if (!err)
		err = check_enum("spin_us_max", options->spin_us_max, MAX_SPIN_US);
	if (!err)
		err = check_range("device_memory_bytes", options->device_memory_bytes,
				  4096, (uint64_t)1 << 46);
	if (!err)
		err = check_range("task_ring_slots", options->task_ring_slots, 4,
				  MAX_TASK_SLOTS);
	if (!err)
		err = check_range("arg_ring_bytes", options->arg_ring_bytes,
				  MIN_ARG_BYTES, MAX_ARG_BYTES);
	if (!err)
		err = check_range("handle_count", options->handle_count, 2, MAX_HANDLES);
	if (!err)
		err = check_range("dispatcher_queue", options->dispatcher_queue, 1,
				  MAX_QUEUE);
	if (!err)
		err = check_enum("reset_windows", options->reset_windows,
				 RP_WINDOWS_RESET_OFF);
	if (!err)
		err = check_enum("reset_engine", options->reset_engine, RP_RESET_AHEAD);
	if (!err)
		err = check_enum("window_memory_bytes", options->window_memory_bytes,
				 MAX_WINDOW_MEMORY);
	if (!err)
		err = check_reset(options);
	if (!err)
		err = check_power("task_ring_slots", options->task_ring_slots);
	if (!err)
		err = check_power("dispatcher_queue", options->dispatcher_queue);
	if (!err)
		err = check_enum("compute_threads", options->compute_threads,
				 RPI_COMPUTE_THREADS_MAX);
	if (!err)
		err = check_range("arena_cache", options->arena_cache, 1,
				  RPI_ARENA_CACHED);
	if (!err && options->prewarm)
		err = rp_run_config_check(options->prewarm);
	if (err)
		return err;
	if (options->spin_us_max && options->spin_us_max < options->spin_us_min)
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: spin_us_max %u, expected at least "
				"spin_us_min %u",
				options->spin_us_max, options->spin_us_min);
	if (options->ring_fd != -1 &&
	    (options->ring_fd < 0 || !rpi_fd_is_ring(options->ring_fd)))
		return rpi_fail(-EINVAL,
				"rp_worker_prepare: ring_fd %d, expected the descriptor "
				"of an io_uring, or -1",
				options->ring_fd);
	return 0;
}

void rpi_worker_spin_init(const struct rp_worker *worker, enum rp_wait_policy policy,
			  struct rpi_spin *spin)
{
	const struct rp_worker_options *options = &worker->options;
	enum rpi_spin_policy how = (enum rpi_spin_policy)policy;

	/* Bounds that the caller gave are kept, however many processes there are. */
	if (worker->packed && policy == RP_WAIT_HYBRID && !options->spin_us_min &&
	    !options->spin_us_max)
		how = RPI_SPIN_NEVER;
	rpi_spin_init(spin, how, options->spin_us_min * UINT64_C(1000),
		      options->spin_us_max * UINT64_C(1000), worker->crowded);
}

int rpi_options_resolve(const struct rp_worker_options *given,
			struct rp_worker_options *out)
{
	int err;

	rp_worker_options_init(out);
	if (given) {
		if (given->size != sizeof(*given))
			return rpi_fail(
				-EINVAL,
				"rp_worker_prepare: options size %zu, expected %zu "
				"(use rp_worker_options_init())",
				given->size, sizeof(*given));
		*out = *given;
	}
	if (!out->chip_count)
		out->chip_count = 1;
	if (!out->device_memory_bytes)
		out->device_memory_bytes = DEFAULT_DEVICE_MEMORY;
	if (!out->task_ring_slots)
		out->task_ring_slots = DEFAULT_TASK_SLOTS;
	if (!out->arg_ring_bytes)
		out->arg_ring_bytes = DEFAULT_ARG_BYTES;
	if (!out->handle_count)
		out->handle_count = DEFAULT_HANDLES;
	if (!out->dispatcher_queue)
		out->dispatcher_queue = DEFAULT_QUEUE;
	if (!out->arena_cache)
		out->arena_cache = 1;
	err = check(out);
	/* Whole lines: what else belongs to the ring's neighbours. */
	out->arg_ring_bytes = (out->arg_ring_bytes + RPI_SHARE_ALIGN - 1) &
			      ~(size_t)(RPI_SHARE_ALIGN - 1);
	return err;
}
