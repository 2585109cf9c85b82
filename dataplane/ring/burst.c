/* SPDX-License-Identifier: MIT */
/*
 * The burst ring: rte_ring's inline functions over a struct that we fill
 * ourselves. No EAL, no DPDK library: linking one costs start-up time and more
 * libraries, and nothing here needs it. The only file that sees DPDK's headers.
 *
 * Never: a system call, an allocation, a lock, a log (rpi_burst_init() apart).
 *
 * Memory order, kept by rte_ring. On x86 by default through volatile accesses and
 * compiler barriers; with RTE_USE_C11_MEM_MODEL (other processors, TSan builds)
 * through release stores and acquire loads.
 *   E1 filled   producer writes elements  -> prod.tail store-release
 *               prod.tail load-acquire    -> consumer reads elements
 *   E2 freed    consumer has read them    -> cons.tail store-release
 *               cons.tail load-acquire    -> producer writes elements
 * Invariant: cons.tail <= cons.head <= prod.tail <= prod.head
 *            <= cons.tail + capacity, by differences modulo 2^32.
 *
 * rte_ring copies elements as words of 4, 8 or 16 bytes whatever their type is.
 * Keep this file out of link-time optimisation, or without strict aliasing.
 */

/* DPDK's headers want this one before any other. */
#include <rte_config.h>

#include <rte_pause.h>

/*
 * One of several producers (consumers) waits here until those that moved the head
 * before it have stored the tail; then it stores the tail itself.
 *
 * E1, E2: acquire, where rte_ring asks for relaxed. Relaxed is believed to do on x86
 * and ARMv8, where a store seen by one processor is seen by all. But in C11 the store
 * that follows is no part of the earlier side's release sequence, so that a peer
 * which acquires it would not have the earlier side's accesses to the elements
 * ordered before its own; TSan says so. On x86 both are a plain load.
 */
#define rte_wait_until_equal_32(addr, expected, order) \
	rte_wait_until_equal_32(addr, expected, __ATOMIC_ACQUIRE)

#include <rte_ring_elem.h>

#include "ring/burst.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdalign.h>
#include <string.h>

#include "base/error.h"

struct rpi_burst {
	/* Written by init, read by both. */
	uint32_t elem_bytes;
	uint32_t pad0[RPI_BURST_ALIGN / sizeof(uint32_t) - 1];

	/* rte_ring separates the writers of its lines; the elements follow it. */
	alignas(RPI_BURST_ALIGN) struct rte_ring ring;
};

static_assert(sizeof(struct rpi_burst) ==
		      offsetof(struct rpi_burst, ring) + sizeof(struct rte_ring),
	      "rte_ring looks for its elements right behind itself");
static_assert(sizeof(struct rpi_burst) % RPI_BURST_ALIGN == 0,
	      "elements begin on a line of their own");
static_assert(offsetof(struct rte_ring, prod) % RPI_BURST_ALIGN == 0 &&
		      offsetof(struct rte_ring, cons) % RPI_BURST_ALIGN == 0,
	      "each writer owns whole lines");

/* rte_ring counts in words of 32 bits, in 32 bits, and adds two such counts. */
#define ELEM_WORDS_MAX (UINT64_C(1) << 31)

/* Slots of a ring that holds exactly `capacity`: a power of two above it, since
 * rte_ring's index arithmetic wants one and init does as RING_F_EXACT_SZ does. */
static uint64_t slot_count(uint32_t capacity)
{
	return rte_align64pow2((uint64_t)capacity + 1);
}

size_t rpi_burst_bytes(uint32_t elem_bytes, uint32_t capacity)
{
	uint64_t words;

	if (elem_bytes == 0 || elem_bytes % sizeof(uint32_t) != 0)
		return 0;
	if (capacity == 0 || capacity > RTE_RING_SZ_MASK)
		return 0;
	/* At most 2^31 times 2^30: no overflow. */
	words = slot_count(capacity) * (elem_bytes / sizeof(uint32_t));
	if (words > ELEM_WORDS_MAX ||
	    words > (SIZE_MAX - sizeof(struct rpi_burst)) / sizeof(uint32_t))
		return 0;
	return sizeof(struct rpi_burst) + (size_t)words * sizeof(uint32_t);
}

