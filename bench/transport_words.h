/* SPDX-License-Identifier: MIT */
/*
 * What rpbench and the two sides of a transport's program share.
 *
 * Memory order. Each site names the edge it is an end of.
 *   E1 round  rpbench writes what to do    -> round_seq store-release
 *             round_seq load-acquire       -> a side reads it
 *   E2 done   a side writes what it found  -> done_seq store-release
 *             done_seq load-acquire        -> rpbench reads it
 *   E3 swap   a side writes its address    -> address_bytes store-release
 *             address_bytes load-acquire   -> the other side reads it
 * Round 0 is having joined. Invariant: done_seq <= round_seq + 1; one writer a word.
 */
#ifndef BENCH_TRANSPORT_WORDS_H
#define BENCH_TRANSPORT_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cpu.h"
#include "case.h"
#include "clock.h"

#define TRANSPORT_SMALL_BYTES	((size_t)64)
#define TRANSPORT_BIG_BYTES	((size_t)64 << 20)
#define TRANSPORT_ADDRESS_BYTES 4096

enum transport_what {
	TRANSPORT_RTT,	/* TRANSPORT_SMALL_BYTES there and back */
	TRANSPORT_COPY, /* TRANSPORT_BIG_BYTES there, a word back */
	TRANSPORT_END
};

struct transport_side {
	/* Rounds done, joining being the first. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t done_seq; /* E2 */
	_Atomic uint32_t address_bytes;			     /* E3 */
	uint64_t work, failures;
	char note[BENCH_TEXT_BYTES]; /* how it works, or why it does not */
	unsigned char address[TRANSPORT_ADDRESS_BYTES];
};

struct transport_words {
	/* rpbench writes this block. */
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t round_seq; /* E1 */
	uint32_t what;
	uint64_t ops, seed;
	pid_t owner;
	int cpu[2]; /* by enum bench_side */
	bool cma;   /* process_vm_readv() may be used, where there is the choice */
	struct bench_clock clock;

	struct transport_side side[2]; /* each writes its own */
	double ns[BENCH_OPS_MAX];      /* the parent's side writes them */
};

#endif
