/* SPDX-License-Identifier: MIT */
#include "ranks.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chip/server.h"
#include "dispatch/frame.h"

struct ranks {
	struct ranks_options options;
	struct rank_job job;
	uint64_t which;

	/* Chips of a worker. */
	struct bed bed;

	/* Threads. */
	struct rp_chip *chips;
	struct rpi_domain_slot *slot;
	struct rpi_peer *peers;
	struct rpi_frame *frames;
	struct rpi_park *parks;
	struct rpi_park_block *blocks;
	struct rpi_task_body task;
	uint64_t lease;
};

void rank_dawdle(uint64_t *seed)
{
	uint64_t dice = bed_random(seed) % 64;

	if (dice == 0)
		usleep(300);
	else if (dice < 4)
		sched_yield();
	else if (dice < 12)
		for (uint64_t i = 0; i < dice * 100; i++)
			rpi_cpu_pause();
}

static uint32_t times(const struct ranks_options *options)
{
	return options->repeats ? options->repeats : 1;
}

/* --- As threads -------------------------------------------------------------- */

static void *aligned(size_t bytes)
{
	size_t rounded = (bytes + 4095) & ~(size_t)4095;
	void *at = aligned_alloc(4096, rounded);

	assert_non_null(at);
	memset(at, 0, rounded);
	return at;
}

static void lay_out(struct ranks *ranks)
{
	const struct ranks_options *options = &ranks->options;
	struct rpi_domain_slot *slot = ranks->slot;
	uint64_t at = 0;
	uint32_t i;

	slot->id = 1;
	snprintf(slot->name, sizeof(slot->name), "threads");
	slot->size = options->size;
	slot->staging_bytes = options->staging_bytes ? options->staging_bytes : 65536;
	slot->buffer_count = options->buffer_count;
	for (i = 0; i < options->buffer_count; i++) {
		struct rpi_window_buffer *buffer = &slot->buffers[i];

		snprintf(buffer->name, sizeof(buffer->name), "%s",
			 options->buffers[i].name);
		buffer->dtype = options->buffers[i].dtype;
		buffer->count = options->buffers[i].count;
		buffer->bytes = buffer->count * rp_dtype_bits(buffer->dtype) / 8;
		buffer->offset = at;
		at = (at + buffer->bytes + 63) & ~UINT64_C(63);
	}
	slot->window_bytes = at;
	slot->line_stride = options->size;
	slot->lines = aligned(sizeof(*slot->lines) * options->size * options->size);
	memset(slot->ranks, RPI_NO_RANK, sizeof(slot->ranks));
	for (i = 0; i < options->size; i++) {
		slot->chips[i] = (uint8_t)i;
		slot->ranks[i] = (uint8_t)i;
		slot->windows[i] = aligned(at + slot->staging_bytes);
	}
}

static void make_chip(struct ranks *ranks, uint32_t rank)
{
	struct rp_chip *chip = &ranks->chips[rank];
	bool crowded = ranks->options.size > (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);

	chip->chip_count = chip->peer_count = ranks->options.size;
	chip->peer_idx = rank;
	chip->self = &ranks->peers[rank];
	chip->peers = ranks->peers;
	chip->frames = ranks->frames;
	chip->task = &ranks->task;
	chip->park = &ranks->parks[rank];
	chip->rouser.peers = ranks->peers;
	chip->rouser.parks = ranks->parks;
	chip->rouser.peer_count = ranks->options.size;
	assert_ok(rpi_waker_init(&chip->rouser.waker, RPI_PARK_FUTEX, false));
	assert_ok(rpi_park_create(chip->park, RPI_PARK_FUTEX, &ranks->blocks[rank]));
	assert_ok(rpi_park_own(chip->park));
	rpi_spin_init(&chip->dep_spin, (enum rpi_spin_policy)ranks->options.wait, 0, 0,
		      crowded);
	chip->comms[0].chip = chip;
	chip->comms[0].slot = ranks->slot;
	chip->comms[0].rank = rank;
	chip->comms[0].timeout_ns = ranks->options.timeout_ns ? ranks->options.timeout_ns
							      : INT64_C(60000000000);
}

