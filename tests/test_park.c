/* SPDX-License-Identifier: MIT */
/* Sleeping and waking between processes, by each engine. */
#include "completion/park.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "proc.h"

#define MS(n) ((uint64_t)(n)*1000000u)

struct kind {
	enum rpi_park_engine engine;
	bool waker_ring;
};

/* Memory that parent and child share. */
struct shared {
	struct rpi_park_block block[2];
	_Atomic uint32_t seq[2];
	_Atomic uint32_t go;
};

struct fixture {
	const struct kind *kind;
	struct shared *shared;
	struct rpi_park park[2]; /* 0 the parent's, 1 the child's */
	struct rpi_waker waker;
};

static struct shared *shared_new(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(shared != MAP_FAILED);
	return shared;
}

static struct fixture *fixture_new(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	alarm(PROC_WATCHDOG_S);
	f->kind = *state;
	f->shared = shared_new();
	for (unsigned i = 0; i < 2; i++) {
		int ret = rpi_park_create(&f->park[i], f->kind->engine,
					  &f->shared->block[i]);

		if (ret && f->kind->engine == RPI_PARK_URING) {
			print_message("skipped, io_uring is missing: %s\n",
				      rp_last_error());
			munmap(f->shared, sizeof(*f->shared));
			free(f);
			skip();
		}
		assert_int_equal(ret, 0);
		assert_int_equal(f->park[i].engine, f->kind->engine);
	}
	return f;
}

/* After the fork: take my park, leave the other's, get ready to wake. */
static int fixture_side(struct fixture *f, unsigned me)
{
	int ret = rpi_park_own(&f->park[me]);

	rpi_park_disown(&f->park[!me]);
	if (!ret)
		ret = rpi_waker_init(&f->waker, f->kind->engine, f->kind->waker_ring);
	return ret;
}

static void fixture_free(struct fixture *f)
{
	rpi_waker_destroy(&f->waker);
	for (unsigned i = 0; i < 2; i++) {
		rpi_park_destroy(&f->park[i]);
		rpi_park_destroy(&f->park[i]);
	}
	munmap(f->shared, sizeof(*f->shared));
	free(f);
	alarm(0);
}

/* Run body in a child; its return value is the exit status. */
static pid_t spawn(int (*body)(struct fixture *), struct fixture *f)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(PROC_WATCHDOG_S);
	if (fixture_side(f, 1))
		_exit(120);
	_exit(body(f));
}

static void reap(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("child: status 0x%x", (unsigned)status);
}

static void wait_asleep(struct rpi_park_block *block)
{
	while (!atomic_load(&block->asleep))
		usleep(100);
	/* And most likely in the kernel by then; right in either case. */
	usleep(2000);
}

static void a_wake_before_the_sleep_ends_it_once(void **state)
{
	struct fixture *f = fixture_new(state);

	assert_int_equal(fixture_side(f, 0), 0);
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned n = 0; n <= i; n++)
			assert_int_equal(rpi_park_wake(&f->park[0], &f->waker), 0);
		assert_int_equal(rpi_park_sleep(&f->park[0], RPI_PARK_FOREVER), 0);
		assert_int_equal(rpi_park_sleep(&f->park[0], rpi_now_ns() + MS(5)),
				 -ETIMEDOUT);
	}
	fixture_free(f);
}

static void a_sleep_ends_no_earlier_than_its_deadline(void **state)
{
	static const uint64_t length_ns[] = { 0, 1, 1000, 60000, MS(1), MS(20) };
	struct fixture *f = fixture_new(state);

	assert_int_equal(fixture_side(f, 0), 0);
	for (unsigned i = 0; i < COUNT(length_ns); i++) {
		uint64_t deadline_ns = rpi_now_ns() + length_ns[i];

		assert_int_equal(rpi_park_sleep(&f->park[0], deadline_ns), -ETIMEDOUT);
		assert_true(rpi_now_ns() >= deadline_ns);
	}
	assert_int_equal(rpi_park_sleep(&f->park[0], 0), -ETIMEDOUT);
	assert_int_equal(atomic_load(&f->shared->block[0].asleep), 0);
	fixture_free(f);
}

