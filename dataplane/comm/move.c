/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing the windows of other ranks.
 *
 * Never: a system call, an allocation, a lock, a log.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "comm/add.h"
#include "comm/comm.h"
#include "memory/copy.h"
#include "memory/view.h"

/* Where the elements are, and how many bytes; NULL with an error line. */
static uint8_t *find_elements(const struct rp_comm *comm, const char *call, uint32_t peer,
			      uint32_t buffer, uint64_t offset, uint64_t count,
			      const void *local, uint64_t *bytes_out)
{
	const struct rpi_window_buffer *found = rpi_comm_find(comm, call, peer, buffer);

	if (!found)
		return NULL;
	/* Two comparisons, because offset + count may wrap. */
	if (offset > found->count || count > found->count - offset) {
		rpi_comm_fail(comm, -EINVAL,
			      "%s: offset %" PRIu64 " + %" PRIu64
			      " elements, the buffer '%s' has %" PRIu64,
			      call, offset, count, found->name, found->count);
		return NULL;
	}
	if (found->dtype == RP_FP4E2M1 && (offset % 2 || count % 2)) {
		rpi_comm_fail(comm, -EINVAL,
			      "%s: offset %" PRIu64 ", count %" PRIu64
			      ", expected even ones of fp4e2m1",
			      call, offset, count);
		return NULL;
	}
	if (!local) {
		rpi_comm_fail(comm, -EINVAL,
			      "%s: memory NULL, expected %" PRIu64 " elements", call,
			      count);
		return NULL;
	}
	*bytes_out = (uint64_t)rpi_dtype_bytes(found->dtype, (int64_t)count);
	return rpi_comm_address(comm, peer, found) +
	       rpi_dtype_bytes(found->dtype, (int64_t)offset);
}

int rp_comm_load(struct rp_comm *comm, uint32_t peer, uint32_t buffer, uint64_t offset,
		 uint64_t count, void *out)
{
	uint64_t bytes;
	const uint8_t *at = find_elements(comm, "comm_load", peer, buffer, offset, count,
					  out, &bytes);

	if (!at)
		return -EINVAL;
	rpi_copy_stage(out, at, bytes, bytes);
	return 0;
}

int rp_comm_store(struct rp_comm *comm, uint32_t peer, uint32_t buffer, uint64_t offset,
		  uint64_t count, const void *in)
{
	uint64_t bytes;
	uint8_t *at = find_elements(comm, "comm_store", peer, buffer, offset, count, in,
				    &bytes);

	if (!at)
		return -EINVAL;
	rpi_copy_stage(at, in, bytes, bytes);
	return 0;
}

/* The region as a tensor. */
static int region_tensor(const struct rp_comm *comm, const char *call,
			 const struct rpi_window_buffer *buffer, uint8_t *base,
			 const struct rp_region *region, struct rp_tensor *out)
{
	uint64_t elements = 1;
	int64_t stride = 1, first = 0;
	uint32_t dim;

	if (region->rank < 1 || region->rank > RP_MAX_DIMS || region->reserved)
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: region of rank %" PRIu32 ", reserved %" PRIu32
				     ", expected rank 1 to %d, reserved 0",
				     call, region->rank, region->reserved, RP_MAX_DIMS);
	for (dim = 0; dim < region->rank; dim++) {
		int64_t shape = region->shape[dim], offset = region->offsets[dim];
		int64_t size = region->sizes[dim];

		if (shape < 1 ||
		    __builtin_mul_overflow(elements, (uint64_t)shape, &elements))
			return rpi_comm_fail(comm, -EINVAL,
					     "%s: region's shape[%" PRIu32 "] %" PRId64
					     ", expected 1 or more and %" PRIu64
					     " elements in all",
					     call, dim, shape, buffer->count);
		if (offset < 0 || size < 1 || offset > shape || size > shape - offset)
			return rpi_comm_fail(comm, -EINVAL,
					     "%s: region's dim %" PRIu32
					     ": offset %" PRId64 " + size %" PRId64
					     ", the shape has %" PRId64,
					     call, dim, offset, size, shape);
	}
	if (elements != buffer->count)
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: region's shape of %" PRIu64
				     " elements, the buffer '%s' has %" PRIu64,
				     call, elements, buffer->name, buffer->count);
	*out = (struct rp_tensor){ .dtype = buffer->dtype, .rank = region->rank };
	for (dim = region->rank; dim-- > 0;) {
		out->shape[dim] = region->sizes[dim];
		out->strides[dim] = stride;
		first += stride * region->offsets[dim];
		stride *= region->shape[dim];
	}
	if (buffer->dtype == RP_FP4E2M1 && first % 2)
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: region begins at element %" PRId64
				     ", expected an even one of fp4e2m1",
				     call, first);
	out->data = base + rpi_dtype_bytes(buffer->dtype, first);
	return 0;
}

