/* SPDX-License-Identifier: MIT */
/*
 * A worker with a dispatcher: requests wait in a queue, one thread makes dispatches of
 * them in order. Most tests hold the dispatcher inside one orchestration and look at what
 * queues up behind it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "job.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc.h"

/* --- The thread ---------------------------------------------------------------- */

static void orchestrations_run_in_one_quiet_thread_in_order(void **state)
{
	enum {
		JOBS = 300
	};
	struct job *jobs = calloc(JOBS, sizeof(*jobs));
	struct rp_worker_options options;
	struct proc_census before;
	pid_t dispatcher;
	struct bed bed;

	(void)state;
	assert_non_null(jobs);
	/* The warm-up of whatever stays for good. */
	job_open(&bed, 1, 0);
	bed_close(&bed);
	proc_census_take(&before);
	bed_options(&options, 1);
	options.handle_count = JOBS;
	job_open_with(&bed, &options, 0);
	dispatcher = job_find_thread("rp-dispatcher");
	assert_int_not_equal(dispatcher, 0);
	/* Every signal that can be: the first 31 but SIGKILL and SIGSTOP. */
	assert_int_equal(proc_status_mask(dispatcher, "SigBlk") & 0x7fffffff,
			 0x7fffffff & ~(1u << (SIGKILL - 1)) & ~(1u << (SIGSTOP - 1)));
	for (uint64_t i = 0; i < JOBS; i++) {
		jobs[i] = (struct job){ .fn = job_note, .number = i };
		/* Handles for a part of them only: the others are given back at once. */
		assert_ok(job_submit(&bed, &jobs[i]));
		if (i % 8 && i != JOBS - 1)
			assert_ok(rp_handle_release(jobs[i].handle));
	}
	for (uint64_t i = 0; i < JOBS; i++) {
		if (i % 8 && i != JOBS - 1)
			continue;
		assert_ok(job_outcome(&jobs[i]));
		assert_int_equal(rp_handle_done(jobs[i].handle), 1);
		assert_ok(rp_handle_release(jobs[i].handle));
	}
	/* The last task of the one chip has ended, and so have all before it. */
	assert_ok(RUN(&bed, rp_arg_u64(0)));
	for (uint64_t i = 0; i < JOBS; i++) {
		assert_int_equal(jobs[i].place, i + 1);
		assert_int_equal(jobs[i].thread, dispatcher);
		assert_int_equal(board->notes[i].word, i);
	}
	assert_int_equal(bed_stats(&bed).dispatches, JOBS + 1);
	assert_int_equal(bed_stats(&bed).dispatches_failed, 0);
	bed_close(&bed);
	assert_true(proc_census_same(&before));
	free(jobs);
}

static void without_it_the_caller_orchestrates(void **state)
{
	struct rp_worker_options options;
	struct job job = { .fn = job_note };
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	assert_false(options.dispatcher);
	job_describe(&desc);
	bed_prepare(&bed, &desc, &options);
	assert_int_equal(job_find_thread("rp-dispatcher"), 0);
	assert_ok(RUN(&bed, job_arg(&job)));
	assert_int_equal(job.thread, syscall(SYS_gettid));
	bed_close(&bed);
}

