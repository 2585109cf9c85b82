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
	int err;

	engine_costs(engine, &costs);
	n = costs.dispatches;
	if (!n)
		return 0;
	err = engine_probe(engine, &probe);
	if (err)
		return err;
	over = costs.wall_ns - costs.chip_ns;
	rest = over - (probe.fixed_ns + probe.window_ns + probe.argument_ns) * (int64_t)n;
	fprintf(out,
		"%d tokens, %.0f tokens/s, %.1f us per token\n"
		"  chips       %8.1f us  the slowest chip's entry\n"
		"  ringplane   %8.1f us  %.1f %% of the time, from submit to outcome\n"
		"    fixed     %8.1f us  an empty dispatch\n"
		"    windows   %8.1f us  reset, or allocation; %" PRIu64 " bytes zeroed\n"
		"    copies    %8.1f us  of arguments; %" PRIu64 " bytes in, %" PRIu64
		" out\n"
		"    rest      %8.1f us  beyond those three, which are measured "
		"afterwards\n",
		result->count, 1e9 * result->count / (double)result->loop_ns,
		us(result->loop_ns, (uint64_t)result->count), us(costs.chip_ns, n),
		us(over, n), 100.0 * (double)over / (double)result->loop_ns,
		us(probe.fixed_ns, 1), us(probe.window_ns, 1), probe.window_bytes,
		us(probe.argument_ns, 1), probe.bytes_in, probe.bytes_out, us(rest, n));
	return 0;
}
