/* SPDX-License-Identifier: MIT */
/* A worker in somebody's event loop: its descriptor in poll, epoll and io_uring, and
 * completions posted to an io_uring of the caller's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "deed.h"
#include "proc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A poll that lasts this long has missed something: a watchdog, not a limit. */
#define LOST_MS	  20000

#define RING_TAG  UINT64_C(0x1234567890abcdef)
#define LOOP_RUNS 3000

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	return 0;
}

static struct rp_worker *prepare(enum rp_sleep_engine engine, uint32_t chip_count)
{
	struct rp_worker_options options;
	struct rp_worker *worker;

	deed_options(&options, chip_count);
	options.sleep_engine = engine;
	assert_int_equal(deed_prepare(&options, &worker), 0);
	return worker;
}

static void end(struct rp_worker *worker)
{
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
}

/* A thread that owns an io_uring may find its system calls interrupted without a
 * signal: the kernel has work for it to do. */
static bool readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	int ready;

	do {
		ready = poll(&poll_fd, 1, timeout_ms);
	} while (ready < 0 && errno == EINTR);
	return ready == 1;
}

static int epoll_look(int epoll_fd, struct epoll_event *event, int timeout_ms)
{
	int ready;

	do {
		ready = epoll_wait(epoll_fd, event, 1, timeout_ms);
	} while (ready < 0 && errno == EINTR);
	return ready;
}

/* A process may raise the descriptor a little after somebody else has collected its
 * run: then there is a look for nothing, and it is quiet again. */
static void assert_goes_quiet(struct rp_worker *worker, int fd)
{
	struct rp_handle handle;
	int looks;

	for (looks = 0; looks < 1000; looks++) {
		assert_int_equal(rp_worker_reap(worker, &handle, 1), 0);
		if (!readable(fd, 5))
			return;
	}
	fail_msg("the descriptor stays readable");
}

static bool same(struct rp_handle a, struct rp_handle b)
{
	return a.worker == b.worker && a.run == b.run;
}

static void the_descriptor_tells_of_what_ends_and_goes_quiet(void **state)
{
	static const enum rp_sleep_engine engines[] = { RP_SLEEP_AUTO, RP_SLEEP_FUTEX };
	struct rp_handle handle, reaped;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(engines); i++) {
		struct rp_worker *worker = prepare(engines[i], 1);
		int fd;

		/* Before anybody has asked, nothing is told. */
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
		fd = rp_worker_fd(worker);
		assert_true(fd > 2);
		assert_int_equal(rp_worker_fd(worker), fd);
		assert_false(readable(fd, 0));
		deed_pad_reset();
		assert_int_equal(deed_submit(worker, 0, DEED_GATE, 1, &handle), 0);
		deed_await_entered(0, 1);
		assert_false(readable(fd, 20));
		assert_int_equal(rp_worker_reap(worker, &reaped, 1), 0);
		atomic_store(&deed_pad->gate, 1);
		assert_true(readable(fd, LOST_MS));
		/* Readable until it has been reaped. */
		assert_true(readable(fd, 0));
		assert_int_equal(rp_worker_reap(worker, NULL, 1), 0);
		assert_int_equal(rp_worker_reap(NULL, &reaped, 1), 0);
		assert_int_equal(rp_worker_reap(worker, &reaped, 1), 1);
		assert_true(same(reaped, handle));
		assert_int_equal(rp_handle_wait(reaped, 0), 0);
		assert_goes_quiet(worker, fd);
		assert_int_equal(rp_handle_release(handle), 0);
		end(worker);
	}
}

