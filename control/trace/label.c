/* SPDX-License-Identifier: MIT */
#include "trace/label.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "trace/identity.h"
#include "worker/worker.h"

#define NS_PER_S 1e9

/* Below this, what two readings of both clocks say about their rates is noise. */
#define RATE_NS_MIN 5000000u

static const struct {
	const char *name;
	uint32_t domain;
} names[] = {
#define NAME(id, domain, name) { name, RPI_TRACE_##domain },
	RPI_SPAN_NAMES(NAME)
#undef NAME
};

const char *rpi_span_name(uint32_t name)
{
	return names[name].name;
}

uint32_t rpi_span_domain(uint32_t name)
{
	return names[name].domain;
}

static void fill_label(struct rpi_label *out, const char *name, const void *fn,
		       const struct rp_program *program, const char *kind, uint32_t idx)
{
	rpi_format(out->name, sizeof(out->name), "%s", name);
	if (!fn || rpi_identity_of(fn, out->id, sizeof(out->id)))
		rpi_format(out->id, sizeof(out->id), "%s.%s%u", program->name, kind, idx);
}

static int label_program(struct rpi_labels *labels, uint32_t idx)
{
	const struct rp_program *program = labels->worker->programs[idx];
	const struct rpi_callback *callbacks = labels->worker->callbacks[idx];
	struct rpi_label_set *set = &labels->programs[idx];
	uint32_t i;

	set->entries = calloc(program->entry_count, sizeof(*set->entries));
	set->callbacks = calloc(program->callback_count + 1, sizeof(*set->callbacks));
	if (!set->entries || !set->callbacks)
		return -ENOMEM;
	for (i = 0; i < program->entry_count; i++)
		fill_label(&set->entries[i], program->entries[i].name,
			   (const void *)(uintptr_t)program->entries[i].fn, program,
			   "entry", i);
	for (i = 0; i < program->callback_count; i++)
		fill_label(&set->callbacks[i], program->callbacks[i].name,
			   (const void *)(uintptr_t)callbacks[i].fn, program, "callback",
			   i);
	return 0;
}

int rpi_labels_create(struct rpi_labels *labels, const struct rp_worker *worker)
{
	uint32_t i;
	int err = 0;

	*labels = (struct rpi_labels){ .worker = worker };
	/* Acquire: the programs below it are there. */
	labels->program_count =
		atomic_load_explicit(&worker->plane.program_count, memory_order_acquire);
	labels->programs = calloc(labels->program_count, sizeof(*labels->programs));
	if (!labels->programs)
		err = -ENOMEM;
	for (i = 0; !err && i < labels->program_count; i++)
		err = label_program(labels, i);
	if (err)
		rpi_labels_free(labels);
	return err;
}

void rpi_labels_free(struct rpi_labels *labels)
{
	uint32_t i;

	for (i = 0; labels->programs && i < labels->program_count; i++) {
		free(labels->programs[i].entries);
		free(labels->programs[i].callbacks);
	}
	free(labels->programs);
	labels->programs = NULL;
}

const struct rpi_label *rpi_labels_find(const struct rpi_labels *labels, uint32_t peer,
					uint64_t what)
{
	const uint32_t program = what >> 16 & UINT16_MAX;
	const uint32_t entry = what >> 32 & UINT16_MAX;
	const struct rp_worker *worker = labels->worker;

	/* What a process wrote: bound it. */
	if (program >= labels->program_count)
		return NULL;
	if (peer < worker->plane.chip_count)
		return entry < worker->programs[program]->entry_count
			       ? &labels->programs[program].entries[entry]
			       : NULL;
	return entry < worker->programs[program]->callback_count
		       ? &labels->programs[program].callbacks[entry]
		       : NULL;
}

void rpi_scale_init(struct rpi_scale *scale, const struct rp_worker *worker)
{
	const uint64_t ns = rpi_now_ns() - worker->anchor_ns;
	const uint64_t ticks = rpi_clock_ticks() - worker->anchor_ticks;

	*scale = (struct rpi_scale){ .anchor_ticks = worker->anchor_ticks,
				     .anchor_ns = worker->anchor_ns,
				     .ns_per_tick =
					     NS_PER_S / (double)rpi_clock.frequency };
	if (ns >= RATE_NS_MIN && ticks)
		scale->ns_per_tick = (double)ns / (double)ticks;
}

uint64_t rpi_scale_ns(const struct rpi_scale *scale, uint64_t ticks)
{
	const double since = (double)(int64_t)(ticks - scale->anchor_ticks);

	return scale->anchor_ns + (uint64_t)(int64_t)(since * scale->ns_per_tick);
}