static void drain_forgets_a_wake(void **state)
{
	struct fixture *f = fixture_new(state);

	assert_int_equal(fixture_side(f, 0), 0);
	atomic_store(&f->shared->block[0].asleep, 1); /* so that it pokes */
	assert_int_equal(rpi_park_wake(&f->park[0], &f->waker), 0);
	atomic_store(&f->shared->block[0].asleep, 0);
	rpi_park_drain(&f->park[0]);
	assert_int_equal(rpi_park_sleep(&f->park[0], rpi_now_ns() + MS(5)), -ETIMEDOUT);
	fixture_free(f);
}

#define ROUNDS 300u

/* One side of a ping-pong that sleeps at every turn; 0, or what went wrong. */
static int play(struct fixture *f, unsigned me)
{
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		for (unsigned turn = 0; turn < 2; turn++) {
			if (turn == me) {
				atomic_store(&f->shared->seq[!me], i);
				if (rpi_park_wake(&f->park[!me], &f->waker))
					return 1;
				continue;
			}
			while (atomic_load(&f->shared->seq[me]) != i)
				if (rpi_park_sleep(&f->park[me], RPI_PARK_FOREVER))
					return 2;
		}
	}
	return rpi_park_overflows(&f->park[me]) ? 3 : 0;
}

static int play_child(struct fixture *f)
{
	return play(f, 1);
}

static void parent_and_child_wake_each_other(void **state)
{
	struct fixture *f = fixture_new(state);
	pid_t pid = spawn(play_child, f);

	assert_int_equal(fixture_side(f, 0), 0);
	assert_int_equal(play(f, 0), 0);
	reap(pid);
	fixture_free(f);
}

static int sleep_once(struct fixture *f)
{
	while (!atomic_load(&f->shared->go))
		if (rpi_park_sleep(&f->park[1], RPI_PARK_FOREVER))
			return 1;
	return 0;
}

/* A waker that died between its two steps leaves pending set and no poke. */
static void a_waker_that_died_half_way_does_not_stop_the_next(void **state)
{
	struct fixture *f = fixture_new(state);
	pid_t pid = spawn(sleep_once, f);

	assert_int_equal(fixture_side(f, 0), 0);
	wait_asleep(&f->shared->block[1]);
	atomic_store(&f->shared->block[1].pending, 1);
	atomic_store(&f->shared->go, 1);
	assert_int_equal(rpi_park_wake(&f->park[1], &f->waker), 0);
	reap(pid);
	fixture_free(f);
}

