/* SPDX-License-Identifier: MIT */
/*
 * ring_stress [--items N] [--seconds S] [--seed N] [--variant NAME] [--processes]
 *
 * Runs every variant mostly full (slow consumers), then mostly empty (slow
 * producers), and again with the next seed until the seconds are over. Threads by
 * default, so that TSan sees both ends; --processes forks instead. A hang is
 * ended by the alarm, which is a failure.
 */
#include <getopt.h>
#include <time.h>

#include "ring/burst.h"
#include "ring_stress.h"

#define WATCHDOG_S    300
#define RING_CAPACITY 13
#define SLOT_COUNT    16

/* The slot ring, and the done word that its consumer publishes. */

#define SLOT_FIRST_SEQ (UINT64_MAX - 1000)

struct slot_ring {
	struct rpi_slot slots[SLOT_COUNT];
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t done_seq; /* E2 */
};

static size_t slot_ring_init(void *mem)
{
	struct slot_ring *ring = mem;

	if (ring) {
		rpi_slot_init(ring->slots, SLOT_COUNT, SLOT_FIRST_SEQ);
		atomic_store(&ring->done_seq, SLOT_FIRST_SEQ - 1);
	}
	return sizeof(*ring);
}

static void slot_side_init(struct side *side)
{
	struct slot_ring *ring = side->mem;

	rpi_slot_tx_init(&side->tx, ring->slots, SLOT_COUNT, SLOT_FIRST_SEQ);
	rpi_slot_rx_init(&side->rx, ring->slots, SLOT_COUNT, SLOT_FIRST_SEQ);
}

/* A word at a time, since gcc hides from TSan the copies that it inlines. */
static void words_copy(uint64_t *to, const uint64_t *from, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes / sizeof(uint64_t); i++)
		to[i] = from[i];
}

static uint32_t slot_put(struct side *side, const void *items, uint32_t n)
{
	struct slot_ring *ring = side->mem;
	/* E2, producer's end. */
	uint64_t done_seq = atomic_load_explicit(&ring->done_seq, memory_order_acquire);
	const uint8_t *from = items;

	if (rpi_slot_tx_room(&side->tx, done_seq) < n)
		return 0;
	for (uint32_t i = 0; i < n; i++, from += RPI_SLOT_PAYLOAD_BYTES) {
		/* In place and by copy, in turn. */
		if (i % 2) {
			rpi_slot_tx_put(&side->tx, from);
		} else {
			words_copy(rpi_slot_tx_payload(&side->tx), (const uint64_t *)from,
				   RPI_SLOT_PAYLOAD_BYTES);
			rpi_slot_tx_publish(&side->tx);
		}
	}
	return n;
}

static uint32_t slot_take(struct side *side, void *items_out, uint32_t n)
{
	struct slot_ring *ring = side->mem;
	uint8_t *to = items_out;
	uint64_t seq = 0;
	uint32_t i;

	for (i = 0; i < n; i++, to += RPI_SLOT_PAYLOAD_BYTES) {
		const void *payload = rpi_slot_rx_poll(&side->rx);

		if (!payload)
			break;
		words_copy((uint64_t *)to, payload, RPI_SLOT_PAYLOAD_BYTES);
		seq = rpi_slot_rx_next(&side->rx);
	}
	/* E2, consumer's end. */
	if (i != 0)
		atomic_store_explicit(&ring->done_seq, seq, memory_order_release);
	return i;
}

static bool slot_is_empty(void *mem)
{
	struct slot_ring *ring = mem;
	uint64_t last_seq = atomic_load(&ring->done_seq);

	/* The slot after the last one taken still holds an older round. */
	return atomic_load(&ring->slots[(last_seq + 1) % SLOT_COUNT].seq) != last_seq + 1;
}

/* The burst rings: by copy, or in place. */

static size_t burst_init(void *mem, uint32_t elem_bytes, unsigned int flags)
{
	size_t bytes = rpi_burst_bytes(elem_bytes, RING_CAPACITY);

	if (!mem)
		return bytes;
	if (rpi_burst_init(mem, bytes, elem_bytes, RING_CAPACITY, flags) != 0)
		abort();
	rpi_burst_set_start(mem, UINT32_MAX - 1000);
	return bytes;
}

static size_t burst_init_spsc(void *mem)
{
	return burst_init(mem, 64, RPI_BURST_SP | RPI_BURST_SC);
}

static size_t burst_init_mpsc(void *mem)
{
	return burst_init(mem, 64, RPI_BURST_SC);
}

static size_t burst_init_mpmc(void *mem)
{
	return burst_init(mem, 64, 0);
}

