/* SPDX-License-Identifier: MIT */
/*
 * A chip's view of a domain: who is in it, its buffers, and signals between its members,
 * on threads and on chips.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "completion/fence.h"
#include "ranks.h"

enum {
	SIGNALS,
	DATA,
	SMALL,
};

static const struct rp_domain_buffer buffers[] = {
	[SIGNALS] = { "signals", RP_INT32, RP_BUFFER_DEFAULT, 40 },
	[DATA] = { "data", RP_FLOAT32, RP_BUFFER_DEFAULT, 3000 },
	[SMALL] = { "small", RP_UINT8, RP_BUFFER_DEFAULT, 5 },
};

/* TSan sees nothing of processes. */
#define CHIPS_TOO (!RPI_FENCE_TSAN)

typedef int (*job_fn)(struct rp_chip *chip, struct rp_comm *comm,
		      const struct rank_job *job);

static struct ranks *open_ranks(uint32_t size, bool threads, enum rp_wait_policy wait)
{
	struct ranks_options options = {
		.size = size,
		.threads = threads,
		.buffers = buffers,
		.buffer_count = COUNT(buffers),
		.timeout_ns = INT64_C(30) * 1000000000,
		.wait = wait,
	};

	return ranks_open(&options);
}

/* Runs that must succeed, of two ranks, under every way of waiting. */
static void on_two(job_fn fn, uint64_t word)
{
	for (int wait = RP_WAIT_HYBRID; wait <= RP_WAIT_BLOCK; wait++)
		for (int chips = 0; chips <= CHIPS_TOO; chips++) {
			struct ranks *ranks =
				open_ranks(2, !chips, (enum rp_wait_policy)wait);
			struct rank_job job = { .fn = fn, .words = { word } };
			int err = 0;

			for (int run = 0; !err && run < 3; run++)
				err = ranks_run(ranks, &job);
			if (err)
				fail_msg("%s, wait %d: %d \"%s\"",
					 chips ? "chips" : "threads", wait, err,
					 rp_last_error());
			ranks_close(ranks);
		}
}

#define REFUSED(err, call, ...)                                                        \
	do {                                                                           \
		static const char *const needles[] = { __VA_ARGS__ };                  \
		RANK_MUST(chip, (call) == (err));                                      \
		for (size_t n_ = 0; n_ < COUNT(needles); n_++)                         \
			if (!strstr(rp_last_error(), needles[n_]))                     \
				return rp_chip_fail(chip, -EBADMSG, "line %d: \"%s\"", \
						    __LINE__, rp_last_error());        \
	} while (0)

/* --- Who and where ----------------------------------------------------------- */

static int look(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	uint32_t rank = rp_comm_rank(comm), size = rp_comm_size(comm);
	struct rp_tensor tensor;
	uint8_t *window;

	RANK_MUST(chip, size == job->words[0]);
	RANK_MUST(chip, rp_comm_chip(comm, rank) == rp_chip_id(chip));
	RANK_MUST(chip, rp_comm_chip(comm, size) == UINT32_MAX);
	RANK_MUST(chip, rp_comm_window(comm, size) == NULL);
	RANK_MUST(chip, rp_comm_window_bytes(comm) >= 40 * 4 + 3000 * 4 + 5);
	RANK_MUST(chip, rp_comm_generation(comm) >= 1);
	RANK_MUST(chip, rp_comm_buffer(comm, "signals") == SIGNALS);
	RANK_MUST(chip, rp_comm_buffer(comm, "small") == SMALL);
	for (uint32_t peer = 0; peer < size; peer++) {
		window = rp_comm_window(comm, peer);
		RANK_MUST(chip, window);
		RANK_TRY(rp_comm_tensor(comm, peer, DATA, &tensor));
		RANK_MUST(chip, (uint8_t *)tensor.data > window);
		RANK_MUST(chip, (uint8_t *)tensor.data + 12000 <=
					window + rp_comm_window_bytes(comm));
		RANK_MUST(chip, tensor.dtype == RP_FLOAT32 && tensor.rank == 1 &&
					tensor.shape[0] == 3000 && !tensor.resident);
		RANK_MUST(chip, (uintptr_t)tensor.data % 64 == 0);
	}
	REFUSED(-ENOENT, rp_comm_buffer(comm, "signal"), "comm_buffer",
		"no buffer 'signal'");
	REFUSED(-EINVAL, rp_comm_buffer(comm, NULL), "comm_buffer: name NULL");
	REFUSED(-EINVAL, rp_comm_tensor(comm, size, DATA, &tensor), "comm_tensor: rank");
	REFUSED(-EINVAL, rp_comm_tensor(comm, 0, 3, &tensor), "comm_tensor: buffer 3",
		"has 3");
	REFUSED(-EINVAL, rp_comm_tensor(comm, 0, DATA, NULL), "comm_tensor: out NULL");
	REFUSED(-EINVAL, rp_comm_zero(comm, 3), "comm_zero: buffer 3");
	return 0;
}

