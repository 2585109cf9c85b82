/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include <inttypes.h>

static double us(int64_t ns, uint64_t count)
{
	return (double)ns / 1e3 / (double)count;
}

int summary_print(FILE *out, struct engine *engine, const struct generate_result *result)
{
	struct engine_costs costs;
	struct engine_probe probe;
	int64_t over, rest;
	uint64_t n;
	int err = engine_costs(engine, &costs);

	if (!err)
		err = engine_probe(engine, &probe);
	if (err || !costs.dispatches)
		return err;
	n = costs.dispatches;
	over = costs.wall_ns - costs.chip_ns;
	rest = over - (probe.fixed_ns + probe.window_ns) * (int64_t)n;
	fprintf(out,
		"%d tokens, %.0f tokens/s, %.1f us per token\n"
		"  chips       %8.1f us  the slowest chip's entry\n"
		"  ringplane   %8.1f us  %.1f %% of the time, from submit to outcome\n"
		"    fixed     %8.1f us  an empty dispatch\n"
		"    windows   %8.1f us  reset, or allocation; %" PRIu64 " bytes zeroed\n"
		"    rest      %8.1f us  arguments, waking up; %" PRIu64
		" bytes in, %" PRIu64 " out\n",
		result->count, 1e9 * result->count / (double)result->loop_ns,
		us(result->loop_ns, (uint64_t)result->count), us(costs.chip_ns, n),
		us(over, n), 100.0 * (double)over / (double)result->loop_ns,
		us(probe.fixed_ns, 1), us(probe.window_ns, 1), costs.window_bytes,
		us(rest > 0 ? rest : 0, n), costs.bytes_in, costs.bytes_out);
	return 0;
}
