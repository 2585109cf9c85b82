/* SPDX-License-Identifier: MIT */
/* What a worker's processes record of its dispatches, and what becomes of it. */
#include <ringplane/kernel.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "proc.h"
#include "support.h"

#define SPANS_MAX 40000

struct spans {
	struct rp_span *all;
	size_t count;
};

static struct spans read_all(struct rp_trace *trace)
{
	struct spans spans = { .all = calloc(SPANS_MAX, sizeof(*spans.all)) };

	assert_non_null(spans.all);
	spans.count = rp_trace_read(trace, spans.all, SPANS_MAX);
	assert_in_range(spans.count, 0, SPANS_MAX - 1);
	return spans;
}

static const struct rp_span *find(const struct spans *spans, int32_t peer, uint64_t run,
				  const char *name)
{
	const struct rp_span *found = NULL;

	for (size_t i = 0; i < spans->count; i++) {
		const struct rp_span *span = &spans->all[i];

		if (span->peer != peer || span->run != run ||
		    strcmp(span->name, name) != 0)
			continue;
		assert_null(found);
		found = span;
	}
	return found;
}

static uint64_t end_of(const struct rp_span *span)
{
	return span->begin_ns + span->duration_ns;
}

/* `inner` is there and within `outer`. */
static void assert_inside(const struct spans *spans, int32_t peer, uint64_t run,
			  const char *outer, const char *inner)
{
	const struct rp_span *a = find(spans, peer, run, outer);
	const struct rp_span *b = find(spans, peer, run, inner);

	assert_non_null(a);
	assert_non_null(b);
	assert_true(b->begin_ns >= a->begin_ns);
	assert_true(end_of(b) <= end_of(a));
}

static int chain(struct rp_run *run, void *arg)
{
	int64_t *data = arg;
	struct rp_tensor first = TENSOR(data, RP_INT64, 8);
	struct rp_tensor second = TENSOR(data + 64, RP_INT64, 8);
	int err = TASK(run, 0, ENTRY_COPY, rp_in(first), rp_out(second));

	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(second), rp_arg_u64(3));
	return err ? err : CALL(run, CALLBACK_COPY, rp_in(second), rp_out(first));
}

static void each_step_of_a_dispatch_is_a_span_within_its_parent(void **state)
{
	int64_t *data = bed_shared(4096, 0);
	struct rp_trace *trace;
	struct spans spans;
	const struct rp_span *edge, *run;
	struct bed bed;

	(void)state;
	bed_open(&bed, 2);
	assert_ok(bed_run(&bed, chain, data));
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST | RP_TRACE_DEVICE, &trace));
	assert_ok(bed_run(&bed, chain, data)); /* run 2 */
	spans = read_all(trace);
	assert_null(find(&spans, 0, 1, "chip.run"));
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.run", "host.submit");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.submit", "host.submit.frame");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.submit", "host.submit.bind");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.submit",
		      "host.submit.orchestrate");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.submit", "host.submit.publish");
	assert_non_null(find(&spans, RP_SPAN_CALLER, 2, "host.wait"));
	for (int chip = 0; chip < 2; chip++) {
		assert_inside(&spans, chip, 2, "chip.run", "chip.run.follow");
		assert_inside(&spans, chip, 2, "chip.run", "chip.run.bind");
		assert_inside(&spans, chip, 2, "chip.run", "chip.run.runner_run");
		assert_inside(&spans, chip, 2, "chip.run.runner_run",
			      "chip.run.runner_run.device_wall");
		assert_inside(&spans, chip, 2, "chip.run.runner_run.device_wall",
			      "chip.run.runner_run.device_wall.orch");
		assert_inside(&spans, chip, 2, "chip.run", "chip.run.writeback");
		assert_null(
			find(&spans, chip, 2, "chip.run.runner_run.device_wall.sched"));
	}
	assert_inside(&spans, 2, 2, "callback.run", "callback.run.call");
	/* A task runs inside its run, on one clock. */
	run = find(&spans, RP_SPAN_CALLER, 2, "host.run");
	assert_true(find(&spans, 0, 2, "chip.run")->begin_ns >= run->begin_ns);
	assert_true(end_of(find(&spans, 2, 2, "callback.run")) <= end_of(run));
	/* Who followed whom. */
	edge = find(&spans, 1, 2, "edge");
	assert_non_null(edge);
	assert_int_equal(edge->follows, 0);
	assert_int_equal(edge->value, find(&spans, 0, 2, "chip.run")->task);
	assert_true(find(&spans, 1, 2, "chip.run.runner_run")->begin_ns >=
		    end_of(find(&spans, 0, 2, "chip.run.runner_run")));
	/* What the tasks are. */
	assert_string_equal(find(&spans, 0, 2, "chip.run")->task_name, "copy");
	assert_string_equal(find(&spans, 1, 2, "chip.run")->task_name, "add");
	assert_string_not_equal(find(&spans, 0, 2, "chip.run")->task_id,
				find(&spans, 1, 2, "chip.run")->task_id);
	assert_int_equal(find(&spans, 1, 2, "chip.run")->pid,
			 rp_worker_pid(bed.worker, 1));
	assert_int_equal(run->pid, getpid());
	assert_int_equal(rp_trace_dropped(trace), 0);
	free(spans.all);
	rp_trace_detach(trace);
	/* Nobody is attached: nothing is recorded. */
	assert_ok(bed_run(&bed, chain, data));
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_DEVICE, &trace));
	assert_ok(bed_run(&bed, chain, data)); /* run 4 */
	spans = read_all(trace);
	assert_int_equal(spans.count, 4);
	for (size_t i = 0; i < spans.count; i++) {
		assert_int_equal(spans.all[i].domain, RP_SPAN_DEVICE);
		assert_int_equal(spans.all[i].run, 4);
	}
	free(spans.all);
	rp_trace_detach(trace);
	bed_close(&bed);
	rp_shared_free(data);
}

