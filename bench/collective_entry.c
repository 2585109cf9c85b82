/* SPDX-License-Identifier: MIT */
/*
 * Data are new each time: all of them up to FULL_BYTES, one element in STEP beyond, so
 * that writing them does not outweigh the rest. Values are small whole numbers, whose
 * sums are exact.
 */
#include "collective_entry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/chip.h>

#include "clock.h"

#define FULL_BYTES ((size_t)64 << 10)
#define STEP	   1024u
#define VALUES	   64u

static struct collective_words *words;

struct rank {
	struct rp_comm *comm;
	const struct collective_variant *variant;
	uint64_t count; /* of the call */
	uint32_t rank, size, step;
	float *in, *out;
};

size_t collective_in_bytes(const struct collective_variant *variant)
{
	bool rows = variant->kind == COLLECTIVE_REDUCE_SCATTER ||
		    variant->kind == COLLECTIVE_ALL_TO_ALL;

	return variant->bytes * (rows ? variant->chip_count : 1);
}

size_t collective_out_bytes(const struct collective_variant *variant)
{
	bool rows = variant->kind == COLLECTIVE_ALLGATHER ||
		    variant->kind == COLLECTIVE_ALL_TO_ALL;

	return variant->bytes * (rows ? variant->chip_count : 1);
}

void collective_entry_use(struct collective_words *of)
{
	words = of;
}

/* What `rank` gives as element `idx` of its `in`. */
static float value(uint32_t rank, uint64_t op, uint64_t idx)
{
	return (float)((words->seed + rank * 7 + op + idx) % VALUES);
}

static void fill(const struct rank *r, uint64_t op)
{
	uint64_t count = collective_in_bytes(r->variant) / sizeof(*r->in);

	if (r->variant->kind == COLLECTIVE_BROADCAST && r->rank)
		return;
	for (uint64_t idx = 0; idx < count; idx += r->step)
		r->in[idx] = value(r->rank, op, idx);
}

static int call(const struct rank *r)
{
	switch (r->variant->kind) {
	case COLLECTIVE_BARRIER:
		break;
	case COLLECTIVE_ALLREDUCE:
		return rp_comm_allreduce(r->comm, r->in, r->out, r->count, RP_FLOAT32,
					 RP_SUM, r->variant->algorithm);
	case COLLECTIVE_BROADCAST:
		return rp_comm_broadcast(r->comm, r->in, r->count, RP_FLOAT32, 0);
	case COLLECTIVE_ALLGATHER:
		return rp_comm_allgather(r->comm, r->in, r->out, r->count, RP_FLOAT32);
	case COLLECTIVE_REDUCE_SCATTER:
		return rp_comm_reduce_scatter(r->comm, r->in, r->out, r->count,
					      RP_FLOAT32, RP_SUM);
	case COLLECTIVE_ALL_TO_ALL:
		return rp_comm_all_to_all(r->comm, r->in, r->out, r->count, RP_FLOAT32);
	}
	return rp_comm_barrier(r->comm);
}

static float sum_of(const struct rank *r, uint64_t op, uint64_t idx)
{
	float sum = 0.0f;

	for (uint32_t rank = 0; rank < r->size; rank++)
		sum += value(rank, op, idx);
	return sum;
}

/* One element of the result, another one each time, and what it should be. */
static float got_and_wanted(const struct rank *r, uint64_t op, float *want_out)
{
	/* A barrier has none. */
	uint64_t steps = r->count ? (r->count + r->step - 1) / r->step : 1;
	uint64_t idx = op % steps * r->step;
	uint32_t from = (uint32_t)op % r->size;

	switch (r->variant->kind) {
	case COLLECTIVE_BARRIER:
		break;
	case COLLECTIVE_ALLREDUCE:
		*want_out = sum_of(r, op, idx);
		return r->out[idx];
	case COLLECTIVE_BROADCAST:
		*want_out = value(0, op, idx);
		return r->in[idx];
	case COLLECTIVE_ALLGATHER:
		*want_out = value(from, op, idx);
		return r->out[from * r->count + idx];
	case COLLECTIVE_REDUCE_SCATTER:
		*want_out = sum_of(r, op, r->rank * r->count + idx);
		return r->out[idx];
	case COLLECTIVE_ALL_TO_ALL:
		*want_out = value(from, op, r->rank * r->count + idx);
		return r->out[from * r->count + idx];
	}
	return *want_out = 0.0f;
}

static int repeat(struct rp_chip *chip, const struct rank *r)
{
	for (uint64_t op = 0; op < words->ops; op++) {
		float got, want;
		int err;

		fill(r, op);
		words->times[r->rank].begin[op] = bench_ticks();
		err = call(r);
		words->times[r->rank].end[op] = bench_ticks();
		if (err)
			return err;
		got = got_and_wanted(r, op, &want);
		if (got < want || got > want)
			return rp_chip_fail(chip, -EILSEQ,
					    "rank %" PRIu32 ", operation %" PRIu64
					    ": an element is %g, expected %g",
					    r->rank, op, (double)got, (double)want);
	}
	return 0;
}

/* Memory of the process, for as long as it lives. */
static uint8_t *private_memory(size_t bytes)
{
	static uint8_t *memory;

	if (memory)
		return memory;
	memory = aligned_alloc(4096, bytes);
	if (memory)
		memset(memory, 0, bytes);
	return memory;
}

int collective_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct collective_variant *variant = &words->variant;
	struct rank r = { .comm = args[0].u.comm, .variant = variant };
	size_t in_bytes = collective_in_bytes(variant);
	uint8_t *memory;

	(void)nargs;
	r.rank = rp_comm_rank(r.comm);
	r.size = rp_comm_size(r.comm);
	r.count = variant->bytes / sizeof(*r.in);
	r.step = variant->bytes <= FULL_BYTES ? 1 : STEP;
	memory = variant->outside
			 ? private_memory(in_bytes + collective_out_bytes(variant))
			 : rp_comm_window(r.comm, r.rank);
	if (!memory)
		return rp_chip_fail(chip, -ENOMEM, "no memory for the data");
	r.in = (float *)(void *)memory;
	r.out = (float *)(void *)(memory + in_bytes);
	return repeat(chip, &r);
}
