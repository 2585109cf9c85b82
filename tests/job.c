/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "job.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc.h"

static _Atomic uint64_t places;

static int play(struct rp_run *run, const struct rp_arg *args, size_t nargs, void *user)
{
	struct job *job = (struct job *)(uintptr_t)args[0].u.scalar.value.u64;

	(void)nargs;
	(void)user;
	if (!job)
		return 0;
	job->thread = (pid_t)syscall(SYS_gettid);
	job->place = atomic_fetch_add(&places, 1) + 1;
	job->tag = rp_run_get_config(run)->tag;
	return job->fn(run, job);
}

int job_nothing(struct rp_run *run, struct job *job)
{
	(void)run;
	return job->status;
}

/* Leave a note of the number from a chip. */
int job_note(struct rp_run *run, struct job *job)
{
	return TASK(run, RP_CHIP_ANY, ENTRY_NOTE, rp_arg_u64(job->number));
}

int job_fail_in_chip(struct rp_run *run, struct job *job)
{
	return TASK(run, 0, ENTRY_FAIL, rp_arg_i64(job->status));
}

int job_say(struct rp_run *run, struct job *job)
{
	return rp_run_fail(run, job->status, "job %" PRIu64 " does not like it",
			   job->number);
}

/* Stay in the orchestration. */
int job_hold(struct rp_run *run, struct job *job)
{
	(void)run;
	atomic_store(&job->entered, 1);
	while (!atomic_load(job->go))
		bed_breathe();
	return job->status;
}

/* Stay in a chip. */
int job_gate(struct rp_run *run, struct job *job)
{
	return TASK(run, 0, ENTRY_GATE, rp_arg_u64(job->number));
}

/* Fail after a task of another kind of end. */
int job_fail_late(struct rp_run *run, struct job *job)
{
	int err = TASK(run, 0, ENTRY_FAIL, rp_arg_i64(-EILSEQ));

	if (!err)
		err = TASK(run, 0, ENTRY_NOTE, rp_arg_u64(job->number));
	return err ? err : rp_run_fail(run, job->status, "the orchestration gave up");
}

int job_add(struct rp_run *run, struct job *job)
{
	return TASK(run, 0, ENTRY_ADD, rp_arg_i64((int64_t)job->number),
		    rp_inout(job->tensor));
}

static const struct rp_param params[] = {
	{ .name = "job", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
};

void job_describe(struct rp_program_desc *desc)
{
	bed_describe(desc, "jobs", params, COUNT(params));
	desc->orchestrate = play;
}

void job_open_with(struct bed *bed, struct rp_worker_options *options, uint32_t queue)
{
	struct rp_program_desc desc;

	job_describe(&desc);
	options->dispatcher = true;
	options->dispatcher_queue = queue;
	bed_prepare(bed, &desc, options);
	atomic_store(&places, 0);
}

void job_open(struct bed *bed, uint32_t chips, uint32_t queue)
{
	struct rp_worker_options options;

	bed_options(&options, chips);
	job_open_with(bed, &options, queue);
}

int job_submit(struct bed *bed, struct job *job)
{
	return SUBMIT(bed, &job->handle, job_arg(job));
}

int job_outcome(struct job *job)
{
	return rp_handle_wait(job->handle, RP_WAIT_FOREVER);
}

bool job_has_entered(void *arg)
{
	return atomic_load(&((struct job *)arg)->entered);
}

void job_hold_dispatcher(struct bed *bed, struct job *job, _Atomic uint32_t *go)
{
	*job = (struct job){ .fn = job_hold, .go = go };
	assert_ok(job_submit(bed, job));
	assert_true(proc_await(job_has_entered, job));
}

/* --- Other threads ------------------------------------------------------------- */

static void *submit_in_thread(void *arg)
{
	struct submitter *submitter = arg;

	atomic_store(&submitter->tid, (pid_t)syscall(SYS_gettid));
	submitter->status = job_submit(submitter->bed, &submitter->job);
	atomic_store(&submitter->done, 1);
	return NULL;
}

void submitter_start(struct submitter *submitter, struct bed *bed)
{
	submitter->bed = bed;
	if (!submitter->job.fn)
		submitter->job.fn = job_note;
	assert_int_equal(
		pthread_create(&submitter->thread, NULL, submit_in_thread, submitter), 0);
}

struct full {
	struct bed *bed;
	uint64_t waits;
};

static bool has_waited(void *arg)
{
	const struct full *full = arg;

	return bed_stats(full->bed).queue_full_waits >= full->waits;
}

static bool is_asleep(void *arg)
{
	struct submitter *submitter = arg;
	pid_t tid = atomic_load(&submitter->tid);

	return tid && proc_thread_state(tid) == 'S';
}

void submitter_await_blocked(struct submitter *submitter, uint64_t waits)
{
	struct full full = { submitter->bed, waits };

	assert_true(proc_await(has_waited, &full));
	assert_true(proc_await(is_asleep, submitter));
	assert_false(atomic_load(&submitter->done));
}

static void *wait_in_thread(void *arg)
{
	struct waiter *waiter = arg;

	atomic_store(&waiter->tid, (pid_t)syscall(SYS_gettid));
	waiter->status = job_outcome(waiter->job);
	return NULL;
}

static bool waiter_sleeps(void *arg)
{
	struct waiter *waiter = arg;
	pid_t tid = atomic_load(&waiter->tid);

	return tid && proc_thread_state(tid) == 'S';
}

void waiter_start(struct waiter *waiter, struct job *job)
{
	waiter->job = job;
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_in_thread, waiter),
			 0);
}

void waiter_await_asleep(struct waiter *waiter)
{
	assert_true(proc_await(waiter_sleeps, waiter));
}

pid_t job_find_thread(const char *name)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	pid_t found = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char path[300], comm[32] = "";
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = '\0';
		fclose(file);
		if (!strcmp(comm, name))
			found = (pid_t)atoi(entry->d_name);
	}
	closedir(dir);
	return found;
}