static void the_size_of_the_queue_is_checked(void **state)
{
	static const struct {
		uint32_t queue;
		int want;
	} cases[] = {
		{ 0, 0 },
		{ 1, 0 },
		{ 2, 0 },
		{ 3, -EINVAL },
		{ 96, -EINVAL },
		{ 256, 0 },
		{ 65535, -EINVAL },
		{ 131072, -EINVAL },
		{ UINT32_MAX, -EINVAL },
		{ 1u << 31, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rp_worker_options options;
		struct rp_program_desc desc;
		struct rp_program *program;
		struct rp_worker *worker;
		int err;

		bed_options(&options, 1);
		options.dispatcher = true;
		options.dispatcher_queue = cases[i].queue;
		job_describe(&desc);
		assert_ok(rp_program_create(&desc, &program));
		err = rp_worker_prepare(&program, 1, &options, &worker);
		assert_int_equal(err, cases[i].want);
		if (err) {
			assert_says("dispatcher_queue", "expected");
		} else {
			struct rp_arg none = rp_arg_u64(0);

			assert_ok(rp_worker_run(worker, NULL, &none, 1, NULL));
			assert_ok(rp_worker_close(worker, RP_WAIT_FOREVER));
			rp_worker_free(worker);
		}
		rp_program_free(program);
	}
}

/* --- What a submit takes with it ----------------------------------------------- */

static const struct rp_param tensor_params[] = {
	{ .name = "job", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	{ .name = "to",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_INT64,
	  .access = RP_INOUT,
	  .rank = 1,
	  .shape = { 4 } },
	{ .name = "by", .kind = RP_ARG_SCALAR, .dtype = RP_INT64 },
};

/* The arguments, as the orchestration sees them, go to a chip. */
static int play_add(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		    void *user)
{
	struct job *job = (struct job *)(uintptr_t)args[0].u.scalar.value.u64;

	(void)nargs;
	(void)user;
	if (job) {
		job->tag = rp_run_get_config(run)->tag;
		return job->fn(run, job);
	}
	return TASK(run, 0, ENTRY_ADD, args[2], rp_inout(args[1].u.tensor));
}

static void open_tensor_bed(struct bed *bed, uint32_t queue)
{
	struct rp_worker_options options;
	struct rp_program_desc desc;

	bed_options(&options, 1);
	bed_describe(&desc, "adds", tensor_params, COUNT(tensor_params));
	desc.orchestrate = play_add;
	options.dispatcher = true;
	options.dispatcher_queue = queue;
	bed_prepare(bed, &desc, &options);
}

static void a_request_is_the_call_as_it_was_at_submit(void **state)
{
	int64_t *memory = bed_shared(8 * sizeof(*memory), 0);
	struct rp_tensor first = TENSOR(memory, RP_INT64, 4);
	struct rp_tensor second = TENSOR(memory + 4, RP_INT64, 4);
	struct rp_run_config config;
	struct rp_arg args[3];
	struct rp_handle handle;
	struct job holder = { .fn = job_hold }, teller = { .fn = job_nothing };
	_Atomic uint32_t go = 0;
	struct bed bed;

	(void)state;
	open_tensor_bed(&bed, 8);
	holder.go = &go;
	assert_ok(SUBMIT(&bed, &holder.handle, job_arg(&holder), rp_arg_tensor(first),
			 rp_arg_i64(0)));
	assert_true(proc_await(job_has_entered, &holder));

	args[0] = rp_arg_u64(0);
	args[1] = rp_arg_tensor(first);
	args[2] = rp_arg_i64(7);
	assert_ok(rp_worker_submit(bed.worker, NULL, args, 3, NULL, &handle));
	/* Another call in the same memory, and a configuration that changes too. */
	args[0] = job_arg(&teller);
	args[1] = rp_arg_tensor(second);
	args[2] = rp_arg_i64(100);
	rp_run_config_init(&config);
	config.tag = 41;
	assert_ok(rp_worker_submit(bed.worker, NULL, args, 3, &config, &teller.handle));
	config.tag = 99;
	memset(args, 0xee, sizeof(args));

	assert_int_equal(rp_handle_done(handle), 0);
	atomic_store(&go, 1);
	assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
	assert_ok(job_outcome(&teller));
	for (int i = 0; i < 4; i++)
		assert_int_equal(memory[i], 7);
	assert_int_equal(memory[4], 0);
	assert_int_equal(teller.tag, 41);
	/* Without one: the default again. */
	assert_ok(RUN(&bed, job_arg(&teller), rp_arg_tensor(first), rp_arg_i64(0)));
	assert_int_equal(teller.tag, 0);
	bed_close(&bed);
	rp_shared_free(memory);
}

static void what_needs_no_run_is_refused_at_once(void **state)
{
	int64_t *memory = bed_shared(8 * sizeof(*memory), 0);
	struct rp_tensor good = TENSOR(memory, RP_INT64, 4);
	struct rp_tensor shape = TENSOR(memory, RP_INT64, 3);
	struct rp_tensor dtype = TENSOR(memory, RP_UINT64, 4);
	struct job holder = { .fn = job_hold };
	_Atomic uint32_t go = 0;
	int64_t private[4];
	struct rp_tensor unseen = TENSOR(private, RP_INT64, 4);
	struct rp_run_config config = { .size = 1 };
	struct rp_program_desc desc;
	struct rp_program *other;
	struct rp_handle handle;
	struct rp_arg args[3] = { rp_arg_u64(0), rp_arg_tensor(good), rp_arg_i64(1) };
	struct bed bed;

	(void)state;
	open_tensor_bed(&bed, 2);
	holder.go = &go;
	assert_ok(SUBMIT(&bed, &holder.handle, job_arg(&holder), rp_arg_tensor(good),
			 rp_arg_i64(0)));
	assert_true(proc_await(job_has_entered, &holder));
	/* Far more often than there are requests. */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(SUBMIT(&bed, &handle, rp_arg_u64(0)), -EINVAL);
		assert_says("nargs 1", "expects 3");
		assert_int_equal(SUBMIT(&bed, &handle, rp_arg_u64(0),
					rp_arg_tensor(shape), rp_arg_i64(0)),
				 -EINVAL);
		assert_says("'to'", "[3]", "[4]");
		assert_int_equal(SUBMIT(&bed, &handle, rp_arg_u64(0),
					rp_arg_tensor(dtype), rp_arg_i64(0)),
				 -EINVAL);
		assert_int_equal(SUBMIT(&bed, &handle, rp_arg_u64(0), rp_arg_i64(0),
					rp_arg_i64(0)),
				 -EINVAL);
		assert_int_equal(SUBMIT(&bed, &handle, rp_arg_u64(0),
					rp_arg_tensor(unseen), rp_arg_i64(0)),
				 -EFAULT);
		assert_int_equal(RUN(&bed, rp_arg_u64(0)), -EINVAL);
		assert_int_equal(
			rp_worker_submit(bed.worker, NULL, args, 3, &config, &handle),
			-EINVAL);
	}
	bed_describe(&desc, "adds", tensor_params, COUNT(tensor_params));
	assert_ok(rp_program_create(&desc, &other));
	assert_int_equal(rp_worker_submit(bed.worker, other, args, 3, NULL, &handle),
			 -ENOENT);
	rp_program_free(other);
	/* Nothing of it is left: both requests are there, and nothing blocks. */
	for (int i = 0; i < 2; i++)
		assert_ok(rp_worker_submit(bed.worker, NULL, args, 3, NULL, &handle));
	assert_int_equal(bed_stats(&bed).queue_full_waits, 0);
	atomic_store(&go, 1);
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	assert_int_equal(memory[0], 2);
	bed_close(&bed);
	rp_shared_free(memory);
}

static void handles_run_out_at_once(void **state)
{
	struct rp_worker_options options;
	struct job jobs[5];
	_Atomic uint32_t go = 0;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	options.handle_count = 4;
	job_open_with(&bed, &options, 16);
	job_hold_dispatcher(&bed, &jobs[0], &go);
	for (int i = 1; i < 5; i++) {
		jobs[i] = (struct job){ .fn = job_note, .number = (uint64_t)i };
		assert_int_equal(job_submit(&bed, &jobs[i]), i < 4 ? 0 : -ENOSPC);
	}
	assert_says("handle_count");
	/* Released while it is queued: it goes on, and keeps its slot until its end. */
	assert_ok(rp_handle_release(jobs[1].handle));
	assert_int_equal(rp_handle_wait(jobs[1].handle, 0), -ESTALE);
	assert_int_equal(job_submit(&bed, &jobs[4]), -ENOSPC);
	atomic_store(&go, 1);
	assert_ok(job_outcome(&jobs[3]));
	assert_ok(job_submit(&bed, &jobs[4]));
	assert_ok(job_outcome(&jobs[4]));
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(board->notes[i].word, i + 1);
	bed_close(&bed);
}

/* --- Outcomes -------------------------------------------------------------------- */

static int job_odd(struct rp_run *run, struct job *job)
{
	(void)run;
	(void)job;
	return 5;
}

static void what_an_orchestration_returns_is_the_outcome(void **state)
{
	struct job jobs[] = {
		{ .fn = job_note, .number = 1 },
		{ .fn = job_say, .status = -ENOEXEC, .number = 17 },
		{ .fn = job_fail_late, .status = -ENOTTY, .number = 2 },
		{ .fn = job_odd },
		{ .fn = job_nothing, .status = -EDOM },
		{ .fn = job_fail_in_chip, .status = -EXFULL },
		{ .fn = job_note, .number = 3 },
	};
	static const struct {
		int status;
		const char *says;
	} wants[COUNT(jobs)] = {
		{ 0, NULL },
		{ -ENOEXEC, "job 17 does not like it" },
		{ -ENOTTY, "gave up" },
		{ -EINVAL, "returned 5" },
		/* No text: none of another job's. */
		{ -EDOM, "orchestration of 'jobs'" },
		{ -EXFULL, "told to fail" },
		{ 0, NULL },
	};
	struct bed bed;

	(void)state;
	job_open(&bed, 1, 0);
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < COUNT(jobs); i++)
			assert_ok(job_submit(&bed, &jobs[i]));
		for (size_t k = 0; k < COUNT(jobs); k++) {
			size_t i = round % 2 ? k : COUNT(jobs) - 1 - k;

			/* The same every time. */
			for (int again = 0; again < 2; again++) {
				assert_int_equal(job_outcome(&jobs[i]), wants[i].status);
				if (wants[i].says)
					assert_says(wants[i].says);
			}
			assert_ok(rp_handle_release(jobs[i].handle));
		}
		for (size_t i = 0; i < COUNT(jobs); i++) {
			assert_int_equal(RUN(&bed, job_arg(&jobs[i])), wants[i].status);
			if (wants[i].says)
				assert_says(wants[i].says);
		}
	}
	assert_int_equal(bed_stats(&bed).dispatches, 20 * 2 * COUNT(jobs));
	assert_int_equal(bed_stats(&bed).dispatches_failed, 20 * 2 * 5);
	bed_close(&bed);
}

