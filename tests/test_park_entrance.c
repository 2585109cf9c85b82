/* SPDX-License-Identifier: MIT */
/* Threads register the rings that they sleep on: whatever becomes of thread, ring and
 * process, a sleep sleeps and a wake-up ends it. */
#include "completion/park.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "proc.h"

/* More than a thread remembers. */
#define PARKS 9
/* More than a thread may register. */
#define RINGS 20

#if RPI_HAVE_LIBURING

static struct rpi_park_block *blocks; /* [PARKS], shared */

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	blocks = mmap(NULL, PARKS * sizeof(*blocks), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return blocks == MAP_FAILED;
}

static int tear_down(void **state)
{
	(void)state;
	alarm(0);
	return munmap(blocks, PARKS * sizeof(*blocks));
}

static void open_park(struct rpi_park *park, size_t idx)
{
	if (rpi_park_create(park, RPI_PARK_URING, &blocks[idx])) {
		print_message("skipped, io_uring is missing: %s\n", rp_last_error());
		skip();
	}
	assert_int_equal(rpi_park_own(park), 0);
}

/* What it says of a sleep that nobody ends. */
static int sleep_a_moment(struct rpi_park *park)
{
	return rpi_park_sleep(park, rpi_now_ns() + 500000);
}

static void *wake_when_asleep(void *arg)
{
	struct rpi_park *park = arg;
	struct rpi_waker waker;
	intptr_t err = rpi_waker_init(&waker, RPI_PARK_URING, false);

	while (!err && !atomic_load(&park->block->asleep))
		usleep(50);
	usleep(500);
	if (!err)
		err = rpi_park_wake(park, &waker);
	rpi_waker_destroy(&waker);
	return (void *)err;
}

/* Asleep until another thread wakes it. */
static void sleep_and_be_woken(struct rpi_park *park)
{
	pthread_t thread;
	void *err;

	assert_int_equal(pthread_create(&thread, NULL, wake_when_asleep, park), 0);
	assert_int_equal(rpi_park_sleep(park, RPI_PARK_FOREVER), 0);
	assert_int_equal(pthread_join(thread, &err), 0);
	assert_null(err);
}

static void one_thread_sleeps_on_many_parks_in_turn(void **state)
{
	struct rpi_park parks[PARKS];
	size_t i;
	int turn;

	(void)state;
	for (i = 0; i < PARKS; i++)
		open_park(&parks[i], i);
	for (turn = 0; turn < 3; turn++) {
		for (i = 0; i < PARKS; i++) {
			assert_int_equal(sleep_a_moment(&parks[i]), -ETIMEDOUT);
			sleep_and_be_woken(&parks[i]);
		}
	}
	for (i = 0; i < PARKS; i++)
		rpi_park_destroy(&parks[i]);
}

/* The next park gets the descriptor of the last one, and is another ring. */
static void a_park_in_the_place_of_another_is_told_apart(void **state)
{
	int before = proc_fd_count(getpid());
	struct rpi_park park;
	int i;

	(void)state;
	for (i = 0; i < 40; i++) {
		open_park(&park, 0);
		assert_int_equal(sleep_a_moment(&park), -ETIMEDOUT);
		sleep_and_be_woken(&park);
		rpi_park_destroy(&park);
	}
	assert_int_equal(proc_fd_count(getpid()), before);
}

struct visitor {
	struct rpi_park park;
	pthread_barrier_t turn;
	bool over;
	int err;
};

static void *visit(void *arg)
{
	struct visitor *v = arg;

	for (;;) {
		pthread_barrier_wait(&v->turn);
		if (v->over)
			return NULL;
		v->err = sleep_a_moment(&v->park);
		pthread_barrier_wait(&v->turn);
	}
}

