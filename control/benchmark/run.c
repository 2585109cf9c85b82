/* SPDX-License-Identifier: MIT */
/* The rounds of a benchmark. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "benchmark/stats.h"
#include "trace/capture.h"
#include "worker/worker.h"

/* What there is at least room for before each reading. */
#define SPANS_AT_ONCE 4096

struct collected {
	struct rp_span *spans;
	size_t count, capacity;
};

static int check_args(const struct rp_program *program, const struct rp_arg *args,
		      size_t nargs, const struct rp_benchmark_options *options)
{
	size_t i;

	if (!program || (!args && nargs))
		return rpi_fail(-EINVAL, "rp_benchmark: %s NULL, expected one",
				program ? "args" : "program");
	if (options && options->size != sizeof(*options))
		return rpi_fail(-EINVAL, "rp_benchmark: options size %zu, expected %zu",
				options->size, sizeof(*options));
	if (options && options->worker && options->worker->ring_fd != -1)
		return rpi_fail(-EINVAL,
				"rp_benchmark: ring_fd %d, expected -1: nobody reaps",
				options->worker->ring_fd);
	if ((options && options->config &&
	     rpi_capture_is_on(&options->config->capture)) ||
	    (options && options->worker && rpi_capture_is_on(&options->worker->capture)))
		return rpi_fail(-EINVAL, "rp_benchmark: a capture, expected none: it "
					 "would be what is measured");
	for (i = 0; i < nargs; i++)
		if (args[i].kind == RP_ARG_TENSOR && args[i].u.tensor.resident)
			return rpi_fail(-EXDEV,
					"rp_benchmark: argument %zu is a resident tensor "
					"of another worker, expected host memory",
					i);
	return 0;
}

static int check_rounds(uint32_t rounds, uint32_t warmup)
{
	if (!SIMPLER_HOST_STRACE)
		return rpi_fail(-EOPNOTSUPP, "rp_benchmark: this build has no host spans "
					     "(SIMPLER_HOST_STRACE=0)");
	if (!rounds || rounds > RP_BENCHMARK_ROUNDS_MAX)
		return rpi_fail(-EINVAL, "rp_benchmark: rounds %u, expected 1..%u",
				rounds, RP_BENCHMARK_ROUNDS_MAX);
	if (warmup > RP_BENCHMARK_ROUNDS_MAX)
		return rpi_fail(-EINVAL, "rp_benchmark: warmup %u, expected 0..%u",
				warmup, RP_BENCHMARK_ROUNDS_MAX);
	return 0;
}

static int make_room(struct collected *spans)
{
	struct rp_span *grown;
	size_t capacity = spans->capacity ? 2 * spans->capacity : 2 * SPANS_AT_ONCE;

	if (spans->capacity - spans->count >= SPANS_AT_ONCE)
		return 0;
	grown = realloc(spans->spans, capacity * sizeof(*grown));
	if (!grown)
		return rpi_fail(-ENOMEM, "rp_benchmark: no memory for %zu spans",
				capacity);
	spans->spans = grown;
	spans->capacity = capacity;
	return 0;
}

/* Take what the round has recorded, keep what tells of its tasks. */
static int collect(struct rp_trace *trace, struct collected *spans)
{
	size_t got = SPANS_AT_ONCE;

	while (got == SPANS_AT_ONCE) {
		struct rp_span *at;
		size_t i;
		int err = make_room(spans);

		if (err)
			return err;
		at = spans->spans + spans->count;
		got = rp_trace_read(trace, at, SPANS_AT_ONCE);
		for (i = 0; i < got; i++)
			if (at[i].task)
				spans->spans[spans->count++] = at[i];
	}
	if (rp_trace_dropped(trace))
		return rpi_fail(-ENOBUFS,
				"rp_benchmark: %llu spans were dropped, expected rounds "
				"of fewer tasks",
				(unsigned long long)rp_trace_dropped(trace));
	return 0;
}

struct job {
	struct rp_worker *worker;
	struct rp_program *program;
	const struct rp_arg *args;
	size_t nargs;
	const struct rp_run_config *config;
	uint32_t rounds, warmup;
};

static int run_rounds(const struct job *job, uint64_t *runs, struct collected *spans)
{
	struct rp_trace *trace;
	uint32_t round;
	int err = 0;

	for (round = 0; !err && round < job->warmup; round++)
		err = rp_worker_run(job->worker, job->program, job->args, job->nargs,
				    job->config);
	if (err)
		return err;
	err = rp_trace_attach(
		job->worker, (RP_TRACE_HOST | RP_TRACE_DEVICE) & RPI_TRACE_BUILT, &trace);
	if (err)
		return err;
	for (round = 0; !err && round < job->rounds; round++) {
		err = rp_worker_run(job->worker, job->program, job->args, job->nargs,
				    job->config);
		/* The worker is this thread's alone: the newest run is this one. */
		runs[round] = job->worker->plane.next_run_seq - 1;
		if (!err)
			err = collect(trace, spans);
	}
	rp_trace_detach(trace);
	return err;
}

static int prepare(struct rp_program *program, const struct rp_worker_options *given,
		   struct rp_worker **worker_out)
{
	struct rp_worker_options options;

	rp_worker_options_init(&options);
	if (given)
		return rp_worker_prepare(&program, 1, given, worker_out);
	options.chip_count = program->chip_count;
	return rp_worker_prepare(&program, 1, &options, worker_out);
}

static int measure(struct job *job, const struct rp_worker_options *options,
		   uint64_t *runs, struct collected *spans)
{
	char text[RPI_ERROR_BYTES];
	int err, closed;

	err = prepare(job->program, options, &job->worker);
	if (err)
		return err;
	err = run_rounds(job, runs, spans);
	rpi_format(text, sizeof(text), "%s", rp_last_error());
	closed = rp_worker_close(job->worker, RP_WAIT_FOREVER);
	rp_worker_free(job->worker);
	if (!err)
		return closed;
	rpi_error_set(text);
	return err;
}

int rp_benchmark(struct rp_program *program, const struct rp_arg *args, size_t nargs,
		 uint32_t rounds, uint32_t warmup,
		 const struct rp_benchmark_options *options,
		 struct rp_benchmark_stats **stats_out)
{
	struct job job = { .program = program,
			   .args = args,
			   .nargs = nargs,
			   .config = options ? options->config : NULL,
			   .rounds = rounds,
			   .warmup = warmup };
	struct collected spans = { 0 };
	uint64_t *runs;
	int err = check_rounds(rounds, warmup);

	if (!err && !stats_out)
		err = rpi_fail(-EINVAL, "rp_benchmark: stats_out NULL, expected one");
	if (!err)
		err = check_args(program, args, nargs, options);
	if (err)
		return err;
	runs = calloc(rounds, sizeof(*runs));
	if (!runs)
		return rpi_fail(-ENOMEM, "rp_benchmark: no memory for %u rounds", rounds);
	err = measure(&job, options ? options->worker : NULL, runs, &spans);
	if (err) {
		free(spans.spans);
	} else {
		err = rpi_benchmark_fold(spans.spans, spans.count, runs, rounds, warmup,
					 stats_out);
		if (err)
			rpi_fail(err, "rp_benchmark: no memory");
	}
	free(runs);
	return err;
}