static void reap_in_parts_keeps_the_descriptor_readable(void **state)
{
	struct rp_worker *worker = prepare(RP_SLEEP_AUTO, 1);
	struct rp_handle handles[12], reaped[12];
	int fd = rp_worker_fd(worker);
	size_t i, j, count = 0;

	(void)state;
	for (i = 0; i < COUNT(handles); i++)
		assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handles[i]), 0);
	for (i = 0; i < COUNT(handles); i++)
		assert_int_equal(rp_handle_wait(handles[i], RP_WAIT_FOREVER), 0);
	while (count < COUNT(handles)) {
		size_t got;

		assert_true(readable(fd, 0));
		got = rp_worker_reap(worker, &reaped[count], 5);
		assert_true(got == 5 || count + got == COUNT(handles));
		count += got;
	}
	/* Each once; two that were in flight together in either order. */
	for (i = 0; i < COUNT(handles); i++) {
		for (j = 0, count = 0; j < COUNT(handles); j++)
			count += same(handles[i], reaped[j]);
		assert_int_equal(count, 1);
	}
	assert_goes_quiet(worker, fd);
	end(worker);
}

static void a_released_handle_is_reaped_stale_or_not_at_all(void **state)
{
	struct rp_worker *worker = prepare(RP_SLEEP_AUTO, 1);
	struct rp_handle handles[2], reaped[8];
	int fd = rp_worker_fd(worker);
	bool seen = false;
	size_t count, i;

	(void)state;
	for (i = 0; i < 2; i++)
		assert_int_equal(deed_submit(worker, 0, DEED_SLEEP, 2000, &handles[i]),
				 0);
	assert_int_equal(rp_handle_release(handles[0]), 0);
	assert_int_equal(rp_handle_wait(handles[1], RP_WAIT_FOREVER), 0);
	assert_true(readable(fd, LOST_MS));
	count = rp_worker_reap(worker, reaped, COUNT(reaped));
	for (i = 0; i < count; i++) {
		if (same(reaped[i], handles[1]))
			seen = true;
		else
			assert_int_equal(rp_handle_wait(reaped[i], 0), -ESTALE);
	}
	assert_true(seen);
	/* A blocking run has no handle: the descriptor may tell, reap has nothing. */
	assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
	assert_goes_quiet(worker, fd);
	end(worker);
}

/* Far more finish, unreaped and released, than there are handles. */
static void an_event_loop_that_forgets_to_reap_stops_nothing(void **state)
{
	struct rp_worker_options options;
	struct rp_handle reaped[64];
	struct rp_worker *worker;
	struct rp_handle handle;
	size_t count;
	int fd, i;

	(void)state;
	deed_options(&options, 1);
	options.handle_count = 4;
	assert_int_equal(deed_prepare(&options, &worker), 0);
	fd = rp_worker_fd(worker);
	for (i = 0; i < 500; i++) {
		assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle), 0);
		assert_int_equal(rp_handle_wait(handle, RP_WAIT_FOREVER), 0);
		if (i < 499)
			assert_int_equal(rp_handle_release(handle), 0);
	}
	count = rp_worker_reap(worker, reaped, COUNT(reaped));
	assert_true(count >= 1 && count <= 8);
	/* The one that is still held is among them, the last to end. */
	assert_true(same(reaped[count - 1], handle));
	assert_goes_quiet(worker, fd);
	end(worker);
}

/* Loops with two in flight. */

struct loop {
	struct rp_worker *worker;
	int submitted, ended, failed;
	/* Threads that wait for the same handles meanwhile. */
	_Atomic uint64_t latest_run, latest_worker;
	_Atomic int stop, wrong;
};

static void loop_submit(struct loop *loop)
{
	struct rp_handle handle;

	if (loop->submitted == LOOP_RUNS)
		return;
	assert_int_equal(
		deed_submit(loop->worker, DEED_ALL_CHIPS, DEED_NOTHING, 0, &handle), 0);
	atomic_store(&loop->latest_worker, handle.worker);
	atomic_store(&loop->latest_run, handle.run);
	loop->submitted++;
}

