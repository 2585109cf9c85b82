/* SPDX-License-Identifier: MIT */
/* The chip runtime inside a worker process: what an entry calls, and its runs. */
#include <ringplane/kernel.h>

#include <errno.h>
#include <unistd.h>

#include "chip/server.h"
#include "dispatch/frame.h"
#include "runtime/runtime.h"

/* What an entry can ask of the chip only while it runs there. */
static int fail_absent(const char *call)
{
	return rpi_fail(-EOPNOTSUPP,
			"%s: this process has no chip runtime, expected a chip whose "
			"device addresses are pointers",
			call);
}

int rpi_server_submit_behind(struct rp_chip *chip, const char *call,
			     const struct rp_kernel *kernel,
			     const struct rpi_hurdle *hurdle, rp_kernel_id *id_out)
{
	if (rpi_unlikely(!chip->runtime))
		return fail_absent(call);
	return rpi_runtime_submit_behind(chip->runtime, kernel, hurdle, id_out);
}

int rpi_server_runtime_refuse(struct rp_chip *chip, int err)
{
	return chip->runtime ? rpi_fault_set(&chip->runtime->fault, err, rp_last_error())
			     : err;
}

int rp_chip_submit(struct rp_chip *chip, const struct rp_kernel *kernel,
		   rp_kernel_id *id_out)
{
	return rpi_server_submit_behind(chip, "rp_chip_submit", kernel, NULL, id_out);
}

int rp_scope_begin(struct rp_chip *chip, enum rp_scope_kind kind)
{
	if (rpi_unlikely(!chip->runtime))
		return fail_absent("rp_scope_begin");
	return rpi_runtime_scope_begin(chip->runtime, kind);
}

int rp_scope_end(struct rp_chip *chip)
{
	if (rpi_unlikely(!chip->runtime))
		return fail_absent("rp_scope_end");
	return rpi_runtime_scope_end(chip->runtime);
}

int rp_chip_drain(struct rp_chip *chip)
{
	if (rpi_unlikely(!chip->runtime))
		return fail_absent("rp_chip_drain");
	return rpi_runtime_drain(chip->runtime);
}

int rp_chip_ring_state(struct rp_chip *chip, uint32_t ring,
		       struct rp_ring_state *state_out)
{
	if (rpi_unlikely(!chip->runtime))
		return fail_absent("rp_chip_ring_state");
	return rpi_runtime_ring_state(chip->runtime, ring, state_out);
}

static void set(_Atomic uint64_t *counter, uint64_t value)
{
	/* Relaxed: this process is the only writer, and what it counts is for people. */
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

static void publish_counts(struct rp_chip *chip)
{
	const struct rpi_runtime *runtime = chip->runtime;
	struct rpi_peer_counts *counts = &chip->self->counts;

	set(&counts->kernels, runtime->kernels);
	set(&counts->arena_hits, runtime->cache.hits);
	set(&counts->arena_misses, runtime->cache.misses);
	set(&counts->arena_builds, runtime->cache.builds);
	set(&counts->arena_build_ns, runtime->cache.build_ns);
	set(&counts->arena_grown_bytes, runtime->cache.grown_bytes);
	set(&counts->arena_bytes, runtime->cache.bytes);
}

static bool cancelled(void *context)
{
	return rp_chip_cancelled(context);
}

/* A kernel runs without end. Whoever waits for the run is told by the process's end, with
 * these last words. */
static void abandon(void *context, const char *text)
{
	struct rp_chip *chip = context;

	rpi_format(chip->self->start_text, sizeof(chip->self->start_text), "%s", text);
	atomic_store_explicit(&chip->self->gave_up, 1, memory_order_release);
	_exit(1);
}

int rpi_server_runtime_open(struct rp_chip *chip, struct rpi_runtime_config *config,
			    const struct rp_run_config *prewarm)
{
	int err;

	config->cancelled = cancelled;
	config->abandon = abandon;
	config->context = chip;
	config->tracer = chip->tracer;
	err = rpi_runtime_open(config, &chip->runtime);
	if (!err)
		err = rpi_runtime_prewarm(chip->runtime, prewarm);
	if (!err)
		publish_counts(chip);
	return err;
}

void rpi_server_runtime_close(struct rp_chip *chip)
{
	rpi_runtime_close(chip->runtime);
	chip->runtime = NULL;
}

void rpi_server_runtime_begin(struct rp_chip *chip)
{
	const uint32_t wanted =
		rpi_trace_wanted(&chip->tracer, RPI_TRACE_DEVICE | RPI_TRACE_NOTES);

	if (rpi_unlikely(wanted)) {
		chip->runtime->of = rpi_server_span_of(chip, chip->task);
		chip->runtime->noted = wanted & RPI_TRACE_NOTES;
	}
	rpi_runtime_begin(chip->runtime, &chip->frames[chip->task->frame_idx].config);
}

int rpi_server_runtime_end(struct rp_chip *chip, int status)
{
	const char *text;
	bool used = chip->runtime->arena;

	status = rpi_runtime_end(chip->runtime, status, &text);
	if (rpi_trace_wants(&chip->tracer, RPI_TRACE_DEVICE))
		rpi_sched_close(chip->runtime);
	if (text) {
		chip->fail_code = status;
		rpi_format(chip->fail_text, sizeof(chip->fail_text), "%s", text);
	}
	if (used)
		publish_counts(chip);
	return status;
}
