/* SPDX-License-Identifier: MIT */
/* Listed host ranges in use: as arguments of dispatches, as mapped files, by threads. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"
#include "support.h"
#include "worker/worker.h"

#define CHIPS	   2
#define PAGE	   ((size_t)4096)
#define ROOM_BYTES MIB
#define WIDTH	   100

/* Dispatch arguments x (IN) and y (INOUT or OUT, by the worker), on chip 0. */
static struct bed bed;
static uint64_t addresses[CHIPS];

static int add_or_copy(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	(void)nargs;
	if (*(const enum rp_access *)user == RP_OUT)
		return TASK(run, 0, ENTRY_COPY, rp_in(args[0].u.tensor),
			    rp_out(args[1].u.tensor));
	return TASK(run, 0, ENTRY_ADD, rp_inout(args[1].u.tensor), rp_arg_i64(1));
}

static void open_with(const struct rp_host_range *ranges, size_t count,
		      enum rp_access access)
{
	static enum rp_access user;
	struct rp_param params[] = {
		{ .name = "x",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_IN,
		  .rank = 1,
		  .shape = { WIDTH } },
		{ .name = "y",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = access,
		  .rank = 1,
		  .shape = { WIDTH } },
	};
	struct rp_worker_options options;
	struct rp_program_desc desc;
	uint32_t i;

	user = access;
	bed_describe(&desc, "use", params, 2);
	desc.orchestrate = add_or_copy;
	desc.user = &user;
	bed_options(&options, CHIPS);
	options.device_memory_bytes = 8 * MIB;
	options.inherited = ranges;
	options.inherited_count = count;
	bed_prepare(&bed, &desc, &options);
	for (i = 0; i < CHIPS; i++)
		assert_ok(
			rp_worker_device_alloc(bed.worker, i, ROOM_BYTES, &addresses[i]));
}

static int tear_down(void **state)
{
	if (bed.worker)
		bed_close(&bed);
	return bed_teardown(state);
}

static void *map_shared(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static int dispatch(void *x, void *y)
{
	struct rp_tensor a = TENSOR(x, RP_INT64, WIDTH);
	struct rp_tensor b = TENSOR(y, RP_INT64, WIDTH);

	return RUN(&bed, rp_arg_tensor(a), rp_arg_tensor(b));
}

static void a_confirmed_range_is_an_argument(void **state)
{
	int64_t *at = map_shared(4 * PAGE);
	struct rp_host_range range = { at, 4 * PAGE, false };
	int64_t *x = at + 3;
	int64_t *y = at + 2 * WIDTH;
	int i;

	(void)state;
	open_with(&range, 1, RP_INOUT);
	for (i = 0; i < WIDTH; i++)
		y[i] = i;
	assert_ok(dispatch(x, y));
	/* Giving the list up is about copies: the processes keep their mappings. */
	assert_ok(rp_worker_release_inherited(bed.worker));
	assert_ok(dispatch(x, y));
	for (i = 0; i < WIDTH; i++)
		assert_int_equal(y[i], i + 2);
	/* Up to its end and not beyond. */
	assert_ok(dispatch(at + 2 * PAGE / 8, at + 4 * PAGE / 8 - WIDTH));
	assert_int_equal(dispatch(x, at + 4 * PAGE / 8 - WIDTH + 1), -EFAULT);
	assert_int_equal(dispatch(at - 1, y), -EFAULT);
	bed_close(&bed);

	open_with(&range, 1, RP_OUT);
	for (i = 0; i < WIDTH; i++)
		x[i] = 7 * i;
	assert_ok(dispatch(x, y));
	for (i = 0; i < WIDTH; i++)
		assert_int_equal(y[i], 7 * i);
}

static void a_range_that_is_not_known_to_be_shared_is_none(void **state)
{
	int64_t *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int64_t *shared = map_shared(PAGE);
	struct rp_host_range ranges[] = { { private, PAGE, false },
					  { shared, PAGE, false } };

	(void)state;
	open_with(ranges, 2, RP_INOUT);
	assert_int_equal(dispatch(private, shared), -EFAULT);
	assert_says("'x'");
	assert_int_equal(dispatch(shared, private), -EFAULT);
	assert_says("'y'");
	assert_ok(dispatch(shared, shared + WIDTH));
}

static void a_read_only_range_is_read_only_as_an_argument(void **state)
{
	static const enum rp_access written[] = { RP_OUT, RP_INOUT };
	int64_t *at = map_shared(2 * PAGE);
	struct rp_host_range ranges[] = { { at, PAGE, true },
					  { at + PAGE / 8, PAGE, false } };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(written); i++) {
		open_with(ranges, 2, written[i]);
		at[5] = 55;
		assert_ok(dispatch(at, at + PAGE / 8));
		assert_int_equal(dispatch(at + PAGE / 8, at), -EACCES);
		assert_says("read-only");
		assert_int_equal(dispatch(at, at + PAGE / 8 - WIDTH), -EACCES);
		assert_int_equal(at[5], 55);
		bed_close(&bed);
	}
}

