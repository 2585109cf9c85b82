/* SPDX-License-Identifier: MIT */
/* Moving data between windows: loads, stores, parts of tensors, atomic sums. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/half.h"
#include "completion/fence.h"
#include "ranks.h"

enum {
	GRID,  /* 6 x 10 x 4 */
	LARGE, /* goes around the caches */
	F16,
	BF16,
	I32,
	I16,
	I8,
	F32,
	NIBBLES,
	I64,
	BUFFERS,
};

#define GRID_COUNT  240
#define LARGE_COUNT (((size_t)5 << 20) / 4)
#define SUMS	    96

static const struct rp_domain_buffer buffers[BUFFERS] = {
	[GRID] = { "grid", RP_UINT32, RP_BUFFER_DEFAULT, GRID_COUNT },
	[LARGE] = { "large", RP_UINT32, RP_BUFFER_DEFAULT, LARGE_COUNT },
	[F16] = { "f16", RP_FLOAT16, RP_BUFFER_DEFAULT, SUMS },
	[BF16] = { "bf16", RP_BFLOAT16, RP_BUFFER_DEFAULT, SUMS },
	[I32] = { "i32", RP_INT32, RP_BUFFER_DEFAULT, SUMS },
	[I16] = { "i16", RP_INT16, RP_BUFFER_DEFAULT, SUMS },
	[I8] = { "i8", RP_INT8, RP_BUFFER_DEFAULT, SUMS },
	[F32] = { "f32", RP_FLOAT32, RP_BUFFER_DEFAULT, SUMS },
	[NIBBLES] = { "nibbles", RP_FP4E2M1, RP_BUFFER_DEFAULT, 64 },
	[I64] = { "i64", RP_INT64, RP_BUFFER_DEFAULT, 8 },
};

typedef int (*job_fn)(struct rp_chip *chip, struct rp_comm *comm,
		      const struct rank_job *job);

static void on_ranks(uint32_t size, job_fn fn)
{
	for (int chips = 0; chips <= !RPI_FENCE_TSAN; chips++) {
		struct ranks_options options = {
			.size = size,
			.threads = !chips,
			.buffers = buffers,
			.buffer_count = BUFFERS,
		};
		struct rank_job job = { .fn = fn };
		struct ranks *ranks = ranks_open(&options);
		int err = ranks_run(ranks, &job);

		if (err)
			fail_msg("%u %s: %d \"%s\"", size, chips ? "chips" : "threads",
				 err, rp_last_error());
		ranks_close(ranks);
	}
}

#define REFUSED(err, call, needle)                                                       \
	do {                                                                             \
		RANK_MUST(chip, (call) == (err));                                        \
		if (!strstr(rp_last_error(), needle))                                    \
			return rp_chip_fail(chip, -EBADMSG, "line %d: \"%s\"", __LINE__, \
					    rp_last_error());                            \
	} while (0)

static uint32_t *own(struct rp_comm *comm, uint32_t buffer)
{
	struct rp_tensor tensor;

	return rp_comm_tensor(comm, rp_comm_rank(comm), buffer, &tensor) ? NULL
									 : tensor.data;
}

/* --- Loads and stores ------------------------------------------------------------ */

