/* SPDX-License-Identifier: MIT */
/* The end of a worker: what is drained, what is refused, what closers hear. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "deed.h"
#include "proc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct proc_census at_start;

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	proc_census_take(&at_start);
	return 0;
}

static void assert_text_has(const char *part)
{
	if (!strstr(rp_last_error(), part))
		fail_msg("'%s' is not in '%s'", part, rp_last_error());
}

static struct rp_worker *prepare(uint32_t chip_count)
{
	struct rp_worker_options options;
	struct rp_worker *worker;

	deed_options(&options, chip_count);
	assert_int_equal(deed_prepare(&options, &worker), 0);
	return worker;
}

static void release(struct rp_worker *worker)
{
	rp_worker_free(worker);
	assert_true(proc_census_same(&at_start));
}

static void close_twice_is_close_once(void **state)
{
	struct rp_worker *worker = prepare(2);

	(void)state;
	assert_int_equal(rp_worker_close(worker, -2), -EINVAL);
	assert_int_equal(rp_worker_close(worker, INT64_MIN), -EINVAL);
	assert_int_equal(rp_worker_close(NULL, 0), -EINVAL);
	assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
	assert_int_equal(rp_worker_close(worker, 0), 0);
	assert_int_equal(proc_children(getpid(), NULL, 0), at_start.children);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_int_equal(rp_worker_close(worker, INT64_MAX), 0);
	release(worker);
	rp_worker_free(NULL);
}

static void every_call_after_close_is_refused(void **state)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_worker *worker = prepare(1);
	struct rp_handle handle, done;

	(void)state;
	assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &done), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle), -ESHUTDOWN);
	assert_text_has("rp_worker_submit");
	assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), -ESHUTDOWN);
	assert_int_equal(rp_worker_fd(worker), -ESHUTDOWN);
	assert_text_has("rp_worker_fd");
	assert_int_equal(rp_worker_pid(worker, 0), 0);
	/* What is only read stays readable. */
	assert_int_equal(rp_worker_get_stats(worker, &stats), 0);
	assert_int_equal(stats.dispatches, 1);
	assert_int_equal(rp_worker_chip_count(worker), 1);
	assert_int_equal(rp_worker_reap(worker, &handle, 1), 0);
	assert_int_equal(rp_handle_wait(done, 0), 0);
	assert_int_equal(rp_handle_done(done), 1);
	assert_int_equal(rp_handle_release(done), 0);
	assert_int_equal(rp_handle_release(done), -ESTALE);
	release(worker);
}

static void handles_stay_readable_after_close_and_go_stale_at_free(void **state)
{
	struct rp_worker *worker = prepare(1);
	struct rp_handle good, bad, waited;
	int i;

	(void)state;
	assert_int_equal(deed_submit(worker, 0, DEED_FAIL, EXFULL, &waited), 0);
	assert_int_equal(rp_handle_wait(waited, RP_WAIT_FOREVER), -EXFULL);
	assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &good), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_FAIL, EBADMSG, &bad), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), -EBADMSG);
	for (i = 0; i < 3; i++) {
		assert_int_equal(rp_handle_wait(bad, 0), -EBADMSG);
		assert_int_equal(rp_handle_wait(good, RP_WAIT_FOREVER), 0);
		assert_int_equal(rp_handle_wait(waited, 0), -EXFULL);
		assert_text_has("'act'");
	}
	release(worker);
	assert_int_equal(rp_handle_wait(good, RP_WAIT_FOREVER), -ESTALE);
	assert_int_equal(rp_handle_done(bad), -ESTALE);
	assert_int_equal(rp_handle_release(waited), -ESTALE);
}

