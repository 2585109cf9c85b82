/* SPDX-License-Identifier: MIT */
#include "window/reset.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/probe.h"
#include "chip/server.h"
#include "memory/zero.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE_BYTES ((size_t)4096)

/* More at a time than was asked for: windows grow towards the end of a slice. */
#define ATTACH_BYTES ((size_t)64 << 10)

/* Contents unchanged: a peer may be at work in the pages. */
static void populate(uint8_t *at, size_t bytes)
{
	size_t i;

	if (!madvise(at, bytes, MADV_POPULATE_WRITE))
		return;
	/* A kernel before 5.14. */
	for (i = 0; i < bytes; i += PAGE_BYTES)
		atomic_fetch_or_explicit((_Atomic uint8_t *)(at + i), 0,
					 memory_order_relaxed);
}

void rpi_windows_attach(struct rpi_windows *windows, const struct rpi_domain_slot *slot)
{
	uint32_t rank;

	for (rank = 0; rank < slot->size; rank++) {
		uint32_t chip = slot->chips[rank];
		uint8_t *slice = windows->slices + chip * windows->slice_bytes;
		size_t end = (size_t)(slot->windows[rank] - slice) + slot->window_bytes +
			     slot->staging_bytes;
		size_t from = windows->mapped[chip];

		if (rpi_likely(end <= from))
			continue;
		end = (end + ATTACH_BYTES - 1) & ~(ATTACH_BYTES - 1);
		if (end > windows->slice_bytes)
			end = windows->slice_bytes;
		populate(slice + from, end - from);
		windows->mapped[chip] = end;
	}
}

void rpi_windows_attach_all(struct rpi_windows *windows, uint32_t chip_count)
{
	uint32_t chip;

	for (chip = 0; chip < chip_count; chip++) {
		populate(windows->slices + chip * windows->slice_bytes,
			 windows->slice_bytes);
		windows->mapped[chip] = windows->slice_bytes;
	}
}

static void zero(struct rp_chip *chip, uint8_t *at, uint64_t bytes)
{
	rpi_zero(at, bytes, chip->windows.engine, chip->windows.zero_chunk);
	rpi_count(&chip->self->counts.bytes_reset, bytes);
}

void rpi_window_reset(struct rp_chip *chip, const struct rpi_domain_slot *slot,
		      uint32_t what)
{
	uint8_t *window = slot->windows[slot->ranks[chip->peer_idx]];
	uint32_t i;

	rpi_probe(reset, slot->id, what);
	rpi_windows_attach(&chip->windows, slot);
	if (what == RPI_RESET_WHOLE) {
		zero(chip, window, slot->window_bytes);
	} else if (what == RPI_RESET_RANGES) {
		for (i = 0; i < slot->range_count; i++)
			zero(chip, window + slot->ranges[i].offset,
			     slot->ranges[i].bytes);
	} else {
		const struct rpi_window_buffer *buffer =
			&slot->buffers[what - RPI_RESET_BUFFER(0)];

		zero(chip, window + buffer->offset, buffer->bytes);
	}
	rpi_count(&chip->self->counts.resets, 1);
}
