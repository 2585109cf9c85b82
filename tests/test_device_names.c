/* SPDX-License-Identifier: MIT */
/* The table of resident tensors: names, ages, and looks that race with frees. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "device.h"
#include "support.h"
#include "tensor/store.h"

#define CHIPS	    4
#define HEAP_BYTES  (64 * KIB)
#define BASE(chip)  (UINT64_C(0x100000000) * ((chip) + 1))
#define GENERATIONS ((UINT64_C(1) << 20) - 1)

static struct rpi_store store;

static void open_store(uint64_t worker_id)
{
	uint32_t chip;

	assert_ok(rpi_store_init(&store, worker_id, CHIPS));
	for (chip = 0; chip < CHIPS; chip++)
		assert_ok(rpi_store_open_heap(&store, chip, BASE(chip), HEAP_BYTES));
}

static struct rp_tensor describe(enum rp_dtype dtype, uint32_t rank, const int64_t *shape)
{
	struct rp_tensor like;

	assert_ok(rp_tensor_host(&like, &store, dtype, rank, shape));
	return like;
}

/* A tensor of `bytes` bytes on a chip. */
static int add_tensor(uint32_t chip, int64_t bytes, struct rp_tensor *out)
{
	struct rp_tensor like = describe(RP_INT8, 1, &bytes);
	int err;

	pthread_mutex_lock(&store.lock);
	err = rpi_store_add(&store, "test", &like, (uint64_t)bytes, chip, NULL,
			    &like.resident);
	pthread_mutex_unlock(&store.lock);
	like.data = NULL;
	*out = like;
	return err;
}

static int add_stack(const uint32_t *chips, int64_t count, int64_t bytes,
		     struct rp_tensor *out)
{
	struct rp_tensor like = describe(RP_INT8, 2, (int64_t[]){ count, bytes });
	int err;

	pthread_mutex_lock(&store.lock);
	err = rpi_store_add(&store, "test", &like, (uint64_t)bytes, 0, chips,
			    &like.resident);
	pthread_mutex_unlock(&store.lock);
	like.data = NULL;
	*out = like;
	return err;
}

static void drop(const struct rp_tensor *tensor)
{
	pthread_mutex_lock(&store.lock);
	rpi_store_drop(&store, tensor->resident);
	pthread_mutex_unlock(&store.lock);
}

static int resolve(const struct rp_tensor *tensor)
{
	struct rpi_resident where;

	return rpi_store_resolve(&store, "test", tensor, &where);
}

static uint64_t committed(void)
{
	uint64_t sum = 0;
	uint32_t chip;

	for (chip = 0; chip < CHIPS; chip++)
		sum += store.heaps[chip].committed;
	return sum;
}

static struct rpi_entry *entry_of(const struct rp_tensor *tensor)
{
	uint32_t idx = (uint32_t)tensor->resident & 0xfffff;

	return &atomic_load(&store.segments[idx / 1024])[idx % 1024];
}

static void views_lie_where_their_tensor_does(void **state)
{
	struct rpi_resident where;
	struct rp_tensor t, part, stack;
	int i;

	(void)state;
	open_store(5);
	assert_ok(add_tensor(2, 3000, &t));
	assert_ok(rpi_store_resolve(&store, "test", &t, &where));
	assert_int_equal(where.chip, 2);
	assert_int_equal(where.address, BASE(2));
	assert_int_equal(where.dtype, RP_INT8);
	assert_ok(rp_tensor_slice(&t, 0, 100, 10, 3, &part));
	assert_ok(rpi_store_resolve(&store, "test", &part, &where));
	assert_int_equal(where.address, BASE(2) + 100);
	assert_ok(add_stack((uint32_t[]){ 3, 2, 0 }, 3, 2000, &stack));
	for (i = 0; i < 3; i++) {
		assert_ok(rp_tensor_index(&stack, i, &part));
		assert_ok(rpi_store_resolve(&store, "test", &part, &where));
		assert_int_equal(where.chip, ((uint32_t[]){ 3, 2, 0 })[i]);
		assert_int_equal(where.address, BASE(where.chip) + (i == 1 ? 3072 : 0));
		assert_ok(rp_tensor_slice(&part, 0, 1999, 1, 1, &part));
		assert_ok(rpi_store_resolve(&store, "test", &part, &where));
		assert_int_equal(where.address,
				 BASE(where.chip) + (i == 1 ? 3072 : 0) + 1999);
	}
	assert_ok(rpi_store_resolve(&store, "test", &stack, &where));
	assert_int_equal(where.chip, RPI_CHIP_SEVERAL);
	/* The last byte of one shard and the first of the next. */
	part = describe(RP_INT8, 1, (int64_t[]){ 2 });
	part.resident = stack.resident;
	part.data = (void *)(uintptr_t)1999;
	assert_ok(rpi_store_resolve(&store, "test", &part, &where));
	assert_int_equal(where.chip, RPI_CHIP_SEVERAL);
	rpi_store_fini(&store);
}