static void time_in_the_queue_is_a_span_before_the_submit(void **state)
{
	const struct rp_span *queue, *submit, *run;
	_Atomic uint32_t go = 0;
	struct job held, behind = { .fn = job_note, .number = 1 };
	uint64_t before, after, released;
	struct rp_trace *trace;
	struct spans spans;
	struct bed bed;

	(void)state;
	job_open(&bed, 1, 0);
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST, &trace));
	job_hold_dispatcher(&bed, &held, &go); /* run 1 */
	before = proc_now_ns();
	assert_ok(job_submit(&bed, &behind)); /* run 2 */
	after = proc_now_ns();
	proc_pause_us(2000);
	released = proc_now_ns();
	atomic_store(&go, 1);
	assert_ok(job_outcome(&held));
	assert_ok(job_outcome(&behind));
	spans = read_all(trace);
	queue = find(&spans, RP_SPAN_CALLER, 2, "host.queue");
	submit = find(&spans, RP_SPAN_CALLER, 2, "host.submit");
	run = find(&spans, RP_SPAN_CALLER, 2, "host.run");
	assert_non_null(queue);
	assert_non_null(submit);
	assert_non_null(run);
	/* The clock of spans is calibrated: right to some microseconds. */
	assert_in_range(queue->begin_ns, before - 100000, after + 100000);
	assert_true(end_of(queue) + 100000 >= released);
	assert_in_range(submit->begin_ns, end_of(queue) - 1, end_of(queue) + 1);
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.run", "host.queue");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.run", "host.submit");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.submit", "host.submit.frame");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.submit", "host.submit.bind");
	assert_inside(&spans, RP_SPAN_CALLER, 2, "host.submit",
		      "host.submit.orchestrate");
	assert_true(find(&spans, 0, 2, "chip.run")->begin_ns >= end_of(queue));
	/* The thread is the dispatcher's. */
	assert_int_equal(submit->tid, behind.thread);
	assert_int_equal(find(&spans, RP_SPAN_CALLER, 1, "host.submit")->tid,
			 held.thread);
	free(spans.all);
	rp_trace_detach(trace);
	bed_close(&bed);
}

static void what_was_queued_before_anybody_asked_has_no_span(void **state)
{
	_Atomic uint32_t go = 0;
	struct job held, behind = { .fn = job_note, .number = 1 };
	struct rp_trace *trace;
	struct spans spans;
	struct bed bed;

	(void)state;
	job_open(&bed, 1, 0);
	job_hold_dispatcher(&bed, &held, &go);
	assert_ok(job_submit(&bed, &behind));
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST, &trace));
	atomic_store(&go, 1);
	assert_ok(job_outcome(&behind));
	spans = read_all(trace);
	assert_null(find(&spans, RP_SPAN_CALLER, 2, "host.queue"));
	assert_null(find(&spans, RP_SPAN_CALLER, 2, "host.run"));
	assert_non_null(find(&spans, RP_SPAN_CALLER, 2, "host.submit"));
	free(spans.all);
	rp_trace_detach(trace);
	assert_ok(job_outcome(&held));
	bed_close(&bed);
}

