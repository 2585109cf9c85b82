/* SPDX-License-Identifier: MIT */
/* Resident tensors and raw device memory: given, counted, given back. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "runtime/sizing.h"
#include "support.h"
#include "worker/worker.h"

#define CHIPS	     2
#define MEMORY_BYTES (32 * MIB)

static struct bed bed;

static int set_up(void **state)
{
	return device_setup(state, &bed, CHIPS, MEMORY_BYTES);
}

static int tear_down(void **state)
{
	return device_teardown(state, &bed);
}

static struct rp_tensor must_alloc(uint32_t chip, int64_t bytes)
{
	struct rp_tensor out;

	assert_ok(rp_worker_alloc_tensor(bed.worker, chip, RP_UINT8, 1, &bytes, NULL,
					 &out));
	return out;
}

static uint64_t address_of(const struct rp_tensor *tensor)
{
	uint64_t address;
	uint32_t chip;

	assert_ok(rp_worker_tensor_address(bed.worker, tensor, &chip, &address));
	return address;
}

static void a_tensor_starts_with_what_it_is_given(void **state)
{
	static const int64_t shapes[][3] = {
		{ 1, 1, 2 }, { 3, 5, 14 }, { 13, 8, 2 }, { 4, 1024, 1024 }
	};
	uint32_t dtype;
	size_t i;

	(void)state;
	for (dtype = RP_FLOAT32; dtype < RP_DTYPE_END; dtype++) {
		for (i = 0; i < COUNT(shapes); i++) {
			struct rp_tensor init, t;
			size_t bytes;
			uint8_t *from, *to;

			/* Ordinary memory, younger than the processes. */
			from = malloc(32 * MIB);
			init = bed_tensor(from, dtype, 3, shapes[i]);
			assert_ok(rp_tensor_bytes(&init, &bytes));
			if (bytes > 20 * MIB) {
				free(from);
				continue;
			}
			to = malloc(bytes);
			device_fill(from, bytes, dtype * 10 + i);
			assert_ok(rp_worker_alloc_tensor(bed.worker, 1, dtype, 3,
							 shapes[i], &init, &t));
			assert_int_equal(t.dtype, dtype);
			assert_int_equal(t.rank, 3);
			assert_memory_equal(t.shape, shapes[i], sizeof(shapes[i]));
			assert_true(rp_tensor_contiguous(&t));
			memset(from, 0, bytes);
			assert_ok(rp_worker_copy_from(bed.worker, 1, address_of(&t), 0,
						      to, 0, bytes));
			assert_true(device_holds(to, bytes, dtype * 10 + i));
			assert_ok(rp_worker_free_tensor(bed.worker, &t));
			free(from);
			free(to);
		}
	}
	assert_int_equal(device_committed(bed.worker, 1), 0);
}

#define SHAPE(...)                           \
	COUNT(((int64_t[]){ __VA_ARGS__ })), \
	{                                    \
		__VA_ARGS__                  \
	}

