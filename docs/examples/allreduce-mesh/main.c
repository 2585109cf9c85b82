/* SPDX-License-Identifier: MIT */
/*
 * Hello, allreduce: each chip has a row of numbers, and in the end all have the sum of
 * the rows. Every chip puts its row into its own window, tells all others that it is
 * there, waits until they have told it the same, and reads theirs.
 *
 * rp_comm_allreduce() does this in one call; here one sees what it is made of.
 */
#include <ringplane/ringplane.h>

#include "../example.h"

#define COLS 256

/* Buffers of the domain, in the order in which it lists them. */
enum {
	DATA,	/* this rank's row, for the others to read */
	SIGNAL, /* cell r: how often rank r has said that its row is there */
};

/* In a chip's process: what one rank does. */
static int reduce_step(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct rp_tensor *row = &args[0].u.tensor;
	float *sum = args[1].u.tensor.data;
	struct rp_comm *comm = args[2].u.comm;
	uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	float theirs[COLS];
	int err;

	(void)chip, (void)nargs;

	/* 1. Stage: the row goes into this rank's window. */
	err = rp_comm_put(comm, rank, DATA, NULL, row, RP_PUT_STORE);

	/* 2. Tell every peer, then wait for every peer. A notify is a release, a wait an
	 * acquire: who sees the signal sees the row. */
	for (uint32_t peer = 0; !err && peer < size; peer++)
		if (peer != rank)
			err = rp_comm_notify(comm, SIGNAL, peer, rank, 1, RP_NOTIFY_ADD);
	for (uint32_t peer = 0; !err && peer < size; peer++)
		if (peer != rank)
			err = rp_comm_wait(comm, SIGNAL, peer, RP_GE, 1, 0);

	/* 3. Add up all rows, in rank order: so all ranks get the same bits. `sum` is an
	 * output, and reads zero. */
	for (uint32_t peer = 0; !err && peer < size; peer++) {
		err = rp_comm_load(comm, peer, DATA, 0, COLS, theirs);
		for (int i = 0; !err && i < COLS; i++)
			sum[i] += theirs[i];
	}
	/* Nobody waits until all have read: windows live until the run has ended. What
	 * failed above has left its line, which goes with the code. */
	return err;
}

/* In the caller: a domain over all chips, and a task for each rank. */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const uint32_t chips = rp_run_chip_count(run);
	const struct rp_domain_buffer buffers[] = {
		[DATA] = { "data", RP_FLOAT32, RP_BUFFER_DEFAULT, COLS },
		[SIGNAL] = { "signal", RP_INT32, RP_BUFFER_DEFAULT, chips },
	};
	struct rp_domain_spec spec;
	struct rp_domain *domain;
	int err;

	(void)nargs, (void)user;
	rp_domain_spec_init(&spec);
	spec.name = "mesh";
	spec.buffers = buffers;
	spec.buffer_count = 2;
	err = rp_run_domain(run, &spec, &domain);
	for (uint32_t rank = 0; !err && rank < chips; rank++) {
		struct rp_tensor row, sum;

		err = rp_tensor_index(&args[0].u.tensor, rank, &row);
		if (!err)
			err = rp_tensor_index(&args[1].u.tensor, rank, &sum);
		if (err)
			break;
		struct rp_arg task_args[] = { rp_in(row), rp_out(sum),
					      rp_arg_domain(domain) };
		struct rp_task task = { .entry = 0,
					.chip = (int32_t)rank,
					.args = task_args,
					.arg_count = 3 };
		err = rp_run_task(run, &task);
	}
	return err;
}

static struct rp_program *build_program(void)
{
	static const struct rp_entry entry = { "reduce_step", reduce_step };
	/* Dims of one name agree: as many sums as rows. */
	static const struct rp_param params[] = {
		{ .name = "rows",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_IN,
		  .rank = 2,
		  .shape = { RP_DIM_ANY, COLS },
		  .dim_names = { "chips" } },
		{ .name = "sums",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_OUT,
		  .rank = 2,
		  .shape = { RP_DIM_ANY, COLS },
		  .dim_names = { "chips" } },
	};
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = "hello-allreduce";
	desc.params = params;
	desc.param_count = 2;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate;
	must(rp_program_create(&desc, &program));
	return program;
}

/* How many sums are wrong. Whole numbers: exact in any order. */
static int count_wrong(const float *rows, const float *sums, int chips)
{
	int wrong = 0;

	for (int col = 0; col < COLS; col++) {
		float expected = 0;

		for (int rank = 0; rank < chips; rank++)
			expected += rows[rank * COLS + col];
		for (int rank = 0; rank < chips; rank++)
			wrong += sums[rank * COLS + col] != expected;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	int chips = 2, runs = 100, wrong = 0;
	const struct example_option asked[] = {
		{ "chips", "how many chips add their rows", &chips, 1, 16 },
		{ "runs", "how often", &runs, 1, 1000000 },
		{ NULL, NULL, NULL, 0, 0 },
	};
	struct rp_worker_options options;
	struct rp_tensor rows, sums;
	struct rp_program *program;
	struct rp_worker *worker;
	void *memory[2];
	size_t bytes;

	example_options(argc, argv, "an allreduce, each chip with each other", asked);
	bytes = (size_t)chips * COLS * sizeof(float);
	program = build_program();

	/* Made before the chips are, so they have it from the start. */
	must(rp_shared_alloc(bytes, &memory[0]));
	must(rp_shared_alloc(bytes, &memory[1]));
	must(rp_tensor_host(&rows, memory[0], RP_FLOAT32, 2, (int64_t[]){ chips, COLS }));
	must(rp_tensor_host(&sums, memory[1], RP_FLOAT32, 2, (int64_t[]){ chips, COLS }));

	rp_worker_options_init(&options);
	options.chip_count = (uint32_t)chips;
	must(rp_worker_prepare(&program, 1, &options, &worker));

	/* Each run has a domain of its own, whose signals begin at zero. */
	for (int run = 0; run < runs; run++) {
		const struct rp_arg args[] = { rp_arg_tensor(rows), rp_arg_tensor(sums) };

		for (int i = 0; i < chips * COLS; i++)
			((float *)memory[0])[i] = (float)((run + i * 7) % 1000);
		must(rp_worker_run(worker, program, args, 2, NULL));
		wrong += count_wrong(memory[0], memory[1], chips);
	}
	printf("%d runs on %d chips, %d sums of %d wrong\n", runs, chips, wrong,
	       runs * chips * COLS);

	must(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(program);
	must(rp_shared_free(memory[0]));
	must(rp_shared_free(memory[1]));
	return wrong ? 1 : 0;
}
