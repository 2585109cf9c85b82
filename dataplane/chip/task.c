/* SPDX-License-Identifier: MIT */
/* One task, from its dependencies to its outputs. */
#include <errno.h>
#include <string.h>

#include "base/probe.h"
#include "chip/server.h"
#include "dispatch/frame.h"

/* The kernel's own bound. */
#define ERRNO_MAX 4095

/* More outstanding misses than this no core has. */
#define FETCH_LINES 16u

static bool cancelled(const struct rp_chip *chip)
{
	return rpi_frame_cancelled(&chip->frames[chip->task->frame_idx],
				   chip->task->run_seq);
}

/* The task's failure is its run's; whoever waits inside the run learns of it. */
static void fail_run(struct rp_chip *chip, int status, const char *text)
{
	if (rpi_frame_fail(&chip->frames[chip->task->frame_idx], chip->task->run_seq,
			   status, (int)chip->peer_idx, text))
		rpi_rouse_all(&chip->rouser);
}

/* E2 or E3 of another process: what it wrote is there, or what it read is free. */
static bool dep_met(const struct rp_chip *chip, const struct rpi_dep *dep)
{
	const struct rpi_peer *peer = &chip->peers[dep->peer];

	if (dep->loaded &&
	    atomic_load_explicit(&peer->loaded_seq, memory_order_acquire) >= dep->seq)
		return true;
	return atomic_load_explicit(&peer->done_seq, memory_order_acquire) >= dep->seq;
}

static bool dep_over(struct rp_chip *chip, const void *what)
{
	return dep_met(chip, what) || cancelled(chip) ||
	       atomic_load_explicit(&chip->self->stop, memory_order_acquire);
}

/*
 * The last look before a sleep. The bit is set while `dozing` is: whoever takes it,
 * be it at the end of an earlier task than the one waited for, finds the doze and ends
 * it, and then it is set anew. Set before `dozing`, it could be taken for nothing.
 */
static bool dep_over_or_asked(struct rp_chip *chip, const void *what)
{
	const struct rpi_dep *dep = what;
	struct rpi_peer *peer = &chip->peers[dep->peer];

	atomic_fetch_or_explicit(&peer->dep_waiters, UINT64_C(1) << chip->peer_idx,
				 memory_order_acq_rel);
	atomic_fetch_or_explicit(&peer->attention, RPI_ATTENTION_DEPS,
				 memory_order_acq_rel);
	rpi_fence(); /* E5 */
	return dep_over(chip, dep);
}

static void await_dep(struct rp_chip *chip, const struct rpi_dep *dep)
{
	struct rpi_spin_wait wait;
	bool slept = false;

	if (dep_met(chip, dep))
		return;
	rpi_server_spin_begin(chip, &wait, &chip->dep_spin, UINT64_C(1) << dep->peer,
			      false);
	while (!dep_over(chip, dep) && rpi_spin_again(&wait))
		;
	while (!dep_over(chip, dep)) {
		rpi_server_doze(chip, dep_over_or_asked, dep);
		slept = true;
	}
	rpi_spin_end(&wait, slept);
}

/* Wait for what the task follows; returns where its arguments begin. */
static const uint8_t *await_deps(struct rp_chip *chip, const struct rpi_task_body *task)
{
	const uint8_t *stream = chip->rx.at.args + task->args_at;
	uint32_t i;

	if (!task->arg_lines)
		stream = task->in.args.bytes;
	for (i = 0; i < task->dep_count; i++) {
		const struct rpi_dep *dep = &task->in.deps[i];

		if (i >= RPI_INLINE_DEPS) {
			dep = (const struct rpi_dep *)stream;
			stream += sizeof(*dep);
		}
		await_dep(chip, dep);
	}
	return stream;
}

/* A span of this task ends; the next may begin. */
static __attribute__((cold, noinline)) uint64_t span(const struct rp_chip *chip,
						     const struct rpi_task_body *task,
						     enum rpi_trace_name name,
						     uint64_t began)
{
	const struct rpi_trace_of of = rpi_server_span_of(chip, task);

	return rpi_trace_close(&chip->tracer, name, began, &of);
}

