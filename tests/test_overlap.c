/* SPDX-License-Identifier: MIT */
/* The overlap and cover tests against a set of bytes, for random and chosen views. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/overlap.h"

/* Views lie in an arena of this size that does not exist: only addresses count. */
#define ARENA_BYTES 4096
#define ARENA	    ((uintptr_t)1 << 20)

static uint64_t random_state;

/* xorshift64*: the same pairs everywhere for one seed. */
static uint64_t random_u64(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

/* low to high, both included. */
static int64_t pick(int64_t low, int64_t high)
{
	return low + (int64_t)(random_u64() % (uint64_t)(high - low + 1));
}

static int set_seed(void **state)
{
	const char *text = getenv("RINGPLANE_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 1;

	(void)state;
	print_message("RINGPLANE_TEST_SEED=%" PRIu64 "\n", seed);
	/* The generator must not start at 0. */
	random_state = seed * 2 + 1;
	return 0;
}

struct byte_set {
	uint64_t words[ARENA_BYTES / 64];
};

/* All bytes of a view, index by index. */
static void mark(struct byte_set *set, const struct rpi_view *v)
{
	int64_t at[RP_MAX_DIMS] = { 0 };
	uint32_t k;

	memset(set, 0, sizeof(*set));
	do {
		int64_t offset = (int64_t)(v->base - ARENA);

		for (k = 0; k < v->rank; k++)
			offset += at[k] * v->stride_bytes[k];
		assert_in_range(offset, 0, ARENA_BYTES - v->run_bytes);
		for (int64_t i = offset; i < offset + v->run_bytes; i++)
			set->words[i / 64] |= UINT64_C(1) << (i % 64);
		for (k = v->rank; k-- > 0;) {
			if (++at[k] < v->shape[k])
				break;
			at[k] = 0;
		}
	} while (k < v->rank);
}

struct tally {
	int64_t pairs, apart, covered, false_alarms, unsure_covers;
};

static void show(const struct rpi_view *v)
{
	print_error("base %" PRIuPTR " run %" PRId64 ":", v->base - ARENA, v->run_bytes);
	for (uint32_t k = 0; k < v->rank; k++)
		print_error(" %" PRId64 "x%" PRId64, v->shape[k], v->stride_bytes[k]);
	print_error("\n");
}

/* One ordered pair, in full view of the bytes. */
static void judge(const struct rpi_view *a, const struct rpi_view *b, bool exact_overlap,
		  bool exact_covers, struct tally *tally)
{
	bool common = false, covers = true, said_common, said_covers;
	struct byte_set set_a, set_b;

	mark(&set_a, a);
	mark(&set_b, b);
	for (int i = 0; i < ARENA_BYTES / 64; i++) {
		common |= (set_a.words[i] & set_b.words[i]) != 0;
		covers &= (set_b.words[i] & ~set_a.words[i]) == 0;
	}
	said_common = rpi_view_overlap(a, b) != RPI_OVERLAP_NONE;
	said_covers = rpi_view_covers(a, b);
	if ((common && !said_common) || (said_covers && !covers) ||
	    (exact_overlap && common != said_common) ||
	    (exact_covers && covers != said_covers)) {
		show(a);
		show(b);
		fail_msg("overlap: said %d, is %d; covers: said %d, is %d", said_common,
			 common, said_covers, covers);
	}
	if (rpi_view_extents_disjoint(a, b))
		assert_false(common);
	tally->pairs++;
	tally->apart += !common;
	tally->covered += covers;
	tally->false_alarms += said_common && !common;
	tally->unsure_covers += covers && !said_covers;
}

static void judge_both_ways(const struct rpi_view *a, const struct rpi_view *b,
			    bool exact_overlap, bool exact_covers, struct tally *tally)
{
	judge(a, b, exact_overlap, exact_covers, tally);
	judge(b, a, exact_overlap, exact_covers, tally);
}

/* Both answers must have come up often, or the pairs show little. */
static void assert_varied(const char *name, const struct tally *tally)
{
	print_message("%s: %" PRId64 " pairs, %" PRId64 " apart (%" PRId64
		      " false alarms), %" PRId64 " covered (%" PRId64 " unsure)\n",
		      name, tally->pairs, tally->apart, tally->false_alarms,
		      tally->covered, tally->unsure_covers);
	assert_true(tally->apart > tally->pairs / 20);
	assert_true(tally->apart < tally->pairs - tally->pairs / 20);
	assert_true(tally->covered > 0);
}

/* A row-major parent that fits the arena; half of them with gaps between rows. */
static struct rp_tensor random_parent(void)
{
	static const enum rp_dtype dtypes[] = { RP_UINT8, RP_FLOAT16, RP_FLOAT32,
						RP_INT64 };
	/* Small ones that meet often, and ones that fill the arena. */
	static const int64_t longest[2][RP_MAX_DIMS] = { { 9, 9, 9, 5, 5 },
							 { 2000, 60, 16, 9, 6 } };
	struct rp_tensor t = { .data = (void *)ARENA };
	bool gaps = pick(0, 1);
	int64_t stride;

	do {
		t.dtype = dtypes[pick(0, 3)];
		t.rank = (uint32_t)pick(1, RP_MAX_DIMS);
		stride = gaps ? pick(1, 2) : 1;
		for (uint32_t k = t.rank; k-- > 0;) {
			t.shape[k] = pick(1, longest[pick(0, 1)][t.rank - 1]);
			t.strides[k] = stride;
			stride = stride * t.shape[k] + (gaps ? pick(0, 2) : 0);
		}
	} while (rpi_dtype_bytes(t.dtype, stride) > ARENA_BYTES);
	return t;
}

/* Forget a dim of length 1, as an index into it would. */
static void drop_dim(struct rp_tensor *t, uint32_t dim)
{
	assert_true(t->shape[dim] == 1 && t->rank > 1);
	t->rank--;
	for (uint32_t k = dim; k < t->rank; k++) {
		t->shape[k] = t->shape[k + 1];
		t->strides[k] = t->strides[k + 1];
	}
}

/* A random part: each dim is kept, sliced with its step, or indexed. */
static struct rp_tensor random_part(const struct rp_tensor *parent, const int64_t *steps)
{
	struct rp_tensor t = *parent;

	for (uint32_t k = parent->rank; k-- > 0;) {
		int64_t start, most, kind = pick(0, 5);

		if (kind == 0 && steps[k] == 1)
			continue;
		if (kind <= 2 && k == 0) {
			assert_int_equal(
				0, rp_tensor_index(&t, pick(-t.shape[0], t.shape[0] - 1),
						   &t));
			continue;
		}
		start = pick(0, t.shape[k] - 1);
		most = (t.shape[k] - 1 - start) / steps[k] + 1;
		assert_int_equal(0, rp_tensor_slice(&t, k, start,
						    kind <= 2 ? 1 : pick(1, most),
						    steps[k], &t));
		if (kind <= 1 && t.rank > 1)
			drop_dim(&t, k);
	}
	return t;
}

static struct rpi_view view_of(const struct rp_tensor *t)
{
	struct rpi_view v;

	assert_int_equal(0, rpi_view_from_tensor("test", t, &v));
	return v;
}

static struct rpi_view view_maybe_normalised(const struct rp_tensor *t)
{
	struct rpi_view v = view_of(t);

	if (pick(0, 1))
		rpi_view_normalise(&v);
	return v;
}

static void random_steps(int64_t steps[RP_MAX_DIMS])
{
	bool plain = pick(0, 1);

	for (int k = 0; k < RP_MAX_DIMS; k++)
		steps[k] = plain ? 1 : pick(1, 3);
}

static void parts_of_one_parent_are_told_apart_exactly(void **state)
{
	struct tally tally = { 0 };
	int64_t steps[RP_MAX_DIMS];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct rp_tensor parent = random_parent();
		struct rp_tensor part_a, part_b;
		struct rpi_view a, b;

		random_steps(steps);
		part_a = random_part(&parent, steps);
		part_b = random_part(&parent, steps);
		a = view_maybe_normalised(&part_a);
		b = view_maybe_normalised(&part_b);
		judge_both_ways(&a, &b, true, true, &tally);
	}
	assert_varied("one parent", &tally);
}

static void parts_with_different_steps_never_miss(void **state)
{
	struct tally tally = { 0 };
	int64_t steps[RP_MAX_DIMS];

	(void)state;
	for (int i = 0; i < 40000; i++) {
		struct rp_tensor parent = random_parent();
		struct rp_tensor part_a, part_b;
		struct rpi_view a, b;

		random_steps(steps);
		part_a = random_part(&parent, steps);
		random_steps(steps);
		part_b = random_part(&parent, steps);
		a = view_maybe_normalised(&part_a);
		b = view_maybe_normalised(&part_b);
		judge_both_ways(&a, &b, false, false, &tally);
	}
	assert_varied("different steps", &tally);
	assert_in_range(tally.false_alarms, 0, tally.apart / 1000);
}

/* A box of indices, and the same box as a view of a parent too large for a byte set. */
struct box {
	int64_t start[RP_MAX_DIMS], count[RP_MAX_DIMS];
	struct rpi_view view;
};

static struct box random_box(const struct rp_tensor *parent, const int64_t *steps)
{
	struct rp_tensor t = *parent;
	struct box box;

	for (uint32_t k = parent->rank; k-- > 0;) {
		int64_t most, kind = pick(0, 5);

		box.start[k] = kind < 2 ? pick(0, steps[k] - 1)
					: pick(0, parent->shape[k] - 1);
		most = (parent->shape[k] - 1 - box.start[k]) / steps[k] + 1;
		box.count[k] = kind < 2 ? most : kind == 2 ? 1 : pick(1, most);
		assert_int_equal(0, rp_tensor_slice(&t, k, box.start[k], box.count[k],
						    steps[k], &t));
		if (box.count[k] == 1 && t.rank > 1)
			drop_dim(&t, k);
	}
	box.view = view_maybe_normalised(&t);
	return box;
}

/* Dims of thousands, where a search by trial would run out of its budget. The truth
 * comes from the indices: boxes meet, or cover, where they do so in every dim. */
static void parts_of_large_parents_are_told_apart_exactly(void **state)
{
	int64_t steps[RP_MAX_DIMS], apart = 0, covered = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct rp_tensor parent = { .data = (void *)ARENA, .dtype = RP_BFLOAT16 };
		bool common = true, covers = true;
		int64_t stride = pick(1, 2);
		struct box a, b;

		parent.rank = (uint32_t)pick(1, RP_MAX_DIMS);
		for (uint32_t k = parent.rank; k-- > 0;) {
			parent.shape[k] = pick(3, pick(0, 1) ? 8 : 3000);
			parent.strides[k] = stride;
			stride = stride * parent.shape[k] + (pick(0, 1) ? pick(0, 9) : 0);
		}
		random_steps(steps);
		a = random_box(&parent, steps);
		b = random_box(&parent, steps);
		for (uint32_t k = 0; k < parent.rank; k++) {
			int64_t a_last = a.start[k] + (a.count[k] - 1) * steps[k];
			int64_t b_last = b.start[k] + (b.count[k] - 1) * steps[k];
			bool in_step = (a.start[k] - b.start[k]) % steps[k] == 0;

			common &= in_step && a.start[k] <= b_last && b.start[k] <= a_last;
			covers &= in_step && a.start[k] <= b.start[k] && b_last <= a_last;
		}
		if ((rpi_view_overlap(&a.view, &b.view) != RPI_OVERLAP_NONE) != common ||
		    (rpi_view_overlap(&b.view, &a.view) != RPI_OVERLAP_NONE) != common ||
		    rpi_view_covers(&a.view, &b.view) != covers) {
			show(&a.view);
			show(&b.view);
			fail_msg("common %d, covers %d", common, covers);
		}
		apart += !common;
		covered += covers;
	}
	print_message("large parents: %" PRId64 " apart, %" PRId64 " covered\n", apart,
		      covered);
	assert_in_range(apart, 10000, 90000);
	assert_true(covered > 1000);
}

