/* SPDX-License-Identifier: MIT */
#include "base/cpu.h"
#include "clock.h"
#include "reset_bed.h"

/* The caller stays awake, as one does that has work of its own. */
static void work_for(double ns)
{
	uint64_t until = rpi_now_ns() + (uint64_t)ns;

	while (rpi_now_ns() < until)
		rpi_cpu_pause();
}

int reset_look_round(struct bench_case *c, struct bench_round *round)
{
	struct reset_bed *bed = c->data;

	for (uint64_t i = 0; i < round->ops; i++) {
		uint64_t before;
		int err = reset_bed_write(bed);

		if (err)
			return err;
		if (bed->variant->works)
			work_for(bed->gap_ns);
		before = bench_ticks();
		err = reset_bed_run(bed, RESET_STEP_LOOK);
		bench_samples_add(round->samples, bench_ticks_ns(bench_ticks() - before));
		if (err)
			return err;
	}
	return reset_bed_check(bed, round);
}
