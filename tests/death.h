/* SPDX-License-Identifier: MIT */
/* What is asked of a worker, one of whose processes has died. */
#ifndef RPI_TESTS_DEATH_H
#define RPI_TESTS_DEATH_H

#include <ringplane/ringplane.h>

/* A test's setup: takes the census that assert_nothing_left() compares with. */
int death_setup(void **state);

/* Everything that is asked of the worker says so, at once. */
void assert_dead(struct rp_worker *worker, const char *how);

/* Whoever asks hears the same; its line holds `how` where it is not 0. */
void assert_outcome(struct rp_handle handle, int want, const char *how);

/* Of a closed worker: its processes are gone. Frees it. */
void assert_nothing_left(struct rp_worker *worker);

#define DEATH_TEST(name) cmocka_unit_test_setup(name, death_setup)

#endif
