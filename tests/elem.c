/* SPDX-License-Identifier: MIT */
#include "elem.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

const uint32_t elem_ring_capacities[5] = { 1, 2, 3, 8, 1023 };
const uint32_t elem_ring_sizes[5] = { 4, 8, 12, 16, 64 };
const uint32_t elem_ring_starts[4] = { 0, 0x7ffffffe, UINT32_MAX - 2, UINT32_MAX };

struct rpi_burst *elem_ring_new(uint32_t elem_bytes, uint32_t capacity,
				unsigned int flags)
{
	size_t bytes = rpi_burst_bytes(elem_bytes, capacity);
	void *mem = NULL;

	assert_int_not_equal(bytes, 0);
	assert_int_equal(posix_memalign(&mem, RPI_BURST_ALIGN, bytes), 0);
	/* What lay there before is not zero. */
	memset(mem, 0xa5, bytes);
	assert_int_equal(rpi_burst_init(mem, bytes, elem_bytes, capacity, flags), 0);
	return mem;
}

void elem_fill(void *elem, uint32_t elem_bytes, uint32_t number)
{
	uint8_t *bytes = elem;

	memcpy(bytes, &number, sizeof(number));
	for (uint32_t i = sizeof(number); i < elem_bytes; i++)
		bytes[i] = (uint8_t)(number * 31 + i * 7);
}

uint32_t elem_number(const void *elem, uint32_t elem_bytes)
{
	uint8_t want[ELEM_BYTES_MAX];
	uint32_t number;

	memcpy(&number, elem, sizeof(number));
	elem_fill(want, elem_bytes, number);
	assert_memory_equal(elem, want, elem_bytes);
	return number;
}

uint8_t *elem_at(const struct rpi_burst_span *span, uint32_t elem_bytes, uint32_t i)
{
	if (i < span->first_count)
		return (uint8_t *)span->first + (size_t)i * elem_bytes;
	return (uint8_t *)span->second + (size_t)(i - span->first_count) * elem_bytes;
}
