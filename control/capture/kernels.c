/* SPDX-License-Identifier: MIT */
#include "capture/kernels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_of_kernel(const struct rpi_seen *seen)
{
	switch (rpi_seen_name(seen)) {
	case RPI_SPAN_DEVICE_KERNEL:
	case RPI_SPAN_KERNEL_LIFE:
		return seen->copy.begin <= seen->copy.end;
	case RPI_SPAN_KERNEL_NAME:
		return RPI_NOTE_PART(seen->copy.value) < RPI_NAME_PARTS;
	default:
		return false;
	}
}

static uint64_t index_of(const struct rpi_seen *seen)
{
	return RPI_NOTE_INDEX(seen->copy.value);
}

static int by_index(const void *left, const void *right)
{
	const uint64_t a = index_of(*(const struct rpi_seen *const *)left);
	const uint64_t b = index_of(*(const struct rpi_seen *const *)right);

	return (a > b) - (a < b);
}

static void fold(struct rpi_cap_kernel *kernel, const struct rpi_seen *seen)
{
	const struct rpi_trace_copy *copy = &seen->copy;

	switch (rpi_seen_name(seen)) {
	case RPI_SPAN_DEVICE_KERNEL:
		kernel->ran = true;
		kernel->begin = copy->begin;
		kernel->end = copy->end;
		kernel->thread = copy->thread;
		return;
	case RPI_SPAN_KERNEL_LIFE:
		kernel->lived = true;
		kernel->submitted = copy->begin;
		kernel->ready = copy->end;
		return;
	default: {
		const uint64_t words[2] = { copy->begin, copy->end };

		memcpy(kernel->name + RPI_NOTE_PART(copy->value) * RPI_NOTE_NAME_BYTES,
		       words, sizeof(words));
	}
	}
}

int rpi_kernels_collect(const struct rpi_seen *seen, size_t count,
			struct rpi_list *kernels_out)
{
	const struct rpi_seen **found = calloc(count + 1, sizeof(*found));
	struct rpi_cap_kernel *kernel = NULL;
	size_t of_kernels = 0, i;

	if (!found)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		if (is_of_kernel(&seen[i]))
			found[of_kernels++] = &seen[i];
	qsort(found, of_kernels, sizeof(*found), by_index);
	for (i = 0; i < of_kernels; i++) {
		if (!kernel || kernel->index != index_of(found[i])) {
			kernel = rpi_list_append(kernels_out, 1, sizeof(*kernel));
			if (!kernel)
				break;
			memset(kernel, 0, sizeof(*kernel));
			kernel->index = index_of(found[i]);
		}
		fold(kernel, found[i]);
	}
	free(found);
	return i < of_kernels ? -ENOMEM : 0;
}

static bool is_there(const struct rpi_list *kernels, uint64_t index)
{
	const struct rpi_cap_kernel *at = kernels->at;
	uint32_t low = 0, high = kernels->count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (at[middle].index == index)
			return true;
		if (at[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

int rpi_kernel_edges_collect(const struct rpi_seen *seen, size_t count,
			     const struct rpi_list *kernels, struct rpi_list *edges_out,
			     bool *whole_out)
{
	size_t i;

	*whole_out = true;
	for (i = 0; i < count; i++) {
		const struct rpi_trace_copy *copy = &seen[i].copy;
		const struct rpi_cap_edge edge = {
			.from = copy->begin,
			.to = copy->value,
			.reason = RPI_NOTE_REASON(copy->end),
			.from_arg = RPI_NOTE_FROM_ARG(copy->end),
			.to_arg = RPI_NOTE_TO_ARG(copy->end),
		};
		struct rpi_cap_edge *kept;

		if (rpi_seen_name(&seen[i]) != RPI_SPAN_KERNEL_EDGE)
			continue;
		if (edge.reason < RPI_REASON_RAW || edge.reason > RPI_REASON_ORDER ||
		    edge.from >= edge.to || !is_there(kernels, edge.from) ||
		    !is_there(kernels, edge.to)) {
			*whole_out = false;
			continue;
		}
		kept = rpi_list_append(edges_out, 1, sizeof(*kept));
		if (!kept)
			return -ENOMEM;
		*kept = edge;
	}
	return 0;
}
