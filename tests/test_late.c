/* SPDX-License-Identifier: MIT */
/* Shared memory that is made after the worker: passed to its processes when it is first
 * named, and from then on like any other. */
#include "late.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proc.h"
#include "worker/worker.h"

#define ELEMENTS 64
#define CHIPS	 2
#define PEERS	 3 /* with the callback worker */

/* --- Every direction, everywhere -------------------------------------------- */

struct blocks {
	void *in, *out, *both, *back;
};

/* in -> out on chip 0, both += 5 on chip 1, and both -> back in a callback. */
static int all_ways(struct rp_run *run, void *arg)
{
	const struct blocks *blocks = arg;
	struct rp_tensor in = late_tensor(blocks->in, ELEMENTS);
	struct rp_tensor out = late_tensor(blocks->out, ELEMENTS);
	struct rp_tensor both = late_tensor(blocks->both, ELEMENTS);
	struct rp_tensor back = late_tensor(blocks->back, ELEMENTS);
	int err;

	err = TASK(run, 0, ENTRY_COPY, rp_in(in), rp_out(out));
	if (!err)
		err = TASK(run, 1, ENTRY_ADD, rp_inout(both), rp_arg_i64(5));
	return err ? err : CALL(run, CALLBACK_COPY, rp_in(both), rp_out(back));
}

static void check_all_ways(struct bed *bed, const struct blocks *blocks)
{
	const int64_t *in = blocks->in, *out = blocks->out;
	const int64_t *both = blocks->both, *back = blocks->back;
	int64_t before = both[0];

	assert_ok(bed_run(bed, all_ways, (void *)(uintptr_t)blocks));
	for (int i = 0; i < ELEMENTS; i++) {
		assert_int_equal(out[i], in[i]);
		assert_int_equal(both[i], before + 5);
		assert_int_equal(back[i], before + 5);
	}
}

static void memory_made_after_the_worker_goes_in_and_out_of_every_process(void **state)
{
	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		struct rp_worker_options options;
		struct blocks blocks;
		struct bed bed;

		bed_options(&options, CHIPS);
		options.unified_memory = unified;
		bed_open_with(&bed, &options);
		blocks = (struct blocks){ late_block(1), late_block(2), late_block(3),
					  late_block(4) };
		check_all_ways(&bed, &blocks);
		memset(blocks.in, 9, LATE_BYTES);
		check_all_ways(&bed, &blocks);
		/* In place where memory is unified. */
		assert_int_equal(bed_stats(&bed).copies_to_device != 0, !unified);
		assert_ok(rp_shared_free(blocks.in));
		assert_ok(rp_shared_free(blocks.out));
		assert_ok(rp_shared_free(blocks.both));
		bed_close(&bed);
		assert_ok(rp_shared_free(blocks.back));
	}
}

static int one_task(struct rp_run *run, void *task)
{
	return rp_run_task(run, task);
}

/* First and last byte, on small pages and on what there is of others. */
static void all_of_a_block_is_seen_whatever_pages_it_has(void **state)
{
	static const struct {
		size_t bytes;
		enum rp_page_policy pages;
	} cases[] = {
		{ 4096, RP_PAGES_NEVER },
		{ 5000, RP_PAGES_NEVER },
		{ 3 * LATE_BYTES + 4096, RP_PAGES_NEVER },
		{ LATE_BYTES, RP_PAGES_AUTO },
		{ 2 * LATE_BYTES, RP_PAGES_REQUIRE },
	};
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t count = cases[i].bytes / 8;
		int64_t *ends;
		void *block;
		int err = rp_shared_alloc_pages(cases[i].bytes, cases[i].pages, &block);
		struct blocks blocks;

		if (err && cases[i].pages == RP_PAGES_REQUIRE)
			continue; /* none on this machine */
		assert_ok(err);
		ends = block;
		blocks = (struct blocks){ ends, ends + count - 8, ends + 8, ends + 16 };
		ends[0] = 77;
		/* Two short tensors, at the ends of the block. */
		struct rp_tensor low = late_tensor(blocks.in, 8);
		struct rp_tensor high = late_tensor(blocks.out, 8);
		struct rp_arg args[] = { rp_in(low), rp_out(high) };
		struct rp_task task = { .entry = ENTRY_COPY,
					.args = args,
					.arg_count = 2 };

		assert_ok(bed_run(&bed, one_task, &task));
		assert_int_equal(ends[count - 8], 77);
		assert_ok(rp_shared_free(block));
	}
	bed_close(&bed);
}

/* --- What is refused as before ----------------------------------------------- */

