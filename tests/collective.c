/* SPDX-License-Identifier: MIT */
#include "collective.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "comm/half.h"

const char *const collective_names[C_KINDS] = {
	"barrier",	  "allreduce",	"broadcast",	"allgather",
	"reduce_scatter", "all_to_all", "all_to_all_v",
};

static const enum rp_dtype reducible[] = { RP_FLOAT32, RP_FLOAT16, RP_BFLOAT16, RP_INT32,
					   RP_INT64,   RP_INT8,	   RP_UINT8 };

static bool reduces(const struct collective *c)
{
	return c->kind == C_ALLREDUCE || c->kind == C_REDUCE_SCATTER;
}

/* Rows that a rank gives and gets. */
static uint64_t rows_given(const struct collective *c, uint32_t size)
{
	return c->kind == C_REDUCE_SCATTER || c->kind == C_ALL_TO_ALL ||
			       c->kind == C_ALL_TO_ALL_V
		       ? size
		       : 1;
}

static uint64_t rows_got(const struct collective *c, uint32_t size)
{
	return c->kind == C_ALLGATHER || c->kind == C_ALL_TO_ALL ||
			       c->kind == C_ALL_TO_ALL_V
		       ? size
		       : 1;
}

static size_t bytes_of(const struct collective *c, uint64_t count)
{
	return count * rp_dtype_bits(c->dtype) / 8;
}

size_t collective_bytes(const struct collective *c, uint32_t size)
{
	return bytes_of(c, c->count) * size + 64 + 8 * c->shift;
}

/* --- What is given ----------------------------------------------------------- */

