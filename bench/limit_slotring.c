/* SPDX-License-Identifier: MIT */
/*
 * A bare slot ring each way: 56 bytes and a sequence word in one line, so that a
 * lone hand-off moves that line and no other. A slot is free again when the answer
 * to it has come, which is why nobody marks it: with one exchange in flight the
 * next slot is always free.
 *
 * Memory order. Each site below names the edge it is an end of.
 *   E1 put   a side fills a slot's body -> its seq store-release
 *            seq load-acquire           -> the other side copies the body
 * Invariant: one writer a ring; slot (n % SLOTS) holds seq n once it is put.
 */
#include "limit.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "clock.h"

#define SLOTS	   64
#define BODY_WORDS 7

struct slot {
	_Alignas(RPI_CACHE_LINE) uint64_t body[BODY_WORDS];
	_Atomic uint64_t seq; /* E1 */
};

struct slot_rings {
	_Alignas(RPI_SHARE_ALIGN) struct slot to_peer[SLOTS];
	_Alignas(RPI_SHARE_ALIGN) struct slot to_parent[SLOTS];
};

static_assert(sizeof(struct slot) == RPI_CACHE_LINE, "a slot is one line");

static inline void slot_put(struct slot *ring, uint64_t seq,
			    const uint64_t body[BODY_WORDS])
{
	struct slot *slot = &ring[seq % SLOTS];

	memcpy(slot->body, body, sizeof(slot->body));
	atomic_store_explicit(&slot->seq, seq, memory_order_release); /* E1 */
}

static inline int slot_get(struct slot *ring, uint64_t seq, uint64_t body[BODY_WORDS],
			   enum bench_spin spin, struct bench_peer *peer)
{
	struct slot *slot = &ring[seq % SLOTS];
	int err = bench_spin_until(&slot->seq, seq, spin, peer); /* E1 */

	if (err)
		return err;
	memcpy(body, slot->body, sizeof(slot->body));
	return 0;
}

static int slotring_ping(struct bench_pingpong *p, struct bench_round *round)
{
	struct slot_rings *rings = p->shared;
	enum bench_spin spin = p->spin;
	uint64_t base = p->seq, seq = base, body[BODY_WORDS];
	uint64_t before = bench_ticks(), after;

	for (uint64_t i = 0; i < round->ops; i++) {
		int err;

		seq++;
		for (size_t w = 0; w < BODY_WORDS; w++)
			body[w] = round->seed + seq + w;
		slot_put(rings->to_peer, seq, body);
		err = slot_get(rings->to_parent, seq, body, spin, &p->peer);
		if (err)
			return err;
		if (rpi_unlikely(body[0] != round->seed + seq ||
				 body[6] != round->seed + seq + 6)) {
			rpi_fail(-EIO, "slotring: another body came back");
			round->failures++;
		}
		after = bench_ticks();
		round->work += body[i % BODY_WORDS] - base;
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	p->seq = seq;
	return 0;
}

static int slotring_echo(struct bench_pingpong *p, uint64_t ops)
{
	struct slot_rings *rings = p->shared;
	enum bench_spin spin = p->spin;
	uint64_t seq = p->seq, body[BODY_WORDS];

	for (uint64_t i = 0; i < ops; i++) {
		seq++;
		slot_get(rings->to_peer, seq, body, spin, NULL);
		slot_put(rings->to_parent, seq, body);
	}
	p->seq = seq;
	return 0;
}

const struct bench_pingpong_kind bench_slotring_kind = {
	.name = "slotring",
	.shared_bytes = sizeof(struct slot_rings),
	.spins = true,
	.ping = slotring_ping,
	.echo = slotring_echo,
};