static void close_tells_the_first_error_that_nobody_heard(void **state)
{
	struct job jobs[] = {
		{ .fn = job_note },
		{ .fn = job_say, .status = -ENOEXEC, .number = 1 },
		{ .fn = job_fail_in_chip, .status = -EXFULL },
		{ .fn = job_say, .status = -EDOM, .number = 2 },
	};
	struct bed bed;

	(void)state;
	for (int heard = 0; heard < 4; heard++) {
		static const int wants[] = { -ENOEXEC, -EXFULL, -EDOM, 0 };

		job_open(&bed, 1, 0);
		for (size_t i = 0; i < COUNT(jobs); i++)
			assert_ok(job_submit(&bed, &jobs[i]));
		for (int i = 1; i <= heard; i++)
			assert_true(job_outcome(&jobs[i]) < 0);
		assert_int_equal(rp_worker_close(bed.worker, RP_WAIT_FOREVER),
				 wants[heard]);
		if (!heard)
			assert_says("job 1", "told to fail", "job 2");
		bed_close(&bed);
	}
}

/* --- Waiting for what is queued -------------------------------------------------- */

static void a_queued_handle_can_be_waited_for(void **state)
{
	struct job held, queued = { .fn = job_note, .number = 8 };
	_Atomic uint32_t go = 0;
	struct bed bed;

	(void)state;
	job_open(&bed, 1, 0);
	job_hold_dispatcher(&bed, &held, &go);
	assert_ok(job_submit(&bed, &queued));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rp_handle_done(queued.handle), 0);
		assert_int_equal(rp_handle_wait(queued.handle, 0), -ETIMEDOUT);
		assert_int_equal(rp_handle_wait(queued.handle, 3000000), -ETIMEDOUT);
		assert_int_equal(rp_handle_done(held.handle), 0);
		assert_int_equal(rp_handle_wait(held.handle, 3000000), -ETIMEDOUT);
	}
	assert_int_equal(rp_handle_wait(queued.handle, -2), -EINVAL);
	atomic_store(&go, 1);
	assert_ok(job_outcome(&queued));
	assert_ok(job_outcome(&held));
	assert_int_equal(rp_handle_done(queued.handle), 1);
	bed_close(&bed);
}

