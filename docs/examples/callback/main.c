/* SPDX-License-Identifier: MIT */
/*
 * A callback that inspects a result. The program only declares "inspect", and says what
 * it takes; the worker binds a function to that name. It runs in a process of its own,
 * after the chips whose output it reads, and what it returns is the run's outcome.
 *
 * The chips work out logits and one call makes them spoil a row: the callback sees it,
 * names it, and the run fails. The others are good before and after.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <ringplane/ringplane.h>

#include "../example.h"

#define ROWS	    8 /* of each chip */
#define VOCAB	    512
#define NOTHING_BAD (-1)

/* Lies in shared memory, so that caller and callback see the same one. */
struct findings {
	int rows;	  /* seen so far */
	float top[ROWS];  /* best logit of each of the first rows, of the last run */
	int argmax[ROWS]; /* and its place */
};

/* --- In a chip's process -------------------------------------------------------- */

static int forward(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	float *logits = args[0].u.tensor.data;
	int32_t seed = args[1].u.scalar.value.i32, bad = args[2].u.scalar.value.i32;
	int first = (int)rp_chip_id(chip) * ROWS;

	(void)nargs;
	for (int row = 0; row < ROWS; row++)
		for (int v = 0; v < VOCAB; v++)
			logits[row * VOCAB + v] =
				first + row == bad
					? NAN
					: 9 - fabsf((float)(v - (first + row) * 3 -
							    (int)seed));
	return 0;
}

/* --- In the callback's process ---------------------------------------------------- */

/* `user` is what the worker bound with it. Only because it points to shared memory is
 * what it points to live: private memory is as it was when the worker was prepared. */
static int inspect(struct rp_callback_context *context, const struct rp_arg *args,
		   size_t nargs, void *user)
{
	const struct rp_tensor *logits = &args[0].u.tensor;
	struct findings *findings = user;

	(void)nargs;
	for (int64_t row = 0; row < logits->shape[0]; row++) {
		const float *at = (const float *)logits->data + row * VOCAB;
		int best = 0;

		for (int v = 0; v < VOCAB; v++) {
			if (!isfinite(at[v]))
				return rp_callback_fail(
					context, -EDOM,
					"row %d has a %f at %d, expected finite logits",
					(int)row, (double)at[v], v);
			if (at[v] > at[best])
				best = v;
		}
		findings->rows++;
		if (row >= ROWS)
			continue;
		findings->top[row] = at[best];
		findings->argmax[row] = best;
	}
	return 0;
}

/* --- In the caller --------------------------------------------------------------- */

/* Callbacks of the program, in the order in which it lists them. */
enum {
	INSPECT,
	TRACE,
	CALLBACKS,
};

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct rp_tensor *logits = &args[0].u.tensor;
	const struct rp_arg seen[] = { rp_in(*logits) };
	int err = 0;

	(void)nargs, (void)user;
	for (int32_t chip = 0; !err && chip < (int32_t)rp_run_chip_count(run); chip++) {
		struct rp_tensor rows;

		err = rp_tensor_slice(logits, 0, chip * ROWS, ROWS, 1, &rows);
		if (err)
			break;
		struct rp_arg task_args[] = { rp_out(rows), args[1], args[2] };
		struct rp_task task = {
			.entry = 0, .chip = chip, .args = task_args, .arg_count = 3
		};
		err = rp_run_task(run, &task);
	}
	/* It reads what all chips write, and so comes after them: nobody says so. */
	if (!err)
		err = rp_run_callback(run, INSPECT, seen, 1);
	/* This one need not be there. */
	if (!err && rp_run_callback_bound(run, TRACE))
		err = rp_run_callback(run, TRACE, seen, 1);
	return err;
}

