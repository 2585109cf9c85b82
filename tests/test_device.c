/* SPDX-License-Identifier: MIT */
/* Device memory as a user sees it: resident and stacked tensors, copies, inherited
 * host ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#define CHIPS	   2
#define WATCHDOG_S 120

#define MIB	   ((size_t)1 << 20)

static struct rp_program *program;
static struct rp_worker *worker;

/* y += x, elementwise. */
static int add(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *x = args[0].u.tensor.data;
	float *y = args[1].u.tensor.data;
	int64_t n;

	(void)chip;
	(void)nargs;
	if (rp_tensor_elements(&args[0].u.tensor, &n))
		return -EINVAL;
	for (int64_t i = 0; i < n; i++)
		y[i] += x[i];
	return 0;
}

/* Shard i of both arguments on chip i, or on the other one with user set. */
static int by_shards(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		     void *user)
{
	(void)nargs;
	for (int i = 0; i < CHIPS; i++) {
		struct rp_tensor x, y;
		int err = rp_tensor_index(&args[0].u.tensor, i, &x);

		if (!err)
			err = rp_tensor_index(&args[1].u.tensor, i, &y);
		if (err)
			return err;
		struct rp_arg task_args[] = { rp_in(x), rp_inout(y) };
		struct rp_task task = { .chip = *(int *)user ? 1 - i : i,
					.args = task_args,
					.arg_count = 2 };

		err = rp_run_task(run, &task);
		if (err)
			return err;
	}
	return 0;
}

static int swapped;

static struct rp_program *build_program(void)
{
	static const struct rp_param params[] = {
		{ .name = "x",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_IN,
		  .rank = 2,
		  .shape = { CHIPS, RP_DIM_ANY } },
		{ .name = "y",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_INOUT,
		  .rank = 2,
		  .shape = { CHIPS, RP_DIM_ANY } },
	};
	static const struct rp_entry entries[] = { { "add", add } };
	struct rp_program_desc desc;
	struct rp_program *out;

	rp_program_desc_init(&desc);
	desc.name = "add";
	desc.params = params;
	desc.param_count = 2;
	desc.entries = entries;
	desc.entry_count = 1;
	desc.orchestrate = by_shards;
	desc.user = &swapped;
	assert_int_equal(rp_program_create(&desc, &out), 0);
	return out;
}

static int open_worker(void **state)
{
	struct rp_worker_options options;

	(void)state;
	alarm(WATCHDOG_S);
	swapped = 0;
	program = build_program();
	rp_worker_options_init(&options);
	options.chip_count = CHIPS;
	options.device_memory_bytes = 64 * MIB;
	return rp_worker_prepare(&program, 1, &options, &worker);
}

static int close_worker(void **state)
{
	(void)state;
	rp_worker_free(worker);
	rp_program_free(program);
	alarm(0);
	return 0;
}

static void fill(void *at, size_t bytes, unsigned seed)
{
	uint8_t *to = at;

	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

static void expect_text(const char *part)
{
	if (!strstr(rp_last_error(), part))
		fail_msg("'%s' is not in '%s'", part, rp_last_error());
}

static void copies_of_every_size_come_back_as_they_went(void **state)
{
	static const size_t sizes[] = { 1,    63,      64,	    208,    209,
					4096, 65535,   131072,	    131073, MIB - 1,
					MIB,  MIB + 1, 3 * MIB + 7, 9 * MIB };
	uint8_t *from = malloc(10 * MIB);
	uint8_t *to = malloc(10 * MIB);
	uint64_t address;

	(void)state;
	assert_int_equal(rp_worker_device_alloc(worker, 1, 10 * MIB, &address), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i];

		fill(from, n + 3, (unsigned)i);
		memset(to, 0xee, n + 8);
		/* Odd addresses and offsets on both sides. */
		assert_int_equal(rp_worker_copy_to(worker, 1, address, 5, from, 3, n), 0);
		assert_int_equal(rp_worker_copy_from(worker, 1, address, 5, to, 1, n), 0);
		assert_memory_equal(to + 1, from + 3, n);
		assert_int_equal(to[0], 0xee);
		assert_int_equal(to[n + 1], 0xee);
	}
	assert_int_equal(rp_worker_device_free(worker, 1, address), 0);
	free(from);
	free(to);
}

