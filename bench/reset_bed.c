/* SPDX-License-Identifier: MIT */
#include "reset_bed.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringplane/chip.h>
#include <ringplane/memory.h>
#include <ringplane/run.h>

#include "base/cpu.h"
#include "base/error.h"
#include "dispatch/domain.h"
#include "dispatch_worker.h"
#include "empty.h"
#include "memory/zero.h"
#include "reset_window.h"
#include "sysfile.h"
#include "topology.h"

#define MIB	     ((size_t)1 << 20)
#define SPARE_BYTES  ((uint64_t)256 << 20)
#define SIGNAL_BYTES RESET_PAGE_BYTES

/* Dispatches after which spin budgets have found the gaps they will see. */
#define SETTLE_COUNT 4

/* A worker with small windows serves for so many slices, about a run: what a line
 * costs depends on where it lies. Large windows take too long to back. */
#define RENEW_TURNS 4
#define RENEW_BYTES MIB

/*
 * Host work is this much longer than an eager reset was seen to take, in one of the
 * longer tries: the caller may lose its CPU and then sees the end of one late, or may
 * lose it before it begins to look. No memory is faster than the rate, bytes per ns.
 */
#define WORK_FACTOR   1.5
#define WORK_TRIES    9
#define WORK_TAKEN    6
#define WORK_BYTES_NS 40.0

/* A chip spins through the host's work, so that the dispatch after it finds it awake
 * with and without a reset: as long as zeroing at this rate, bytes per us. */
#define SPIN_BYTES_US 2000u
#define SPIN_US_MIN   1000u
#define SETTLE_NS     UINT64_C(5000000000)

enum {
	ENTRY_NOTHING,
	ENTRY_WRITE,
	ENTRY_LOOK
};

/* In a chip: the bed that it was forked for. */
static const struct reset_bed *chip_bed;

/* How long an eager reset of so much took, for the case that works as long and resets
 * nothing. */
static struct {
	size_t bytes;
	uint32_t chip_count;
	double ns;
} zero_times[16];

/* The memory that an entry writes, or looks at: a window, or without a domain as much of
 * the same kind. */
static uint8_t *memory_of(const struct rp_arg *args, size_t nargs, uint32_t distance)
{
	const struct rp_comm *comm;
	uint32_t rank;

	if (!nargs)
		return chip_bed->bare;
	comm = args[0].u.comm;
	rank = rp_comm_rank(comm) + distance;
	/* A division would count as what the domain costs. */
	return rp_comm_window(comm, rank < rp_comm_size(comm) ? rank : 0);
}

static int entry_write(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct reset_variant *variant = chip_bed->variant;

	(void)chip;
	reset_write(memory_of(args, nargs, 1), variant->bytes, variant->sparse);
	return 0;
}

/* Whether a window has what the policy says, in one place, another one each time. */
static int entry_look(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	static size_t at, signal_at;
	const struct reset_variant *variant = chip_bed->variant;
	const uint8_t *window = memory_of(args, nargs, 0);
	size_t kept = variant->policy == RESET_SIGNALS ? SIGNAL_BYTES : 0;
	bool keeps = kept || variant->policy == RESET_OFF ||
		     variant->policy == RESET_NO_DOMAIN;
	uint64_t got, want = keeps ? RESET_DIRT : 0;

	got = reset_look(window + kept, variant->bytes - kept, variant->sparse, &at);
	if (got != want)
		return rp_chip_fail(chip, -EILSEQ,
				    "a window has %#" PRIx64 ", expected %#" PRIx64, got,
				    want);
	if (kept && reset_look(window, kept, variant->sparse, &signal_at))
		return rp_chip_fail(chip, -EILSEQ, "a buffer was not reset");
	return 0;
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	static const uint32_t entries[] = { [RESET_STEP_WAKE] = ENTRY_NOTHING,
					    [RESET_STEP_WRITE] = ENTRY_WRITE,
					    [RESET_STEP_LOOK] = ENTRY_LOOK };
	struct reset_bed *bed = user;
	bool bare = bed->step == RESET_STEP_WAKE ||
		    bed->variant->policy == RESET_NO_DOMAIN;
	struct rp_task task = { .entry = entries[bed->step] };
	struct rp_domain *domain;
	struct rp_arg arg;
	int err = 0;

	(void)args;
	(void)nargs;
	if (!bare) {
		err = rp_run_domain(run, &bed->spec, &domain);
		if (err)
			return err;
		bed->uses++;
		bed->window = domain->slot->windows[0];
		arg = rp_arg_domain(domain);
		task.args = &arg;
		task.arg_count = 1;
	}
	for (uint32_t chip = 0; !err && chip < bed->variant->chip_count; chip++) {
		task.chip = (int32_t)chip;
		err = rp_run_task(run, &task);
	}
	return err;
}