static void many_waiters_sleep_on_what_is_queued_and_all_hear(void **state)
{
	enum {
		JOBS = 3,
		WAITERS = 6
	};
	struct waiter waiters[WAITERS];
	struct job held, jobs[JOBS];
	_Atomic uint32_t go = 0;
	struct bed bed;

	(void)state;
	memset(waiters, 0, sizeof(waiters));
	job_open(&bed, 1, 0);
	job_hold_dispatcher(&bed, &held, &go);
	jobs[0] = (struct job){ .fn = job_note };
	jobs[1] = (struct job){ .fn = job_say, .status = -EDOM };
	jobs[2] = (struct job){ .fn = job_fail_in_chip, .status = -EXFULL };
	for (int i = 0; i < JOBS; i++)
		assert_ok(job_submit(&bed, &jobs[i]));
	for (int i = 0; i < WAITERS; i++) {
		waiter_start(&waiters[i], &jobs[i % JOBS]);
	}
	for (int i = 0; i < WAITERS; i++)
		waiter_await_asleep(&waiters[i]);
	atomic_store(&go, 1);
	for (int i = 0; i < WAITERS; i++) {
		static const int wants[JOBS] = { 0, -EDOM, -EXFULL };

		pthread_join(waiters[i].thread, NULL);
		assert_int_equal(waiters[i].status, wants[i % JOBS]);
	}
	bed_close(&bed);
}