static void a_part_is_written_and_its_neighbours_stay(void **state)
{
	uint8_t all[1024];
	uint8_t part[100];
	uint64_t address;

	(void)state;
	memset(all, 1, sizeof(all));
	memset(part, 2, sizeof(part));
	assert_int_equal(rp_worker_device_alloc(worker, 0, sizeof(all), &address), 0);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 0, all, 0, sizeof(all)),
			 0);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 300, part, 0, 100), 0);
	assert_int_equal(rp_worker_copy_from(worker, 0, address, 0, all, 0, sizeof(all)),
			 0);
	for (size_t i = 0; i < sizeof(all); i++)
		assert_int_equal(all[i], i >= 300 && i < 400 ? 2 : 1);
}

static void bad_copies_are_refused_and_change_nothing(void **state)
{
	uint8_t host[2048] = { 0 };
	uint64_t address;

	(void)state;
	assert_int_equal(rp_worker_device_alloc(worker, 0, 1024, &address), 0);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 0, host, 0, 0), -EINVAL);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 901, host, 0, 124),
			 -ERANGE);
	expect_text("901");
	assert_int_equal(rp_worker_copy_to(worker, 0, address, SIZE_MAX, host, 0, 2),
			 -ERANGE);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 2, host, 0, SIZE_MAX),
			 -ERANGE);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 0, host, SIZE_MAX, 8),
			 -ERANGE);
	assert_int_equal(rp_worker_copy_to(worker, 0, address + 64, 0, host, 0, 8),
			 -EINVAL);
	expect_text("offset of 64");
	assert_int_equal(rp_worker_copy_to(worker, 0, 12345, 0, host, 0, 8), -EINVAL);
	assert_int_equal(rp_worker_copy_to(worker, CHIPS, address, 0, host, 0, 8),
			 -EINVAL);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 0, NULL, 0, 8), -EINVAL);
	assert_int_equal(rp_worker_copy_to(NULL, 0, address, 0, host, 0, 8), -EINVAL);
	assert_int_equal(rp_worker_copy_from(worker, 0, address, 1024, host, 0, 1),
			 -ERANGE);
	assert_int_equal(rp_worker_device_free(worker, 0, address), 0);
	assert_int_equal(rp_worker_device_free(worker, 0, address), -EINVAL);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 0, host, 0, 8), -EINVAL);
}

static void a_resident_tensor_crosses_nothing(void **state)
{
	struct rp_worker_stats before = { .size = sizeof(before) };
	struct rp_worker_stats after = { .size = sizeof(after) };
	float x[CHIPS][64];
	float y[CHIPS][64] = { { 0 } };
	struct rp_tensor host, w, sum;

	(void)state;
	for (int i = 0; i < CHIPS * 64; i++)
		x[i / 64][i % 64] = (float)i;
	assert_int_equal(
		rp_tensor_host(&host, x, RP_FLOAT32, 2, (int64_t[]){ CHIPS, 64 }), 0);
	assert_int_equal(rp_worker_alloc_stacked(worker, &host, NULL, 0, &w), 0);
	host.data = y;
	assert_int_equal(rp_worker_alloc_stacked(worker, &host, NULL, 0, &sum), 0);
	assert_int_equal(rp_worker_get_stats(worker, &before), 0);
	struct rp_arg args[] = { rp_arg_tensor(w), rp_arg_tensor(sum) };

	for (int i = 0; i < 3; i++)
		assert_int_equal(rp_worker_run(worker, NULL, args, 2, NULL), 0);
	assert_int_equal(rp_worker_get_stats(worker, &after), 0);
	assert_int_equal(after.copies_to_device, before.copies_to_device);
	assert_int_equal(after.copies_from_device, before.copies_from_device);
	assert_true(y[1][1] == 0); /* never copied back by itself */
	assert_int_equal(rp_worker_copy_stacked_from(worker, &sum, &host), 0);
	for (int i = 0; i < CHIPS * 64; i++)
		assert_true(y[i / 64][i % 64] == 3 * (float)i);
}

