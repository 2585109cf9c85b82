/* SPDX-License-Identifier: MIT */
/* What pages there are and what touching them costs, asked of the machine and not of the
 * code under test. */
#ifndef RPI_TESTS_PAGES_H
#define RPI_TESTS_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Whether the pool of 2 MiB pages has so many to give. */
bool pages_in_pool(long count);

/* Whether shared memory may get huge pages where it asks for them, and even where it
 * does not. */
bool pages_thp_allowed(void);
bool pages_thp_forced(void);

/* Page faults that writing to each page takes; the first one has been written to. */
long pages_faults_of_writing(uint8_t *at, size_t bytes);

#endif
