/* SPDX-License-Identifier: MIT */
/* Sleeping and waking between processes, by each engine; and what is done where
 * io_uring can't be had. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/error.h>

#include "completion/barrier.h"
#include "completion/park.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MS(n)	 ((uint64_t)(n)*1000000u)

/* Ends a hang, and its going off is a failure; never a speed limit. */
#define WATCHDOG_S 60

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
	alarm(WATCHDOG_S);
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
	alarm(WATCHDOG_S);
	if (f && fixture_side(f, 1))
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

static unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
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

static unsigned ring_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned count = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "io_uring") != NULL;
	fclose(maps);
	return count;
}

static void those_who_only_wake_keep_no_mapping(void **state)
{
	unsigned before = ring_mappings();
	struct fixture *f = fixture_new(state);
	unsigned both = ring_mappings(), one;

	rpi_park_disown(&f->park[1]);
	one = ring_mappings();
	rpi_park_disown(&f->park[0]);
	assert_int_equal(ring_mappings(), before);
	if (f->kind->engine == RPI_PARK_URING)
		assert_true(before < one && one < both);
	assert_true(rpi_park_own(&f->park[0]) < 0);
	fixture_free(f);
	assert_int_equal(ring_mappings(), before);
}

static void descriptors_are_named_high_and_closed_on_exec(void **state)
{
	int saved[3], fds[2], park_fds, waker_fds;
	unsigned before = open_fds(), after;
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
	after = open_fds();
	assert_true(good);
	assert_int_equal(after, before);
}

static void two_hundred_cycles_leak_nothing(void **state)
{
	unsigned before = open_fds(), maps = ring_mappings();

	for (unsigned i = 0; i < 200; i++) {
		struct fixture *f = fixture_new(state);

		assert_int_equal(fixture_side(f, 0), 0);
		fixture_free(f);
	}
	assert_int_equal(open_fds(), before);
	assert_int_equal(ring_mappings(), maps);
}

/* From here on: no engine given. */

static void refuse_call(long number, int err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)err & 0xffff)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = COUNT(code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

/* What the child of the next tests has to expect. */
static struct {
	int err;
	const char *reason;
} refusal;

/* An AUTO park must have become a futex for that reason, and must work. */
static int falls_back(struct fixture *f)
{
	struct shared *shared = shared_new();
	struct rpi_park park;
	struct rpi_waker waker;
	char before[512];
	int fds[2];

	(void)f;
	snprintf(before, sizeof(before), "%s", rp_last_error());
	if (rpi_park_create(&park, RPI_PARK_AUTO, &shared->block[0]))
		return 1;
	if (park.engine != RPI_PARK_FUTEX ||
	    strcmp(rpi_park_engine_name(&park), "futex") != 0)
		return 2;
	if (strcmp(park.reason, refusal.reason) != 0)
		return 3;
	if (strcmp(rp_last_error(), before) != 0)
		return 4; /* silently */
	if (rpi_park_fds(&park, fds))
		return 5;
	if (rpi_park_own(&park) || rpi_waker_init(&waker, park.engine, false))
		return 6;
	if (rpi_park_wake(&park, &waker) || rpi_park_sleep(&park, RPI_PARK_FOREVER))
		return 7;
	rpi_park_destroy(&park);
	if (refusal.err &&
	    rpi_park_create(&park, RPI_PARK_URING, &shared->block[0]) != refusal.err)
		return 8;
	if (refusal.err && !strstr(rp_last_error(), refusal.reason))
		return 9;
	return 0;
}

static int falls_back_under_filter(struct fixture *f)
{
	refuse_call(SYS_io_uring_setup, -refusal.err);
	return falls_back(f);
}

static void reap_or_skip(pid_t pid, const char *missing)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("skipped, missing: %s\n", missing);
		skip();
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("child: status 0x%x", (unsigned)status);
}

static void a_refused_io_uring_becomes_a_futex_and_says_why(void **state)
{
	static const struct {
		int err;
		const char *reason;
	} cases[] = {
		{ -EPERM, "forbidden (EPERM)" },
		{ -EACCES, "forbidden (EPERM)" },
		{ -ENOSYS, "not supported (ENOSYS)" },
		{ -ENOMEM, "memlock limit (ENOMEM)" },
		{ -EINVAL, "not supported (EINVAL)" },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		refusal.err = cases[i].err;
		refusal.reason = cases[i].reason;
		if (!RPI_HAVE_LIBURING) {
			refusal.err = -EOPNOTSUPP;
			refusal.reason = "not built";
		}
		reap_or_skip(spawn(falls_back_under_filter, NULL), "seccomp filters");
	}
}

static int falls_back_without_descriptors(struct fixture *f)
{
	struct rlimit limit = { .rlim_cur = 0, .rlim_max = 0 };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 77;
	return falls_back(f);
}