static void shards_go_where_they_are_sent(void **state)
{
	float x[CHIPS][8] = { { 1 }, { 2 } };
	float back[CHIPS][8];
	struct rp_tensor host, shard, w;
	uint64_t address;
	uint32_t chip;

	(void)state;
	rp_tensor_host(&host, x, RP_FLOAT32, 2, (int64_t[]){ CHIPS, 8 });
	assert_int_equal(
		rp_worker_alloc_stacked(worker, &host, (uint32_t[]){ 0, 0 }, 2, &w),
		-EINVAL);
	assert_int_equal(
		rp_worker_alloc_stacked(worker, &host, (uint32_t[]){ 0, 2 }, 2, &w),
		-EINVAL);
	assert_int_equal(rp_worker_alloc_stacked(worker, &host, (uint32_t[]){ 0 }, 1, &w),
			 -EINVAL);
	assert_int_equal(
		rp_worker_alloc_stacked(worker, &host, (uint32_t[]){ 1, 0 }, 2, &w), 0);
	assert_int_equal(rp_tensor_index(&w, 0, &shard), 0);
	assert_int_equal(rp_worker_tensor_address(worker, &shard, &chip, &address), 0);
	assert_int_equal(chip, 1);
	assert_int_equal(rp_tensor_index(&w, CHIPS, &shard), -ERANGE);
	assert_int_equal(rp_worker_tensor_address(worker, &w, &chip, &address), -EINVAL);
	/* host[i] is shard i, whichever chip holds it. */
	host.data = back;
	assert_int_equal(rp_worker_copy_stacked_from(worker, &w, &host), 0);
	assert_memory_equal(back, x, sizeof(x));
	/* A task that goes to the wrong chip names both. */
	struct rp_arg args[] = { rp_arg_tensor(w), rp_arg_tensor(w) };

	assert_int_equal(rp_worker_run(worker, NULL, args, 2, NULL), -EINVAL);
	expect_text("chip 1");
	expect_text("chip 0");
	swapped = 1;
	assert_int_equal(rp_worker_run(worker, NULL, args, 2, NULL), 0);
}

static void names_tell_old_and_foreign_tensors_apart(void **state)
{
	struct rp_worker_options options;
	struct rp_tensor a, b, foreign;
	struct rp_worker *other;
	int64_t shape[] = { CHIPS, 8 };

	(void)state;
	assert_int_equal(
		rp_worker_alloc_tensor(worker, 0, RP_FLOAT32, 2, shape, NULL, &a), 0);
	assert_int_equal(rp_worker_free_tensor(worker, &a), 0);
	assert_int_equal(rp_worker_free_tensor(worker, &a), 0);
	assert_int_equal(
		rp_worker_alloc_tensor(worker, 0, RP_FLOAT32, 2, shape, NULL, &b), 0);
	/* The same address, another tensor: the old name frees nothing. */
	assert_int_equal(rp_worker_free_tensor(worker, &a), -ESTALE);
	struct rp_arg args[] = { rp_arg_tensor(a), rp_arg_tensor(b) };

	assert_int_equal(rp_worker_run(worker, NULL, args, 2, NULL), -ESTALE);
	rp_worker_options_init(&options);
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &other), 0);
	assert_int_equal(
		rp_worker_alloc_tensor(other, 0, RP_FLOAT32, 2, shape, NULL, &foreign),
		0);
	args[0] = rp_arg_tensor(foreign);
	assert_int_equal(rp_worker_run(worker, NULL, args, 2, NULL), -EXDEV);
	assert_int_equal(rp_worker_free_tensor(worker, &foreign), -EXDEV);
	rp_worker_free(other);
	assert_int_equal(rp_worker_free_tensor(worker, &b), 0);
}

