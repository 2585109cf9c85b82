/* SPDX-License-Identifier: MIT */
/* Copies that fail, and copies without end: what is left is what was there before. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "proc.h"
#include "staging/copier.h"
#include "support.h"

#define CHIPS 2
#define CHUNK RPI_STAGING_CHUNK_BYTES

static struct bed bed;

static int set_up(void **state)
{
	return device_setup(state, &bed, CHIPS, 32 * MIB);
}

static int tear_down(void **state)
{
	return device_teardown(state, &bed);
}

static uint64_t must_alloc(uint32_t chip, size_t bytes)
{
	return device_must_alloc(&bed, chip, bytes);
}

/* Both chips take copies of every path, and the bytes are right. */
static void assert_serves(const uint64_t *addresses)
{
	static const size_t sizes[] = { 8, 5000, 5 * CHUNK };
	uint32_t chip;
	size_t i;

	trap_off();
	for (chip = 0; chip < CHIPS; chip++)
		for (i = 0; i < COUNT(sizes); i++)
			assert_ok(device_round_trip(bed.worker, chip, addresses[chip],
						    sizes[i], i));
}

static void a_copy_that_fails_in_its_chip_leaves_the_way_clear(void **state)
{
	/* Of one command, and of several with the n-th failing. */
	static const struct {
		size_t bytes;
		unsigned nth;
	} cases[] = {
		{ 8, 1 },	  { 5000, 1 },	    { 5 * CHUNK, 1 },
		{ 5 * CHUNK, 2 }, { 5 * CHUNK, 5 },
	};
	uint8_t *host = calloc(1, 6 * CHUNK);
	uint32_t chips[] = { 0, 1 };
	uint64_t addresses[CHIPS];
	size_t i;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		addresses[i] = must_alloc((uint32_t)i, 6 * CHUNK);
	for (i = 0; i < COUNT(cases); i++) {
		const pid_t pid = rp_worker_pid(bed.worker, 1);
		const size_t n = cases[i].bytes;

		trap_fail("chip.command", pid, cases[i].nth, 1, -EIO);
		assert_int_equal(
			rp_worker_copy_to(bed.worker, 1, addresses[1], 0, host, 0, n),
			-EIO);
		assert_says("chip 1");
		assert_serves(addresses);
		trap_fail("chip.command", pid, cases[i].nth, 1, -EIO);
		assert_int_equal(
			rp_worker_copy_from(bed.worker, 1, addresses[1], 0, host, 0, n),
			-EIO);
		assert_says("chip 1");
		assert_serves(addresses);
		/* One of several: it is named, the others are none the worse. */
		trap_fail("chip.command", pid, cases[i].nth, 1, -EIO);
		assert_int_equal(rp_worker_copy_to_all(bed.worker, chips, addresses,
						       CHIPS, 0, host, n),
				 -EIO);
		assert_says("chip 1");
		assert_serves(addresses);
	}
	free(host);
}

static void an_error_that_is_none_is_a_protocol_error(void **state)
{
	uint64_t address = must_alloc(0, 64);
	uint8_t host[64] = { 0 };

	(void)state;
	trap_fail("chip.command", rp_worker_pid(bed.worker, 0), 1, 1, 77);
	assert_int_equal(rp_worker_copy_to(bed.worker, 0, address, 0, host, 0, 64),
			 -EPROTO);
	trap_off();
	assert_ok(device_round_trip(bed.worker, 0, address, 64, 1));
}

static void a_thousand_failures_take_nothing(void **state)
{
	struct proc_census before;
	uint8_t *host = calloc(1, 5000);
	uint64_t addresses[CHIPS];
	uint32_t i;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		addresses[i] = must_alloc(i, 6 * CHUNK);
	assert_serves(addresses);
	proc_census_take(&before);
	trap_fail("chip.command", 0, 1, UINT32_MAX, -EIO);
	for (i = 0; i < 1000; i++) {
		const uint32_t chip = i % CHIPS;

		assert_int_equal(rp_worker_copy_to(bed.worker, chip, addresses[chip], 0,
						   host, 0, i % 3 ? 5000 : 8),
				 -EIO);
	}
	assert_serves(addresses);
	assert_true(proc_census_same(&before));
	free(host);
}

