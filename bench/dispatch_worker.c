/* SPDX-License-Identifier: MIT */
#include "dispatch_worker.h"

#include <stdlib.h>

#include "topology.h"

/* A close that takes longer than this is a failure, not a slow one. */
#define CLOSE_NS INT64_C(10000000000)

void bench_worker_cpus(const struct bench_options *options, bool spread, int *cpus,
		       uint32_t count)
{
	int parent = options->cpu[BENCH_PARENT], peer = options->cpu[BENCH_PEER];
	uint32_t known = 1;

	cpus[0] = peer;
	for (int cpu = 0; known < count && cpu < BENCH_CPUS_MAX; cpu++)
		if (bench_cpu_allowed(cpu) && cpu != parent && cpu != peer)
			cpus[known++] = cpu;
	if (spread && known < count)
		cpus[known++] = parent;
	for (uint32_t chip = known; chip < count; chip++)
		cpus[chip] = cpus[chip % known];
}

int bench_worker_start(const struct bench_options *options, struct rp_program *program,
		       struct rp_worker_options *worker_options, enum bench_place place,
		       struct rp_worker **worker_out)
{
	uint32_t chips = worker_options->chip_count ? worker_options->chip_count : 1;
	/* The chips' CPUs, and the caller's. */
	int cpus[RP_MAX_PEERS + 1];
	int err, pinned;

	if (place != BENCH_PLACE_ANY) {
		bench_worker_cpus(options, place == BENCH_PLACE_SPREAD, cpus, chips);
		cpus[chips] = options->cpu[BENCH_PARENT];
		worker_options->chip_cpus = cpus;
		err = bench_cpu_allow(cpus, chips + 1);
	} else {
		worker_options->chip_cpus = NULL;
		err = bench_cpu_allow(NULL, 0);
	}
	if (err)
		return err;
	err = rp_worker_prepare(&program, 1, worker_options, worker_out);
	worker_options->chip_cpus = NULL;
	pinned = bench_cpu_pin(options->cpu[BENCH_PARENT]);
	if (!err && pinned) {
		rp_worker_free(*worker_out);
		*worker_out = NULL;
	}
	return err ? err : pinned;
}

int bench_chip_worker_start(const struct bench_options *options, enum rp_wait_policy wait,
			    struct rp_chip_worker **worker_out)
{
	struct rp_chip_worker_options chip_options;
	struct rp_worker_options worker_options;
	int cpus[2]; /* the chip's, and the caller's */
	int err;

	rp_worker_options_init(&worker_options);
	worker_options.wait = worker_options.worker_wait = wait;
	bench_worker_cpus(options, false, cpus, 1);
	worker_options.chip_cpus = cpus;
	cpus[1] = options->cpu[BENCH_PARENT];
	rp_chip_worker_options_init(&chip_options);
	chip_options.worker = &worker_options;
	err = bench_cpu_allow(cpus, 2);
	if (err)
		return err;
	err = rp_chip_worker_open(&chip_options, worker_out);
	return err ? err : bench_cpu_pin(options->cpu[BENCH_PARENT]);
}

int bench_worker_stop(struct rp_worker *worker)
{
	int err = worker ? rp_worker_close(worker, CLOSE_NS) : 0;

	rp_worker_free(worker);
	return err;
}
