/* SPDX-License-Identifier: MIT */
/* Kernels that wait for a signal of another chip: the kernel waits, no thread does. */
#include <ringplane/kernel.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

#define CELLS 40

enum {
	SIGNALS,
	DATA,
};

static const struct rp_domain_buffer buffers[] = {
	[SIGNALS] = { "signals", RP_INT32, RP_BUFFER_DEFAULT, CELLS },
	[DATA] = { "data", RP_INT64, RP_BUFFER_DEFAULT, CELLS },
};

static struct ranks *open_ranks(uint32_t threads, enum rp_wait_policy wait,
				int64_t timeout_ns)
{
	struct ranks_options options = {
		.size = 2,
		.buffers = buffers,
		.buffer_count = COUNT(buffers),
		.timeout_ns = timeout_ns,
		.wait = wait,
		.compute_threads = threads,
	};

	return ranks_open(&options);
}

/* Runs that must succeed, whoever runs the kernels, and however a chip waits. */
static void on_each(int (*fn)(struct rp_chip *, struct rp_comm *,
			      const struct rank_job *))
{
	for (int wait = RP_WAIT_HYBRID; wait <= RP_WAIT_BLOCK; wait += RP_WAIT_BLOCK)
		for (uint32_t threads = 0; threads < 3; threads++) {
			struct ranks *ranks = open_ranks(threads,
							 (enum rp_wait_policy)wait,
							 INT64_C(60) * 1000000000);
			struct rank_job job = { .fn = fn };

			for (int run = 0; run < 3; run++)
				if (ranks_run(ranks, &job))
					fail_msg("%u threads, wait %d: \"%s\"", threads,
						 wait, rp_last_error());
			ranks_close(ranks);
		}
}

static struct rp_signal signal_of(struct rp_comm *comm, uint64_t offset, int32_t least)
{
	return (struct rp_signal){ .comm = comm,
				   .buffer = SIGNALS,
				   .offset = offset,
				   .compare = RP_GE,
				   .expected = least };
}

/* args: from, to. */
static int add_up(const struct rp_arg *args, size_t nargs)
{
	const int64_t *from = args[0].u.tensor.data;
	int64_t *to = args[1].u.tensor.data;

	(void)nargs;
	for (int64_t i = 0; i < args[0].u.tensor.shape[0]; i++)
		*to += from[i];
	return 0;
}

/* args: the domain's handle as a number, peer, cell. */
static int tell(const struct rp_arg *args, size_t nargs)
{
	struct rp_comm *comm = (struct rp_comm *)(uintptr_t)args[0].u.scalar.value.u64;

	(void)nargs;
	return rp_comm_notify(comm, SIGNALS, args[1].u.scalar.value.u32,
			      args[2].u.scalar.value.u64, 1, RP_NOTIFY_ADD);
}

static int submit_tell(struct rp_chip *chip, struct rp_comm *comm, uint32_t peer,
		       uint64_t cell)
{
	struct rp_arg args[] = { rp_arg_u64((uint64_t)(uintptr_t)comm), rp_arg_u32(peer),
				 rp_arg_u64(cell) };
	struct rp_kernel kernel = { .fn = tell, .args = args, .arg_count = COUNT(args) };

	return rp_chip_submit(chip, &kernel, NULL);
}

/* A local word, as a tensor. */
static struct rp_tensor word_of(int64_t *word)
{
	return TENSOR(word, RP_INT64, 1);
}

/*
 * Rank 1 waits for data with a kernel; rank 0 sends them when a kernel that rank 1 has
 * submitted later says so.
 */
static int send_when_asked(struct rp_comm *comm)
{
	int64_t data[CELLS];

	for (int i = 0; i < CELLS; i++)
		data[i] = i + 1;
	RANK_TRY(rp_comm_wait(comm, SIGNALS, 0, RP_GE, 1, PATIENCE_NS));
	RANK_TRY(rp_comm_store(comm, 1, DATA, 0, CELLS, data));
	return rp_comm_notify(comm, SIGNALS, 1, 7, 5, RP_NOTIFY_SET);
}

static int receive(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	int64_t sum = 0, twice = 0;
	struct rp_arg first[2] = { { 0 }, rp_inout(word_of(&sum)) };
	struct rp_arg second[2] = { rp_in(word_of(&sum)), rp_inout(word_of(&twice)) };
	struct rp_signal signal = signal_of(comm, 7, 5);
	struct rp_kernel kernel = {
		.fn = add_up, .name = "late", .args = first, .arg_count = 2
	};

	(void)job;
	if (!rp_comm_rank(comm))
		return send_when_asked(comm);
	/* The domain may be one that waits for little. */
	signal.timeout_ns = PATIENCE_NS;
	RANK_TRY(rp_comm_tensor(comm, 1, DATA, &first[0].u.tensor));
	first[0] = rp_in(first[0].u.tensor);
	RANK_TRY(rp_chip_submit_wait(chip, &signal, &kernel, NULL));
	/* Follows it, by memory. */
	kernel.args = second;
	RANK_TRY(rp_chip_submit(chip, &kernel, NULL));
	/* Follows nobody, and has run before those two. */
	RANK_TRY(submit_tell(chip, comm, 0, 0));
	RANK_TRY(rp_chip_drain(chip));
	RANK_MUST(chip, sum == CELLS * (CELLS + 1) / 2);
	RANK_MUST(chip, twice == sum);
	return 0;
}