static void a_thread_outlives_the_parks_that_it_slept_on(void **state)
{
	struct visitor v = { .over = false };
	pthread_t thread;
	int i;

	(void)state;
	open_park(&v.park, 0);
	assert_int_equal(pthread_barrier_init(&v.turn, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
	for (i = 0; i < 40; i++) {
		pthread_barrier_wait(&v.turn);
		pthread_barrier_wait(&v.turn);
		assert_int_equal(v.err, -ETIMEDOUT);
		/* Not by the thread that has registered it. */
		rpi_park_destroy(&v.park);
		open_park(&v.park, 0);
	}
	v.over = true;
	pthread_barrier_wait(&v.turn);
	assert_int_equal(pthread_join(thread, NULL), 0);
	sleep_and_be_woken(&v.park);
	rpi_park_destroy(&v.park);
	pthread_barrier_destroy(&v.turn);
}

static void a_forked_process_does_not_go_by_what_its_parent_registered(void **state)
{
	struct rpi_park park;
	int status;
	pid_t pid;

	(void)state;
	open_park(&park, 0);
	assert_int_equal(sleep_a_moment(&park), -ETIMEDOUT);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(PROC_WATCHDOG_S);
		_exit(sleep_a_moment(&park) == -ETIMEDOUT &&
				      sleep_a_moment(&park) == -ETIMEDOUT
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sleep_and_be_woken(&park);
	rpi_park_destroy(&park);
}

/* Its own rings have the numbers that its parent's parks had. */
static int own_ring_outlives_parks(void *arg)
{
	struct rpi_park *park = arg, other;
	struct io_uring ring;

	PROC_MUST(!io_uring_queue_init(1, &ring, 0));
	if (io_uring_register_ring_fd(&ring) != 1)
		return 0; /* an older kernel: nobody has numbers */
	rpi_park_destroy(park);
	for (int i = 0; i < PARKS; i++) {
		PROC_MUST(!rpi_park_create(&other, RPI_PARK_URING, &blocks[1]));
		PROC_MUST(!rpi_park_own(&other));
		PROC_MUST(sleep_a_moment(&other) == -ETIMEDOUT);
		rpi_park_destroy(&other);
	}
	/* Entered by its number. */
	PROC_MUST(io_uring_submit_and_get_events(&ring) >= 0);
	io_uring_queue_exit(&ring);
	return 0;
}

static void a_forked_process_keeps_the_rings_that_it_registered(void **state)
{
	struct rpi_park park;

	(void)state;
	open_park(&park, 0);
	assert_int_equal(sleep_a_moment(&park), -ETIMEDOUT);
	assert_int_equal(proc_in_host(own_ring_outlives_parks, &park), 0);
	rpi_park_destroy(&park);
}

/* The thread has registered as many rings of its own as it may. */
static void a_thread_without_a_free_number_sleeps_all_the_same(void **state)
{
	struct io_uring rings[RINGS];
	struct rpi_park park;
	int registered = 0;
	int i;

	(void)state;
	open_park(&park, 0);
	for (i = 0; i < RINGS; i++) {
		assert_int_equal(io_uring_queue_init(1, &rings[i], 0), 0);
		registered += io_uring_register_ring_fd(&rings[i]) == 1;
	}
	if (registered == RINGS)
		fail_msg("%d rings of a thread registered, expected a limit", RINGS);
	assert_int_equal(sleep_a_moment(&park), -ETIMEDOUT);
	sleep_and_be_woken(&park);
	rpi_park_destroy(&park);
	for (i = 0; i < RINGS; i++)
		io_uring_queue_exit(&rings[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_thread_sleeps_on_many_parks_in_turn),
		TEST(a_park_in_the_place_of_another_is_told_apart),
		TEST(a_thread_outlives_the_parks_that_it_slept_on),
		TEST(a_forked_process_does_not_go_by_what_its_parent_registered),
		TEST(a_forked_process_keeps_the_rings_that_it_registered),
		TEST(a_thread_without_a_free_number_sleeps_all_the_same),
	};

	return check_status(
		cmocka_run_group_tests_name("park_entrance", tests, NULL, NULL),
		COUNT(tests));
}

#else

int main(void)
{
	print_message("skipped: built without io_uring\n");
	return 77;
}

#endif
