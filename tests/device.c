/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

uint64_t device_seed(uint64_t usual)
{
	const char *given = getenv("RINGPLANE_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : usual;

	print_message("seed %" PRIu64 " (RINGPLANE_TEST_SEED)\n", seed);
	return seed;
}

/* The word that a pattern has at a multiple of 8. */
static uint64_t word_at(size_t at, uint64_t seed)
{
	return (at / 8 + 1 + seed * UINT64_C(0x9e3779b97f4a7c15)) *
	       UINT64_C(0xbf58476d1ce4e5b9);
}

void device_fill(void *at, size_t bytes, uint64_t seed)
{
	uint8_t *to = at;
	size_t i;

	for (i = 0; i < bytes; i += 8) {
		uint64_t word = word_at(i, seed);

		memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

bool device_holds(const void *at, size_t bytes, uint64_t seed)
{
	const uint8_t *from = at;
	size_t i;

	for (i = 0; i < bytes; i += 8) {
		uint64_t word = word_at(i, seed);

		if (!memcmp(from + i, &word, bytes - i < 8 ? bytes - i : 8))
			continue;
		fprintf(stderr, "not what seed %" PRIu64 " wrote, at %zu of %zu bytes\n",
			seed, i, bytes);
		return false;
	}
	return true;
}

uint64_t device_committed(struct rp_worker *worker, uint32_t chip)
{
	uint64_t bytes = 0;

	assert_ok(rp_worker_committed_device_memory(worker, chip, &bytes));
	return bytes;
}

int device_round_trip(struct rp_worker *worker, uint32_t chip, uint64_t address,
		      size_t bytes, uint64_t seed)
{
	uint8_t *host = malloc(bytes);
	int err;

	device_fill(host, bytes, seed);
	err = rp_worker_copy_to(worker, chip, address, 0, host, 0, bytes);
	memset(host, 0, bytes);
	if (!err)
		err = rp_worker_copy_from(worker, chip, address, 0, host, 0, bytes);
	if (!err && !device_holds(host, bytes, seed))
		err = -EBADMSG;
	free(host);
	return err;
}