static void a_rank_knows_its_place_its_peers_and_the_buffers(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= 4; size++)
		for (int chips = 0; chips <= CHIPS_TOO; chips++) {
			struct rank_job job = { .fn = look, .words = { size } };
			struct ranks *ranks = open_ranks(size, !chips, RP_WAIT_HYBRID);

			assert_ok(ranks_run(ranks, &job));
			ranks_close(ranks);
		}
}

static int zero_one(struct rp_chip *chip, struct rp_comm *comm,
		    const struct rank_job *job)
{
	struct rp_tensor data, small;
	const uint8_t *bytes;

	(void)job;
	RANK_TRY(rp_comm_tensor(comm, rp_comm_rank(comm), DATA, &data));
	RANK_TRY(rp_comm_tensor(comm, rp_comm_rank(comm), SMALL, &small));
	memset(data.data, 1, 12000);
	memset(small.data, 2, 5);
	RANK_TRY(rp_comm_zero(comm, DATA));
	bytes = data.data;
	for (int i = 0; i < 12000; i++)
		RANK_MUST(chip, bytes[i] == 0);
	bytes = small.data;
	for (int i = 0; i < 5; i++)
		RANK_MUST(chip, bytes[i] == 2);
	return 0;
}

static void a_chip_zeroes_a_buffer_and_nothing_beside_it(void **state)
{
	(void)state;
	on_two(zero_one, 0);
}

/* --- Signals ------------------------------------------------------------------- */

/* words: how often. Each rank adds to the other's cell, waits for its own, and takes
 * the credit back. What the other wrote before is there. */
static int there_and_back(struct rp_chip *chip, struct rp_comm *comm,
			  const struct rank_job *job)
{
	uint32_t rank = rp_comm_rank(comm), peer = !rank;
	struct rp_tensor mine, theirs;
	uint64_t seed = rank + 1;
	float *own, *other;

	RANK_TRY(rp_comm_tensor(comm, rank, DATA, &mine));
	RANK_TRY(rp_comm_tensor(comm, peer, DATA, &theirs));
	own = mine.data;
	other = theirs.data;
	for (uint64_t i = 1; i <= job->words[0]; i++) {
		if (i % 64 == 0)
			rank_dawdle(&seed);
		other[i % 100] = (float)i;
		RANK_TRY(rp_comm_notify(comm, SIGNALS, peer, 7, 1, RP_NOTIFY_ADD));
		RANK_TRY(rp_comm_wait(comm, SIGNALS, 7, RP_GE, 1, 0));
		RANK_MUST(chip, own[i % 100] == (float)i);
		RANK_TRY(rp_comm_notify(comm, SIGNALS, rank, 7, -1, RP_NOTIFY_ADD));
	}
	RANK_TRY(rp_comm_barrier(comm));
	RANK_MUST(chip, rp_comm_test(comm, SIGNALS, 7, RP_EQ, 0) == 1);
	return 0;
}

static void no_wake_up_is_lost_or_early(void **state)
{
	(void)state;
	/* Under the block policy each costs a sleep. */
	on_two(there_and_back, RPI_FENCE_TSAN ? 1000 : 3000);
}

static void ten_thousand_times(void **state)
{
	struct rank_job job = { .fn = there_and_back, .words = { 10000 } };
	struct ranks *ranks = open_ranks(2, !CHIPS_TOO, RP_WAIT_HYBRID);

	(void)state;
	assert_ok(ranks_run(ranks, &job));
	ranks_close(ranks);
}

static int compares(struct rp_chip *chip, struct rp_comm *comm,
		    const struct rank_job *job)
{
	static const struct {
		enum rp_compare compare;
		bool less, same, more; /* of the value against what is expected */
	} cases[] = {
		{ RP_EQ, false, true, false }, { RP_NE, true, false, true },
		{ RP_GE, false, true, true },  { RP_GT, false, false, true },
		{ RP_LE, true, true, false },  { RP_LT, true, false, false },
	};

	(void)job;
	for (size_t k = 0; k < COUNT(cases); k++) {
		const int64_t none = 1; /* ns */
		enum rp_compare compare = cases[k].compare;
		int32_t values[] = { INT32_MIN, -1, 0, 1, INT32_MAX };

		for (size_t v = 0; v < COUNT(values); v++) {
			bool holds = values[v] < 0   ? cases[k].less
				     : values[v] > 0 ? cases[k].more
						     : cases[k].same;

			RANK_TRY(rp_comm_notify(comm, SIGNALS, rp_comm_rank(comm), 39,
						values[v], RP_NOTIFY_SET));
			RANK_MUST(chip,
				  rp_comm_test(comm, SIGNALS, 39, compare, 0) == holds);
			RANK_MUST(chip, rp_comm_wait(comm, SIGNALS, 39, compare, 0,
						     none) == (holds ? 0 : -ETIMEDOUT));
		}
	}
	/* Sums wrap. */
	RANK_TRY(rp_comm_notify(comm, SIGNALS, rp_comm_rank(comm), 39, 1, RP_NOTIFY_ADD));
	RANK_MUST(chip, rp_comm_test(comm, SIGNALS, 39, RP_EQ, INT32_MIN) == 1);
	return 0;
}