static void views_beyond_their_tensor_are_refused(void **state)
{
	static const struct {
		uint64_t at;
		int64_t bytes;
		int want;
	} cases[] = {
		{ 0, 3000, 0 },
		{ 2999, 1, 0 },
		{ 0, 3001, -ERANGE }, /* although the block has 3072 */
		{ 1, 3000, -ERANGE },
		{ 3000, 1, -ERANGE },
		{ 3072, 1, -ERANGE },
		{ UINT64_MAX - 1, 1, -ERANGE },
		{ UINT64_MAX, 1, -EINVAL }, /* ends past the last address */
	};
	struct rp_tensor t, view;
	size_t i;

	(void)state;
	open_store(5);
	assert_ok(add_tensor(0, 3000, &t));
	for (i = 0; i < COUNT(cases); i++) {
		view = describe(RP_INT8, 1, &cases[i].bytes);
		view.resident = t.resident;
		view.data = (void *)(uintptr_t)cases[i].at;
		assert_int_equal(resolve(&view), cases[i].want);
	}
	view = describe(RP_UINT8, 1, (int64_t[]){ 3000 });
	view.resident = t.resident;
	view.data = NULL;
	assert_int_equal(resolve(&view), -EINVAL);
	assert_says("uint8", "int8");
	rpi_store_fini(&store);
}

static void names_are_of_one_worker_and_one_life(void **state)
{
	struct rp_tensor a, b, other;
	struct rp_tensor host = describe(RP_INT8, 1, (int64_t[]){ 8 });
	uint64_t bit;

	(void)state;
	open_store((uint64_t)1 << 32 | 7);
	assert_ok(add_tensor(0, 8, &other));
	rpi_store_fini(&store);
	open_store((uint64_t)2 << 32 | 7);
	assert_ok(add_tensor(0, 8, &a));
	assert_int_equal(resolve(&other), -EXDEV);
	assert_int_equal(resolve(&host), -EINVAL);
	/* One bit off is another name, whichever it is. */
	for (bit = 0; bit < 64; bit++) {
		b = a;
		b.resident ^= UINT64_C(1) << bit;
		assert_true(resolve(&b) != 0);
		pthread_mutex_lock(&store.lock);
		assert_false(rpi_store_freed_before(&store, b.resident));
		pthread_mutex_unlock(&store.lock);
	}
	assert_ok(resolve(&a));
	drop(&a);
	assert_int_equal(resolve(&a), -ESTALE);
	assert_true(rpi_store_freed_before(&store, a.resident));
	assert_ok(add_tensor(0, 8, &b));
	assert_true(a.resident != b.resident);
	assert_int_equal(resolve(&a), -ESTALE);
	assert_false(rpi_store_freed_before(&store, a.resident));
	assert_ok(resolve(&b));
	rpi_store_fini(&store);
}

static void memory_that_is_anothers_now_is_told_apart_whatever_its_name(void **state)
{
	struct rp_tensor a, b, c;

	(void)state;
	open_store(5);
	assert_ok(add_tensor(1, KIB, &a));
	assert_ok(add_tensor(1, 2 * KIB, &b));
	drop(&a);
	drop(&b);
	/* b's name comes first again, for memory where a's began. */
	assert_ok(add_tensor(1, KIB, &c));
	assert_int_equal(c.resident & 0xfffff, b.resident & 0xfffff);
	assert_int_equal(store.heaps[1].committed, KIB);
	assert_ptr_equal(rpi_heap_find(&store.heaps[1], BASE(1)),
			 entry_of(&c)->one.block);
	assert_false(rpi_store_freed_before(&store, a.resident));
	drop(&c);
	assert_true(rpi_store_freed_before(&store, a.resident));
	rpi_store_fini(&store);
}

