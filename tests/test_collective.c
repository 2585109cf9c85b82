/* SPDX-License-Identifier: MIT */
/*
 * Collectives: every one, small and large, in windows and out of them, on ranks that come
 * at different times. Each is tried twice: on threads, which sanitizers see, and on the
 * chips of a worker, more of them than most machines here have processors.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "completion/fence.h"

#define WINDOW_BYTES ((size_t)1 << 20)

static const struct rp_domain_buffer buffers[] = {
	{ "work", RP_UINT8, RP_BUFFER_DEFAULT, WINDOW_BYTES },
	{ "flags", RP_INT32, RP_BUFFER_DEFAULT, 64 },
};

static struct ranks_options options_of(uint32_t size, bool threads)
{
	return (struct ranks_options){
		.size = size,
		.threads = threads,
		.buffers = buffers,
		.buffer_count = COUNT(buffers),
	};
}

/* A job is values only. */
static struct rank_job job_of(int (*fn)(struct rp_chip *, struct rp_comm *,
					const struct rank_job *),
			      uint64_t a, uint64_t b, uint64_t c)
{
	return (struct rank_job){ .fn = fn, .words = { a, b, c } };
}

static void *scratch_of(const struct collective *c, uint32_t size)
{
	return calloc(3, collective_bytes(c, size));
}

static int check(struct rp_chip *chip, struct rp_comm *comm, const struct collective *c)
{
	void *memory = scratch_of(c, rp_comm_size(comm));
	int err;

	RANK_MUST(chip, memory);
	err = collective_check(chip, comm, c, memory);
	free(memory);
	return err;
}

/* TSan sees nothing of processes. */
#if RPI_FENCE_TSAN
#define CHIPS_TOO 0
#else
#define CHIPS_TOO 1
#endif

/* On 1 to 4 ranks, as threads and as chips. */
static void on_each_bed(struct rank_job job, struct ranks_options options)
{
	for (uint32_t size = 1; size <= 4; size++)
		for (int chips = 0; chips <= CHIPS_TOO; chips++) {
			struct ranks *ranks;
			int err;

			options.size = size;
			options.threads = !chips;
			ranks = ranks_open(&options);
			for (int run = 0; run < 2; run++) {
				err = ranks_run(ranks, &job);
				if (err)
					fail_msg("%u %s: %d \"%s\"", size,
						 chips ? "chips" : "threads", err,
						 rp_last_error());
			}
			ranks_close(ranks);
		}
}

/* --- Each of them ------------------------------------------------------------ */

/* words: kind, count. */
static int every_way(struct rp_chip *chip, struct rp_comm *comm,
		     const struct rank_job *job)
{
	static const enum rp_dtype dtypes[] = { RP_FLOAT32, RP_BFLOAT16, RP_INT32,
						RP_FLOAT16, RP_INT64,	 RP_INT8,
						RP_UINT8 };
	uint64_t seed = 11 + rp_comm_rank(comm);
	struct collective c = {
		.kind = (enum collective_kind)job->words[0],
		.count = job->words[1],
	};

	/* Of much data some ways must do. */
	const int dtype_step = c.count > 1000 ? 3 : 1, way_step = c.count > 1000 ? 5 : 1;

	for (int d = 0; d < (int)COUNT(dtypes); d += dtype_step)
		for (int place = 0; place < AT_PLACES; place++)
			for (int way = 0; way < 12; way += way_step) {
				c.dtype = dtypes[d];
				c.place = (enum collective_place)place;
				c.op = (enum rp_reduce_op)(way & 3);
				c.algorithm = (enum rp_algorithm)(way % 3);
				c.in_place = way & 1;
				c.root = (uint32_t)way % rp_comm_size(comm);
				c.shift = (uint32_t)way % 3;
				c.salt++;
				rank_dawdle(&seed);
				RANK_TRY(check(chip, comm, &c));
			}
	return 0;
}

static void each_way_of(enum collective_kind kind)
{
	/* Less than a line, more than one piece of the staging, much more. */
	static const uint64_t counts[] = { 1, 257, 5003, 30011 };
	struct ranks_options options = options_of(0, false);

	/* TSan is slow. */
	for (size_t i = CHIPS_TOO ? 0 : 2; i < COUNT(counts) - !CHIPS_TOO; i++)
		on_each_bed(job_of(every_way, kind, counts[i], 0), options);
	/* And through a narrow passage. */
	options.staging_bytes = 4096;
	on_each_bed(job_of(every_way, kind, 2777, 0), options);
}

