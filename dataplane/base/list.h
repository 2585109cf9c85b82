/* SPDX-License-Identifier: MIT */
/* An array that grows, for what is not on the hot path. Zeroed is empty; give `at` to
 * free(). */
#ifndef RPI_BASE_LIST_H
#define RPI_BASE_LIST_H

#include <stddef.h>
#include <stdint.h>

struct rpi_list {
	void *at;
	uint32_t count, room;
};

/* `count` more elements of so many bytes each, at the end; the first of them, or NULL
 * without memory. */
void *rpi_list_append(struct rpi_list *list, uint32_t count, size_t bytes);

#endif