static void open_threads(struct ranks *ranks)
{
	uint32_t size = ranks->options.size;

	rpi_clock_setup();
	ranks->chips = aligned(sizeof(*ranks->chips) * size);
	ranks->slot = aligned(sizeof(*ranks->slot));
	ranks->peers = aligned(sizeof(*ranks->peers) * size);
	ranks->frames = aligned(sizeof(*ranks->frames) * RPI_FRAME_COUNT);
	ranks->parks = aligned(sizeof(*ranks->parks) * size);
	ranks->blocks = aligned(sizeof(*ranks->blocks) * size);
	lay_out(ranks);
	for (uint32_t rank = 0; rank < size; rank++)
		make_chip(ranks, rank);
}

static void close_threads(struct ranks *ranks)
{
	for (uint32_t rank = 0; rank < ranks->options.size; rank++) {
		rpi_waker_destroy(&ranks->chips[rank].rouser.waker);
		rpi_park_destroy(&ranks->parks[rank]);
		free(ranks->slot->windows[rank]);
	}
	free(ranks->slot->lines);
	free(ranks->slot);
	free(ranks->chips);
	free(ranks->peers);
	free(ranks->frames);
	free(ranks->parks);
	free(ranks->blocks);
}

struct rank_thread {
	struct ranks *ranks;
	struct rp_chip *chip;
	pthread_t thread;
	bool started;
};

/* As a worker process does with an entry. */
static void *work(void *arg)
{
	struct rank_thread *thread = arg;
	struct rp_chip *chip = thread->chip;
	struct ranks *ranks = thread->ranks;
	const char *text = "an error without a line";
	int status = 0;

	chip->fail_code = 0;
	for (uint32_t i = 0; !status && i < times(&ranks->options); i++)
		status = ranks->job.fn(chip, &chip->comms[0], &ranks->job);
	if (!status)
		return NULL;
	if (chip->fail_code == status)
		text = chip->fail_text;
	if (rpi_frame_fail(&ranks->frames[0], ranks->task.run_seq, status,
			   (int)chip->peer_idx, text))
		rpi_rouse_all(&chip->rouser);
	return NULL;
}

static int run_threads(struct ranks *ranks)
{
	struct rank_thread threads[RANKS_MAX] = { 0 };
	const char *text;
	uint32_t rank;
	int status;

	ranks->task.run_seq++;
	ranks->lease++;
	/* Not persistent: another allocation, of the same memory. */
	if (!ranks->options.persistent) {
		ranks->slot->id++;
		for (rank = 0; rank < ranks->options.size; rank++)
			memset(ranks->slot->windows[rank], 0, ranks->slot->window_bytes);
	}
	for (rank = 0; rank < ranks->options.size; rank++) {
		struct rank_thread *thread = &threads[rank];

		thread->ranks = ranks;
		thread->chip = &ranks->chips[rank];
		if (!(ranks->which >> rank & 1))
			continue;
		thread->chip->comms[0].lease = ranks->lease;
		thread->chip->comms[0].generation = ranks->lease;
		thread->chip->comms[0].round = 0;
		thread->started = true;
		assert_int_equal(pthread_create(&thread->thread, NULL, work, thread), 0);
	}
	for (rank = 0; rank < ranks->options.size; rank++)
		if (threads[rank].started)
			pthread_join(threads[rank].thread, NULL);
	status = rpi_frame_outcome(&ranks->frames[0], ranks->task.run_seq, &text);
	if (status)
		rpi_error_set(text);
	return status;
}

/* --- As chips of a worker ---------------------------------------------------- */

static int entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rank_job job;
	size_t i;

	(void)nargs;
	job.fn = (int (*)(struct rp_chip *, struct rp_comm *, const struct rank_job *))(
			 uintptr_t)args[1]
			 .u.scalar.value.u64;
	for (i = 0; i < COUNT(job.words); i++)
		job.words[i] = args[2 + i].u.scalar.value.u64;
	return job.fn(chip, args[0].u.comm, &job);
}

static int single(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	uint64_t seed = job->words[0] + rp_chip_id(chip) + 1;

	(void)comm;
	rank_dawdle(&seed);
	return 0;
}

