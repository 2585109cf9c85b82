/* SPDX-License-Identifier: MIT */
/* A program from a directory: what it is, and one run of it. artifact DIRECTORY */
#include <stdio.h>
#include <stdlib.h>

#include <ringplane/ringplane.h>

#include "../example.h"

#define LENGTH 1000

int main(int argc, char **argv)
{
	struct rp_program_contract contract = { .size = sizeof(contract) };
	static int64_t a[LENGTH], b[LENGTH];
	struct rp_program *program;
	struct rp_tensor tensors[3];
	struct rp_arg args[3];
	int64_t sum = 0, expected = 0;
	uint64_t wall_ns;

	example_name = "artifact";
	if (argc != 2 || !strcmp(argv[1], "--help")) {
		printf("artifact DIRECTORY: load a program and run it once\n");
		return argc == 2 ? 0 : 2;
	}
	must(rp_program_load(argv[1], NULL, &program));
	must(rp_program_get_contract(program, &contract));
	printf("'%s' for platform '%s' with runtime '%s', parameters:",
	       rp_program_name(program), contract.platform, contract.runtime_name);
	for (size_t i = 0; i < rp_program_param_count(program); i++)
		printf(" %s", rp_program_param(program, i)->name);
	printf("\nread in %.0f us, loaded in %.0f us\n", (double)contract.load_ns / 1e3,
	       (double)contract.assemble_ns / 1e3);

	for (int i = 0; i < LENGTH; i++) {
		a[i] = i;
		b[i] = LENGTH - i;
		expected += a[i] * b[i];
	}
	/* Run once, any host memory will do. */
	must(rp_tensor_host(&tensors[0], a, RP_INT64, 1, (int64_t[]){ LENGTH }));
	must(rp_tensor_host(&tensors[1], b, RP_INT64, 1, (int64_t[]){ LENGTH }));
	must(rp_tensor_host(&tensors[2], &sum, RP_INT64, 1, (int64_t[]){ 1 }));
	for (int i = 0; i < 3; i++)
		args[i] = rp_arg_tensor(tensors[i]);
	must(rp_program_run(program, args, 3, NULL, &wall_ns));
	printf("a . b = %lld, expected %lld; worker, run and all in %.1f ms\n",
	       (long long)sum, (long long)expected, (double)wall_ns / 1e6);
	rp_program_free(program);
	return sum != expected;
}
