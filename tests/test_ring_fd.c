/* SPDX-License-Identifier: MIT */
/* The caller's own ring: what is taken for one, and that asking leaves it alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "base/testing.h"
#include "completion/ring_fd.h"
#include "deed.h"
#include "proc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define TAG	 UINT64_C(0xfeed)

/* As where /proc is not mounted. */
static int without_proc(const char *point)
{
	return strcmp(point, "ring_fd.link") ? 0 : -ENOENT;
}

static int (*const views[])(const char *point) = { NULL, without_proc };

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	rpi_test_hook = NULL;
	return 0;
}

static int prepare_with(int ring_fd, struct rp_worker **worker_out)
{
	struct rp_worker_options options;

	deed_options(&options, 1);
	options.ring_fd = ring_fd;
	options.ring_user_data = TAG;
	return deed_prepare(&options, worker_out);
}

static void what_is_no_ring_is_refused_by_its_number(void **state)
{
	struct proc_census before;
	struct rp_worker *worker;
	int fds[11];
	size_t i;
	size_t view;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds + 2), 0);
	fds[4] = eventfd(0, 0);
	fds[5] = epoll_create1(0);
	fds[6] = open("/dev/null", O_RDWR);
	fds[7] = open("/tmp", O_RDONLY | O_DIRECTORY);
	fds[8] = memfd_create("anon_inode:[io_uring]", 0);
	fds[9] = dup(fds[4]);
	close(fds[9]); /* nobody's */
	fds[10] = INT32_MAX;
	proc_census_take(&before);
	for (view = 0; view < COUNT(views); view++) {
		rpi_test_hook = views[view];
		for (i = 0; i < COUNT(fds); i++) {
			char text[64];

			assert_false(rpi_fd_is_ring(fds[i]));
			assert_int_equal(prepare_with(fds[i], &worker), -EINVAL);
			snprintf(text, sizeof(text), "ring_fd %d,", fds[i]);
			if (!strstr(rp_last_error(), text))
				fail_msg("'%s' is not in '%s'", text, rp_last_error());
		}
	}
	assert_true(proc_census_same(&before));
	for (i = 0; i < 9; i++)
		assert_int_equal(close(fds[i]), 0);
}

static void assert_ring(struct io_uring *ring)
{
	int err = io_uring_queue_init(8, ring, 0);

	if (!err)
		return;
	print_message("skipped: no io_uring (%s)\n", strerror(-err));
	skip();
}

/* What the caller has queued stays queued, and what has ended stays to be seen. */
static void a_ring_is_as_it_was_after_the_question(void **state)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	size_t view;

	(void)state;
	assert_ring(&ring);
	for (view = 0; view < COUNT(views); view++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		rpi_test_hook = views[view];
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data64(sqe, 1);
		assert_int_equal(io_uring_submit(&ring), 1);
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data64(sqe, 2);
		assert_true(rpi_fd_is_ring(ring.ring_fd));
		assert_int_equal(io_uring_sq_ready(&ring), 1);
		assert_int_equal(io_uring_cq_ready(&ring), 1);
		assert_int_equal(io_uring_wait_cqe(&ring, &cqe), 0);
		assert_int_equal(cqe->user_data, 1);
		io_uring_cqe_seen(&ring, cqe);
		assert_int_equal(io_uring_submit(&ring), 1);
		assert_int_equal(io_uring_wait_cqe(&ring, &cqe), 0);
		assert_int_equal(cqe->user_data, 2);
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
}

static void a_ring_is_taken_and_hears_of_dispatches(void **state)
{
	struct io_uring_cqe *cqe;
	struct rp_worker *worker;
	struct io_uring ring;
	size_t view;

	(void)state;
	assert_ring(&ring);
	for (view = 0; view < COUNT(views); view++) {
		rpi_test_hook = views[view];
		assert_int_equal(prepare_with(ring.ring_fd, &worker), 0);
		assert_int_equal(io_uring_cq_ready(&ring), 0);
		assert_int_equal(deed_run(worker, 0, DEED_NOTHING, 0), 0);
		assert_int_equal(io_uring_wait_cqe(&ring, &cqe), 0);
		assert_int_equal(cqe->user_data, TAG);
		io_uring_cqe_seen(&ring, cqe);
		rp_worker_free(worker);
		assert_int_equal(io_uring_cq_ready(&ring), 0);
	}
	io_uring_queue_exit(&ring);
}

/* Rings that answer no question of this thread are rings. */
struct foreign {
	struct io_uring ring;
	unsigned flags;
	bool restrict_it;
	int err;
};

/* liburing 2.3 declares a call for this and does not export it. */
static int restrict_ring(struct io_uring *ring)
{
	struct io_uring_restriction only = { .opcode = IORING_RESTRICTION_SQE_OP,
					     .sqe_op = IORING_OP_NOP };

	return (int)syscall(SYS_io_uring_register, ring->ring_fd,
			    IORING_REGISTER_RESTRICTIONS, &only, 1);
}

static void *open_foreign(void *arg)
{
	struct foreign *foreign = arg;

	foreign->err = io_uring_queue_init(8, &foreign->ring, foreign->flags);
	if (!foreign->err && foreign->restrict_it)
		foreign->err = restrict_ring(&foreign->ring);
	return NULL;
}

static void rings_that_keep_themselves_to_others_are_rings(void **state)
{
	static const struct {
		unsigned flags;
		bool restrict_it;
	} kinds[] = {
		{ IORING_SETUP_SINGLE_ISSUER, false },
		{ IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, false },
		{ IORING_SETUP_R_DISABLED, false },
		{ IORING_SETUP_R_DISABLED, true },
	};
	size_t seen = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct foreign foreign = { .flags = kinds[i].flags,
					   .restrict_it = kinds[i].restrict_it };
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, open_foreign, &foreign),
				 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		if (foreign.err)
			continue; /* a kind that this kernel doesn't have */
		seen++;
		for (size_t view = 0; view < COUNT(views); view++) {
			rpi_test_hook = views[view];
			assert_true(rpi_fd_is_ring(foreign.ring.ring_fd));
		}
		io_uring_queue_exit(&foreign.ring);
	}
	if (seen)
		return;
	print_message("skipped: no io_uring of these kinds\n");
	skip();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_no_ring_is_refused_by_its_number),
		TEST(a_ring_is_as_it_was_after_the_question),
		TEST(a_ring_is_taken_and_hears_of_dispatches),
		TEST(rings_that_keep_themselves_to_others_are_rings),
	};

	return cmocka_run_group_tests_name("ring_fd", tests, NULL, NULL);
}
