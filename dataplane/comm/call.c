/* SPDX-License-Identifier: MIT */
#include "comm/call.h"

#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "comm/reduce.h"
#include "memory/view.h"

#define KIND_BITS		 4
#define DTYPE_BITS		 4
#define OP_BITS			 2
#define ALGORITHM_BITS		 2
#define ROOT_BITS		 6

#define DTYPE_SHIFT		 KIND_BITS
#define OP_SHIFT		 (DTYPE_SHIFT + DTYPE_BITS)
#define ALGORITHM_SHIFT		 (OP_SHIFT + OP_BITS)
#define ROOT_SHIFT		 (ALGORITHM_SHIFT + ALGORITHM_BITS)
#define COUNT_SHIFT		 (ROOT_SHIFT + ROOT_BITS)

#define FIELD(word, shift, bits) ((uint32_t)((word) >> (shift)) & ((1u << (bits)) - 1))

static_assert(RPI_CALL_KINDS <= 1 << KIND_BITS, "fits");
static_assert(RP_DTYPE_END <= 1 << DTYPE_BITS, "fits");
static_assert(RP_MAX_PEERS <= 1 << ROOT_BITS, "fits");
static_assert(RPI_CALL_COUNT_MAX <= UINT64_MAX >> COUNT_SHIFT, "fits");

uint64_t rpi_call_pack(const struct rpi_call *call)
{
	return (uint64_t)call->kind | (uint64_t)call->dtype << DTYPE_SHIFT |
	       (uint64_t)call->op << OP_SHIFT |
	       (uint64_t)call->algorithm << ALGORITHM_SHIFT |
	       (uint64_t)call->root << ROOT_SHIFT | call->count << COUNT_SHIFT;
}

const char *rpi_call_name(uint64_t packed)
{
	static const char *const names[1 << KIND_BITS] = {
		[RPI_CALL_BARRIER] = "comm_barrier",
		[RPI_CALL_ALLREDUCE] = "comm_allreduce",
		[RPI_CALL_BROADCAST] = "comm_broadcast",
		[RPI_CALL_ALLGATHER] = "comm_allgather",
		[RPI_CALL_REDUCE_SCATTER] = "comm_reduce_scatter",
		[RPI_CALL_ALL_TO_ALL] = "comm_all_to_all",
		[RPI_CALL_ALL_TO_ALL_V] = "comm_all_to_all_v",
	};
	const char *name = names[FIELD(packed, 0, KIND_BITS)];

	return name ? name : "nothing";
}

void rpi_call_print(char *buf, size_t bytes, uint64_t packed)
{
	static const char *const ops[] = { "sum", "max", "min", "prod" };
	static const char *const algorithms[] = { "auto", "mesh", "ring", "?" };
	uint32_t kind = FIELD(packed, 0, KIND_BITS);
	size_t at = rpi_format(buf, bytes, "%s", rpi_call_name(packed));

	if (kind == RPI_CALL_BARRIER || !packed)
		return;
	at += rpi_format(
		buf + at, bytes - at, " of %" PRIu64 " %s", packed >> COUNT_SHIFT,
		rp_dtype_name((enum rp_dtype)FIELD(packed, DTYPE_SHIFT, DTYPE_BITS)));
	if (kind == RPI_CALL_ALLREDUCE || kind == RPI_CALL_REDUCE_SCATTER)
		at += rpi_format(buf + at, bytes - at, " (%s)",
				 ops[FIELD(packed, OP_SHIFT, OP_BITS)]);
	if (kind == RPI_CALL_ALLREDUCE)
		rpi_format(buf + at, bytes - at, " by %s",
			   algorithms[FIELD(packed, ALGORITHM_SHIFT, ALGORITHM_BITS)]);
	if (kind == RPI_CALL_BROADCAST)
		rpi_format(buf + at, bytes - at, " from rank %u",
			   FIELD(packed, ROOT_SHIFT, ROOT_BITS));
}

uint64_t rpi_call_bytes(const struct rpi_call *call, uint64_t count)
{
	return (uint64_t)rpi_dtype_bytes(call->dtype, (int64_t)count);
}

uint32_t rpi_call_grain(const struct rpi_call *call)
{
	uint32_t bits = rp_dtype_bits((enum rp_dtype)call->dtype);

	return bits < 8 ? 1 : bits / 8;
}

static const char *name_of(const struct rpi_call *call)
{
	return rpi_call_name((uint64_t)call->kind);
}

static int check_reduction(const struct rp_comm *comm, const struct rpi_call *call)
{
	if (call->op > RP_PROD)
		return rpi_comm_fail(comm, -EOPNOTSUPP,
				     "%s: op %" PRIu32 ", expected 0..%d", name_of(call),
				     call->op, RP_PROD);
	if (!rpi_reduce_can(call->dtype, call->op))
		return rpi_comm_fail(comm, -EOPNOTSUPP,
				     "%s: dtype %s, expected float32, float16, bfloat16, "
				     "int32, int64, int8 or uint8",
				     name_of(call),
				     rp_dtype_name((enum rp_dtype)call->dtype));
	return 0;
}

int rpi_call_check(const struct rp_comm *comm, const struct rpi_call *call,
		   const void *in, const void *out)
{
	if (rpi_unlikely(!in || !out))
		return rpi_comm_fail(comm, -EINVAL, "%s: %s NULL, expected memory",
				     name_of(call),
				     call->kind == RPI_CALL_BROADCAST ? "data"
				     : !in			      ? "in"
								      : "out");
	if (rpi_unlikely(call->count < 1 || call->count > RPI_CALL_COUNT_MAX))
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: count %" PRIu64 ", expected 1..%" PRIu64,
				     name_of(call), call->count, RPI_CALL_COUNT_MAX);
	if (rpi_unlikely(!rp_dtype_bits((enum rp_dtype)call->dtype)))
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: dtype %" PRIu32 ", expected 1 to %d",
				     name_of(call), call->dtype, RP_DTYPE_END - 1);
	if (rpi_unlikely(call->dtype == RP_FP4E2M1 && call->count % 2))
		return rpi_comm_fail(comm, -EINVAL,
				     "%s: count %" PRIu64
				     ", expected an even one of fp4e2m1",
				     name_of(call), call->count);
	if (call->kind == RPI_CALL_ALLREDUCE || call->kind == RPI_CALL_REDUCE_SCATTER)
		return check_reduction(comm, call);
	return 0;
}

int rpi_call_check_apart(const struct rp_comm *comm, const struct rpi_call *call,
			 struct rpi_span in, struct rpi_span out)
{
	uintptr_t a = (uintptr_t)in.at, b = (uintptr_t)out.at;

	if (rpi_likely(a < b ? b - a >= in.bytes : a - b >= out.bytes))
		return 0;
	return rpi_comm_fail(comm, -EINVAL,
			     "%s: in %p + %" PRIu64 " bytes and out %p + %" PRIu64
			     " overlap, expected them apart",
			     name_of(call), in.at, in.bytes, out.at, out.bytes);
}