static void close_drains_in_order_and_tells_the_first_error(void **state)
{
	struct rp_worker *worker = prepare(2);
	struct rp_handle first, second;

	(void)state;
	/* The second one ends long before the first. */
	assert_int_equal(deed_submit(worker, 0, DEED_GATE, 1, &first), 0);
	assert_int_equal(deed_submit(worker, 1, DEED_FAIL, EBADMSG, &second), 0);
	deed_await_entered(0, 1);
	assert_int_equal(rp_handle_wait(first, 0), -ETIMEDOUT);
	atomic_store(&deed_pad->gate, 1);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), -EBADMSG);
	assert_int_equal(rp_handle_wait(first, 0), 0);
	release(worker);

	worker = prepare(2);
	deed_pad_reset();
	assert_int_equal(deed_submit(worker, 0, DEED_FAIL, EXFULL, &first), 0);
	assert_int_equal(deed_submit(worker, 1, DEED_FAIL, EBADMSG, &second), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), -EXFULL);
	assert_text_has(strerror(EXFULL));
	assert_text_has(strerror(EBADMSG));
	/* The lines of both runs, the first one first. */
	assert_true(strstr(rp_last_error(), "run 1") < strstr(rp_last_error(), "run 2"));
	assert_non_null(strstr(rp_last_error(), "run 1"));
	release(worker);
}

static void an_error_that_was_heard_is_not_told_again(void **state)
{
	struct rp_worker *worker = prepare(1);
	struct rp_handle first, second;

	(void)state;
	assert_int_equal(deed_submit(worker, 0, DEED_FAIL, EXFULL, &first), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_FAIL, EBADMSG, &second), 0);
	assert_int_equal(rp_handle_wait(first, RP_WAIT_FOREVER), -EXFULL);
	assert_int_equal(rp_handle_wait(second, RP_WAIT_FOREVER), -EBADMSG);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	release(worker);
}

/* A third submit has recycled the failed run's frame; its error is still unheard. */
static void an_error_that_nobody_heard_survives_its_frame(void **state)
{
	struct rp_worker *worker = prepare(1);
	struct rp_handle failed, handle;
	int i;

	(void)state;
	assert_int_equal(deed_submit(worker, 0, DEED_FAIL, EXFULL, &failed), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle), 0);
		assert_int_equal(rp_handle_release(handle), 0);
	}
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), -EXFULL);
	assert_int_equal(rp_handle_wait(failed, 0), -EXFULL);
	release(worker);
}

static void a_released_run_is_drained_too(void **state)
{
	struct rp_worker *worker = prepare(1);
	struct rp_handle handle;

	(void)state;
	assert_int_equal(deed_submit(worker, 0, DEED_SLEEP, 20000, &handle), 0);
	assert_int_equal(rp_handle_release(handle), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_SLEEP, 20000, &handle), 0);
	assert_int_equal(rp_handle_release(handle), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_int_equal(atomic_load(&deed_pad->left[0]), 2);
	release(worker);
}

static void free_without_close_ends_everything(void **state)
{
	struct rp_worker *worker = prepare(2);
	struct rp_handle handle;

	(void)state;
	release(worker);
	worker = prepare(2);
	assert_int_equal(deed_submit(worker, DEED_ALL_CHIPS, DEED_HANG, 0, &handle), 0);
	release(worker);
	assert_int_equal(rp_handle_wait(handle, 0), -ESTALE);
}

struct closer {
	pthread_t thread;
	struct rp_worker *worker;
	int ret;
	int children; /* left when close had returned */
};

static void *close_in_thread(void *arg)
{
	struct closer *closer = arg;

	closer->ret = rp_worker_close(closer->worker, RP_WAIT_FOREVER);
	closer->children = proc_children(getpid(), NULL, 0);
	return NULL;
}

static void of_several_closers_one_works_and_all_return_after_it(void **state)
{
	int round;

	(void)state;
	for (round = 0; round < 10; round++) {
		struct rp_worker *worker = prepare(2);
		struct closer closers[4];
		struct rp_handle handles[2];
		size_t i;
		int errors = 0;

		deed_pad_reset();
		assert_int_equal(deed_submit(worker, 0, DEED_SLEEP, 5000, &handles[0]),
				 0);
		assert_int_equal(deed_submit(worker, 1, DEED_FAIL, EXFULL, &handles[1]),
				 0);
		for (i = 0; i < COUNT(closers); i++) {
			closers[i].worker = worker;
			assert_int_equal(pthread_create(&closers[i].thread, NULL,
							close_in_thread, &closers[i]),
					 0);
		}
		for (i = 0; i < COUNT(closers); i++) {
			assert_int_equal(pthread_join(closers[i].thread, NULL), 0);
			assert_int_equal(closers[i].children, at_start.children);
			errors += closers[i].ret == -EXFULL;
			assert_true(!closers[i].ret || closers[i].ret == -EXFULL);
		}
		/* The one that did the work. */
		assert_int_equal(errors, 1);
		assert_int_equal(atomic_load(&deed_pad->left[0]), 1);
		release(worker);
	}
}

