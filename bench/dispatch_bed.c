/* SPDX-License-Identifier: MIT */
#include "dispatch_bed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/memory.h>
#include <ringplane/run.h>

#include "base/cpu.h"
#include "base/error.h"
#include "empty.h"
#include "limit.h"

/* Dispatches after which a spin budget has found the gaps it will see. */
#define SETTLE_COUNT 8

/* Slices in which a worker that sleeps serves: about a run of them. */
#define RENEW_TURNS 4

/* First half in, second half out. */
static int entry_copy(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	for (size_t i = 0; i < nargs / 2; i++)
		memcpy(args[nargs / 2 + i].u.tensor.data, args[i].u.tensor.data,
		       DISPATCH_TENSOR_BYTES);
	return 0;
}

/* As many empty tasks as the variant says, chips in turn. */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct dispatch_variant *variant = user;
	const struct rp_task task = { .chip = RP_CHIP_ANY };

	(void)args;
	(void)nargs;
	for (uint32_t i = 0; i < variant->task_count; i++) {
		int err = rp_run_task(run, &task);

		if (err)
			return err;
	}
	return 0;
}

uint64_t *dispatch_bed_in(const struct dispatch_bed *bed, uint32_t idx)
{
	return (uint64_t *)(void *)(bed->tensors + (size_t)idx * RPI_SHARE_ALIGN);
}

uint64_t *dispatch_bed_out(const struct dispatch_bed *bed, uint32_t idx)
{
	return dispatch_bed_in(bed, bed->variant->pair_count + idx);
}

static int make_args(struct dispatch_bed *bed)
{
	const int64_t shape[] = { DISPATCH_TENSOR_BYTES };
	void *tensors;
	int err;

	if (!bed->variant->pair_count)
		return 0;
	bed->arg_count = (size_t)bed->variant->pair_count * 2;
	err = rp_shared_alloc(bed->arg_count * RPI_SHARE_ALIGN, &tensors);
	if (err)
		return err;
	bed->tensors = tensors;
	for (size_t i = 0; !err && i < bed->arg_count; i++) {
		struct rp_tensor tensor;

		err = rp_tensor_host(&tensor, dispatch_bed_in(bed, (uint32_t)i), RP_UINT8,
				     1, shape);
		bed->args[i] = rp_arg_tensor(tensor);
	}
	return err;
}

static int make_program(struct dispatch_bed *bed)
{
	static const char *const names[2 * DISPATCH_PAIRS_MAX] = { "a", "b", "c", "d",
								   "e", "f", "g", "h" };
	const struct dispatch_variant *variant = bed->variant;
	const struct rp_entry entry = {
		.name = "entry",
		.fn = variant->pair_count ? entry_copy : bench_empty_entry,
	};
	struct rp_param params[2 * DISPATCH_PAIRS_MAX] = { 0 };
	struct rp_program_desc desc;

	for (size_t i = 0; i < bed->arg_count; i++) {
		params[i].name = names[i];
		params[i].kind = RP_ARG_TENSOR;
		params[i].dtype = RP_UINT8;
		params[i].access = i < variant->pair_count ? RP_IN : RP_OUT;
		params[i].rank = 1;
		params[i].shape[0] = DISPATCH_TENSOR_BYTES;
	}
	rp_program_desc_init(&desc);
	desc.name = variant->name;
	desc.params = params;
	desc.param_count = bed->arg_count;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = variant->task_count ? orchestrate : NULL;
	desc.user = (void *)(uintptr_t)variant;
	return rp_program_create(&desc, &bed->program);
}

static void free_bed(struct dispatch_bed *bed)
{
	rp_program_free(bed->program);
	rp_shared_free(bed->tensors);
	free(bed);
}

int dispatch_bed_setup(struct bench_case *c)
{
	struct dispatch_bed *bed = calloc(1, sizeof(*bed));
	int err;

	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	bed->variant = c->arg;
	err = make_args(bed);
	if (!err)
		err = make_program(bed);
	if (err) {
		free_bed(bed);
		return err;
	}
	c->data = bed;
	return 0;
}

/* Let both sides' spins find their budgets, untimed. */
static int settle(struct bench_case *c)
{
	double ns[SETTLE_COUNT];
	struct bench_samples samples = { .ns = ns, .capacity = SETTLE_COUNT };
	struct bench_round round = { .ops = SETTLE_COUNT, .samples = &samples };
	struct dispatch_bed *bed = c->data;
	int err;

	bed->settling = true;
	err = c->round(c, &round);
	bed->settling = false;
	if (!err && round.failures)
		return -EIO;
	return err;
}

