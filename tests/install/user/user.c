/* SPDX-License-Identifier: MIT */
/* A user of the installed library: one dispatch to one chip. */
#include <stdint.h>
#include <stdio.h>

#include <ringplane/ringplane.h>

#define COUNT 8

static int twice(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	float *x = args[0].u.tensor.data;

	(void)chip, (void)nargs;
	for (int i = 0; i < COUNT; i++)
		x[i] *= 2;
	return 0;
}

int main(void)
{
	struct rp_param param = { .name = "x",
				  .kind = RP_ARG_TENSOR,
				  .dtype = RP_FLOAT32,
				  .access = RP_INOUT,
				  .rank = 1,
				  .shape = { COUNT } };
	struct rp_entry entry = { "twice", twice };
	const int64_t shape[] = { COUNT };
	struct rp_program_desc desc;
	struct rp_program *program;
	struct rp_worker *worker;
	struct rp_tensor tensor;
	struct rp_arg arg;
	void *memory;
	float *x;

	rp_program_desc_init(&desc);
	desc.name = "twice";
	desc.params = &param;
	desc.param_count = 1;
	desc.entries = &entry;
	desc.entry_count = 1;
	if (rp_program_create(&desc, &program) ||
	    rp_shared_alloc(COUNT * sizeof(*x), &memory) ||
	    rp_tensor_host(&tensor, memory, RP_FLOAT32, 1, shape) ||
	    rp_worker_prepare(&program, 1, NULL, &worker))
		goto fail;
	x = memory;
	for (int i = 0; i < COUNT; i++)
		x[i] = (float)i;
	arg = rp_arg_tensor(tensor);
	if (rp_worker_run(worker, program, &arg, 1, NULL) ||
	    rp_worker_close(worker, RP_WAIT_FOREVER))
		goto fail;
	for (int i = 0; i < COUNT; i++) {
		if (x[i] != 2 * (float)i) {
			fprintf(stderr, "user: x[%d] is %g, expected %d\n", i,
				(double)x[i], 2 * i);
			return 1;
		}
	}
	rp_worker_free(worker);
	rp_program_free(program);
	return rp_shared_free(memory) != 0;

fail:
	fprintf(stderr, "user: %s\n", rp_last_error());
	return 1;
}