/* No region: the first elements of the buffer, in the tensor's shape. */
static int whole_tensor(const struct rp_comm *comm, const char *call,
			const struct rpi_window_buffer *buffer, uint8_t *base,
			const struct rp_tensor *like, struct rp_tensor *out)
{
	int64_t elements;

	if (rp_tensor_elements(like, &elements))
		return rpi_comm_fail(comm, -EINVAL, "%s: %s", call, rp_last_error());
	if ((uint64_t)elements > buffer->count)
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: tensor of %" PRId64
				     " elements, the buffer '%s' has %" PRIu64,
				     call, elements, buffer->name, buffer->count);
	return rp_tensor_host(out, base, (enum rp_dtype)like->dtype, like->rank,
			      like->shape);
}

/* Both sides of a put or get, in bytes and of one shape. */
struct sides {
	struct rpi_view remote;
	struct rpi_view local;
	uint32_t dtype;
};

static int check_shapes(const struct rp_comm *comm, const char *call,
			const struct rp_tensor *remote, const struct rp_tensor *local)
{
	uint32_t dim;

	if (remote->rank != local->rank)
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: tensor of rank %" PRIu32
				     ", the region is of rank %" PRIu32,
				     call, local->rank, remote->rank);
	for (dim = 0; dim < local->rank; dim++)
		if (remote->shape[dim] != local->shape[dim])
			return rpi_comm_fail(comm, -EINVAL,
					     "%s: tensor's shape[%" PRIu32 "] %" PRId64
					     ", the region's size is %" PRId64,
					     call, dim, local->shape[dim],
					     remote->shape[dim]);
	return 0;
}

static int find_sides(const struct rp_comm *comm, const char *call, uint32_t peer,
		      uint32_t buffer, const struct rp_region *region,
		      const struct rp_tensor *local, struct sides *sides)
{
	const struct rpi_window_buffer *found = rpi_comm_find(comm, call, peer, buffer);
	struct rp_tensor remote = { 0 };
	uint8_t *base;
	int err;

	if (!found)
		return -EINVAL;
	if (rpi_view_from_tensor(call, local, &sides->local))
		return rpi_comm_fail(comm, -EINVAL, "%s", rp_last_error());
	if (local->resident)
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: resident tensor, expected an address", call);
	if (local->dtype != found->dtype)
		return rpi_comm_fail(
			comm, -EINVAL, "%s: tensor of %s, the buffer '%s' of %s", call,
			rp_dtype_name((enum rp_dtype)local->dtype), found->name,
			rp_dtype_name((enum rp_dtype)found->dtype));
	base = rpi_comm_address(comm, peer, found);
	err = region ? region_tensor(comm, call, found, base, region, &remote)
		     : whole_tensor(comm, call, found, base, local, &remote);
	if (err)
		return err;
	err = check_shapes(comm, call, &remote, local);
	if (err)
		return err;
	if (rpi_view_from_tensor(call, &remote, &sides->remote))
		return rpi_comm_fail(comm, -EINVAL, "%s", rp_last_error());
	sides->dtype = found->dtype;
	return 0;
}