int reset_bed_run(struct reset_bed *bed, enum reset_step step)
{
	bed->step = step;
	return rp_worker_run(bed->worker, bed->program, NULL, 0, NULL);
}

static bool caller_writes(const struct reset_variant *variant)
{
	return variant->chip_count == 1 && variant->bytes > RESET_OWN_BYTES &&
	       !variant->works;
}

/* What is kept has been written once, when the worker was started. */
static size_t written_again(const struct reset_variant *variant)
{
	if (variant->policy == RESET_OFF || variant->policy == RESET_NO_DOMAIN)
		return 0;
	return variant->policy == RESET_SIGNALS ? SIGNAL_BYTES : variant->bytes;
}

int reset_bed_write(struct reset_bed *bed)
{
	const struct reset_variant *variant = bed->variant;

	if (!caller_writes(variant))
		return reset_bed_run(bed, RESET_STEP_WRITE);
	if (written_again(variant))
		reset_write(bed->window, written_again(variant), variant->sparse);
	/* It may have fallen asleep meanwhile. */
	return reset_bed_run(bed, RESET_STEP_WAKE);
}

static void specify(struct reset_bed *bed)
{
	const struct reset_variant *variant = bed->variant;
	struct rp_domain_spec *spec = &bed->spec;

	rp_domain_spec_init(spec);
	spec->name = "window";
	spec->window_bytes = variant->bytes;
	if (variant->policy != RESET_SIGNALS)
		return;
	bed->buffers[0] = (struct rp_domain_buffer){ .name = "signals",
						     .dtype = RP_INT32,
						     .reset = RP_BUFFER_RESET,
						     .count = SIGNAL_BYTES / 4 };
	bed->buffers[1] =
		(struct rp_domain_buffer){ .name = "cache",
					   .dtype = RP_INT32,
					   .reset = RP_BUFFER_KEEP,
					   .count = (variant->bytes - SIGNAL_BYTES) / 4 };
	spec->buffers = bed->buffers;
	spec->buffer_count = 2;
}

static int make_program(struct reset_bed *bed)
{
	static const struct rp_entry entries[] = {
		[ENTRY_NOTHING] = { "nothing", bench_empty_entry },
		[ENTRY_WRITE] = { "write", entry_write },
		[ENTRY_LOOK] = { "look", entry_look }
	};
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = "reset";
	desc.entries = entries;
	desc.entry_count = sizeof(entries) / sizeof(entries[0]);
	desc.orchestrate = orchestrate;
	desc.user = bed;
	return rp_program_create(&desc, &bed->program);
}

int reset_bed_setup(struct bench_case *c)
{
	const struct reset_variant *variant = c->arg;
	uint64_t available = bench_memory_available();
	uint64_t wanted = (uint64_t)variant->bytes * variant->chip_count;
	struct reset_bed *bed;
	int err = 0;

	if (available < SPARE_BYTES || available - SPARE_BYTES < wanted)
		return rpi_fail(BENCH_SKIP,
				"%" PRIu64 " MiB wanted, %" PRIu64 " MiB are available",
				wanted >> 20, available >> 20);
	bed = calloc(1, sizeof(*bed));
	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	bed->variant = variant;
	specify(bed);
	if (variant->policy == RESET_NO_DOMAIN)
		err = rp_shared_alloc(variant->bytes, &bed->bare);
	if (!err)
		err = make_program(bed);
	if (err) {
		rp_shared_free(bed->bare);
		free(bed);
		return err;
	}
	c->data = bed;
	return 0;
}