/* How many mappings of at least `bytes` a process has; and whether one holds
 * `address`. */
static int large_mappings(pid_t pid, size_t bytes, uint64_t address, int *holds_out)
{
	unsigned long long low, high;
	char path[64];
	char line[512];
	FILE *maps;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "r");
	assert_non_null(maps);
	*holds_out = 0;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx", &low, &high) != 2)
			continue;
		count += high - low >= bytes;
		*holds_out |= low <= address && address < high;
	}
	fclose(maps);
	return count;
}

static void device_memory_is_mapped_in_its_chip_only(void **state)
{
	struct rp_worker_options options;
	struct rp_worker *other;
	uint64_t address;
	int before;
	int holds;

	(void)state;
	before = large_mappings(getpid(), 512 * MIB, 0, &holds);
	rp_worker_options_init(&options);
	options.device_memory_bytes = 512 * MIB;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &other), 0);
	assert_int_equal(rp_worker_device_alloc(other, 0, MIB, &address), 0);
	large_mappings(rp_worker_pid(other, 0), 512 * MIB, address, &holds);
	assert_true(holds);
	assert_int_equal(large_mappings(getpid(), 512 * MIB, 0, &holds), before);
	rp_worker_free(other);
}

static void a_raw_pointer_is_no_tensor(void **state)
{
	struct rp_tensor fake;
	uint64_t address;

	(void)state;
	assert_int_equal(rp_worker_device_alloc(worker, 0, 4096, &address), 0);
	rp_tensor_host(&fake, (void *)(uintptr_t)address, RP_FLOAT32, 2,
		       (int64_t[]){ CHIPS, 8 });
	struct rp_arg args[] = { rp_arg_tensor(fake), rp_arg_tensor(fake) };

	assert_int_equal(rp_worker_run(worker, NULL, args, 2, NULL), -EINVAL);
	expect_text("raw device address");
}

static void bad_shapes_allocate_nothing(void **state)
{
	struct rp_tensor out, init;
	uint64_t before, after;
	float data[4] = { 0 };

	(void)state;
	rp_tensor_host(&init, data, RP_FLOAT32, 1, (int64_t[]){ 4 });
	assert_int_equal(rp_worker_committed_device_memory(worker, 0, &before), 0);
	assert_int_equal(rp_worker_alloc_tensor(worker, 0, RP_FLOAT32, 0,
						(int64_t[]){ 1 }, NULL, &out),
			 -EINVAL);
	assert_int_equal(rp_worker_alloc_tensor(worker, 0, RP_FLOAT32, 2,
						(int64_t[]){ 4, 0 }, NULL, &out),
			 -EINVAL);
	assert_int_equal(rp_worker_alloc_tensor(worker, 0, RP_FLOAT32, 2,
						(int64_t[]){ INT64_MAX, 9 }, NULL, &out),
			 -EINVAL);
	assert_int_equal(rp_worker_alloc_tensor(worker, 0, RP_FLOAT32, 1,
						(int64_t[]){ 5 }, &init, &out),
			 -EINVAL);
	assert_int_equal(rp_worker_alloc_tensor(worker, 0, RP_INT32, 1, (int64_t[]){ 4 },
						&init, &out),
			 -EINVAL);
	assert_int_equal(rp_worker_alloc_tensor(worker, CHIPS, RP_INT32, 1,
						(int64_t[]){ 4 }, NULL, &out),
			 -EINVAL);
	assert_int_equal(rp_worker_committed_device_memory(worker, 0, &after), 0);
	assert_int_equal(before, after);
}