static void every_comparison_holds_when_it_should(void **state)
{
	(void)state;
	on_two(compares, 0);
}

static int notified_before(struct rp_chip *chip, struct rp_comm *comm,
			   const struct rank_job *job)
{
	uint32_t rank = rp_comm_rank(comm);

	(void)chip;
	(void)job;
	RANK_TRY(rp_comm_notify(comm, SIGNALS, !rank, 0, 5, RP_NOTIFY_SET));
	RANK_TRY(rp_comm_barrier(comm));
	/* It was there long before. */
	return rp_comm_wait(comm, SIGNALS, 0, RP_EQ, 5, 1);
}

static void a_signal_that_came_before_the_wait_is_found(void **state)
{
	(void)state;
	on_two(notified_before, 0);
}

/* Rank 1 sleeps for good when rank 0 notifies at last. */
static int notified_late(struct rp_chip *chip, struct rp_comm *comm,
			 const struct rank_job *job)
{
	(void)chip;
	if (rp_comm_rank(comm) == 1)
		return rp_comm_wait(comm, SIGNALS, 1, RP_GE, 3, (int64_t)job->words[0]);
	for (int i = 0; i < 3; i++) {
		usleep(3000);
		RANK_TRY(rp_comm_notify(comm, SIGNALS, 1, 1, 1, RP_NOTIFY_ADD));
	}
	return 0;
}

static void a_sleeper_wakes_for_what_it_waits_for_only(void **state)
{
	(void)state;
	on_two(notified_late, 0);
	on_two(notified_late, (uint64_t)RP_WAIT_FOREVER);
}

static int wrong_signals(struct rp_chip *chip, struct rp_comm *comm,
			 const struct rank_job *job)
{
	(void)job;
	REFUSED(-EINVAL, rp_comm_notify(comm, SIGNALS, 2, 0, 1, RP_NOTIFY_ADD),
		"comm_notify: rank 2", "has 2");
	REFUSED(-EINVAL, rp_comm_notify(comm, 3, 0, 0, 1, RP_NOTIFY_ADD),
		"comm_notify: buffer 3", "has 3");
	REFUSED(-EINVAL, rp_comm_notify(comm, DATA, 0, 0, 1, RP_NOTIFY_ADD),
		"comm_notify: buffer 'data' of float32, expected signals of int32");
	REFUSED(-EINVAL, rp_comm_notify(comm, SIGNALS, 0, 40, 1, RP_NOTIFY_ADD),
		"comm_notify: offset 40, the buffer 'signals' has 40 cells");
	REFUSED(-EINVAL, rp_comm_notify(comm, SIGNALS, 0, 0, 1, 2),
		"comm_notify: op 2, expected RP_NOTIFY_ADD or RP_NOTIFY_SET");
	REFUSED(-EINVAL, rp_comm_wait(comm, SIGNALS, UINT64_MAX, RP_EQ, 0, 0),
		"comm_wait: offset 18446744073709551615");
	REFUSED(-EINVAL, rp_comm_wait(comm, SIGNALS, 0, 6, 0, 0),
		"comm_wait: comparison 6, expected 0..5");
	REFUSED(-EINVAL, rp_comm_wait(comm, SIGNALS, 0, RP_EQ, 0, -2),
		"comm_wait: timeout_ns -2, expected RP_WAIT_FOREVER or more");
	REFUSED(-EINVAL, rp_comm_wait(comm, SMALL, 0, RP_EQ, 0, 0), "'small' of uint8");
	REFUSED(-EINVAL, rp_comm_test(comm, SIGNALS, 40, RP_EQ, 0), "comm_test: offset");
	REFUSED(-EINVAL, rp_comm_test(comm, SIGNALS, 0, -1, 0), "comm_test: comparison");
	RANK_MUST(chip, rp_comm_test(comm, SIGNALS, 0, RP_EQ, 0) == 1);
	rp_comm_fence();
	return 0;
}

static void wrong_signals_are_named(void **state)
{
	(void)state;
	on_two(wrong_signals, 0);
}