static void bad_tensors_allocate_nothing(void **state)
{
	static const struct {
		uint32_t chip, dtype, rank;
		int64_t shape[6];
		const char *why;
	} cases[] = {
		{ 0, RP_FLOAT32, 0, { 1 }, "rank 0" },
		{ 0, RP_FLOAT32, 6, { 1, 1, 1, 1, 1, 1 }, "rank 6" },
		{ 0, RP_FLOAT32, UINT32_MAX, { 1 }, "rank 4294967295" },
		{ 0, RP_FLOAT32, SHAPE(4, 0), "shape[1] 0" },
		{ 0, RP_FLOAT32, SHAPE(4, -1), "shape[1] -1" },
		{ 0, RP_FLOAT32, SHAPE(INT64_MIN, 4), "shape[0] -9223372036854775808" },
		{ 0, RP_FLOAT32, SHAPE(INT64_MAX, 9), "too large" },
		{ 0, RP_INT8, SHAPE(INT64_MAX), "too large" },
		{ 0, RP_INT64, SHAPE((int64_t)1 << 31, (int64_t)1 << 31), "too large" },
		{ 0, RP_INT64, SHAPE(1 << 13, 1 << 13, 1 << 13, 1 << 13, 1 << 12),
		  "too large" },
		{ 0, 0, SHAPE(4), "dtype 0" },
		{ 0, RP_DTYPE_END, SHAPE(4), "dtype 16" },
		{ 0, RP_FP4E2M1, SHAPE(2, 3), "even" },
		{ CHIPS, RP_INT8, SHAPE(4), "chip 2" },
		{ UINT32_MAX, RP_INT8, SHAPE(4), "chip 4294967295" },
	};
	struct rp_tensor out;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		assert_int_equal(rp_worker_alloc_tensor(bed.worker, cases[i].chip,
							cases[i].dtype, cases[i].rank,
							cases[i].shape, NULL, &out),
				 -EINVAL);
		assert_says("rp_worker_alloc_tensor: ", cases[i].why);
	}
	assert_int_equal(
		rp_worker_alloc_tensor(NULL, 0, RP_INT8, 1, (int64_t[]){ 4 }, NULL, &out),
		-EINVAL);
	assert_int_equal(
		rp_worker_alloc_tensor(bed.worker, 0, RP_INT8, 1, NULL, NULL, &out),
		-EINVAL);
	assert_int_equal(rp_worker_alloc_tensor(bed.worker, 0, RP_INT8, 1,
						(int64_t[]){ 4 }, NULL, NULL),
			 -EINVAL);
	assert_int_equal(device_committed(bed.worker, 0), 0);
}

static void an_init_that_differs_allocates_nothing(void **state)
{
	float data[64] = { 0 };
	struct rp_tensor good = TENSOR(data, RP_FLOAT32, 4, 4);
	struct rp_tensor resident = must_alloc(1, 64);
	struct rp_tensor bad[9], out;
	const char *why[9] = { "dtype or shape", "dtype or shape", "dtype or shape",
			       "dtype or shape", "dtype or shape", "strided",
			       "no data",	 "resident",	   "dtype or shape" };
	size_t i;

	(void)state;
	bad[0] = TENSOR(data, RP_INT32, 4, 4);
	bad[1] = TENSOR(data, RP_FLOAT32, 16);
	bad[2] = TENSOR(data, RP_FLOAT32, 4, 4, 1);
	bad[3] = TENSOR(data, RP_FLOAT32, 4, 1); /* nothing is broadcast */
	bad[4] = TENSOR(data, RP_FLOAT32, 2, 8);
	bad[5] = TENSOR(data, RP_FLOAT32, 4, 8);
	assert_ok(rp_tensor_slice(&bad[5], 1, 0, 4, 1, &bad[5]));
	bad[6] = good;
	bad[6].data = NULL;
	bad[7] = good;
	bad[7].resident = resident.resident;
	bad[8] = good;
	bad[8].rank = UINT32_MAX;
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(rp_worker_alloc_tensor(bed.worker, 0, RP_FLOAT32, 2,
							(int64_t[]){ 4, 4 }, &bad[i],
							&out),
				 -EINVAL);
		assert_says("rp_worker_alloc_tensor", "init", why[i]);
	}
	assert_int_equal(device_committed(bed.worker, 0), 0);
}

