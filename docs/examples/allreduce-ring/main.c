/* SPDX-License-Identifier: MIT */
/*
 * A ring allreduce: each chip talks to its right neighbour only, and sends 2 (N-1) / N
 * of the data however many chips there are, where the mesh sends N - 1 times all of it.
 *
 * The vector has N chunks. In N - 1 steps each chunk goes once around the ring, and
 * every rank that it passes adds its own part; then rank r has the sum of chunk r + 1.
 * In N - 1 more steps the sums go around, and every rank keeps them.
 *
 * The chips then let rp_comm_allreduce() do the same, and the results are compared.
 */
#include <stdbool.h>
#include <string.h>

#include <ringplane/ringplane.h>

#include "../example.h"

/* Buffers of the domain, in the order in which it lists them. */
enum {
	SUMS,	/* this rank's vector, which becomes the sum */
	INBOX,	/* a chunk for each of the first N - 1 steps */
	SIGNAL, /* cell s: what step s brings is there */
};

/* One rank's place in the ring. */
struct ring {
	struct rp_comm *comm;
	uint32_t rank, size, right;
	uint64_t count;
	float *sums;	    /* in its window, where its left neighbour may write */
	const float *inbox; /* likewise */
};

/* Chunk c begins here; chunk N would begin at the end. Any count can be divided. */
static uint64_t chunk_at(const struct ring *ring, uint32_t chunk)
{
	return chunk * ring->count / ring->size;
}

static uint64_t chunk_count(const struct ring *ring, uint32_t chunk)
{
	return chunk_at(ring, chunk + 1) - chunk_at(ring, chunk);
}

/* No chunk has more elements: the room for one in the inbox. */
static uint64_t chunk_max(uint64_t count, uint32_t size)
{
	return (count + size - 1) / size;
}

/* Write a chunk of this rank's vector into the right neighbour's window, and say so. */
static int send(const struct ring *ring, uint32_t chunk, uint32_t buffer, uint64_t at,
		uint32_t step)
{
	int err = rp_comm_store(ring->comm, ring->right, buffer, at,
				chunk_count(ring, chunk),
				ring->sums + chunk_at(ring, chunk));

	return err ? err
		   : rp_comm_notify(ring->comm, SIGNAL, ring->right, step, 1,
				    RP_NOTIFY_SET);
}

static int receive(const struct ring *ring, uint32_t step)
{
	return rp_comm_wait(ring->comm, SIGNAL, step, RP_EQ, 1, 0);
}

/* Each step has a place of its own in the inbox: nobody writes over what its reader has
 * yet to add, and nobody waits to be allowed to send. */
static int reduce_scatter(const struct ring *ring)
{
	const uint64_t room = chunk_max(ring->count, ring->size);
	int err = 0;

	for (uint32_t step = 0; !err && step + 1 < ring->size; step++) {
		uint32_t give = (ring->rank + ring->size - step) % ring->size;
		uint32_t take = (give + ring->size - 1) % ring->size;
		float *sums = ring->sums + chunk_at(ring, take);

		err = send(ring, give, INBOX, step * room, step);
		if (!err)
			err = receive(ring, step);
		for (uint64_t i = 0; !err && i < chunk_count(ring, take); i++)
			sums[i] += ring->inbox[step * room + i];
	}
	return err;
}

/* Straight into the neighbour's vector. It will not read its old chunk any more: a
 * finished sum has come past it, so it has sent its part of it before. */
static int allgather(const struct ring *ring)
{
	int err = 0;

	for (uint32_t i = 0; !err && i + 1 < ring->size; i++) {
		uint32_t give = (ring->rank + 1 + ring->size - i) % ring->size;
		uint32_t step = ring->size - 1 + i;

		err = send(ring, give, SUMS, chunk_at(ring, give), step);
		if (!err)
			err = receive(ring, step);
	}
	return err;
}

/* In a chip's process: what one rank does. */
static int ring_step(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *vector = args[0].u.tensor.data;
	float *by_hand = args[1].u.tensor.data, *by_library = args[2].u.tensor.data;
	struct rp_comm *comm = args[3].u.comm;
	const uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	struct ring ring = { .comm = comm,
			     .rank = rank,
			     .size = size,
			     .right = (rank + 1) % size,
			     .count = (uint64_t)args[0].u.tensor.shape[0] };
	struct rp_tensor own;
	int err;

	(void)chip, (void)nargs;
	err = rp_comm_tensor(comm, rank, INBOX, &own);
	if (err)
		return err;
	ring.inbox = own.data;
	err = rp_comm_tensor(comm, rank, SUMS, &own);
	if (err)
		return err;
	ring.sums = own.data;

	memcpy(ring.sums, vector, ring.count * sizeof(float));
	err = reduce_scatter(&ring);
	if (!err)
		err = allgather(&ring);
	if (err)
		return err;
	memcpy(by_hand, ring.sums, ring.count * sizeof(float));

	return rp_comm_allreduce(comm, vector, by_library, ring.count, RP_FLOAT32, RP_SUM,
				 RP_ALGORITHM_RING);
}