static void a_contiguous_range_meets_a_part_exactly(void **state)
{
	static const int64_t longest[] = { 4, 64, ARENA_BYTES };
	struct tally tally = { 0 };
	int64_t steps[RP_MAX_DIMS];

	(void)state;
	for (int i = 0; i < 30000; i++) {
		struct rp_tensor parent = random_parent();
		struct rp_tensor part;
		int64_t bytes = pick(1, longest[pick(0, 2)]);
		struct rpi_view range = {
			.base = ARENA + (uintptr_t)pick(0, ARENA_BYTES - bytes),
			.span_bytes = bytes,
			.run_bytes = bytes,
		};
		struct rpi_view v;

		random_steps(steps);
		part = random_part(&parent, steps);
		v = view_maybe_normalised(&part);
		/* Near the part more often than not. */
		if (v.base - ARENA + (uintptr_t)v.span_bytes > (uintptr_t)bytes &&
		    pick(0, 3))
			range.base = ARENA + (v.base - ARENA + (uintptr_t)v.span_bytes -
					      (uintptr_t)bytes) /
						     (uintptr_t)pick(1, 3);
		judge_both_ways(&range, &v, true, false, &tally);
	}
	assert_varied("range and part", &tally);
}

/* Any strides at all, in any order, also such that a view meets itself. */
static struct rpi_view random_view(void)
{
	struct rpi_view v;