static void memory_is_counted_on_its_own_chip(void **state)
{
	uint64_t before = 0, after = 0;
	struct rp_tensor t = must_alloc(1, 1000);
	uint64_t raw, none[2];

	(void)state;
	assert_int_equal(device_committed(bed.worker, 1), 1024);
	assert_int_equal(device_committed(bed.worker, 0), 0);
	assert_ok(rp_worker_device_alloc(bed.worker, 0, 5000, &raw));
	assert_int_equal(device_committed(bed.worker, 0), 5120);
	assert_int_equal(device_committed(bed.worker, 1), 1024);
	assert_ok(rp_worker_free_tensor(bed.worker, &t));
	assert_ok(rp_worker_device_free(bed.worker, 0, raw));
	assert_int_equal(device_committed(bed.worker, 0), 0);
	assert_int_equal(device_committed(bed.worker, 1), 0);
	/* What a chip's runtime holds for itself counts too. */
	assert_ok(rp_worker_committed_device_memory(bed.worker, 1, &before));
	atomic_fetch_add(&bed.worker->plane.peers[1].counts.arena_bytes, 4096);
	assert_ok(rp_worker_committed_device_memory(bed.worker, 1, &after));
	assert_int_equal(after, before + 4096);
	assert_true(before >= 4 * RPI_DEFAULT_HEAP);
	assert_int_equal(rp_worker_committed_device_memory(bed.worker, 0, NULL), -EINVAL);
	assert_int_equal(rp_worker_committed_device_memory(bed.worker, CHIPS, none),
			 -EINVAL);
	assert_int_equal(rp_worker_committed_device_memory(NULL, 0, none), -EINVAL);
	/* A simulated chip has no card: it says so instead of zeros. */
	assert_int_equal(rp_worker_device_memory_info(bed.worker, 0, &none[0], &none[1]),
			 -EOPNOTSUPP);
	assert_says("rp_worker_device_memory_info", "sim");
	assert_int_equal(rp_worker_device_memory_info(bed.worker, 0, NULL, &none[1]),
			 -EINVAL);
	assert_int_equal(
		rp_worker_device_memory_info(bed.worker, CHIPS, &none[0], &none[1]),
		-EINVAL);
}

static void a_tensor_is_freed_once_however_often_it_is_asked(void **state)
{
	struct rp_tensor a = must_alloc(0, 4096);
	struct rp_tensor b, part;
	uint64_t address = address_of(&a);

	(void)state;
	assert_ok(rp_tensor_slice(&a, 0, 0, 4095, 1, &part));
	assert_int_equal(rp_worker_free_tensor(bed.worker, &part), -EINVAL);
	assert_says("rp_worker_free_tensor", "part");
	assert_ok(rp_tensor_slice(&a, 0, 1, 4095, 1, &part));
	assert_int_equal(rp_worker_free_tensor(bed.worker, &part), -EINVAL);
	assert_int_equal(rp_worker_free_stacked(bed.worker, &a), -EINVAL);
	assert_ok(rp_worker_free_tensor(bed.worker, &a));
	assert_int_equal(rp_worker_device_free(bed.worker, 9, 0), -EINVAL);
	/* What succeeds leaves the line alone. */
	assert_ok(rp_worker_free_tensor(bed.worker, &a));
	assert_ok(rp_worker_free_tensor(bed.worker, &a));
	assert_says("rp_worker_device_free", "chip 9");
	assert_int_equal(device_committed(bed.worker, 0), 0);
	b = must_alloc(0, 4096);
	assert_int_equal(address_of(&b), address);
	assert_int_equal(rp_worker_free_tensor(bed.worker, &a), -ESTALE);
	assert_says("rp_worker_free_tensor", "freed");
	assert_ok(device_round_trip(bed.worker, 0, address, 4096, 1));
	assert_ok(rp_worker_free_tensor(bed.worker, &b));
	b = TENSOR(&part, RP_UINT8, 8);
	assert_int_equal(rp_worker_free_tensor(bed.worker, &b), -EINVAL);
	assert_int_equal(rp_worker_free_tensor(bed.worker, NULL), -EINVAL);
	assert_int_equal(rp_worker_free_tensor(NULL, &b), -EINVAL);
}

static void another_workers_tensor_is_not_freed(void **state)
{
	struct rp_tensor t = must_alloc(0, 64);
	struct bed other;

	(void)state;
	bed_open(&other, 1);
	assert_int_equal(rp_worker_free_tensor(other.worker, &t), -EXDEV);
	assert_ok(rp_worker_free_tensor(bed.worker, &t));
	bed_close(&other);
}

static void a_free_that_fails_can_be_tried_again(void **state)
{
	struct rp_tensor t = must_alloc(0, 5000);
	uint64_t raw;

	(void)state;
	assert_ok(rp_worker_device_alloc(bed.worker, 0, 1024, &raw));
	trap_fail("device.give", getpid(), 1, 2, -EIO);
	assert_int_equal(rp_worker_free_tensor(bed.worker, &t), -EIO);
	assert_says("rp_worker_free_tensor");
	assert_int_equal(rp_worker_device_free(bed.worker, 0, raw), -EIO);
	/* Nothing has changed: it is alive and can be used. */
	assert_int_equal(device_committed(bed.worker, 0), 5120 + 1024);
	assert_ok(device_round_trip(bed.worker, 0, address_of(&t), 5000, 1));
	assert_ok(rp_worker_free_tensor(bed.worker, &t));
	assert_ok(rp_worker_free_tensor(bed.worker, &t));
	assert_ok(rp_worker_device_free(bed.worker, 0, raw));
	assert_int_equal(device_committed(bed.worker, 0), 0);
}