/* In the caller: a domain over all chips, and a task for each rank. */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const uint32_t chips = rp_run_chip_count(run);
	const uint64_t count = (uint64_t)args[0].u.tensor.shape[1];
	const struct rp_domain_buffer buffers[] = {
		[SUMS] = { "sums", RP_FLOAT32, RP_BUFFER_DEFAULT, count },
		[INBOX] = { "inbox", RP_FLOAT32, RP_BUFFER_DEFAULT,
			    chunk_max(count, chips) * chips },
		[SIGNAL] = { "signal", RP_INT32, RP_BUFFER_DEFAULT, 2 * chips },
	};
	struct rp_domain_spec spec;
	struct rp_domain *domain;
	int err;

	(void)user;
	rp_domain_spec_init(&spec);
	spec.name = "ring";
	spec.buffers = buffers;
	spec.buffer_count = 3;
	err = rp_run_domain(run, &spec, &domain);
	for (uint32_t rank = 0; !err && rank < chips; rank++) {
		struct rp_arg task_args[4];
		struct rp_task task = { .entry = 0,
					.chip = (int32_t)rank,
					.args = task_args,
					.arg_count = 4 };

		/* A row of each tensor, with the access that its parameter grants. */
		for (size_t i = 0; !err && i < nargs; i++) {
			task_args[i] = args[i];
			err = rp_tensor_index(&args[i].u.tensor, rank,
					      &task_args[i].u.tensor);
		}
		task_args[3] = rp_arg_domain(domain);
		if (!err)
			err = rp_run_task(run, &task);
	}
	return err;
}

/* A row for each chip, of a length that each call may choose. */
static struct rp_param rows(const char *name, enum rp_access access)
{
	return (struct rp_param){ .name = name,
				  .kind = RP_ARG_TENSOR,
				  .dtype = RP_FLOAT32,
				  .access = access,
				  .rank = 2,
				  .shape = { RP_DIM_ANY, RP_DIM_ANY },
				  .dim_names = { "chips", "count" } };
}

static struct rp_program *build_program(void)
{
	static const struct rp_entry entry = { "ring_step", ring_step };
	const struct rp_param params[] = { rows("vectors", RP_IN),
					   rows("by_hand", RP_OUT),
					   rows("by_library", RP_OUT) };
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = "ring-allreduce";
	desc.params = params;
	desc.param_count = 3;
	desc.entries = &entry;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate;
	must(rp_program_create(&desc, &program));
	return program;
}

/* How many results of either kind are wrong. Whole numbers: exact in any order. */
static int count_wrong(const float *vectors, const float *by_hand,
		       const float *by_library, int chips, int count)
{
	int wrong = 0;

	for (int i = 0; i < count; i++) {
		float expected = 0;

		for (int rank = 0; rank < chips; rank++)
			expected += vectors[rank * count + i];
		for (int rank = 0; rank < chips; rank++)
			wrong += by_hand[rank * count + i] != expected ||
				 by_library[rank * count + i] != expected;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	int chips = 3, count = 10000, wrong;
	const struct example_option asked[] = {
		{ "chips", "how many chips are in the ring", &chips, 1, 16 },
		{ "count", "elements of each vector", &count, 1, 1000000 },
		{ NULL, NULL, NULL, 0, 0 },
	};
	struct rp_worker_options options;
	struct rp_program *program;
	struct rp_worker *worker;
	struct rp_arg args[3];
	float *memory[3];

	example_options(argc, argv, "an allreduce, each chip with its neighbour", asked);
	program = build_program();
	for (int i = 0; i < 3; i++) {
		struct rp_tensor tensor;
		void *block;

		must(rp_shared_alloc((size_t)chips * (size_t)count * sizeof(float),
				     &block));
		must(rp_tensor_host(&tensor, block, RP_FLOAT32, 2,
				    (int64_t[]){ chips, count }));
		args[i] = rp_arg_tensor(tensor);
		memory[i] = block;
	}
	for (int i = 0; i < chips * count; i++)
		memory[0][i] = (float)(i * 7 % 1000);

	rp_worker_options_init(&options);
	options.chip_count = (uint32_t)chips;
	must(rp_worker_prepare(&program, 1, &options, &worker));
	must(rp_worker_run(worker, program, args, 3, NULL));
	wrong = count_wrong(memory[0], memory[1], memory[2], chips, count);
	printf("%d elements on %d chips: %d of %d results wrong\n", count, chips, wrong,
	       chips * count);

	must(rp_worker_close(worker, RP_WAIT_FOREVER));
	rp_worker_free(worker);
	rp_program_free(program);
	for (int i = 0; i < 3; i++)
		must(rp_shared_free(memory[i]));
	return wrong ? 1 : 0;
}
