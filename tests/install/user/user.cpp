// SPDX-License-Identifier: MIT
// A C++ user of the installed library: one dispatch to one chip.
#include <cstdint>
#include <cstdio>

#include <ringplane/ringplane.h>

static constexpr int COUNT = 8;

static int twice(rp_chip *, const rp_arg *args, size_t)
{
	auto *x = static_cast<float *>(args[0].u.tensor.data);

	for (int i = 0; i < COUNT; i++)
		x[i] *= 2;
	return 0;
}

static int fail()
{
	std::fprintf(stderr, "user: %s\n", rp_last_error());
	return 1;
}

int main()
{
	rp_param param{};
	rp_entry entry{ "twice", twice };
	const int64_t shape[] = { COUNT };
	rp_program_desc desc;
	rp_program *program;
	rp_worker *worker;
	rp_tensor tensor;
	void *memory;

	param.name = "x";
	param.kind = RP_ARG_TENSOR;
	param.dtype = RP_FLOAT32;
	param.access = RP_INOUT;
	param.rank = 1;
	param.shape[0] = COUNT;
	rp_program_desc_init(&desc);
	desc.name = "twice";
	desc.params = &param;
	desc.param_count = 1;
	desc.entries = &entry;
	desc.entry_count = 1;
	if (rp_program_create(&desc, &program) ||
	    rp_shared_alloc(COUNT * sizeof(float), &memory) ||
	    rp_tensor_host(&tensor, memory, RP_FLOAT32, 1, shape) ||
	    rp_worker_prepare(&program, 1, nullptr, &worker))
		return fail();
	auto *x = static_cast<float *>(memory);
	for (int i = 0; i < COUNT; i++)
		x[i] = static_cast<float>(i);
	rp_arg arg = rp_arg_tensor(tensor);
	if (rp_worker_run(worker, program, &arg, 1, nullptr) ||
	    rp_worker_close(worker, RP_WAIT_FOREVER))
		return fail();
	for (int i = 0; i < COUNT; i++) {
		if (x[i] != 2 * static_cast<float>(i)) {
			std::fprintf(stderr, "user: x[%d] is %g, expected %d\n", i,
				     static_cast<double>(x[i]), 2 * i);
			return 1;
		}
	}
	rp_worker_free(worker);
	rp_program_free(program);
	return rp_shared_free(memory) != 0;
}
