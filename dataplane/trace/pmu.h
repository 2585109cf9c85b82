/* SPDX-License-Identifier: MIT */
/*
 * Counters of the processor and of the system around an entry: for each thread groups of
 * perf events, made once and off between tasks.
 */
#ifndef RPI_TRACE_PMU_H
#define RPI_TRACE_PMU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * X(identifier, type, config, column, set, kernel): of the system call. Events of a set
 * count together or not at all; sets are as small as they are so that most processors,
 * of whose counters others may use some, have room for each. `kernel` 1: happens in the
 * kernel only.
 */
#define RPI_PMU_EVENT_LIST(X)                                                        \
	X(TASK_CLOCK, SOFTWARE, SW_TASK_CLOCK, "task_clock_ns", 0, 0)                \
	X(CYCLES, HARDWARE, HW_CPU_CYCLES, "cycles", 1, 0)                           \
	X(INSTRUCTIONS, HARDWARE, HW_INSTRUCTIONS, "instructions", 1, 0)             \
	X(CACHE_REFERENCES, HARDWARE, HW_CACHE_REFERENCES, "cache_references", 2, 0) \
	X(CACHE_MISSES, HARDWARE, HW_CACHE_MISSES, "cache_misses", 2, 0)             \
	X(BRANCHES, HARDWARE, HW_BRANCH_INSTRUCTIONS, "branches", 3, 0)              \
	X(BRANCH_MISSES, HARDWARE, HW_BRANCH_MISSES, "branch_misses", 3, 0)          \
	X(PAGE_FAULTS, SOFTWARE, SW_PAGE_FAULTS, "page_faults", 0, 0)                \
	X(CONTEXT_SWITCHES, SOFTWARE, SW_CONTEXT_SWITCHES, "context_switches", 0, 1) \
	X(CPU_MIGRATIONS, SOFTWARE, SW_CPU_MIGRATIONS, "cpu_migrations", 0, 1)

#define RPI_PMU_SETS 4

enum rpi_pmu_event {
#define RPI_PMU_ID(id, type, config, column, set, kernel) RPI_PMU_##id,
	RPI_PMU_EVENT_LIST(RPI_PMU_ID)
#undef RPI_PMU_ID
	RPI_PMU_EVENTS
};

/* The column of an event. */
extern const char *const rpi_pmu_columns[RPI_PMU_EVENTS];

struct rpi_pmu_counts {
	uint64_t count[RPI_PMU_EVENTS]; /* of all threads together */
	/* Of this thread: how long they were on, and how much of that the set counted
	 * that counted least. */
	uint64_t enabled_ns, running_ns;
	uint32_t has;		   /* bit: it was counted on every counted thread */
	uint32_t threads, counted; /* there are; of them with counters */
	bool user_only;		   /* without what the kernel did */
	int err;		   /* 0, or the errno of the first one refused */
};

/* All but the counts, in one word. */
static inline uint64_t rpi_pmu_sum(const struct rpi_pmu_counts *counts)
{
	return (uint64_t)(counts->counted & 0xffff) |
	       (uint64_t)(counts->threads & 0xffff) << 16 |
	       (uint64_t)(counts->err & 0xffff) << 32 | (uint64_t)counts->user_only << 48;
}

#define RPI_PMU_COUNTED(sum)   ((uint32_t)(sum)&0xffff)
#define RPI_PMU_THREADS(sum)   ((uint32_t)((sum) >> 16) & 0xffff)
#define RPI_PMU_ERR(sum)       ((int)((sum) >> 32) & 0xffff)
#define RPI_PMU_USER_ONLY(sum) ((bool)((sum) >> 48 & 1))

struct rpi_pmu;

/* For so many threads; NULL without memory. */
struct rpi_pmu *rpi_pmu_create(uint32_t threads);
void rpi_pmu_destroy(struct rpi_pmu *pmu);

/* Give a thread its events, if it has none yet; tid 0: the caller. */
void rpi_pmu_add(struct rpi_pmu *pmu, uint32_t thread, pid_t tid);

void rpi_pmu_start(struct rpi_pmu *pmu);
void rpi_pmu_stop(struct rpi_pmu *pmu, struct rpi_pmu_counts *out);

/* Whether this machine lets this process count anything: 0, or the errno of the first
 * event that it refused. */
int rpi_pmu_probe(void);

#endif