static int write_read_only(struct rp_run *run, void *memory)
{
	struct rp_tensor t = TENSOR(memory, RP_INT64, WIDTH);
	int err = TASK(run, 0, ENTRY_ADD, rp_inout(t), rp_arg_i64(1));

	if (err != -EACCES || !strstr(rp_last_error(), "read-only"))
		return -EBADMSG;
	if (TASK(run, 0, ENTRY_FILL_HALF, rp_out(t)) != -EACCES)
		return -EBADMSG;
	return TASK(run, 0, ENTRY_EMPTY, rp_in(t));
}

static void nor_may_a_task_write_it(void **state)
{
	int64_t *at = map_shared(PAGE);
	struct rp_host_range range = { at, PAGE, true };
	struct rp_worker_options options;

	(void)state;
	bed_options(&options, CHIPS);
	options.inherited = &range;
	options.inherited_count = 1;
	bed_open_with(&bed, &options);
	assert_ok(bed_run(&bed, write_read_only, at));
	assert_int_equal(at[0], 0);
}

static void shared_blocks_need_no_listing(void **state)
{
	uint8_t *block = bed_shared(ROOM_BYTES, 0);
	uint8_t *guarded = bed_shared(ROOM_BYTES, 0);
	struct rp_host_range range = { guarded, ROOM_BYTES, true };

	(void)state;
	open_with(&range, 1, RP_INOUT);
	device_fill(block, ROOM_BYTES, 1);
	assert_ok(
		rp_worker_copy_to(bed.worker, 0, addresses[0], 0, block, 0, ROOM_BYTES));
	memset(block, 0, ROOM_BYTES);
	assert_ok(rp_worker_copy_from(bed.worker, 0, addresses[0], 0, block, 0,
				      ROOM_BYTES));
	assert_true(device_holds(block, ROOM_BYTES, 1));
	assert_int_equal(bed_stats(&bed).bytes_named, 2 * ROOM_BYTES);
	assert_int_equal(bed_stats(&bed).bytes_staged, 0);
	/* But one that is listed is guarded as listed. */
	assert_int_equal(
		rp_worker_copy_from(bed.worker, 0, addresses[0], 0, guarded, 0, 8),
		-EACCES);
	assert_int_equal(dispatch(block, guarded), -EACCES);
	assert_ok(dispatch(guarded, block));
	bed_close(&bed);
	rp_shared_free(block);
	rp_shared_free(guarded);
}

#define FILE_BYTES 300000

static char path[] = "/tmp/ringplane-test-XXXXXX";

/* A file of a pattern; it is unlinked by the caller. */
static void write_file(void)
{
	uint8_t *data = malloc(FILE_BYTES);
	int fd;

	memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	device_fill(data, FILE_BYTES, 4);
	assert_int_equal(write(fd, data, FILE_BYTES), FILE_BYTES);
	close(fd);
	free(data);
}