int rpi_burst_init(void *mem, size_t mem_bytes, uint32_t elem_bytes, uint32_t capacity,
		   unsigned int flags)
{
	size_t bytes = rpi_burst_bytes(elem_bytes, capacity);
	struct rpi_burst *r = mem;

	if (!mem || (uintptr_t)mem % RPI_BURST_ALIGN != 0)
		return rpi_fail(-EINVAL, "burst_init: mem %p, expected %d-byte alignment",
				mem, RPI_BURST_ALIGN);
	if (bytes == 0)
		return rpi_fail(
			-EINVAL,
			"burst_init: %" PRIu32 " elements of %" PRIu32
			" bytes, expected at least 1, of a multiple of 4, in 8 GiB",
			capacity, elem_bytes);
	if (mem_bytes < bytes)
		return rpi_fail(-EINVAL,
				"burst_init: mem_bytes %zu, expected at least %zu",
				mem_bytes, bytes);
	if (flags & ~(RPI_BURST_SP | RPI_BURST_SC))
		return rpi_fail(-EINVAL, "burst_init: flags 0x%x, expected none but 0x%x",
				flags, RPI_BURST_SP | RPI_BURST_SC);

	/* As rte_ring_init() does, less the name and what belongs to EAL. */
	memset(r, 0, sizeof(*r));
	r->elem_bytes = elem_bytes;
	r->ring.flags = RING_F_EXACT_SZ;
	if (flags & RPI_BURST_SP)
		r->ring.flags |= RING_F_SP_ENQ;
	if (flags & RPI_BURST_SC)
		r->ring.flags |= RING_F_SC_DEQ;
	r->ring.prod.sync_type = flags & RPI_BURST_SP ? RTE_RING_SYNC_ST
						      : RTE_RING_SYNC_MT;
	r->ring.cons.sync_type = flags & RPI_BURST_SC ? RTE_RING_SYNC_ST
						      : RTE_RING_SYNC_MT;
	r->ring.size = (uint32_t)slot_count(capacity);
	r->ring.mask = r->ring.size - 1;
	r->ring.capacity = capacity;
	return 0;
}

static inline bool single_producer(const struct rpi_burst *r)
{
	return r->ring.flags & RING_F_SP_ENQ;
}

static inline bool single_consumer(const struct rpi_burst *r)
{
	return r->ring.flags & RING_F_SC_DEQ;
}

/*
 * In the calls below n is first bounded by the capacity. rte_ring bounds it by a
 * count that comes from the peer's index; a wrong one would let it run past the
 * end of the elements.
 */
static inline uint32_t bounded(const struct rpi_burst *r, uint32_t n)
{
	return n < r->ring.capacity ? n : r->ring.capacity;
}

/* E1, E2: rte_ring's enqueue and dequeue are the producer's and the consumer's ends. */
uint32_t rpi_burst_push(struct rpi_burst *r, const void *elems, uint32_t n)
{
	if (n > r->ring.capacity)
		return 0;
	if (single_producer(r))
		return rte_ring_sp_enqueue_bulk_elem(&r->ring, elems, r->elem_bytes, n,
						     NULL);
	return rte_ring_mp_enqueue_bulk_elem(&r->ring, elems, r->elem_bytes, n, NULL);
}

uint32_t rpi_burst_push_upto(struct rpi_burst *r, const void *elems, uint32_t n)
{
	n = bounded(r, n);
	if (single_producer(r))
		return rte_ring_sp_enqueue_burst_elem(&r->ring, elems, r->elem_bytes, n,
						      NULL);
	return rte_ring_mp_enqueue_burst_elem(&r->ring, elems, r->elem_bytes, n, NULL);
}

uint32_t rpi_burst_pop(struct rpi_burst *r, void *elems_out, uint32_t n)
{
	n = bounded(r, n);
	if (single_consumer(r))
		return rte_ring_sc_dequeue_burst_elem(&r->ring, elems_out, r->elem_bytes,
						      n, NULL);
	return rte_ring_mc_dequeue_burst_elem(&r->ring, elems_out, r->elem_bytes, n,
					      NULL);
}

uint32_t rpi_burst_pop_bulk(struct rpi_burst *r, void *elems_out, uint32_t n)
{
	if (n > r->ring.capacity)
		return 0;
	if (single_consumer(r))
		return rte_ring_sc_dequeue_bulk_elem(&r->ring, elems_out, r->elem_bytes,
						     n, NULL);
	return rte_ring_mc_dequeue_bulk_elem(&r->ring, elems_out, r->elem_bytes, n, NULL);
}