static int load_and_store(struct rp_chip *chip, struct rp_comm *comm,
			  const struct rank_job *job)
{
	uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	uint32_t next = (rank + 1) % size, out[50], in[50];
	uint8_t bytes[4] = { 0x21, 0x43, 0, 0 };

	(void)job;
	for (uint32_t i = 0; i < 50; i++)
		in[i] = 1000 * rank + i;
	RANK_TRY(rp_comm_store(comm, next, GRID, 100, 50, in));
	RANK_TRY(rp_comm_store(comm, next, NIBBLES, 62, 2, bytes));
	RANK_TRY(rp_comm_barrier(comm));
	for (uint32_t peer = 0; peer < size; peer++) {
		RANK_TRY(rp_comm_load(comm, peer, GRID, 100, 50, out));
		for (uint32_t i = 0; i < 50; i++)
			RANK_MUST(chip, out[i] == 1000 * ((peer + size - 1) % size) + i);
	}
	RANK_MUST(chip, own(comm, GRID)[99] == 0 && own(comm, GRID)[150] == 0);
	RANK_TRY(rp_comm_load(comm, rank, NIBBLES, 60, 4, bytes + 2));
	RANK_MUST(chip, bytes[2] == 0 && bytes[3] == 0x21);
	/* To the end, and nothing. */
	RANK_TRY(rp_comm_load(comm, next, GRID, GRID_COUNT - 1, 1, out));
	RANK_TRY(rp_comm_load(comm, next, GRID, GRID_COUNT, 0, out));
	REFUSED(-EINVAL, rp_comm_load(comm, next, GRID, GRID_COUNT, 1, out),
		"comm_load: offset 240 + 1 elements, the buffer 'grid' has 240");
	REFUSED(-EINVAL, rp_comm_load(comm, next, GRID, 1, UINT64_MAX, out),
		"comm_load: offset 1");
	REFUSED(-EINVAL, rp_comm_store(comm, size, GRID, 0, 1, in), "comm_store: rank");
	REFUSED(-EINVAL, rp_comm_store(comm, next, BUFFERS, 0, 1, in),
		"comm_store: buffer");
	REFUSED(-EINVAL, rp_comm_store(comm, next, GRID, 0, 1, NULL),
		"comm_store: memory NULL");
	REFUSED(-EINVAL, rp_comm_store(comm, next, NIBBLES, 1, 2, bytes), "even ones");
	return rp_comm_barrier(comm);
}

static void elements_are_loaded_and_stored_within_the_buffer(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= 3; size++)
		on_ranks(size, load_and_store);
}

static int move_large(struct rp_chip *chip, struct rp_comm *comm,
		      const struct rank_job *job)
{
	uint32_t rank = rp_comm_rank(comm), next = (rank + 1) % rp_comm_size(comm);
	uint32_t *memory = malloc(LARGE_COUNT * 4);
	const uint32_t *mine = own(comm, LARGE);

	(void)job;
	RANK_MUST(chip, memory && mine);
	for (size_t i = 0; i < LARGE_COUNT; i++)
		memory[i] = (uint32_t)i * 7 + rank;
	RANK_TRY(rp_comm_store(comm, next, LARGE, 0, LARGE_COUNT, memory));
	/* What was stored around the caches is there when the signal is. */
	RANK_TRY(rp_comm_notify(comm, I32, next, 0, 1, RP_NOTIFY_SET));
	RANK_TRY(rp_comm_wait(comm, I32, 0, RP_EQ, 1, 0));
	for (size_t i = 0; i < LARGE_COUNT; i++)
		RANK_MUST(chip, mine[i] == (uint32_t)i * 7 + !rank);
	free(memory);
	return 0;
}

static void a_signal_follows_what_was_stored_around_the_caches(void **state)
{
	(void)state;
	on_ranks(2, move_large);
}

/* --- Parts of tensors --------------------------------------------------------------- */

/* The grid's element, by its three indices. */
static size_t at(int64_t a, int64_t b, int64_t c)
{
	return (size_t)((a * 10 + b) * 4 + c);
}

