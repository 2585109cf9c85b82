/* SPDX-License-Identifier: MIT */
/* Stacked tensors: one shard to each chip, all of them or none. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "device.h"
#include "support.h"

#define CHIPS 4

static struct bed bed;

static int set_up(void **state)
{
	return device_setup(state, &bed, CHIPS, 16 * MIB);
}

static int tear_down(void **state)
{
	return device_teardown(state, &bed);
}

static void assert_nothing_committed(void)
{
	uint32_t chip;

	for (chip = 0; chip < CHIPS; chip++)
		assert_int_equal(device_committed(bed.worker, chip), 0);
}

/* A host tensor [shards, shard_bytes / 4] of a pattern for each shard. */
static struct rp_tensor make_host(int64_t shards, size_t shard_bytes)
{
	uint8_t *at = malloc((size_t)shards * shard_bytes);
	int64_t i;

	for (i = 0; i < shards; i++)
		device_fill(at + (size_t)i * shard_bytes, shard_bytes, 50 + (uint64_t)i);
	return TENSOR(at, RP_FLOAT32, shards, (int64_t)shard_bytes / 4);
}

static void shards_lie_on_chips_in_order(void **state)
{
	struct rp_tensor host = make_host(2, 64);
	struct rp_tensor stack, shard;
	uint64_t address;
	uint32_t chip;
	int i;

	(void)state;
	host = TENSOR(host.data, RP_FLOAT32, 2, 4, 4);
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	assert_int_equal(stack.rank, 3);
	for (i = 0; i < 2; i++) {
		uint8_t back[64];

		assert_ok(rp_tensor_index(&stack, i, &shard));
		assert_int_equal(shard.rank, 2);
		assert_int_equal(shard.shape[0], 4);
		assert_int_equal(shard.shape[1], 4);
		assert_ok(rp_worker_tensor_address(bed.worker, &shard, &chip, &address));
		assert_int_equal(chip, i);
		assert_ok(rp_worker_copy_from(bed.worker, chip, address, 0, back, 0, 64));
		assert_true(device_holds(back, 64, 50 + (uint64_t)i));
		assert_int_equal(device_committed(bed.worker, (uint32_t)i), 1024);
	}
	assert_int_equal(device_committed(bed.worker, 2), 0);
	assert_ok(rp_worker_free_stacked(bed.worker, &stack));
	assert_nothing_committed();
	free(host.data);
}

static void shards_are_indexed_from_both_ends(void **state)
{
	struct rp_tensor host = make_host(3, 64);
	struct rp_tensor stack, shard, last;

	(void)state;
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	assert_ok(rp_tensor_index(&stack, 2, &shard));
	assert_ok(rp_tensor_index(&stack, -1, &last));
	assert_memory_equal(&shard, &last, sizeof(last));
	assert_int_equal(rp_tensor_index(&stack, 3, &shard), -ERANGE);
	assert_int_equal(rp_tensor_index(&stack, -4, &shard), -ERANGE);
	free(host.data);
}

static void shards_go_where_they_are_sent_and_come_back_in_order(void **state)
{
	static const uint32_t orders[][CHIPS] = { { 0, 1, 2, 3 },
						  { 3, 2, 1, 0 },
						  { 1, 3, 0, 2 } };
	static const size_t sizes[] = { 64, 3000, 600000 };
	size_t i, size;

	(void)state;
	for (i = 0; i < COUNT(orders); i++) {
		for (size = 0; size < COUNT(sizes); size++) {
			struct rp_tensor host = make_host(CHIPS, sizes[size]);
			struct rp_tensor stack, shard;
			uint64_t address;
			uint32_t chip;
			int s;

			assert_ok(rp_worker_alloc_stacked(bed.worker, &host, orders[i],
							  CHIPS, &stack));
			for (s = 0; s < CHIPS; s++) {
				assert_ok(rp_tensor_index(&stack, s, &shard));
				assert_ok(rp_worker_tensor_address(bed.worker, &shard,
								   &chip, &address));
				assert_int_equal(chip, orders[i][s]);
			}
			memset(host.data, 0, CHIPS * sizes[size]);
			assert_ok(rp_worker_copy_stacked_from(bed.worker, &stack, &host));
			for (s = 0; s < CHIPS; s++)
				assert_true(device_holds((uint8_t *)host.data +
								 (size_t)s * sizes[size],
							 sizes[size], 50 + (uint64_t)s));
			assert_ok(rp_worker_free_stacked(bed.worker, &stack));
			free(host.data);
		}
	}
	assert_nothing_committed();
}

