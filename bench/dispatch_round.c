/* SPDX-License-Identifier: MIT */
/* The timed loops of `rpbench dispatch`. As in the limits a sample holds one read of
 * the clock, and begins where the one before ended. */
#include <errno.h>

#include "base/cpu.h"
#include "base/error.h"
#include "clock.h"
#include "dispatch_bed.h"

/* Empty measurements from which the cost of one is taken. */
#define EMPTY_COUNT 255

int dispatch_run_round(struct bench_case *c, struct bench_round *round)
{
	struct dispatch_bed *bed = c->data;
	uint64_t before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		int err = rp_worker_run(bed->worker, bed->program, NULL, 0, NULL);

		if (err)
			return err;
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return dispatch_bed_check(bed, round);
}

/* Filling the inputs and looking at the outputs is part of it: else their lines would
 * not have to move. */
int dispatch_args_round(struct bench_case *c, struct bench_round *round)
{
	struct dispatch_bed *bed = c->data;
	const uint32_t pairs = bed->variant->pair_count;
	uint64_t before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t token = round->seed + i, wrong = 0;
		int err;

		for (uint32_t p = 0; p < pairs; p++)
			*dispatch_bed_in(bed, p) = token + p;
		err = rp_worker_run(bed->worker, bed->program, bed->args, bed->arg_count,
				    NULL);
		if (err)
			return err;
		for (uint32_t p = 0; p < pairs; p++)
			wrong |= *dispatch_bed_out(bed, p) ^ (token + p);
		if (rpi_unlikely(wrong)) {
			rpi_fail(-EIO, "%s: an output is not what went in", c->name);
			round->failures++;
		}
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return dispatch_bed_check(bed, round);
}

/* The caller stays awake in the gap, as one does that has work of its own. */
static void pass_time(uint64_t ns)
{
	uint64_t until = rpi_now_ns() + ns;

	while (rpi_now_ns() < until)
		rpi_cpu_pause();
}

static int note_sleeps(struct dispatch_bed *bed, const struct rp_worker_stats *before,
		       uint64_t ops)
{
	struct rp_worker_stats now = { .size = sizeof(now) };
	int err = rp_worker_get_stats(bed->worker, &now);

	bed->dispatches += ops;
	bed->worker_sleeps += now.worker_sleeps - before->worker_sleeps;
	bed->caller_sleeps += now.caller_sleeps - before->caller_sleeps;
	return err;
}

int dispatch_gap_round(struct bench_case *c, struct bench_round *round)
{
	struct dispatch_bed *bed = c->data;
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	int err = rp_worker_get_stats(bed->worker, &stats);

	for (uint64_t i = 0; !err && i < round->ops; i++) {
		uint64_t before;

		pass_time(bed->variant->gap_ns);
		before = bench_ticks();
		err = rp_worker_run(bed->worker, bed->program, NULL, 0, NULL);
		bench_samples_add(round->samples, bench_ticks_ns(bench_ticks() - before));
	}
	if (!err && !bed->settling)
		err = note_sleeps(bed, &stats, round->ops);
	return err ? err : dispatch_bed_check(bed, round);
}

/* The median of nothing: what two reads of the clock put into a sample. */
static double empty_ns(void)
{
	double ns[EMPTY_COUNT];

	for (int i = 0; i < EMPTY_COUNT; i++) {
		uint64_t before = bench_ticks();

		ns[i] = bench_ticks_ns(bench_ticks() - before);
	}
	return bench_median(ns, EMPTY_COUNT);
}

/* The chip is awake: it has ended the dispatch before just now. */
int dispatch_submit_round(struct bench_case *c, struct bench_round *round)
{
	struct dispatch_bed *bed = c->data;
	struct rp_handle handle;

	bed->clock_ns = empty_ns();
	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t before = bench_ticks(), after;
		double ns;
		int err = rp_worker_submit(bed->worker, bed->program, NULL, 0, NULL,
					   &handle);

		after = bench_ticks();
		if (!err)
			err = rp_handle_wait(handle, RP_WAIT_FOREVER);
		if (!err)
			err = rp_handle_release(handle);
		if (err)
			return err;
		ns = bench_ticks_ns(after - before) - bed->clock_ns;
		bench_samples_add(round->samples, ns > 0.0 ? ns : 0.0);
	}
	return dispatch_bed_check(bed, round);
}

static int end_one(struct rp_handle handle)
{
	int err = rp_handle_wait(handle, RP_WAIT_FOREVER);
	int released = rp_handle_release(handle);

	return err ? err : released;
}

int dispatch_pipelined_round(struct bench_case *c, struct bench_round *round)
{
	struct dispatch_bed *bed = c->data;
	struct rp_handle older, newer;
	uint64_t before, after;
	int err = rp_worker_submit(bed->worker, bed->program, NULL, 0, NULL, &older);

	if (err)
		return err;
	before = bench_ticks();
	/* The first of them has no time of its own: it only fills the pipe. */
	for (uint64_t i = 1; i < round->ops; i++) {
		err = rp_worker_submit(bed->worker, bed->program, NULL, 0, NULL, &newer);
		if (err)
			return err;
		err = end_one(older);
		if (err)
			return err;
		older = newer;
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	err = end_one(older);
	if (!err && round->ops == 1)
		bench_samples_add(round->samples, bench_ticks_ns(bench_ticks() - before));
	return err ? err : dispatch_bed_check(bed, round);
}
