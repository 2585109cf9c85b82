/* SPDX-License-Identifier: MIT */
#include "rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "noop.h"

/* Not a limit on speed: a mark that never comes. */
#define LOST_NS (INT64_C(5) * 1000000000)

/* Where each member leaves a word for the others, past the marks. */
#define STAMP 63

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int expect(struct rp_chip *chip, const uint8_t *at, size_t bytes, uint8_t byte)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		if (at[i] != byte)
			return rp_chip_fail(chip, -EILSEQ,
					    "byte %zu is %#x, expected %#x", i, at[i],
					    byte);
	return 0;
}

static void dawdle(uint64_t *seed)
{
	uint64_t turns = bed_random(seed) % 4 ? 0 : bed_random(seed) % 20000;

	while (turns--)
		__builtin_ia32_pause();
}

/* A mark of each peer at its own place; none may be lost to somebody's reset. */
static int meet(struct rp_chip *chip, const struct rp_comm *comm, uint64_t seed)
{
	const struct rpi_domain_slot *slot = comm->slot;
	_Atomic uint64_t *own = (_Atomic uint64_t *)slot->windows[comm->rank];
	int64_t deadline = now_ns() + LOST_NS;
	uint32_t rank;
	int err;

	seed += comm->rank * UINT64_C(77);
	dawdle(&seed);
	/* Past the marks, which may be there already. */
	err = expect(chip, (uint8_t *)own + 512, slot->window_bytes - 512, 0);
	if (err)
		return err;
	atomic_store(&own[STAMP], STAMP);
	for (rank = 0; rank < slot->size; rank++)
		atomic_fetch_add((_Atomic uint64_t *)slot->windows[rank] + comm->rank, 1);
	dawdle(&seed);
	for (rank = 0; rank < slot->size; rank++) {
		while (atomic_load(&own[rank]) != 1) {
			if (rp_chip_cancelled(chip))
				return -ECANCELED;
			if (now_ns() > deadline)
				return rp_chip_fail(
					chip, -ETIMEDOUT,
					"rank %u has %llu marks of rank %u", comm->rank,
					(unsigned long long)atomic_load(&own[rank]),
					rank);
			bed_breathe();
		}
	}
	dawdle(&seed);
	/* A peer that has ended its task is not to be reset before this one's end. */
	for (rank = 0; rank < slot->size; rank++)
		if (atomic_load((_Atomic uint64_t *)slot->windows[rank] + STAMP) != STAMP)
			return rp_chip_fail(chip, -EILSEQ, "rank %u's stamp is gone",
					    rank);
	/* Peers may be waiting for their marks still: leave those alone. */
	memset((uint8_t *)own + 512, 0xaa, slot->window_bytes - 512);
	return 0;
}

static int expect_buffers(struct rp_chip *chip, const struct rp_comm *comm,
			  uint64_t nibbles)
{
	const struct rpi_domain_slot *slot = comm->slot;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < slot->buffer_count; i++)
		err = expect(chip, slot->windows[comm->rank] + slot->buffers[i].offset,
			     slot->buffers[i].bytes, (uint8_t)(nibbles >> (4 * i) & 15));
	return err;
}

static int act(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct rp_comm *comm = args[0].u.comm;
	uint64_t operand = args[2].u.scalar.value.u64;
	uint8_t *own = comm->slot->windows[comm->rank];

	(void)nargs;
	switch (args[1].u.scalar.value.u64) {
	case RING_FILL:
		memset(own, (int)operand, comm->slot->window_bytes);
		return 0;
	case RING_EXPECT:
		return expect(chip, own, comm->slot->window_bytes, (uint8_t)operand);
	case RING_MEET:
		return meet(chip, comm, operand);
	case RING_FAIL:
		return rp_chip_fail(chip, -EIO, "as it was told");
	case RING_BUFFERS:
		return expect_buffers(chip, comm, operand);
	case RING_GENERATION:
		return comm->generation == operand ? 0 : -EILSEQ;
	default:
		return 0;
	}
}

static _Thread_local script_fn script_now;
static _Thread_local void *script_arg;

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	(void)user;
	(void)args;
	(void)nargs;
	return script_now(run, script_arg);
}

struct rp_program *ring_program(const char *name)
{
	static const struct rp_entry entries[] = { { "act", act } };
	static const struct rp_callback callbacks[] = { { .name = "nothing",
							  .fn = noop_callback } };
	struct rp_program *program;
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = name;
	desc.entries = entries;
	desc.entry_count = 1;
	desc.callbacks = callbacks;
	desc.callback_count = 1;
	desc.orchestrate = orchestrate;
	assert_ok(rp_program_create(&desc, &program));
	return program;
}

int ring_submit(struct rp_worker *worker, struct rp_program *program, script_fn script,
		void *arg, struct rp_handle *out)
{
	script_now = script;
	script_arg = arg;
	if (out)
		return rp_worker_submit(worker, program, NULL, 0, NULL, out);
	return rp_worker_run(worker, program, NULL, 0, NULL);
}

void ring_options(struct rp_worker_options *options, uint32_t chip_count)
{
	bed_options(options, chip_count);
	options->window_memory_bytes = (size_t)4 << 20;
}

void ring_open(struct bed *bed, const struct rp_worker_options *options)
{
	bed->program = ring_program("rings");
	assert_ok(rp_worker_prepare(&bed->program, 1, options, &bed->worker));
}

struct ring ring_of(const char *name, size_t bytes, enum ring_act act, uint64_t operand)
{
	struct ring ring = { .act = act, .operand = operand };

	rp_domain_spec_init(&ring.spec);
	ring.spec.name = name;
	ring.spec.window_bytes = bytes;
	return ring;
}

int ring_tasks(struct rp_run *run, const struct ring *ring, struct rp_domain *domain)
{
	uint32_t members = ring->spec.chips ? ring->spec.chip_count
					    : rp_run_chip_count(run);
	uint32_t round;
	uint32_t rank;
	int err = 0;

	for (round = 0; round < (ring->rounds ? ring->rounds : 1); round++)
		for (rank = 0; !err && rank < members; rank++)
			err = TASK(run,
				   (int32_t)(ring->spec.chips ? ring->spec.chips[rank]
							      : rank),
				   0, rp_arg_domain(domain), rp_arg_u64(ring->act),
				   rp_arg_u64(ring->operand));
	return err;
}

int ring_script(struct rp_run *run, void *arg)
{
	const struct ring *ring = arg;
	struct rp_domain *domain;
	int err;

	err = rp_run_domain(run, &ring->spec, &domain);
	return err ? err : ring_tasks(run, ring, domain);
}

int ring_run(struct bed *bed, struct ring ring)
{
	return ring_submit(bed->worker, bed->program, ring_script, &ring, NULL);
}