/* One task for each rank. */
static int enqueue(struct rp_run *run, const struct ranks *ranks, struct rp_arg *arg)
{
	const struct ranks_options *options = &ranks->options;
	const struct rp_arg fn = arg[1];
	uint32_t rank;
	int err = 0;

	for (rank = 0; !err && rank < options->size; rank++) {
		int32_t chip =
			(int32_t)(options->members ? options->members[rank] : rank);

		if (options->singles && rank != 1) {
			arg[1] = rp_arg_u64((uint64_t)(uintptr_t)single);
			err = bed_task(run, chip, 0, arg, 2 + COUNT(ranks->job.words));
			arg[1] = fn;
		}
		if (!err && (ranks->which >> rank & 1))
			err = bed_task(run, chip, 0, arg, 2 + COUNT(ranks->job.words));
	}
	return err;
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct ranks *ranks = user;
	const struct ranks_options *options = &ranks->options;
	struct rp_arg arg[2 + COUNT(ranks->job.words)];
	struct rp_domain_spec spec;
	struct rp_domain *domain;
	size_t i;
	int err;

	(void)args;
	(void)nargs;
	rp_domain_spec_init(&spec);
	spec.name = "ranks";
	spec.chips = options->members;
	spec.chip_count = options->members ? options->size : 0;
	spec.buffers = options->buffers;
	spec.buffer_count = options->buffer_count;
	spec.staging_bytes = options->staging_bytes;
	spec.timeout_ns = options->timeout_ns;
	err = rp_run_domain(run, &spec, &domain);
	if (err)
		return err;
	arg[0] = rp_arg_domain(domain);
	arg[1] = rp_arg_u64((uint64_t)(uintptr_t)ranks->job.fn);
	for (i = 0; i < COUNT(ranks->job.words); i++)
		arg[2 + i] = rp_arg_u64(ranks->job.words[i]);
	for (i = 0; !err && i < times(options); i++)
		err = enqueue(run, ranks, arg);
	return err;
}

static void open_worker(struct ranks *ranks)
{
	static const struct rp_entry entries[] = { { "rank", entry } };
	const struct ranks_options *options = &ranks->options;
	struct rp_worker_options worker;
	struct rp_program_desc desc;
	size_t bytes = 0;

	for (uint32_t i = 0; i < options->buffer_count; i++)
		bytes += options->buffers[i].count * 8 + 64;
	bed_options(&worker, options->chips ? options->chips : options->size);
	worker.window_memory_bytes = bytes + options->staging_bytes + ((size_t)2 << 20);
	worker.worker_wait = options->wait;
	worker.compute_threads = options->compute_threads;
	worker.persistent = options->persistent;
	if (options->persistent)
		worker.reset_windows = RP_WINDOWS_RESET_OFF;
	rp_program_desc_init(&desc);
	desc.name = "ranks";
	desc.entries = entries;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate;
	desc.user = ranks;
	bed_prepare(&ranks->bed, &desc, &worker);
}

/* --- Either ------------------------------------------------------------------ */

struct ranks *ranks_open(const struct ranks_options *options)
{
	struct ranks *ranks = calloc(1, sizeof(*ranks));

	assert_non_null(ranks);
	assert_in_range(options->size, 1, RANKS_MAX);
	ranks->options = *options;
	if (options->threads)
		open_threads(ranks);
	else
		open_worker(ranks);
	return ranks;
}

void ranks_close(struct ranks *ranks)
{
	if (ranks->options.threads)
		close_threads(ranks);
	else
		bed_close(&ranks->bed);
	free(ranks);
}

int ranks_run_some(struct ranks *ranks, const struct rank_job *job, uint64_t which)
{
	ranks->job = *job;
	ranks->which = which;
	if (ranks->options.threads)
		return run_threads(ranks);
	return rp_worker_run(ranks->bed.worker, ranks->bed.program, NULL, 0, NULL);
}

int ranks_run(struct ranks *ranks, const struct rank_job *job)
{
	return ranks_run_some(ranks, job, UINT64_MAX);
}
