/* SPDX-License-Identifier: MIT */
/* A stored report as one page of HTML that needs nothing else. */
#ifndef BENCH_PAGE_H
#define BENCH_PAGE_H

#include <jansson.h>
#include <stdio.h>

/* A report of several, as bench_stored_new() makes it. 0 or -EIO. */
int bench_page_write(const json_t *stored, FILE *out);

/* What a section is called and what it is about; the name itself where nobody knows. */
struct page_section {
	const char *name, *title, *about;
};
const struct page_section *bench_page_section(const char *name);

/* The table of a section's results, and what is to be said of single ones. */
void page_table(const json_t *stored, const char *section, FILE *out);

extern const char page_style[];

#endif