static int put_parts(struct rp_chip *chip, struct rp_comm *comm,
		     const struct rank_job *job)
{
	static const struct rp_region regions[] = {
		{ 3, 0, { 6, 10, 4 }, { 0, 0, 0 }, { 6, 10, 4 } },
		{ 3, 0, { 6, 10, 4 }, { 2, 0, 0 }, { 3, 10, 4 } },
		{ 3, 0, { 6, 10, 4 }, { 1, 3, 0 }, { 2, 5, 4 } },
		{ 3, 0, { 6, 10, 4 }, { 5, 9, 3 }, { 1, 1, 1 } },
		{ 3, 0, { 6, 10, 4 }, { 0, 2, 1 }, { 6, 1, 2 } },
		{ 3, 0, { 6, 10, 4 }, { 0, 0, 3 }, { 6, 10, 1 } },
	};
	uint32_t rank = rp_comm_rank(comm), peer = (rank + 1) % rp_comm_size(comm);
	uint32_t data[2 * GRID_COUNT], back[2 * GRID_COUNT];
	const uint32_t *mine = own(comm, GRID);
	struct rp_tensor tensor, read;

	(void)job;
	for (uint32_t i = 0; i < COUNT(data); i++)
		data[i] = 10000 + i;
	for (size_t k = 0; k < COUNT(regions) * 2; k++) {
		const struct rp_region *r = &regions[k / 2];
		uint32_t n = 0;

		RANK_TRY(rp_tensor_host(&tensor, data, RP_UINT32, 3, r->sizes));
		RANK_TRY(rp_tensor_host(&read, back, RP_UINT32, 3, r->sizes));
		if (k & 1) {
			/* With gaps on this side too: every second element. */
			int64_t wide[] = { r->sizes[0], r->sizes[1], r->sizes[2] * 2 };

			RANK_TRY(rp_tensor_host(&tensor, data, RP_UINT32, 3, wide));
			RANK_TRY(rp_tensor_slice(&tensor, 2, 0, r->sizes[2], 2, &tensor));
			RANK_TRY(rp_tensor_host(&read, back, RP_UINT32, 3, wide));
			RANK_TRY(rp_tensor_slice(&read, 2, 0, r->sizes[2], 2, &read));
		}
		memset(own(comm, GRID), 0, GRID_COUNT * 4);
		memset(back, 0, sizeof(back));
		RANK_TRY(rp_comm_barrier(comm));
		RANK_TRY(rp_comm_put(comm, peer, GRID, r, &tensor, RP_PUT_STORE));
		RANK_TRY(rp_comm_get(comm, peer, GRID, r, &read));
		RANK_TRY(rp_comm_barrier(comm));
		for (int64_t a = 0; a < 6; a++)
			for (int64_t b = 0; b < 10; b++)
				for (int64_t c = 0; c < 4; c++) {
					bool in = a >= r->offsets[0] &&
						  a < r->offsets[0] + r->sizes[0] &&
						  b >= r->offsets[1] &&
						  b < r->offsets[1] + r->sizes[1] &&
						  c >= r->offsets[2] &&
						  c < r->offsets[2] + r->sizes[2];
					uint32_t want = in ? 10000 + n++ * (1 + (k & 1))
							   : 0;

					RANK_MUST(chip, mine[at(a, b, c)] == want);
				}
		for (uint32_t i = 0; i < n; i++)
			RANK_MUST(chip,
				  back[i * (1 + (k & 1))] == 10000 + i * (1 + (k & 1)));
		RANK_TRY(rp_comm_barrier(comm));
	}
	return 0;
}

static void parts_are_put_and_got_and_nothing_beside_them(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= 3; size++)
		on_ranks(size, put_parts);
}

static int put_whole(struct rp_chip *chip, struct rp_comm *comm,
		     const struct rank_job *job)
{
	static const int64_t shape[] = { 3, 5 }, one[] = { 16 }, too_many[] = { 241 };
	static const int64_t nibbles[] = { 8 };
	static const struct rp_region middle = { 2, 0, { 4, 16 }, { 1, 4 }, { 1, 8 } };
	static const struct rp_region odd = { 2, 0, { 4, 16 }, { 1, 3 }, { 1, 8 } };
	uint32_t data[GRID_COUNT + 1] = { 1, 2,	 3,  4,	 5,  6,	 7, 8,
					  9, 10, 11, 12, 13, 14, 15 };
	uint8_t packed[4] = { 0x11, 0x22, 0x33, 0x44 };
	struct rp_tensor tensor;
	uint8_t *bytes;

	(void)job;
	RANK_TRY(rp_tensor_host(&tensor, data, RP_UINT32, 2, shape));
	RANK_TRY(rp_comm_put(comm, 0, GRID, NULL, &tensor, RP_PUT_STORE));
	for (uint32_t i = 0; i < 16; i++)
		RANK_MUST(chip, own(comm, GRID)[i] == (i < 15 ? i + 1 : 0));
	memset(data, 0, sizeof(data));
	RANK_TRY(rp_tensor_host(&tensor, data, RP_UINT32, 1, one));
	RANK_TRY(rp_comm_get(comm, 0, GRID, NULL, &tensor));
	RANK_MUST(chip, data[14] == 15 && data[15] == 0);
	RANK_TRY(rp_tensor_host(&tensor, data, RP_UINT32, 1, too_many));
	REFUSED(-EINVAL, rp_comm_put(comm, 0, GRID, NULL, &tensor, RP_PUT_STORE),
		"comm_put: tensor of 241 elements, the buffer 'grid' has 240");
	RANK_TRY(rp_tensor_host(&tensor, packed, RP_FP4E2M1, 1, nibbles));
	REFUSED(-EINVAL, rp_comm_put(comm, 0, NIBBLES, &middle, &tensor, RP_PUT_STORE),
		"tensor of rank 1, the region is of rank 2");
	RANK_TRY(rp_tensor_host(&tensor, packed, RP_FP4E2M1, 2,
				(const int64_t[]){ 1, 8 }));
	RANK_TRY(rp_comm_put(comm, 0, NIBBLES, &middle, &tensor, RP_PUT_STORE));
	bytes = (uint8_t *)own(comm, NIBBLES);
	for (int i = 0; i < 32; i++)
		RANK_MUST(chip, bytes[i] == (i >= 10 && i < 14 ? packed[i - 10] : 0));
	REFUSED(-EINVAL, rp_comm_put(comm, 0, NIBBLES, &odd, &tensor, RP_PUT_STORE),
		"region begins at element 19, expected an even one");
	return 0;
}

