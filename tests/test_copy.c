/* SPDX-License-Identifier: MIT */
/* Explicit copies: which bytes go where, what is refused, what is left after a failure.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "proc.h"
#include "staging/copier.h"
#include "support.h"

#define CHIPS 3
#define CHUNK RPI_STAGING_CHUNK_BYTES

static struct bed bed;

static int set_up(void **state)
{
	return device_setup(state, &bed, CHIPS, 32 * MIB);
}

static int tear_down(void **state)
{
	return device_teardown(state, &bed);
}

static uint64_t must_alloc(uint32_t chip, size_t bytes)
{
	return device_must_alloc(&bed, chip, bytes);
}

static void put(uint32_t chip, uint64_t address, size_t offset, const void *from,
		size_t bytes)
{
	assert_ok(rp_worker_copy_to(bed.worker, chip, address, offset, from, 0, bytes));
}

static void get(uint32_t chip, uint64_t address, size_t offset, void *to, size_t bytes)
{
	assert_ok(rp_worker_copy_from(bed.worker, chip, address, offset, to, 0, bytes));
}

static void copies_of_every_size_move_their_bytes_and_no_other(void **state)
{
	static const size_t sizes[] = {
		1,
		7,
		64,
		RPI_COMMAND_INLINE - 1,
		RPI_COMMAND_INLINE,
		RPI_COMMAND_INLINE + 1,
		4095,
		4096,
		4097,
		65535,
		65536,
		65537,
		131071,
		131072,
		131073,
		CHUNK - 1,
		CHUNK,
		CHUNK + 1,
		3 * CHUNK + 7,
		RPI_STAGING_CHUNKS * CHUNK,
		RPI_STAGING_CHUNKS * CHUNK + 1,
		2 * RPI_STAGING_CHUNKS * CHUNK - 3,
		2 * RPI_STAGING_CHUNKS * CHUNK + 3,
	};
	/* Guards before and after, on both sides; odd addresses and offsets. */
	static const size_t shifts[] = { 0, 1, 13, 64 };
	const size_t room = 9 * CHUNK;
	uint8_t *from = malloc(room + 256);
	uint8_t *to = malloc(room + 256);
	uint64_t address = must_alloc(1, room + 256);
	size_t i, s;

	(void)state;
	for (i = 0; i < COUNT(sizes); i++) {
		for (s = 0; s < COUNT(shifts); s++) {
			const size_t n = sizes[i];
			const size_t device_at = 70 + shifts[(s + 1) % 4];
			uint8_t guard[64];

			memset(guard, 0xa5, sizeof(guard));
			put(1, address, device_at - 64, guard, 64);
			put(1, address, device_at + n, guard, 64);
			device_fill(from + shifts[s], n, i * 10 + s);
			assert_ok(rp_worker_copy_to(bed.worker, 1, address, device_at,
						    from, shifts[s], n));
			memset(to, 0xee, n + 256);
			assert_ok(rp_worker_copy_from(bed.worker, 1, address, device_at,
						      to, 64 + shifts[s], n));
			assert_true(device_holds(to + 64 + shifts[s], n, i * 10 + s));
			assert_int_equal(to[64 + shifts[s] - 1], 0xee);
			assert_int_equal(to[64 + shifts[s] + n], 0xee);
			memset(guard, 0, sizeof(guard));
			get(1, address, device_at - 64, guard, 64);
			for (int g = 0; g < 64; g++)
				assert_int_equal(guard[g], 0xa5);
			get(1, address, device_at + n, guard, 64);
			for (int g = 0; g < 64; g++)
				assert_int_equal(guard[g], 0xa5);
		}
	}
	free(from);
	free(to);
}