static struct rp_program *build_program(void)
{
	static const struct rp_entry entry = { "forward", forward };
	/* Any number of rows. What is bound must take this, or prepare fails. */
	static const struct rp_param takes[] = {
		{ .name = "logits",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_IN,
		  .rank = 2,
		  .shape = { RP_DIM_ANY, VOCAB } },
	};
	static const struct rp_signature signature = { sizeof(signature), takes, 1 };
	static const struct rp_callback callbacks[CALLBACKS] = {
		[INSPECT] = { .name = "inspect", .signature = &signature },
		[TRACE] = { .name = "trace",
			    .signature = &signature,
			    .flags = RP_CALLBACK_OPTIONAL },
	};
	static const struct rp_param params[] = {
		{ .name = "logits",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_OUT,
		  .rank = 2,
		  .shape = { RP_DIM_ANY, VOCAB } },
		{ .name = "seed", .kind = RP_ARG_SCALAR, .dtype = RP_INT32 },
		{ .name = "bad", .kind = RP_ARG_SCALAR, .dtype = RP_INT32 },
	};
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = "forward";
	desc.params = params;
	desc.param_count = 3;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.callbacks = callbacks;
	desc.callback_count = CALLBACKS;
	desc.orchestrate = orchestrate;
	must(rp_program_create(&desc, &program));
	return program;
}

static int run(struct rp_worker *worker, struct rp_tensor logits, int seed, int bad)
{
	const struct rp_arg args[] = { rp_arg_tensor(logits), rp_arg_i32(seed),
				       rp_arg_i32(bad) };

	return rp_worker_run(worker, NULL, args, 3, NULL);
}

/* The best logit of row r is 9, at 3 r + seed: whether the callback saw that. */
static bool saw(const struct findings *findings, int rows, int seed)
{
	bool good = findings->rows == rows;

	for (int row = 0; row < ROWS; row++)
		good = good && findings->argmax[row] == row * 3 + seed &&
		       findings->top[row] == 9;
	printf("rows seen so far: %d, best of row 1: %g at %d\n", findings->rows,
	       (double)findings->top[1], findings->argmax[1]);
	return good;
}

int main(int argc, char **argv)
{
	int chips = 2, rows, bad, err;
	bool good;
	const struct example_option asked[] = {
		{ "chips", "how many chips", &chips, 1, 16 },
		{ NULL, NULL, NULL, 0, 0 },
	};
	struct rp_callback bound = { .name = "inspect", .fn = inspect };
	struct rp_worker_options options;
	struct rp_program *program;
	struct rp_worker *worker;
	struct rp_tensor logits;
	void *memory;

	example_options(argc, argv, "a callback that inspects a result", asked);
	rows = chips * ROWS;
	bad = rows - 2;
	program = build_program();
	rp_worker_options_init(&options);
	options.chip_count = (uint32_t)chips;

	/* A worker that binds nothing is refused, before anything is forked. */
	err = rp_worker_prepare(&program, 1, &options, &worker);
	printf("unbound: %s\n", rp_last_error());
	good = err == -ENOENT && strstr(rp_last_error(), "inspect");

	must(rp_shared_alloc(sizeof(struct findings), &bound.user));
	must(rp_shared_alloc((size_t)rows * VOCAB * sizeof(float), &memory));
	must(rp_tensor_host(&logits, memory, RP_FLOAT32, 2, (int64_t[]){ rows, VOCAB }));
	options.callbacks = &bound;
	options.callback_count = 1;
	must(rp_worker_prepare(&program, 1, &options, &worker));

	must(run(worker, logits, 5, NOTHING_BAD));
	good = saw(bound.user, rows, 5) && good;

	/* The rows before the bad one are good, the run is not. */
	err = run(worker, logits, 6, bad);
	printf("spoilt: %s\n", rp_last_error());
	good = good && err == -EDOM && strstr(rp_last_error(), "expected finite logits");

	/* The worker is none the worse. */
	must(run(worker, logits, 7, NOTHING_BAD));
	good = saw(bound.user, rows + bad + rows, 7) && good;

	must(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(program);
	must(rp_shared_free(memory));
	must(rp_shared_free(bound.user));
	printf("%s\n", good ? "as expected" : "not as expected");
	return good ? 0 : 1;
}
