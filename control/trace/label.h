/* SPDX-License-Identifier: MIT */
/* What entries and callbacks are shown as, and what ticks are in nanoseconds. */
#ifndef RPI_TRACE_LABEL_H
#define RPI_TRACE_LABEL_H

#include <stdint.h>

#include <ringplane/trace.h>

#include "dispatch/wire.h"
#include "trace/span.h"

struct rp_worker;

struct rpi_label {
	char name[RP_SPAN_NAME_BYTES];
	char id[RP_SPAN_NAME_BYTES];
};

/* Of the programs that the worker had when they were made. */
struct rpi_labels {
	const struct rp_worker *worker;
	struct rpi_label_set {
		struct rpi_label *entries;   /* [entry_count] of the program */
		struct rpi_label *callbacks; /* [callback_count] */
	} * programs;
	uint32_t program_count;
};

/* 0, or -ENOMEM without an error line; then nothing is to be freed. */
int rpi_labels_create(struct rpi_labels *labels, const struct rp_worker *worker);
void rpi_labels_free(struct rpi_labels *labels);

/* The entry or callback of a record that `peer` wrote; bounded. NULL: there is none. */
const struct rpi_label *rpi_labels_find(const struct rpi_labels *labels, uint32_t peer,
					uint64_t what);

/* The name of a kind of span; `name` is below RPI_SPAN_COUNT. */
const char *rpi_span_name(uint32_t name);

/* And the bit of RPI_TRACE_* that turns it on. */
uint32_t rpi_span_domain(uint32_t name);

/* Ticks since prepare, when both clocks were read. */
struct rpi_scale {
	uint64_t anchor_ticks, anchor_ns;
	double ns_per_tick;
};

/* How long a tick is. The longer ago prepare was, the better it is known. */
void rpi_scale_init(struct rpi_scale *scale, const struct rp_worker *worker);

uint64_t rpi_scale_ns(const struct rpi_scale *scale, uint64_t ticks);

#endif