static void exhaustion_spares_what_is_alive(void **state)
{
	struct rp_tensor t[3], none;
	int64_t large[] = { 10 * MIB };
	int i;

	(void)state;
	/* Three quarters of the memory are for the caller. */
	for (i = 0; i < 2; i++) {
		t[i] = must_alloc(0, 10 * MIB);
		assert_ok(device_round_trip(bed.worker, 0, address_of(&t[i]), 10 * MIB,
					    (uint64_t)i));
	}
	assert_int_equal(
		rp_worker_alloc_tensor(bed.worker, 0, RP_UINT8, 1, large, NULL, &none),
		-ENOMEM);
	assert_says("rp_worker_alloc_tensor: 10485760 bytes", "chip 0", "free are ",
		    "4194304", "largest block has 4194304");
	for (i = 0; i < 2; i++) {
		uint8_t *host = malloc(10 * MIB);

		assert_ok(rp_worker_copy_from(bed.worker, 0, address_of(&t[i]), 0, host,
					      0, 10 * MIB));
		assert_true(device_holds(host, 10 * MIB, (uint64_t)i));
		free(host);
	}
	assert_ok(rp_worker_free_tensor(bed.worker, &t[0]));
	assert_ok(rp_worker_alloc_tensor(bed.worker, 0, RP_UINT8, 1, large, NULL, &none));
}

static void a_raw_block_is_named_by_its_start(void **state)
{
	struct rp_tensor t = must_alloc(0, 64);
	uint64_t raw, other, none = 77;

	(void)state;
	assert_ok(rp_worker_device_alloc(bed.worker, 0, 3000, &raw));
	assert_ok(rp_worker_device_alloc(bed.worker, 1, 3000, &other));
	assert_int_equal(raw % RP_DEVICE_ALIGN, 0);
	/* An address says which chip it is of. */
	assert_true(raw + MEMORY_BYTES <= other || other + MEMORY_BYTES <= raw);
	assert_int_equal(rp_worker_device_free(bed.worker, 1, raw), -EINVAL);
	assert_int_equal(rp_worker_device_free(bed.worker, 0, raw + 1024), -EINVAL);
	assert_int_equal(rp_worker_device_free(bed.worker, 0, raw + 1), -EINVAL);
	assert_int_equal(rp_worker_device_free(bed.worker, 0, 0), -EINVAL);
	assert_int_equal(rp_worker_device_free(bed.worker, 0, UINT64_MAX), -EINVAL);
	assert_int_equal(rp_worker_device_free(bed.worker, CHIPS, raw), -EINVAL);
	assert_int_equal(rp_worker_device_free(NULL, 0, raw), -EINVAL);
	assert_int_equal(rp_worker_device_free(bed.worker, 0, address_of(&t)), -EINVAL);
	assert_says("rp_worker_device_free", "rp_worker_free_tensor()");
	assert_ok(rp_worker_device_free(bed.worker, 0, raw));
	assert_int_equal(rp_worker_device_free(bed.worker, 0, raw), -EINVAL);
	assert_int_equal(rp_worker_device_alloc(bed.worker, 0, 0, &none), -EINVAL);
	assert_int_equal(rp_worker_device_alloc(bed.worker, 0, SIZE_MAX, &none), -ENOMEM);
	assert_int_equal(rp_worker_device_alloc(bed.worker, CHIPS, 8, &none), -EINVAL);
	assert_int_equal(rp_worker_device_alloc(bed.worker, 0, 8, NULL), -EINVAL);
	assert_int_equal(rp_worker_device_alloc(NULL, 0, 8, &none), -EINVAL);
	assert_int_equal(none, 77);
}