static void without_a_region_the_tensor_lies_at_the_beginning(void **state)
{
	(void)state;
	on_ranks(1, put_whole);
}

static int wrong_parts(struct rp_chip *chip, struct rp_comm *comm,
		       const struct rank_job *job)
{
	static const int64_t shape[] = { 1, 2, 2 }, other[] = { 1, 2, 3 };
	const struct rp_region good = { 3, 0, { 6, 10, 4 }, { 0, 0, 0 }, { 1, 2, 2 } };
	uint32_t data[16] = { 0 };
	struct rp_tensor tensor, wrong;
	struct rp_region bad;

	(void)job;
	RANK_TRY(rp_tensor_host(&tensor, data, RP_UINT32, 3, shape));
#define BAD(needle, ...)                                                             \
	do {                                                                         \
		bad = good;                                                          \
		__VA_ARGS__;                                                         \
		REFUSED(-EINVAL,                                                     \
			rp_comm_put(comm, 0, GRID, &bad, &tensor, RP_PUT_STORE),     \
			needle);                                                     \
		REFUSED(-EINVAL, rp_comm_get(comm, 0, GRID, &bad, &tensor), needle); \
	} while (0)
	BAD("region of rank 0", bad.rank = 0);
	BAD("region of rank 6", bad.rank = 6);
	BAD("reserved 1", bad.reserved = 1);
	BAD("shape[1] 0", bad.shape[1] = 0);
	BAD("elements", bad.shape[1] = INT64_MAX);
	BAD("shape of 264 elements, the buffer 'grid' has 240", bad.shape[1] = 11);
	BAD("dim 1: offset 9 + size 2, the shape has 10", bad.offsets[1] = 9);
	BAD("dim 0: offset -1", bad.offsets[0] = -1);
	BAD("size 0", bad.sizes[2] = 0);
	BAD("dim 2: offset 0 + size 9223372036854775807", bad.sizes[2] = INT64_MAX);
	BAD("tensor's shape[2] 2, the region's size is 3", bad.sizes[2] = 3);
	wrong = tensor;
	wrong.dtype = RP_INT32;
	REFUSED(-EINVAL, rp_comm_put(comm, 0, GRID, &good, &wrong, RP_PUT_STORE),
		"tensor of int32, the buffer 'grid' of uint32");
	wrong = tensor;
	wrong.strides[1] = 0;
	REFUSED(-EINVAL, rp_comm_put(comm, 0, GRID, &good, &wrong, RP_PUT_STORE),
		"comm_put: strides[1] 0");
	wrong = tensor;
	wrong.resident = 1;
	REFUSED(-EINVAL, rp_comm_put(comm, 0, GRID, &good, &wrong, RP_PUT_STORE),
		"comm_put: resident tensor");
	REFUSED(-EINVAL, rp_comm_put(comm, 0, GRID, &good, NULL, RP_PUT_STORE),
		"comm_put: tensor NULL");
	REFUSED(-EINVAL, rp_comm_put(comm, 9, GRID, &good, &tensor, RP_PUT_STORE),
		"comm_put: rank 9");
	REFUSED(-EINVAL, rp_comm_get(comm, 0, BUFFERS, &good, &tensor),
		"comm_get: buffer");
	REFUSED(-EINVAL, rp_comm_put(comm, 0, GRID, &good, &tensor, 2), "comm_put: op 2");
	REFUSED(-EOPNOTSUPP, rp_comm_put(comm, 0, GRID, &good, &tensor, RP_PUT_ADD),
		"comm_put: atomic add of uint32, expected float32");
	RANK_TRY(rp_tensor_host(&wrong, data, RP_UINT32, 3, other));
	REFUSED(-EINVAL, rp_comm_get(comm, 0, GRID, &good, &wrong), "shape[2] 3");
	for (size_t i = 0; i < GRID_COUNT; i++)
		RANK_MUST(chip, own(comm, GRID)[i] == 0);
	return 0;
}