static void placements_that_can_not_be_allocate_nothing(void **state)
{
	static const struct {
		uint32_t chips[5];
		size_t count;
		int64_t shards;
		const char *why;
	} cases[] = {
		{ { 0, 0 }, 2, 2, "chip 0 is named twice" },
		{ { 3, 1, 3 }, 3, 3, "chip 3 is named twice" },
		{ { 0, CHIPS }, 2, 2, "shard 1 goes to chip 4" },
		{ { UINT32_MAX, 0 }, 2, 2, "shard 0 goes to chip 4294967295" },
		{ { 0 }, 1, 2, "chip_count 1, expected 2" },
		{ { 0, 1, 2 }, 3, 2, "chip_count 3, expected 2" },
		{ { 0, 1 }, 0, 2, "chip_count 0, expected 2" },
		{ { 0, 1 }, SIZE_MAX, 2, "expected 2" },
		{ { 0, 1, 2, 3, 0 }, 5, 5, "5 shards" },
	};
	struct rp_tensor host, stack;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		host = make_host(cases[i].shards, 64);
		assert_int_equal(rp_worker_alloc_stacked(bed.worker, &host,
							 cases[i].chips, cases[i].count,
							 &stack),
				 -EINVAL);
		assert_says("rp_worker_alloc_stacked", cases[i].why);
		free(host.data);
	}
	host = make_host(CHIPS + 1, 64);
	assert_int_equal(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack),
			 -EINVAL);
	free(host.data);
	assert_nothing_committed();
}

static void hosts_that_can_not_be_stacked_allocate_nothing(void **state)
{
	float data[64] = { 0 };
	struct rp_tensor good = TENSOR(data, RP_FLOAT32, 2, 4);
	struct rp_tensor bad[6], stack;
	size_t i;

	(void)state;
	bad[0] = TENSOR(data, RP_FLOAT32, 2);
	bad[1] = TENSOR(data, RP_FLOAT32, 4, 8);
	assert_ok(rp_tensor_slice(&bad[1], 1, 0, 4, 2, &bad[1]));
	bad[2] = good;
	bad[2].data = NULL;
	bad[3] = good;
	bad[3].shape[1] = 0;
	bad[4] = good;
	bad[4].shape[1] = INT64_MAX / 2;
	bad[5] = good;
	bad[5].dtype = 0;
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(
			rp_worker_alloc_stacked(bed.worker, &bad[i], NULL, 0, &stack),
			-EINVAL);
	assert_int_equal(rp_worker_alloc_stacked(bed.worker, NULL, NULL, 0, &stack),
			 -EINVAL);
	assert_int_equal(rp_worker_alloc_stacked(bed.worker, &good, NULL, 0, NULL),
			 -EINVAL);
	assert_int_equal(rp_worker_alloc_stacked(NULL, &good, NULL, 0, &stack), -EINVAL);
	assert_nothing_committed();
}

static void a_chip_without_room_frees_the_others_shards(void **state)
{
	struct rp_tensor host = make_host(CHIPS, 2 * MIB);
	struct rp_tensor stack;
	uint64_t full;

	(void)state;
	assert_ok(rp_worker_device_alloc(bed.worker, 2, 11 * MIB, &full));
	assert_int_equal(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack),
			 -ENOMEM);
	assert_says("rp_worker_alloc_stacked", "chip 2", "2097152");
	assert_ok(rp_worker_device_free(bed.worker, 2, full));
	assert_nothing_committed();
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	free(host.data);
}

static void an_upload_that_fails_frees_every_shard(void **state)
{
	static const size_t sizes[] = { 64, 4096, 600000 };
	struct rp_tensor stack;
	uint32_t chip;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(sizes); i++) {
		struct rp_tensor host = make_host(CHIPS, sizes[i]);

		for (chip = 0; chip < CHIPS; chip++) {
			char name[16];

			snprintf(name, sizeof(name), "chip %u", chip);
			trap_fail("chip.command", rp_worker_pid(bed.worker, chip), 1, 1,
				  -EIO);
			assert_int_equal(rp_worker_alloc_stacked(bed.worker, &host, NULL,
								 0, &stack),
					 -EIO);
			assert_says(name);
			assert_nothing_committed();
		}
		trap_off();
		assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
		assert_ok(rp_worker_free_stacked(bed.worker, &stack));
		free(host.data);
	}
}

static void shards_are_copied_at_the_same_time(void **state)
{
	struct rp_tensor host = make_host(CHIPS, MIB);
	struct rp_tensor stack;

	(void)state;
	/* No chip goes on before all have begun. */
	trap_meet("chip.command", CHIPS);
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	assert_true(trap_met());
	trap_meet("chip.command", CHIPS);
	assert_ok(rp_worker_copy_stacked_from(bed.worker, &stack, &host));
	assert_true(trap_met());
	free(host.data);
}