/* --- Kernels -------------------------------------------------------------- */

static int nothing(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return 0;
}

static int five_kernels(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_kernel kernel = { .fn = nothing, .name = "nothing" };
	int err = 0;

	(void)args;
	(void)nargs;
	for (int i = 0; i < 5 && !err; i++)
		err = rp_chip_submit(chip, &kernel, NULL);
	return err;
}

static void kernels_lie_within_the_scheduled_part(void **state)
{
	static const struct rp_entry entries[] = { { "five", five_kernels } };
	const char *sched = "chip.run.runner_run.device_wall.sched";

	(void)state;
	for (uint32_t threads = 0; threads < 3; threads++) {
		struct rp_worker_options options;
		struct rp_program_desc desc;
		struct rp_trace *trace;
		const struct rp_span *whole;
		struct spans spans;
		uint32_t seen = 0;
		struct bed bed;

		bed_options(&options, 1);
		options.compute_threads = threads;
		rp_program_desc_init(&desc);
		desc.name = "kernels";
		desc.entries = entries;
		desc.entry_count = 1;
		bed_prepare(&bed, &desc, &options);
		assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST | RP_TRACE_KERNELS,
					  &trace));
		assert_ok(rp_worker_run(bed.worker, NULL, NULL, 0, NULL));
		spans = read_all(trace);
		assert_inside(&spans, 0, 1, "chip.run.runner_run.device_wall", sched);
		whole = find(&spans, 0, 1, sched);
		for (size_t i = 0; i < spans.count; i++) {
			const struct rp_span *span = &spans.all[i];

			if (strcmp(span->name,
				   "chip.run.runner_run.device_wall.sched.kernel") != 0)
				continue;
			assert_in_range(span->value, 0, 4);
			assert_int_equal(seen >> span->value & 1, 0);
			seen |= 1u << span->value;
			assert_true(span->begin_ns >= whole->begin_ns);
			assert_true(end_of(span) <= end_of(whole));
		}
		assert_int_equal(seen, 31);
		free(spans.all);
		rp_trace_detach(trace);
		bed_close(&bed);
	}
}

/* --- Attaching ------------------------------------------------------------ */

static void one_may_be_attached_and_must_say_what_for(void **state)
{
	struct rp_trace *trace, *second;
	struct rp_span span;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	assert_int_equal(rp_trace_attach(NULL, RP_TRACE_HOST, &trace), -EINVAL);
	assert_int_equal(rp_trace_attach(bed.worker, RP_TRACE_HOST, NULL), -EINVAL);
	assert_int_equal(rp_trace_attach(bed.worker, 0, &trace), -EINVAL);
	assert_int_equal(rp_trace_attach(bed.worker, 8, &trace), -EINVAL);
	assert_says("rp_trace_attach", "what 0x8");
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST, &trace));
	assert_int_equal(rp_trace_attach(bed.worker, RP_TRACE_HOST, &second), -EBUSY);
	assert_says("rp_trace_attach", "somebody is attached");
	rp_trace_detach(trace);
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST, &second));
	assert_int_equal(rp_trace_read(second, NULL, 1), 0);
	assert_int_equal(rp_trace_read(NULL, &span, 1), 0);
	assert_int_equal(rp_trace_dropped(NULL), 0);
	rp_trace_detach(second);
	rp_trace_detach(NULL);
	bed_close(&bed);
}

