/* SPDX-License-Identifier: MIT */
/*
 * Starting a worker with a fault in it: what the hook does at the n-th call of a point of
 * the start-up, in whichever process that is.
 */
#ifndef RPI_TESTS_RIG_H
#define RPI_TESTS_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ringplane/ringplane.h>

enum rig_act {
	RIG_FAIL,
	RIG_KILL,
	RIG_EXIT,
	RIG_SEGV,
	RIG_HANG
};

struct rig {
	_Atomic int hits;  /* calls of the point */
	_Atomic int calls; /* of any point */
	char point[32];
	int nth;
	enum rig_act act;
	int err;
};

/* Shared with every process that is forked after the setup. */
extern struct rig *rig;

int rig_setup(void **state);
int rig_teardown(void **state);

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

void rig_arm(const char *point, int nth, enum rig_act act, int err);
void rig_disarm(void);

/* A program that does nothing; zero and NULL: as rp_program_desc_init() has it. */
struct rig_traits {
	const char *name, *platform, *runtime;
	uint32_t chip_count, callback_workers;
};

struct rp_program *rig_program(const struct rig_traits *traits);

/* Two chips and one callback process. timeout_s 0: the default. */
int rig_prepare(enum rp_page_policy pages, double timeout_s,
		struct rp_worker **worker_out);

/* It works; then close and free it. */
void rig_end(struct rp_worker *worker);

#endif
