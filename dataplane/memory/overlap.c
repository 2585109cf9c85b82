/* SPDX-License-Identifier: MIT */
/*
 * Whether two strided views share bytes.
 *
 * Never: a system call, an allocation, a lock, a log line.
 *
 * A view is the runs at sum of i_k * stride_k. Two of them meet when some choice of both
 * sides' indices brings run within reach of run. The dims of both sides are taken in one
 * order, longest stride first. At each level the distance from a's part to b's part
 * changes by a multiple of the stride, and only those multiples are kept that leave the
 * parts' extents overlapping. For nested views that is two at most, so that at most 2^5
 * distances are alive after five levels, in practice two: multiples of a stride differ
 * by what the next level's stride divides, and equal distances are merged.
 */
#include <assert.h>

#include "memory/overlap.h"

/* Own dims, and one more for each stride of the other side that splits one. */
#define DIMS_MAX (2 * RP_MAX_DIMS)

/* Distances alive at once, and multiples looked at in all. Past either: "some". */
#define ALIVE_MAX 64
#define LOOKS_MAX 512

/* A view as a set of bytes: order of elements is forgotten. */
struct lattice {
	int64_t run;
	int rank;
	int64_t stride[DIMS_MAX];     /* falling */
	int64_t count[DIMS_MAX];      /* 2 or more */
	int64_t extent[DIMS_MAX + 1]; /* of the dims k, k + 1, ... and the run */
};

/* One level of the search: the next dim of a, of b, or of both at once. */
struct level {
	bool use_a, use_b;
	int64_t step; /* distances change by multiples of this */
	int64_t stride_a, count_a;
	int64_t stride_b, count_b;
	/* Both, with different strides: step is their gcd, and this the inverse of
	 * stride_a / step modulo stride_b / step. */
	bool mixed;
	int64_t inverse;
};

/* Insert a dim behind those of longer or equal stride. */
static void insert_dim(struct lattice *l, int64_t stride, int64_t count)
{
	int k = l->rank++;

	for (; k > 0 && l->stride[k - 1] < stride; k--) {
		l->stride[k] = l->stride[k - 1];
		l->count[k] = l->count[k - 1];
	}
	l->stride[k] = stride;
	l->count[k] = count;
}

static void from_view(struct lattice *l, const struct rpi_view *v)
{
	assert(v->span_bytes >= 1 && v->span_bytes <= RPI_VIEW_BYTES_MAX);
	l->rank = 0;
	l->run = v->run_bytes;
	for (uint32_t k = 0; k < v->rank; k++) {
		if (v->shape[k] == 1)
			continue;
		assert(v->stride_bytes[k] > 0);
		insert_dim(l, v->stride_bytes[k], v->shape[k]);
	}
	/* Runs that touch are one run. */
	while (l->rank && l->stride[l->rank - 1] <= l->run) {
		l->rank--;
		l->run += (l->count[l->rank] - 1) * l->stride[l->rank];
	}
}

static void fill_extents(struct lattice *l)
{
	l->extent[l->rank] = l->run;
	for (int k = l->rank; k-- > 0;)
		l->extent[k] = l->extent[k + 1] + (l->count[k] - 1) * l->stride[k];
}

/*
 * Undo what joined two dims on one side only: where a dim passes over a stride of the
 * other side and fills whole steps of it, split it there. Otherwise every step of that
 * stride would be a candidate.
 */
static void split_dims(struct lattice *l, const struct lattice *other)
{
	for (int j = 0; j < other->rank; j++) {
		int64_t stride = other->stride[j];

		for (int k = 0; k < l->rank && l->rank < DIMS_MAX; k++) {
			int64_t count = l->count[k], per_step;

			if (l->stride[k] >= stride || (count - 1) * l->stride[k] < stride)
				continue;
			per_step = stride / l->stride[k];
			if (stride % l->stride[k] || count % per_step)
				continue;
			l->count[k] = per_step;
			insert_dim(l, stride, count / per_step);
		}
	}
}

