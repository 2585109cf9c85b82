/* SPDX-License-Identifier: MIT */
/*
 * Another process's counters. Its region of spans is found by name in its list of
 * mappings, and tells where the counters are; the kernel copies them. Nothing of what is
 * read is believed: addresses are only ever given back to the kernel.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <ringplane/stats.h>

#include "base/error.h"
#include "trace/counters.h"
#include "trace/span.h"

#define MAPPING_NAME "/memfd:rp-trace"

/* More than any worker has: 64 peers. */
#define SOURCES_MAX 4096u

static int copy(int pid, uint64_t from, void *to, size_t bytes)
{
	struct iovec here = { to, bytes };
	struct iovec there = { (void *)(uintptr_t)from, bytes };
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	if (n < 0)
		return rpi_fail(-errno, "rp_stats_peek: reading process %d: %s", pid,
				strerror(errno));
	if ((size_t)n != bytes)
		return rpi_fail(-EPROTO,
				"rp_stats_peek: process %d: a board that leads "
				"outside of its memory",
				pid);
	return 0;
}

/* Where the nth region is mapped. */
static int find_region(int pid, uint32_t nth, uint64_t *base_out)
{
	char path[32], line[512];
	uint32_t seen = 0;
	int err = -ENOENT;
	FILE *file;

	rpi_format(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	if (!file) {
		err = errno == ENOENT ? -ESRCH : -errno;
		return rpi_fail(err, "rp_stats_peek: process %d: %s", pid,
				strerror(-err));
	}
	while (err == -ENOENT && fgets(line, sizeof(line), file)) {
		uint64_t base, offset;

		/* A mapping that was split shows its parts: the first begins at 0. */
		if (sscanf(line, "%" SCNx64 "-%*x %*s %" SCNx64, &base, &offset) != 2 ||
		    offset || !strstr(line, MAPPING_NAME) || seen++ != nth)
			continue;
		*base_out = base;
		err = 0;
	}
	if (err && ferror(file))
		err = -errno;
	fclose(file);
	if (err == -ENOENT)
		return rpi_fail(-ENOENT, "rp_stats_peek: process %d has %u workers", pid,
				seen);
	return err ? rpi_fail(err, "rp_stats_peek: '%s': %s", path, strerror(-err)) : 0;
}

static int check_board(int pid, const struct rpi_board *board)
{
	if (board->magic != RPI_BOARD_MAGIC || !board->source_count ||
	    board->source_count > SOURCES_MAX)
		return rpi_fail(-EPROTO,
				"rp_stats_peek: process %d: a board that makes no sense",
				pid);
	if (board->stats_bytes != sizeof(struct rp_worker_stats))
		return rpi_fail(-EOPNOTSUPP,
				"rp_stats_peek: process %d has %u bytes of counters, "
				"this library knows %zu",
				pid, board->stats_bytes, sizeof(struct rp_worker_stats));
	return 0;
}

static int add_sources(int pid, const struct rpi_board *board,
		       const struct rpi_board_source *sources,
		       struct rp_worker_stats *stats)
{
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < board->source_count; i++) {
		uint32_t field = sources[i].field;
		uint64_t value;

		if (field < sizeof(stats->size) || field % sizeof(value) ||
		    field > sizeof(*stats) - sizeof(value))
			return rpi_fail(-EPROTO,
					"rp_stats_peek: process %d: a counter of no "
					"figure",
					pid);
		err = copy(pid, sources[i].address, &value, sizeof(value));
		if (!err)
			*(uint64_t *)((char *)stats + field) += value;
	}
	return err;
}

static int peek_stats(int pid, uint64_t base, struct rp_worker_stats *stats)
{
	struct rpi_board_source *sources;
	struct rpi_board board;
	int err;

	err = copy(pid, base + offsetof(struct rpi_trace, board), &board, sizeof(board));
	if (!err)
		err = check_board(pid, &board);
	if (err)
		return err;
	sources = calloc(board.source_count, sizeof(*sources));
	if (!sources)
		return rpi_fail(-ENOMEM, "rp_stats_peek: no memory");
	err = copy(pid, board.sources, sources, board.source_count * sizeof(*sources));
	if (!err)
		err = add_sources(pid, &board, sources, stats);
	free(sources);
	return err;
}

static int peek_latency(int pid, uint64_t base, struct rp_latency *latency)
{
	struct rpi_latency *histogram =
		aligned_alloc(_Alignof(struct rpi_latency), sizeof(*histogram));
	uint32_t wanted;
	int err;

	if (!histogram)
		return rpi_fail(-ENOMEM, "rp_stats_peek: no memory");
	err = copy(pid, base + offsetof(struct rpi_trace, latency), (void *)histogram,
		   sizeof(*histogram));
	if (!err)
		err = copy(pid, base + offsetof(struct rpi_trace, wanted), &wanted,
			   sizeof(wanted));
	if (!err)
		rpi_latency_figures(histogram, wanted & RPI_TRACE_LATENCY, latency);
	free(histogram);
	return err;
}

int rp_stats_peek(int pid, uint32_t nth, struct rp_worker_stats *stats_out,
		  struct rp_latency *latency_out)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_latency latency;
	uint64_t base = 0;
	int err;

	if (!stats_out || stats_out->size != sizeof(stats) ||
	    (latency_out && latency_out->size != sizeof(latency)))
		return rpi_fail(-EINVAL,
				"rp_stats_peek: %s, expected a struct whose size is set",
				stats_out ? "a size" : "stats_out NULL");
	err = find_region(pid, nth, &base);
	if (!err)
		err = peek_stats(pid, base, &stats);
	if (!err && latency_out)
		err = peek_latency(pid, base, &latency);
	if (err)
		return err;
	*stats_out = stats;
	if (latency_out)
		*latency_out = latency;
	return 0;
}
