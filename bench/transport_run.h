/* SPDX-License-Identifier: MIT */
/* rpbench's side of a transport: its program started, given rounds, and ended. */
#ifndef BENCH_TRANSPORT_RUN_H
#define BENCH_TRANSPORT_RUN_H

#include <stdbool.h>

#include "case.h"
#include "transport_words.h"

struct transport_kind {
	const char *name;
	const char *package; /* that it is built with */
	const char *program; /* NULL: this build lacks it */
	bool launched;	     /* by mpirun, each side */
	bool pieces;	     /* large messages through shared memory, not by CMA */
};

/* A case's .arg. Cases of one kind share its processes. */
struct transport_variant {
	const char *name, *limits;
	const struct transport_kind *kind;
	enum transport_what what;
};

/* BENCH_SKIP where the program is not there or does not get as far as the first round. */
int transport_setup(struct bench_case *c);
int transport_round(struct bench_case *c, struct bench_round *round);
void transport_teardown(struct bench_case *c);

#endif