static void stop_worker(struct reset_bed *bed)
{
	bench_worker_stop(bed->worker);
	bed->worker = NULL;
}

void reset_bed_teardown(struct bench_case *c)
{
	struct reset_bed *bed = c->data;

	stop_worker(bed);
	rp_program_free(bed->program);
	rp_shared_free(bed->bare);
	free(bed);
	c->data = NULL;
}

static uint32_t spin_us(const struct reset_variant *variant)
{
	size_t us = variant->bytes / SPIN_BYTES_US;

	return us < SPIN_US_MIN ? SPIN_US_MIN : (uint32_t)us;
}

static void choose_options(const struct reset_variant *variant,
			   struct rp_worker_options *options)
{
	static const enum rp_window_reset resets[] = {
		[RESET_NO_DOMAIN] = RP_WINDOWS_DEFAULT,
		[RESET_OFF] = RP_WINDOWS_RESET_OFF,
		[RESET_ALL] = RP_WINDOWS_RESET,
		[RESET_EAGER] = RP_WINDOWS_RESET_EAGER,
		[RESET_SIGNALS] = RP_WINDOWS_RESET,
		[RESET_FRESH] = RP_WINDOWS_DEFAULT,
	};

	rp_worker_options_init(options);
	options->chip_count = variant->chip_count;
	options->device_memory_bytes = 16 * MIB;
	options->persistent = variant->policy != RESET_NO_DOMAIN &&
			      variant->policy != RESET_FRESH;
	options->reset_windows = resets[variant->policy];
	options->reset_engine = variant->engine;
	/* With the staging of a domain. */
	options->window_memory_bytes = variant->bytes + MIB;
	/* A caller that has a CPU of its own is not put to sleep by a long reset. */
	if (bench_cpu_count() > (int)variant->chip_count)
		options->wait = RP_WAIT_SPIN;
	if (variant->works)
		options->spin_us_min = options->spin_us_max = spin_us(variant);
}

static int start_worker(struct bench_case *c)
{
	struct reset_bed *bed = c->data;
	struct rp_worker_options options;
	int err;

	choose_options(bed->variant, &options);
	bed->uses = 0;
	bed->window = NULL;
	chip_bed = bed;
	err = bench_worker_start(c->options, bed->program, &options, BENCH_PLACE_SPREAD,
				 &bed->worker);
	/* Allocates the domain, and tells where its window lies. */
	if (!err)
		err = reset_bed_run(bed, RESET_STEP_WRITE);
	return err;
}

static int resets_of(const struct reset_bed *bed, uint64_t *resets_out)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	int err = rp_worker_get_stats(bed->worker, &stats);

	*resets_out = stats.window_resets;
	return err;
}

/* How many there should have been by now. */
static uint64_t resets_due(const struct reset_bed *bed)
{
	switch (bed->variant->policy) {
	case RESET_NO_DOMAIN:
	case RESET_OFF:
		return 0;
	case RESET_EAGER:
		return bed->variant->chip_count * bed->uses;
	case RESET_ALL:
	case RESET_SIGNALS:
	case RESET_FRESH:
		break;
	}
	/* The first use finds fresh memory. */
	return bed->uses ? bed->variant->chip_count * (bed->uses - 1) : 0;
}

int reset_bed_settle(struct reset_bed *bed)
{
	uint64_t due = resets_due(bed), until = rpi_now_ns() + SETTLE_NS, got;
	int err;

	for (;;) {
		err = resets_of(bed, &got);
		if (err || got >= due)
			return err;
		if (rpi_now_ns() > until)
			return rpi_fail(-ETIMEDOUT,
					"%" PRIu64 " resets seen, expected %" PRIu64, got,
					due);
		sched_yield();
	}
}

