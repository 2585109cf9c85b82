/* SPDX-License-Identifier: MIT */
#include "programs_bed.h"

#include <errno.h>
#include <stdlib.h>

#include <ringplane/memory.h>
#include <ringplane/run.h>

#include "base/cpu.h"
#include "base/error.h"
#include "dispatch_worker.h"
#include "empty.h"
#include "topology.h"

#define TENSOR_BYTES 64
#define SETTLE_COUNT 32

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct programs_variant *variant = user;
	int err = 0;

	for (uint32_t i = 0; i < variant->tasks && !err; i++) {
		struct rp_arg of_task[3];
		struct rp_task task = { .entry = 0, .chip = 0 };

		if (variant->tensors) {
			of_task[0] = rp_in(args[i % nargs].u.tensor);
			of_task[1] = rp_in(args[(i + 1) % nargs].u.tensor);
			of_task[2] = rp_inout(args[(i + 2) % nargs].u.tensor);
			task.args = of_task;
			task.arg_count = 3;
		}
		err = rp_run_task(run, &task);
	}
	return err;
}

static int make_args(struct programs_bed *bed)
{
	const int64_t shape[] = { TENSOR_BYTES };
	int err;

	if (!bed->variant->tensors)
		return 0;
	bed->arg_count = PROGRAMS_TENSORS;
	err = rp_shared_alloc(PROGRAMS_TENSORS * RPI_SHARE_ALIGN, &bed->memory);
	for (size_t i = 0; !err && i < PROGRAMS_TENSORS; i++) {
		struct rp_tensor tensor;

		err = rp_tensor_host(&tensor, (char *)bed->memory + i * RPI_SHARE_ALIGN,
				     RP_UINT8, 1, shape);
		bed->args[i] = rp_arg_tensor(tensor);
	}
	return err;
}

static int make_program(struct programs_bed *bed)
{
	static const char *const names[PROGRAMS_TENSORS] = { "a", "b", "c", "d",
							     "e", "f", "g", "h" };
	const struct rp_entry entry = { "empty", bench_empty_entry };
	struct rp_param params[PROGRAMS_TENSORS] = { 0 };
	struct rp_program_desc desc;

	for (size_t i = 0; i < bed->arg_count; i++) {
		params[i].name = names[i];
		params[i].kind = RP_ARG_TENSOR;
		params[i].dtype = RP_UINT8;
		params[i].access = RP_INOUT;
		params[i].rank = 1;
		params[i].shape[0] = TENSOR_BYTES;
	}
	rp_program_desc_init(&desc);
	desc.name = bed->variant->name;
	desc.params = params;
	desc.param_count = bed->arg_count;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = bed->variant->tasks ? orchestrate : NULL;
	desc.user = (void *)(uintptr_t)bed->variant;
	desc.chip_count = bed->variant->chips;
	return rp_program_create(&desc, &bed->program);
}

int programs_bed_setup(struct bench_case *c)
{
	struct programs_bed *bed = calloc(1, sizeof(*bed));
	int err;

	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	bed->variant = c->arg;
	c->data = bed;
	err = make_args(bed);
	if (!err)
		err = make_program(bed);
	if (err)
		programs_bed_teardown(c);
	return err;
}

int programs_bed_enter(struct bench_case *c)
{
	struct programs_bed *bed = c->data;
	int err;

	/* A worker of its own goes where it likes. */
	if (bed->variant->no_worker)
		return bench_cpu_allow(NULL, 0);
	err = bench_chip_worker_start(c->options, RP_WAIT_SPIN, &bed->worker);
	if (!err)
		err = rp_chip_worker_register(bed->worker, bed->program,
					      &bed->registration);
	if (!err && bed->variant->recorded)
		err = rp_registration_record(bed->registration, bed->args, bed->arg_count,
					     NULL, &bed->recording);
	for (int i = 0; !err && i < SETTLE_COUNT; i++)
		err = rp_registration_run(bed->registration, bed->args, bed->arg_count,
					  NULL, NULL);
	if (err)
		programs_bed_leave(c);
	return err;
}

void programs_bed_leave(struct bench_case *c)
{
	struct programs_bed *bed = c->data;

	if (bed->variant->no_worker)
		bench_cpu_pin(c->options->cpu[BENCH_PARENT]);
	rp_recording_free(bed->recording);
	rp_registration_free(bed->registration);
	rp_chip_worker_free(bed->worker);
	bed->recording = NULL;
	bed->registration = NULL;
	bed->worker = NULL;
}

void programs_bed_teardown(struct bench_case *c)
{
	struct programs_bed *bed = c->data;

	programs_bed_leave(c);
	rp_program_free(bed->program);
	rp_shared_free(bed->memory);
	free(bed);
	c->data = NULL;
}