static void allreduce(void **state)
{
	(void)state;
	each_way_of(C_ALLREDUCE);
}

static void broadcast(void **state)
{
	(void)state;
	each_way_of(C_BROADCAST);
}

static void allgather(void **state)
{
	(void)state;
	each_way_of(C_ALLGATHER);
}

static void reduce_scatter_gives_rank_r_row_r(void **state)
{
	(void)state;
	each_way_of(C_REDUCE_SCATTER);
}

static void all_to_all(void **state)
{
	(void)state;
	each_way_of(C_ALL_TO_ALL);
}

static void all_to_all_v_cuts_rows_to_the_stride(void **state)
{
	(void)state;
	each_way_of(C_ALL_TO_ALL_V);
}

/* --- One after the other ----------------------------------------------------- */

/* words: kind (C_KINDS: all in turn), count, loops. */
static int in_a_loop(struct rp_chip *chip, struct rp_comm *comm,
		     const struct rank_job *job)
{
	const int32_t *flags;
	struct rp_tensor tensor;
	uint64_t seed = 5 + rp_comm_rank(comm);

	for (uint64_t i = 0; i < job->words[2]; i++) {
		struct collective c = {
			.kind = (enum collective_kind)(
				job->words[0] == C_KINDS ? i % C_KINDS : job->words[0]),
			.dtype = RP_FLOAT32,
			.count = job->words[1],
			.root = (uint32_t)i % rp_comm_size(comm),
			.place = (enum collective_place)(i % AT_PLACES),
			.algorithm = (enum rp_algorithm)(i % 3),
			/* Data of the call before would be seen at once. */
			.salt = 100000 * i,
		};

		rank_dawdle(&seed);
		RANK_TRY(check(chip, comm, &c));
	}
	/* Nothing of the program's was used for it. */
	RANK_TRY(rp_comm_tensor(comm, rp_comm_rank(comm), 1, &tensor));
	flags = tensor.data;
	for (int i = 0; i < 64; i++)
		RANK_MUST(chip, flags[i] == 0);
	return 0;
}

static void a_hundred_calls_see_nothing_of_each_other(void **state)
{
	struct ranks_options options = options_of(0, false);

	(void)state;
	for (int kind = 0; kind <= C_KINDS; kind++)
		on_each_bed(job_of(in_a_loop, (uint64_t)kind, 300, 100), options);
	/* In window and out of it, in turn. */
	on_each_bed(job_of(in_a_loop, C_KINDS, 4001, 50), options);
}

static void rounds_go_on_over_tasks_and_leases(void **state)
{
	struct ranks_options options = options_of(0, false);

	(void)state;
	for (int persistent = 0; persistent < 2; persistent++) {
		options.persistent = persistent;
		options.repeats = 3;
		/* 7, 8, 9: whatever turn the lease before has ended on. */
		for (uint64_t loops = 7; loops < 10; loops++)
			on_each_bed(job_of(in_a_loop, C_KINDS, 64, loops), options);
	}
}

static void members_may_be_some_chips_in_any_order(void **state)
{
	static const uint32_t members[] = { 3, 0, 2 };
	struct ranks_options options = options_of(3, false);
	struct rank_job job = job_of(in_a_loop, C_KINDS, 100, 20);
	struct ranks *ranks;

	(void)state;
	options.members = members;
	options.chips = 4;
	if (!CHIPS_TOO)
		skip();
	ranks = ranks_open(&options);
	assert_ok(ranks_run(ranks, &job));
	ranks_close(ranks);
}

static void sleepers_are_woken_under_every_way_of_waiting(void **state)
{
	struct ranks_options options = options_of(0, false);

	(void)state;
	for (int wait = RP_WAIT_HYBRID; wait <= RP_WAIT_BLOCK; wait++) {
		options.wait = (enum rp_wait_policy)wait;
		on_each_bed(job_of(in_a_loop, C_KINDS, 50, 70), options);
	}
}

static void a_group_meets_though_single_tasks_stand_between(void **state)
{
	struct ranks_options options = options_of(4, false);
	struct rank_job job = job_of(in_a_loop, C_KINDS, 50, 4);
	struct ranks *ranks;

	(void)state;
	if (!CHIPS_TOO)
		skip();
	options.repeats = 20;
	options.singles = true;
	ranks = ranks_open(&options);
	for (int i = 0; i < 10; i++) {
		job.words[3] = (uint64_t)i;
		assert_ok(ranks_run(ranks, &job));
	}
	ranks_close(ranks);
}

