/* SPDX-License-Identifier: MIT */
/* The overlap map and the footprints in it, against searches element by element. */
#include "runtime/uses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "runtime/footprint.h"

#define BYTES	 (1 << 14)
#define KERNELS	 64
#define USES_MAX 4096

static _Alignas(4096) uint8_t memory[BYTES];

static uint64_t draw(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *seed >> 33;
}

/* A part of a row-major parent, or a range; at most BYTES long. */
static struct rp_tensor random_part(uint64_t *seed)
{
	struct rp_tensor t = { .data = memory, .dtype = RP_INT16 };
	int64_t stride = 1;

	t.rank = 1 + (uint32_t)(draw(seed) % 4);
	for (uint32_t k = t.rank; k-- > 0;) {
		t.shape[k] = 1 + (int64_t)(draw(seed) % 8);
		t.strides[k] = stride;
		stride *= t.shape[k];
	}
	for (uint32_t k = 0; k < t.rank; k++) {
		int64_t start = (int64_t)(draw(seed) % (uint64_t)t.shape[k]);
		int64_t step = 1 + (int64_t)(draw(seed) % 3);
		int64_t most = (t.shape[k] - 1 - start) / step + 1;

		assert_ok(rp_tensor_slice(&t, k, start,
					  1 + (int64_t)(draw(seed) % (uint64_t)most),
					  step, &t));
	}
	if (draw(seed) % 2)
		t.data = (uint8_t *)t.data + 2 * (draw(seed) % 4096);
	return t;
}

/* Which elements of the memory a tensor has: a bit for each. */
struct map {
	uint64_t words[BYTES / 2 / 64];
};

#define WORDS (sizeof(((struct map *)NULL)->words) / 8)

static void mark(const struct rp_tensor *t, struct map *map)
{
	int64_t first = ((uint8_t *)t->data - memory) / 2, count = 1;

	memset(map, 0, sizeof(*map));
	for (uint32_t k = 0; k < t->rank; k++)
		count *= t->shape[k];
	for (int64_t i = 0; i < count; i++) {
		int64_t rest = i, at = first;

		for (uint32_t k = t->rank; k-- > 0;) {
			at += rest % t->shape[k] * t->strides[k];
			rest /= t->shape[k];
		}
		map->words[at / 64] |= UINT64_C(1) << (at % 64);
	}
}

static bool meet(const struct map *a, const struct map *b)
{
	for (size_t i = 0; i < WORDS; i++)
		if (a->words[i] & b->words[i])
			return true;
	return false;
}

static bool covers(const struct map *a, const struct map *b)
{
	for (size_t i = 0; i < WORDS; i++)
		if (b->words[i] & ~a->words[i])
			return false;
	return true;
}

static void a_footprint_is_the_normalised_view(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct rp_tensor t = random_part(&seed);
		struct rpi_view view, quick;

		if (draw(&seed) % 8 == 0)
			t.shape[draw(&seed) % t.rank] = (int64_t)draw(&seed) << 20;
		if (draw(&seed) % 8 == 0)
			t.strides[draw(&seed) % t.rank] = (int64_t)draw(&seed) << 20;
		if (draw(&seed) % 16 == 0)
			t.strides[draw(&seed) % t.rank] = -1;
		if (draw(&seed) % 16 == 0)
			t.rank = (uint32_t)(draw(&seed) % 8);
		if (draw(&seed) % 16 == 0)
			t.dtype = (uint32_t)(draw(&seed) % 20);
		if (draw(&seed) % 16 == 0)
			t.data = NULL;
		if (rpi_view_from_tensor("test", &t, &view)) {
			assert_int_equal(rpi_footprint("test", &t, &quick), -EINVAL);
			continue;
		}
		rpi_view_normalise(&view);
		assert_ok(rpi_footprint("test", &t, &quick));
		assert_int_equal(quick.base, view.base);
		assert_int_equal(quick.span_bytes, view.span_bytes);
		assert_int_equal(quick.run_bytes, view.run_bytes);
		assert_int_equal(quick.rank, view.rank);
		assert_memory_equal(quick.shape, view.shape,
				    view.rank * sizeof(view.shape[0]));
		assert_memory_equal(quick.stride_bytes, view.stride_bytes,
				    view.rank * sizeof(view.shape[0]));
	}
}

