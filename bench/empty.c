/* SPDX-License-Identifier: MIT */
#include "empty.h"

int bench_empty_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

int bench_empty_program(const char *name, struct rp_program **program_out)
{
	const struct rp_entry entry = { .name = "empty", .fn = bench_empty_entry };
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = name;
	desc.entries = &entry;
	desc.entry_count = 1;
	return rp_program_create(&desc, program_out);
}