static void a_file_is_mapped_whole_or_in_part(void **state)
{
	static const struct {
		uint64_t offset;
		size_t bytes, want_bytes;
		int want;
	} cases[] = {
		{ 0, 0, FILE_BYTES, 0 },
		{ 0, FILE_BYTES, FILE_BYTES, 0 },
		{ 0, 1, 1, 0 },
		{ 5001, 5000, 5000, 0 },
		{ 4096, 4096, 4096, 0 },
		{ 4095, 2, 2, 0 },
		{ 5001, 0, FILE_BYTES - 5001, 0 },
		{ FILE_BYTES - 1, 0, 1, 0 },
		{ FILE_BYTES - 1, 1, 1, 0 },
		{ FILE_BYTES - 1, 2, 0, -ERANGE },
		{ FILE_BYTES, 0, 0, -ERANGE },
		{ FILE_BYTES, 1, 0, -ERANGE },
		{ FILE_BYTES + 1, 0, 0, -ERANGE },
		{ 0, FILE_BYTES + 1, 0, -ERANGE },
		{ 0, SIZE_MAX, 0, -ERANGE },
		{ UINT64_MAX, 0, 0, -ERANGE },
		{ UINT64_MAX, 2, 0, -ERANGE },
		{ 5, SIZE_MAX - 3, 0, -ERANGE },
	};
	uint8_t *whole = malloc(FILE_BYTES);
	size_t i;

	(void)state;
	write_file();
	device_fill(whole, FILE_BYTES, 4);
	for (i = 0; i < COUNT(cases); i++) {
		struct rp_host_range range = { .bytes = 77 };

		assert_int_equal(
			rp_map_file(path, cases[i].offset, cases[i].bytes, &range),
			cases[i].want);
		if (cases[i].want) {
			assert_says("rp_map_file", path);
			assert_int_equal(range.bytes, 77);
			continue;
		}
		assert_int_equal(range.bytes, cases[i].want_bytes);
		assert_true(range.read_only);
		assert_memory_equal(range.base, whole + cases[i].offset, range.bytes);
		assert_ok(rp_unmap_file(&range));
	}
	unlink(path);
	free(whole);
}

static void what_is_no_file_is_not_mapped(void **state)
{
	struct rp_host_range range = { .bytes = 77 };
	int fd;

	(void)state;
	assert_int_equal(rp_map_file("/nonexistent/file", 0, 0, &range), -ENOENT);
	assert_says("/nonexistent/file");
	assert_int_equal(rp_map_file("/tmp", 0, 0, &range), -EINVAL);
	assert_says("regular file");
	assert_int_equal(rp_map_file("/dev/zero", 0, 8, &range), -EINVAL);
	assert_int_equal(rp_map_file(NULL, 0, 0, &range), -EINVAL);
	assert_int_equal(rp_map_file("/tmp", 0, 0, NULL), -EINVAL);
	/* Nothing of an empty one. */
	memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	fd = mkstemp(path);
	close(fd);
	assert_int_equal(rp_map_file(path, 0, 0, &range), -ERANGE);
	assert_says("has 0 bytes, expected more than 0");
	unlink(path);
	/* A pipe that nobody writes to is not waited for. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(rp_map_file(path, 0, 0, &range), -EINVAL);
	assert_says("regular file");
	unlink(path);
	assert_int_equal(range.bytes, 77);
	assert_int_equal(rp_unmap_file(NULL), -EINVAL);
	range = (struct rp_host_range){ .read_only = true };
	assert_int_equal(rp_unmap_file(&range), -EINVAL);
	range = (struct rp_host_range){ path, 8, false };
	assert_int_equal(rp_unmap_file(&range), -EINVAL);
}

static void a_mapped_file_is_read_in_place_and_never_written(void **state)
{
	struct rp_host_range range;
	struct rp_tensor weights, stack;
	uint8_t *plain = malloc(FILE_BYTES);
	void *block = bed_shared(WIDTH * sizeof(int64_t), 0);

	(void)state;
	write_file();
	assert_ok(rp_map_file(path, 0, 0, &range));
	/* The mapping keeps the file. */
	unlink(path);
	open_with(&range, 1, RP_INOUT);
	assert_true(bed.worker->inherited.buffers[0].confirmed);
	weights = TENSOR(range.base, RP_UINT8, 2, FILE_BYTES / 2);
	assert_ok(rp_worker_alloc_stacked(bed.worker, &weights, NULL, 0, &stack));
	assert_int_equal(bed_stats(&bed).bytes_named, FILE_BYTES);
	assert_int_equal(bed_stats(&bed).bytes_staged, 0);
	assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &stack, &weights),
			 -EACCES);
	weights = TENSOR(plain, RP_UINT8, 2, FILE_BYTES / 2);
	assert_ok(rp_worker_copy_stacked_from(bed.worker, &stack, &weights));
	assert_true(device_holds(plain, FILE_BYTES, 4));
	/* As an input it may be used, too. */
	assert_ok(dispatch(range.base, block));
	assert_int_equal(dispatch(range.base, range.base), -EACCES);
	bed_close(&bed);
	assert_ok(rp_unmap_file(&range));
	assert_ok(rp_shared_free(block));
	free(plain);
}

