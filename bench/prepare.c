/* SPDX-License-Identifier: MIT */
/* rpbench prepare: from a program to ready processes, and back to none. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <ringplane/memory.h>

#include "base/error.h"
#include "clock.h"
#include "command.h"
#include "dispatch_worker.h"
#include "empty.h"
#include "limit.h"
#include "topology.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FORK	     "limits.fork"
#define MIB	     ((size_t)1 << 20)
#define REGIONS_MAX  16

/* Default options besides: a worker as most programs will have it. */
struct prepare_variant {
	const char *name;
	uint32_t chip_count;
	enum rp_page_policy pages;
	size_t shared_bytes; /* of rp_shared_alloc(), there before the prepare */
	bool times_close;    /* instead of the prepare */
};

static const struct prepare_variant variants[] = {
	{ .name = "prepare.1chip", .chip_count = 1 },
	{ .name = "prepare.2chips", .chip_count = 2 },
	{ .name = "prepare.8chips", .chip_count = 8 },
	{ .name = "prepare.2chips.4k", .chip_count = 2, .pages = RP_PAGES_NEVER },
	{ .name = "prepare.2chips.64MiB", .chip_count = 2, .shared_bytes = 64 * MIB },
	{ .name = "close.2chips", .chip_count = 2, .times_close = true },
};

struct prepare_bed {
	const struct prepare_variant *variant;
	struct rp_program *program;
	void *shared;
};

static int prepare_setup(struct bench_case *c)
{
	struct prepare_bed *bed = calloc(1, sizeof(*bed));
	int err;

	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	bed->variant = c->arg;
	err = bench_empty_program(c->name, &bed->program);
	if (err) {
		free(bed);
		return err;
	}
	c->data = bed;
	return 0;
}

/* The memory exists in this case's slices only: others would map it too. */
static int prepare_enter(struct bench_case *c)
{
	struct prepare_bed *bed = c->data;
	size_t bytes = bed->variant->shared_bytes;
	int err = bytes ? rp_shared_alloc(bytes, &bed->shared) : 0;

	return err ? err : bench_cpu_allow(NULL, 0);
}

static void prepare_leave(struct bench_case *c)
{
	struct prepare_bed *bed = c->data;

	bench_cpu_pin(c->options->cpu[BENCH_PARENT]);
	rp_shared_free(bed->shared);
	bed->shared = NULL;
}

static void prepare_teardown(struct bench_case *c)
{
	struct prepare_bed *bed = c->data;

	prepare_leave(c);
	rp_program_free(bed->program);
	free(bed);
	c->data = NULL;
}

static const char *page_name(enum rp_page_kind kind)
{
	switch (kind) {
	case RP_PAGE_4K:
		return "4k";
	case RP_PAGE_THP:
		return "thp";
	case RP_PAGE_HUGETLB:
		break;
	}
	return "huge";
}

/* What of it was backed, and with what. */
static void remark_memory(struct bench_case *c, struct rp_worker *worker)
{
	struct rp_region_info info[REGIONS_MAX];
	size_t count = rp_worker_memory_report(worker, info, REGIONS_MAX), at = 0;
	uint64_t populate_ns = 0;

	for (size_t i = 0; i < count && i < REGIONS_MAX; i++) {
		populate_ns += info[i].populate_ns;
		if (at + 1 < sizeof(c->remark))
			at += rpi_format(c->remark + at, sizeof(c->remark) - at,
					 "%s %.2f of %.2f MiB on %s (%.2f huge), ",
					 info[i].name,
					 (double)info[i].populated_bytes / (double)MIB,
					 (double)info[i].bytes / (double)MIB,
					 page_name(info[i].kind),
					 (double)info[i].huge_bytes / (double)MIB);
	}
	if (at + 1 < sizeof(c->remark))
		rpi_format(c->remark + at, sizeof(c->remark) - at,
			   "prefaulted in %.2f ms", (double)populate_ns / 1e6);
}

static int prepare_round(struct bench_case *c, struct bench_round *round)
{
	const struct prepare_bed *bed = c->data;
	struct rp_program *program = bed->program;
	struct rp_worker_options options;

	rp_worker_options_init(&options);
	options.chip_count = bed->variant->chip_count;
	options.pages = bed->variant->pages;
	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t begin = bench_ticks(), ready, end;
		struct rp_worker *worker;
		int err = rp_worker_prepare(&program, 1, &options, &worker);

		if (err)
			return err;
		ready = bench_ticks();
		if (!c->remark[0] && !bed->variant->times_close)
			remark_memory(c, worker);
		round->work += rp_worker_chip_count(worker);
		end = bench_ticks();
		err = rp_worker_close(worker, RP_WAIT_FOREVER);
		bench_samples_add(round->samples,
				  bench_ticks_ns(bed->variant->times_close
							 ? bench_ticks() - end
							 : ready - begin));
		rp_worker_free(worker);
		if (err)
			return err;
	}
	return 0;
}

static int prepare_plan(struct bench_plan *plan, const struct bench_options *options)
{
	int err = bench_limit_plan(plan, FORK);

	(void)options;
	for (size_t i = 0; !err && i < COUNT(variants); i++) {
		struct bench_case c = { .unit = "ns",
					.limits = variants[i].times_close ? NULL : FORK,
					.arg = &variants[i],
					.setup = prepare_setup,
					.round = prepare_round,
					.teardown = prepare_teardown,
					.enter = prepare_enter,
					.leave = prepare_leave };

		rpi_format(c.name, sizeof(c.name), "%s", variants[i].name);
		err = bench_plan_add(plan, &c);
	}
	return err;
}

const struct bench_command bench_prepare_command = {
	.name = "prepare",
	.summary = "what it costs to make a worker ready, and to end it",
	.plan = prepare_plan,
};