static void wrong_parts_are_named_and_move_nothing(void **state)
{
	(void)state;
	on_ranks(1, wrong_parts);
}

/* --- Sums
 * -------------------------------------------------------------------------------- */

static void number_to(void *to, uint32_t buffer, uint32_t i, float value)
{
	uint16_t half = buffer == F16 ? rpi_f16_narrow(value) : rpi_bf16_narrow(value);
	int32_t word = (int32_t)value;

	if (buffer == F32)
		memcpy((uint8_t *)to + i * 4, &value, 4);
	else if (buffer == F16 || buffer == BF16)
		memcpy((uint8_t *)to + i * 2, &half, 2);
	else
		memcpy((uint8_t *)to + i * rp_dtype_bits(buffers[buffer].dtype) / 8,
		       &word, rp_dtype_bits(buffers[buffer].dtype) / 8);
}

/* All ranks add to all elements of rank 0 at once, in parts and whole. */
static int add_up(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	static const int64_t whole[] = { SUMS }, part[] = { 4, 8 };
	static const struct rp_region region = { 2, 0, { 6, 16 }, { 1, 5 }, { 4, 8 } };
	uint32_t size = rp_comm_size(comm);
	uint8_t ones[SUMS * 4], want[SUMS * 4];
	struct rp_tensor tensor;

	(void)job;
	for (uint32_t buffer = F16; buffer <= F32; buffer++) {
		enum rp_dtype dtype = (enum rp_dtype)buffers[buffer].dtype;

		for (uint32_t i = 0; i < SUMS; i++)
			number_to(ones, buffer, i, 1);
		for (int turn = 0; turn < 20; turn++) {
			RANK_TRY(rp_tensor_host(&tensor, ones, dtype, 1, whole));
			RANK_TRY(rp_comm_put(comm, 0, buffer, NULL, &tensor, RP_PUT_ADD));
			RANK_TRY(rp_tensor_host(&tensor, ones, dtype, 2, part));
			RANK_TRY(rp_comm_put(comm, 0, buffer, &region, &tensor,
					     RP_PUT_ADD));
		}
		RANK_TRY(rp_comm_barrier(comm));
		for (uint32_t i = 0; i < SUMS; i++) {
			bool in = i / 16 >= 1 && i / 16 < 5 && i % 16 >= 5 && i % 16 < 13;

			number_to(want, buffer, i, (float)(20 * size * (in ? 2 : 1)));
		}
		if (rp_comm_rank(comm) == 0)
			RANK_MUST(chip, !memcmp(own(comm, buffer), want,
						SUMS * rp_dtype_bits(dtype) / 8));
	}
	return 0;
}

static void sums_of_many_ranks_lose_nothing(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= 4; size++)
		on_ranks(size, add_up);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
	const struct CMUnitTest tests[] = {
		TEST(elements_are_loaded_and_stored_within_the_buffer),
		TEST(a_signal_follows_what_was_stored_around_the_caches),
		TEST(parts_are_put_and_got_and_nothing_beside_them),
		TEST(without_a_region_the_tensor_lies_at_the_beginning),
		TEST(wrong_parts_are_named_and_move_nothing),
		TEST(sums_of_many_ranks_lose_nothing),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("put", tests, NULL, NULL);
}
