/* SPDX-License-Identifier: MIT */
/* The timed loops of `rpbench copy`. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "clock.h"
#include "copy_bed.h"

/* A round of fewer has one copy more before, not timed: the runner's own stretch before
 * a slice would be empty, and the caches another case's. */
#define PRIME_BELOW 8

/* Words are looked for at another page each time, and at last ones too. */
static size_t probe_at(size_t bytes, uint64_t i)
{
	size_t last = bytes - sizeof(uint64_t);
	size_t at = (size_t)i * (4096 * 37 + 8) % bytes & ~(size_t)7;

	return i & 1 ? last : at < last ? at : 0;
}

static int copy_and_look(struct copy_bed *bed, struct bench_round *round, uint64_t i,
			 uint64_t *ticks_out)
{
	size_t at = probe_at(bed->variant->bytes, i);
	uint64_t want = round->seed + i + 1, before, got = 0;
	int err = copy_bed_mark(bed, at, want);

	if (err)
		return err;
	before = bench_ticks();
	err = copy_bed_transfer(bed);
	*ticks_out = bench_ticks() - before;
	if (!err)
		err = copy_bed_look(bed, at, &got);
	if (!err && got != want) {
		rpi_fail(-EIO, "copy: byte %zu has another word", at);
		round->failures++;
	}
	round->work += want;
	return err;
}

/* Staged bytes went through the chunks, others did not. */
static int check_path(struct copy_bed *bed, struct bench_round *round, uint64_t staged,
		      uint64_t named)
{
	uint64_t staged_now, named_now, wrong;
	int err = copy_bed_counted(bed, &staged_now, &named_now);

	if (err)
		return err;
	wrong = bed->variant->path == COPY_INHERITED ? staged_now - staged
						     : named_now - named;
	if (wrong) {
		rpi_fail(-EIO, "copy: %" PRIu64 " bytes went the other path", wrong);
		round->failures++;
	}
	return 0;
}

static int rate_loop(struct copy_bed *bed, struct bench_round *round)
{
	uint64_t ticks = 0;
	int err = 0;

	if (round->ops < PRIME_BELOW)
		err = copy_and_look(bed, round, round->ops, &ticks);
	for (uint64_t i = 0; !err && i < round->ops; i++) {
		err = copy_and_look(bed, round, i, &ticks);
		bench_samples_add(round->samples, bench_ticks_ns(ticks));
	}
	return err;
}

int copy_rate_round(struct bench_case *c, struct bench_round *round)
{
	struct copy_bed *bed = c->data;
	double caller_s, chips_s, caller_end_s, chips_end_s;
	uint64_t staged, named;
	int err = copy_bed_counted(bed, &staged, &named);

	copy_bed_cpu(bed, &caller_s, &chips_s);
	if (!err)
		err = rate_loop(bed, round);
	copy_bed_cpu(bed, &caller_end_s, &chips_end_s);
	bed->caller_s += caller_end_s - caller_s;
	bed->chips_s += chips_end_s - chips_s;
	bed->gigabytes +=
		c->per_sample * 1e-9 * (double)(round->ops + (round->ops < PRIME_BELOW));
	return err ? err : check_path(bed, round, staged, named);
}

/* A sample begins where the one before ended, and has one read of the clock. The first
 * word is another one each time, so that its line has to move. */
static int rtt_loop(struct copy_bed *bed, struct bench_round *round)
{
	const bool up = bed->variant->way == COPY_H2D;
	uint64_t before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t token = round->seed + i + 1, got;
		int err;

		memcpy(bed->host, &token, sizeof(token));
		err = copy_bed_transfer(bed);
		if (rpi_unlikely(err))
			return err;
		memcpy(&got, bed->host, sizeof(got));
		if (rpi_unlikely(!up && got != round->seed)) {
			rpi_fail(-EIO, "copy: another word came back");
			round->failures++;
		}
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return 0;
}

int copy_rtt_round(struct bench_case *c, struct bench_round *round)
{
	struct copy_bed *bed = c->data;
	uint64_t staged, named, got = 0;
	int err = copy_bed_counted(bed, &staged, &named);

	/* What every download of the round must bring; uploads bring their own. */
	if (!err && bed->variant->way == COPY_D2H)
		err = copy_bed_mark(bed, 0, round->seed);
	if (!err)
		err = rtt_loop(bed, round);
	if (!err && bed->variant->way == COPY_H2D && round->ops) {
		err = copy_bed_look(bed, 0, &got);
		if (!err && got != round->seed + round->ops) {
			rpi_fail(-EIO, "copy: the last word did not arrive");
			round->failures++;
		}
	}
	round->work += round->ops;
	return err ? err : check_path(bed, round, staged, named);
}
