/* SPDX-License-Identifier: MIT */
#include "args_bed.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* x: each element one more; y: its number as bytes; from z only is read. */
static int work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const uint64_t how = args[3].u.scalar.value.u64;
	int64_t *x = args[0].u.tensor.data;
	uint8_t *y = args[1].u.tensor.data;

	(void)nargs;
	for (int i = 0; i < 4; i++)
		x[i]++;
	for (int64_t i = 0; i < args[1].u.tensor.shape[0]; i++)
		y[i] = (uint8_t)(i * 7);
	if (how == HOW_DIE)
		kill(getpid(), SIGKILL);
	return how == HOW_FAIL ? rp_chip_fail(chip, -EBADMSG, "as it was told") : 0;
}

/* Rows 1 and 2, columns 0, 2 and 4. */
static struct rp_tensor part_of(const struct rp_tensor *z)
{
	struct rp_tensor part = *z;

	part.data = (int32_t *)z->data + 8;
	part.shape[0] = 2;
	part.shape[1] = 3;
	part.strides[1] = 2;
	return part;
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	struct rp_tensor z = args[2].u.tensor;
	const struct rp_arg task_args[] = {
		rp_inout(args[0].u.tensor), rp_out(args[1].u.tensor),
		rp_in(part_of(&z)),	    args[3],
		rp_arg_f32(1.5f),	    rp_arg_i32(-7),
		rp_arg_u64(UINT64_MAX),	    rp_arg_f32((float)NAN),
	};
	const struct rp_arg seen = rp_in(args[0].u.tensor);
	const struct rp_task task = { .args = task_args, .arg_count = COUNT(task_args) };
	int err = capture_each_chip(run, task);

	(void)nargs, (void)user;
	/* A callback sees no device. */
	if (err || args[0].u.tensor.resident)
		return err;
	return rp_run_callback(run, 0, &seen, 1);
}

void args_open_with(struct args_bed *bed, const struct rp_worker_options *options)
{
	static const struct rp_param params[] = {
		{ .name = "x",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_INOUT,
		  .rank = 1,
		  .shape = { 4 } },
		{ .name = "y",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_UINT8,
		  .access = RP_OUT,
		  .rank = 1,
		  .shape = { RP_DIM_ANY } },
		{ .name = "z",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT32,
		  .access = RP_IN,
		  .rank = 2,
		  .shape = { RP_DIM_ANY, RP_DIM_ANY } },
		{ .name = "how", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	};
	static const struct rp_entry entry = { "work", work };

	capture_prepare(&bed->bed,
			(struct rp_program_desc){ .name = "dumped",
						  .params = params,
						  .param_count = COUNT(params),
						  .entries = &entry,
						  .callbacks = &capture_look,
						  .callback_count = 1,
						  .orchestrate = orchestrate },
			options);
	capture_open(&bed->files, &bed->config);
	bed->config.capture.enable_dump_args = true;
	bed->memory = bed_shared(8192 + BIG, 0);
	bed->x = (int64_t *)bed->memory;
	bed->z = (int32_t *)(bed->memory + 4096);
	bed->y = bed->memory + 8192;
	for (int i = 0; i < 4; i++)
		bed->x[i] = 100 * i;
	for (int i = 0; i < 64; i++)
		bed->z[i] = i;
	bed->args[0] = rp_arg_tensor(TENSOR(bed->x, RP_INT64, 4));
	bed->args[1] = rp_arg_tensor(TENSOR(bed->y, RP_UINT8, 64));
	bed->args[2] = rp_arg_tensor(TENSOR(bed->z, RP_INT32, 8, 8));
	bed->args[3] = rp_arg_u64(HOW_WELL);
}

void args_open(struct args_bed *bed, uint32_t chips, bool unified)
{
	struct rp_worker_options options;

	bed_options(&options, chips);
	options.device_memory_bytes = (size_t)64 << 20;
	options.unified_memory = unified;
	args_open_with(bed, &options);
}

void args_close(struct args_bed *bed)
{
	bed_close(&bed->bed);
	capture_close(&bed->files);
	rp_shared_free(bed->memory);
}

int args_run(struct args_bed *bed, enum how how)
{
	bed->args[3] = rp_arg_u64(how);
	return rp_worker_run(bed->bed.worker, bed->bed.program, bed->args, 4,
			     &bed->config);
}

json_t *args_load(const struct args_bed *bed, const char *name)
{
	return capture_load(&bed->files, name, FORMAT);
}

void args_assert_bytes(const struct args_bed *bed, const char *dir, const json_t *phase,
		       const void *want, size_t bytes)
{
	char path[256];
	uint8_t *got = malloc(bytes + 1);
	FILE *file;

	assert_non_null(got);
	capture_path(&bed->files, path, sizeof(path), "%s/%s", dir,
		     capture_text(phase, "file"));
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fread(got, 1, bytes + 1, file), bytes);
	fclose(file);
	assert_memory_equal(got, want, bytes);
	assert_int_equal(capture_number(phase, "bytes"), bytes);
	assert_int_equal(capture_number(phase, "status"), 0);
	free(got);
}

const json_t *args_arg(const json_t *root, size_t task, size_t arg)
{
	const json_t *args =
		capture_array(json_array_get(capture_array(root, "tasks"), task), "args");
	const json_t *found = json_array_get(args, arg);

	assert_non_null(found);
	assert_int_equal(capture_number(found, "arg"), arg);
	return found;
}

const json_t *args_phase(const json_t *root, size_t task, size_t arg, const char *name)
{
	return json_object_get(args_arg(root, task, arg), name);
}