static void what_ends_is_told_to_an_event_loop(void **state)
{
	enum {
		JOBS = 24
	};
	struct job held, jobs[JOBS];
	_Atomic uint32_t go = 0;
	size_t reaped = 0;
	struct pollfd poller;
	struct bed bed;

	(void)state;
	job_open(&bed, 1, 32);
	poller = (struct pollfd){ .fd = rp_worker_fd(bed.worker), .events = POLLIN };
	assert_true(poller.fd >= 3);
	job_hold_dispatcher(&bed, &held, &go);
	for (int i = 0; i < JOBS; i++) {
		/* Those that fail before they have a task were never in flight. */
		static int (*const kinds[])(struct rp_run *, struct job *) = {
			job_note, job_say, job_nothing, job_fail_late
		};

		jobs[i] = (struct job){ .fn = kinds[i % 4],
					.status = i % 4 == 2 ? 0 : -EDOM };
		assert_ok(job_submit(&bed, &jobs[i]));
	}
	assert_int_equal(poll(&poller, 1, 0), 0);
	assert_int_equal(rp_worker_reap(bed.worker, &(struct rp_handle){ 0 }, 1), 0);
	atomic_store(&go, 1);
	while (reaped < JOBS + 1) {
		struct rp_handle handles[4];
		size_t count;

		/* A watchdog, not a limit. */
		assert_int_equal(poll(&poller, 1, 60000), 1);
		do {
			count = rp_worker_reap(bed.worker, handles, COUNT(handles));
			for (size_t i = 0; i < count; i++)
				assert_int_equal(rp_handle_done(handles[i]), 1);
			reaped += count;
		} while (count == COUNT(handles));
	}
	assert_int_equal(reaped, JOBS + 1);
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(rp_handle_wait(jobs[i].handle, 0), i % 2 ? -EDOM : 0);
	bed_close(&bed);
}

/* --- A persistent worker --------------------------------------------------------- */

/* Which use of the domain it is goes to `number`. */
static int job_lease(struct rp_run *run, struct job *job)
{
	struct rp_domain_spec spec;
	struct rp_domain *domain;
	int err;

	rp_domain_spec_init(&spec);
	spec.name = "leased";
	spec.window_bytes = 4096;
	err = rp_run_domain(run, &spec, &domain);
	if (err)
		return err;
	job->number = rp_domain_generation(domain);
	if (job->status)
		return rp_run_fail(run, job->status, "before any task");
	return TASK(run, 0, ENTRY_NOTE, rp_arg_u64(job->number), rp_arg_domain(domain));
}