/* After the descriptor has been readable: take all there is, keep two in flight. */
static void loop_reap(struct loop *loop)
{
	struct rp_handle reaped[1];
	size_t count, i;

	do {
		count = rp_worker_reap(loop->worker, reaped, COUNT(reaped));
		for (i = 0; i < count; i++) {
			assert_int_equal(rp_handle_done(reaped[i]), 1);
			assert_int_equal(rp_handle_wait(reaped[i], 0), 0);
			assert_int_equal(rp_handle_release(reaped[i]), 0);
			loop->ended++;
			loop_submit(loop);
		}
	} while (count == COUNT(reaped));
}

static void *wait_beside(void *arg)
{
	struct loop *loop = arg;

	while (!atomic_load(&loop->stop)) {
		struct rp_handle handle = { atomic_load(&loop->latest_worker),
					    atomic_load(&loop->latest_run) };
		int ret;

		if (!handle.run)
			continue;
		ret = rp_handle_wait(handle, (int64_t)LOST_MS * 1000000);
		if (ret && ret != -ESTALE)
			atomic_store(&loop->wrong, ret);
	}
	return NULL;
}

static void loop_begin(struct loop *loop, enum rp_sleep_engine engine, pthread_t *threads,
		       int thread_count)
{
	int i;

	memset(loop, 0, sizeof(*loop));
	loop->worker = prepare(engine, 2);
	assert_true(rp_worker_fd(loop->worker) > 2);
	for (i = 0; i < thread_count; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_beside, loop), 0);
	loop_submit(loop);
	loop_submit(loop);
}

static void loop_end(struct loop *loop, pthread_t *threads, int thread_count)
{
	int i;

	atomic_store(&loop->stop, 1);
	for (i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&loop->wrong), 0);
	assert_int_equal(loop->ended, LOOP_RUNS);
	assert_goes_quiet(loop->worker, rp_worker_fd(loop->worker));
	end(loop->worker);
}

static void run_epoll_loop(uint32_t flags, enum rp_sleep_engine engine, int thread_count)
{
	struct epoll_event event = { .events = EPOLLIN | flags };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	pthread_t threads[2];
	struct loop loop;

	loop_begin(&loop, engine, threads, thread_count);
	assert_int_equal(
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, rp_worker_fd(loop.worker), &event), 0);
	while (loop.ended < LOOP_RUNS) {
		int ready = epoll_look(epoll_fd, &event, LOST_MS);

		if (ready != 1)
			fail_msg("%d of %d ended, epoll_wait() says %d (%s)", loop.ended,
				 loop.submitted, ready, strerror(errno));
		loop_reap(&loop);
	}
	loop_end(&loop, threads, thread_count);
	close(epoll_fd);
}

static void an_epoll_loop_serves_thousands_level_triggered(void **state)
{
	(void)state;
	run_epoll_loop(0, RP_SLEEP_AUTO, 0);
	run_epoll_loop(0, RP_SLEEP_FUTEX, 0);
	run_epoll_loop(0, RP_SLEEP_AUTO, 2);
}

static void an_epoll_loop_serves_thousands_edge_triggered(void **state)
{
	(void)state;
	run_epoll_loop(EPOLLET, RP_SLEEP_AUTO, 0);
	run_epoll_loop(EPOLLET, RP_SLEEP_FUTEX, 0);
	run_epoll_loop(EPOLLET, RP_SLEEP_AUTO, 2);
}

static bool ring_open(struct io_uring *ring, unsigned entries)
{
	int ret = io_uring_queue_init(entries, ring, 0);

	if (!ret)
		return true;
	print_message("skipped: io_uring is missing: %s\n", strerror(-ret));
	return false;
}

static void poll_again(struct io_uring *ring, int fd, bool multishot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	assert_non_null(sqe);
	if (multishot)
		io_uring_prep_poll_multishot(sqe, fd, POLLIN);
	else
		io_uring_prep_poll_add(sqe, fd, POLLIN);
	assert_int_equal(io_uring_submit(ring), 1);
}