/* Close while others submit. */

#define HANDLES_EACH 512

struct submitter {
	pthread_t thread;
	struct rp_worker *worker;
	struct rp_handle handles[HANDLES_EACH];
	int count;
	int ret;
	bool waits; /* for each before the next */
};

static void *submit_until_refused(void *arg)
{
	struct submitter *submitter = arg;

	while (submitter->count < HANDLES_EACH) {
		struct rp_handle *handle = &submitter->handles[submitter->count];

		submitter->ret = deed_submit(submitter->worker, DEED_ALL_CHIPS,
					     DEED_NOTHING, 0, handle);
		if (submitter->ret)
			break;
		submitter->count++;
		if (submitter->waits && rp_handle_wait(*handle, RP_WAIT_FOREVER))
			break;
	}
	return NULL;
}

static void start_submitters(struct submitter *submitters, size_t count,
			     struct rp_worker *worker)
{
	size_t i;

	for (i = 0; i < count; i++) {
		submitters[i].worker = worker;
		submitters[i].count = 0;
		submitters[i].ret = 0;
		submitters[i].waits = i % 2;
		assert_int_equal(pthread_create(&submitters[i].thread, NULL,
						submit_until_refused, &submitters[i]),
				 0);
	}
}

static uint64_t join_submitters(struct submitter *submitters, size_t count)
{
	uint64_t accepted = 0;
	size_t i;
	int j;

	for (i = 0; i < count; i++) {
		assert_int_equal(pthread_join(submitters[i].thread, NULL), 0);
		assert_true(!submitters[i].ret || submitters[i].ret == -ESHUTDOWN);
		for (j = 0; j < submitters[i].count; j++) {
			/* Accepted, so it was run; the closer has seen to that. */
			assert_int_equal(rp_handle_wait(submitters[i].handles[j], 0), 0);
			accepted++;
		}
	}
	return accepted;
}

static void a_submit_beside_close_is_run_or_refused(void **state)
{
	static struct submitter submitters[3];
	unsigned seed = 3;
	int round;

	(void)state;
	for (round = 0; round < 40; round++) {
		struct rp_worker *worker = prepare(2);
		uint64_t accepted;

		deed_pad_reset();
		start_submitters(submitters, 3, worker);
		proc_pause_us((unsigned)rand_r(&seed) % 1500);
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		accepted = join_submitters(submitters, 3);
		assert_int_equal(atomic_load(&deed_pad->left[0]), accepted);
		assert_int_equal(atomic_load(&deed_pad->left[1]), accepted);
		release(worker);
	}
}

/* A thread that loses its CPU anywhere in a submit or a wait, for longer than the
 * close takes. */
static void nap(int sig)
{
	(void)sig;
	proc_pause_us(15000);
}

static void a_submitter_held_anywhere_during_close_loses_nothing(void **state)
{
	struct sigaction action = { .sa_handler = nap };
	struct sigaction saved;
	static struct submitter submitter;
	unsigned seed = 4;
	int round;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, &saved), 0);
	for (round = 0; round < 150; round++) {
		struct rp_worker *worker = prepare(1);
		uint64_t accepted;

		deed_pad_reset();
		start_submitters(&submitter, 1, worker);
		submitter.waits = round % 2;
		proc_pause_us(300 + (unsigned)rand_r(&seed) % 300);
		pthread_kill(submitter.thread, SIGUSR1);
		proc_pause_us(300);
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		accepted = join_submitters(&submitter, 1);
		assert_int_equal(atomic_load(&deed_pad->left[0]), accepted);
		release(worker);
	}
	sigaction(SIGUSR1, &saved, NULL);
}

static int hang_when_told(struct rp_chip *chip, uint64_t operand)
{
	(void)chip;
	(void)operand;
	while (atomic_load(&deed_pad->words[0]))
		proc_pause_us(100);
	return 0;
}

/* What its last accepted run ended with; a wait this long has hung. */
#define HUNG_NS INT64_C(20000000000)