static void an_index_is_given_up_when_its_generations_are_used_up(void **state)
{
	struct rp_tensor first, last, next;

	(void)state;
	open_store(5);
	assert_ok(add_tensor(0, 8, &first));
	drop(&first);
	/* As a million allocations would leave it. */
	atomic_store(&entry_of(&first)->word, (GENERATIONS - 1) << 2);
	assert_ok(add_tensor(0, 8, &last));
	assert_int_equal(last.resident & 0xfffff, first.resident & 0xfffff);
	assert_int_equal(last.resident >> 20 & 0xfffff, GENERATIONS);
	assert_ok(resolve(&last));
	drop(&last);
	assert_ok(add_tensor(0, 8, &next));
	assert_true((next.resident & 0xfffff) != (first.resident & 0xfffff));
	assert_int_equal(resolve(&first), -ESTALE);
	assert_int_equal(resolve(&last), -ESTALE);
	drop(&next);
	assert_true(rpi_store_freed_before(&store, last.resident));
	assert_false(rpi_store_freed_before(&store, first.resident));
	/* And when all indices are. */
	store.first_free = 0;
	store.entry_count = RPI_SEGMENTS * RPI_SEGMENT_ENTRIES;
	assert_int_equal(add_tensor(0, 8, &next), -ENOMEM);
	assert_says("1048576");
	assert_int_equal(committed(), 0);
	rpi_store_fini(&store);
}

static int failing_after;

static int fail_memory(const char *point)
{
	return !strcmp(point, "store.memory") && !failing_after-- ? -ENOMEM : 0;
}

static void what_can_not_be_had_whole_leaves_nothing(void **state)
{
	static const uint32_t chips[] = { 0, 1, 2, 3 };
	struct rp_tensor full, t;

	(void)state;
	open_store(5);
	assert_ok(add_tensor(2, HEAP_BYTES - KIB, &full));
	assert_int_equal(add_stack(chips, 4, 2 * KIB, &t), -ENOMEM);
	assert_says("chip 2", "2048");
	assert_int_equal(committed(), HEAP_BYTES - KIB);
	drop(&full);
	assert_ok(add_stack(chips, 4, 2 * KIB, &t));
	assert_int_equal(committed(), 8 * KIB);
	rpi_store_fini(&store);
	/* Every allocation of the host's own that there is, then none. */
	rpi_test_hook = fail_memory;
	for (int n = 0; n < 3; n++) {
		open_store(5);
		failing_after = n;
		assert_int_equal(add_stack(chips, 4, KIB, &t), n < 2 ? -ENOMEM : 0);
		assert_int_equal(committed(), n < 2 ? 0 : 4 * KIB);
		failing_after = -1;
		assert_ok(add_stack(chips, 4, KIB, &t));
		assert_ok(resolve(&t));
		rpi_store_fini(&store);
	}
	rpi_test_hook = NULL;
}

static void what_a_chip_says_of_its_memory_is_bounded(void **state)
{
	static const struct {
		uint64_t base, bytes;
		int want;
	} cases[] = {
		{ 1024, 1 << 20, 0 },		{ 1025, 1 << 20, -EPROTO },
		{ 512, 1 << 20, -EPROTO },	{ UINT64_MAX - 1023, 1024, -EPROTO },
		{ UINT64_MAX - 1023, 1023, 0 }, { 1024, UINT64_MAX, -EPROTO },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(cases); i++) {
		assert_ok(rpi_store_init(&store, 5, 1));
		assert_int_equal(
			rpi_store_open_heap(&store, 0, cases[i].base, cases[i].bytes),
			cases[i].want);
		rpi_store_fini(&store);
	}
}

static struct rp_tensor looked_at, newer;

static int change_under_the_look(const char *point)
{
	if (strcmp(point, "store.look") || !looked_at.resident)
		return 0;
	drop(&looked_at);
	looked_at.resident = 0;
	/* The same index, another chip. */
	assert_ok(add_tensor(3, 8, &newer));
	return 0;
}