static void without_descriptors_left_it_becomes_a_futex(void **state)
{
	(void)state;
	if (!RPI_HAVE_LIBURING)
		skip();
	refusal.err = -EMFILE;
	refusal.reason = "descriptor limit (EMFILE)";
	reap_or_skip(spawn(falls_back_without_descriptors, NULL), "setrlimit");
}

static rlim_t memlock_bytes;

static int works_under_memlock(struct fixture *f)
{
	struct rlimit limit = { .rlim_cur = memlock_bytes, .rlim_max = memlock_bytes };
	struct shared *shared = shared_new();
	struct rpi_park park;
	struct rpi_waker waker;

	(void)f;
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return 77;
	/* CAP_IPC_LOCK would pass the limit by. */
	if (geteuid() == 0 && setresuid(65534, 65534, 65534))
		return 77;
	if (rpi_park_create(&park, RPI_PARK_AUTO, &shared->block[0]) ||
	    rpi_park_own(&park))
		return 1;
	if (rpi_waker_init(&waker, park.engine, false))
		return 2;
	atomic_store(&shared->block[0].asleep, 1);
	if (rpi_park_wake(&park, &waker) || rpi_park_sleep(&park, RPI_PARK_FOREVER))
		return 3;
	return 0;
}

static void a_small_memlock_limit_is_no_obstacle(void **state)
{
	static const rlim_t limits[] = { 0, 4096, 65536 };

	(void)state;
	for (unsigned i = 0; i < COUNT(limits); i++) {
		memlock_bytes = limits[i];
		reap_or_skip(spawn(works_under_memlock, NULL), "setrlimit or setresuid");
	}
}

static void the_environment_chooses_for_auto_only(void **state)
{
	struct shared *shared = shared_new();
	struct rpi_park park;

	(void)state;
	setenv(RPI_PARK_ENV, "futex", 1);
	assert_int_equal(rpi_park_create(&park, RPI_PARK_AUTO, &shared->block[0]), 0);
	assert_int_equal(park.engine, RPI_PARK_FUTEX);
	assert_string_equal(park.reason, "asked for by " RPI_PARK_ENV);
	rpi_park_destroy(&park);
	if (rpi_park_create(&park, RPI_PARK_URING, &shared->block[0]) == 0)
		assert_int_equal(park.engine, RPI_PARK_URING);
	rpi_park_destroy(&park);
	unsetenv(RPI_PARK_ENV);
	munmap(shared, sizeof(*shared));
}

static void wrong_arguments_are_refused(void **state)
{
	struct shared *shared = shared_new();
	struct rpi_park park;

	(void)state;
	assert_int_equal(rpi_park_create(&park, RPI_PARK_AUTO, NULL), -EINVAL);
	assert_int_equal(rpi_park_create(&park, RPI_PARK_AUTO, (char *)shared + 64),
			 -EINVAL);
	assert_int_equal(rpi_park_create(&park, (enum rpi_park_engine)3, shared),
			 -EINVAL);
	assert_string_equal(rp_last_error(), "park_create: engine 3, expected 0..2");
	rpi_park_destroy(&park);
	munmap(shared, sizeof(*shared));
}

static int barrier_survives_fork(struct fixture *f)
{
	(void)f;
	/* Before this process has called the setup itself. */
	if (!rpi_barrier_available() || !rpi_barrier_heavy())
		return 1;
	return rpi_barrier_setup() || !rpi_barrier_available() || !rpi_barrier_heavy();
}

static void the_barrier_survives_fork_and_a_second_setup(void **state)
{
	int ret = rpi_barrier_setup();

	(void)state;
	assert_int_equal(rpi_barrier_available(), ret == 0);
	assert_true(rpi_barrier_sleeper(false));
	if (ret) {
		print_message("skipped, missing: membarrier GLOBAL_EXPEDITED (%s)\n",
			      strerror(-ret));
		skip();
	}
	reap(spawn(barrier_survives_fork, NULL));
}

static int barrier_is_unavailable(struct fixture *f)
{
	(void)f;
	refuse_call(SYS_membarrier, EPERM);
	if (rpi_barrier_heavy())
		return 1; /* it must not claim what it did not do */
	return !rpi_barrier_setup() || rpi_barrier_available();
}

static void a_refused_membarrier_is_reported(void **state)
{
	(void)state;
	reap_or_skip(spawn(barrier_is_unavailable, NULL), "seccomp filters");
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
		cmocka_unit_test(a_refused_io_uring_becomes_a_futex_and_says_why),
		cmocka_unit_test(without_descriptors_left_it_becomes_a_futex),
		cmocka_unit_test(a_small_memlock_limit_is_no_obstacle),
		cmocka_unit_test(the_environment_chooses_for_auto_only),
		cmocka_unit_test(wrong_arguments_are_refused),
		cmocka_unit_test(the_barrier_survives_fork_and_a_second_setup),
		cmocka_unit_test(a_refused_membarrier_is_reported),
	};

	return cmocka_run_group_tests(park, NULL, NULL);
}