	do {
		v = (struct rpi_view){ .rank = (uint32_t)pick(0, RP_MAX_DIMS),
				       .run_bytes = pick(1, 9) };
		v.base = ARENA + (uintptr_t)pick(0, 200);
		v.span_bytes = v.run_bytes;
		for (uint32_t k = 0; k < v.rank; k++) {
			v.shape[k] = pick(1, 5);
			v.stride_bytes[k] = pick(1, pick(0, 3) ? 40 : 300);
			v.span_bytes += (v.shape[k] - 1) * v.stride_bytes[k];
		}
	} while ((int64_t)(v.base - ARENA) + v.span_bytes > ARENA_BYTES);
	return v;
}

static void unrelated_views_never_miss(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	for (int i = 0; i < 40000; i++) {
		struct rpi_view a = random_view(), b = random_view();

		if (pick(0, 1))
			rpi_view_normalise(&a);
		judge_both_ways(&a, &b, false, false, &tally);
		judge(&a, &a, true, false, &tally);
	}
	assert_varied("unrelated", &tally);
	assert_in_range(tally.false_alarms, 0, tally.apart / 1000);
}

static void chosen_parts_are_judged(void **state)
{
	/* start, count, step in dim 0, then in dim 1 of an 8 x 6 tensor. */
	static const struct {
		const char *name;
		int64_t a[2][3], b[2][3];
		bool common, covers;
	} cases[] = {
		{ "same",
		  { { 0, 8, 1 }, { 0, 6, 1 } },
		  { { 0, 8, 1 }, { 0, 6, 1 } },
		  1,
		  1 },
		{ "adjacent rows",
		  { { 0, 4, 1 }, { 0, 6, 1 } },
		  { { 4, 4, 1 }, { 0, 6, 1 } },
		  0,
		  0 },
		{ "rows that share one",
		  { { 0, 5, 1 }, { 0, 6, 1 } },
		  { { 4, 4, 1 }, { 0, 6, 1 } },
		  1,
		  0 },
		{ "even and odd columns",
		  { { 0, 8, 1 }, { 0, 3, 2 } },
		  { { 0, 8, 1 }, { 1, 3, 2 } },
		  0,
		  0 },
		{ "even and odd rows",
		  { { 0, 4, 2 }, { 0, 6, 1 } },
		  { { 1, 4, 2 }, { 0, 6, 1 } },
		  0,
		  0 },
		{ "even and third columns",
		  { { 0, 8, 1 }, { 0, 3, 2 } },
		  { { 0, 8, 1 }, { 0, 2, 3 } },
		  1,
		  0 },
		{ "left and right halves",
		  { { 0, 8, 1 }, { 0, 3, 1 } },
		  { { 0, 8, 1 }, { 3, 3, 1 } },
		  0,
		  0 },
		{ "halves that share a column",
		  { { 0, 8, 1 }, { 0, 4, 1 } },
		  { { 0, 8, 1 }, { 3, 3, 1 } },
		  1,
		  0 },
		{ "row and column that cross",
		  { { 3, 1, 1 }, { 0, 6, 1 } },
		  { { 0, 8, 1 }, { 2, 1, 1 } },
		  1,
		  0 },
		{ "row and column that pass",
		  { { 3, 1, 1 }, { 0, 2, 1 } },
		  { { 0, 8, 1 }, { 2, 1, 1 } },
		  0,
		  0 },
		{ "tile inside",
		  { { 1, 6, 1 }, { 1, 4, 1 } },
		  { { 2, 3, 1 }, { 2, 3, 1 } },
		  1,
		  1 },
		{ "every fourth row of the even ones",
		  { { 0, 4, 2 }, { 0, 6, 1 } },
		  { { 0, 2, 4 }, { 1, 2, 1 } },
		  1,
		  1 },
		{ "single rows of the even ones",
		  { { 0, 4, 2 }, { 0, 6, 1 } },
		  { { 3, 1, 1 }, { 0, 6, 1 } },
		  0,
		  0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tally tally = { 0 };
		struct rp_tensor parent, part[2];
		struct rpi_view v[2];

		assert_int_equal(0, rp_tensor_host(&parent, (void *)ARENA, RP_FLOAT32, 2,
						   (const int64_t[]){ 8, 6 }));
		for (int side = 0; side < 2; side++) {
			part[side] = parent;
			for (uint32_t k = 0; k < 2; k++) {
				const int64_t *s = side ? cases[i].b[k] : cases[i].a[k];

				assert_int_equal(0, rp_tensor_slice(&part[side], k, s[0],
								    s[1], s[2],
								    &part[side]));
			}
			v[side] = view_of(&part[side]);
		}
		if ((rpi_view_overlap(&v[0], &v[1]) != RPI_OVERLAP_NONE) !=
			    cases[i].common ||
		    rpi_view_covers(&v[0], &v[1]) != cases[i].covers)
			fail_msg("%s", cases[i].name);
		judge_both_ways(&v[0], &v[1], true, true, &tally);
	}
}

/* Columns of a large matrix. To try each pair of indices would go past any budget; the
 * steps' common divisor settles it. */
static void different_steps_through_a_long_dim_are_told_apart(void **state)
{
	static const struct {
		int64_t start[2], count[2], step[2];
		enum rpi_overlap want;
	} cases[] = {
		{ { 0, 1 }, { 2048, 1024 }, { 2, 4 }, RPI_OVERLAP_NONE },
		{ { 0, 1 }, { 682, 1000 }, { 6, 4 }, RPI_OVERLAP_NONE },
		{ { 1, 0 }, { 682, 1000 }, { 6, 4 }, RPI_OVERLAP_NONE },
		{ { 2, 0 }, { 682, 1000 }, { 6, 4 }, RPI_OVERLAP_SOME },
		/* 7i meets 9j + 5 at 14 first: once with two indices of the second. */
		{ { 0, 5 }, { 400, 2 }, { 7, 9 }, RPI_OVERLAP_SOME },
		{ { 0, 5 }, { 2, 400 }, { 7, 9 }, RPI_OVERLAP_NONE },
		{ { 0, 5 }, { 3, 400 }, { 7, 9 }, RPI_OVERLAP_SOME },
		/* 1000i = 999j + 1 at i = 1 already, 999i = 1000j + 1 at 998001 only. */
		{ { 0, 1 }, { 4, 4 }, { 999, 1000 }, RPI_OVERLAP_NONE },
		{ { 0, 1 }, { 4, 4 }, { 1000, 999 }, RPI_OVERLAP_SOME },
	};
	struct rp_tensor matrix, part[2];
	struct rpi_view v[2];

	(void)state;
	assert_int_equal(0, rp_tensor_host(&matrix, (void *)ARENA, RP_FLOAT32, 2,
					   (const int64_t[]){ 4096, 4096 }));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int side = 0; side < 2; side++) {
			assert_int_equal(
				0, rp_tensor_slice(&matrix, 1, cases[i].start[side],
						   cases[i].count[side],
						   cases[i].step[side], &part[side]));
			v[side] = view_of(&part[side]);
		}
		if (rpi_view_overlap(&v[0], &v[1]) != cases[i].want ||
		    rpi_view_overlap(&v[1], &v[0]) != cases[i].want)
			fail_msg("case %zu", i);
	}
}