static void leases_follow_the_queue_and_a_failure_ends_it(void **state)
{
	enum {
		JOBS = 20
	};
	struct job jobs[JOBS], failing = { .fn = job_fail_in_chip, .status = -EXFULL };
	struct job held, early = { .fn = job_lease, .status = -EDOM };
	struct rp_worker_options options;
	_Atomic uint32_t go = 0;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	options.persistent = true;
	job_open_with(&bed, &options, 0);
	for (uint64_t i = 0; i < JOBS; i++) {
		jobs[i] = (struct job){ .fn = job_lease };
		assert_ok(job_submit(&bed, &jobs[i]));
	}
	for (uint64_t i = 0; i < JOBS; i++) {
		assert_ok(job_outcome(&jobs[i]));
		assert_int_equal(jobs[i].number, i + 1);
		assert_int_equal(board->notes[i].word, i + 1);
		assert_ok(rp_handle_release(jobs[i].handle));
	}
	/* An error before any task is nobody else's. */
	assert_ok(job_submit(&bed, &early));
	assert_int_equal(job_outcome(&early), -EDOM);
	assert_ok(RUN(&bed, job_arg(&jobs[0])));
	/* One that had tasks is the last word, for what is queued too. */
	job_hold_dispatcher(&bed, &held, &go);
	assert_ok(job_submit(&bed, &failing));
	for (int i = 0; i < 6; i++)
		assert_ok(job_submit(&bed, &jobs[i]));
	atomic_store(&go, 1);
	assert_int_equal(job_outcome(&failing), -EXFULL);
	/* By the third frame it has been collected. */
	for (int i = 2; i < 6; i++) {
		assert_int_equal(job_outcome(&jobs[i]), -EXFULL);
		assert_says("told to fail");
	}
	assert_int_equal(job_submit(&bed, &jobs[7]), -EXFULL);
	assert_says("told to fail");
	rp_worker_close(bed.worker, RP_WAIT_FOREVER);
	assert_int_equal(bed_stats(&bed).domains_released, 1);
	bed_close(&bed);
}

/* --- Copies ------------------------------------------------------------------------ */

static void a_copy_follows_what_was_queued_before_it(void **state)
{
	enum {
		ADDS = 40
	};
	static const int64_t shape[] = { 16 };
	int64_t values[16] = { 0 };
	struct job jobs[ADDS], held;
	_Atomic uint32_t go = 0;
	struct rp_tensor tensor;
	int64_t expected = 0;
	uint64_t address;
	uint32_t chip;
	struct bed bed;

	(void)state;
	job_open(&bed, 1, 16);
	assert_ok(
		rp_worker_alloc_tensor(bed.worker, 0, RP_INT64, 1, shape, NULL, &tensor));
	assert_ok(rp_worker_tensor_address(bed.worker, &tensor, &chip, &address));
	assert_ok(
		rp_worker_copy_to(bed.worker, 0, address, 0, values, 0, sizeof(values)));
	for (int round = 0; round < 25; round++) {
		for (int i = 0; i < ADDS; i++) {
			jobs[i] = (struct job){ .fn = job_add,
						.number = (uint64_t)(i + 1),
						.tensor = tensor };
			expected += i + 1;
			assert_ok(job_submit(&bed, &jobs[i]));
			assert_ok(rp_handle_release(jobs[i].handle));
			if (i % 10 != 9)
				continue;
			assert_ok(rp_worker_copy_from(bed.worker, 0, address, 0, values,
						      0, sizeof(values)));
			for (int k = 0; k < 16; k++)
				assert_int_equal(values[k], expected);
		}
	}
	/* With the dispatcher asleep, and held for a while. */
	job_hold_dispatcher(&bed, &held, &go);
	jobs[0] = (struct job){ .fn = job_add, .number = 1, .tensor = tensor };
	assert_ok(job_submit(&bed, &jobs[0]));
	atomic_store(&go, 1);
	assert_ok(rp_worker_copy_from(bed.worker, 0, address, 0, values, 0,
				      sizeof(values)));
	assert_int_equal(values[0], expected + 1);
	bed_close(&bed);
}

