/* SPDX-License-Identifier: MIT */
/* The timed loops of `rpbench programs`. */
#include <errno.h>

#include <ringplane/artifact.h>
#include <ringplane/oneshot.h>
#include <ringplane/worker.h>

#include "base/error.h"
#include "clock.h"
#include "empty.h"
#include "programs_bed.h"

/* Did the chip run what was dispatched? `before`: tasks ended then. */
static int check_tasks(struct programs_bed *bed, struct bench_round *round,
		       uint64_t before)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	uint64_t tasks = bed->variant->tasks ? bed->variant->tasks : 1;
	int err = rp_worker_get_stats(rp_chip_worker_base(bed->worker), &stats);

	if (!err && stats.tasks - before != round->ops * tasks) {
		rpi_fail(-EIO, "%s: %llu tasks ended, expected %llu", bed->variant->name,
			 (unsigned long long)(stats.tasks - before),
			 (unsigned long long)(round->ops * tasks));
		round->failures++;
	}
	round->work += round->ops * tasks;
	return err;
}

static int tasks_ended(struct programs_bed *bed, uint64_t *tasks_out)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	int err = rp_worker_get_stats(rp_chip_worker_base(bed->worker), &stats);

	*tasks_out = stats.tasks;
	return err;
}

int programs_registered_round(struct bench_case *c, struct bench_round *round)
{
	struct programs_bed *bed = c->data;
	uint64_t tasks, before, after;
	int err = tasks_ended(bed, &tasks);

	before = bench_ticks();
	for (uint64_t i = 0; !err && i < round->ops; i++) {
		err = rp_registration_run(bed->registration, NULL, 0, NULL, NULL);
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return err ? err : check_tasks(bed, round, tasks);
}

int programs_run_round(struct bench_case *c, struct bench_round *round)
{
	struct programs_bed *bed = c->data;
	uint64_t tasks, before, after;
	int err = tasks_ended(bed, &tasks);

	before = bench_ticks();
	for (uint64_t i = 0; !err && i < round->ops; i++) {
		err = rp_chip_worker_run(bed->worker, bed->program, NULL, 0, NULL, NULL);
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return err ? err : check_tasks(bed, round, tasks);
}

static int submit(struct programs_bed *bed, struct rp_handle *handle)
{
	return bed->recording ? rp_recording_submit(bed->recording, bed->args,
						    bed->arg_count, NULL, handle)
			      : rp_registration_submit(bed->registration, bed->args,
						       bed->arg_count, NULL, handle);
}

/* The chip is awake: it has ended the dispatch before just now. */
int programs_submit_round(struct bench_case *c, struct bench_round *round)
{
	struct programs_bed *bed = c->data;
	struct rp_handle handle;
	uint64_t tasks;
	int err = tasks_ended(bed, &tasks);

	for (uint64_t i = 0; !err && i < round->ops; i++) {
		uint64_t before = bench_ticks(), after;

		err = submit(bed, &handle);
		after = bench_ticks();
		if (!err)
			err = rp_handle_wait(handle, RP_WAIT_FOREVER);
		if (!err)
			err = rp_handle_release(handle);
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
	}
	return err ? err : check_tasks(bed, round, tasks);
}

int programs_rtt_round(struct bench_case *c, struct bench_round *round)
{
	struct programs_bed *bed = c->data;
	uint64_t tasks, before, after;
	int err = tasks_ended(bed, &tasks);

	before = bench_ticks();
	for (uint64_t i = 0; !err && i < round->ops; i++) {
		err = bed->recording ? rp_recording_run(bed->recording, bed->args,
							bed->arg_count, NULL, NULL)
				     : rp_registration_run(bed->registration, bed->args,
							   bed->arg_count, NULL, NULL);
		after = bench_ticks();
		bench_samples_add(round->samples, bench_ticks_ns(after - before));
		before = after;
	}
	return err ? err : check_tasks(bed, round, tasks);
}

/* One part or the other of what the load says of itself. */
static int load(struct bench_round *round, bool assemble)
{
	int err = 0;

	for (uint64_t i = 0; !err && i < round->ops; i++) {
		struct rp_program_contract contract = { .size = sizeof(contract) };
		struct rp_program *program;

		err = rp_program_load(RPBENCH_ARTIFACT, NULL, &program);
		if (err)
			break;
		err = rp_program_get_contract(program, &contract);
		bench_samples_add(round->samples, (double)(assemble ? contract.assemble_ns
								    : contract.load_ns));
		round->work += contract.entry_count;
		rp_program_free(program);
	}
	return err;
}

int programs_load_round(struct bench_case *c, struct bench_round *round)
{
	(void)c;
	return load(round, false);
}

int programs_assemble_round(struct bench_case *c, struct bench_round *round)
{
	(void)c;
	return load(round, true);
}

/* A new program each time: one that the chip has is only looked up. */
static int bring(struct programs_bed *bed, struct bench_round *round,
		 struct rp_program *program, bool first_call)
{
	struct rp_registration *registration;
	uint64_t begin = bench_ticks();
	int err = rp_chip_worker_register(bed->worker, program, &registration);

	if (err)
		return err;
	if (first_call) {
		begin = bench_ticks();
		err = rp_registration_run(registration, NULL, 0, NULL, NULL);
	}
	bench_samples_add(round->samples, bench_ticks_ns(bench_ticks() - begin));
	rp_registration_free(registration);
	round->work++;
	return err;
}

static int renew(struct bench_case *c)
{
	programs_bed_leave(c);
	return programs_bed_enter(c);
}

static int bring_round(struct bench_case *c, struct bench_round *round, bool carried,
		       bool first_call)
{
	struct programs_bed *bed = c->data;
	int err = 0;

	for (uint64_t i = 0; !err && i < round->ops; i++) {
		struct rp_program *program;

		/* A worker has room for so many. */
		if (i % 256 == 255)
			err = renew(c);
		if (!err)
			err = carried ? rp_program_load(RPBENCH_ARTIFACT, NULL, &program)
				      : bench_empty_program("empty", &program);
		if (err)
			break;
		err = bring(bed, round, program, first_call);
		rp_program_free(program);
	}
	return err;
}

int programs_register_round(struct bench_case *c, struct bench_round *round)
{
	return bring_round(c, round, false, false);
}

int programs_carry_round(struct bench_case *c, struct bench_round *round)
{
	return bring_round(c, round, true, false);
}

int programs_first_round(struct bench_case *c, struct bench_round *round)
{
	return bring_round(c, round, true, true);
}

int programs_oneshot_round(struct bench_case *c, struct bench_round *round)
{
	struct programs_bed *bed = c->data;
	int err = 0;

	for (uint64_t i = 0; !err && i < round->ops; i++) {
		uint64_t wall_ns;

		err = rp_program_run(bed->program, NULL, 0, NULL, &wall_ns);
		bench_samples_add(round->samples, (double)wall_ns);
		round->work++;
	}
	return err;
}