/* Threads that name their stretches of one storage, while the list is given up. */
#define THREADS 8
#define STRETCH (ROOM_BYTES / THREADS)

struct hand {
	pthread_t thread;
	uint8_t *storage;
	unsigned idx;
	int err;
};

static _Atomic unsigned turns;

static void *name_stretches(void *arg)
{
	struct hand *me = arg;
	uint8_t *at = me->storage + me->idx * STRETCH;

	for (unsigned i = 0; i < 60 && !me->err; i++) {
		const uint32_t chip = (me->idx + i) % CHIPS;
		const size_t n = STRETCH - i * 17;

		device_fill(at, n, me->idx * 1000 + i);
		me->err = rp_worker_copy_to(bed.worker, chip, addresses[chip],
					    me->idx * STRETCH, at, 0, n);
		memset(at, 0, n);
		if (!me->err)
			me->err = rp_worker_copy_from(bed.worker, chip, addresses[chip],
						      me->idx * STRETCH, at, 0, n);
		if (!me->err && !device_holds(at, n, me->idx * 1000 + i))
			me->err = -EBADMSG;
		atomic_fetch_add(&turns, 1);
	}
	return NULL;
}

static void threads_name_one_storage_while_the_list_is_given_up(void **state)
{
	struct rp_host_range range = { .base = map_shared(ROOM_BYTES),
				       .bytes = ROOM_BYTES };
	struct hand hands[THREADS];
	struct rp_worker_stats stats;
	unsigned i;

	(void)state;
	open_with(&range, 1, RP_INOUT);
	atomic_store(&turns, 0);
	for (i = 0; i < THREADS; i++) {
		hands[i] = (struct hand){ .storage = range.base, .idx = i };
		assert_int_equal(
			pthread_create(&hands[i].thread, NULL, name_stretches, &hands[i]),
			0);
	}
	while (atomic_load(&turns) < THREADS * 30)
		bed_breathe();
	assert_int_equal(bed.worker->inherited.count, 1);
	assert_int_equal(bed_stats(&bed).bytes_staged, 0);
	assert_ok(rp_worker_release_inherited(bed.worker));
	for (i = 0; i < THREADS; i++) {
		pthread_join(hands[i].thread, NULL);
		assert_int_equal(hands[i].err, 0);
	}
	stats = bed_stats(&bed);
	assert_true(stats.bytes_named > 0 && stats.bytes_staged > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_confirmed_range_is_an_argument),
		TEST(a_range_that_is_not_known_to_be_shared_is_none),
		TEST(a_read_only_range_is_read_only_as_an_argument),
		TEST(nor_may_a_task_write_it),
		TEST(shared_blocks_need_no_listing),
		TEST(a_file_is_mapped_whole_or_in_part),
		TEST(what_is_no_file_is_not_mapped),
		TEST(a_mapped_file_is_read_in_place_and_never_written),
		TEST(threads_name_one_storage_while_the_list_is_given_up),
	};

	return cmocka_run_group_tests_name("test_inherited_io", tests, NULL, NULL);
}