static void exhaustion_says_how_much_there_is(void **state)
{
	uint64_t first, second, committed;

	(void)state;
	assert_int_equal(rp_worker_device_alloc(worker, 0, 20 * MIB, &first), 0);
	assert_int_equal(rp_worker_device_alloc(worker, 0, 40 * MIB, &second), -ENOMEM);
	expect_text("largest block");
	assert_int_equal(rp_worker_committed_device_memory(worker, 0, &committed), 0);
	assert_int_equal(committed, 20 * MIB);
	assert_int_equal(rp_worker_device_free(worker, 0, first), 0);
	assert_int_equal(rp_worker_device_alloc(worker, 0, 40 * MIB, &second), 0);
	assert_int_equal(rp_worker_device_memory_info(worker, 0, &first, &second),
			 -EOPNOTSUPP);
}

static void one_host_tensor_reaches_all_chips(void **state)
{
	uint8_t *from = malloc(3 * MIB);
	uint8_t *to = malloc(3 * MIB);
	uint32_t chips[] = { 1, 0 };
	uint64_t addresses[CHIPS];

	(void)state;
	fill(from, 3 * MIB, 9);
	for (int i = 0; i < CHIPS; i++)
		assert_int_equal(
			rp_worker_device_alloc(worker, chips[i], 3 * MIB, &addresses[i]),
			0);
	assert_int_equal(
		rp_worker_copy_to_all(worker, chips, addresses, CHIPS, 0, from, 3 * MIB),
		0);
	for (int i = 0; i < CHIPS; i++) {
		memset(to, 0, 3 * MIB);
		assert_int_equal(rp_worker_copy_from(worker, chips[i], addresses[i], 0,
						     to, 0, 3 * MIB),
				 0);
		assert_memory_equal(to, from, 3 * MIB);
	}
	chips[1] = 1;
	assert_int_equal(
		rp_worker_copy_to_all(worker, chips, addresses, CHIPS, 0, from, 8),
		-EINVAL);
	free(from);
	free(to);
}

struct copier {
	pthread_t thread;
	uint32_t chip;
	unsigned seed;
	int bad;
};

static void *copy_often(void *arg)
{
	struct copier *me = arg;
	size_t bytes = 300000 + 1000 * me->seed;
	uint8_t *from = malloc(bytes);
	uint8_t *to = malloc(bytes);
	uint64_t address;

	me->bad = rp_worker_device_alloc(worker, me->chip, bytes, &address);
	for (unsigned round = 0; round < 40 && !me->bad; round++) {
		fill(from, bytes, me->seed * 1000 + round);
		me->bad =
			rp_worker_copy_to(worker, me->chip, address, 0, from, 0, bytes) ||
			rp_worker_copy_from(worker, me->chip, address, 0, to, 0, bytes) ||
			memcmp(from, to, bytes);
	}
	free(from);
	free(to);
	return NULL;
}

static void threads_copy_at_once(void **state)
{
	struct copier copiers[6];

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		copiers[i] = (struct copier){ .chip = i % CHIPS, .seed = i };
		assert_int_equal(
			pthread_create(&copiers[i].thread, NULL, copy_often, &copiers[i]),
			0);
	}
	for (unsigned i = 0; i < 6; i++) {
		pthread_join(copiers[i].thread, NULL);
		assert_int_equal(copiers[i].bad, 0);
	}
}

static void a_copy_into_a_dead_chip_ends(void **state)
{
	uint8_t *host = calloc(1, 8 * MIB);
	uint64_t address;
	int err = 0;

	(void)state;
	assert_int_equal(rp_worker_device_alloc(worker, 0, 8 * MIB, &address), 0);
	kill(rp_worker_pid(worker, 0), SIGKILL);
	while (!err)
		err = rp_worker_copy_to(worker, 0, address, 0, host, 0, 8 * MIB);
	assert_int_equal(err, -EOWNERDEAD);
	assert_int_equal(rp_worker_copy_from(worker, 1, address, 0, host, 0, 8),
			 -EOWNERDEAD);
	free(host);
}

