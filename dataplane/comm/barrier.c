/* SPDX-License-Identifier: MIT */
#include "comm/round.h"

int rp_comm_barrier(struct rp_comm *comm)
{
	static const struct rpi_call call = { .kind = RPI_CALL_BARRIER };
	uint64_t packed = rpi_call_pack(&call);
	struct rpi_round round;
	int err = rpi_round_begin(comm, packed, &round);

	if (err)
		return err;
	rpi_round_publish(comm, &round, packed, 0, NULL);
	return rpi_round_await_all(comm, &round, packed);
}
