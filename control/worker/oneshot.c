/* SPDX-License-Identifier: MIT */
/* One run with a worker of its own. */
#include <ringplane/oneshot.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/memory.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/testing.h"
#include "dispatch/program.h"
#include "memory/view.h"
#include "region/shared.h"
#include "worker/worker.h"

static const char call[] = "rp_program_run";

/* Memory of the caller that the chips can't see, and its place where they can. */
struct stand_in {
	uintptr_t low, high; /* [low, high) */
	char *copy;
};

struct oneshot {
	struct rp_program *program;
	const struct rp_arg *given;
	struct rp_arg *args; /* the same, as the chips can take them */
	size_t count;
	struct stand_in *stand_ins; /* sorted, apart from each other */
	size_t stand_in_count;
};

static int check_tensor(const struct rp_param *param, const struct rp_tensor *tensor)
{
	char named[128];

	if (tensor->resident)
		return rpi_fail(-EINVAL,
				"%s: '%s' is a resident tensor, expected host memory: "
				"use a prepared worker",
				call, param->name);
	rpi_format(named, sizeof(named), "%s: '%s'", call, param->name);
	if (rpi_tensor_check(named, tensor))
		return -EINVAL;
	if (!tensor->data)
		return rpi_fail(-EINVAL, "%s: '%s' is NULL, expected host memory", call,
				param->name);
	if (!rpi_tensor_row_major(tensor))
		return rpi_fail(-EINVAL,
				"%s: '%s' is strided, expected a contiguous tensor", call,
				param->name);
	return 0;
}

static int check(const struct rp_program *program, const struct rp_arg *args,
		 size_t nargs)
{
	size_t i;
	int err = 0;

	if (!program)
		return rpi_fail(-EINVAL, "%s: program NULL, expected one", call);
	if (nargs != program->param_count)
		return rpi_fail(-EINVAL, "%s: nargs %zu, program '%s' expects %u", call,
				nargs, program->name, program->param_count);
	if (nargs && !args)
		return rpi_fail(-EINVAL, "%s: args NULL, expected %zu arguments", call,
				nargs);
	for (i = 0; !err && i < nargs; i++) {
		if (args[i].kind != program->params[i].kind)
			return rpi_fail(-EINVAL, "%s: '%s' is of kind %u, expected a %s",
					call, program->params[i].name, args[i].kind,
					program->params[i].kind == RP_ARG_TENSOR
						? "tensor"
						: "scalar");
		if (args[i].kind == RP_ARG_TENSOR)
			err = check_tensor(&program->params[i], &args[i].u.tensor);
	}
	return err;
}

static size_t bytes_of(const struct rp_tensor *tensor)
{
	size_t bytes = 0;

	rp_tensor_bytes(tensor, &bytes);
	return bytes;
}

static int by_address(const void *a, const void *b)
{
	const struct stand_in *one = a;
	const struct stand_in *other = b;

	return (one->low > other->low) - (one->low < other->low);
}

/* Tensors that share bytes share a place. */
static void merge(struct oneshot *shot)
{
	size_t kept = 0;
	size_t i;

	qsort(shot->stand_ins, shot->stand_in_count, sizeof(*shot->stand_ins),
	      by_address);
	for (i = 0; i < shot->stand_in_count; i++) {
		struct stand_in *last = &shot->stand_ins[kept ? kept - 1 : 0];

		if (kept && shot->stand_ins[i].low < last->high) {
			if (shot->stand_ins[i].high > last->high)
				last->high = shot->stand_ins[i].high;
			continue;
		}
		shot->stand_ins[kept++] = shot->stand_ins[i];
	}
	shot->stand_in_count = kept;
}

static char *place_of(const struct oneshot *shot, const void *data)
{
	uintptr_t at = (uintptr_t)data;
	size_t i;

	for (i = 0; i < shot->stand_in_count; i++)
		if (at >= shot->stand_ins[i].low && at < shot->stand_ins[i].high)
			return shot->stand_ins[i].copy + (at - shot->stand_ins[i].low);
	return NULL;
}

