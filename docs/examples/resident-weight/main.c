/* SPDX-License-Identifier: MIT */
/*
 * A weight that is uploaded once and serves three batches: out = a + weight. The worker
 * is the thread's current one, so that a call needs no more than the program.
 */
#include <stdio.h>
#include <stdlib.h>

#include <ringplane/ringplane.h>

#include "../example.h"

#define ROWS	128
#define COLS	128
#define COUNT	(ROWS * COLS)
#define BATCHES 3

static int add(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *a = args[0].u.tensor.data, *b = args[1].u.tensor.data;
	float *out = args[2].u.tensor.data;

	(void)chip;
	(void)nargs;
	for (int i = 0; i < COUNT; i++)
		out[i] = a[i] + b[i];
	return 0;
}

static struct rp_program *build(void)
{
	static const char *const names[] = { "a", "b", "out" };
	const struct rp_entry entry = { "add", add };
	struct rp_param params[3] = { 0 };
	struct rp_program_desc desc;
	struct rp_program *program;

	for (int i = 0; i < 3; i++)
		params[i] = (struct rp_param){ .name = names[i],
					       .kind = RP_ARG_TENSOR,
					       .dtype = RP_FLOAT32,
					       .access = i < 2 ? RP_IN : RP_OUT,
					       .rank = 2,
					       .shape = { ROWS, COLS } };
	rp_program_desc_init(&desc);
	desc.name = "add";
	desc.params = params;
	desc.param_count = 3;
	desc.entries = &entry;
	desc.entry_count = 1;
	must(rp_program_create(&desc, &program));
	return program;
}

int main(int argc, char **argv)
{
	static const struct example_option none[1];
	const int64_t shape[] = { ROWS, COLS };
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_program *program = build();
	struct rp_tensor a, out, host, weight;
	struct rp_chip_worker *worker;
	void *memory[2];
	float *values;
	int wrong = 0;

	example_options(argc, argv, "a weight that serves three batches", none);
	must(rp_shared_alloc(COUNT * sizeof(float), &memory[0]));
	must(rp_shared_alloc(COUNT * sizeof(float), &memory[1]));
	must(rp_tensor_host(&a, memory[0], RP_FLOAT32, 2, shape));
	must(rp_tensor_host(&out, memory[1], RP_FLOAT32, 2, shape));
	must(rp_chip_worker_open(NULL, &worker));

	/* Any host memory will do for the upload, and may go afterwards. */
	values = malloc(COUNT * sizeof(float));
	if (!values)
		return 1;
	for (int i = 0; i < COUNT; i++)
		values[i] = (float)(i % 1000);
	must(rp_tensor_host(&host, values, RP_FLOAT32, 2, shape));
	must(rp_chip_worker_alloc_tensor(worker, RP_FLOAT32, 2, shape, &host, &weight));
	free(values);

	struct rp_arg args[] = { rp_arg_tensor(a), rp_arg_tensor(weight),
				 rp_arg_tensor(out) };

	must(rp_chip_worker_push(worker));
	for (int batch = 0; batch < BATCHES; batch++) {
		for (int i = 0; i < COUNT; i++)
			((float *)memory[0])[i] = (float)(batch * 7);
		must(rp_program_call(program, args, 3, NULL, NULL));
		for (int i = 0; i < COUNT; i++)
			wrong += ((float *)memory[1])[i] != (float)(batch * 7 + i % 1000);
	}
	must(rp_chip_worker_pop(worker));
	must(rp_worker_get_stats(rp_chip_worker_base(worker), &stats));
	printf("%d batches, %d elements wrong, %.1f KiB copied to the chip for each\n",
	       BATCHES, wrong, (double)stats.bytes_to_device / BATCHES / 1024);

	must(rp_chip_worker_free_tensor(worker, &weight));
	must(rp_chip_worker_close(worker, RP_WAIT_FOREVER));
	rp_chip_worker_free(worker);
	rp_program_free(program);
	must(rp_shared_free(memory[0]));
	must(rp_shared_free(memory[1]));
	return wrong != 0;
}