static void a_look_that_a_free_overtakes_is_stale(void **state)
{
	struct rp_tensor t;

	(void)state;
	open_store(5);
	assert_ok(add_tensor(0, 8, &t));
	looked_at = t;
	rpi_test_hook = change_under_the_look;
	assert_int_equal(resolve(&t), -ESTALE);
	rpi_test_hook = NULL;
	assert_int_equal(newer.resident & 0xfffff, t.resident & 0xfffff);
	assert_ok(resolve(&newer));
	rpi_store_fini(&store);
}

/* Names as they were given out, each with what it must resolve to. */
#define LIVES 20000

struct life {
	struct rp_tensor tensor;
	uint32_t chip;
	uint64_t address;
};

static struct life lives[LIVES];
static _Atomic uint32_t published;
static _Atomic uint32_t done;
static _Atomic uint64_t found;

struct looker {
	pthread_t thread;
	uint64_t stale, wrong;
};

static void *look(void *arg)
{
	struct looker *me = arg;

	while (!atomic_load_explicit(&done, memory_order_relaxed)) {
		const struct life *life = &lives[atomic_load(&published)];
		struct rpi_resident where;
		int err = rpi_store_resolve(&store, "test", &life->tensor, &where);

		if (!err && where.chip == life->chip && where.address == life->address)
			atomic_fetch_add_explicit(&found, 1, memory_order_relaxed);
		else if (err == -ESTALE)
			me->stale++;
		else
			me->wrong++;
	}
	return NULL;
}

static void give_life(struct life *life, uint64_t *seed)
{
	uint32_t chip = (uint32_t)(bed_random(seed) % CHIPS);
	uint32_t chips[] = { chip, (chip + 1) % CHIPS };
	int64_t bytes = (int64_t)(1 + bed_random(seed) % (4 * KIB));
	struct rpi_entry *entry;

	life->chip = chip;
	if (bed_random(seed) % 2) {
		assert_ok(add_tensor(chip, bytes, &life->tensor));
		entry = entry_of(&life->tensor);
		life->address = entry->one.block->address;
	} else {
		assert_ok(add_stack(chips, 2, bytes, &life->tensor));
		entry = entry_of(&life->tensor);
		assert_ok(rp_tensor_index(&life->tensor, 1, &life->tensor));
		life->chip = chips[1];
		life->address = entry->several[1].block->address;
	}
}

static void a_look_finds_its_tensor_or_that_it_is_gone(void **state)
{
	struct looker lookers[2] = { { .stale = 0 } };
	uint64_t seed = device_seed(23);
	uint64_t seen;
	uint32_t i;

	(void)state;
	open_store(5);
	atomic_store(&done, 0);
	atomic_store(&found, 0);
	give_life(&lives[0], &seed);
	atomic_store(&published, 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&lookers[i].thread, NULL, look, &lookers[i]), 0);
	/* The old name is looked for while the next one takes its index. */
	for (i = 1; i < LIVES; i++) {
		drop(&lives[i - 1].tensor);
		give_life(&lives[i], &seed);
		atomic_store(&published, i);
		/* Now and then a life lasts until it was seen. */
		for (seen = atomic_load(&found); i % 500 == 0 && seen == found;)
			bed_breathe();
	}
	atomic_store(&done, 1);
	for (i = 0; i < 2; i++) {
		pthread_join(lookers[i].thread, NULL);
		assert_int_equal(lookers[i].wrong, 0);
	}
	print_message("%" PRIu64 " found, %" PRIu64 " stale\n", found,
		      lookers[0].stale + lookers[1].stale);
	rpi_store_fini(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_lie_where_their_tensor_does),
		cmocka_unit_test(views_beyond_their_tensor_are_refused),
		cmocka_unit_test(names_are_of_one_worker_and_one_life),
		cmocka_unit_test(
			memory_that_is_anothers_now_is_told_apart_whatever_its_name),
		cmocka_unit_test(an_index_is_given_up_when_its_generations_are_used_up),
		cmocka_unit_test(what_can_not_be_had_whole_leaves_nothing),
		cmocka_unit_test(what_a_chip_says_of_its_memory_is_bounded),
		cmocka_unit_test(a_look_that_a_free_overtakes_is_stale),
		cmocka_unit_test(a_look_finds_its_tensor_or_that_it_is_gone),
	};

	return cmocka_run_group_tests_name("test_device_names", tests, NULL, NULL);
}