static void halves_of_packed_nibbles_are_apart(void **state)
{
	struct rp_tensor parent, left, right;
	struct rpi_view a, b;
	struct tally tally = { 0 };

	(void)state;
	assert_int_equal(0, rp_tensor_host(&parent, (void *)ARENA, RP_FP4E2M1, 2,
					   (const int64_t[]){ 5, 12 }));
	assert_int_equal(0, rp_tensor_slice(&parent, 1, 0, 6, 1, &left));
	assert_int_equal(0, rp_tensor_slice(&parent, 1, 6, 6, 1, &right));
	a = view_of(&left);
	b = view_of(&right);
	assert_int_equal(RPI_OVERLAP_NONE, rpi_view_overlap(&a, &b));
	judge_both_ways(&a, &b, true, true, &tally);
}

/* Neither sums of addresses nor of strides may wrap. */
static void views_at_the_limits_are_judged(void **state)
{
	const int64_t far = RPI_VIEW_BYTES_MAX - 8;
	struct rpi_view low = { .base = 0, .span_bytes = 8, .run_bytes = 8 };
	struct rpi_view high = { .base = UINTPTR_MAX - 8,
				 .span_bytes = 8,
				 .run_bytes = 8 };
	struct rpi_view wide = { .base = 0,
				 .span_bytes = far + 8,
				 .run_bytes = 8,
				 .rank = 1,
				 .shape = { 2 },
				 .stride_bytes = { far } };
	struct rpi_view dense = { .base = 4,
				  .span_bytes = far + 1,
				  .run_bytes = 1,
				  .rank = 2,
				  .shape = { 2, far / 16 },
				  .stride_bytes = { far - (far / 16 - 1) * 3, 3 } };
	struct rpi_view end;

	(void)state;
	assert_int_equal(RPI_OVERLAP_NONE, rpi_view_overlap(&low, &high));
	assert_int_equal(RPI_OVERLAP_NONE, rpi_view_overlap(&high, &low));
	assert_int_equal(RPI_OVERLAP_SOME, rpi_view_overlap(&wide, &low));
	assert_true(rpi_view_covers(&wide, &low));
	assert_int_equal(RPI_OVERLAP_NONE, rpi_view_overlap(&wide, &high));
	end = low;
	end.base = (uintptr_t)far;
	assert_int_equal(RPI_OVERLAP_SOME, rpi_view_overlap(&end, &wide));
	assert_true(rpi_view_covers(&wide, &end));
	end.base = (uintptr_t)far - 8;
	assert_int_equal(RPI_OVERLAP_NONE, rpi_view_overlap(&end, &wide));
	assert_false(rpi_view_covers(&wide, &end));
	assert_int_equal(RPI_OVERLAP_SOME, rpi_view_overlap(&wide, &dense));
	assert_int_equal(RPI_OVERLAP_SOME, rpi_view_overlap(&dense, &wide));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_one_parent_are_told_apart_exactly),
		cmocka_unit_test(parts_of_large_parents_are_told_apart_exactly),
		cmocka_unit_test(parts_with_different_steps_never_miss),
		cmocka_unit_test(a_contiguous_range_meets_a_part_exactly),
		cmocka_unit_test(unrelated_views_never_miss),
		cmocka_unit_test(chosen_parts_are_judged),
		cmocka_unit_test(different_steps_through_a_long_dim_are_told_apart),
		cmocka_unit_test(halves_of_packed_nibbles_are_apart),
		cmocka_unit_test(views_at_the_limits_are_judged),
	};

	return cmocka_run_group_tests_name("test_overlap", tests, set_seed, NULL);
}