/* --- Waits that end otherwise ---------------------------------------------------- */

static int wait_in_vain(struct rp_chip *chip, struct rp_comm *comm,
			const struct rank_job *job)
{
	(void)chip;
	if (rp_comm_rank(comm) == 0)
		return 0;
	RANK_TRY(rp_comm_notify(comm, SIGNALS, 1, 12, 41, RP_NOTIFY_SET));
	return rp_comm_wait(comm, SIGNALS, 12, RP_GE, 42, (int64_t)job->words[0]);
}

static void a_deadline_names_who_waits_where_for_what(void **state)
{
	(void)state;
	for (int wait = RP_WAIT_HYBRID; wait <= RP_WAIT_BLOCK; wait++)
		for (int chips = 0; chips <= CHIPS_TOO; chips++) {
			struct ranks_options options = {
				.size = 2,
				.threads = !chips,
				.buffers = buffers,
				.buffer_count = COUNT(buffers),
				.timeout_ns = 30 * 1000000,
				.wait = (enum rp_wait_policy)wait,
			};
			struct ranks *ranks = ranks_open(&options);
			struct rank_job job = { .fn = wait_in_vain };

			assert_int_equal(ranks_run(ranks, &job), -ETIMEDOUT);
			assert_says(
				"comm_wait: rank 1, 'signals'[12] is 41 after 0.03 s, "
				"expected >= 42");
			/* Its own deadline goes before the domain's. */
			job.words[0] = 2000000;
			assert_int_equal(ranks_run(ranks, &job), -ETIMEDOUT);
			assert_says("after 0.002 s, expected >= 42");
			if (chips)
				assert_says("entry 'rank'", "chip 1");
			ranks_close(ranks);
		}
}

/* Rank 2 fails while the others wait for ever, spinning or asleep. */
static int fail_among_waiters(struct rp_chip *chip, struct rp_comm *comm,
			      const struct rank_job *job)
{
	int err;

	if (rp_comm_rank(comm) == 2) {
		usleep((useconds_t)job->words[0]);
		return rp_chip_fail(chip, -EDOM, "rank 2 has had enough");
	}
	err = rp_comm_wait(comm, SIGNALS, 0, RP_NE, 0, RP_WAIT_FOREVER);
	RANK_MUST(chip, err == -ECANCELED);
	RANK_MUST(chip, strstr(rp_last_error(), "comm_wait: rank"));
	RANK_MUST(chip, strstr(rp_last_error(), "the run has failed elsewhere"));
	return err;
}

static void a_run_that_fails_elsewhere_ends_every_wait(void **state)
{
	static const uint64_t delays[] = { 0, 100, 5000 };

	(void)state;
	for (int wait = RP_WAIT_HYBRID; wait <= RP_WAIT_BLOCK; wait++)
		for (int chips = 0; chips <= CHIPS_TOO; chips++) {
			struct ranks *ranks =
				open_ranks(3, !chips, (enum rp_wait_policy)wait);

			for (int i = 0; i < 12; i++) {
				struct rank_job job = {
					.fn = fail_among_waiters,
					.words = { delays[i % 3] },
				};

				assert_int_equal(ranks_run(ranks, &job), -EDOM);
				assert_says("rank 2 has had enough");
			}
			ranks_close(ranks);
		}
}

static int hand_on(struct rp_chip *chip, struct rp_comm *comm, const struct rank_job *job)
{
	(void)chip;
	(void)job;
	return rp_comm_rank(comm) ? 0 : rp_comm_buffer(comm, "nothing");
}

static void an_entry_that_hands_a_code_on_hands_on_the_line(void **state)
{
	struct rank_job job = { .fn = hand_on };

	(void)state;
	for (int chips = 0; chips <= CHIPS_TOO; chips++) {
		struct ranks *ranks = open_ranks(2, !chips, RP_WAIT_HYBRID);

		assert_int_equal(ranks_run(ranks, &job), -ENOENT);
		assert_says("comm_buffer: the domain '", "has no buffer 'nothing'");
		ranks_close(ranks);
	}
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_rank_knows_its_place_its_peers_and_the_buffers),
		TEST(a_chip_zeroes_a_buffer_and_nothing_beside_it),
		TEST(no_wake_up_is_lost_or_early),
		TEST(ten_thousand_times),
		TEST(every_comparison_holds_when_it_should),
		TEST(a_signal_that_came_before_the_wait_is_found),
		TEST(a_sleeper_wakes_for_what_it_waits_for_only),
		TEST(wrong_signals_are_named),
		TEST(a_deadline_names_who_waits_where_for_what),
		TEST(a_run_that_fails_elsewhere_ends_every_wait),
		TEST(an_entry_that_hands_a_code_on_hands_on_the_line),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