int reset_bed_check(struct reset_bed *bed, struct bench_round *round)
{
	uint64_t got;
	int err = reset_bed_settle(bed);

	if (!err)
		err = resets_of(bed, &got);
	if (err)
		return err;
	if (got != resets_due(bed)) {
		rpi_fail(-EIO, "%" PRIu64 " resets, expected %" PRIu64, got,
			 resets_due(bed));
		round->failures++;
	}
	round->work += round->ops * bed->variant->chip_count;
	return 0;
}

static double *zero_time(const struct reset_variant *variant)
{
	size_t i = 0;

	while (i + 1 < sizeof(zero_times) / sizeof(zero_times[0]) &&
	       zero_times[i].bytes &&
	       (zero_times[i].bytes != variant->bytes ||
		zero_times[i].chip_count != variant->chip_count))
		i++;
	zero_times[i].bytes = variant->bytes;
	zero_times[i].chip_count = variant->chip_count;
	return &zero_times[i].ns;
}

/* How long the chips are busy once a run is over. */
static int time_eager(struct reset_bed *bed)
{
	double ns[WORK_TRIES];

	for (int i = 0; i < WORK_TRIES; i++) {
		uint64_t before;
		int err = reset_bed_settle(bed);

		if (!err)
			err = reset_bed_run(bed, RESET_STEP_WRITE);
		before = rpi_now_ns();
		if (!err)
			err = reset_bed_settle(bed);
		if (err)
			return err;
		ns[i] = (double)(rpi_now_ns() - before);
	}
	bench_median(ns, WORK_TRIES); /* sorts */
	*zero_time(bed->variant) =
		fmax(ns[WORK_TAKEN], (double)bed->variant->bytes / WORK_BYTES_NS);
	return 0;
}

static int find_gap(struct reset_bed *bed)
{
	int err = bed->variant->policy == RESET_EAGER ? time_eager(bed) : 0;

	bed->gap_ns = WORK_FACTOR * *zero_time(bed->variant);
	return err;
}

int reset_bed_enter(struct bench_case *c)
{
	struct reset_bed *bed = c->data;
	int err = 0;

	if (bed->turn++ % RENEW_TURNS == 0 && bed->variant->bytes <= RENEW_BYTES)
		stop_worker(bed);
	if (!bed->worker)
		err = start_worker(c);
	for (int i = 0; !err && i < SETTLE_COUNT; i++)
		err = reset_bed_run(bed, RESET_STEP_WAKE);
	if (!err && bed->variant->works)
		err = find_gap(bed);
	if (err)
		stop_worker(bed);
	return err;
}

static void remark(struct bench_case *c, const struct reset_bed *bed)
{
	static const char *const engines[] = { [RP_RESET_AUTO] = "auto",
					       [RP_RESET_MEMSET] = "memset",
					       [RP_RESET_STREAM] = "stream",
					       [RP_RESET_CHUNK] = "chunk",
					       [RP_RESET_AHEAD] = "ahead" };
	const struct reset_variant *variant = bed->variant;

	if (variant->works)
		rpi_format(c->remark, sizeof(c->remark), "the host worked for %.0f ns",
			   bed->gap_ns);
	else if (variant->policy == RESET_ALL && variant->engine == RP_RESET_AUTO)
		rpi_format(c->remark, sizeof(c->remark), "engine %s",
			   engines[rpi_zero_engine(variant->bytes)]);
}

void reset_bed_leave(struct bench_case *c)
{
	struct reset_bed *bed = c->data;

	/* Until its chips sleep. */
	if (bed->variant->works) {
		struct timespec spin = { .tv_nsec = (long)spin_us(bed->variant) * 1100 };

		nanosleep(&spin, NULL);
	}
	remark(c, bed);
}