static void span_from(const struct rte_ring_zc_data *zcd, struct rpi_burst_span *span_out)
{
	span_out->first = zcd->ptr1;
	span_out->second = zcd->ptr2;
	span_out->first_count = zcd->n1;
}

/* How far a side's head is ahead of its tail: what it has reserved or peeked at.
 * Plain: only the single owner of that side writes either word, and it asks. */
static inline uint32_t outstanding(const struct rte_ring_headtail *ht)
{
	return ht->head - ht->tail;
}

uint32_t rpi_burst_reserve(struct rpi_burst *r, uint32_t n,
			   struct rpi_burst_span *span_out)
{
	struct rte_ring_zc_data zcd;

	if (!single_producer(r) || n > r->ring.capacity)
		return 0;
	n = rte_ring_enqueue_zc_bulk_elem_start(&r->ring, r->elem_bytes, n, &zcd, NULL);
	if (n != 0)
		span_from(&zcd, span_out);
	return n;
}

uint32_t rpi_burst_publish(struct rpi_burst *r, uint32_t n)
{
	uint32_t reserved_count;

	if (!single_producer(r))
		return 0;
	reserved_count = outstanding(&r->ring.prod);
	/* E1, producer's end. */
	rte_ring_enqueue_zc_elem_finish(&r->ring, n);
	return n <= reserved_count ? n : 0;
}

uint32_t rpi_burst_peek(struct rpi_burst *r, uint32_t n, struct rpi_burst_span *span_out)
{
	struct rte_ring_zc_data zcd;

	if (!single_consumer(r))
		return 0;
	n = bounded(r, n);
	/* E1, consumer's end. */
	n = rte_ring_dequeue_zc_burst_elem_start(&r->ring, r->elem_bytes, n, &zcd, NULL);
	if (n != 0)
		span_from(&zcd, span_out);
	return n;
}

uint32_t rpi_burst_consume(struct rpi_burst *r, uint32_t n)
{
	uint32_t peeked_count;

	if (!single_consumer(r))
		return 0;
	peeked_count = outstanding(&r->ring.cons);
	/* E2, consumer's end. */
	rte_ring_dequeue_zc_elem_finish(&r->ring, n);
	return n <= peeked_count ? n : 0;
}

bool rpi_burst_empty(const struct rpi_burst *r)
{
	/* E1, so that what a polling consumer reads next may rely on the answer. */
	uint32_t tail = __atomic_load_n(&r->ring.prod.tail, __ATOMIC_ACQUIRE);

	/* Relaxed: the caller's own word, or with several consumers advisory. */
	return tail == __atomic_load_n(&r->ring.cons.head, __ATOMIC_RELAXED);
}

uint32_t rpi_burst_count(const struct rpi_burst *r)
{
	/* The consumer's word first, and acquire to keep it first: it never passes
	 * the producer's, so that the difference never runs below zero. No data
	 * hangs on either. */
	uint32_t cons_tail = __atomic_load_n(&r->ring.cons.tail, __ATOMIC_ACQUIRE);
	uint32_t prod_tail = __atomic_load_n(&r->ring.prod.tail, __ATOMIC_RELAXED);

	return bounded(r, prod_tail - cons_tail);
}

uint32_t rpi_burst_free_count(const struct rpi_burst *r)
{
	return r->ring.capacity - rpi_burst_count(r);
}

uint32_t rpi_burst_capacity(const struct rpi_burst *r)
{
	return r->ring.capacity;
}

void rpi_burst_set_indices(struct rpi_burst *r, const struct rpi_burst_indices *to)
{
	/* The heads first: a waiter that a test leaves inside push looks at a tail. */
	__atomic_store_n(&r->ring.prod.head, to->prod_head, __ATOMIC_RELAXED);
	__atomic_store_n(&r->ring.cons.head, to->cons_head, __ATOMIC_RELAXED);
	__atomic_store_n(&r->ring.prod.tail, to->prod_tail, __ATOMIC_RELEASE);
	__atomic_store_n(&r->ring.cons.tail, to->cons_tail, __ATOMIC_RELEASE);
}

void rpi_burst_set_start(struct rpi_burst *r, uint32_t index)
{
	struct rpi_burst_indices to = { index, index, index, index };

	rpi_burst_set_indices(r, &to);
}
