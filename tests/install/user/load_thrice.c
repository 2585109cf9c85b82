/* SPDX-License-Identifier: MIT */
/* The artifact of an outside project, loaded and run once. */
#include <stdint.h>
#include <stdio.h>

#include <ringplane/ringplane.h>

int main(void)
{
	const int64_t shape[] = { 1 };
	struct rp_program *program;
	struct rp_tensor tensor;
	struct rp_arg arg;
	int32_t x = 14;

	if (rp_program_load(DIRECTORY, NULL, &program) ||
	    rp_tensor_host(&tensor, &x, RP_INT32, 1, shape))
		goto fail;
	arg = rp_arg_tensor(tensor);
	if (rp_program_run(program, &arg, 1, NULL, NULL))
		goto fail;
	rp_program_free(program);
	if (x == 42)
		return 0;
	fprintf(stderr, "load_thrice: x is %d, expected 42\n", (int)x);
	return 1;

fail:
	fprintf(stderr, "load_thrice: %s\n", rp_last_error());
	return 1;
}