static int start_worker(struct bench_case *c)
{
	struct dispatch_bed *bed = c->data;
	const struct dispatch_variant *variant = bed->variant;
	struct rp_worker_options options;

	rp_worker_options_init(&options);
	options.chip_count = variant->chip_count;
	options.wait = variant->wait;
	options.worker_wait = variant->wait;
	bed->dispatch_count = 0;
	return bench_worker_start(c->options, bed->program, &options, variant->place,
				  &bed->worker);
}

/* Whatever a dispatch failed with has been counted where it was waited for. */
static void stop_worker(struct dispatch_bed *bed)
{
	bench_worker_stop(bed->worker);
	bed->worker = NULL;
}

int dispatch_bed_enter(struct bench_case *c)
{
	struct dispatch_bed *bed = c->data;
	int err = 0;

	if (bed->turn++ % RENEW_TURNS == 0)
		stop_worker(bed);
	if (!bed->worker)
		err = start_worker(c);
	if (!err)
		err = settle(c);
	if (err)
		stop_worker(bed);
	return err;
}

static void remark(struct bench_case *c, const struct dispatch_bed *bed)
{
	double dispatches = bed->dispatches ? (double)bed->dispatches : 1.0;

	if (bed->clock_ns > 0.0)
		rpi_format(c->remark, sizeof(c->remark),
			   "%.1f ns for the clock itself subtracted from each sample",
			   bed->clock_ns);
	else if (bed->variant->gap_ns)
		rpi_format(c->remark, sizeof(c->remark),
			   "a dispatch let the chip sleep %.3f times, the caller %.3f",
			   (double)bed->worker_sleeps / dispatches,
			   (double)bed->caller_sleeps / dispatches);
}

void dispatch_bed_leave(struct bench_case *c)
{
	struct dispatch_bed *bed = c->data;

	if (bed->variant->wait == RP_WAIT_SPIN)
		stop_worker(bed);
	remark(c, bed);
}

void dispatch_bed_teardown(struct bench_case *c)
{
	stop_worker(c->data);
	free_bed(c->data);
	c->data = NULL;
}

int dispatch_bed_check(struct dispatch_bed *bed, struct bench_round *round)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	uint64_t tasks = bed->variant->task_count ? bed->variant->task_count : 1;
	int err = rp_worker_get_stats(bed->worker, &stats);

	if (err)
		return err;
	bed->dispatch_count += round->ops;
	if (stats.dispatches != bed->dispatch_count ||
	    stats.tasks != bed->dispatch_count * tasks || stats.dispatches_failed) {
		rpi_fail(-EIO,
			 "%s: %" PRIu64 " runs of %" PRIu64 " tasks dispatched, %" PRIu64
			 " accepted, %" PRIu64 " failed, %" PRIu64 " tasks ended",
			 bed->variant->name, bed->dispatch_count, tasks, stats.dispatches,
			 stats.dispatches_failed, stats.tasks);
		round->failures++;
	}
	round->work += round->ops * tasks;
	return 0;
}

int dispatch_bed_plan(struct bench_plan *plan, const struct dispatch_variant *variant)
{
	struct bench_case c = { .unit = "ns",
				.limits = variant->limits,
				.arg = variant,
				.setup = dispatch_bed_setup,
				.round = variant->round,
				.teardown = dispatch_bed_teardown,
				.enter = dispatch_bed_enter,
				.leave = dispatch_bed_leave };

	if (!variant->round)
		return bench_limit_plan(plan, variant->name);
	rpi_format(c.name, sizeof(c.name), "%s", variant->name);
	return bench_plan_add(plan, &c);
}

int dispatch_bed_plan_spin(struct bench_plan *plan)
{
	static const struct dispatch_variant spin[] = {
		{ .name = "limits.pingpong.line" },
		{ .name = DISPATCH_SPIN,
		  .limits = "limits.pingpong.line",
		  .wait = RP_WAIT_SPIN,
		  .round = dispatch_run_round },
	};
	int err = dispatch_bed_plan(plan, &spin[0]);

	return err ? err : dispatch_bed_plan(plan, &spin[1]);
}
