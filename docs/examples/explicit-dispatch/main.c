/* SPDX-License-Identifier: MIT */
/*
 * Calling programs through a worker that is handed around: a training loop, a service
 * that has registered what it serves, and what registering saves over running.
 *
 * The model is a line, y = w[0] * x + w[1].
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <ringplane/ringplane.h>

#include "../example.h"

#define BATCH	 64
#define STEPS	 300
#define REQUESTS 100
#define CALLS	 2000

/* Entries: in the chip's process. ------------------------------------------ */

static int predict(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *x = args[0].u.tensor.data, *w = args[1].u.tensor.data;
	float *y = args[2].u.tensor.data;

	(void)chip;
	(void)nargs;
	for (int i = 0; i < BATCH; i++)
		y[i] = w[0] * x[i] + w[1];
	return 0;
}

/* One step down the slope of the mean squared error. */
static int learn(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *x = args[0].u.tensor.data, *want = args[2].u.tensor.data;
	float *w = args[1].u.tensor.data, rate = args[3].u.scalar.value.f32;
	float slope[2] = { 0, 0 };

	(void)chip;
	(void)nargs;
	for (int i = 0; i < BATCH; i++) {
		float error = w[0] * x[i] + w[1] - want[i];

		slope[0] += 2 * error * x[i] / BATCH;
		slope[1] += 2 * error / BATCH;
	}
	w[0] -= rate * slope[0];
	w[1] -= rate * slope[1];
	return 0;
}

static struct rp_param tensor(const char *name, enum rp_access access, int64_t length)
{
	return (struct rp_param){ .name = name,
				  .kind = RP_ARG_TENSOR,
				  .dtype = RP_FLOAT32,
				  .access = access,
				  .rank = 1,
				  .shape = { length } };
}

static struct rp_program *build(const char *name, rp_entry_fn fn,
				const struct rp_param *params, size_t count)
{
	const struct rp_entry entry = { name, fn };
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = name;
	desc.params = params;
	desc.param_count = count;
	desc.entries = &entry;
	desc.entry_count = 1;
	must(rp_program_create(&desc, &program));
	return program;
}

static struct rp_arg shared(int64_t length)
{
	struct rp_tensor made;
	void *memory;

	must(rp_shared_alloc((size_t)length * sizeof(float), &memory));
	must(rp_tensor_host(&made, memory, RP_FLOAT32, 1, &length));
	return rp_arg_tensor(made);
}

static float *data(struct rp_arg arg)
{
	return arg.u.tensor.data;
}

/* The weights stay on the chip; each step names them, and nothing copies them. */
static void train(struct rp_chip_worker *worker, struct rp_program *program,
		  struct rp_arg weights)
{
	RP_SCOPED_REGISTRATION step = NULL;
	struct rp_arg args[] = { shared(BATCH), weights, shared(BATCH),
				 rp_arg_f32(0.1f) };
	float w[2];

	must(rp_chip_worker_register(worker, program, &step));
	for (int i = 0; i < STEPS; i++) {
		for (int k = 0; k < BATCH; k++) {
			data(args[0])[k] = (float)((i + k * 37) % BATCH) / BATCH * 4 - 2;
			data(args[2])[k] = 3 * data(args[0])[k] - 1;
		}
		must(rp_registration_run(step, args, 4, NULL, NULL));
	}
	must(rp_chip_worker_copy_from(worker, &weights.u.tensor, w));
	printf("after %d steps y = %.3f x + %.3f\n", STEPS, (double)w[0], (double)w[1]);
	rp_shared_free(data(args[0]));
	rp_shared_free(data(args[2]));
}

/* A library that serves requests: it owns neither worker nor program, only a handle. */
struct service {
	struct rp_registration *predict;
	struct rp_arg args[3];
};

static void service_start(struct service *service, struct rp_chip_worker *worker,
			  struct rp_program *program, struct rp_arg weights)
{
	/* What is wrong with a program is heard here, not by the first request. */
	must(rp_chip_worker_register(worker, program, &service->predict));
	service->args[0] = shared(BATCH);
	service->args[1] = weights;
	service->args[2] = shared(BATCH);
}

