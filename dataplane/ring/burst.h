/* SPDX-License-Identifier: MIT */
/*
 * A ring for what comes in bursts or from several producers: task lists, submit
 * queues, free lists. It is DPDK's rte_ring with elements of a fixed size, in
 * memory that the caller shares as it likes; there are no pointers inside, so
 * processes may map it at different addresses. A lone hand-off is better served
 * by ring/slot.h, which touches one line instead of three.
 *
 * Never: a system call, an allocation, a lock, a log. One wait exists: with several
 * producers (consumers), one that has moved the head waits for those that moved
 * it earlier to store the tail. Their being preempted costs it a time slice.
 *
 * A ring whose peer died is thrown away, never resumed. A producer that dies
 * between moving prod.head and storing prod.tail leaves the two unequal. The next
 * single producer then publishes the slot that was never written, with whatever
 * it held before; the next of several producers waits for a tail that will never
 * come. Hence also: several producers (consumers) are threads of one process,
 * which die together. Processes that may die one by one get a ring each.
 *
 * The words that init writes (element size, capacity, mask) are trusted by both
 * sides. The indices are not: whatever a peer stores there, no call touches
 * memory outside the ring, and none returns more than was asked for.
 */
#ifndef RPI_RING_BURST_H
#define RPI_RING_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two 64-byte lines, as everything that two processes write. */
#define RPI_BURST_ALIGN 128

/* One producer, one consumer; without the flag there may be several. */
#define RPI_BURST_SP 0x1u
#define RPI_BURST_SC 0x2u

struct rpi_burst;

/* Elements inside the ring: first_count of them at `first`, the others, where the
 * ring wraps in between, at `second` (NULL when none are there). */
struct rpi_burst_span {
	void *first;
	void *second;
	uint32_t first_count;
};

/*
 * Bytes of a ring of `capacity` elements; 0 where init would refuse the pair:
 * elem_bytes is a multiple of 4, capacity at least 1, and the elements, rounded
 * up to a power of two above capacity, take at most 8 GiB.
 */
size_t rpi_burst_bytes(uint32_t elem_bytes, uint32_t capacity);

/*
 * Lay an empty ring out in `mem`, which is aligned to RPI_BURST_ALIGN. It holds
 * exactly `capacity` elements. Before the memory is shared; not a hot path.
 *
 * Returns     0, or -EINVAL for any argument out of range
 */
int rpi_burst_init(void *mem, size_t mem_bytes, uint32_t elem_bytes, uint32_t capacity,
		   unsigned int flags);

/*
 * Copy elements in or out. The table holds n elements, aligned to 4, to 8 where
 * an element has 8 bytes. All return how many were moved; 0 is full or empty.
 *
 * push        n or nothing.
 * push_upto   as many of the n as there is room for.
 * pop         up to n.
 * pop_bulk    n or nothing.
 */
uint32_t rpi_burst_push(struct rpi_burst *r, const void *elems, uint32_t n);
uint32_t rpi_burst_push_upto(struct rpi_burst *r, const void *elems, uint32_t n);
uint32_t rpi_burst_pop(struct rpi_burst *r, void *elems_out, uint32_t n);
uint32_t rpi_burst_pop_bulk(struct rpi_burst *r, void *elems_out, uint32_t n);

/*
 * Write elements in place; RPI_BURST_SP rings only, as rte_ring has it (elsewhere
 * reserve returns 0). reserve hands out n slots or returns 0 and leaves span_out
 * alone. publish makes the first n of them visible and gives the rest back, so
 * that publish(r, 0) cancels. One reservation at a time, and no push while it
 * stands: that would publish the slots with it.
 *
 * publish returns n, or 0 when more than was reserved is published: that, by
 * rte_ring's rule, cancels the reservation.
 */
uint32_t rpi_burst_reserve(struct rpi_burst *r, uint32_t n,
			   struct rpi_burst_span *span_out);
uint32_t rpi_burst_publish(struct rpi_burst *r, uint32_t n);

/*
 * Read elements in place; RPI_BURST_SC rings only. peek shows up to n; consume
 * frees the first n of those and leaves the rest to be seen again. One peek at a
 * time, no pop while it stands. consume returns n, or 0 (and frees none) when
 * more than was peeked at is consumed.
 */
uint32_t rpi_burst_peek(struct rpi_burst *r, uint32_t n, struct rpi_burst_span *span_out);
uint32_t rpi_burst_consume(struct rpi_burst *r, uint32_t n);

/*
 * For a consumer that polls: nothing there beyond what it has popped or peeked
 * at. One load of the producer's line. Exact for a single consumer; with several
 * it may be out of date on return.
 */
bool rpi_burst_empty(const struct rpi_burst *r);

/* How full the ring is, for anybody; out of date on return, never out of bounds.
 * Elements that are reserved are not counted, those that are peeked at are. */
uint32_t rpi_burst_count(const struct rpi_burst *r);
uint32_t rpi_burst_free_count(const struct rpi_burst *r);
uint32_t rpi_burst_capacity(const struct rpi_burst *r);

/*
 * For tests: begin at any index, for instance just below the wrap, or build a
 * state that only a crash leaves. The ring is idle meanwhile.
 */
struct rpi_burst_indices {
	uint32_t prod_head, prod_tail;
	uint32_t cons_head, cons_tail;
};

void rpi_burst_set_indices(struct rpi_burst *r, const struct rpi_burst_indices *to);
void rpi_burst_set_start(struct rpi_burst *r, uint32_t index);

#endif
