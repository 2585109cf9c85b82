/* SPDX-License-Identifier: MIT */
/* The kernels of one task, put together from what was recorded of them. */
#ifndef RPI_CAPTURE_KERNELS_H
#define RPI_CAPTURE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/reader.h"
#include "runtime/note.h"

struct rpi_cap_kernel {
	uint64_t index; /* in its task */
	char name[RPI_NAME_PARTS * RPI_NOTE_NAME_BYTES + 1];
	bool ran, lived; /* the following are known */
	uint64_t begin, end, thread;
	uint64_t submitted, ready;
};

struct rpi_cap_edge {
	uint64_t from, to; /* kernels */
	enum rpi_reason reason;
	uint32_t from_arg, to_arg;
};

/* By index, each once. 0, or -ENOMEM. Records whose end lies before their begin are none
 * of ours and passed over. */
int rpi_kernels_collect(const struct rpi_seen *seen, size_t count,
			struct rpi_list *kernels_out);

/* Edges between kernels of that list, in the order of their records. *whole_out: false
 * when some could not be noted, or name a kernel that is not there. */
int rpi_kernel_edges_collect(const struct rpi_seen *seen, size_t count,
			     const struct rpi_list *kernels, struct rpi_list *edges_out,
			     bool *whole_out);

#endif
