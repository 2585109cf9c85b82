/* SPDX-License-Identifier: MIT */
/* What captures do around a task's entry. */
#include <errno.h>

#include "chip/dump.h"
#include "chip/server.h"
#include "runtime/runtime.h"
#include "trace/pmu.h"

static void put(const struct rp_chip *chip, enum rpi_trace_name name,
		const struct rpi_trace_of *about, uint64_t begin, uint64_t end,
		uint64_t value)
{
	struct rpi_trace_of of = *about;

	of.value = value;
	rpi_trace_record(&chip->tracer, name, begin, end, &of);
}

static void tell_counts(const struct rp_chip *chip, const struct rpi_task_body *task,
			uint64_t began, const struct rpi_pmu_counts *counts)
{
	const struct rpi_trace_of of = rpi_server_span_of(chip, task);
	const uint64_t ended = rpi_clock_ticks();
	uint32_t i;

	rpi_trace_await_room(&chip->tracer, &of);
	put(chip, RPI_SPAN_PMU_TIME, &of, began, ended, rpi_pmu_sum(counts));
	put(chip, RPI_SPAN_PMU_ON, &of, counts->enabled_ns, counts->running_ns, 0);
	for (i = 0; i < RPI_PMU_EVENTS; i++)
		if (counts->has >> i & 1)
			put(chip, RPI_SPAN_PMU_COUNT, &of, counts->count[i], 0, i);
}

/* This thread, and those of the chip runtime that have started. */
static struct rpi_pmu *watch_threads(struct rp_chip *chip)
{
	uint32_t i;

	if (!chip->pmu)
		chip->pmu = rpi_pmu_create(
			1 + (chip->runtime ? chip->runtime->config.compute_threads : 0));
	if (!chip->pmu)
		return NULL;
	rpi_pmu_add(chip->pmu, 0, 0);
	for (i = 0; chip->runtime && i < chip->runtime->config.compute_threads; i++) {
		/* Relaxed: see crew.c. */
		int32_t tid = atomic_load_explicit(&chip->runtime->crew[i].tid,
						   memory_order_relaxed);

		if (tid)
			rpi_pmu_add(chip->pmu, 1 + i, tid);
	}
	return chip->pmu;
}

static int run_counted(struct rp_chip *chip, const struct rpi_task_body *task,
		       rpi_run_fn run)
{
	struct rpi_pmu *pmu = watch_threads(chip);
	struct rpi_pmu_counts counts = { .err = ENOMEM };
	uint64_t began;
	int status;

	if (pmu)
		rpi_pmu_start(pmu);
	began = rpi_clock_ticks();
	status = run(chip, task);
	if (pmu)
		rpi_pmu_stop(pmu, &counts);
	tell_counts(chip, task, began, &counts);
	return status;
}

int rpi_server_observe(struct rp_chip *chip, const struct rpi_task_body *task,
		       rpi_run_fn run)
{
	const uint32_t wanted = rpi_trace_wanted(&chip->tracer, RPI_TRACE_ENTRY);
	int status;

	if (wanted & RPI_TRACE_ARGS)
		rpi_dump_args(chip, task, RPI_DUMP_BEFORE);
	status = wanted & RPI_TRACE_PMU ? run_counted(chip, task, run) : run(chip, task);
	if (wanted & RPI_TRACE_ARGS)
		rpi_dump_args(chip, task, RPI_DUMP_AFTER);
	return status;
}