static void waking_a_killed_sleeper_is_safe(void **state)
{
	struct fixture *f = fixture_new(state);
	pid_t pid = spawn(sleep_once, f);
	int ret;

	assert_int_equal(fixture_side(f, 0), 0);
	wait_asleep(&f->shared->block[1]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (unsigned i = 0; i < 10; i++) {
		ret = rpi_park_wake(&f->park[1], &f->waker);
		assert_true(ret == 0 || ret == -EOWNERDEAD);
	}
	/* And the living one is none the worse for it. */
	assert_int_equal(rpi_park_wake(&f->park[0], &f->waker), 0);
	assert_int_equal(rpi_park_sleep(&f->park[0], RPI_PARK_FOREVER), 0);
	fixture_free(f);
}

static int wake_and_die(struct fixture *f)
{
	wait_asleep(&f->shared->block[0]);
	atomic_store(&f->shared->go, 1);
	if (rpi_park_wake(&f->park[0], &f->waker))
		return 1;
	kill(getpid(), SIGKILL);
	return 2;
}

static void a_wake_outlives_its_sender(void **state)
{
	struct fixture *f = fixture_new(state);
	pid_t pid = spawn(wake_and_die, f);

	assert_int_equal(fixture_side(f, 0), 0);
	while (!atomic_load(&f->shared->go))
		assert_int_equal(rpi_park_sleep(&f->park[0], RPI_PARK_FOREVER), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	fixture_free(f);
}

/* Many more pokes than the queue has room for: none is lost, and the sleeper is
 * rid of them after a few spurious returns. */
static void more_pokes_than_the_queue_holds_lose_nothing(void **state)
{
	struct fixture *f = fixture_new(state);
	unsigned returns = 0;

	assert_int_equal(fixture_side(f, 0), 0);
	atomic_store(&f->shared->block[0].asleep, 1);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(rpi_park_wake(&f->park[0], &f->waker), 0);
	while (rpi_park_sleep(&f->park[0], rpi_now_ns() + MS(5)) == 0)
		assert_true(++returns <= 101);
	assert_true(returns >= 1);
	assert_int_equal(rpi_park_overflows(&f->park[0]), 0);

	assert_int_equal(rpi_park_wake(&f->park[0], &f->waker), 0);
	assert_int_equal(rpi_park_sleep(&f->park[0], RPI_PARK_FOREVER), 0);
	fixture_free(f);
}

static void a_sleep_that_ends_at_once_takes_its_poke_too(void **state)
{
	struct fixture *f = fixture_new(state);

	assert_int_equal(fixture_side(f, 0), 0);
	for (unsigned i = 0; i < 1000; i++) {
		atomic_store(&f->shared->block[0].asleep, 1);
		assert_int_equal(rpi_park_wake(&f->park[0], &f->waker), 0);
		assert_int_equal(rpi_park_sleep(&f->park[0], RPI_PARK_FOREVER), 0);
	}
	assert_int_equal(rpi_park_sleep(&f->park[0], rpi_now_ns() + MS(5)), -ETIMEDOUT);
	fixture_free(f);
}

static void on_signal(int signal)
{
	(void)signal;
}

static int sleep_through_signal(struct fixture *f)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	return rpi_park_sleep(&f->park[1], RPI_PARK_FOREVER) ? 1 : 0;
}

static void a_signal_ends_the_sleep_as_a_spurious_return(void **state)
{
	struct fixture *f = fixture_new(state);
	pid_t pid = spawn(sleep_through_signal, f);

	assert_int_equal(fixture_side(f, 0), 0);
	wait_asleep(&f->shared->block[1]);
	/* Again if it came before the child was in the kernel. */
	for (;;) {
		siginfo_t info = { 0 };

		assert_int_equal(kill(pid, SIGUSR1), 0);
		usleep(20000);
		assert_int_equal(
			waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
		if (info.si_pid)
			break;
	}
	reap(pid);
	fixture_free(f);
}

#define WAKES_PER_THREAD 500u

static void *wake_often(void *arg)
{
	struct fixture *f = arg;

	for (unsigned i = 0; i < WAKES_PER_THREAD; i++) {
		atomic_fetch_add(&f->shared->seq[1], 1);
		if (rpi_park_wake(&f->park[1], &f->waker))
			return f;
	}
	return NULL;
}

static int sleep_until_all(struct fixture *f)
{
	while (atomic_load(&f->shared->seq[1]) < 4 * WAKES_PER_THREAD)
		if (rpi_park_sleep(&f->park[1], RPI_PARK_FOREVER))
			return 1;
	return rpi_park_overflows(&f->park[1]) ? 2 : 0;
}

static void several_threads_may_wake_at_once(void **state)
{
	struct fixture *f = fixture_new(state);
	pid_t pid = spawn(sleep_until_all, f);
	pthread_t threads[4];
	void *result;

	assert_int_equal(fixture_side(f, 0), 0);
	for (unsigned i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wake_often, f), 0);
	for (unsigned i = 0; i < COUNT(threads); i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	reap(pid);
	fixture_free(f);
}

static void those_who_only_wake_keep_no_mapping(void **state)
{
	int before = proc_map_count(getpid(), "io_uring");
	struct fixture *f = fixture_new(state);
	int both = proc_map_count(getpid(), "io_uring"), one;

	rpi_park_disown(&f->park[1]);
	one = proc_map_count(getpid(), "io_uring");
	rpi_park_disown(&f->park[0]);
	assert_int_equal(proc_map_count(getpid(), "io_uring"), before);
	if (f->kind->engine == RPI_PARK_URING)
		assert_true(before < one && one < both);
	assert_true(rpi_park_own(&f->park[0]) < 0);
	fixture_free(f);
	assert_int_equal(proc_map_count(getpid(), "io_uring"), before);
}

static void descriptors_are_named_high_and_closed_on_exec(void **state)
{
	int saved[3], fds[2], park_fds, waker_fds;
	int before = proc_fd_count(getpid()), after;
	struct fixture *f;
	bool good = true;

	/* As in a daemon that has closed its standard descriptors. */
	for (int i = 0; i < 3; i++)
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
	for (int i = 0; i < 3; i++)
		if (saved[i] >= 0)
			close(i);
	f = calloc(1, sizeof(*f));
	f->kind = *state;
	f->shared = shared_new();
	if (rpi_park_create(&f->park[0], f->kind->engine, &f->shared->block[0]) == 0) {
		rpi_park_own(&f->park[0]);
		rpi_waker_init(&f->waker, f->kind->engine, f->kind->waker_ring);
		park_fds = rpi_park_fds(&f->park[0], fds);
		for (int i = 0; i < park_fds; i++)
			good = good && fds[i] > 2 && fcntl(fds[i], F_GETFD) == FD_CLOEXEC;
		waker_fds = rpi_waker_fds(&f->waker, fds);
		for (int i = 0; i < waker_fds; i++)
			good = good && fds[i] > 2 && fcntl(fds[i], F_GETFD) == FD_CLOEXEC;
		good = good && park_fds == (f->kind->engine == RPI_PARK_URING);
		good = good && waker_fds == f->kind->waker_ring;
		/* A moved descriptor must still work. */
		atomic_store(&f->shared->block[0].asleep, 1);
		good = good && rpi_park_wake(&f->park[0], &f->waker) == 0;
		good = good && rpi_park_sleep(&f->park[0], RPI_PARK_FOREVER) == 0;
	}
	fixture_free(f);
	for (int i = 0; i < 3; i++) {
		if (saved[i] >= 0) {
			dup2(saved[i], i);
			close(saved[i]);
		}
	}
	after = proc_fd_count(getpid());
	assert_true(good);
	assert_int_equal(after, before);
}

static void two_hundred_cycles_leak_nothing(void **state)
{
	int before = proc_fd_count(getpid()), maps = proc_map_count(getpid(), "io_uring");

	for (unsigned i = 0; i < 200; i++) {
		struct fixture *f = fixture_new(state);

		assert_int_equal(fixture_side(f, 0), 0);
		fixture_free(f);
	}
	assert_int_equal(proc_fd_count(getpid()), before);
	assert_int_equal(proc_map_count(getpid(), "io_uring"), maps);
}

static struct kind futex_kind = { RPI_PARK_FUTEX, false };
static struct kind uring_kind = { RPI_PARK_URING, false };
static struct kind ring_kind = { RPI_PARK_URING, true };

#define EACH_KIND(test)                                                             \
	{ #test " (futex)", test, NULL, NULL, &futex_kind },                        \
		{ #test " (io_uring)", test, NULL, NULL, &uring_kind },             \
	{                                                                           \
#test " (io_uring, sent from a ring)", test, NULL, NULL, &ring_kind \
	}

int main(void)
{
	const struct CMUnitTest park[] = {
		EACH_KIND(a_wake_before_the_sleep_ends_it_once),
		EACH_KIND(a_sleep_ends_no_earlier_than_its_deadline),
		EACH_KIND(drain_forgets_a_wake),
		EACH_KIND(parent_and_child_wake_each_other),
		EACH_KIND(a_waker_that_died_half_way_does_not_stop_the_next),
		EACH_KIND(waking_a_killed_sleeper_is_safe),
		EACH_KIND(a_wake_outlives_its_sender),
		EACH_KIND(more_pokes_than_the_queue_holds_lose_nothing),
		EACH_KIND(a_sleep_that_ends_at_once_takes_its_poke_too),
		EACH_KIND(a_signal_ends_the_sleep_as_a_spurious_return),
		EACH_KIND(several_threads_may_wake_at_once),
		EACH_KIND(those_who_only_wake_keep_no_mapping),
		EACH_KIND(descriptors_are_named_high_and_closed_on_exec),
		EACH_KIND(two_hundred_cycles_leak_nothing),
	};

	return cmocka_run_group_tests_name("park", park, NULL, NULL);
}
