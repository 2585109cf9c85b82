/* SPDX-License-Identifier: MIT */
/* The ways to get a file descriptor of shared pages, best first. */
#ifndef RPI_REGION_PAGES_H
#define RPI_REGION_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#include <ringplane/memory.h>

#define RPI_SMALL_PAGE ((size_t)4096)
#define RPI_HUGE_PAGE  ((size_t)2 << 20)

/* One way: what it gives, and a descriptor or a negative errno. */
struct rpi_page_source {
	enum rp_page_kind kind;
	bool has_seals;
	size_t (*page_bytes)(void); /* 0: not on this machine */
	int (*open)(const char *name, size_t page_bytes);
};

/* In the order of preference; the last one always works. */
extern const struct rpi_page_source rpi_page_sources[];
extern const size_t rpi_page_source_count;

#endif
