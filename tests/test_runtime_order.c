/* SPDX-License-Identifier: MIT */
/* Whom kernels wait for, shown by gates: a kernel at a gate runs until it is opened. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_bed.h"

#define GATES 8

static _Atomic uint32_t open_gates, entered;
static _Atomic uint64_t log_at;
static _Atomic uint32_t log_words[1024];
static _Alignas(64) uint8_t buffer[4096];

static void reset(void)
{
	atomic_store(&open_gates, 0);
	atomic_store(&entered, 0);
	atomic_store(&log_at, 0);
	memset(buffer, 0, sizeof(buffer));
}

/* The first argument is the gate, the second a word to note. */
static int at_gate(const struct rp_arg *args, size_t nargs)
{
	uint32_t gate = args[0].u.scalar.value.u32;

	(void)nargs;
	atomic_fetch_or(&entered, 1u << gate);
	while (!(atomic_load(&open_gates) & 1u << gate))
		sched_yield();
	atomic_store(&log_words[atomic_fetch_add(&log_at, 1)], gate);
	return 0;
}

static void open_gate(uint32_t gate)
{
	atomic_fetch_or(&open_gates, 1u << gate);
}

static void await_entered(uint32_t gate)
{
	while (!(atomic_load(&entered) & 1u << gate))
		sched_yield();
}

/* What should be held back gets this long to show that it is not. */
static void give_a_chance(void)
{
	for (int i = 0; i < 2000; i++)
		sched_yield();
}

static bool has_entered(uint32_t gate)
{
	return atomic_load(&entered) & 1u << gate;
}

static struct rp_tensor bytes_at(uint32_t offset, int64_t count)
{
	return (struct rp_tensor){ .data = buffer + offset,
				   .dtype = RP_UINT8,
				   .rank = 1,
				   .shape = { count },
				   .strides = { 1 } };
}

/* Every `step`-th column of a [64][64] byte matrix, from `first`. */
static struct rp_tensor columns(int64_t first, int64_t step)
{
	return (struct rp_tensor){ .data = buffer + first,
				   .dtype = RP_UINT8,
				   .rank = 2,
				   .shape = { 64, 64 / step },
				   .strides = { 64, step } };
}

static rp_kernel_id gated(struct rpi_runtime *runtime, uint32_t gate, struct rp_arg arg,
			  rp_kernel_id dep)
{
	struct rp_arg args[2] = { rp_arg_u32(gate), arg };
	struct rp_kernel kernel = { .fn = at_gate,
				    .args = args,
				    .arg_count = arg.kind ? 2 : 1,
				    .deps = &dep,
				    .dep_count = dep ? 1 : 0 };
	rp_kernel_id id;

	assert_ok(rpi_runtime_submit(runtime, &kernel, &id));
	return id;
}

static void overlap_orders_and_nothing_else_does(void **state)
{
	const struct {
		const char *name;
		struct rp_arg first, second;
		bool ordered;
	} cases[] = {
		{ "read after write", rp_out(bytes_at(0, 64)), rp_in(bytes_at(63, 1)),
		  true },
		{ "write after write", rp_out(bytes_at(0, 64)), rp_out(bytes_at(32, 64)),
		  true },
		{ "write after read", rp_in(bytes_at(0, 64)), rp_out(bytes_at(32, 64)),
		  true },
		{ "read after read", rp_in(bytes_at(0, 64)), rp_in(bytes_at(0, 64)),
		  false },
		{ "two halves", rp_out(bytes_at(0, 64)), rp_out(bytes_at(64, 64)),
		  false },
		{ "even and odd columns", rp_out(columns(0, 2)), rp_out(columns(1, 2)),
		  false },
		{ "even and fourth columns", rp_out(columns(0, 2)), rp_out(columns(2, 4)),
		  true },
		{ "a matrix and a byte of it", rp_inout(bytes_at(0, 4096)),
		  rp_in(bytes_at(4095, 1)), true },
		{ "a byte and its matrix", rp_inout(bytes_at(4095, 1)),
		  rp_in(bytes_at(0, 4096)), true },
		{ "no dependency taken", rp_out(bytes_at(0, 64)),
		  rp_no_dep(rp_in(bytes_at(0, 64))), false },
		{ "no dependency left", rp_no_dep(rp_out(bytes_at(0, 64))),
		  rp_in(bytes_at(0, 64)), false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rpi_runtime *runtime =
			kernel_open((struct kernel_bed){ .threads = 2 });

		reset();
		gated(runtime, 0, cases[i].first, 0);
		gated(runtime, 1, cases[i].second, 0);
		await_entered(0);
		if (cases[i].ordered) {
			give_a_chance();
			if (has_entered(1))
				fail_msg("%s: not ordered", cases[i].name);
		} else {
			await_entered(1);
		}
		open_gate(0);
		open_gate(1);
		kernel_close(runtime, 0);
		assert_int_equal(atomic_load(&log_at), 2);
	}
}

static void an_id_orders_what_memory_does_not(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ .threads = 2 });
	struct rp_arg none = { 0 };
	rp_kernel_id first;

	(void)state;
	reset();
	first = gated(runtime, 0, none, 0);
	gated(runtime, 1, none, first);
	await_entered(0);
	give_a_chance();
	assert_false(has_entered(1));
	open_gate(0);
	await_entered(1);
	open_gate(1);
	kernel_close(runtime, 0);
}

