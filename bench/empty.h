/* SPDX-License-Identifier: MIT */
/* An entry that does nothing, and the program of it alone. */
#ifndef BENCH_EMPTY_H
#define BENCH_EMPTY_H

#include <ringplane/program.h>

int bench_empty_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);

/* For workers of any number of chips; the caller's. */
int bench_empty_program(const char *name, struct rp_program **program_out);

#endif