/* Whom the task follows, once each. */
static __attribute__((cold, noinline)) void note_edges(const struct rp_chip *chip,
						       const struct rpi_task_body *task)
{
	const struct rpi_dep *spilled =
		(const struct rpi_dep *)(chip->rx.at.args + task->args_at);
	struct rpi_trace_of of = rpi_server_span_of(chip, task);
	const uint64_t now = rpi_clock_ticks();
	uint32_t i;

	for (i = 0; i < task->dep_count; i++) {
		const struct rpi_dep *dep = i < RPI_INLINE_DEPS
						    ? &task->in.deps[i]
						    : &spilled[i - RPI_INLINE_DEPS];

		of.value = rpi_trace_edge(dep->peer, dep->seq);
		rpi_trace_record(&chip->tracer, RPI_SPAN_EDGE, now, now, &of);
	}
}

static int run_entry(struct rp_chip *chip, const struct rpi_task_body *task)
{
	const struct rp_program *program = chip->programs[task->program];
	struct rpi_launch launch;
	uint64_t began;
	int status;

	if (task->op == RPI_OP_CALLBACK) {
		const struct rpi_callback *callback =
			&chip->callbacks[task->program][task->entry];

		return callback->fn((struct rp_callback_context *)chip, chip->args,
				    task->arg_count, callback->user);
	}
	began = rpi_trace_open(&chip->tracer, RPI_TRACE_DEVICE);
	launch.fn = program->entries[task->entry].fn;
	launch.chip = chip;
	launch.args = chip->args;
	launch.nargs = task->arg_count;
	if (chip->runtime)
		rpi_server_runtime_begin(chip);
	status = chip->backend->launch(chip->device, &launch);
	if (!status && chip->backend->settle)
		status = chip->backend->settle(chip->device);
	if (rpi_unlikely(began))
		span(chip, task, RPI_SPAN_DEVICE_ORCH, began);
	if (chip->runtime)
		status = rpi_server_runtime_end(chip, status);
	if (rpi_unlikely(began))
		span(chip, task, RPI_SPAN_DEVICE_WALL, began);
	return status;
}

static __attribute__((cold, noinline)) void report(struct rp_chip *chip,
						   const struct rpi_task_body *task,
						   int status)
{
	const struct rp_program *program = chip->programs[task->program];
	bool callback = task->op == RPI_OP_CALLBACK;
	char text[RPI_ERROR_BYTES];
	const char *why;

	if (status > 0) {
		rpi_fail(-EINVAL, "returned %d, expected 0 or a negative errno", status);
		chip->fail_code = status = -EINVAL;
		why = rp_last_error();
	} else if (chip->fail_code == status) {
		why = chip->fail_text;
	} else {
		/* Any int may come back; past this no errno lies. */
		why = status >= -ERRNO_MAX ? strerror(-status) : "not an errno";
	}
	rpi_format(text, sizeof(text), "run %llu: %s '%s' of '%s' on %s %u: %s",
		   (unsigned long long)task->run_seq, callback ? "callback" : "entry",
		   callback ? program->callbacks[task->entry].name
			    : program->entries[task->entry].name,
		   program->name, callback ? "callback worker" : "chip",
		   callback ? chip->peer_idx - chip->chip_count : chip->peer_idx, why);
	fail_run(chip, status, text);
}

/* The parent has just written the arguments: fetch their lines side by side instead
 * of one after the other as they are read. */
static void fetch_stream(const struct rp_chip *chip, const struct rpi_task_body *task)
{
	const uint8_t *at = chip->rx.at.args + task->args_at;
	uint32_t i;

	for (i = 0; i < task->arg_lines && i < FETCH_LINES; i++)
		__builtin_prefetch(at + i * RPI_CACHE_LINE);
}