static void await_cqe(struct io_uring *ring, struct io_uring_cqe *cqe_out)
{
	struct __kernel_timespec patience = { .tv_sec = LOST_MS / 1000 };
	struct io_uring_cqe *cqe;
	int ret;

	do {
		ret = io_uring_wait_cqe_timeout(ring, &cqe, &patience);
	} while (ret == -EINTR);
	assert_int_equal(ret, 0);
	*cqe_out = *cqe;
	io_uring_cqe_seen(ring, cqe);
}

static void run_uring_loop(bool multishot, int thread_count)
{
	struct io_uring_cqe cqe;
	pthread_t threads[2];
	struct io_uring ring;
	struct loop loop;

	if (!ring_open(&ring, 64))
		skip();
	loop_begin(&loop, RP_SLEEP_AUTO, threads, thread_count);
	poll_again(&ring, rp_worker_fd(loop.worker), multishot);
	while (loop.ended < LOOP_RUNS) {
		await_cqe(&ring, &cqe);
		assert_true(cqe.res & POLLIN);
		loop_reap(&loop);
		/* A shot that is over: the kernel may end a multishot one, too. */
		if (!(cqe.flags & IORING_CQE_F_MORE))
			poll_again(&ring, rp_worker_fd(loop.worker), multishot);
	}
	loop_end(&loop, threads, thread_count);
	io_uring_queue_exit(&ring);
}

static void a_callers_io_uring_polls_the_descriptor_shot_by_shot(void **state)
{
	(void)state;
	run_uring_loop(false, 0);
	run_uring_loop(false, 2);
}

static void a_callers_io_uring_polls_the_descriptor_by_multishot(void **state)
{
	(void)state;
	run_uring_loop(true, 0);
	run_uring_loop(true, 2);
}

/* A ring of the caller's own. */

static int prepare_with_ring(struct io_uring *ring, enum rp_sleep_engine engine,
			     uint32_t chip_count, struct rp_worker **worker_out)
{
	struct rp_worker_options options;

	deed_options(&options, chip_count);
	options.sleep_engine = engine;
	options.ring_fd = ring->ring_fd;
	options.ring_user_data = RING_TAG;
	return deed_prepare(&options, worker_out);
}

static unsigned take_cqes(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned count = 0;

	while (!io_uring_peek_cqe(ring, &cqe)) {
		assert_true(cqe->user_data == RING_TAG);
		assert_int_equal(cqe->res, 0);
		io_uring_cqe_seen(ring, cqe);
		count++;
	}
	return count;
}

/* Exactly `want`, and none after them. */
static void expect_cqes(struct io_uring *ring, unsigned want)
{
	uint64_t end_ns = proc_now_ns() + (uint64_t)LOST_MS * 1000000;
	unsigned count = 0;

	while (count < want && proc_now_ns() < end_ns) {
		count += take_cqes(ring);
		if (count < want)
			proc_pause_us(200);
	}
	proc_pause_us(10000);
	count += take_cqes(ring);
	assert_int_equal(count, want);
}

static void each_finished_dispatch_posts_one_completion(void **state)
{
	static const enum rp_sleep_engine engines[] = { RP_SLEEP_AUTO, RP_SLEEP_FUTEX };
	size_t engine;

	(void)state;
	for (engine = 0; engine < COUNT(engines); engine++) {
		struct rp_handle handles[2];
		struct rp_worker *worker;
		struct io_uring ring;
		unsigned seen = 0;
		int i;

		if (!ring_open(&ring, 64))
			skip();
		assert_int_equal(prepare_with_ring(&ring, engines[engine], 2, &worker),
				 0);
		/* Nothing but completions drives the loop, two in flight. */
		for (i = 0; i < 2; i++)
			assert_int_equal(deed_submit(worker, DEED_ALL_CHIPS, DEED_NOTHING,
						     0, &handles[i]),
					 0);
		for (i = 2; i < LOOP_RUNS; i++) {
			struct io_uring_cqe cqe;

			await_cqe(&ring, &cqe);
			assert_true(cqe.user_data == RING_TAG);
			seen++;
			/* The older one first: they are served in order. */
			assert_int_equal(rp_handle_wait(handles[i % 2], RP_WAIT_FOREVER),
					 0);
			assert_int_equal(rp_handle_release(handles[i % 2]), 0);
			assert_int_equal(deed_submit(worker, DEED_ALL_CHIPS, DEED_NOTHING,
						     0, &handles[i % 2]),
					 0);
		}
		expect_cqes(&ring, LOOP_RUNS - seen);
		/* Runs without a handle count as well, failed ones too. */
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
		assert_int_equal(deed_run(worker, 1, DEED_FAIL, EXFULL), -EXFULL);
		expect_cqes(&ring, 2);
		end(worker);
		assert_int_equal(take_cqes(&ring), 0);
		io_uring_queue_exit(&ring);
	}
}