static void an_upload_that_fails_frees_its_tensor(void **state)
{
	static const int64_t sizes[] = { 8, 5000, 5 * CHUNK };
	struct rp_tensor init, out = { .rank = 77 };
	uint8_t *host = calloc(1, 5 * CHUNK);
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(sizes); i++) {
		init = TENSOR(host, RP_UINT8, sizes[i]);
		trap_fail("chip.command", rp_worker_pid(bed.worker, 1), 1, 1, -EIO);
		assert_int_equal(rp_worker_alloc_tensor(bed.worker, 1, RP_UINT8, 1,
							&sizes[i], &init, &out),
				 -EIO);
		assert_says("chip 1");
		assert_int_equal(out.rank, 77);
		assert_int_equal(device_committed(bed.worker, 1), 0);
	}
	trap_off();
	init = TENSOR(host, RP_UINT8, 8);
	assert_ok(rp_worker_alloc_tensor(bed.worker, 1, RP_UINT8, 1, sizes, &init, &out));
	free(host);
}

static void without_pages_for_the_chunks_a_copy_is_refused(void **state)
{
	uint8_t *host = calloc(1, 5000);
	uint64_t addresses[CHIPS];
	uint32_t chips[] = { 0, 1 };
	uint32_t i;

	(void)state;
	for (i = 0; i < CHIPS; i++)
		addresses[i] = must_alloc(i, 6 * CHUNK);
	trap_fail("region.populate", getpid(), 1, UINT32_MAX, -ENOMEM);
	assert_int_equal(rp_worker_copy_to(bed.worker, 0, addresses[0], 0, host, 0, 5000),
			 -ENOMEM);
	assert_says("rp-staging");
	assert_int_equal(
		rp_worker_copy_from(bed.worker, 0, addresses[0], 0, host, 0, 5000),
		-ENOMEM);
	assert_int_equal(
		rp_worker_copy_to_all(bed.worker, chips, addresses, CHIPS, 0, host, 5000),
		-ENOMEM);
	/* What rides in the commands needs none. */
	assert_ok(rp_worker_copy_to_all(bed.worker, chips, addresses, CHIPS, 0, host, 8));
	assert_ok(rp_worker_copy_to(bed.worker, 0, addresses[0], 0, host, 0, 8));
	assert_serves(addresses);
	free(host);
}

static size_t rss_of(pid_t pid)
{
	char path[64];
	size_t size, rss = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%zu %zu", &size, &rss), 2);
	fclose(file);
	return rss * (size_t)sysconf(_SC_PAGESIZE);
}

static void copying_without_end_grows_nothing(void **state)
{
	const char *given = getenv("RINGPLANE_TEST_COPY_GIB");
	const size_t total = (given ? strtoull(given, NULL, 0) : 1) * 1024 * MIB;
	const size_t each = 16 * MIB;
	uint8_t *host = malloc(each);
	uint64_t addresses[CHIPS];
	struct proc_census before;
	size_t rss[1 + CHIPS];
	pid_t pids[1 + CHIPS];
	size_t done;
	uint32_t i;

	(void)state;
	pids[0] = getpid();
	for (i = 0; i < CHIPS; i++) {
		pids[1 + i] = rp_worker_pid(bed.worker, i);
		addresses[i] = must_alloc(i, each);
		assert_ok(device_round_trip(bed.worker, i, addresses[i], each, i));
	}
	device_fill(host, each, 3);
	proc_census_take(&before);
	for (i = 0; i <= CHIPS; i++)
		rss[i] = rss_of(pids[i]);
	for (done = 0; done < total; done += 2 * each) {
		const uint32_t chip = done / each / 2 % CHIPS;

		assert_ok(rp_worker_copy_to(bed.worker, chip, addresses[chip], 0, host, 0,
					    each));
		assert_ok(rp_worker_copy_from(bed.worker, chip, addresses[chip], 0, host,
					      0, each));
	}
	assert_true(device_holds(host, each, 3));
	assert_true(proc_census_same(&before));
	for (i = 0; i <= CHIPS; i++)
		if (rss_of(pids[i]) > rss[i] + 2 * MIB)
			fail_msg("process %u has grown from %zu to %zu bytes", i, rss[i],
				 rss_of(pids[i]));
	print_message("%zu MiB copied (RINGPLANE_TEST_COPY_GIB)\n", done / MIB);
	free(host);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_copy_that_fails_in_its_chip_leaves_the_way_clear),
		TEST(an_error_that_is_none_is_a_protocol_error),
		TEST(a_thousand_failures_take_nothing),
		TEST(an_upload_that_fails_frees_its_tensor),
		TEST(without_pages_for_the_chunks_a_copy_is_refused),
		TEST(copying_without_end_grows_nothing),
	};

	return cmocka_run_group_tests_name("test_copy_fail", tests, NULL, NULL);
}