/* Names of the steps of a task, in a chip and in a callback worker. */
enum step {
	STEP_FOLLOW,
	STEP_BIND,
	STEP_RUN,
	STEP_WRITEBACK,
	STEP_ALL
};

static const enum rpi_trace_name step_names[][2] = {
	[STEP_FOLLOW] = { RPI_SPAN_CHIP_FOLLOW, RPI_SPAN_CALLBACK_FOLLOW },
	[STEP_BIND] = { RPI_SPAN_CHIP_BIND, RPI_SPAN_CALLBACK_BIND },
	[STEP_RUN] = { RPI_SPAN_CHIP_RUNNER, RPI_SPAN_CALLBACK_CALL },
	[STEP_WRITEBACK] = { RPI_SPAN_CHIP_WRITEBACK }, /* a callback works in place */
	[STEP_ALL] = { RPI_SPAN_CHIP_RUN, RPI_SPAN_CALLBACK_RUN },
};

static RPI_ALWAYS_INLINE uint64_t step(const struct rp_chip *chip,
				       const struct rpi_task_body *task, enum step which,
				       uint64_t began)
{
	/* `began` may be there for what is done around the entry alone. */
	if (!(RPI_TRACE_HOST & RPI_TRACE_BUILT) || rpi_likely(!began))
		return 0;
	return span(chip, task, step_names[which][task->op == RPI_OP_CALLBACK], began);
}

void rpi_server_execute(struct rp_chip *chip, const struct rpi_task_body *task)
{
	const uint64_t began =
		rpi_trace_open(&chip->tracer, RPI_TRACE_HOST | RPI_TRACE_ENTRY);
	const bool brings = task->arg_lines || task->op == RPI_OP_RUN_WORDS;
	const uint8_t *stream;
	uint64_t at;
	int status = 0;

	chip->task = task;
	fetch_stream(chip, task);
	chip->fail_code = 0;
	stream = await_deps(chip, task);
	if (rpi_unlikely(began && task->dep_count) &&
	    rpi_trace_wants(&chip->tracer, RPI_TRACE_EDGES))
		note_edges(chip, task);
	at = step(chip, task, STEP_FOLLOW, began);
	rpi_probe(start, task->run_seq, chip->rx.next_seq);
	if (rpi_unlikely(cancelled(chip))) {
		rpi_count(&chip->self->counts.cancelled, 1);
		return;
	}
	if (rpi_unlikely(task->op == RPI_OP_RESET)) {
		rpi_window_reset(chip, &chip->windows.slots[task->entry],
				 task->arg_count);
		if (rpi_unlikely(at))
			span(chip, task, RPI_SPAN_CHIP_RESET, at);
		return;
	}
	chip->reads_host = false;
	if (task->op == RPI_OP_RUN_WORDS)
		stream = rpi_server_expand_words(chip);
	/* What else travels in the task itself are no tensors: nothing to bring. */
	if (brings)
		status = rpi_server_bring_in(chip, stream);
	else if (task->arg_count)
		rpi_server_read_inline(chip);
	/* E3. Only peers ask for it, and only of what was read from host memory. */
	if (chip->reads_host && chip->peer_count > 1)
		rpi_server_loaded(chip, chip->rx.next_seq);
	at = step(chip, task, STEP_BIND, at);
	if (!status)
		status = (RPI_TRACE_ENTRY & RPI_TRACE_BUILT) && rpi_unlikely(began)
				 ? rpi_server_observe(chip, task, run_entry)
				 : run_entry(chip, task);
	at = step(chip, task, STEP_RUN, at);
	if (!status && brings)
		status = rpi_server_bring_out(chip);
	if (rpi_unlikely(status))
		report(chip, task, status);
	if (rpi_unlikely(began)) {
		if (task->op != RPI_OP_CALLBACK)
			step(chip, task, STEP_WRITEBACK, at);
		step(chip, task, STEP_ALL, began);
		rpi_trace_await_room(&chip->tracer, NULL);
	}
	rpi_count(&chip->self->counts.tasks, 1);
}