static void a_ring_that_overflows_loses_no_completion(void **state)
{
	struct rp_worker *worker;
	struct io_uring ring;
	int i;

	(void)state;
	if (!ring_open(&ring, 2))
		skip();
	assert_int_equal(prepare_with_ring(&ring, RP_SLEEP_AUTO, 1, &worker), 0);
	for (i = 0; i < 100; i++)
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
	expect_cqes(&ring, 100);
	end(worker);
	io_uring_queue_exit(&ring);
}

static void a_ring_and_the_descriptor_are_told_both(void **state)
{
	struct rp_handle handle, reaped;
	struct rp_worker *worker;
	struct io_uring ring;
	int fd;

	(void)state;
	if (!ring_open(&ring, 8))
		skip();
	assert_int_equal(prepare_with_ring(&ring, RP_SLEEP_AUTO, 1, &worker), 0);
	fd = rp_worker_fd(worker);
	assert_int_equal(deed_submit(worker, 0, DEED_NOTHING, 0, &handle), 0);
	assert_true(readable(fd, LOST_MS));
	expect_cqes(&ring, 1);
	assert_int_equal(rp_worker_reap(worker, &reaped, 1), 1);
	assert_true(same(reaped, handle));
	end(worker);
	io_uring_queue_exit(&ring);
}

/* Death and close. */

static void expect_dead(struct rp_handle handle)
{
	assert_int_equal(rp_handle_wait(handle, 0), -EOWNERDEAD);
	assert_non_null(strstr(rp_last_error(), "signal 9"));
}

static void a_death_reaches_every_kind_of_loop(void **state)
{
	static const uint32_t flags[] = { 0, EPOLLET };
	size_t i, count;

	(void)state;
	for (i = 0; i < COUNT(flags); i++) {
		struct rp_worker *worker = prepare(RP_SLEEP_AUTO, 2);
		struct epoll_event event = { .events = EPOLLIN | flags[i] };
		int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		struct rp_handle handles[2], reaped[4];
		bool ring_there;
		struct io_uring_cqe cqe;
		struct io_uring ring;

		assert_int_equal(
			epoll_ctl(epoll_fd, EPOLL_CTL_ADD, rp_worker_fd(worker), &event),
			0);
		ring_there = ring_open(&ring, 8);
		if (ring_there)
			poll_again(&ring, rp_worker_fd(worker), i);
		assert_int_equal(deed_submit(worker, 0, DEED_HANG, 0, &handles[0]), 0);
		assert_int_equal(deed_submit(worker, 1, DEED_HANG, 0, &handles[1]), 0);
		assert_int_equal(epoll_look(epoll_fd, &event, 10), 0);
		assert_int_equal(kill(rp_worker_pid(worker, 1), SIGKILL), 0);
		count = 0;
		while (count < 2) {
			assert_int_equal(epoll_look(epoll_fd, &event, LOST_MS), 1);
			count += rp_worker_reap(worker, reaped + count, 4 - count);
		}
		if (ring_there)
			await_cqe(&ring, &cqe);
		assert_int_equal(count, 2);
		expect_dead(reaped[0]);
		expect_dead(reaped[1]);
		assert_false(same(reaped[0], reaped[1]));
		assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
		if (ring_there)
			io_uring_queue_exit(&ring);
		close(epoll_fd);
		rp_worker_free(worker);
	}
}

