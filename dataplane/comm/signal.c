/* SPDX-License-Identifier: MIT */
/*
 * Signals: cells of 32 bits in a window that any chip of the domain changes and the
 * window's owner waits for.
 *
 * Never: an allocation, a lock, a log; a system call only to sleep or to wake a sleeper.
 */
#include <errno.h>
#include <inttypes.h>

#include "chip/server.h"
#include "comm/comm.h"

struct condition {
	const _Atomic int32_t *cell;
	enum rp_compare compare;
	int32_t expected;
};

static const char *const compare_signs[] = {
	[RP_EQ] = "==", [RP_GE] = ">=", [RP_NE] = "!=",
	[RP_GT] = ">",	[RP_LE] = "<=", [RP_LT] = "<",
};

static _Atomic int32_t *find_cell(const struct rp_comm *comm, const char *call,
				  uint32_t peer, uint32_t buffer, uint64_t offset)
{
	const struct rpi_window_buffer *found = rpi_comm_find(comm, call, peer, buffer);

	if (rpi_unlikely(!found))
		return NULL;
	if (rpi_unlikely(found->dtype != RP_INT32)) {
		rpi_comm_fail(comm, -EINVAL,
			      "%s: buffer '%s' of %s, expected signals of int32", call,
			      found->name, rp_dtype_name((enum rp_dtype)found->dtype));
		return NULL;
	}
	if (rpi_unlikely(offset >= found->count)) {
		rpi_comm_fail(comm, -EINVAL,
			      "%s: offset %" PRIu64 ", the buffer '%s' has %" PRIu64
			      " cells",
			      call, offset, found->name, found->count);
		return NULL;
	}
	return (_Atomic int32_t *)(void *)rpi_comm_address(comm, peer, found) + offset;
}

static bool holds(int32_t value, enum rp_compare compare, int32_t expected)
{
	switch (compare) {
	case RP_EQ:
		return value == expected;
	case RP_GE:
		return value >= expected;
	case RP_NE:
		return value != expected;
	case RP_GT:
		return value > expected;
	case RP_LE:
		return value <= expected;
	case RP_LT:
		return value < expected;
	}
	return false;
}

static int check_compare(const struct rp_comm *comm, const char *call,
			 enum rp_compare compare)
{
	if (rpi_likely((uint32_t)compare <= RP_LT))
		return 0;
	return rpi_comm_fail(comm, -EINVAL, "%s: comparison %d, expected 0..%d", call,
			     (int)compare, RP_LT);
}

static bool come(const struct rp_comm *comm, const void *what)
{
	const struct condition *condition = what;

	(void)comm;
	/* E9 */
	return holds(atomic_load_explicit(condition->cell, memory_order_acquire),
		     condition->compare, condition->expected);
}

int rp_comm_notify(struct rp_comm *comm, uint32_t buffer, uint32_t peer, uint64_t offset,
		   int32_t value, enum rp_notify_op op)
{
	_Atomic int32_t *cell = find_cell(comm, "comm_notify", peer, buffer, offset);

	if (rpi_unlikely(!cell))
		return -EINVAL;
	/* E9 */
	if (op == RP_NOTIFY_ADD)
		atomic_fetch_add_explicit(cell, value, memory_order_release);
	else if (op == RP_NOTIFY_SET)
		atomic_store_explicit(cell, value, memory_order_release);
	else
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_notify: op %d, expected RP_NOTIFY_ADD or "
				     "RP_NOTIFY_SET",
				     (int)op);
	rpi_rouse(&comm->chip->rouser, comm->slot->chips[peer]); /* E4 */
	return 0;
}

/* What was waited for did not come. */
static __attribute__((cold)) int fail_wait(const struct rp_comm *comm, uint32_t buffer,
					   uint64_t offset,
					   const struct condition *condition,
					   int64_t timeout_ns, int err)
{
	const char *name = comm->slot->buffers[buffer].name;

	if (err == -ECANCELED)
		return rpi_comm_fail(comm, err,
				     "comm_wait: rank %" PRIu32 ", '%s'[%" PRIu64
				     "]: the run has failed elsewhere",
				     comm->rank, name, offset);
	return rpi_comm_fail(comm, err,
			     "comm_wait: rank %" PRIu32 ", '%s'[%" PRIu64 "] is %" PRId32
			     " after %.6g s, expected %s %" PRId32,
			     comm->rank, name, offset,
			     atomic_load_explicit(condition->cell, memory_order_relaxed),
			     rpi_comm_seconds(comm, timeout_ns),
			     compare_signs[condition->compare], condition->expected);
}

int rp_comm_wait(struct rp_comm *comm, uint32_t buffer, uint64_t offset,
		 enum rp_compare compare, int32_t expected, int64_t timeout_ns)
{
	struct condition condition = {
		.cell = find_cell(comm, "comm_wait", comm->rank, buffer, offset),
		.compare = compare,
		.expected = expected,
	};
	int err;

	if (rpi_unlikely(!condition.cell))
		return -EINVAL;
	err = check_compare(comm, "comm_wait", compare);
	if (rpi_unlikely(err))
		return err;
	if (rpi_unlikely(timeout_ns < RP_WAIT_FOREVER))
		return rpi_comm_fail(comm, -EINVAL,
				     "comm_wait: timeout_ns %" PRId64
				     ", expected RP_WAIT_FOREVER or more",
				     timeout_ns);
	err = rpi_comm_await(comm, come, &condition, timeout_ns);
	if (rpi_unlikely(err))
		return fail_wait(comm, buffer, offset, &condition, timeout_ns, err);
	return 0;
}

int rp_comm_test(const struct rp_comm *comm, uint32_t buffer, uint64_t offset,
		 enum rp_compare compare, int32_t expected)
{
	struct condition condition = {
		.cell = find_cell(comm, "comm_test", comm->rank, buffer, offset),
		.compare = compare,
		.expected = expected,
	};

	if (rpi_unlikely(!condition.cell))
		return -EINVAL;
	if (rpi_unlikely(check_compare(comm, "comm_test", compare)))
		return -EINVAL;
	return come(comm, &condition);
}

void rp_comm_fence(void)
{
	/* Streaming stores too: on x86 a locked instruction drains them. */
	atomic_thread_fence(memory_order_seq_cst);
}
