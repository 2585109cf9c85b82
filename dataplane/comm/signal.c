/* SPDX-License-Identifier: MIT */
/*
 * Signals: cells of 32 bits in a window that any chip of the domain changes and the
 * window's owner waits for.
 *
 * Never: an allocation, a lock, a log; a system call only to sleep or to wake a sleeper.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "chip/server.h"
#include "comm/comm.h"
#include "runtime/flight.h"

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

static __attribute__((cold)) void describe_late(const struct rp_comm *comm,
						uint32_t buffer, uint64_t offset,
						const struct condition *condition,
						int64_t timeout_ns,
						char text[RPI_ERROR_BYTES])
{
	rpi_format(text, RPI_ERROR_BYTES,
		   "rank %" PRIu32 ", '%s'[%" PRIu64 "] is %" PRId32
		   " after %.6g s, expected %s %" PRId32,
		   comm->rank, comm->slot->buffers[buffer].name, offset,
		   atomic_load_explicit(condition->cell, memory_order_relaxed),
		   rpi_comm_seconds(comm, timeout_ns), compare_signs[condition->compare],
		   condition->expected);
}

/* What was waited for did not come. */
static __attribute__((cold)) int fail_wait(const struct rp_comm *comm, uint32_t buffer,
					   uint64_t offset,
					   const struct condition *condition,
					   int64_t timeout_ns, int err)
{
	const char *name = comm->slot->buffers[buffer].name;
	char text[RPI_ERROR_BYTES];

	if (err == -ECANCELED)
		return rpi_comm_fail(comm, err,
				     "comm_wait: rank %" PRIu32 ", '%s'[%" PRIu64
				     "]: the run has failed elsewhere",
				     comm->rank, name, offset);
	describe_late(comm, buffer, offset, condition, timeout_ns, text);
	return rpi_comm_fail(comm, err, "comm_wait: %s", text);
}

static int find_condition(const struct rp_comm *comm, const char *call, uint32_t buffer,
			  uint64_t offset, struct condition *condition)
{
	condition->cell = find_cell(comm, call, comm->rank, buffer, offset);
	if (rpi_unlikely(!condition->cell))
		return -EINVAL;
	return check_compare(comm, call, condition->compare);
}

static int check_timeout(const struct rp_comm *comm, const char *call, int64_t timeout_ns)
{
	if (rpi_likely(timeout_ns >= RP_WAIT_FOREVER))
		return 0;
	return rpi_comm_fail(comm, -EINVAL,
			     "%s: timeout_ns %" PRId64
			     ", expected RP_WAIT_FOREVER or more",
			     call, timeout_ns);
}

int rp_comm_wait(struct rp_comm *comm, uint32_t buffer, uint64_t offset,
		 enum rp_compare compare, int32_t expected, int64_t timeout_ns)
{
	struct condition condition = { .compare = compare, .expected = expected };
	int err = find_condition(comm, "comm_wait", buffer, offset, &condition);

	if (!err)
		err = check_timeout(comm, "comm_wait", timeout_ns);
	if (rpi_unlikely(err))
		return err;
	err = rpi_comm_await(comm, come, &condition, RPI_NO_RANK, timeout_ns);
	if (rpi_unlikely(err))
		return fail_wait(comm, buffer, offset, &condition, timeout_ns, err);
	return 0;
}

int rp_comm_test(const struct rp_comm *comm, uint32_t buffer, uint64_t offset,
		 enum rp_compare compare, int32_t expected)
{
	struct condition condition = { .compare = compare, .expected = expected };

	if (rpi_unlikely(find_condition(comm, "comm_test", buffer, offset, &condition)))
		return -EINVAL;
	return come(comm, &condition);
}

/* --- Kernels that wait ------------------------------------------------------- */

struct signal_hurdle {
	struct rpi_hurdle hurdle;
	const struct rp_comm *comm;
	struct condition condition;
	uint32_t buffer;
	uint64_t offset;
	int64_t timeout_ns;
	uint64_t until_ns; /* 0: not asked yet; UINT64_MAX: no limit */
};

static_assert(sizeof(struct signal_hurdle) <= RPI_HURDLE_BYTES_MAX &&
		      sizeof(struct signal_hurdle) % 8 == 0,
	      "it rides behind a kernel's arguments");

/* Runs on any thread of the chip: it leaves the chip's own words alone. */
static int ask_signal(struct rpi_hurdle *asked)
{
	struct signal_hurdle *hurdle = (struct signal_hurdle *)asked;
	char text[RPI_ERROR_BYTES];
	uint64_t now_ns, limit_ns;

	if (come(hurdle->comm, &hurdle->condition))
		return 1;
	if (hurdle->until_ns == UINT64_MAX)
		return 0;
	now_ns = rpi_now_ns();
	if (!hurdle->until_ns) {
		limit_ns = rpi_comm_limit_ns(hurdle->comm, hurdle->timeout_ns);
		if (__builtin_add_overflow(now_ns, limit_ns, &hurdle->until_ns))
			hurdle->until_ns = UINT64_MAX;
		return 0;
	}
	if (now_ns < hurdle->until_ns)
		return 0;
	describe_late(hurdle->comm, hurdle->buffer, hurdle->offset, &hurdle->condition,
		      hurdle->timeout_ns, text);
	return rpi_fail(-ETIMEDOUT, "waits: %s", text);
}

static int nothing(const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return 0;
}

static int fill_hurdle(const struct rp_signal *signal, struct signal_hurdle *hurdle)
{
	static const char call[] = "chip_submit_wait";
	int err;

	if (!signal || !signal->comm)
		return rpi_fail(-EINVAL, "%s: signal%s NULL, expected %s", call,
				signal ? "->comm" : "", signal ? "a domain" : "a signal");
	if (signal->reserved)
		return rpi_fail(-EINVAL, "%s: signal->reserved %" PRIu32 ", expected 0",
				call, signal->reserved);
	hurdle->comm = signal->comm;
	hurdle->condition.compare = signal->compare;
	hurdle->condition.expected = signal->expected;
	hurdle->buffer = signal->buffer;
	hurdle->offset = signal->offset;
	hurdle->timeout_ns = signal->timeout_ns;
	err = find_condition(signal->comm, call, signal->buffer, signal->offset,
			     &hurdle->condition);
	return err ? err : check_timeout(signal->comm, call, signal->timeout_ns);
}

int rp_chip_submit_wait(struct rp_chip *chip, const struct rp_signal *signal,
			const struct rp_kernel *kernel, rp_kernel_id *id_out)
{
	struct signal_hurdle hurdle = {
		.hurdle = { .ask = ask_signal, .bytes = sizeof(hurdle) },
	};
	int err = fill_hurdle(signal, &hurdle);
	struct rp_kernel waiting;

	if (!err && !kernel)
		err = rpi_fail(-EINVAL,
			       "chip_submit_wait: kernel NULL, expected a kernel");
	if (rpi_unlikely(err))
		return rpi_server_runtime_refuse(chip, err);
	waiting = *kernel;
	if (!waiting.fn)
		waiting.fn = nothing;
	return rpi_server_submit_behind(chip, "rp_chip_submit_wait", &waiting,
					&hurdle.hurdle, id_out);
}

void rp_comm_fence(void)
{
	/* Streaming stores too: on x86 a locked instruction drains them. */
	atomic_thread_fence(memory_order_seq_cst);
}