static void one_slot_of_a_cache_is_updated_in_place(void **state)
{
	enum {
		SLOTS = 64,
		SLOT_BYTES = 3000
	};
	uint8_t *all = malloc(SLOTS * SLOT_BYTES);
	uint8_t slot[SLOT_BYTES];
	uint64_t address = must_alloc(0, SLOTS * SLOT_BYTES);
	int i;

	(void)state;
	for (i = 0; i < SLOTS; i++)
		device_fill(all + i * SLOT_BYTES, SLOT_BYTES, (uint64_t)i);
	put(0, address, 0, all, SLOTS * SLOT_BYTES);
	device_fill(slot, SLOT_BYTES, 999);
	put(0, address, 17 * SLOT_BYTES, slot, SLOT_BYTES);
	memset(all, 0, SLOTS * SLOT_BYTES);
	get(0, address, 0, all, SLOTS * SLOT_BYTES);
	for (i = 0; i < SLOTS; i++)
		assert_true(device_holds(all + i * SLOT_BYTES, SLOT_BYTES,
					 i == 17 ? 999 : (uint64_t)i));
	get(0, address, 17 * SLOT_BYTES, slot, SLOT_BYTES);
	assert_true(device_holds(slot, SLOT_BYTES, 999));
	free(all);
}

static void the_bounds_are_what_was_asked_for(void **state)
{
	static const struct {
		size_t offset, bytes;
		int want;
	} cases[] = {
		{ 0, 1000, 0 },
		{ 900, 100, 0 },
		{ 999, 1, 0 },
		{ 901, 100, -ERANGE }, /* although the block has 1024 */
		{ 0, 1001, -ERANGE },
		{ 1000, 1, -ERANGE },
		{ 1024, 1, -ERANGE },
		{ SIZE_MAX, 1, -ERANGE },
		{ SIZE_MAX, SIZE_MAX, -ERANGE },
		{ SIZE_MAX - 1, 2, -ERANGE },
		{ SIZE_MAX - 99, 100, -ERANGE },
		{ 2, SIZE_MAX, -ERANGE },
		{ 1, SIZE_MAX / 2, -ERANGE },
		{ (size_t)-1, 8, -ERANGE }, /* what a negative one turns into */
		{ (size_t)-8, 8, -ERANGE },
		{ 0, (size_t)-8, -ERANGE },
		{ 0, 0, -EINVAL },
		{ 1000, 0, -EINVAL },
		{ SIZE_MAX, 0, -EINVAL },
	};
	uint8_t host[1024], seen[1024];
	struct rp_tensor tensor;
	uint64_t address[2];
	uint32_t chip = 0;
	size_t i, k;

	(void)state;
	address[0] = must_alloc(0, 1000);
	assert_ok(rp_worker_alloc_tensor(bed.worker, 0, RP_UINT8, 2,
					 (int64_t[]){ 10, 100 }, NULL, &tensor));
	assert_ok(rp_worker_tensor_address(bed.worker, &tensor, &chip, &address[1]));
	for (k = 0; k < 2; k++) {
		device_fill(host, 1000, k);
		put(0, address[k], 0, host, 1000);
		for (i = 0; i < COUNT(cases); i++) {
			size_t offset = cases[i].offset;
			size_t bytes = cases[i].bytes;

			assert_int_equal(rp_worker_copy_to(bed.worker, 0, address[k],
							   offset, host, offset, bytes),
					 cases[i].want);
			memset(seen, 0x77, sizeof(seen));
			assert_int_equal(rp_worker_copy_from(bed.worker, 0, address[k],
							     offset, seen, 0, bytes),
					 cases[i].want);
			if (cases[i].want)
				assert_int_equal(seen[0], 0x77);
			assert_int_equal(rp_worker_copy_to_all(
						 bed.worker, &chip, &address[k], 1,
						 offset, host + (offset & 1023), bytes),
					 cases[i].want);
		}
		get(0, address[k], 0, seen, 1000);
		assert_true(device_holds(seen, 1000, k));
	}
	assert_int_equal(rp_worker_copy_to(bed.worker, 0, address[0], 901, host, 0, 100),
			 -ERANGE);
	assert_says("rp_worker_copy_to", "offset 901 + 100 bytes", "holds 1000");
	assert_int_equal(
		rp_worker_copy_from(bed.worker, 0, address[0], 901, host, 0, 100),
		-ERANGE);
	assert_says("rp_worker_copy_from", "offset 901 + 100 bytes", "holds 1000");
	/* What succeeds leaves the line alone. */
	put(0, address[0], 0, host, 1000);
	get(0, address[0], 0, seen, 8);
	assert_says("rp_worker_copy_from", "offset 901 + 100 bytes", "holds 1000");
}