static void only_ids_order_a_manual_scope(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ .threads = 3 });
	rp_kernel_id first;

	(void)state;
	reset();
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_MANUAL));
	first = gated(runtime, 0, rp_inout(bytes_at(0, 64)), 0);
	gated(runtime, 1, rp_inout(bytes_at(0, 64)), 0);
	gated(runtime, 2, rp_inout(bytes_at(0, 64)), first);
	await_entered(0);
	await_entered(1);
	give_a_chance();
	assert_false(has_entered(2));
	open_gate(0);
	await_entered(2);
	open_gate(1);
	open_gate(2);
	kernel_close(runtime, 0);
}

/* The reader follows the newest writer, which covers the first, and not the first. */
static void a_covering_write_takes_the_place_of_what_it_covers(void **state)
{
	struct rpi_runtime *runtime = kernel_open((struct kernel_bed){ .threads = 2 });
	struct rp_ring_state seen;

	(void)state;
	reset();
	gated(runtime, 0, rp_out(bytes_at(8, 16)), 0);
	await_entered(0);
	gated(runtime, 1, rp_inout(bytes_at(0, 64)), 0);
	gated(runtime, 2, rp_in(bytes_at(8, 8)), 0);
	assert_ok(rpi_runtime_ring_state(runtime, 0, &seen));
	assert_int_equal(seen.dep_pool.in_use, 2);
	open_gate(0);
	open_gate(1);
	open_gate(2);
	kernel_close(runtime, 0);
}

static int store_word(const struct rp_arg *args, size_t nargs)
{
	*(uint64_t *)args[0].u.tensor.data = args[nargs - 1].u.scalar.value.u64;
	return 0;
}

static int sum_words(const struct rp_arg *args, size_t nargs)
{
	uint64_t sum = 0;

	for (size_t i = 1; i < nargs; i++)
		sum += *(const uint64_t *)args[i].u.tensor.data;
	*(uint64_t *)args[0].u.tensor.data = sum;
	return 0;
}

static void any_fan_in_is_waited_for(void **state)
{
	static const struct {
		uint32_t producers;
		uint64_t pool;
	} cases[] = { { 1, 0 }, { 64, 0 }, { 65, 0 }, { 200, 0 }, { 200, 200 } };
	struct rp_arg *args = calloc(256, sizeof(*args));

	(void)state;
	for (size_t c = 0; c < COUNT(cases); c++) {
		struct rpi_runtime *runtime = kernel_open(
			(struct kernel_bed){ .threads = 2, .pool = cases[c].pool });
		uint64_t want = 0, got = 0;
		int64_t one = 1;

		for (uint32_t i = 1; i <= cases[c].producers; i++) {
			struct rp_arg store[2] = { rp_out_new(RP_UINT64, 1, &one),
						   rp_arg_u64(i * i) };

			assert_ok(kernel_submit(runtime, store_word, store, 2));
			args[i] = rp_in(store[0].u.tensor);
			want += i * i;
		}
		args[0] = rp_out(args[1].u.tensor);
		args[0].u.tensor.data = &got;
		assert_ok(
			kernel_submit(runtime, sum_words, args, cases[c].producers + 1));
		kernel_close(runtime, 0);
		assert_int_equal(got, want);
	}
	free(args);
}

/* Producers in outside memory: more than there are edges are waited for, never refused.
 */
static void a_pool_that_is_too_small_presses_back(void **state)
{
	static uint64_t words[128];
	struct rpi_runtime *runtime =
		kernel_open((struct kernel_bed){ .threads = 2, .pool = 4 });
	struct rp_tensor all = { .data = words,
				 .dtype = RP_UINT64,
				 .rank = 1,
				 .shape = { 128 },
				 .strides = { 1 } };

	(void)state;
	for (int round = 0; round < 50; round++) {
		assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
		for (int i = 0; i < 128; i++) {
			struct rp_arg store[2] = { rp_out(all), rp_arg_u64((uint64_t)i) };

			store[0].u.tensor.data = &words[i];
			store[0].u.tensor.shape[0] = 1;
			assert_ok(kernel_submit(runtime, store_word, store, 2));
		}
		assert_ok(kernel_submit(runtime, kernel_nothing,
					(struct rp_arg[]){ rp_inout(all) }, 1));
		assert_ok(rpi_runtime_scope_end(runtime));
	}
	kernel_close(runtime, 0);
}