/* gcd(x, y), and the inverse of x / gcd modulo y / gcd. */
static int64_t gcd_inverse(int64_t x, int64_t y, int64_t *inverse_out)
{
	int64_t r0 = y, r1 = x, s0 = 0, s1 = 1;

	while (r1) {
		int64_t q = r0 / r1, r2 = r0 - q * r1, s2 = s0 - q * s1;

		r0 = r1;
		r1 = r2;
		s0 = s1;
		s1 = s2;
	}
	/* s0 * x = r0 modulo y. */
	y /= r0;
	assert(y > 0);
	s0 %= y;
	*inverse_out = s0 < 0 ? s0 + y : s0;
	return r0;
}

/*
 * Take the longer stride alone, or both at once where they are equal. Different strides
 * are taken at once where that leaves fewer candidates: a parent's dim that the sides
 * step through differently.
 */
static struct level next_level(const struct lattice *a, int ka, const struct lattice *b,
			       int kb)
{
	struct level l = {
		.stride_a = ka < a->rank ? a->stride[ka] : 0,
		.stride_b = kb < b->rank ? b->stride[kb] : 0,
		.count_a = ka < a->rank ? a->count[ka] : 1,
		.count_b = kb < b->rank ? b->count[kb] : 1,
	};
	int64_t alone, within_alone, within_both, gcd;

	l.use_a = l.stride_a >= l.stride_b;
	l.use_b = l.stride_b >= l.stride_a;
	l.step = l.use_a ? l.stride_a : l.stride_b;
	if ((l.use_a && l.use_b) || ka == a->rank || kb == b->rank)
		return l;
	alone = l.step;
	assert(alone > 0);
	within_alone = a->extent[ka + l.use_a] + b->extent[kb + l.use_b];
	if (within_alone <= 2 * alone)
		return l;
	gcd = gcd_inverse(l.stride_a, l.stride_b, &l.inverse);
	within_both = a->extent[ka + 1] + b->extent[kb + 1];
	if (within_both / gcd >= within_alone / alone)
		return l;
	l.use_a = l.use_b = l.mixed = true;
	l.step = gcd;
	return l;
}

/* Whether j * stride_b - i * stride_a is `change` for some pair of indices. */
static bool reachable(const struct level *l, int64_t change)
{
	int64_t modulus = l->stride_b / l->step;
	int64_t want, i, least, j;

	assert(modulus > 0 && l->stride_a > 0 && l->stride_b > 0);
	want = -(change / l->step) % modulus;
	if (want < 0)
		want += modulus;
	/* The least i of the right residue with j >= 0. Larger ones have larger j too. */
	i = (int64_t)((unsigned __int128)want * (uint64_t)l->inverse % (uint64_t)modulus);
	if (change < 0) {
		least = -(change + 1) / l->stride_a + 1;
		if (i < least)
			i += (least - i + modulus - 1) / modulus * modulus;
	}
	if (i >= l->count_a)
		return false;
	j = (change + i * l->stride_a) / l->stride_b;
	return j < l->count_b;
}

static int64_t floor_div(int64_t x, int64_t y)
{
	assert(y > 0);
	return x / y - (x % y < 0);
}

/* The distances from a's part to b's part that are worth following. */
struct alive {
	int count;
	int64_t distance[ALIVE_MAX];
};

static bool add_distance(struct alive *alive, int64_t distance)
{
	for (int i = 0; i < alive->count; i++)
		if (alive->distance[i] == distance)
			return true;
	if (alive->count == ALIVE_MAX)
		return false;
	alive->distance[alive->count++] = distance;
	return true;
}

/*
 * Follow one distance through a level whose inner parts are within_a and within_b long.
 * True when the question is settled as "some": the first runs of both parts meet, or the
 * budget is spent.
 */
