/* SPDX-License-Identifier: MIT */
/*
 * memcpy and memset of the C library, again and again over the same bytes: at
 * 64 KiB they stay in the core's own cache, at 256 MiB in none. All cases share
 * two buffers, as large as the largest of them and touched beforehand.
 */
#define _GNU_SOURCE
#include "limit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "clock.h"
#include "sysfile.h"

/* What has to stay free besides our buffers. */
#define SPARE_BYTES (256u << 20)

static struct {
	unsigned char *from, *to;
	size_t bytes; /* of each */
	unsigned int users;
} buffers;

static unsigned char *map_touched(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED)
		return NULL;
	/* A wish only; the header says whether this machine has huge pages. */
	madvise(at, bytes, MADV_HUGEPAGE);
	memset(at, 0x5a, bytes);
	return at;
}

static void unmap(unsigned char *at, size_t bytes)
{
	if (at)
		munmap(at, bytes);
}

static void unmap_buffers(void)
{
	unmap(buffers.from, buffers.bytes);
	unmap(buffers.to, buffers.bytes);
	buffers.from = buffers.to = NULL;
	buffers.bytes = 0;
}

/* Different words at different places, so that a copy from elsewhere shows. */
static void fill(unsigned char *at, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i + sizeof(uint64_t) <= bytes; i += 4096) {
		uint64_t word = seed + i;

		memcpy(at + i, &word, sizeof(word));
	}
}

/* The smaller cases keep what they have where the larger buffers can't be had. */
static int grow_buffers(size_t bytes, uint64_t seed)
{
	uint64_t available = bench_memory_available();
	unsigned char *from, *to;

	if (bytes <= buffers.bytes)
		return 0;
	if (available < SPARE_BYTES || (available - SPARE_BYTES) / 2 < bytes)
		return rpi_fail(BENCH_SKIP,
				"two buffers of %zu MiB wanted, %" PRIu64
				" MiB are available",
				bytes >> 20, available >> 20);
	from = map_touched(bytes);
	to = map_touched(bytes);
	if (!from || !to) {
		unmap(from, bytes);
		unmap(to, bytes);
		return rpi_fail(BENCH_SKIP,
				"two buffers of %zu bytes could not be mapped", bytes);
	}
	unmap_buffers();
	buffers.from = from;
	buffers.to = to;
	buffers.bytes = bytes;
	fill(from, bytes, seed);
	return 0;
}

int bench_memory_setup(struct bench_case *c)
{
	int err = grow_buffers(*(const size_t *)c->arg, c->options->seed);

	if (!err)
		buffers.users++;
	return err;
}

void bench_memory_teardown(struct bench_case *c)
{
	(void)c;
	if (!--buffers.users)
		unmap_buffers();
}

/* The compiler must believe that somebody reads the bytes. */
static inline void used(void *at)
{
	__asm__ __volatile__("" : : "r"(at) : "memory");
}

int bench_memcpy_round(struct bench_case *c, struct bench_round *round)
{
	size_t bytes = *(const size_t *)c->arg;

	for (uint64_t i = 0; i < round->ops; i++) {
		/* A page-aligned word that moves from copy to copy. */
		size_t probe = (size_t)i * 4096 % bytes;
		uint64_t before, after, word;

		before = bench_ticks();
		memcpy(buffers.to, buffers.from, bytes);
		used(buffers.to);
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		memcpy(&word, buffers.to + probe, sizeof(word));
		if (word != round->seed + probe) {
			rpi_fail(-EIO, "memcpy: byte %zu has another word", probe);
			round->failures++;
		}
		round->work += word;
	}
	return 0;
}

int bench_memset_round(struct bench_case *c, struct bench_round *round)
{
	size_t bytes = *(const size_t *)c->arg;

	for (uint64_t i = 0; i < round->ops; i++) {
		unsigned char byte = (unsigned char)(round->seed + i);
		uint64_t before = bench_ticks(), after;

		memset(buffers.to, byte, bytes);
		used(buffers.to);
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		if (buffers.to[0] != byte || buffers.to[bytes - 1] != byte) {
			rpi_fail(-EIO, "memset: the ends do not have the byte %u", byte);
			round->failures++;
		}
		round->work += buffers.to[bytes / 2];
	}
	return 0;
}