static void closed_workers_refuse_device_calls(void **state)
{
	struct rp_tensor out;
	uint64_t address;
	char host[8] = { 0 };

	(void)state;
	assert_int_equal(rp_worker_device_alloc(worker, 0, 8, &address), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	assert_int_equal(rp_worker_device_alloc(worker, 0, 8, &address), -ESHUTDOWN);
	assert_int_equal(rp_worker_copy_to(worker, 0, address, 0, host, 0, 8),
			 -ESHUTDOWN);
	assert_int_equal(rp_worker_copy_from(worker, 0, address, 0, host, 0, 8),
			 -ESHUTDOWN);
	assert_int_equal(rp_worker_alloc_tensor(worker, 0, RP_INT8, 1, (int64_t[]){ 8 },
						NULL, &out),
			 -ESHUTDOWN);
	assert_int_equal(rp_worker_committed_device_memory(worker, 0, &address),
			 -ESHUTDOWN);
}

static unsigned warnings;

static void count_warnings(enum rp_log_level level, const char *line, void *user)
{
	(void)line;
	(void)user;
	warnings += level == RP_LOG_WARN;
}

static struct rp_worker *with_ranges(const struct rp_host_range *ranges, size_t count,
				     int expected)
{
	struct rp_worker_options options;
	struct rp_worker *out = NULL;

	rp_worker_options_init(&options);
	options.chip_count = CHIPS;
	options.inherited = ranges;
	options.inherited_count = count;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &out), expected);
	return out;
}

static void inherited_ranges_are_named_and_others_staged(void **state)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_worker *other;
	struct rp_host_range range = { .bytes = MIB };
	uint8_t *plain = malloc(MIB);
	uint64_t address;

	(void)state;
	range.base = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			  -1, 0);
	fill(range.base, MIB, 3);
	other = with_ranges(&range, 1, 0);
	assert_int_equal(rp_worker_device_alloc(other, 0, MIB, &address), 0);
	assert_int_equal(rp_worker_copy_to(other, 0, address, 0, range.base, 0, MIB), 0);
	assert_int_equal(rp_worker_copy_from(other, 0, address, 0, plain, 0, MIB), 0);
	assert_memory_equal(plain, range.base, MIB);
	assert_int_equal(rp_worker_get_stats(other, &stats), 0);
	assert_int_equal(stats.bytes_named, MIB);
	assert_int_equal(stats.bytes_staged, MIB);
	/* In the other direction too, and after the release staged again. */
	memset(range.base, 0, MIB);
	assert_int_equal(rp_worker_copy_from(other, 0, address, 0, range.base, 0, MIB),
			 0);
	assert_memory_equal(plain, range.base, MIB);
	assert_int_equal(rp_worker_release_inherited(other), 0);
	assert_int_equal(rp_worker_copy_to(other, 0, address, 0, range.base, 0, MIB), 0);
	assert_int_equal(rp_worker_get_stats(other, &stats), 0);
	assert_int_equal(stats.bytes_named, 2 * MIB);
	assert_int_equal(stats.bytes_staged, 2 * MIB);
	rp_worker_free(other);
	munmap(range.base, MIB);
	free(plain);
}

static void one_storage_has_one_mode(void **state)
{
	uint8_t *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	struct rp_host_range ranges[] = { { at, MIB, true }, { at + 4096, 4096, false } };
	struct rp_worker *other;
	uint64_t address;

	(void)state;
	with_ranges(ranges, 2, -EINVAL);
	expect_text("one mode");
	ranges[1].read_only = true;
	other = with_ranges(ranges, 2, 0);
	assert_int_equal(rp_worker_device_alloc(other, 0, 8192, &address), 0);
	assert_int_equal(rp_worker_copy_to(other, 0, address, 0, at, 0, 8192), 0);
	assert_int_equal(rp_worker_copy_from(other, 0, address, 0, at, 100, 8192),
			 -EACCES);
	rp_worker_free(other);
	ranges[0] = (struct rp_host_range){ NULL, 8, false };
	with_ranges(ranges, 1, -EINVAL);
	munmap(at, MIB);
}