static void device_spans_are_silent_where_the_environment_says_so(void **state)
{
	static const char *const words[] = { "0", "1", "", "00" };

	(void)state;
	for (size_t k = 0; k < COUNT(words); k++) {
		struct rp_trace *trace;
		struct spans spans;
		size_t device = 0;
		struct bed bed;

		assert_int_equal(setenv("SIMPLER_DEVICE_STRACE_ENABLE", words[k], 1), 0);
		bed_open(&bed, 1);
		assert_int_equal(unsetenv("SIMPLER_DEVICE_STRACE_ENABLE"), 0);
		assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST | RP_TRACE_KERNELS,
					  &trace));
		assert_ok(RUN_ONE(&bed, ENTRY_NOTE, rp_arg_u64(1)));
		spans = read_all(trace);
		assert_non_null(find(&spans, 0, 1, "chip.run"));
		for (size_t i = 0; i < spans.count; i++)
			device += spans.all[i].domain == RP_SPAN_DEVICE;
		assert_int_equal(device, k == 0 ? 0 : 2);
		free(spans.all);
		rp_trace_detach(trace);
		bed_close(&bed);
	}
}

static void what_nobody_reads_is_dropped_and_counted(void **state)
{
	struct rp_span few[7];
	struct rp_trace *trace;
	uint64_t last = 0, chip_runs = 0;
	size_t count;
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST, &trace));
	for (int i = 0; i < 4000; i++)
		assert_ok(bed_run_one(&bed, ENTRY_EMPTY, NULL, 0));
	do {
		count = rp_trace_read(trace, few, COUNT(few));
		for (size_t i = 0; i < count; i++) {
			if (strcmp(few[i].name, "chip.run") != 0)
				continue;
			assert_true(few[i].run > last);
			last = few[i].run;
			chip_runs++;
		}
	} while (count == COUNT(few));
	assert_int_equal(last, 4000);
	assert_in_range(chip_runs, 1, 3999);
	assert_true(rp_trace_dropped(trace) > 4000);
	rp_trace_detach(trace);
	bed_close(&bed);
}

/* --- Text ----------------------------------------------------------------- */

static size_t logged;

static void count_markers(enum rp_log_level level, const char *line, void *user)
{
	struct rp_span span;

	(void)user;
	if (level == RP_LOG_INFO && !rp_marker_parse(line, &span))
		logged++;
}

static void markers_are_written_when_they_are_asked_for(void **state)
{
	char path[] = "/tmp/rp-markers-XXXXXX", line[2 * RP_MARKER_BYTES];
	int fd = mkstemp(path);
	struct rp_trace *trace;
	struct rp_span span;
	size_t lines = 0;
	struct bed bed;
	FILE *file;

	(void)state;
	assert_true(fd >= 0);
	rp_log_set(count_markers, NULL, RP_LOG_INFO);
	bed_open(&bed, 2);
	assert_ok(rp_trace_attach(bed.worker, RP_TRACE_HOST | RP_TRACE_DEVICE, &trace));
	for (int i = 0; i < 3; i++)
		assert_ok(RUN_ONE(&bed, ENTRY_NOTE, rp_arg_u64(1)));
	assert_int_equal(logged, 0);
	assert_ok(rp_trace_write_markers(trace, path));
	file = fdopen(fd, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		assert_ok(rp_marker_parse(line, &span));
		lines++;
	}
	/* Seven of the caller, seven of the chip each time. */
	assert_int_equal(lines, 3 * 14);
	fclose(file);
	unlink(path);
	assert_ok(RUN_ONE(&bed, ENTRY_NOTE, rp_arg_u64(1)));
	assert_ok(rp_trace_write_markers(trace, NULL));
	assert_int_equal(logged, 14);
	assert_int_equal(rp_trace_write_markers(trace, "/nowhere/at/all"), -ENOENT);
	assert_says("rp_trace_write_markers", "/nowhere/at/all");
	assert_int_equal(rp_trace_write_markers(NULL, path), -EINVAL);
	rp_log_set(NULL, NULL, RP_LOG_INFO);
	rp_trace_detach(trace);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(each_step_of_a_dispatch_is_a_span_within_its_parent),
		PROCESS_TEST(time_in_the_queue_is_a_span_before_the_submit),
		PROCESS_TEST(what_was_queued_before_anybody_asked_has_no_span),
		PROCESS_TEST(kernels_lie_within_the_scheduled_part),
		PROCESS_TEST(one_may_be_attached_and_must_say_what_for),
		PROCESS_TEST(device_spans_are_silent_where_the_environment_says_so),
		PROCESS_TEST(what_nobody_reads_is_dropped_and_counted),
		PROCESS_TEST(markers_are_written_when_they_are_asked_for),
	};

	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
