/* SPDX-License-Identifier: MIT */
/* Burst rings of numbered elements. */
#ifndef RPI_TESTS_ELEM_H
#define RPI_TESTS_ELEM_H

#include <stdint.h>

#include "ring/burst.h"

#define ELEM_BYTES_MAX 64

/* What a table test goes through. */
extern const uint32_t elem_ring_capacities[5];
extern const uint32_t elem_ring_sizes[5]; /* bytes of an element */
extern const uint32_t elem_ring_starts[4];

/* Exactly as many bytes as were asked for, so that ASan sees one too many used; ended
 * with free(). */
struct rpi_burst *elem_ring_new(uint32_t elem_bytes, uint32_t capacity,
				unsigned int flags);

/* An element of any size made of its number; every byte depends on it. */
void elem_fill(void *elem, uint32_t elem_bytes, uint32_t number);

/* The number of an element, after checking the rest of it. */
uint32_t elem_number(const void *elem, uint32_t elem_bytes);

uint8_t *elem_at(const struct rpi_burst_span *span, uint32_t elem_bytes, uint32_t i);

#endif