static void addresses_start_an_allocation_of_that_chip(void **state)
{
	uint64_t first = must_alloc(0, 4096);
	uint64_t address = must_alloc(0, 4096);
	uint64_t other = must_alloc(1, 4096);
	uint64_t freed = must_alloc(0, 4096);
	const struct {
		uint32_t chip;
		uint64_t address;
		const char *why;
	} cases[] = {
		{ 0, address + 1, "offset of 1" },
		{ 0, address + 64, "offset of 64" },
		{ 0, address + 1024, "offset of 1024" },
		{ 0, address + 4095, "offset of 4095" },
		{ 0, address - 1, "offset of 4095" }, /* of the one before */
		{ 0, freed, "start of a live allocation" },
		{ 0, freed + 8, "start of a live allocation" },
		{ 0, other, "is chip 1's" },
		{ 1, address, "is chip 0's" },
		{ 0, 0, "start of a live allocation" },
		{ 0, UINT64_MAX, "start of a live allocation" },
		{ 0, 12345, "start of a live allocation" },
		{ 0, (uint64_t)(uintptr_t)&bed, "start of a live allocation" },
		{ CHIPS, address, "chip 3, expected 0..2" },
		{ UINT32_MAX, address, "chip 4294967295" },
	};
	uint8_t host[64] = { 0 };
	size_t i;

	(void)state;
	assert_int_equal(first + 4096, address);
	assert_ok(rp_worker_device_free(bed.worker, 0, freed));
	for (i = 0; i < COUNT(cases); i++) {
		const uint32_t chip = cases[i].chip;
		const uint64_t at = cases[i].address;

		assert_int_equal(rp_worker_copy_to(bed.worker, chip, at, 0, host, 0, 8),
				 -EINVAL);
		assert_says("rp_worker_copy_to: ", cases[i].why);
		assert_int_equal(rp_worker_copy_from(bed.worker, chip, at, 0, host, 0, 8),
				 -EINVAL);
		assert_says("rp_worker_copy_from: ", cases[i].why);
		assert_int_equal(
			rp_worker_copy_to_all(bed.worker, &chip, &at, 1, 0, host, 8),
			-EINVAL);
		assert_says("rp_worker_copy_to_all: ", cases[i].why);
	}
}

static void host_memory_is_some_and_ends_before_the_last_address(void **state)
{
	uint64_t address = must_alloc(0, 4096);
	uint8_t host[64] = { 0 };
	uint32_t chip = 0;
	/* Found before anything is reached for, with and without an offset. */
	static const size_t offsets[] = { 0, 1, 64, SIZE_MAX };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(offsets); i++) {
		assert_int_equal(
			rp_worker_copy_to(bed.worker, 0, address, 0, NULL, offsets[i], 8),
			-EINVAL);
		assert_int_equal(rp_worker_copy_from(bed.worker, 0, address, 0, NULL,
						     offsets[i], 8),
				 -EINVAL);
		assert_says("rp_worker_copy_from", "NULL");
	}
	for (i = 0; i < 3; i++) {
		size_t offset = SIZE_MAX - i * 100;

		assert_int_equal(
			rp_worker_copy_to(bed.worker, 0, address, 0, host, offset, 8),
			-ERANGE);
		assert_int_equal(
			rp_worker_copy_from(bed.worker, 0, address, 0, host, offset, 8),
			-ERANGE);
		assert_says("rp_worker_copy_from", "address space");
	}
	assert_int_equal(
		rp_worker_copy_to_all(bed.worker, &chip, &address, 1, 0, NULL, 8),
		-EINVAL);
	assert_int_equal(rp_worker_copy_to(NULL, 0, address, 0, host, 0, 8), -EINVAL);
	assert_int_equal(rp_worker_copy_from(NULL, 0, address, 0, host, 0, 8), -EINVAL);
	assert_int_equal(rp_worker_copy_to_all(NULL, &chip, &address, 1, 0, host, 8),
			 -EINVAL);
}