static int add_one(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_ADD, rp_inout(late_tensor(arg, 8)), rp_arg_i64(1));
}

static void other_memory_is_refused_as_before(void **state)
{
	void *heap, *edge;
	int64_t page[8];
	struct bed bed;

	(void)state;
	bed_open(&bed, 1);
	edge = late_block(1);
	heap = malloc(4096);
	assert_int_equal(bed_run(&bed, add_one, heap), -EFAULT);
	assert_says("argument 0", "not memory that the chips see");
	free(heap);
	assert_int_equal(bed_run(&bed, add_one, page), -EFAULT);
	/* Across its end, and addresses that nobody has been given. */
	assert_int_equal(bed_run(&bed, add_one, (char *)edge + LATE_BYTES - 32), -EFAULT);
	assert_int_equal(bed_run(&bed, add_one, (char *)edge + ((size_t)8 << 30)),
			 -EFAULT);
	assert_ok(bed_run(&bed, add_one, edge));
	assert_int_equal(*(int64_t *)edge, INT64_C(0x0101010101010101) + 1);
	bed_close(&bed);
	assert_ok(rp_shared_free(edge));
}

/* --- Once, and only once ----------------------------------------------------- */

static void a_region_is_passed_once_and_small_blocks_of_it_not_again(void **state)
{
	struct late_hook *sends = &late_hooks[0];
	void *block, *small[64];
	struct bed bed;

	(void)state;
	bed_open(&bed, CHIPS);
	late_hook_set(0, "mapper.send", INT64_MAX, LATE_PASS);
	block = late_block(0);
	assert_int_equal(atomic_load(&sends->passed), 0);
	for (int i = 0; i < 100; i++)
		assert_ok(bed_run(&bed, add_one, (int64_t *)block + 8 * i));
	assert_int_equal(atomic_load(&sends->passed), PEERS);
	assert_int_equal(((int64_t *)block)[8 * 99], 1);
	/* More small blocks than one region holds; each region is new but for one. */
	atomic_store(&sends->passed, 0);
	for (size_t i = 0; i < COUNT(small); i++) {
		small[i] = bed_shared((size_t)128 << 10, 0);
		assert_ok(bed_run(&bed, add_one, small[i]));
		assert_ok(bed_run(&bed, add_one, small[i]));
		assert_int_equal(*(int64_t *)small[i], 2);
	}
	assert_true(atomic_load(&sends->passed) >= 3 * PEERS);
	assert_true(atomic_load(&sends->passed) <= 5 * PEERS);
	bed_close(&bed);
	assert_ok(rp_shared_free(block));
	for (size_t i = 0; i < COUNT(small); i++)
		assert_ok(rp_shared_free(small[i]));
}