/* Ended out of order, retired in order: a slot is not given out before older ones. */
static void the_oldest_kernel_holds_the_window(void **state)
{
	struct rpi_runtime *runtime =
		kernel_open((struct kernel_bed){ .threads = 2, .window = 4 });
	struct rp_arg none = { 0 };
	struct rp_ring_state seen;

	(void)state;
	reset();
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
	gated(runtime, 0, none, 0);
	await_entered(0);
	open_gate(1);
	for (int i = 0; i < 3; i++)
		gated(runtime, 1, none, 0);
	assert_ok(rpi_runtime_scope_end(runtime));
	while (atomic_load(&log_at) < 3)
		sched_yield();
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
	assert_ok(rpi_runtime_ring_state(runtime, 1, &seen));
	assert_int_equal(seen.task_window.in_use, 4);
	open_gate(0);
	gated(runtime, 1, none, 0);
	assert_ok(rpi_runtime_drain(runtime));
	assert_ok(rpi_runtime_ring_state(runtime, 1, &seen));
	assert_int_equal(seen.task_window.in_use, 1);
	assert_int_equal(seen.task_window.peak, 4);
	kernel_close(runtime, 0);
}

/* Open gate 0 when it has had time to be passed wrongly; returns the word then. */
static void *open_late(void *word)
{
	uint64_t seen;

	give_a_chance();
	seen = *(const uint64_t *)word;
	open_gate(0);
	return (void *)(uintptr_t)seen;
}

/* An output stays while a kernel that was given it runs, though its scope has ended: the
 * one that wants its place waits. */
static void outputs_live_as_long_as_their_readers(void **state)
{
	struct rpi_runtime *runtime =
		kernel_open((struct kernel_bed){ .threads = 2, .heap = 2048 });
	int64_t bytes = 1024;
	struct rp_arg made[2] = { rp_out_new(RP_UINT8, 1, &bytes), rp_arg_u64(77) };
	pthread_t opener;
	uint64_t *word;
	void *seen;

	(void)state;
	reset();
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
	assert_ok(kernel_submit(runtime, store_word, made, 2));
	word = made[0].u.tensor.data;
	/* In a deeper ring, whose kernels retire by themselves. */
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
	gated(runtime, 0, rp_in(made[0].u.tensor), 0);
	assert_ok(rpi_runtime_scope_end(runtime));
	assert_ok(rpi_runtime_scope_end(runtime));
	await_entered(0);
	assert_int_equal(pthread_create(&opener, NULL, open_late, word), 0);
	assert_ok(rpi_runtime_scope_begin(runtime, RP_SCOPE_AUTO));
	made[0] = rp_out_new(RP_UINT8, 1, &bytes);
	made[1] = rp_arg_u64(88);
	assert_ok(kernel_submit(runtime, store_word, made, 2));
	assert_ptr_equal(made[0].u.tensor.data, word);
	assert_ok(rpi_runtime_drain(runtime));
	assert_int_equal(*word, 88);
	assert_int_equal(pthread_join(opener, &seen), 0);
	assert_int_equal((uintptr_t)seen, 77);
	kernel_close(runtime, 0);
}

static _Atomic bool signalled;

static bool has_signal(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return atomic_load(&signalled);
}

static int signal_now(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	atomic_store(&signalled, true);
	return 0;
}

/* The kernel waits, no thread does: a later one can bring what it waits for. */
static void a_kernel_waits_for_a_signal_while_others_run(void **state)
{
	static uint64_t word;

	(void)state;
	for (uint32_t threads = 0; threads < 3; threads++) {
		struct rpi_runtime *runtime =
			kernel_open((struct kernel_bed){ .threads = threads });
		struct rp_tensor t = { .data = &word,
				       .dtype = RP_UINT64,
				       .rank = 1,
				       .shape = { 1 },
				       .strides = { 1 } };
		struct rp_arg args[2] = { rp_inout(t), rp_arg_u64(5) };
		struct rp_kernel late = { .fn = store_word,
					  .args = args,
					  .arg_count = 2,
					  .ready = has_signal };
		uint64_t sum = 0;
		struct rp_arg follow[2];

		atomic_store(&signalled, false);
		word = 0;
		assert_ok(rpi_runtime_submit(runtime, &late, NULL));
		t.data = &sum;
		follow[0] = rp_out(t);
		follow[1] = rp_in(args[0].u.tensor);
		assert_ok(kernel_submit(runtime, sum_words, follow, 2));
		give_a_chance();
		assert_int_equal(sum, 0);
		assert_ok(kernel_submit(runtime, signal_now, NULL, 0));
		assert_ok(rpi_runtime_drain(runtime));
		assert_int_equal(sum, 5);
		/* And the quick way again. */
		for (int i = 0; i < 100; i++)
			assert_ok(kernel_empty(runtime));
		kernel_close(runtime, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlap_orders_and_nothing_else_does),
		cmocka_unit_test(an_id_orders_what_memory_does_not),
		cmocka_unit_test(only_ids_order_a_manual_scope),
		cmocka_unit_test(a_covering_write_takes_the_place_of_what_it_covers),
		cmocka_unit_test(any_fan_in_is_waited_for),
		cmocka_unit_test(a_pool_that_is_too_small_presses_back),
		cmocka_unit_test(the_oldest_kernel_holds_the_window),
		cmocka_unit_test(outputs_live_as_long_as_their_readers),
		cmocka_unit_test(a_kernel_waits_for_a_signal_while_others_run),
	};

	return cmocka_run_group_tests_name("runtime_order", tests, NULL, NULL);
}