static const float *service_answer(struct service *service, float from)
{
	for (int i = 0; i < BATCH; i++)
		data(service->args[0])[i] = from + (float)i;
	must(rp_registration_run(service->predict, service->args, 3, NULL, NULL));
	return data(service->args[2]);
}

static void service_stop(struct service *service)
{
	rp_registration_free(service->predict);
	rp_shared_free(data(service->args[0]));
	rp_shared_free(data(service->args[2]));
}

static int serve(struct rp_chip_worker *worker, struct rp_program *program,
		 struct rp_arg weights)
{
	struct service service;
	int wrong = 0;

	service_start(&service, worker, program, weights);
	for (int request = 0; request < REQUESTS; request++) {
		const float *y = service_answer(&service, (float)request);

		for (int i = 0; i < BATCH; i++) {
			float want = 3 * (float)(request + i) - 1;

			wrong += fabsf(y[i] - want) > 0.01f * (1 + fabsf(want));
		}
	}
	service_stop(&service);
	printf("%d requests served, %d answers wrong\n", REQUESTS, wrong);
	return wrong;
}

/* The same calls, by program and by handle. */
static void compare(struct rp_chip_worker *worker, struct rp_program *program,
		    struct rp_arg weights)
{
	struct rp_arg args[] = { shared(BATCH), weights, shared(BATCH) };
	RP_SCOPED_REGISTRATION handle = NULL;
	uint64_t wall_ns, run_ns = 0, handle_ns = 0;

	must(rp_chip_worker_register(worker, program, &handle));
	for (int i = 0; i < CALLS; i++) {
		must(rp_chip_worker_run(worker, program, args, 3, NULL, &wall_ns));
		run_ns += wall_ns;
		must(rp_registration_run(handle, args, 3, NULL, &wall_ns));
		handle_ns += wall_ns;
	}
	printf("run: %.2f us a call, by handle: %.2f us\n", (double)run_ns / CALLS / 1e3,
	       (double)handle_ns / CALLS / 1e3);
	rp_shared_free(data(args[0]));
	rp_shared_free(data(args[2]));
}

int main(int argc, char **argv)
{
	static const struct example_option none[1];
	const struct rp_param predict_params[] = { tensor("x", RP_IN, BATCH),
						   tensor("w", RP_IN, 2),
						   tensor("y", RP_OUT, BATCH) };
	const struct rp_param learn_params[] = {
		tensor("x", RP_IN, BATCH),
		tensor("w", RP_INOUT, 2),
		tensor("want", RP_IN, BATCH),
		{ .name = "rate", .kind = RP_ARG_SCALAR, .dtype = RP_FLOAT32 }
	};
	struct rp_program *predictor = build("predict", predict, predict_params, 3);
	struct rp_program *learner = build("learn", learn, learn_params, 4);
	struct rp_tensor start, weights;
	struct rp_chip_worker *worker;
	float zero[2] = { 0, 0 };
	int wrong;

	example_options(argc, argv, "programs called through a worker", none);
	must(rp_chip_worker_open(NULL, &worker));
	must(rp_tensor_host(&start, zero, RP_FLOAT32, 1, (int64_t[]){ 2 }));
	must(rp_chip_worker_alloc_tensor(worker, RP_FLOAT32, 1, (int64_t[]){ 2 }, &start,
					 &weights));
	train(worker, learner, rp_arg_tensor(weights));
	wrong = serve(worker, predictor, rp_arg_tensor(weights));
	compare(worker, predictor, rp_arg_tensor(weights));
	must(rp_chip_worker_free_tensor(worker, &weights));
	must(rp_chip_worker_close(worker, RP_WAIT_FOREVER));
	rp_chip_worker_free(worker);
	rp_program_free(predictor);
	rp_program_free(learner);
	return wrong != 0;
}
