/* SPDX-License-Identifier: MIT */
#include "runtime/ready.h"

#define MASK (RPI_READY_CELLS - 1)

void rpi_ready_init(struct rpi_ready *ready)
{
	uint64_t i;

	atomic_init(&ready->put_at, 0);
	atomic_init(&ready->take_at, 0);
	for (i = 0; i < RPI_READY_CELLS; i++)
		atomic_init(&ready->cells[i].turn, i);
}

bool rpi_ready_put(struct rpi_ready *ready, struct rpi_flight *slot)
{
	uint64_t at = atomic_load_explicit(&ready->put_at, memory_order_relaxed);

	for (;;) {
		struct rpi_ready_cell *cell = &ready->cells[at & MASK];
		/* R2 */
		uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);

		if (turn == at) {
			/* R3 */
			if (!atomic_compare_exchange_weak_explicit(
				    &ready->put_at, &at, at + 1, memory_order_seq_cst,
				    memory_order_relaxed))
				continue;
			cell->slot = slot;
			/* R1 */
			atomic_store_explicit(&cell->turn, at + 1, memory_order_release);
			return true;
		}
		/* By difference: positions may be behind what another has done. */
		if ((int64_t)(turn - at) < 0)
			return false;
		at = atomic_load_explicit(&ready->put_at, memory_order_relaxed);
	}
}

struct rpi_flight *rpi_ready_take(struct rpi_ready *ready)
{
	uint64_t at = atomic_load_explicit(&ready->take_at, memory_order_relaxed);

	for (;;) {
		struct rpi_ready_cell *cell = &ready->cells[at & MASK];
		/* R1 */
		uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
		struct rpi_flight *slot;

		if (turn == at + 1) {
			/* Relaxed: the cell is this one's until its turn is stored. */
			if (!atomic_compare_exchange_weak_explicit(
				    &ready->take_at, &at, at + 1, memory_order_relaxed,
				    memory_order_relaxed))
				continue;
			slot = cell->slot;
			/* R2 */
			atomic_store_explicit(&cell->turn, at + RPI_READY_CELLS,
					      memory_order_release);
			return slot;
		}
		if ((int64_t)(turn - (at + 1)) < 0)
			return NULL;
		at = atomic_load_explicit(&ready->take_at, memory_order_relaxed);
	}
}
