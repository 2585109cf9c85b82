/* SPDX-License-Identifier: MIT */
/* The limit of a rate: one memcpy() in one process, of the same bytes between the same
 * kinds of pages, host memory and memory as a simulated chip has it. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "clock.h"
#include "copy_bed.h"

#define PRIME_BELOW 8 /* as in copy_round.c */

int copy_memcpy_setup(struct bench_case *c)
{
	const struct copy_variant *variant = c->arg;
	int err = copy_block_get(copy_host_block(variant), variant->bytes);

	if (err)
		return err;
	err = copy_block_get(copy_device_block(variant), variant->bytes);
	if (err)
		copy_block_put(copy_host_block(variant));
	return err;
}

void copy_memcpy_teardown(struct bench_case *c)
{
	const struct copy_variant *variant = c->arg;

	copy_block_put(copy_host_block(variant));
	copy_block_put(copy_device_block(variant));
}

/* The compiler must believe that somebody reads the bytes. */
static inline void used(void *at)
{
	__asm__ __volatile__("" : : "r"(at) : "memory");
}

static void copy_once(const struct copy_variant *variant, struct bench_round *round,
		      uint64_t i, uint64_t *ticks_out)
{
	uint8_t *host = copy_block_at(copy_host_block(variant));
	uint8_t *device = copy_block_at(copy_device_block(variant));
	uint8_t *from = variant->way == COPY_H2D ? host : device;
	uint8_t *to = variant->way == COPY_H2D ? device : host;
	size_t at = (size_t)i * 4096 % variant->bytes;
	uint64_t word = round->seed + i, before, got;

	memcpy(from + at, &word, sizeof(word));
	before = bench_ticks();
	memcpy(to, from, variant->bytes);
	used(to);
	*ticks_out = bench_ticks() - before;
	memcpy(&got, to + at, sizeof(got));
	if (got != word) {
		rpi_fail(-EIO, "memcpy: byte %zu has another word", at);
		round->failures++;
	}
	round->work += word;
}

int copy_memcpy_round(struct bench_case *c, struct bench_round *round)
{
	uint64_t ticks;

	if (round->ops < PRIME_BELOW)
		copy_once(c->arg, round, round->ops, &ticks);
	for (uint64_t i = 0; i < round->ops; i++) {
		copy_once(c->arg, round, i, &ticks);
		bench_samples_add(round->samples, bench_ticks_ns(ticks));
	}
	return 0;
}