/* --- The same bits everywhere ------------------------------------------------ */

/* words: count, dtype, algorithm. Numbers whose sum depends on their order. */
static int same_bits(struct rp_chip *chip, struct rp_comm *comm,
		     const struct rank_job *job)
{
	uint64_t count = job->words[0], seed = 77 + rp_comm_rank(comm);
	enum rp_dtype dtype = (enum rp_dtype)job->words[1];
	uint32_t size = rp_comm_size(comm);
	size_t bytes = count * rp_dtype_bits(dtype) / 8;
	uint8_t *in = malloc(bytes), *out = malloc(bytes), *again = malloc(bytes);
	uint8_t *all = malloc(bytes * size);
	int err = 0;

	RANK_MUST(chip, in && out && again && all);
	for (size_t i = 0; i < bytes; i++)
		in[i] = (uint8_t)bed_random(&seed);
	for (int pass = 0; !err && pass < 2; pass++) {
		rank_dawdle(&seed);
		err = rp_comm_allreduce(comm, in, pass ? again : out, count, dtype,
					RP_SUM, (enum rp_algorithm)job->words[2]);
	}
	if (!err)
		err = rp_comm_allgather(comm, out, all, bytes, RP_UINT8);
	for (uint32_t r = 0; !err && r < size; r++)
		if (memcmp(all + r * bytes, out, bytes))
			err = rp_chip_fail(chip, -EBADMSG, "rank %u's sum differs", r);
	if (!err && memcmp(out, again, bytes))
		err = rp_chip_fail(chip, -EBADMSG, "the second sum differs");
	/* From run to run: the first one left it in the window. */
	if (!err && rp_comm_generation(comm) == 1)
		memcpy(rp_comm_window(comm, rp_comm_rank(comm)), out, bytes);
	else if (!err && memcmp(rp_comm_window(comm, rp_comm_rank(comm)), out, bytes))
		err = rp_chip_fail(chip, -EBADMSG, "the run before had another sum");
	free(in);
	free(out);
	free(again);
	free(all);
	return err;
}

static void every_rank_and_every_run_gets_the_same_bits(void **state)
{
	static const enum rp_dtype dtypes[] = { RP_FLOAT32, RP_FLOAT16, RP_BFLOAT16 };
	struct ranks_options options = options_of(0, false);

	(void)state;
	options.persistent = true;
	for (size_t d = 0; d < COUNT(dtypes); d++)
		for (uint64_t algorithm = 0; algorithm < 3; algorithm++)
			on_each_bed(job_of(same_bits, 20001, dtypes[d], algorithm),
				    options);
}

/* words: count. Two ranks, one of which may have its data elsewhere. */
static int much(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	struct collective c = {
		.kind = C_ALLREDUCE,
		.dtype = RP_FLOAT32,
		.count = job->words[0],
	};

	for (int place = 0; place < AT_PLACES; place++)
		for (int in_place = 0; in_place < 2; in_place++) {
			c.place = (enum collective_place)place;
			c.in_place = in_place;
			c.salt++;
			RANK_TRY(check(chip, comm, &c));
		}
	return 0;
}

static void much_is_reduced_wherever_it_lies(void **state)
{
	struct ranks_options options = options_of(0, false);

	(void)state;
	on_each_bed(job_of(much, 65536, 0, 0), options);
	on_each_bed(job_of(much, 65539, 0, 0), options);
}

/* --- What is refused --------------------------------------------------------- */

#define REFUSED(err, call, needle)                                                       \
	do {                                                                             \
		RANK_MUST(chip, (call) == (err));                                        \
		if (!strstr(rp_last_error(), needle))                                    \
			return rp_chip_fail(chip, -EBADMSG, "line %d: \"%s\"", __LINE__, \
					    rp_last_error());                            \
	} while (0)