static void *submit_custom_until_refused(void *arg)
{
	struct submitter *submitter = arg;
	struct rp_handle handle;
	int outcome = 0;

	while (!outcome && !(submitter->ret = deed_submit(submitter->worker, 0,
							  DEED_CUSTOM, 0, &handle))) {
		outcome = rp_handle_wait(handle, HUNG_NS);
		rp_handle_release(handle);
	}
	return (void *)(intptr_t)outcome;
}

/* As above, with an entry that does not return any more: whichever moment the
 * submitter was held at, its run is refused or ended, and nobody waits for ever. */
static void a_run_accepted_beside_close_is_ended_by_the_deadline(void **state)
{
	struct sigaction action = { .sa_handler = nap };
	struct sigaction saved;
	static struct submitter submitter;
	unsigned seed = 6;
	int round;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, &saved), 0);
	deed_custom = hang_when_told;
	for (round = 0; round < 200; round++) {
		struct rp_worker *worker = prepare(1);
		void *outcome;
		int ret;

		deed_pad_reset();
		submitter.worker = worker;
		assert_int_equal(pthread_create(&submitter.thread, NULL,
						submit_custom_until_refused, &submitter),
				 0);
		proc_pause_us(300 + (unsigned)rand_r(&seed) % 300);
		pthread_kill(submitter.thread, SIGUSR1);
		proc_pause_us(300);
		atomic_store(&deed_pad->words[0], 1);
		ret = rp_worker_close(worker, 50000000);
		assert_true(!ret || ret == -ETIMEDOUT);
		assert_int_equal(pthread_join(submitter.thread, &outcome), 0);
		/* The run that close has killed, or none that was in flight. */
		if ((intptr_t)outcome && (!ret || (intptr_t)outcome != -EOWNERDEAD))
			fail_msg("close returned %d, a run ended with %d", ret,
				 (int)(intptr_t)outcome);
		release(worker);
	}
	sigaction(SIGUSR1, &saved, NULL);
}

static void *submit_one(void *arg)
{
	struct submitter *submitter = arg;

	submitter->ret = deed_submit(submitter->worker, 0, DEED_NOTHING, 0,
				     &submitter->handles[0]);
	return NULL;
}

static bool counts_a_frame_wait(void *arg)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	return !rp_worker_get_stats(arg, &stats) && stats.frame_waits;
}

static bool is_closing(void *arg)
{
	return rp_worker_fd(arg) == -ESHUTDOWN;
}

static void a_submit_that_waits_for_a_frame_is_refused_by_close(void **state)
{
	static struct submitter submitter;
	struct rp_worker *worker = prepare(1);
	struct rp_handle handles[2];
	struct closer closer = { .worker = worker };

	(void)state;
	submitter.worker = worker;
	assert_int_equal(deed_submit(worker, 0, DEED_GATE, 1, &handles[0]), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_GATE, 2, &handles[1]), 0);
	assert_int_equal(pthread_create(&submitter.thread, NULL, submit_one, &submitter),
			 0);
	assert_true(proc_await(counts_a_frame_wait, worker));
	assert_int_equal(pthread_create(&closer.thread, NULL, close_in_thread, &closer),
			 0);
	assert_true(proc_await(is_closing, worker));
	atomic_store(&deed_pad->gate, 2);
	assert_int_equal(pthread_join(submitter.thread, NULL), 0);
	assert_int_equal(pthread_join(closer.thread, NULL), 0);
	assert_int_equal(submitter.ret, -ESHUTDOWN);
	assert_int_equal(closer.ret, 0);
	assert_int_equal(rp_handle_wait(handles[0], 0), 0);
	assert_int_equal(rp_handle_wait(handles[1], 0), 0);
	assert_int_equal(atomic_load(&deed_pad->left[0]), 2);
	release(worker);
}

static void *wait_in_thread(void *arg)
{
	return (void *)(intptr_t)rp_handle_wait(*(struct rp_handle *)arg,
						RP_WAIT_FOREVER);
}

