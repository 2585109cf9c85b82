/* SPDX-License-Identifier: MIT */
/* rpbench limits: what this machine lets anybody reach. */
#include <errno.h>
#include <fnmatch.h>

#include "base/error.h"
#include "command.h"
#include "limit.h"

/* Calls behind one sample of a system call or of the clock. */
#define CALL_BATCH 256

/* Bytes that the samples of one run move at most, so that --ops can't take hours. */
#define RUN_BYTES_MAX (16ull << 30)

static const struct {
	const char *name;
	const struct bench_pingpong_kind *kind;
} pingpongs[] = {
	{ "limits.pingpong.line", &bench_line_kind },
	{ "limits.pingpong.payload", &bench_payload_kind },
	{ "limits.slotring", &bench_slotring_kind },
	{ "limits.futex", &bench_futex_kind },
	{ "limits.eventfd", &bench_eventfd_kind },
	{ "limits.pipe", &bench_pipe_kind },
	{ "limits.uring.msg", &bench_uring_kind },
	{ "limits.sleep", &bench_sleep_kind },
	{ "limits.yield", &bench_yield_kind },
};

static const struct {
	const char *name;
	size_t bytes;
} sizes[] = {
	{ "64KiB", 64u << 10 },
	{ "1MiB", 1u << 20 },
	{ "16MiB", 16u << 20 },
	{ "256MiB", 256u << 20 },
};

typedef int (*round_fn)(struct bench_case *c, struct bench_round *round);

static const struct {
	const char *name;
	round_fn round;
} copies[] = {
	{ "limits.memcpy", bench_memcpy_round },
	{ "limits.memset", bench_memset_round },
}, calls[] = {
	{ "limits.syscall", bench_syscall_round },
	{ "limits.clock", bench_clock_round },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Add a case if its name is wanted and new; counts what was wanted. */
static int add(struct bench_plan *plan, const char *pattern, const struct bench_case *c,
	       size_t *found)
{
	if (fnmatch(pattern, c->name, 0))
		return 0;
	++*found;
	return bench_plan_has(plan, c->name) ? 0 : bench_plan_add(plan, c);
}

static int add_pingpongs(struct bench_plan *plan, const char *pattern, size_t *found)
{
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(pingpongs); i++) {
		struct bench_case c = { .unit = "ns",
					.arg = pingpongs[i].kind,
					.setup = bench_pingpong_case_setup,
					.round = bench_pingpong_case_round,
					.teardown = bench_pingpong_case_teardown };

		rpi_format(c.name, sizeof(c.name), "%s", pingpongs[i].name);
		err = add(plan, pattern, &c, found);
	}
	return err;
}

static int add_copies(struct bench_plan *plan, const char *pattern, size_t *found)
{
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(copies) * COUNT(sizes); i++) {
		size_t copy = i / COUNT(sizes), size = i % COUNT(sizes);
		struct bench_case c = { .unit = "GB/s",
					.per_sample = (double)sizes[size].bytes,
					.arg = &sizes[size].bytes,
					.ops_max = RUN_BYTES_MAX / sizes[size].bytes,
					.setup = bench_memory_setup,
					.round = copies[copy].round,
					.teardown = bench_memory_teardown };

		rpi_format(c.name, sizeof(c.name), "%s.%s", copies[copy].name,
			   sizes[size].name);
		if (c.ops_max > BENCH_OPS_MAX)
			c.ops_max = BENCH_OPS_MAX;
		err = add(plan, pattern, &c, found);
	}
	return err;
}

static int add_calls(struct bench_plan *plan, const char *pattern, size_t *found)
{
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(calls); i++) {
		struct bench_case c = { .unit = "ns",
					.batch = CALL_BATCH,
					.round = calls[i].round };

		rpi_format(c.name, sizeof(c.name), "%s", calls[i].name);
		err = add(plan, pattern, &c, found);
	}
	return err;
}

static int add_fork(struct bench_plan *plan, const char *pattern, size_t *found)
{
	const struct bench_case c = { .name = "limits.fork",
				      .unit = "ns",
				      .enter = bench_fork_enter,
				      .leave = bench_fork_leave,
				      .round = bench_fork_round };

	return add(plan, pattern, &c, found);
}

int bench_limit_plan(struct bench_plan *plan, const char *pattern)
{
	size_t found = 0;
	int err = add_pingpongs(plan, pattern, &found);

	if (!err)
		err = add_copies(plan, pattern, &found);
	if (!err)
		err = add_calls(plan, pattern, &found);
	if (!err)
		err = add_fork(plan, pattern, &found);
	if (!err && !found)
		return rpi_fail(-ENOENT, "limits: \"%s\" names none", pattern);
	return err;
}

static int limits_plan(struct bench_plan *plan, const struct bench_options *options)
{
	(void)options;
	return bench_limit_plan(plan, "*");
}

const struct bench_command bench_limits_command = {
	.name = "limits",
	.summary = "what the machine allows: hand-off, wake-up, memory, calls",
	.plan = limits_plan,
};
