/* SPDX-License-Identifier: MIT */
/* What the tests of swimlanes share: kernels on each chip, one chip after the other, then
 * a callback. */
#ifndef RPI_TESTS_WORK_BED_H
#define RPI_TESTS_WORK_BED_H

#include <stdint.h>

#include "capture_bed.h"

#define FORMAT "ringplane.swimlane"
#define FILE_1 "chip_swimlane_records.json"
#define GATE   3

enum how {
	HOW_WELL,
	HOW_FAIL,   /* the second task fails */
	HOW_DIE,    /* the process of the last chip ends itself in its task */
	HOW_GATE,   /* it waits at the gate */
	HOW_REFUSE, /* the orchestration fails, after the first task */
};

struct work_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
	int64_t *x;
	struct rp_arg args[2];
};

/* What the orchestration saw of the passes, since the bed was opened. */
#define PASSES_SEEN 8
extern uint32_t passes_seen[PASSES_SEEN], pass_count;

void work_open(struct work_bed *work_bed, uint32_t chips, uint32_t threads);
void work_open_with(struct work_bed *work_bed, struct rp_worker_options *options);
void work_close(struct work_bed *work_bed);

int work_run(struct work_bed *work_bed, enum how how);
json_t *work_load(const struct work_bed *work_bed, const char *name);

#endif