static bool is_mapped(pid_t pid, uint64_t address)
{
	unsigned long long low, high;
	char path[64], line[512];
	bool mapped = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		mapped |= sscanf(line, "%llx-%llx", &low, &high) == 2 && low <= address &&
			  address < high;
	fclose(maps);
	return mapped;
}

static void device_memory_is_mapped_in_its_chip_only(void **state)
{
	uint64_t address[CHIPS];
	uint32_t chip;

	(void)state;
	for (chip = 0; chip < CHIPS; chip++)
		assert_ok(rp_worker_device_alloc(bed.worker, chip, MIB, &address[chip]));
	for (chip = 0; chip < CHIPS; chip++) {
		assert_false(is_mapped(getpid(), address[chip]));
		assert_true(is_mapped(rp_worker_pid(bed.worker, chip), address[chip]));
		assert_false(
			is_mapped(rp_worker_pid(bed.worker, 1 - chip), address[chip]));
	}
}

static void closed_workers_refuse_and_have_freed_everything(void **state)
{
	struct rp_tensor t = must_alloc(0, 64);
	struct rp_tensor host, stack, out;
	uint8_t bytes[64] = { 0 };
	uint64_t raw, n;
	uint32_t chip;
	size_t i;

	(void)state;
	host = TENSOR(bytes, RP_UINT8, 2, 32);
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	assert_ok(rp_worker_device_alloc(bed.worker, 0, 64, &raw));
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
#define REFUSED(call)       \
	{                   \
#call, call \
	}
	const struct {
		const char *text;
		int err;
	} refused[] = {
		REFUSED(rp_worker_alloc_tensor(bed.worker, 0, RP_UINT8, 1,
					       (int64_t[]){ 8 }, NULL, &out)),
		REFUSED(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &out)),
		REFUSED(rp_worker_device_alloc(bed.worker, 0, 64, &n)),
		REFUSED(rp_worker_tensor_address(bed.worker, &t, &chip, &n)),
		REFUSED(rp_worker_copy_to(bed.worker, 0, raw, 0, bytes, 0, 8)),
		REFUSED(rp_worker_copy_from(bed.worker, 0, raw, 0, bytes, 0, 8)),
		REFUSED(rp_worker_copy_to_all(bed.worker, (uint32_t[]){ 0 }, &raw, 1, 0,
					      bytes, 8)),
		REFUSED(rp_worker_copy_stacked_from(bed.worker, &stack, &host)),
		REFUSED(rp_worker_committed_device_memory(bed.worker, 0, &n)),
		REFUSED(rp_worker_device_memory_info(bed.worker, 0, &n, &n)),
	};
#undef REFUSED

	for (i = 0; i < COUNT(refused); i++)
		if (refused[i].err != -ESHUTDOWN)
			fail_msg("%s: %d", refused[i].text, refused[i].err);
	assert_int_equal(rp_worker_copy_to(bed.worker, 0, raw, 0, bytes, 0, 8),
			 -ESHUTDOWN);
	assert_says("rp_worker_copy_to");
	/* Nothing is left to free, and saying so again does no harm. */
	assert_ok(rp_worker_free_tensor(bed.worker, &t));
	assert_ok(rp_worker_free_tensor(bed.worker, &t));
	assert_ok(rp_worker_free_stacked(bed.worker, &stack));
	assert_ok(rp_worker_device_free(bed.worker, 0, raw));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_tensor_starts_with_what_it_is_given),
		TEST(bad_tensors_allocate_nothing),
		TEST(an_init_that_differs_allocates_nothing),
		TEST(memory_is_counted_on_its_own_chip),
		TEST(a_tensor_is_freed_once_however_often_it_is_asked),
		TEST(another_workers_tensor_is_not_freed),
		TEST(a_free_that_fails_can_be_tried_again),
		TEST(exhaustion_spares_what_is_alive),
		TEST(a_raw_block_is_named_by_its_start),
		TEST(device_memory_is_mapped_in_its_chip_only),
		TEST(closed_workers_refuse_and_have_freed_everything),
	};

	return cmocka_run_group_tests_name("test_device", tests, NULL, NULL);
}