static void a_fan_out_is_staged_once_and_reaches_all(void **state)
{
	static const size_t sizes[] = { 1, 208, 209, 70000, 5 * CHUNK + 9 };
	static const uint32_t orders[][CHIPS] = { { 0, 1, 2 }, { 2, 0, 1 } };
	uint8_t *from = malloc(6 * CHUNK);
	uint8_t *to = malloc(6 * CHUNK);
	uint64_t addresses[CHIPS];
	size_t i, order, count;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		addresses[i] = must_alloc((uint32_t)i, 6 * CHUNK);
	for (i = 0; i < COUNT(sizes); i++) {
		for (order = 0; order < COUNT(orders); order++) {
			for (count = 1; count <= CHIPS; count++) {
				const size_t n = sizes[i];
				struct rp_worker_stats before = bed_stats(&bed);
				const uint64_t seed = i * 100 + order * 10 + count;
				uint64_t at[CHIPS];
				size_t k;

				for (k = 0; k < CHIPS; k++)
					at[k] = addresses[orders[order][k]];
				device_fill(from, n, seed);
				assert_ok(rp_worker_copy_to_all(bed.worker, orders[order],
								at, count, 3, from, n));
				/* What rides in the command passes through no chunk. */
				assert_int_equal(bed_stats(&bed).bytes_staged -
							 before.bytes_staged,
						 n > RPI_COMMAND_INLINE ? n : 0);
				for (k = 0; k < count; k++) {
					get(orders[order][k], at[k], 3, to, n);
					assert_true(device_holds(to, n, seed));
				}
			}
		}
	}
	free(from);
	free(to);
}

static void fan_outs_that_can_not_be_change_nothing(void **state)
{
	uint64_t addresses[CHIPS + 1];
	uint8_t host[64], seen[64];
	uint32_t i;

	(void)state;
	device_fill(host, 64, 1);
	for (i = 0; i < CHIPS; i++) {
		addresses[i] = must_alloc(i, 64);
		put(i, addresses[i], 0, host, 64);
	}
	memset(host, 0xff, sizeof(host));
#define FAN(chips, count)                                                                \
	rp_worker_copy_to_all(bed.worker, (uint32_t[]){ 0, 1, chips }, addresses, count, \
			      0, host, 64)
	assert_int_equal(FAN(2, 0), -EINVAL);
	assert_int_equal(FAN(2, CHIPS + 1), -EINVAL);
	assert_int_equal(FAN(2, SIZE_MAX), -EINVAL);
	assert_int_equal(FAN(1, 3), -EINVAL);
	assert_int_equal(FAN(CHIPS, 3), -EINVAL);
	assert_int_equal(FAN(UINT32_MAX, 3), -EINVAL);
	addresses[2]++;
	assert_int_equal(FAN(2, 3), -EINVAL);
	addresses[2]--;
	assert_int_equal(
		rp_worker_copy_to_all(bed.worker, NULL, addresses, 1, 0, host, 64),
		-EINVAL);
	assert_int_equal(rp_worker_copy_to_all(bed.worker, &i, NULL, 1, 0, host, 64),
			 -EINVAL);
#undef FAN
	for (i = 0; i < CHIPS; i++) {
		get(i, addresses[i], 0, seen, 64);
		assert_true(device_holds(seen, 64, 1));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copies_of_every_size_move_their_bytes_and_no_other),
		TEST(one_slot_of_a_cache_is_updated_in_place),
		TEST(the_bounds_are_what_was_asked_for),
		TEST(addresses_start_an_allocation_of_that_chip),
		TEST(host_memory_is_some_and_ends_before_the_last_address),
		TEST(a_fan_out_is_staged_once_and_reaches_all),
		TEST(fan_outs_that_can_not_be_change_nothing),
	};

	return cmocka_run_group_tests_name("test_copy", tests, NULL, NULL);
}
