/* SPDX-License-Identifier: MIT */
/*
 * Copying for ever takes no more than copying once: staging memory is the worker's own,
 * of one size, and taken once.
 *
 * test_copy_steady [--gib N]   how much is copied, 2 unless said
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <ringplane/ringplane.h>

#include "noop.h"
#include "proc.h"
#include "staging/copier.h"

#define CHIPS	   2
#define MIB	   ((size_t)1 << 20)
#define GIB	   ((uint64_t)1 << 30)
#define HOST_BYTES (32 * MIB)
#define WATCHDOG_S 600
#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

/* Pages that come and go with no copy's help: a stack, the C library's buffers; ASan
 * keeps shadow of what was looked at. */
#ifdef __SANITIZE_ADDRESS__
#define SLACK_BYTES (8 * MIB)
#else
#define SLACK_BYTES (1 * MIB)
#endif

static uint64_t total_bytes = 2 * GIB;

static struct rp_program *program;
static struct rp_worker *worker;
static uint8_t *host;
static uint64_t device[CHIPS];

static int open_worker(void **state)
{
	static const struct rp_entry entry = { "empty", noop_entry };
	struct rp_worker_options options;
	struct rp_program_desc desc;

	(void)state;
	alarm(WATCHDOG_S);
	rp_program_desc_init(&desc);
	desc.name = "copy";
	desc.entries = &entry;
	desc.entry_count = 1;
	assert_int_equal(rp_program_create(&desc, &program), 0);
	rp_worker_options_init(&options);
	options.chip_count = CHIPS;
	options.device_memory_bytes = 2 * HOST_BYTES;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), 0);
	for (uint32_t chip = 0; chip < CHIPS; chip++)
		assert_int_equal(
			rp_worker_device_alloc(worker, chip, HOST_BYTES, &device[chip]),
			0);
	host = malloc(HOST_BYTES);
	assert_non_null(host);
	memset(host, 0x5a, HOST_BYTES);
	return 0;
}

static int close_worker(void **state)
{
	(void)state;
	rp_worker_free(worker);
	rp_program_free(program);
	free(host);
	alarm(0);
	return 0;
}

/* Of each process: this one first, then the chips. */
struct holding {
	uint64_t resident_bytes[1 + CHIPS];
	int fds[1 + CHIPS];
	int maps[1 + CHIPS];
	uint64_t staging_bytes;
	size_t region_count;
};

static pid_t process(uint32_t i)
{
	return i ? (pid_t)rp_worker_pid(worker, i - 1) : getpid();
}

static uint64_t resident(pid_t pid)
{
	unsigned long long size, pages = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu %llu", &size, &pages), 2);
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void take(struct holding *out)
{
	struct rp_region_info info[16];

	memset(out, 0, sizeof(*out));
	out->region_count = rp_worker_memory_report(worker, info, COUNT(info));
	for (size_t i = 0; i < out->region_count; i++)
		if (!strcmp(info[i].name, "rp-staging"))
			out->staging_bytes += info[i].bytes;
	for (uint32_t i = 0; i < 1 + CHIPS; i++) {
		out->fds[i] = proc_fd_count(process(i));
		out->maps[i] = proc_map_count(process(i), NULL);
		out->resident_bytes[i] = resident(process(i));
	}
}

/* Every kind of staged copy once: sizes that ride in the command, that go through the
 * caches, and that go around them. Returns how many bytes it moved. */
static uint64_t copy_all(void)
{
	static const size_t sizes[] = { 64, 4096, 100000, MIB - 1, 5 * MIB, HOST_BYTES };
	static const uint32_t chips[CHIPS] = { 0, 1 };
	uint64_t moved = 0;

	for (size_t i = 0; i < COUNT(sizes); i++) {
		for (uint32_t chip = 0; chip < CHIPS; chip++) {
			assert_int_equal(rp_worker_copy_to(worker, chip, device[chip], 0,
							   host, 0, sizes[i]),
					 0);
			assert_int_equal(rp_worker_copy_from(worker, chip, device[chip],
							     0, host, 0, sizes[i]),
					 0);
			moved += 2 * sizes[i];
		}
		assert_int_equal(rp_worker_copy_to_all(worker, chips, device, CHIPS, 0,
						       host, sizes[i]),
				 0);
		moved += sizes[i];
	}
	return moved;
}

static void copying_for_ever_takes_no_more(void **state)
{
	struct holding before, after;
	uint64_t moved = 0;

	(void)state;
	copy_all(); /* backs the chunks and the device memory */
	take(&before);
	while (moved < total_bytes)
		moved += copy_all();
	take(&after);
	assert_int_equal(after.region_count, before.region_count);
	assert_int_equal(after.staging_bytes, before.staging_bytes);
	for (uint32_t i = 0; i < 1 + CHIPS; i++) {
		assert_int_equal(after.fds[i], before.fds[i]);
		assert_int_equal(after.maps[i], before.maps[i]);
		if (after.resident_bytes[i] > before.resident_bytes[i] + SLACK_BYTES)
			fail_msg("process %u: %llu KiB before, %llu KiB after", i,
				 (unsigned long long)before.resident_bytes[i] >> 10,
				 (unsigned long long)after.resident_bytes[i] >> 10);
	}
}

static void staging_is_a_few_chunks_of_each_chip(void **state)
{
	struct holding holding;

	(void)state;
	copy_all();
	take(&holding);
	assert_in_range(holding.staging_bytes, 1,
			CHIPS * RPI_STAGING_CHUNKS * RPI_STAGING_CHUNK_BYTES);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(copying_for_ever_takes_no_more,
						open_worker, close_worker),
		cmocka_unit_test_setup_teardown(staging_is_a_few_chunks_of_each_chip,
						open_worker, close_worker),
	};

	if (argc == 3 && !strcmp(argv[1], "--gib") && atoi(argv[2]) > 0)
		total_bytes = (uint64_t)atoi(argv[2]) * GIB;
	return cmocka_run_group_tests_name("test_copy_steady", tests, NULL, NULL);
}