static void the_deadline_of_close_ends_waiters_and_submitters(void **state)
{
	static struct submitter submitter;
	struct rp_worker *worker = prepare(2);
	struct rp_handle handles[2];
	pthread_t waiters[4];
	void *ret;
	size_t i;

	(void)state;
	submitter.worker = worker;
	assert_int_equal(deed_submit(worker, 0, DEED_HANG, 0, &handles[0]), 0);
	assert_int_equal(deed_submit(worker, 1, DEED_SPIN, 0, &handles[1]), 0);
	for (i = 0; i < COUNT(waiters); i++)
		assert_int_equal(pthread_create(&waiters[i], NULL, wait_in_thread,
						&handles[i % 2]),
				 0);
	assert_int_equal(pthread_create(&submitter.thread, NULL, submit_one, &submitter),
			 0);
	assert_true(proc_await(counts_a_frame_wait, worker));
	assert_int_equal(rp_worker_close(worker, 50000000), -ETIMEDOUT);
	assert_text_has("50000000");
	assert_int_equal(proc_children(getpid(), NULL, 0), at_start.children);
	for (i = 0; i < COUNT(waiters); i++) {
		assert_int_equal(pthread_join(waiters[i], &ret), 0);
		assert_int_equal((intptr_t)ret, -EOWNERDEAD);
	}
	assert_int_equal(pthread_join(submitter.thread, NULL), 0);
	assert_int_equal(submitter.ret, -ESHUTDOWN);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	release(worker);
}

static void a_submitter_that_waits_for_room_is_ended_by_the_deadline(void **state)
{
	static struct submitter submitter;
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_handle handle;

	(void)state;
	deed_options(&options, 1);
	options.task_ring_slots = 4;
	assert_int_equal(deed_prepare(&options, &worker), 0);
	submitter.worker = worker;
	/* Three of four slots, so that the next run fills the ring with its second. */
	assert_int_equal(deed_submit_many(worker, 0, DEED_HANG, 0, 4, &handle), 0);
	assert_int_equal(pthread_create(&submitter.thread, NULL, submit_one, &submitter),
			 0);
	proc_pause_us(5000);
	assert_int_equal(rp_worker_close(worker, 50000000), -ETIMEDOUT);
	assert_int_equal(pthread_join(submitter.thread, NULL), 0);
	assert_true(submitter.ret == -EOWNERDEAD || submitter.ret == -ESHUTDOWN);
	assert_int_equal(rp_handle_wait(handle, 0), -EOWNERDEAD);
	release(worker);
}

static void another_thread_than_the_preparing_one_may_close(void **state)
{
	struct rp_worker *worker = prepare(2);
	struct closer closer = { .worker = worker };

	(void)state;
	assert_int_equal(pthread_create(&closer.thread, NULL, close_in_thread, &closer),
			 0);
	assert_int_equal(pthread_join(closer.thread, NULL), 0);
	assert_int_equal(closer.ret, 0);
	assert_int_equal(closer.children, at_start.children);
	release(worker);
}

static void two_workers_end_apart(void **state)
{
	struct rp_worker *one = prepare(1);
	struct rp_worker *two = prepare(2);

	(void)state;
	assert_int_equal(deed_run(one, 0, DEED_NOTHING, 0), 0);
	rp_worker_free(one);
	assert_int_equal(deed_run(two, DEED_ALL_CHIPS, DEED_NOTHING, 0), 0);
	assert_int_equal(rp_worker_close(two, RP_WAIT_FOREVER), 0);
	release(two);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(close_twice_is_close_once),
		TEST(every_call_after_close_is_refused),
		TEST(handles_stay_readable_after_close_and_go_stale_at_free),
		TEST(close_drains_in_order_and_tells_the_first_error),
		TEST(an_error_that_was_heard_is_not_told_again),
		TEST(an_error_that_nobody_heard_survives_its_frame),
		TEST(a_released_run_is_drained_too),
		TEST(free_without_close_ends_everything),
		TEST(of_several_closers_one_works_and_all_return_after_it),
		TEST(a_submit_beside_close_is_run_or_refused),
		TEST(a_submitter_held_anywhere_during_close_loses_nothing),
		TEST(a_run_accepted_beside_close_is_ended_by_the_deadline),
		TEST(a_submit_that_waits_for_a_frame_is_refused_by_close),
		TEST(the_deadline_of_close_ends_waiters_and_submitters),
		TEST(a_submitter_that_waits_for_room_is_ended_by_the_deadline),
		TEST(another_thread_than_the_preparing_one_may_close),
		TEST(two_workers_end_apart),
	};

	return cmocka_run_group_tests_name("close", tests, NULL, NULL);
}