static void unconfirmed_ranges_cost_one_warning(void **state)
{
	uint8_t *private = malloc(3 * 65536);
	struct rp_host_range ranges[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		ranges[i] = (struct rp_host_range){ private + i * 65536, 4096, false };
	warnings = 0;
	rp_log_set(count_warnings, NULL, RP_LOG_WARN);
	rp_worker_free(with_ranges(ranges, 3, 0));
	rp_log_set(NULL, NULL, RP_LOG_WARN);
	assert_int_equal(warnings, 1);
	free(private);
}

static void a_mapped_file_is_an_upload_source(void **state)
{
	char path[] = "/tmp/ringplane-test-XXXXXX";
	int fd = mkstemp(path);
	struct rp_host_range all, slice, none;
	uint8_t data[20000];
	uint8_t back[5000];
	struct rp_worker *other;
	uint64_t address;

	(void)state;
	fill(data, sizeof(data), 4);
	assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
	close(fd);
	assert_int_equal(rp_map_file(path, 0, 0, &all), 0);
	assert_int_equal(all.bytes, sizeof(data));
	assert_int_equal(rp_map_file(path, 5001, 5000, &slice), 0);
	assert_int_equal(rp_map_file(path, 19000, 5000, &none), -ERANGE);
	assert_int_equal(rp_map_file("/nonexistent", 0, 0, &none), -ENOENT);
	assert_int_equal(rp_map_file("/tmp", 0, 0, &none), -EINVAL);
	other = with_ranges(&slice, 1, 0);
	assert_int_equal(rp_worker_device_alloc(other, 0, 5000, &address), 0);
	assert_int_equal(rp_worker_copy_to(other, 0, address, 0, slice.base, 0, 5000), 0);
	assert_int_equal(rp_worker_copy_from(other, 0, address, 0, back, 0, 5000), 0);
	assert_memory_equal(back, data + 5001, 5000);
	assert_int_equal(rp_worker_copy_from(other, 0, address, 0, slice.base, 0, 8),
			 -EACCES);
	rp_worker_free(other);
	assert_int_equal(rp_unmap_file(&slice), 0);
	assert_int_equal(rp_unmap_file(&all), 0);
	unlink(path);
}

#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, open_worker, close_worker)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(copies_of_every_size_come_back_as_they_went),
		DEVICE_TEST(a_part_is_written_and_its_neighbours_stay),
		DEVICE_TEST(bad_copies_are_refused_and_change_nothing),
		DEVICE_TEST(a_resident_tensor_crosses_nothing),
		DEVICE_TEST(shards_go_where_they_are_sent),
		DEVICE_TEST(names_tell_old_and_foreign_tensors_apart),
		DEVICE_TEST(device_memory_is_mapped_in_its_chip_only),
		DEVICE_TEST(a_raw_pointer_is_no_tensor),
		DEVICE_TEST(bad_shapes_allocate_nothing),
		DEVICE_TEST(exhaustion_says_how_much_there_is),
		DEVICE_TEST(one_host_tensor_reaches_all_chips),
		DEVICE_TEST(threads_copy_at_once),
		DEVICE_TEST(a_copy_into_a_dead_chip_ends),
		DEVICE_TEST(closed_workers_refuse_device_calls),
		DEVICE_TEST(inherited_ranges_are_named_and_others_staged),
		DEVICE_TEST(one_storage_has_one_mode),
		DEVICE_TEST(unconfirmed_ranges_cost_one_warning),
		DEVICE_TEST(a_mapped_file_is_an_upload_source),
	};

	return cmocka_run_group_tests_name("test_device", tests, NULL, NULL);
}
