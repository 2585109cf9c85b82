/* SPDX-License-Identifier: MIT */
/* What a figure was measured with and on: enough to repeat it. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdbool.h>

#include "options.h"

struct bench_machine {
	const char *version, *revision; /* revision: "" when not built from git */
	char compiler[64];
	const char *build_flags; /* "" when the build does not say */
	char cpu_model[128];
	char kernel[96];
	int cpu_count;	   /* that this process may use */
	double cpu_quota;  /* CPUs by the cgroup's quota; NAN: no quota */
	const char *pages; /* of a shared region that asks for the best: "huge" (of a
			    * pool), "thp", "4k"; "none": none can be made */
	bool uring;
	char uring_reason[96]; /* why not; "" when it works */
	const char *relation;  /* of the two CPUs: same, smt, core, socket, unknown */
	const char *clock;
	double clock_ns; /* one read, which every sample of a single operation holds */
};

/* The calling thread has not been pinned yet. */
void bench_machine_probe(struct bench_machine *machine,
			 const struct bench_options *options);

/* "0.3.0" and, built from git, " 1a2b3c4d". */
const char *bench_version(void);
const char *bench_revision(void);

#endif
