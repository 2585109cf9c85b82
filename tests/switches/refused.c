/* SPDX-License-Identifier: MIT */
/* Of a build with a switch off: what it lacks is refused by name, the rest works. Exits
 * with 0, or says what is wrong. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <ringplane/ringplane.h>

static int failures;

static void expect(int err, int want, const char *what)
{
	const char *line = err ? rp_last_error() : "";

	if (err == want && (!err || strstr(line, "SIMPLER_")))
		return;
	fprintf(stderr, "%s: %d (%s), expected %d\n", what, err, line, want);
	failures++;
}

static int nothing(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

/* Attach, dispatch once, and count spans of the domain. */
static int spans_of(struct rp_worker *worker, uint32_t what, enum rp_span_domain domain)
{
	struct rp_span spans[64];
	struct rp_trace *trace;
	int found = 0;
	size_t count;

	expect(rp_trace_attach(worker, what, &trace), 0, "rp_trace_attach");
	expect(rp_worker_run(worker, NULL, NULL, 0, NULL), 0, "rp_worker_run");
	count = rp_trace_read(trace, spans, sizeof(spans) / sizeof(spans[0]));
	for (size_t i = 0; i < count; i++)
		found += spans[i].domain == domain;
	rp_trace_detach(trace);
	return found;
}

/* A capture: each flag alone. */
static void judge_capture(struct rp_worker *worker, uint32_t which, bool built)
{
	static const char *const names[] = { "swimlane", "dep_gen", "pmu", "dump_args",
					     "scope_stats" };
	struct rp_run_config config;
	int err;

	rp_run_config_init(&config);
	config.capture.enable_chip_swimlane = which == 0;
	config.capture.enable_dep_gen = which == 1;
	config.capture.enable_pmu = which == 2;
	config.capture.enable_dump_args = which == 3;
	config.capture.enable_scope_stats = which == 4;
	config.capture.output_dir = "captures"; /* run.sh says where that is */
	err = rp_worker_run(worker, NULL, NULL, 0, &config);
	/* A machine may have no counters. */
	if (!built)
		expect(err, -EOPNOTSUPP, names[which]);
	else if (which != 2)
		expect(err, 0, names[which]);
}

static void judge(struct rp_worker *worker, uint32_t what, enum rp_span_domain domain,
		  bool built, const char *name)
{
	struct rp_trace *trace;

	if (!built) {
		expect(rp_trace_attach(worker, what, &trace), -EOPNOTSUPP, name);
	} else if (!spans_of(worker, what, domain)) {
		fprintf(stderr, "%s: no span\n", name);
		failures++;
	}
}

int main(void)
{
	struct rp_entry entry = { "nothing", nothing };
	struct rp_program_desc desc;
	struct rp_benchmark_stats *stats;
	struct rp_benchmark_info info;
	struct rp_program *program;
	struct rp_worker *worker;
	int err;

	rp_program_desc_init(&desc);
	desc.name = "nothing";
	desc.entries = &entry;
	desc.entry_count = 1;
	if (rp_program_create(&desc, &program) ||
	    rp_worker_prepare(&program, 1, NULL, &worker))
		return fprintf(stderr, "%s\n", rp_last_error()), 1;
	judge(worker, RP_TRACE_HOST, RP_SPAN_HOST, SIMPLER_HOST_STRACE, "host spans");
	judge(worker, RP_TRACE_DEVICE, RP_SPAN_DEVICE, SIMPLER_DFX, "device spans");
	judge(worker, RP_TRACE_KERNELS, RP_SPAN_DEVICE, SIMPLER_DFX, "kernels");
	for (uint32_t which = 0; which < 5; which++)
		judge_capture(worker, which,
			      SIMPLER_DFX && (SIMPLER_HOST_STRACE || which));
	rp_worker_close(worker, RP_WAIT_FOREVER);
	rp_worker_free(worker);
	err = rp_benchmark(program, NULL, 0, 1, 0, NULL, &stats);
	expect(err, SIMPLER_HOST_STRACE ? 0 : -EOPNOTSUPP, "rp_benchmark");
	if (!err) {
		rp_benchmark_get_info(stats, &info);
		if (info.all_zero_device != !SIMPLER_DFX) {
			fprintf(stderr, "rp_benchmark: all_zero_device %d\n",
				info.all_zero_device);
			failures++;
		}
		rp_benchmark_free(stats);
	}
	rp_program_free(program);
	return failures ? 1 : 0;
}
