/* SPDX-License-Identifier: MIT */
/* rpbench trace: what a span costs, when somebody records it and when nobody does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "clock.h"
#include "command.h"
#include "trace/span.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Spans of one sample. */
#define SPANS 256

struct trace_variant {
	const char *name, *limits;
	uint32_t wanted;
	void (*sample)(const struct rpi_tracer *tracer, uint64_t *work);
};

/* Spans with a beginning of their own: two looks at the clock. */
static void sample_spans(const struct rpi_tracer *tracer, uint64_t *work)
{
	struct rpi_trace_of of = { .run_seq = 1 };
	uint64_t i;

	for (i = 0; i < SPANS; i++) {
		uint64_t began = rpi_trace_open(tracer, RPI_TRACE_HOST);

		of.value = i;
		*work += !rpi_trace_close(tracer, RPI_SPAN_CHIP_RUN, began, &of);
	}
}

/* Steps of one task: each begins where the one before has ended. */
static void sample_steps(const struct rpi_tracer *tracer, uint64_t *work)
{
	struct rpi_trace_of of = { .run_seq = 1 };
	uint64_t at = rpi_trace_open(tracer, RPI_TRACE_HOST);
	uint64_t i;

	for (i = 0; i < SPANS; i++) {
		of.value = i;
		at = rpi_trace_close(tracer, RPI_SPAN_CHIP_RUN, at, &of);
	}
	*work += !at;
}

/* The limit of a span: the clock alone, twice. */
static void sample_clock(const struct rpi_tracer *tracer, uint64_t *work)
{
	uint64_t i;

	(void)tracer;
	for (i = 0; i < SPANS; i++) {
		uint64_t began = rpi_clock_ticks();

		*work += rpi_clock_ticks() < began;
	}
}

static const struct trace_variant variants[] = {
	{ "trace.two_clocks", NULL, 0, sample_clock },
	{ "trace.span", "trace.two_clocks", RPI_TRACE_HOST, sample_spans },
	{ "trace.span.step", NULL, RPI_TRACE_HOST, sample_steps },
	{ "trace.span.unwanted", NULL, 0, sample_spans },
};

static int trace_setup(struct bench_case *c)
{
	const struct trace_variant *variant = c->arg;
	size_t bytes = sizeof(struct rpi_trace) + sizeof(struct rpi_trace_log);
	struct rpi_trace *trace = aligned_alloc(RPI_SHARE_ALIGN, bytes);

	if (!trace)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	if ((variant->wanted & RPI_TRACE_BUILT) != variant->wanted) {
		free(trace);
		rpi_fail(-EOPNOTSUPP, "this build has no host spans");
		return BENCH_SKIP;
	}
	memset((void *)trace, 0, bytes);
	atomic_store_explicit(&trace->wanted, variant->wanted, memory_order_relaxed);
	rpi_clock_setup();
	c->data = trace;
	return 0;
}

static int trace_round(struct bench_case *c, struct bench_round *round)
{
	const struct trace_variant *variant = c->arg;
	struct rpi_trace *trace = c->data;
	const struct rpi_tracer tracer = { .trace = trace, .log = &trace->logs[0] };
	uint64_t op;

	for (op = 0; op < round->ops; op++) {
		uint64_t begin = bench_ticks();

		variant->sample(&tracer, &round->work);
		bench_samples_add(round->samples,
				  bench_ticks_ns(bench_ticks() - begin) / SPANS);
	}
	return 0;
}

static void trace_teardown(struct bench_case *c)
{
	free(c->data);
}

static int trace_plan(struct bench_plan *plan, const struct bench_options *options)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < COUNT(variants); i++) {
		struct bench_case c = {
			.unit = "ns",
			.limits = variants[i].limits,
			.batch = SPANS,
			.arg = &variants[i],
			.options = options,
			.setup = trace_setup,
			.round = trace_round,
			.teardown = trace_teardown,
		};

		rpi_format(c.name, sizeof(c.name), "%s", variants[i].name);
		err = bench_plan_add(plan, &c);
	}
	return err;
}

const struct bench_command bench_trace_command = {
	.name = "trace",
	.summary = "spans: recorded, and with nobody attached",
	.plan = trace_plan,
};