static bool follow(const struct level *l, int64_t distance, int64_t within_a,
		   int64_t within_b, int64_t run_a, int64_t run_b, struct alive *next,
		   int *looks)
{
	int64_t from = 1 - within_b - distance, to = within_a - 1 - distance;
	int64_t least = l->use_a ? -(l->count_a - 1) * l->stride_a : 0;
	int64_t most = l->use_b ? (l->count_b - 1) * l->stride_b : 0;
	int64_t change;

	from = from > least ? from : least;
	to = to < most ? to : most;
	change = -floor_div(-from, l->step) * l->step;
	for (; change <= to; change += l->step) {
		int64_t moved = distance + change;

		if (++*looks > LOOKS_MAX)
			return true;
		if (l->mixed && !reachable(l, change))
			continue;
		/* All inner indices 0. */
		if (moved < run_a && moved > -run_b)
			return true;
		if (!add_distance(next, moved))
			return true;
	}
	return false;
}

enum rpi_overlap rpi_view_overlap_within(const struct rpi_view *view_a,
					 const struct rpi_view *view_b)
{
	struct alive alive[2], *now = &alive[0], *next = &alive[1];
	int64_t distance = (int64_t)(view_b->base - view_a->base);
	struct lattice a, b;
	int ka = 0, kb = 0, looks = 0;

	from_view(&a, view_a);
	from_view(&b, view_b);
	if (distance < a.run && distance > -b.run)
		return RPI_OVERLAP_SOME;
	split_dims(&a, &b);
	split_dims(&b, &a);
	fill_extents(&a);
	fill_extents(&b);
	now->count = 1;
	now->distance[0] = distance;
	while (now->count && (ka < a.rank || kb < b.rank)) {
		struct level l = next_level(&a, ka, &b, kb);
		struct alive *swap = now;

		ka += l.use_a;
		kb += l.use_b;
		next->count = 0;
		for (int i = 0; i < now->count; i++)
			if (follow(&l, now->distance[i], a.extent[ka], b.extent[kb],
				   a.run, b.run, next, &looks))
				return RPI_OVERLAP_SOME;
		now = next;
		next = swap;
	}
	/* Runs that meet would have been seen when their distance was found. */
	return RPI_OVERLAP_NONE;
}

/* Join dims that continue each other, so that an index may pass over their border. */
static void join_dims(struct lattice *l)
{
	int rank = 0;

	for (int k = 0; k < l->rank; k++) {
		if (rank && l->stride[rank - 1] == l->count[k] * l->stride[k])
			l->count[rank - 1] *= l->count[k];
		else
			l->count[rank++] = l->count[k];
		l->stride[rank - 1] = l->stride[k];
	}
	l->rank = rank;
}

/*
 * Write b's first run in a's indices, greedily from the longest stride, then see that
 * b's dims, each counted in steps of a dim of a or in bytes of its run, stay inside.
 */
bool rpi_view_covers(const struct rpi_view *view_a, const struct rpi_view *view_b)
{
	uintptr_t offset = view_b->base - view_a->base;
	int64_t distance;
	struct lattice a, b;
	int kb = 0;

	/* An offset below 0 wraps to a large one. */
	if (view_b->span_bytes > view_a->span_bytes ||
	    offset > (uintptr_t)(view_a->span_bytes - view_b->span_bytes))
		return false;
	distance = (int64_t)offset;
	from_view(&a, view_a);
	from_view(&b, view_b);
	join_dims(&a);
	fill_extents(&b);
	for (int ka = 0; ka < a.rank; ka++) {
		int64_t last = distance / a.stride[ka];

		distance -= last * a.stride[ka];
		for (; kb < b.rank && b.stride[kb] >= a.stride[ka]; kb++) {
			if (b.stride[kb] % a.stride[ka])
				return false;
			last += (b.count[kb] - 1) * (b.stride[kb] / a.stride[ka]);
		}
		if (last >= a.count[ka])
			return false;
	}
	return distance + b.extent[kb] <= a.run;
}