static uint64_t hash(uint64_t a, uint64_t b)
{
	uint64_t x = (a + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (b + UINT64_C(0x7f4a7c15));

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

/* Element i of what a rank gives, of a reduction: exact in every dtype, for products
 * too. */
static int64_t number(const struct collective *c, uint32_t rank, uint64_t i)
{
	uint64_t word = hash(c->salt * 64 + rank, i);

	if (c->op == RP_PROD)
		return 1 + (int64_t)(word & 1);
	return (int64_t)(word & 15) - (c->dtype == RP_UINT8 ? 0 : 3);
}

static void put(void *row, enum rp_dtype dtype, uint64_t i, int64_t number)
{
	float value = (float)number;
	uint16_t half;

	switch (dtype) {
	case RP_FLOAT32:
		memcpy((uint8_t *)row + i * 4, &value, 4);
		return;
	case RP_FLOAT16:
		half = rpi_f16_narrow(value);
		memcpy((uint8_t *)row + i * 2, &half, 2);
		return;
	case RP_BFLOAT16:
		half = rpi_bf16_narrow(value);
		memcpy((uint8_t *)row + i * 2, &half, 2);
		return;
	default:
		memcpy((uint8_t *)row + i * rp_dtype_bits(dtype) / 8, &number,
		       rp_dtype_bits(dtype) / 8);
	}
}

/* Row `row` of what `rank` gives. */
static void give(const struct collective *c, uint32_t rank, uint64_t row, void *out)
{
	uint64_t first = row * c->count, i;
	uint8_t *bytes = out;

	if (reduces(c)) {
		for (i = 0; i < c->count; i++)
			put(out, c->dtype, i, number(c, rank, first + i));
		return;
	}
	for (i = 0; i + 8 <= bytes_of(c, c->count); i += 8) {
		uint64_t word = hash(c->salt * 64 + rank, first * 8 + i);

		memcpy(bytes + i, &word, 8);
	}
	for (; i < bytes_of(c, c->count); i++)
		bytes[i] = (uint8_t)hash(c->salt * 64 + rank, first * 8 + i);
}

/* How many elements row `to` of an all_to_all_v of `rank` is said to have: often none,
 * sometimes too many. */
static uint64_t said(const struct collective *c, uint32_t rank, uint32_t to)
{
	uint64_t word = hash(c->salt * 64 + rank, 1000 + to);
	uint64_t even = c->dtype == RP_FP4E2M1 ? 2 : 1;

	switch (word % 4) {
	case 0:
		return 0;
	case 1:
		return c->count;
	case 2:
		return c->count + even * (word >> 8 & 0xff);
	default:
		return (word >> 8) % (c->count / even + 1) * even;
	}
}

/* --- What must be got -------------------------------------------------------- */

static int64_t combined(const struct collective *c, uint32_t size, uint64_t i)
{
	int64_t all = number(c, 0, i);

	for (uint32_t rank = 1; rank < size; rank++) {
		int64_t one = number(c, rank, i);

		switch (c->op) {
		case RP_SUM:
			all += one;
			break;
		case RP_PROD:
			all *= one;
			break;
		case RP_MAX:
			all = one > all ? one : all;
			break;
		case RP_MIN:
			all = one < all ? one : all;
			break;
		}
	}
	return all;
}

static int judge(struct rp_chip *chip, const struct collective *c, uint32_t rank,
		 uint64_t row, const void *got, const void *want, size_t bytes)
{
	size_t i = 0;

	if (!memcmp(got, want, bytes))
		return 0;
	while (((const uint8_t *)got)[i] == ((const uint8_t *)want)[i])
		i++;
	return rp_chip_fail(
		chip, -EBADMSG,
		"%s of %llu %s, salt %llu, place %d, algorithm %d: rank %u, row %llu, "
		"byte %zu is %02x, expected %02x",
		collective_names[c->kind], (unsigned long long)c->count,
		rp_dtype_name(c->dtype), (unsigned long long)c->salt, c->place,
		c->algorithm, rank, (unsigned long long)row, i, ((const uint8_t *)got)[i],
		((const uint8_t *)want)[i]);
}

static int judge_reduced(struct rp_chip *chip, const struct rp_comm *comm,
			 const struct collective *c, const uint8_t *out)
{
	uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	uint64_t first = c->kind == C_REDUCE_SCATTER ? rank * c->count : 0;
	uint8_t want[8];

	for (uint64_t i = 0; i < c->count; i++) {
		size_t bytes = bytes_of(c, 1);

		put(want, c->dtype, 0, combined(c, size, first + i));
		RANK_TRY(judge(chip, c, rank, i, out + i * bytes, want, bytes));
	}
	return 0;
}

/* `want` has room for a row. */
static int judge_rows(struct rp_chip *chip, const struct rp_comm *comm,
		      const struct collective *c, const uint8_t *out,
		      const uint64_t *received, uint8_t *want)
{
	uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	size_t bytes = bytes_of(c, c->count);

	for (uint32_t from = 0; from < rows_got(c, size); from++) {
		uint64_t count = c->count;

		switch (c->kind) {
		case C_BROADCAST:
			give(c, c->root, 0, want);
			break;
		case C_ALLGATHER:
			give(c, from, 0, want);
			break;
		default:
			give(c, from, rank, want);
			break;
		}
		if (c->kind == C_ALL_TO_ALL_V) {
			count = said(c, from, rank) < c->count ? said(c, from, rank)
							       : c->count;
			RANK_MUST(chip, received[from] == count);
			/* Past what came nothing was touched. */
			memset(want + bytes_of(c, count), 0x77,
			       bytes - bytes_of(c, count));
		}
		RANK_TRY(judge(chip, c, rank, from, out + from * bytes, want, bytes));
	}
	return 0;
}

/* --- The call ---------------------------------------------------------------- */

static int call(struct rp_comm *comm, const struct collective *c, uint8_t *in,
		uint8_t *out, uint64_t *received)
{
	uint64_t sent[RANKS_MAX];

	switch (c->kind) {
	case C_BARRIER:
		return rp_comm_barrier(comm);
	case C_ALLREDUCE:
		return rp_comm_allreduce(comm, in, out, c->count, c->dtype, c->op,
					 c->algorithm);
	case C_BROADCAST:
		return rp_comm_broadcast(comm, in, c->count, c->dtype, c->root);
	case C_ALLGATHER:
		return rp_comm_allgather(comm, in, out, c->count, c->dtype);
	case C_REDUCE_SCATTER:
		return rp_comm_reduce_scatter(comm, in, out, c->count, c->dtype, c->op);
	case C_ALL_TO_ALL:
		return rp_comm_all_to_all(comm, in, out, c->count, c->dtype);
	default:
		for (uint32_t to = 0; to < rp_comm_size(comm); to++)
			sent[to] = said(c, rp_comm_rank(comm), to);
		return rp_comm_all_to_all_v(comm, in, sent, out, received, c->count,
					    c->dtype);
	}
}

int collective_check(struct rp_chip *chip, struct rp_comm *comm,
		     const struct collective *c, void *memory)
{
	uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	size_t row = bytes_of(c, c->count), room = collective_bytes(c, size);
	bool in_window = c->place == AT_WINDOW || (c->place == AT_EITHER && rank & 1);
	uint8_t *in = in_window ? rp_comm_window(comm, rank) : memory;
	uint8_t *out = (uint8_t *)memory + room;
	uint64_t received[RANKS_MAX];

	if (c->kind == C_BARRIER)
		return rp_comm_barrier(comm);
	in += bytes_of(c, c->shift * 2);
	out += bytes_of(c, c->shift * 2);
	for (uint64_t r = 0; r < rows_given(c, size); r++)
		give(c, rank, r, in + r * row);
	if (c->kind == C_BROADCAST) {
		out = in;
		if (rank != c->root)
			memset(in, 0x55, row);
	} else if (c->in_place && reduces(c)) {
		out = c->kind == C_ALLREDUCE ? in : in + rank * row;
	} else {
		memset(out, 0x77, rows_got(c, size) * row);
	}
	RANK_TRY(call(comm, c, in, out, received));
	if (reduces(c))
		RANK_TRY(judge_reduced(chip, comm, c, out));
	else
		/* What was given is no longer needed when it is private. */
		RANK_TRY(judge_rows(chip, comm, c, out, received,
				    (uint8_t *)memory + 2 * room));
	/* The caller's again as soon as the call is over. */
	if (in_window)
		memset(in, 0x99, rows_given(c, size) * row);
	return 0;
}

void collective_random(struct collective *c, uint32_t size, size_t bytes, uint64_t *seed)
{
	uint64_t most;

	*c = (struct collective){
		.kind = (enum collective_kind)(bed_random(seed) % C_KINDS),
		.place = (enum collective_place)(bed_random(seed) % AT_PLACES),
		.in_place = bed_random(seed) & 1,
		.op = (enum rp_reduce_op)(bed_random(seed) % 4),
		.algorithm = (enum rp_algorithm)(bed_random(seed) % 3),
		.root = (uint32_t)(bed_random(seed) % size),
		.salt = bed_random(seed) % 1000000,
		.shift = (uint32_t)(bed_random(seed) % 4),
	};
	c->dtype = reduces(c) ? reducible[bed_random(seed) % COUNT(reducible)]
			      : (enum rp_dtype)(1 + bed_random(seed) % RP_FP4E2M1);
	most = (bytes - 64 - 8 * c->shift) / size * 8 / rp_dtype_bits(c->dtype);
	/* Mostly small ones. */
	c->count = 1 + bed_random(seed) % (most >> bed_random(seed) % 12 | 1);
	if (c->count > most)
		c->count = most;
	if (c->dtype == RP_FP4E2M1)
		c->count = c->count > 1 ? c->count & ~UINT64_C(1) : 2;
}