static size_t burst_init_mpmc_8(void *mem)
{
	return burst_init(mem, 8, 0);
}

static uint32_t burst_put(struct side *side, const void *items, uint32_t n)
{
	return rpi_burst_push(side->mem, items, n);
}

static uint32_t burst_take(struct side *side, void *items_out, uint32_t n)
{
	return rpi_burst_pop(side->mem, items_out, n);
}

static uint32_t burst_put_in_place(struct side *side, const void *items, uint32_t n)
{
	struct rpi_burst_span span;
	const uint8_t *from = items;

	if (rpi_burst_reserve(side->mem, n, &span) == 0)
		return 0;
	memcpy(span.first, from, span.first_count * 64);
	if (span.first_count < n)
		memcpy(span.second, from + span.first_count * 64,
		       (n - span.first_count) * 64);
	return rpi_burst_publish(side->mem, n);
}

static uint32_t burst_take_in_place(struct side *side, void *items_out, uint32_t n)
{
	struct rpi_burst_span span;
	uint8_t *to = items_out;
	uint32_t seen_count = 0;

	if (!rpi_burst_empty(side->mem))
		seen_count = rpi_burst_peek(side->mem, n, &span);
	if (seen_count == 0)
		return 0;
	/* Every other time leave one, to see it again. */
	n = seen_count > 1 && seen_count % 2 ? seen_count - 1 : seen_count;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *from =
			i < span.first_count
				? (uint8_t *)span.first + i * 64
				: (uint8_t *)span.second + (i - span.first_count) * 64;

		memcpy(to + i * 64, from, 64);
	}
	return rpi_burst_consume(side->mem, n);
}

static bool burst_is_empty(void *mem)
{
	return rpi_burst_empty(mem) && rpi_burst_count(mem) == 0;
}

static const struct variant variants[] = {
	{ "slot.spsc", RPI_SLOT_PAYLOAD_BYTES, 1, 1, slot_ring_init, slot_side_init,
	  slot_put, slot_take, slot_is_empty },
	{ "burst.spsc", 64, 1, 1, burst_init_spsc, NULL, burst_put_in_place,
	  burst_take_in_place, burst_is_empty },
	{ "burst.mpsc", 64, 4, 1, burst_init_mpsc, NULL, burst_put, burst_take_in_place,
	  burst_is_empty },
	{ "burst.mpmc", 64, 3, 3, burst_init_mpmc, NULL, burst_put, burst_take,
	  burst_is_empty },
	{ "burst.mpmc8", 8, 2, 2, burst_init_mpmc_8, NULL, burst_put, burst_take,
	  burst_is_empty },
};

struct options {
	uint64_t items, seed;
	double seconds;
	const char *variant;
	bool processes;
};

static void usage(void)
{
	fprintf(stderr, "usage: ring_stress [--items N] [--seconds S] [--seed N]"
			" [--variant NAME] [--processes]\nvariants:");
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		fprintf(stderr, " %s", variants[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

static void options_read(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{ "items", required_argument, NULL, 'i' },
		{ "seconds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'r' },
		{ "variant", required_argument, NULL, 'v' },
		{ "processes", no_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'i')
			o->items = strtoull(optarg, NULL, 0);
		else if (c == 's')
			o->seconds = strtod(optarg, NULL);
		else if (c == 'r')
			o->seed = strtoull(optarg, NULL, 0);
		else if (c == 'v')
			o->variant = optarg;
		else if (c == 'p')
			o->processes = true;
		else
			usage();
	}
	/* Enough to fill the ring, or "mostly full" would wait for ever. */
	if (optind != argc || o->items < 100 || o->items > ITEMS_MAX)
		usage();
}

static double seconds_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) +
	       (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

int main(int argc, char **argv)
{
	struct options o = { .items = 20000, .seed = 42 };
	struct timespec start;
	bool ok = true;
	int ran = 0;

	options_read(argc, argv, &o);
	clock_gettime(CLOCK_MONOTONIC, &start);
	alarm(WATCHDOG_S + (unsigned int)o.seconds);
	do {
		for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
			const struct variant *v = &variants[i];

			if (o.variant && strcmp(o.variant, v->name) != 0)
				continue;
			for (int mood = MOSTLY_FULL; mood <= MOSTLY_EMPTY; mood++)
				ok &= run_once(v, (enum mood)mood, o.seed,
					       (uint32_t)o.items, o.processes);
			ran++;
		}
		o.seed++;
	} while (ok && ran && seconds_since(&start) < o.seconds);
	if (!ran)
		usage();
	return ok ? 0 : 1;
}