static int take_places(struct oneshot *shot)
{
	size_t i;
	int err = 0;

	for (i = 0; i < shot->count; i++) {
		const struct rp_tensor *tensor = &shot->given[i].u.tensor;
		size_t bytes;

		if (shot->given[i].kind != RP_ARG_TENSOR)
			continue;
		bytes = bytes_of(tensor);
		if (!rpi_shared_holds(tensor->data, bytes))
			shot->stand_ins[shot->stand_in_count++] = (struct stand_in){
				.low = (uintptr_t)tensor->data,
				.high = (uintptr_t)tensor->data + bytes,
			};
	}
	merge(shot);
	for (i = 0; !err && i < shot->stand_in_count; i++) {
		void *memory;

		err = rp_shared_alloc(shot->stand_ins[i].high - shot->stand_ins[i].low,
				      &memory);
		if (!err)
			shot->stand_ins[i].copy = memory;
	}
	return err;
}

/* To the places that stand in, or back from them. */
static void move(struct oneshot *shot, enum rp_access which)
{
	size_t i;

	for (i = 0; i < shot->count; i++) {
		const struct rp_tensor *tensor = &shot->given[i].u.tensor;
		char *place;

		if (shot->given[i].kind != RP_ARG_TENSOR)
			continue;
		place = place_of(shot, tensor->data);
		if (!place || !(shot->program->params[i].access & which))
			continue;
		if (which == RP_IN)
			memcpy(place, tensor->data, bytes_of(tensor));
		else
			memcpy(tensor->data, place, bytes_of(tensor));
	}
}

static int stand_in_all(struct oneshot *shot)
{
	size_t i;
	int err;

	shot->args = calloc(shot->count + 1, sizeof(*shot->args));
	shot->stand_ins = calloc(shot->count + 1, sizeof(*shot->stand_ins));
	if (!shot->args || !shot->stand_ins)
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	err = take_places(shot);
	if (err)
		return err;
	for (i = 0; i < shot->count; i++) {
		char *place;

		shot->args[i] = shot->given[i];
		if (shot->args[i].kind != RP_ARG_TENSOR)
			continue;
		place = place_of(shot, shot->args[i].u.tensor.data);
		if (place)
			shot->args[i].u.tensor.data = place;
	}
	move(shot, RP_IN);
	return 0;
}

static void release(struct oneshot *shot)
{
	size_t i;

	for (i = 0; shot->stand_ins && i < shot->stand_in_count; i++)
		rp_shared_free(shot->stand_ins[i].copy);
	free(shot->stand_ins);
	free(shot->args);
}

static int close_once(struct rp_worker *worker)
{
	int err = rpi_test_point("oneshot.close");

	return err ? rpi_fail(err, "%s: closing failed", call)
		   : rp_worker_close(worker, RP_WAIT_FOREVER);
}

/* What happened first is what is told. */
static int end_worker(struct rp_worker *worker, int err)
{
	char text[RPI_ERROR_BYTES];
	int closed;

	rpi_format(text, sizeof(text), "%s", rp_last_error());
	closed = close_once(worker);
	if (closed)
		closed = close_once(worker);
	if (!err && closed)
		rpi_format(text, sizeof(text), "%s", rp_last_error());
	rp_worker_free(worker);
	rpi_error_set(text);
	return err ? err : closed;
}

static int run(struct oneshot *shot, const struct rp_run_config *config)
{
	struct rp_program *program = shot->program;
	struct rp_worker_options options;
	struct rp_worker *worker;
	int err;

	rp_worker_options_init(&options);
	options.chip_count = program->chip_count ? program->chip_count : 1;
	options.prewarm = config ? config : program->config;
	err = rp_worker_prepare(&program, 1, &options, &worker);
	if (err)
		return err;
	err = rp_worker_run(worker, program, shot->args, shot->count, config);
	if (!err)
		move(shot, RP_OUT);
	return end_worker(worker, err);
}

int rp_program_run(struct rp_program *program, const struct rp_arg *args, size_t nargs,
		   const struct rp_run_config *config, uint64_t *wall_ns_out)
{
	const uint64_t begin_ns = rpi_now_ns();
	struct oneshot shot = { .program = program, .given = args, .count = nargs };
	int err;

	err = check(program, args, nargs);
	if (!err && config)
		err = rp_run_config_check(config);
	if (!err) {
		err = stand_in_all(&shot);
		if (!err)
			err = run(&shot, config);
		release(&shot);
	}
	if (wall_ns_out)
		*wall_ns_out = rpi_now_ns() - begin_ns;
	return err;
}
