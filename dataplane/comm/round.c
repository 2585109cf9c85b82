/* SPDX-License-Identifier: MIT */
#include "comm/round.h"

#include <errno.h>
#include <inttypes.h>

#include "chip/server.h"

static __attribute__((cold, noinline)) int break_off(struct rp_comm *comm, int err)
{
	comm->broken = err;
	comm->broken_lease = comm->lease;
	return err;
}

static __attribute__((cold, noinline)) int fail_await(struct rp_comm *comm, uint64_t call,
						      uint64_t number, uint32_t from,
						      int err)
{
	const struct rpi_comm_line *line = rpi_comm_line_at(comm->slot, comm->rank, from);
	uint64_t lease = atomic_load_explicit(&line->lease, memory_order_acquire);
	uint64_t seen = lease != comm->lease ? 0
					     : atomic_load_explicit(&line->arrived,
								    memory_order_relaxed);

	if (err == -ECANCELED)
		rpi_comm_fail(comm, err,
			      "%s: rank %" PRIu32 " waited for rank %" PRIu32
			      ", but the run has failed elsewhere",
			      rpi_call_name(call), comm->rank, from);
	else
		rpi_comm_fail(comm, err,
			      "%s: rank %" PRIu32 " waited %.6g s for rank %" PRIu32
			      " (chip %u), which is in round %" PRIu64
			      ", expected round %" PRIu64,
			      rpi_call_name(call), comm->rank, rpi_comm_seconds(comm, 0),
			      from, comm->slot->chips[from], seen, number);
	return break_off(comm, err);
}

static __attribute__((cold, noinline)) int fail_call(struct rp_comm *comm, uint64_t mine,
						     uint64_t theirs, uint32_t from)
{
	char expected[128], called[128];

	rpi_call_print(expected, sizeof(expected), mine);
	rpi_call_print(called, sizeof(called), theirs);
	rpi_comm_fail(comm, -EINVAL,
		      "%s: rank %" PRIu32 " called %s, expected %s as rank %" PRIu32,
		      rpi_call_name(mine), from, called, expected, comm->rank);
	return break_off(comm, -EINVAL);
}

struct arrival {
	const struct rpi_comm_line *line;
	uint64_t lease;
	uint64_t number;
};

static bool arrived(const struct rp_comm *comm, const void *what)
{
	const struct arrival *arrival = what;
	/* E8: what `arrived` says from here on is of this lease or a later one. */
	uint64_t lease =
		atomic_load_explicit(&arrival->line->lease, memory_order_acquire);

	(void)comm;
	if (rpi_unlikely(lease != arrival->lease))
		return lease > arrival->lease;
	/* E7 */
	return atomic_load_explicit(&arrival->line->arrived, memory_order_acquire) >=
	       arrival->number;
}

static inline int await_arrival(struct rp_comm *comm, uint64_t call, uint64_t lease,
				uint64_t number, uint32_t from)
{
	const struct arrival arrival = {
		.line = rpi_comm_line_at(comm->slot, comm->rank, from),
		.lease = lease,
		.number = number,
	};
	int err;

	if (rpi_likely(arrived(comm, &arrival)))
		return 0;
	err = rpi_comm_await(comm, arrived, &arrival, from, 0);
	return rpi_unlikely(err) ? fail_await(comm, call, number, from, err) : 0;
}

int rpi_round_begin(struct rp_comm *comm, uint64_t call, struct rpi_round *round_out)
{
	const struct rpi_domain_slot *slot = comm->slot;
	uint32_t from;
	int err;

	if (rpi_unlikely(comm->broken_lease == comm->lease))
		return rpi_comm_fail(comm, comm->broken,
				     "%s: a collective of this run has failed before",
				     rpi_call_name(call));
	if (rpi_unlikely(comm->slot_id != slot->id)) {
		comm->slot_id = slot->id;
		comm->turn = 0;
	}
	/* R1. Of a new allocation nobody has read anything. */
	for (from = 0; comm->turn && from < slot->size; from++) {
		if (from == comm->rank)
			continue;
		err = await_arrival(comm, call, comm->last_lease, comm->last_round, from);
		if (err)
			return err;
	}
	round_out->number = ++comm->round;
	round_out->turn = ++comm->turn;
	return 0;
}

void rpi_round_publish(struct rp_comm *comm, const struct rpi_round *round, uint64_t call,
		       uint64_t place, const uint64_t *counts)
{
	const struct rpi_domain_slot *slot = comm->slot;
	struct rpi_rouser *rouser = &comm->chip->rouser;
	bool renew = comm->last_lease != comm->lease;
	uint32_t to;

	for (to = 0; to < slot->size; to++) {
		struct rpi_comm_line *line = rpi_comm_line_at(slot, to, comm->rank);
		_Atomic uint64_t *words = line->words[round->turn & 1];

		if (to == comm->rank)
			continue;
		if (rpi_unlikely(renew)) {
			atomic_store_explicit(&line->arrived, 0, memory_order_relaxed);
			/* E8 */
			atomic_store_explicit(&line->lease, comm->lease,
					      memory_order_release);
		}
		/* Relaxed: ordered by E7. */
		atomic_store_explicit(&words[RPI_WORD_CALL], call, memory_order_relaxed);
		atomic_store_explicit(&words[RPI_WORD_PLACE], place,
				      memory_order_relaxed);
		if (counts)
			atomic_store_explicit(&words[RPI_WORD_COUNT], counts[to],
					      memory_order_relaxed);
		/* E7 */
		atomic_store_explicit(&line->arrived, round->number,
				      memory_order_release);
	}
	comm->last_lease = comm->lease;
	comm->last_round = round->number;
	for (to = 0; to < slot->size; to++)
		if (to != comm->rank)
			rpi_rouse(rouser, slot->chips[to]); /* E4 */
}

int rpi_round_await(struct rp_comm *comm, const struct rpi_round *round, uint64_t call,
		    uint32_t from)
{
	uint64_t theirs;
	int err = await_arrival(comm, call, comm->lease, round->number, from);

	if (rpi_unlikely(err))
		return err;
	theirs = rpi_round_word(comm, round, from, RPI_WORD_CALL);
	return rpi_likely(theirs == call) ? 0 : fail_call(comm, call, theirs, from);
}

int rpi_round_await_all(struct rp_comm *comm, const struct rpi_round *round,
			uint64_t call)
{
	uint32_t i;

	/* From the neighbour on, so that not all look at rank 0's lines at once. */
	for (i = 1; i < comm->slot->size; i++) {
		uint32_t from = (comm->rank + i) % comm->slot->size;
		int err = rpi_round_await(comm, round, call, from);

		if (rpi_unlikely(err))
			return err;
	}
	return 0;
}