static void a_kernel_waits_for_a_peer_while_others_run(void **state)
{
	(void)state;
	on_each(receive);
}

/* What only waits is followed by its id; and what is never drained is waited for at the
 * entry's end. */
static int follow_a_wait(struct rp_chip *chip, struct rp_comm *comm,
			 const struct rank_job *job)
{
	static int64_t seen;
	struct rp_arg args[2] = { { 0 }, rp_inout(word_of(&seen)) };
	struct rp_signal signal = signal_of(comm, 3, 1);
	struct rp_kernel wait = { .name = "a wait" };
	struct rp_kernel kernel = {
		.fn = add_up, .args = args, .arg_count = 2, .dep_count = 1
	};
	int64_t nine = 9;
	rp_kernel_id id;

	(void)job;
	if (!rp_comm_rank(comm)) {
		RANK_TRY(rp_comm_store(comm, 1, DATA, 0, 1, &nine));
		return rp_comm_notify(comm, SIGNALS, 1, 3, 1, RP_NOTIFY_ADD);
	}
	seen = 0;
	RANK_TRY(rp_comm_tensor(comm, 1, DATA, &args[0].u.tensor));
	args[0] = rp_no_dep(rp_in(args[0].u.tensor));
	RANK_TRY(rp_chip_submit_wait(chip, &signal, &wait, &id));
	kernel.deps = &id;
	RANK_TRY(rp_chip_submit(chip, &kernel, &id));
	/* A signal of this chip to itself, after that one. */
	signal = signal_of(comm, 4, 1);
	RANK_TRY(rp_chip_submit_wait(chip, &signal, &wait, NULL));
	RANK_TRY(submit_tell(chip, comm, 1, 4));
	RANK_TRY(rp_chip_drain(chip));
	RANK_MUST(chip, seen == 9);
	/* Not drained. */
	signal = signal_of(comm, 5, 1);
	RANK_TRY(rp_chip_submit_wait(chip, &signal, &wait, NULL));
	return submit_tell(chip, comm, 1, 5);
}

static void a_wait_is_followed_by_its_id(void **state)
{
	(void)state;
	on_each(follow_a_wait);
}

/* Many wait at once, and are let go in an order of their own. */
static int many(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	uint64_t seed = 11;
	int64_t sums[CELLS] = { 0 };

	(void)job;
	if (!rp_comm_rank(comm)) {
		for (uint64_t i = 0; i < CELLS; i++) {
			int64_t value = (int64_t)(i * i);
			uint64_t cell = (i * 17 + 5) % CELLS;

			RANK_TRY(rp_comm_store(comm, 1, DATA, cell, 1, &value));
			RANK_TRY(
				rp_comm_notify(comm, SIGNALS, 1, cell, 1, RP_NOTIFY_ADD));
			rank_dawdle(&seed);
		}
		return 0;
	}
	for (uint64_t cell = 0; cell < CELLS; cell++) {
		struct rp_signal signal = signal_of(comm, cell, 1);
		struct rp_tensor data;
		struct rp_arg args[2];
		struct rp_kernel kernel = { .fn = add_up,
					    .args = args,
					    .arg_count = COUNT(args) };

		RANK_TRY(rp_comm_tensor(comm, 1, DATA, &data));
		RANK_TRY(rp_tensor_slice(&data, 0, (int64_t)cell, 1, 1, &data));
		args[0] = rp_in(data);
		args[1] = rp_inout(word_of(&sums[cell]));
		RANK_TRY(rp_chip_submit_wait(chip, &signal, &kernel, NULL));
	}
	RANK_TRY(rp_chip_drain(chip));
	for (int64_t i = 0; i < CELLS; i++)
		RANK_MUST(chip, sums[(i * 17 + 5) % CELLS] == i * i);
	return 0;
}

static void many_wait_at_once(void **state)
{
	(void)state;
	on_each(many);
}

static int in_vain(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	struct rp_signal signal = signal_of(comm, 12, 42);
	struct rp_kernel kernel = { .name = "late" };

	signal.timeout_ns = (int64_t)job->words[0];
	if (!rp_comm_rank(comm))
		return rp_comm_notify(comm, SIGNALS, 1, 12, 41, RP_NOTIFY_SET);
	RANK_TRY(rp_comm_wait(comm, SIGNALS, 12, RP_NE, 0, PATIENCE_NS));
	RANK_TRY(rp_scope_begin(chip, RP_SCOPE_AUTO));
	RANK_TRY(rp_chip_submit_wait(chip, &signal, &kernel, NULL));
	return rp_scope_end(chip);
}