/* --- Waiting -------------------------------------------------------------------------
 */

struct idle {
	pid_t tid;
};

static bool thread_sleeps(void *arg)
{
	return proc_thread_state(((struct idle *)arg)->tid) == 'S';
}

static void an_idle_dispatcher_sleeps_and_one_wake_ends_it(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_HYBRID, RP_WAIT_BLOCK };

	(void)state;
	for (size_t i = 0; i < COUNT(policies); i++) {
		struct rp_worker_options options;
		struct rp_worker_stats before, after;
		struct job job = { .fn = job_note };
		struct idle idle;
		struct bed bed;

		bed_options(&options, 1);
		options.wait = options.worker_wait = policies[i];
		job_open_with(&bed, &options, 0);
		idle.tid = job_find_thread("rp-dispatcher");
		for (int round = 0; round < 50; round++) {
			assert_true(proc_await(thread_sleeps, &idle));
			before = bed_stats(&bed);
			assert_ok(RUN(&bed, job_arg(&job)));
			after = bed_stats(&bed);
			/* It may have been on its way, awake still. */
			assert_true(after.dispatcher_wakes - before.dispatcher_wakes <=
				    1);
		}
		assert_true(proc_await(thread_sleeps, &idle));
		after = bed_stats(&bed);
		assert_true(after.dispatcher_sleeps > 0);
		assert_true(after.dispatcher_wakes <= after.dispatcher_sleeps);
		/* And it stays there: nobody wakes it, and it does not look. */
		proc_pause_us(50000);
		before = after;
		after = bed_stats(&bed);
		assert_int_equal(after.dispatcher_sleeps, before.dispatcher_sleeps);
		assert_int_equal(after.dispatcher_wakes, before.dispatcher_wakes);
		bed_close(&bed);
	}
}

static void every_policy_and_engine_serves_a_queue(void **state)
{
	static const enum rp_sleep_engine engines[] = { RP_SLEEP_AUTO, RP_SLEEP_FUTEX };

	(void)state;
	for (int i = 0; i < 18; i++) {
		struct rp_worker_options options;
		struct job jobs[12];
		struct bed bed;

		bed_options(&options, 2);
		options.wait = (enum rp_wait_policy)(i % 3);
		options.worker_wait = (enum rp_wait_policy)(i / 3 % 3);
		options.sleep_engine = engines[i / 9];
		job_open_with(&bed, &options, 4);
		for (uint64_t k = 0; k < COUNT(jobs); k++) {
			jobs[k] = (struct job){ .fn = job_note, .number = k };
			assert_ok(job_submit(&bed, &jobs[k]));
		}
		for (size_t k = COUNT(jobs); k-- > 0;)
			assert_ok(job_outcome(&jobs[k]));
		for (int k = 0; k < 20; k++)
			assert_ok(RUN(&bed, job_arg(&jobs[k % 12])));
		assert_int_equal(atomic_load(&board->note_count), 32);
		atomic_store(&board->note_count, 0);
		bed_close(&bed);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(orchestrations_run_in_one_quiet_thread_in_order),
		TEST(without_it_the_caller_orchestrates),
		TEST(the_size_of_the_queue_is_checked),
		TEST(a_request_is_the_call_as_it_was_at_submit),
		TEST(what_needs_no_run_is_refused_at_once),
		TEST(handles_run_out_at_once),
		TEST(what_an_orchestration_returns_is_the_outcome),
		TEST(close_tells_the_first_error_that_nobody_heard),
		TEST(a_queued_handle_can_be_waited_for),
		TEST(many_waiters_sleep_on_what_is_queued_and_all_hear),
		TEST(what_ends_is_told_to_an_event_loop),
		TEST(leases_follow_the_queue_and_a_failure_ends_it),
		TEST(a_copy_follows_what_was_queued_before_it),
		TEST(an_idle_dispatcher_sleeps_and_one_wake_ends_it),
		TEST(every_policy_and_engine_serves_a_queue),
	};

	return cmocka_run_group_tests_name("dispatcher", tests, NULL, NULL);
}