static void a_death_posts_a_completion_for_each_dispatch_in_flight(void **state)
{
	struct rp_handle handles[2];
	struct rp_worker *worker;
	struct io_uring ring;

	(void)state;
	if (!ring_open(&ring, 8))
		skip();
	assert_int_equal(prepare_with_ring(&ring, RP_SLEEP_AUTO, 2, &worker), 0);
	assert_int_equal(deed_submit(worker, 0, DEED_HANG, 0, &handles[0]), 0);
	assert_int_equal(deed_submit(worker, 1, DEED_HANG, 0, &handles[1]), 0);
	assert_int_equal(kill(rp_worker_pid(worker, 0), SIGKILL), 0);
	expect_cqes(&ring, 2);
	expect_dead(handles[0]);
	expect_dead(handles[1]);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
	io_uring_queue_exit(&ring);
}

static void *close_in_thread(void *arg)
{
	return (void *)(intptr_t)rp_worker_close(arg, RP_WAIT_FOREVER);
}

static void what_close_drains_is_told_like_all_else(void **state)
{
	struct rp_handle handles[2], reaped[4];
	struct rp_worker *worker;
	struct io_uring ring;
	bool ring_there = ring_open(&ring, 8);
	pthread_t thread;
	size_t count = 0;
	void *ret;
	int fd;

	(void)state;
	if (ring_there)
		assert_int_equal(prepare_with_ring(&ring, RP_SLEEP_AUTO, 2, &worker), 0);
	else
		worker = prepare(RP_SLEEP_FUTEX, 2);
	fd = rp_worker_fd(worker);
	assert_int_equal(deed_submit(worker, 0, DEED_GATE, 1, &handles[0]), 0);
	assert_int_equal(deed_submit(worker, 1, DEED_GATE, 2, &handles[1]), 0);
	assert_int_equal(pthread_create(&thread, NULL, close_in_thread, worker), 0);
	while (rp_worker_fd(worker) != -ESHUTDOWN)
		proc_pause_us(200);
	atomic_store(&deed_pad->gate, 1);
	while (count < 2) {
		assert_true(readable(fd, LOST_MS));
		count += rp_worker_reap(worker, reaped + count, 4 - count);
		if (count)
			atomic_store(&deed_pad->gate, 2);
	}
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal((intptr_t)ret, 0);
	assert_int_equal(count, 2);
	assert_true(same(reaped[0], handles[0]));
	assert_true(same(reaped[1], handles[1]));
	/* The descriptor is there until free, and quiet. */
	assert_goes_quiet(worker, fd);
	if (ring_there) {
		expect_cqes(&ring, 2);
		io_uring_queue_exit(&ring);
	}
	rp_worker_free(worker);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_descriptor_tells_of_what_ends_and_goes_quiet),
		TEST(reap_in_parts_keeps_the_descriptor_readable),
		TEST(a_released_handle_is_reaped_stale_or_not_at_all),
		TEST(an_event_loop_that_forgets_to_reap_stops_nothing),
		TEST(an_epoll_loop_serves_thousands_level_triggered),
		TEST(an_epoll_loop_serves_thousands_edge_triggered),
		TEST(a_callers_io_uring_polls_the_descriptor_shot_by_shot),
		TEST(a_callers_io_uring_polls_the_descriptor_by_multishot),
		TEST(each_finished_dispatch_posts_one_completion),
		TEST(a_ring_that_overflows_loses_no_completion),
		TEST(a_ring_and_the_descriptor_are_told_both),
		TEST(a_death_reaches_every_kind_of_loop),
		TEST(a_death_posts_a_completion_for_each_dispatch_in_flight),
		TEST(what_close_drains_is_told_like_all_else),
	};

	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