static void a_signal_that_does_not_come_fails_the_run_at_its_deadline(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 3; threads++) {
		struct ranks *ranks = open_ranks(threads, RP_WAIT_HYBRID, 30 * 1000000);
		struct rank_job job = { .fn = in_vain };

		assert_int_equal(ranks_run(ranks, &job), -ETIMEDOUT);
		assert_says("chip 1", "entry 'rank'", "kernel 0 'late' (ring 1): waits: ",
			    "rank 1, 'signals'[12] is 41 after 0.03 s, expected >= 42");
		/* Its own deadline goes before the domain's. */
		job.words[0] = 2000000;
		assert_int_equal(ranks_run(ranks, &job), -ETIMEDOUT);
		assert_says("after 0.002 s, expected >= 42");
		/* The worker goes on. */
		job.fn = receive;
		assert_ok(ranks_run(ranks, &job));
		ranks_close(ranks);
	}
}

/* Rank 0 fails while rank 1 waits without end. */
static int fail_elsewhere(struct rp_chip *chip, struct rp_comm *comm,
			  const struct rank_job *job)
{
	struct rp_signal signal = signal_of(comm, 0, 1);
	struct rp_kernel kernel = { .name = "forsaken" };

	signal.timeout_ns = RP_WAIT_FOREVER;
	if (!rp_comm_rank(comm)) {
		RANK_TRY(rp_comm_wait(comm, SIGNALS, 1, RP_GE, 1, 0));
		usleep((useconds_t)job->words[0]);
		return rp_chip_fail(chip, -EDOM, "rank 0 has had enough");
	}
	RANK_TRY(rp_chip_submit_wait(chip, &signal, &kernel, NULL));
	RANK_TRY(submit_tell(chip, comm, 0, 1));
	RANK_MUST(chip, rp_chip_drain(chip) == -ECANCELED);
	RANK_MUST(chip, rp_chip_submit_wait(chip, &signal, &kernel, NULL) == -ECANCELED);
	return -ECANCELED;
}

static void a_run_that_fails_elsewhere_ends_the_wait(void **state)
{
	(void)state;
	for (uint32_t threads = 0; threads < 3; threads++) {
		struct ranks *ranks = open_ranks(threads, RP_WAIT_HYBRID, 0);

		for (uint64_t delay = 0; delay <= 20000; delay += 10000) {
			struct rank_job job = { .fn = fail_elsewhere,
						.words = { delay } };

			assert_int_equal(ranks_run(ranks, &job), -EDOM);
			assert_says("rank 0 has had enough");
		}
		ranks_close(ranks);
	}
}

/* words[0] says what is wrong with it. */
static int wrong(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	struct rp_signal signal = signal_of(comm, 0, 1);
	const struct rp_signal *given = &signal;
	struct rp_kernel kernel = { 0 };
	const struct rp_kernel *given_kernel = &kernel;

	if (rp_comm_rank(comm))
		return 0;
	switch (job->words[0]) {
	case 0:
		given = NULL;
		break;
	case 1:
		signal.comm = NULL;
		break;
	case 2:
		signal.buffer = 2;
		break;
	case 3:
		signal.buffer = DATA;
		break;
	case 4:
		signal.offset = CELLS;
		break;
	case 5:
		signal.compare = (enum rp_compare)6;
		break;
	case 6:
		signal.timeout_ns = -2;
		break;
	case 7:
		signal.reserved = 1;
		break;
	case 8:
		given_kernel = NULL;
		break;
	default:
		kernel.flags = 1;
		break;
	}
	RANK_MUST(chip, rp_chip_submit_wait(chip, given, given_kernel, NULL) == -EINVAL);
	/* It fails the run, whatever the entry returns. */
	return 0;
}

static void wrong_signals_fail_the_run_and_are_named(void **state)
{
	static const char *const needles[] = {
		"signal NULL",	   "signal->comm NULL",	 "buffer 2, the domain",
		"'data' of int64", "offset 40",		 "comparison 6",
		"timeout_ns -2",   "signal->reserved 1", "kernel NULL",
		"flags 0x1",
	};

	(void)state;
	for (uint32_t threads = 0; threads < 2; threads++) {
		struct ranks *ranks = open_ranks(threads, RP_WAIT_HYBRID, 0);
		struct rank_job job = { .fn = wrong };

		for (uint64_t i = 0; i < COUNT(needles); i++) {
			job.words[0] = i;
			assert_int_equal(ranks_run(ranks, &job), -EINVAL);
			assert_says("chip_submit", needles[i]);
		}
		job.fn = receive;
		assert_ok(ranks_run(ranks, &job));
		ranks_close(ranks);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_kernel_waits_for_a_peer_while_others_run),
		TEST(a_wait_is_followed_by_its_id),
		TEST(many_wait_at_once),
		TEST(a_signal_that_does_not_come_fails_the_run_at_its_deadline),
		TEST(a_run_that_fails_elsewhere_ends_the_wait),
		TEST(wrong_signals_fail_the_run_and_are_named),
	};

	return cmocka_run_group_tests_name("kernel_wait", tests, NULL, NULL);
}