static uint64_t faults_of(pid_t pid)
{
	unsigned long faults = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(
		fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %lu", &faults), 1);
	fclose(file);
	return faults;
}

static void a_process_takes_no_fault_in_a_region_that_it_has(void **state)
{
	struct rp_worker_options options;
	struct bed bed;
	void *block;
	int tries = 0;

	(void)state;
	bed_options(&options, 1);
	options.unified_memory = true;
	bed_open_with(&bed, &options);
	block = late_block(0);
	assert_ok(bed_run(&bed, add_one, block));
	/* The kernel may move a page in its own time: not in every stretch. */
	for (;;) {
		/* All of it, in place: 512 pages. */
		struct rp_tensor all = late_tensor(block, LATE_BYTES / 8);
		struct rp_arg args[] = { rp_inout(all), rp_arg_i64(1) };
		struct rp_task task = { .entry = ENTRY_ADD,
					.args = args,
					.arg_count = 2 };
		uint64_t before = faults_of(rp_worker_pid(bed.worker, 0));

		assert_ok(bed_run(&bed, one_task, &task));
		if (faults_of(rp_worker_pid(bed.worker, 0)) - before < 16)
			break;
		assert_true(tries++ < 10);
	}
	bed_close(&bed);
	assert_ok(rp_shared_free(block));
}

static int nothing_on_chip_0(struct rp_run *run, void *arg)
{
	(void)arg;
	return TASK(run, 0, ENTRY_EMPTY);
}

static int add_on_chip_1(struct rp_run *run, void *arg)
{
	return TASK(run, 1, ENTRY_ADD, rp_inout(late_tensor(arg, 8)), rp_arg_i64(1));
}

static void a_process_that_uses_none_of_it_pays_for_none_of_it(void **state)
{
	struct bed bed;
	void *block;
	pid_t pid;

	(void)state;
	bed_open(&bed, CHIPS);
	pid = rp_worker_pid(bed.worker, 0);
	/* Free addresses in every process, whatever it has mapped of its own. */
	block = late_block(0);
	for (uint32_t peer = 0; peer < PEERS; peer++) {
		pid_t any = rp_worker_pid(bed.worker, peer);

		assert_false(late_is_mapped(any, block));
		assert_int_equal(late_resident_kib(any, block), 0);
	}
	assert_ok(bed_run(&bed, add_on_chip_1, block));
	assert_ok(bed_run(&bed, nothing_on_chip_0, NULL));
	assert_true(late_is_mapped(pid, block));
	assert_int_equal(late_resident_kib(pid, block), 0);
	assert_true(late_resident_kib(rp_worker_pid(bed.worker, 1), block) > 0);
	assert_ok(bed_run(&bed, add_one, block));
	assert_true(late_resident_kib(pid, block) > 0);
	bed_close(&bed);
	assert_ok(rp_shared_free(block));
}

/* --- Nobody waits for a process that is busy --------------------------------- */

struct held {
	void *gate_block; /* NULL: none */
	uint32_t gate;
};

static int hold_chip(struct rp_run *run, void *arg)
{
	const struct held *held = arg;

	if (!held->gate_block)
		return TASK(run, 0, ENTRY_GATE, rp_arg_i64(held->gate));
	return TASK(run, 0, ENTRY_GATE, rp_inout(late_tensor(held->gate_block, 8)),
		    rp_arg_i64(held->gate), rp_arg_i64(1));
}

static void a_chip_in_a_long_task_holds_up_no_first_use(void **state)
{
	struct held held = { NULL, 3 };
	struct rp_handle gated, next;
	void *first, *second;
	struct bed bed;

	(void)state;
	bed_open(&bed, CHIPS);
	assert_ok(bed_submit(&bed, hold_chip, &held, &gated));
	gate_await_entered(3, 1);
	/* On the other chip it runs to its end, ... */
	first = late_block(0);
	assert_ok(bed_run(&bed, add_on_chip_1, first));
	assert_int_equal(*(int64_t *)first, 1);
	/* ... on the held one the submit comes back. */
	second = late_block(0);
	assert_ok(bed_submit(&bed, add_one, second, &next));
	assert_int_equal(rp_handle_done(next), 0);
	gate_open(3);
	assert_ok(rp_handle_wait(gated, RP_WAIT_FOREVER));
	assert_ok(rp_handle_wait(next, RP_WAIT_FOREVER));
	assert_int_equal(*(int64_t *)second, 1);
	assert_ok(rp_handle_release(gated));
	assert_ok(rp_handle_release(next));
	bed_close(&bed);
	assert_ok(rp_shared_free(first));
	assert_ok(rp_shared_free(second));
}

/* Tasks of one run, one of which waits inside its entry for another that is enqueued
 * later, on memory that the orchestration allocates in between. */
static int scratch_between(struct rp_run *run, void *arg)
{
	void **scratch = arg;
	int err;

	err = TASK(run, 0, ENTRY_GATE, rp_arg_i64(5));
	if (!err)
		err = rp_shared_alloc(LATE_BYTES, scratch);
	if (!err)
		err = TASK(run, 0, ENTRY_ADD, rp_inout(late_tensor(*scratch, 8)),
			   rp_arg_i64(40));
	if (!err)
		err = TASK(run, 1, ENTRY_OPEN, rp_arg_i64(5));
	return err ? err : CALL(run, CALLBACK_NOTE, rp_arg_i64(1));
}

static void an_orchestration_may_allocate_while_its_tasks_wait_for_each_other(
	void **state)
{
	struct bed bed;
	void *scratch = NULL;

	(void)state;
	bed_open(&bed, CHIPS);
	assert_ok(bed_run(&bed, scratch_between, &scratch));
	assert_int_equal(*(int64_t *)scratch, 40);
	assert_ok(rp_shared_free(scratch));
	bed_close(&bed);
}

/* More regions than a process that does not read has room for messages. */
#define MANY 40

struct flood {
	struct bed *bed;
	void *blocks[MANY];
	_Atomic int done;
	int err;
};

static void *flood_chip_1(void *arg)
{
	struct flood *flood = arg;

	for (int i = 0; i < MANY && !flood->err; i++) {
		flood->err = bed_run(flood->bed, add_on_chip_1, flood->blocks[i]);
		atomic_fetch_add(&flood->done, 1);
	}
	return NULL;
}

static void a_process_that_reads_nothing_presses_back_and_loses_nothing(void **state)
{
	struct held held = { NULL, 7 };
	struct flood flood = { .done = 0 };
	struct rp_handle gated;
	pthread_t thread;
	int least = 1;
	int before = -1;
	struct bed bed;

	(void)state;
	bed_open(&bed, CHIPS);
	flood.bed = &bed;
	/* As small as the kernel makes it. */
	assert_int_equal(setsockopt(bed.worker->mapper.fds[0], SOL_SOCKET, SO_SNDBUF,
				    &least, sizeof(least)),
			 0);
	for (int i = 0; i < MANY; i++)
		assert_ok(rp_shared_alloc_pages(4096, RP_PAGES_NEVER, &flood.blocks[i]));
	assert_ok(bed_submit(&bed, hold_chip, &held, &gated));
	gate_await_entered(7, 1);
	assert_int_equal(pthread_create(&thread, NULL, flood_chip_1, &flood), 0);
	/* Until it gets no further. */
	while (atomic_load(&flood.done) != before) {
		before = atomic_load(&flood.done);
		proc_pause_us(200000);
	}
	assert_true(before < MANY);
	gate_open(7);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_ok(flood.err);
	assert_int_equal(atomic_load(&flood.done), MANY);
	assert_ok(rp_handle_wait(gated, RP_WAIT_FOREVER));
	for (int i = 0; i < MANY; i++) {
		assert_ok(bed_run(&bed, add_one, flood.blocks[i]));
		assert_int_equal(*(int64_t *)flood.blocks[i], 2);
	}
	bed_close(&bed);
	for (int i = 0; i < MANY; i++)
		assert_ok(rp_shared_free(flood.blocks[i]));
}

/* --- Copies -------------------------------------------------------------------- */

static void copies_name_it_in_place_in_both_directions(void **state)
{
	uint64_t address[CHIPS];
	uint32_t chips[CHIPS] = { 0, 1 };
	uint8_t *from, *to;
	struct bed bed;
	uint64_t named;

	(void)state;
	bed_open(&bed, CHIPS);
	for (uint32_t chip = 0; chip < CHIPS; chip++)
		assert_ok(rp_worker_device_alloc(bed.worker, chip, LATE_BYTES,
						 &address[chip]));
	late_hook_set(0, "mapper.send", INT64_MAX, LATE_PASS);
	from = late_block(0x5a);
	to = late_block(0);
	/* What rides in the command is not worth a mapping. */
	assert_ok(rp_worker_copy_to(bed.worker, 0, address[0], 0, from, 0, 64));
	assert_int_equal(atomic_load(&late_hooks[0].passed), 0);
	named = bed_stats(&bed).bytes_named;
	assert_ok(rp_worker_copy_to(bed.worker, 0, address[0], 0, from, 0, LATE_BYTES));
	assert_ok(rp_worker_copy_from(bed.worker, 0, address[0], 0, to, 0, LATE_BYTES));
	assert_memory_equal(from, to, LATE_BYTES);
	assert_int_equal(bed_stats(&bed).bytes_named - named, 2 * LATE_BYTES);
	assert_int_equal(bed_stats(&bed).bytes_staged, 0);
	assert_int_equal(atomic_load(&late_hooks[0].passed), 2 * PEERS);
	/* To several, from memory that none of them has seen. */
	assert_ok(rp_shared_free(from));
	from = late_block(0x33);
	assert_ok(rp_worker_copy_to_all(bed.worker, chips, address, CHIPS, 0, from,
					LATE_BYTES));
	assert_ok(rp_worker_copy_from(bed.worker, 1, address[1], 0, to, 0, LATE_BYTES));
	assert_memory_equal(from, to, LATE_BYTES);
	assert_int_equal(bed_stats(&bed).bytes_staged, 0);
	bed_close(&bed);
	assert_ok(rp_shared_free(from));
	assert_ok(rp_shared_free(to));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, late_setup, late_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_made_after_the_worker_goes_in_and_out_of_every_process),
		TEST(all_of_a_block_is_seen_whatever_pages_it_has),
		TEST(other_memory_is_refused_as_before),
		TEST(a_region_is_passed_once_and_small_blocks_of_it_not_again),
		TEST(a_process_takes_no_fault_in_a_region_that_it_has),
		TEST(a_process_that_uses_none_of_it_pays_for_none_of_it),
		TEST(a_chip_in_a_long_task_holds_up_no_first_use),
		TEST(an_orchestration_may_allocate_while_its_tasks_wait_for_each_other),
		TEST(a_process_that_reads_nothing_presses_back_and_loses_nothing),
		TEST(copies_name_it_in_place_in_both_directions),
	};

	return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
