/* SPDX-License-Identifier: MIT */
/* What the tests of the chip runtime share: a runtime in this process, without chips. */
#ifndef RPI_TESTS_KERNEL_BED_H
#define RPI_TESTS_KERNEL_BED_H

#include "check.h"
#include "runtime/runtime.h"

/* Sizes of all rings; 0: the default. */
struct kernel_bed {
	uint32_t threads;
	uint64_t window, heap, pool;
};

/* A runtime with a run begun. */
static inline struct rpi_runtime *kernel_open(struct kernel_bed bed)
{
	struct rpi_runtime_config config = { .compute_threads = bed.threads };
	/* Read when the first kernel comes. */
	static struct rp_run_config run;
	struct rpi_runtime *runtime;

	run = (struct rp_run_config){ .size = sizeof(run),
				      .ring_task_window = { .all = bed.window },
				      .ring_heap = { .all = bed.heap },
				      .ring_dep_pool = { .all = bed.pool } };
	assert_ok(rpi_runtime_open(&config, &runtime));
	rpi_runtime_begin(runtime, &run);
	return runtime;
}

/* End the run with this outcome, and the runtime. */
static inline void kernel_close(struct rpi_runtime *runtime, int want)
{
	const char *text;

	assert_int_equal(rpi_runtime_end(runtime, 0, &text), want);
	rpi_runtime_close(runtime);
}

/* A kernel that does nothing. */
static inline int kernel_nothing(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return 0;
}

static inline int kernel_submit(struct rpi_runtime *runtime, rp_kernel_fn fn,
				struct rp_arg *args, uint32_t arg_count)
{
	struct rp_kernel kernel = {
		.fn = fn, .name = "test", .args = args, .arg_count = arg_count
	};

	return rpi_runtime_submit(runtime, &kernel, NULL);
}

static inline int kernel_empty(struct rpi_runtime *runtime)
{
	return kernel_submit(runtime, kernel_nothing, NULL, 0);
}

/* Submit a kernel that has one output of so many bytes from the heap. */
static inline int kernel_output(struct rpi_runtime *runtime, int64_t bytes,
				struct rp_tensor *out)
{
	struct rp_arg arg = rp_out_new(RP_UINT8, 1, &bytes);
	int err = kernel_submit(runtime, kernel_nothing, &arg, 1);

	if (!err && out)
		*out = arg.u.tensor;
	return err;
}

#endif
