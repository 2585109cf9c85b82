/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "collective_bed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <ringplane/domain.h>
#include <ringplane/run.h>
#include <ringplane/worker.h>

#include "base/error.h"
#include "clock.h"
#include "collective_entry.h"
#include "dispatch_worker.h"
#include "sysfile.h"
#include "topology.h"

#define MIB	    ((size_t)1 << 20)
#define SPARE_BYTES ((uint64_t)256 << 20)

/* Ranks that have a CPU each spin for a peer longer than any of them lags behind. */
#define SPIN_US 2000u

/* As in the dispatch cases: what a line costs depends on where it lies. */
#define RENEW_TURNS 4
#define RENEW_BYTES MIB

struct collective_bed {
	const struct collective_variant *variant;
	struct rp_program *program;
	struct rp_worker *worker;
	struct collective_words *words;
	struct rp_domain_spec spec;
	uint64_t turn; /* slices so far */
};

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	struct collective_bed *bed = user;
	struct rp_domain *domain;
	struct rp_arg arg;
	int err = rp_run_domain(run, &bed->spec, &domain);

	(void)args;
	(void)nargs;
	for (uint32_t chip = 0; !err && chip < bed->variant->chip_count; chip++) {
		struct rp_task task = { .chip = (int32_t)chip,
					.args = &arg,
					.arg_count = 1 };

		arg = rp_arg_domain(domain);
		err = rp_run_task(run, &task);
	}
	return err;
}

static int make_program(struct collective_bed *bed)
{
	const struct rp_entry entry = { .name = "repeat", .fn = collective_entry };
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = "collective";
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate;
	desc.user = bed;
	return rp_program_create(&desc, &bed->program);
}

static void free_bed(struct collective_bed *bed)
{
	rp_program_free(bed->program);
	if (bed->words)
		munmap(bed->words, sizeof(*bed->words));
	free(bed);
}

static int check_memory(const struct collective_variant *variant)
{
	uint64_t available = bench_memory_available();
	uint64_t wanted = variant->chip_count * (uint64_t)(collective_in_bytes(variant) +
							   collective_out_bytes(variant));

	if (available < SPARE_BYTES || available - SPARE_BYTES < wanted)
		return rpi_fail(BENCH_SKIP,
				"%" PRIu64 " MiB wanted, %" PRIu64 " MiB are available",
				wanted >> 20, available >> 20);
	return 0;
}

int collective_bed_setup(struct bench_case *c)
{
	struct collective_bed *bed;
	void *words;
	int err = check_memory(c->arg);

	if (err)
		return err;
	bed = calloc(1, sizeof(*bed));
	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	bed->variant = c->arg;
	words = mmap(NULL, sizeof(*bed->words), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (words == MAP_FAILED) {
		free_bed(bed);
		return rpi_fail(-ENOMEM, "mmap: times of %s: %s", c->name,
				strerror(errno));
	}
	bed->words = words;
	bed->words->variant = *bed->variant;
	rp_domain_spec_init(&bed->spec);
	bed->spec.name = "ranks";
	if (!bed->variant->outside)
		bed->spec.window_bytes = collective_in_bytes(bed->variant) +
					 collective_out_bytes(bed->variant);
	err = make_program(bed);
	if (err) {
		free_bed(bed);
		return err;
	}
	c->data = bed;
	return 0;
}

static void stop_worker(struct collective_bed *bed)
{
	bench_worker_stop(bed->worker);
	bed->worker = NULL;
}

void collective_bed_teardown(struct bench_case *c)
{
	stop_worker(c->data);
	free_bed(c->data);
	c->data = NULL;
}

static bool has_cpus(const struct collective_bed *bed)
{
	return bench_cpu_count() >= (int)bed->variant->chip_count;
}

/* The caller sleeps: it may share a CPU with a rank. */
static int start_worker(struct bench_case *c)
{
	struct collective_bed *bed = c->data;
	struct rp_worker_options options;

	rp_worker_options_init(&options);
	options.chip_count = bed->variant->chip_count;
	options.device_memory_bytes = 16 * MIB;
	options.persistent = true;
	options.reset_windows = RP_WINDOWS_RESET_OFF;
	options.wait = RP_WAIT_BLOCK;
	options.window_memory_bytes = bed->spec.window_bytes + MIB;
	if (has_cpus(bed))
		options.spin_us_min = options.spin_us_max = SPIN_US;
	collective_entry_use(bed->words);
	return bench_worker_start(c->options, bed->program, &options, BENCH_PLACE_SPREAD,
				  &bed->worker);
}

static int run(struct collective_bed *bed, uint64_t ops)
{
	bed->words->ops = ops;
	return rp_worker_run(bed->worker, bed->program, NULL, 0, NULL);
}

int collective_bed_enter(struct bench_case *c)
{
	struct collective_bed *bed = c->data;
	int err = 0;

	if (bed->turn++ % RENEW_TURNS == 0 && bed->variant->bytes <= RENEW_BYTES)
		stop_worker(bed);
	if (!bed->worker)
		err = start_worker(c);
	/* Page tables, and the data that are not written again. */
	if (!err)
		err = run(bed, 1);
	if (err)
		stop_worker(bed);
	return err;
}

/* Until its chips sleep. */
void collective_bed_leave(struct bench_case *c)
{
	const struct timespec spin = { .tv_nsec = SPIN_US * 1100 };

	if (has_cpus(c->data))
		nanosleep(&spin, NULL);
}

static void take_samples(const struct collective_bed *bed, struct bench_round *round)
{
	const struct collective_words *words = bed->words;

	for (uint64_t op = 0; op < round->ops; op++) {
		uint64_t begin = words->times[0].begin[op];
		uint64_t end = words->times[0].end[op];

		for (uint32_t i = 1; i < bed->variant->chip_count; i++) {
			if (words->times[i].begin[op] < begin)
				begin = words->times[i].begin[op];
			if (words->times[i].end[op] > end)
				end = words->times[i].end[op];
		}
		bench_samples_add(round->samples, bench_ticks_ns(end - begin));
	}
}

int collective_bed_round(struct bench_case *c, struct bench_round *round)
{
	struct collective_bed *bed = c->data;
	int err;

	bed->words->seed = round->seed;
	err = run(bed, round->ops);
	if (err)
		return err;
	take_samples(bed, round);
	round->work += round->ops * bed->variant->chip_count;
	return 0;
}