/* Join the innermost dims for as long as neither side has a gap there. */
static void join_dims(struct rpi_view *a, struct rpi_view *b)
{
	while (a->rank) {
		uint32_t last = a->rank - 1;
		int64_t n = a->shape[last];

		if (n > 1 && (a->stride_bytes[last] != a->run_bytes ||
			      b->stride_bytes[last] != b->run_bytes))
			return;
		a->run_bytes *= n;
		b->run_bytes *= n;
		a->rank = b->rank = last;
	}
}

/* One run of bytes of both sides. */
typedef void (*run_fn)(uint8_t *remote, uint8_t *local, size_t bytes, const void *what);

static void each_run(const struct sides *sides, run_fn fn, const void *what)
{
	const struct rpi_view *a = &sides->remote, *b = &sides->local;
	int64_t index[RP_MAX_DIMS] = { 0 };
	uint32_t dim;

	for (;;) {
		uint8_t *remote = (uint8_t *)a->base, *local = (uint8_t *)b->base;

		for (dim = 0; dim < a->rank; dim++) {
			remote += index[dim] * a->stride_bytes[dim];
			local += index[dim] * b->stride_bytes[dim];
		}
		fn(remote, local, (size_t)a->run_bytes, what);
		for (dim = a->rank; dim > 0; dim--) {
			if (++index[dim - 1] < a->shape[dim - 1])
				break;
			index[dim - 1] = 0;
		}
		if (!dim)
			return;
	}
}

static void run_put(uint8_t *remote, uint8_t *local, size_t bytes, const void *what)
{
	(void)what;
	rpi_copy_stage(remote, local, bytes, bytes);
}

static void run_get(uint8_t *remote, uint8_t *local, size_t bytes, const void *what)
{
	(void)what;
	rpi_copy_stage(local, remote, bytes, bytes);
}

struct adder {
	rpi_add_fn add;
	size_t size;
};

static void run_add(uint8_t *remote, uint8_t *local, size_t bytes, const void *what)
{
	const struct adder *adder = what;

	adder->add(remote, local, bytes / adder->size);
}

int rp_comm_put(struct rp_comm *comm, uint32_t peer, uint32_t buffer,
		const struct rp_region *region, const struct rp_tensor *src,
		enum rp_put_op op)
{
	struct adder adder;
	struct sides sides;
	int err = find_sides(comm, "comm_put", peer, buffer, region, src, &sides);

	if (err)
		return err;
	if (op != RP_PUT_STORE && op != RP_PUT_ADD)
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_put: op %d, expected RP_PUT_STORE or "
				     "RP_PUT_ADD",
				     (int)op);
	adder.add = rpi_add_find(sides.dtype);
	adder.size = (size_t)sides.remote.run_bytes;
	join_dims(&sides.remote, &sides.local);
	if (op == RP_PUT_STORE) {
		each_run(&sides, run_put, NULL);
		return 0;
	}
	if (!adder.add)
		return rpi_comm_fail(comm, -EOPNOTSUPP,
				     "comm_put: atomic add of %s, expected float32, "
				     "float16, bfloat16, int32, int16 or int8",
				     rp_dtype_name((enum rp_dtype)sides.dtype));
	each_run(&sides, run_add, &adder);
	return 0;
}

int rp_comm_get(struct rp_comm *comm, uint32_t peer, uint32_t buffer,
		const struct rp_region *region, const struct rp_tensor *dst)
{
	struct sides sides;
	int err = find_sides(comm, "comm_get", peer, buffer, region, dst, &sides);

	if (err)
		return err;
	join_dims(&sides.remote, &sides.local);
	each_run(&sides, run_get, NULL);
	return 0;
}
