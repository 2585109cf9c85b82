/* SPDX-License-Identifier: MIT */
/*
 * Reduce-scatter, then allgather, each rank reading its neighbour alone. The data are
 * cut into a segment for each rank, at floor(i * count / ranks). A segment travels round
 * the ring twice: first each rank adds its own part to it, beginning with the rank of
 * the segment's number, then all take the sum. So the order of operands is the
 * segment's, and the same for everybody. Segments longer than a slot of the staging
 * travel in pieces.
 *
 * Never: an allocation, a lock, a log; a system call only to sleep or to wake a sleeper.
 */
#include <string.h>

#include "comm/allreduce.h"
#include "comm/reduce.h"
#include "comm/round.h"

struct ring {
	struct rp_comm *comm;
	const struct rpi_call *call;
	uint64_t packed;
	uint64_t grain;
	uint32_t size;
	uint32_t previous;
	const uint8_t *in;
	uint8_t *out;
	uint64_t piece; /* elements that a slot holds */
	uint64_t first; /* of each segment, the piece that travels now */
};

/* Where the piece of a segment begins, and how many elements it has. */
struct part {
	uint64_t offset; /* bytes */
	uint64_t count;
};

static struct part part_of(const struct ring *ring, uint32_t segment)
{
	uint64_t begin = ring->call->count * segment / ring->size;
	uint64_t end = ring->call->count * (segment + 1) / ring->size;
	uint64_t left;

	begin += ring->first;
	left = begin < end ? end - begin : 0;
	return (struct part){
		.offset = begin * ring->grain,
		.count = left < ring->piece ? left : ring->piece,
	};
}

/* The segment that this rank passes on in the step-th round of a half. */
static uint32_t segment_at(const struct ring *ring, uint32_t first, uint32_t step)
{
	return (first + ring->size - step) % ring->size;
}

static void add(const struct ring *ring, void *to, const void *sum,
		const struct part *part)
{
	const void *rows[2] = { sum, ring->in + part->offset };

	if (part->count)
		rpi_reduce(to, rows, 2, part->count, ring->call->dtype, ring->call->op,
			   false);
}

/*
 * One of the 2 * (size - 1) rounds of a piece: into this rank's slot goes what it passes
 * on, made from what the neighbour has passed on in the round before.
 */
static void make(const struct ring *ring, uint32_t step, uint8_t *slot,
		 const uint8_t *passed)
{
	struct part part;

	if (step == 0) {
		part = part_of(ring, ring->comm->rank);
		memcpy(slot, ring->in + part.offset, part.count * ring->grain);
		return;
	}
	if (step < ring->size - 1) {
		part = part_of(ring, segment_at(ring, ring->comm->rank, step));
		add(ring, slot, passed, &part);
		return;
	}
	/* Sums are whole from here on: the first of them is made here. */
	part = part_of(ring,
		       segment_at(ring, ring->comm->rank + 1, step - (ring->size - 1)));
	if (step == ring->size - 1) {
		add(ring, ring->out + part.offset, passed, &part);
		passed = ring->out + part.offset;
	} else {
		memcpy(ring->out + part.offset, passed, part.count * ring->grain);
	}
	memcpy(slot, passed, part.count * ring->grain);
}

static int pass_piece(struct ring *ring)
{
	struct rp_comm *comm = ring->comm;
	const uint32_t steps = 2 * (ring->size - 1);
	const uint8_t *passed = ring->out; /* there are steps: two ranks at least */
	struct rpi_round round;
	struct part part;
	uint32_t step;
	int err;

	for (step = 0; step < steps; step++) {
		err = rpi_round_begin(comm, ring->packed, &round);
		if (err)
			return err;
		make(ring, step, rpi_round_slot(comm, &round, comm->rank), passed);
		rpi_round_publish(comm, &round, ring->packed, 0, NULL);
		err = rpi_round_await(comm, &round, ring->packed, ring->previous);
		if (err)
			return err;
		passed = rpi_round_slot(comm, &round, ring->previous);
	}
	/* The neighbour's last is the sum that this rank lacks. */
	part = part_of(ring, segment_at(ring, comm->rank + 1, ring->size - 1));
	memcpy(ring->out + part.offset, passed, part.count * ring->grain);
	return 0;
}

int rpi_allreduce_ring(struct rp_comm *comm, const struct rpi_call *call, const void *in,
		       void *out)
{
	struct ring ring = {
		.comm = comm,
		.call = call,
		.packed = rpi_call_pack(call),
		.grain = rpi_call_grain(call),
		.size = comm->slot->size,
		.previous = (comm->rank + comm->slot->size - 1) % comm->slot->size,
		.in = in,
		.out = out,
		.piece = rpi_round_slot_bytes(comm) / rpi_call_grain(call),
	};
	uint64_t longest = (call->count + ring.size - 1) / ring.size;
	int err = 0;

	if (ring.size == 1) {
		memmove(out, in, call->count * ring.grain);
		return 0;
	}
	for (; !err && ring.first < longest; ring.first += ring.piece)
		err = pass_piece(&ring);
	return err;
}