/* Views of one parent that keeps its rows apart: exact, never only cautious. */
static void rows_and_columns_are_told_apart_exactly(void **state)
{
	static struct map one, two;
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < 4000; i++) {
		struct rp_tensor t[2];
		struct rpi_view view[2];

		for (int k = 0; k < 2; k++) {
			t[k] = (struct rp_tensor){ .data = memory,
						   .dtype = RP_INT16,
						   .rank = 2,
						   .shape = { 16, 12 },
						   .strides = { 12, 1 } };
			for (uint32_t dim = 0; dim < 2; dim++) {
				int64_t all = t[k].shape[dim];
				int64_t start = (int64_t)(draw(&seed) % (uint64_t)all);
				int64_t step = dim ? 1 : 1 + (int64_t)(draw(&seed) % 2);
				int64_t most = (all - 1 - start) / step + 1;
				int64_t n = 1 + (int64_t)(draw(&seed) % (uint64_t)most);

				assert_ok(rp_tensor_slice(&t[k], dim, start, n, step,
							  &t[k]));
			}
			assert_ok(rpi_footprint("test", &t[k], &view[k]));
		}
		mark(&t[0], &one);
		mark(&t[1], &two);
		assert_int_equal(rpi_footprint_meet(&view[0], &view[1]),
				 meet(&one, &two));
		assert_int_equal(rpi_footprint_meet(&view[1], &view[0]),
				 meet(&one, &two));
		if (rpi_footprint_covers(&view[0], &view[1]))
			assert_true(covers(&one, &two));
	}
}

/* What a search of every byte would say of the uses that are in the map. */
struct model {
	struct {
		bool live, write;
		struct map map;
		uint32_t kernel;
	} use[256];
	uint32_t count;
};

static struct rpi_flight *kernels;
static struct model *model;

static bool found_by(struct rpi_flight **found, uint32_t count, uint32_t kernel)
{
	for (uint32_t i = 0; i < count; i++)
		if (found[i] == &kernels[kernel])
			return true;
	return false;
}

static void judge(struct rpi_uses *uses, const struct rp_tensor *t, bool write,
		  uint64_t stamp)
{
	static struct map map;
	struct rpi_flight *found[KERNELS];
	bool needed[KERNELS] = { false };
	struct rpi_view view;
	uint32_t count;

	mark(t, &map);
	assert_ok(rpi_footprint("test", t, &view));
	count = rpi_uses_find(uses, &view, write, stamp, found, 0);
	for (uint32_t i = 0; i < model->count; i++) {
		uint32_t kernel = model->use[i].kernel;

		if (!model->use[i].live || (!write && !model->use[i].write) ||
		    !meet(&map, &model->use[i].map))
			continue;
		if (!atomic_load(&kernels[kernel].done))
			needed[kernel] = true;
		/* Taken out if the map could tell, so asked for no longer. */
		if (write && covers(&map, &model->use[i].map))
			model->use[i].live = false;
	}
	for (uint32_t k = 0; k < KERNELS; k++)
		if (needed[k] && !found_by(found, count, k))
			fail_msg("kernel %u is not followed", k);
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < i; k++)
			assert_ptr_not_equal(found[i], found[k]);
}

static void add(struct rpi_uses *uses, const struct rp_tensor *t, bool write,
		uint32_t kernel)
{
	struct rpi_view view;
	uint32_t i = model->count++;

	assert_ok(rpi_footprint("test", t, &view));
	rpi_uses_add(uses, &view, write, &kernels[kernel]);
	model->use[i].live = true;
	model->use[i].write = write;
	model->use[i].kernel = kernel;
	mark(t, &model->use[i].map);
}

static void random_uses_are_never_missed(void **state)
{
	struct rpi_uses *uses = malloc(sizeof(*uses));
	struct rpi_use *uses_memory =
		aligned_alloc(_Alignof(struct rpi_use), USES_MAX * sizeof(*uses_memory));

	(void)state;
	kernels = aligned_alloc(_Alignof(struct rpi_flight), KERNELS * sizeof(*kernels));
	model = malloc(sizeof(*model));
	for (uint64_t seed = 1; seed <= 4; seed++) {
		uint64_t random = seed, stamp = 0;

		memset(kernels, 0, KERNELS * sizeof(*kernels));
		model->count = 0;
		rpi_uses_init(uses, uses_memory, USES_MAX);
		for (uint32_t kernel = 0; kernel < KERNELS; kernel++) {
			struct rp_tensor t[3];

			kernels[kernel].uses = RPI_NO_USE;
			stamp++;
			for (int i = 0; i < 3; i++) {
				t[i] = random_part(&random);
				judge(uses, &t[i], i == 2, stamp * 4 + (uint64_t)i);
			}
			for (int i = 0; i < 3; i++)
				add(uses, &t[i], i == 2, kernel);
			if (draw(&random) % 3 == 0)
				atomic_store(&kernels[draw(&random) % (kernel + 1)].done,
					     1);
		}
		assert_int_equal(uses->count, 3 * KERNELS);
		for (uint32_t kernel = 0; kernel < KERNELS; kernel++)
			rpi_uses_drop(uses, &kernels[kernel]);
		assert_int_equal(uses->count, 0);
		assert_int_equal(uses->reads.levels | uses->writes.levels, 0);
		assert_true(rpi_uses_room(uses, USES_MAX));
	}
	free(model);
	free(kernels);
	free(uses_memory);
	free(uses);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_footprint_is_the_normalised_view),
		cmocka_unit_test(rows_and_columns_are_told_apart_exactly),
		cmocka_unit_test(random_uses_are_never_missed),
	};

	return cmocka_run_group_tests_name("runtime_uses", tests, NULL, NULL);
}