static int wrong_calls(struct rp_chip *chip, struct rp_comm *comm,
		       const struct rank_job *job)
{
	static _Thread_local float in[8], out[64];
	uint64_t counts[RANKS_MAX] = { 0 };

	(void)job;
	REFUSED(-EINVAL, rp_comm_allreduce(comm, NULL, out, 1, RP_FLOAT32, RP_SUM, 0),
		"comm_allreduce: in NULL");
	REFUSED(-EINVAL, rp_comm_allreduce(comm, in, NULL, 1, RP_FLOAT32, RP_SUM, 0),
		"comm_allreduce: out NULL");
	REFUSED(-EINVAL, rp_comm_allreduce(comm, in, out, 0, RP_FLOAT32, RP_SUM, 0),
		"comm_allreduce: count 0, expected 1..");
	REFUSED(-EINVAL,
		rp_comm_allreduce(comm, in, out, UINT64_MAX, RP_FLOAT32, RP_SUM, 0),
		"count 18446744073709551615");
	REFUSED(-EINVAL, rp_comm_allreduce(comm, in, out, 1, 99, RP_SUM, 0), "dtype 99");
	REFUSED(-EOPNOTSUPP, rp_comm_allreduce(comm, in, out, 1, RP_INT16, RP_SUM, 0),
		"dtype int16, expected float32");
	REFUSED(-EOPNOTSUPP, rp_comm_allreduce(comm, in, out, 1, RP_FLOAT32, 4, 0),
		"op 4, expected 0..3");
	REFUSED(-EINVAL, rp_comm_allreduce(comm, in, out, 1, RP_FLOAT32, RP_SUM, 3),
		"algorithm 3, expected 0..2");
	REFUSED(-EINVAL, rp_comm_allreduce(comm, out, out + 1, 8, RP_FLOAT32, RP_SUM, 0),
		"overlap");
	REFUSED(-EINVAL, rp_comm_broadcast(comm, NULL, 1, RP_FLOAT32, 0), "data NULL");
	REFUSED(-EINVAL, rp_comm_broadcast(comm, in, 1, RP_FLOAT32, rp_comm_size(comm)),
		"comm_broadcast: root");
	REFUSED(-EINVAL, rp_comm_broadcast(comm, in, 3, RP_FP4E2M1, 0), "even one");
	REFUSED(-EINVAL, rp_comm_allgather(comm, out, out, 4, RP_FLOAT32),
		"comm_allgather: in ");
	REFUSED(-EINVAL, rp_comm_allgather(comm, out + 3, out, 4, RP_FLOAT32), "overlap");
	REFUSED(-EINVAL, rp_comm_all_to_all(comm, out, out, 4, RP_FLOAT32), "overlap");
	REFUSED(-EINVAL,
		rp_comm_reduce_scatter(comm, out, out + 1, 4, RP_FLOAT32, RP_SUM),
		"overlap");
	REFUSED(-EINVAL, rp_comm_all_to_all_v(comm, in, NULL, out, counts, 1, RP_FLOAT32),
		"send_counts NULL");
	REFUSED(-EINVAL, rp_comm_all_to_all_v(comm, in, counts, out, NULL, 1, RP_FLOAT32),
		"receive_counts NULL");
	/* None of it is a step that the others would have to take. */
	return rp_comm_barrier(comm);
}

static void wrong_arguments_are_named_and_cost_no_round(void **state)
{
	(void)state;
	on_each_bed(job_of(wrong_calls, 0, 0, 0), options_of(0, false));
}

/* The error is the run's, though the job only hands the code on. */
static int one_wrong(struct rp_chip *chip, struct rp_comm *comm,
		     const struct rank_job *job)
{
	float x = 0;

	(void)chip;
	(void)job;
	if (rp_comm_rank(comm) == 1)
		return rp_comm_broadcast(comm, &x, 1, RP_FLOAT32, 9);
	return rp_comm_barrier(comm);
}

static void an_entry_passes_the_line_on_and_the_others_are_let_go(void **state)
{
	(void)state;
	for (int chips = 0; chips <= CHIPS_TOO; chips++) {
		struct ranks_options options = options_of(3, !chips);
		struct rank_job job = job_of(one_wrong, 0, 0, 0);
		struct ranks *ranks;

		options.wait = chips ? RP_WAIT_BLOCK : RP_WAIT_HYBRID;
		options.timeout_ns = RP_WAIT_FOREVER;
		ranks = ranks_open(&options);
		for (int i = 0; i < 10; i++) {
			assert_int_equal(ranks_run(ranks, &job), -EINVAL);
			assert_says("comm_broadcast: root 9", "has 3 ranks");
		}
		job.fn = in_a_loop;
		job.words[0] = C_KINDS;
		job.words[1] = 10;
		job.words[2] = 10;
		assert_ok(ranks_run(ranks, &job));
		ranks_close(ranks);
	}
}