static void a_stack_is_freed_once_and_whole(void **state)
{
	struct rp_tensor host = make_host(CHIPS, 64);
	struct rp_tensor stack, shard, next;

	(void)state;
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	/* Shard 0 begins where the whole does. */
	assert_ok(rp_tensor_index(&stack, 0, &shard));
	assert_int_equal(rp_worker_free_stacked(bed.worker, &shard), -EINVAL);
	assert_int_equal(rp_worker_free_tensor(bed.worker, &shard), -EINVAL);
	assert_int_equal(rp_worker_free_tensor(bed.worker, &stack), -EINVAL);
	assert_says("rp_worker_free_tensor", "stacked");
	trap_fail("device.give", getpid(), 1, 1, -EIO);
	assert_int_equal(rp_worker_free_stacked(bed.worker, &stack), -EIO);
	assert_int_equal(device_committed(bed.worker, 3), 1024);
	trap_off();
	assert_ok(rp_worker_free_stacked(bed.worker, &stack));
	assert_ok(rp_worker_free_stacked(bed.worker, &stack));
	assert_nothing_committed();
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &next));
	assert_int_equal(rp_worker_free_stacked(bed.worker, &stack), -ESTALE);
	assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &stack, &host), -ESTALE);
	assert_int_equal(device_committed(bed.worker, 3), 1024);
	assert_int_equal(rp_worker_free_stacked(bed.worker, NULL), -EINVAL);
	assert_int_equal(rp_worker_free_stacked(NULL, &next), -EINVAL);
	assert_int_equal(rp_worker_free_stacked(bed.worker, &host), -EINVAL);
	free(host.data);
}

static void a_read_back_into_what_differs_touches_nothing(void **state)
{
	struct rp_tensor host = make_host(2, 64);
	struct rp_tensor stack, shard, plain, bad[8];
	uint8_t zeros[1024] = { 0 };
	uint8_t data[1024] = { 0 };
	size_t i;

	(void)state;
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	assert_ok(rp_worker_alloc_tensor(bed.worker, 0, RP_FLOAT32, 2,
					 (int64_t[]){ 2, 16 }, NULL, &plain));
	assert_ok(rp_tensor_index(&stack, 0, &shard));
	bad[0] = TENSOR(data, RP_INT32, 2, 16);
	bad[1] = TENSOR(data, RP_FLOAT32, 2, 15);
	bad[2] = TENSOR(data, RP_FLOAT32, 32);
	bad[3] = TENSOR(data, RP_FLOAT32, 2, 4, 4);
	bad[4] = TENSOR(data, RP_FLOAT32, 2, 32);
	assert_ok(rp_tensor_slice(&bad[4], 1, 0, 16, 2, &bad[4]));
	bad[5] = plain;
	bad[6] = TENSOR(data, RP_FLOAT32, 2, 16);
	bad[6].data = NULL;
	bad[7] = TENSOR(data, RP_FLOAT32, 16);
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &stack, &bad[i]),
				 -EINVAL);
		assert_says("rp_worker_copy_stacked_from", "host");
	}
	bad[0] = TENSOR(data, RP_FLOAT32, 2, 16);
	assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &shard, &bad[0]),
			 -EINVAL);
	assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &plain, &bad[0]),
			 -EINVAL);
	assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &host, &bad[0]),
			 -EINVAL);
	assert_int_equal(rp_worker_copy_stacked_from(bed.worker, NULL, &bad[0]), -EINVAL);
	assert_int_equal(rp_worker_copy_stacked_from(bed.worker, &stack, NULL), -EINVAL);
	assert_int_equal(rp_worker_copy_stacked_from(NULL, &stack, &bad[0]), -EINVAL);
	assert_memory_equal(data, zeros, sizeof(data));
	assert_ok(rp_worker_copy_stacked_from(bed.worker, &stack, &bad[0]));
	assert_memory_equal(data, host.data, 128);
	free(host.data);
}

static sigset_t copier_mask;

static int note_mask(const char *point)
{
	sigset_t mask;

	/* The caller's own thread keeps what it had. */
	if (!strcmp(point, "copier.send") && gettid() != getpid()) {
		pthread_sigmask(SIG_SETMASK, NULL, &mask);
		copier_mask = mask;
	}
	return 0;
}

static void helper_threads_take_no_signals_of_the_hosts(void **state)
{
	struct rp_tensor host = make_host(2, MIB);
	struct rp_tensor stack;
	sigset_t mine;

	(void)state;
	sigemptyset(&copier_mask);
	rpi_test_hook = note_mask;
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &stack));
	rpi_test_hook = NULL;
	assert_true(sigismember(&copier_mask, SIGUSR1));
	assert_true(sigismember(&copier_mask, SIGINT));
	assert_true(sigismember(&copier_mask, SIGCHLD));
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	assert_false(sigismember(&mine, SIGUSR1));
	free(host.data);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(shards_lie_on_chips_in_order),
		TEST(shards_are_indexed_from_both_ends),
		TEST(shards_go_where_they_are_sent_and_come_back_in_order),
		TEST(placements_that_can_not_be_allocate_nothing),
		TEST(hosts_that_can_not_be_stacked_allocate_nothing),
		TEST(a_chip_without_room_frees_the_others_shards),
		TEST(an_upload_that_fails_frees_every_shard),
		TEST(shards_are_copied_at_the_same_time),
		TEST(a_stack_is_freed_once_and_whole),
		TEST(a_read_back_into_what_differs_touches_nothing),
		TEST(helper_threads_take_no_signals_of_the_hosts),
	};

	return cmocka_run_group_tests_name("test_device_stack", tests, NULL, NULL);
}
