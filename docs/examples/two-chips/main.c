/* SPDX-License-Identifier: MIT */
/*
 * One program on two chips: y = a * x + y, the upper half of the rows on chip 0,
 * the lower half on chip 1; then a callback looks at the result. The callback's
 * process waits for both chips because it reads what they write: nobody says so.
 *
 * two-chips --capture DIR makes one more dispatch, and writes there when things ran and
 * who followed whom.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringplane/ringplane.h>

#define ROWS	   64
#define COLS	   256
#define DISPATCHES 1000

static void must(int err)
{
	if (err) {
		fprintf(stderr, "two-chips: %s\n", rp_last_error());
		exit(1);
	}
}

/* Runs in a chip's process, on its own device memory. */
static int axpy(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *x = args[0].u.tensor.data;
	float *y = args[1].u.tensor.data;
	float a = args[2].u.scalar.value.f32;
	int64_t n;

	(void)chip;
	(void)nargs;
	if (rp_tensor_elements(&args[0].u.tensor, &n))
		return rp_chip_fail(chip, -1, "no elements");
	for (int64_t i = 0; i < n; i++)
		y[i] += a * x[i];
	return 0;
}

/* Runs in a process of its own, on the caller's shared memory in place. */
static int inspect(struct rp_callback_context *context, const struct rp_arg *args,
		   size_t nargs, void *user)
{
	const float *y = args[0].u.tensor.data;
	double *sum_out = args[1].u.tensor.data;
	double sum = 0;

	(void)context;
	(void)nargs;
	(void)user;
	for (int i = 0; i < ROWS * COLS; i++)
		sum += y[i];
	*sum_out = sum;
	return 0;
}

/* Runs in the caller: turns one call into three tasks. */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	(void)nargs;
	(void)user;
	for (int half = 0; half < 2; half++) {
		struct rp_tensor x, y;
		int err = rp_tensor_slice(&args[0].u.tensor, 0, half * ROWS / 2, ROWS / 2,
					  1, &x);

		if (!err)
			err = rp_tensor_slice(&args[1].u.tensor, 0, half * ROWS / 2,
					      ROWS / 2, 1, &y);
		if (err)
			return err;
		struct rp_arg task_args[] = { rp_in(x), rp_inout(y), args[2] };
		struct rp_task task = {
			.entry = 0, .chip = half, .args = task_args, .arg_count = 3
		};
		err = rp_run_task(run, &task);
		if (err)
			return err;
	}
	struct rp_arg seen[] = { rp_in(args[1].u.tensor), rp_out(args[3].u.tensor) };

	return rp_run_callback(run, 0, seen, 2);
}

static const struct rp_param params[] = {
	{ .name = "x",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_FLOAT32,
	  .access = RP_IN,
	  .rank = 2,
	  .shape = { ROWS, COLS } },
	{ .name = "y",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_FLOAT32,
	  .access = RP_INOUT,
	  .rank = 2,
	  .shape = { ROWS, COLS } },
	{ .name = "a", .kind = RP_ARG_SCALAR, .dtype = RP_FLOAT32 },
	/* A double: no dtype is one, but a callback takes the bytes as they are. */
	{ .name = "sum",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_UINT64,
	  .access = RP_OUT,
	  .rank = 1,
	  .shape = { 1 } },
};

static struct rp_program *build_program(void)
{
	static const struct rp_entry entries[] = { { "axpy", axpy } };
	static const struct rp_callback callbacks[] = { { .name = "inspect",
							  .fn = inspect } };
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = "axpy";
	desc.params = params;
	desc.param_count = 4;
	desc.entries = entries;
	desc.entry_count = 1;
	desc.callbacks = callbacks;
	desc.callback_count = 1;
	desc.orchestrate = orchestrate;
	desc.chip_count = 2;
	must(rp_program_create(&desc, &program));
	return program;
}

/* A dispatch like the others, and files about it. */
static void capture(struct rp_worker *worker, struct rp_program *program,
		    const struct rp_arg *args, const char *dir)
{
	struct rp_run_config config;

	rp_run_config_init(&config);
	config.capture.enable_chip_swimlane = 2;
	config.capture.enable_dep_gen = true;
	config.capture.output_dir = dir;
	must(rp_worker_run(worker, program, args, 4, &config));
	printf("captured into %s/dispatch_%d\n", dir, DISPATCHES + 1);
}

/* Where to capture to; NULL: nowhere. */
static const char *options(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--capture"))
		return argv[2];
	if (argc > 1) {
		printf("usage: two-chips [--capture DIR]\n");
		exit(strcmp(argv[1], "--help") ? 2 : 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *capture_dir = options(argc, argv);
	int dispatches = DISPATCHES;
	struct rp_program *program = build_program();
	struct rp_worker_options worker_options;
	struct rp_tensor x, y, sum;
	struct rp_worker *worker;
	struct timespec begin, end;
	void *memory[3];

	/* What chips read and write is shared, and made before they are. */
	must(rp_shared_alloc(ROWS * COLS * sizeof(float), &memory[0]));
	must(rp_shared_alloc(ROWS * COLS * sizeof(float), &memory[1]));
	must(rp_shared_alloc(sizeof(double), &memory[2]));
	must(rp_tensor_host(&x, memory[0], RP_FLOAT32, 2, (int64_t[]){ ROWS, COLS }));
	must(rp_tensor_host(&y, memory[1], RP_FLOAT32, 2, (int64_t[]){ ROWS, COLS }));
	must(rp_tensor_host(&sum, memory[2], RP_UINT64, 1, (int64_t[]){ 1 }));
	for (int i = 0; i < ROWS * COLS; i++)
		((float *)memory[0])[i] = 1;

	rp_worker_options_init(&worker_options);
	worker_options.chip_count = 2;
	must(rp_worker_prepare(&program, 1, &worker_options, &worker));

	struct rp_arg args[] = { rp_arg_tensor(x), rp_arg_tensor(y), rp_arg_f32(0.5f),
				 rp_arg_tensor(sum) };

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < DISPATCHES; i++)
		must(rp_worker_run(worker, program, args, 4, NULL));
	clock_gettime(CLOCK_MONOTONIC, &end);

	double us = (double)(end.tv_sec - begin.tv_sec) * 1e6 +
		    (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
	if (capture_dir) {
		/* It takes two runs on two chips, and leaves what one does. */
		capture(worker, program, args, capture_dir);
		dispatches++;
	}
	double seen = *(double *)memory[2];
	double expected = 0.5 * dispatches * ROWS * COLS;

	printf("%d dispatches on %u chips, %.1f us each\n", DISPATCHES,
	       rp_worker_chip_count(worker), us / DISPATCHES);
	printf("the callback saw a sum of %.0f, expected %.0f\n", seen, expected);
	must(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(program);
	for (int i = 0; i < 3; i++)
		must(rp_shared_free(memory[i]));
	return seen == expected ? 0 : 1;
}