static int different_calls(struct rp_chip *chip, struct rp_comm *comm,
			   const struct rank_job *job)
{
	float in[8] = { 0 }, out[32];

	(void)chip;
	RANK_TRY(rp_comm_barrier(comm));
	if (rp_comm_rank(comm) == job->words[0])
		return rp_comm_allgather(comm, in, out, 4, RP_FLOAT32);
	return rp_comm_allreduce(comm, in, out, 8, RP_BFLOAT16, RP_MAX,
				 RP_ALGORITHM_AUTO);
}

static void ranks_that_call_different_things_are_told_which(void **state)
{
	(void)state;
	for (int chips = 0; chips <= CHIPS_TOO; chips++) {
		struct ranks_options options = options_of(2, !chips);
		struct rank_job job = job_of(different_calls, 1, 0, 0);
		struct ranks *ranks = ranks_open(&options);

		assert_int_equal(ranks_run(ranks, &job), -EINVAL);
		assert_says("called comm_all", "comm_allgather of 4 float32",
			    "comm_allreduce of 8 bfloat16 (max) by auto", "rank 0",
			    "rank 1");
		ranks_close(ranks);
	}
}

static int stay_away(struct rp_chip *chip, struct rp_comm *comm,
		     const struct rank_job *job)
{
	int err;

	(void)job;
	RANK_TRY(rp_comm_barrier(comm));
	if (rp_comm_rank(comm) == 1)
		return 0;
	err = rp_comm_barrier(comm);
	RANK_MUST(chip, err == -ETIMEDOUT);
	/* Out of step for good. */
	RANK_MUST(chip, rp_comm_barrier(comm) == -ETIMEDOUT);
	RANK_MUST(chip, strstr(rp_last_error(), "failed before"));
	return -ETIMEDOUT;
}

static void a_rank_that_does_not_come_is_named(void **state)
{
	(void)state;
	for (int wait = RP_WAIT_HYBRID; wait <= RP_WAIT_BLOCK; wait++)
		for (int chips = 0; chips <= CHIPS_TOO; chips++) {
			struct ranks_options options = options_of(2, !chips);
			struct rank_job job = job_of(stay_away, 0, 0, 0);
			struct ranks *ranks;

			options.timeout_ns = 100 * 1000000;
			options.wait = (enum rp_wait_policy)wait;
			ranks = ranks_open(&options);
			assert_int_equal(ranks_run(ranks, &job), -ETIMEDOUT);
			assert_says("comm_barrier");
			ranks_close(ranks);
		}
}

static int time_out(struct rp_chip *chip, struct rp_comm *comm,
		    const struct rank_job *job)
{
	(void)chip;
	(void)job;
	RANK_TRY(rp_comm_barrier(comm));
	return rp_comm_rank(comm) ? 0 : rp_comm_barrier(comm);
}

static void the_line_of_a_timeout_says_who_waits_for_whom(void **state)
{
	(void)state;
	for (int chips = 0; chips <= CHIPS_TOO; chips++) {
		struct ranks_options options = options_of(2, !chips);
		struct rank_job job = job_of(time_out, 0, 0, 0);
		struct ranks *ranks;

		options.timeout_ns = INT64_C(2) * 1000000000;
		ranks = ranks_open(&options);
		assert_int_equal(ranks_run(ranks, &job), -ETIMEDOUT);
		assert_says("comm_barrier: rank 0 waited 2 s for rank 1 (chip 1), "
			    "which is in round 1, expected round 2");
		ranks_close(ranks);
	}
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
	const struct CMUnitTest tests[] = {
		TEST(allreduce),
		TEST(broadcast),
		TEST(allgather),
		TEST(reduce_scatter_gives_rank_r_row_r),
		TEST(all_to_all),
		TEST(all_to_all_v_cuts_rows_to_the_stride),
		TEST(a_hundred_calls_see_nothing_of_each_other),
		TEST(rounds_go_on_over_tasks_and_leases),
		TEST(members_may_be_some_chips_in_any_order),
		TEST(sleepers_are_woken_under_every_way_of_waiting),
		TEST(a_group_meets_though_single_tasks_stand_between),
		TEST(every_rank_and_every_run_gets_the_same_bits),
		TEST(much_is_reduced_wherever_it_lies),
		TEST(wrong_arguments_are_named_and_cost_no_round),
		TEST(an_entry_passes_the_line_on_and_the_others_are_let_go),
		TEST(ranks_that_call_different_things_are_told_which),
		TEST(a_rank_that_does_not_come_is_named),
		TEST(the_line_of_a_timeout_says_who_waits_for_whom),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("collective", tests, NULL, NULL);
}
