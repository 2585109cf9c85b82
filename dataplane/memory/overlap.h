/* SPDX-License-Identifier: MIT */
#ifndef RPI_MEMORY_OVERLAP_H
#define RPI_MEMORY_OVERLAP_H

#include <stdbool.h>

#include "memory/view.h"

/*
 * Whether views share bytes. Both sides must lie in one address space: views of
 * different resident memories share nothing, and are not to be asked about here.
 *
 * Views are such as rpi_view_from_tensor() makes, normalised or not. What is nested below
 * is what slicing and indexing a row-major parent gives: each stride is at least as long
 * as all that lies within it.
 */

enum rpi_overlap {
	RPI_OVERLAP_NONE = 0, /* certainly no byte in common */
	RPI_OVERLAP_SOME = 1, /* a byte in common, or too hard to tell */
};

/* The common case, two comparisons. True: nothing shared. False: look closer. */
static inline bool rpi_view_extents_disjoint(const struct rpi_view *a,
					     const struct rpi_view *b)
{
	/* By difference, so that no sum can wrap. */
	return a->base < b->base ? b->base - a->base >= (uintptr_t)a->span_bytes
				 : a->base - b->base >= (uintptr_t)b->span_bytes;
}

/* rpi_view_overlap() for views whose extents meet. */
enum rpi_overlap rpi_view_overlap_within(const struct rpi_view *a,
					 const struct rpi_view *b);

/*
 * Never misses an overlap. No false alarm
 *
 * - between nested views whose strides come from one set: parts of one parent, also
 *   where indexing dropped a dim on one side only;
 * - between one contiguous range and a nested view.
 *
 * Other pairs, such as parts taken with different steps, are searched exactly as far as
 * a fixed budget goes; past it the answer is RPI_OVERLAP_SOME.
 */
static inline enum rpi_overlap rpi_view_overlap(const struct rpi_view *a,
						const struct rpi_view *b)
{
	if (rpi_view_extents_disjoint(a, b))
		return RPI_OVERLAP_NONE;
	return rpi_view_overlap_within(a, b);
}

/*
 * Whether every byte of b lies in a. True is certain. False is certain too for nested
 * views whose strides come from one set; otherwise it may mean "too hard to tell".
 */
bool rpi_view_covers(const struct rpi_view *a, const struct rpi_view *b);

#endif
