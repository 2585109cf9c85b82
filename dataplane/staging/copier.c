/* SPDX-License-Identifier: MIT */
/*
 * Copies between host and device. A large one goes through the chunks in pieces, so
 * that this side's copy of one piece overlaps the chip's copy of the one before. No
 * allocation; system calls only to sleep and to wake.
 */
#include "staging/copier.h"

#include <errno.h>
#include <string.h>

#include "base/futex.h"
#include "dispatch/queue.h"
#include "memory/copy.h"

/* A fall is told by a wake-up as well; this only bounds a missed one. */
#define REPLY_SLEEP_NS 100000000u

/* Pieces: a payload of up to two of the least is one; more are cut so that both sides
 * have work, up to a whole chunk each. */
#define PIECE_BYTES_MIN ((size_t)64 << 10)

int rpi_copier_init(struct rpi_copier *copier, struct rpi_plane *plane, uint32_t peer_idx,
		    struct rpi_command_lane *lane, uint8_t *chunks)
{
	memset(copier, 0, sizeof(*copier));
	copier->plane = plane;
	copier->peer_idx = peer_idx;
	copier->lane = lane;
	copier->chunks = chunks;
	copier->next_seq = 1;
	copier->spin = plane->gate.spin;
	return rpi_admission_init(&copier->turn);
}

void rpi_copier_fini(struct rpi_copier *copier)
{
	rpi_admission_fini(&copier->turn);
}

int rpi_copier_enter(struct rpi_copier *copier, const char *call)
{
	struct rpi_plane *plane = copier->plane;
	int err = 0;

	/* A copy follows the dispatches that were submitted before it. */
	if (plane->queue)
		rpi_queue_pass(plane->queue);
	rpi_admission_enter(&copier->turn);
	if (atomic_load_explicit(&plane->closing, memory_order_seq_cst))
		err = rpi_fail(-ESHUTDOWN, "%s: the worker is closed or being closed",
			       call);
	else if (atomic_load_explicit(&plane->fall, memory_order_acquire) !=
		 RPI_FALL_NONE)
		err = rpi_fail(-EOWNERDEAD, "%s", plane->fall_text);
	if (err)
		rpi_admission_leave(&copier->turn);
	return err;
}

void rpi_copier_leave(struct rpi_copier *copier)
{
	rpi_admission_leave(&copier->turn);
}

struct rpi_command *rpi_copier_command(struct rpi_copier *copier)
{
	struct rpi_command *command =
		&copier->lane->commands[copier->next_seq & (RPI_COMMAND_SLOTS - 1)];

	/* Relaxed: the order between a dispatch and a copy that follows it in one thread
	 * is that thread's own; others' are not ordered. */
	command->after_task = atomic_load_explicit(
		&copier->plane->lanes[copier->peer_idx].published_seq,
		memory_order_relaxed);
	return command;
}

void rpi_copier_send(struct rpi_copier *copier)
{
	struct rpi_command *command =
		&copier->lane->commands[copier->next_seq & (RPI_COMMAND_SLOTS - 1)];

	/* C1 */
	atomic_store_explicit(&command->seq, copier->next_seq, memory_order_release);
	copier->next_seq++;
	rpi_rouse(&copier->plane->rouser, copier->peer_idx); /* E4 */
}

static bool replied(const struct rpi_copier *copier, uint64_t seq)
{
	/* C2 */
	return atomic_load_explicit(
		       &copier->lane->replies[seq & (RPI_COMMAND_SLOTS - 1)].seq,
		       memory_order_acquire) == seq;
}

static bool fallen(const struct rpi_copier *copier)
{
	return atomic_load_explicit(&copier->plane->fall, memory_order_acquire) ==
	       RPI_FALL_OVER;
}

static void sleep_for_reply(struct rpi_copier *copier, uint64_t seq)
{
	struct rpi_plane *plane = copier->plane;
	struct rpi_peer *peer = &plane->peers[copier->peer_idx];
	uint32_t seen = atomic_load_explicit(&peer->reply_futex, memory_order_acquire);

	atomic_fetch_or_explicit(&peer->attention, RPI_ATTENTION_REPLY,
				 memory_order_acq_rel);
	rpi_barrier_sleeper(plane->asym); /* E5 */
	if (replied(copier, seq) || fallen(copier))
		return;
	rpi_futex_wait(&peer->reply_futex, seen, RPI_FUTEX_SHARED,
		       rpi_now_ns() + REPLY_SLEEP_NS);
}

int rpi_copier_reply(struct rpi_copier *copier, const struct rpi_reply **reply_out)
{
	uint64_t seq = copier->reply_seq + 1;
	const struct rpi_reply *reply =
		&copier->lane->replies[seq & (RPI_COMMAND_SLOTS - 1)];
	struct rpi_spin_wait wait;
	bool slept = false;

	rpi_spin_begin(&wait, &copier->spin);
	while (!replied(copier, seq) && !fallen(copier) && rpi_spin_again(&wait))
		;
	while (!replied(copier, seq) && !fallen(copier)) {
		sleep_for_reply(copier, seq);
		slept = true;
	}
	rpi_spin_end(&wait, slept);
	copier->reply_seq = seq;
	if (!replied(copier, seq))
		return rpi_fail(-EOWNERDEAD, "%s", copier->plane->fall_text);
	*reply_out = reply;
	if (rpi_unlikely(reply->status))
		return rpi_fail(reply->status < 0 ? reply->status : -EPROTO,
				"copy: chip %u failed to copy", copier->peer_idx);
	return 0;
}

static void fill(struct rpi_command *command, enum rpi_command_op op, uint64_t device,
		 const void *host, size_t bytes)
{
	command->op = (uint32_t)op;
	command->inlined = 0;
	command->bytes = bytes;
	command->device = device;
	command->host = (uint64_t)(uintptr_t)host;
}

/* One command that carries everything, or names it. */
static int copy_at_once(struct rpi_copier *copier, enum rpi_command_op op,
			uint64_t device, void *host, size_t bytes, bool inlined)
{
	struct rpi_command *command = rpi_copier_command(copier);
	const struct rpi_reply *reply;
	int err;

	fill(command, op, device, host, bytes);
	command->inlined = inlined;
	if (inlined && op == RPI_COMMAND_COPY_IN)
		memcpy(command->data, host, bytes);
	rpi_copier_send(copier);
	err = rpi_copier_reply(copier, &reply);
	if (!err && inlined && op == RPI_COMMAND_COPY_OUT)
		memcpy(host, reply->data, bytes);
	return err;
}

static size_t piece_bytes(size_t bytes)
{
	size_t piece = bytes / (2 * RPI_STAGING_CHUNKS);

	piece &= ~(PIECE_BYTES_MIN - 1);
	if (piece < PIECE_BYTES_MIN)
		return bytes <= 2 * PIECE_BYTES_MIN ? bytes : PIECE_BYTES_MIN;
	return piece < RPI_STAGING_CHUNK_BYTES ? piece : RPI_STAGING_CHUNK_BYTES;
}

static void count(_Atomic uint64_t *counter, size_t bytes)
{
	atomic_fetch_add_explicit(counter, bytes, memory_order_relaxed);
}

/* Read the replies that are left after an error, so that the next command starts
 * clean; the first error stays. */
static int settle(struct rpi_copier *copier, int err)
{
	char text[RPI_ERROR_BYTES];
	const struct rpi_reply *reply;

	if (err)
		rpi_format(text, sizeof(text), "%s", rp_last_error());
	while (copier->reply_seq + 1 < copier->next_seq) {
		int later = rpi_copier_reply(copier, &reply);

		if (err || !later)
			continue;
		err = later;
		rpi_format(text, sizeof(text), "%s", rp_last_error());
	}
	if (err)
		rpi_error_set(text);
	return err;
}

int rpi_copier_in_all(struct rpi_copier *const *copiers, const uint64_t *devices,
		      size_t count_of, const void *host, size_t bytes, bool named)
{
	struct rpi_copier *first = copiers[0];
	size_t piece = named ? bytes : piece_bytes(bytes);
	uint32_t in_flight = 0;
	uint32_t chunk = 0;
	size_t done;
	size_t i;
	int err = 0;

	for (done = 0; done < bytes && !err; done += piece) {
		size_t n = bytes - done < piece ? bytes - done : piece;
		const void *from = (const uint8_t *)host + done;

		if (!named && in_flight == RPI_STAGING_CHUNKS) {
			const struct rpi_reply *reply;

			for (i = 0; i < count_of && !err; i++)
				err = rpi_copier_reply(copiers[i], &reply);
			in_flight--;
			if (err)
				break;
		}
		if (!named) {
			uint8_t *stage = first->chunks + chunk * RPI_STAGING_CHUNK_BYTES;

			rpi_copy_stage(stage, from, n, bytes);
			from = stage;
			chunk = (chunk + 1) % RPI_STAGING_CHUNKS;
			in_flight++;
		}
		for (i = 0; i < count_of; i++) {
			fill(rpi_copier_command(copiers[i]), RPI_COMMAND_COPY_IN,
			     devices[i] + done, from, n);
			rpi_copier_send(copiers[i]);
		}
	}
	for (i = 0; i < count_of; i++)
		err = settle(copiers[i], err);
	count(named ? &first->bytes_named : &first->bytes_staged, bytes);
	return err;
}

int rpi_copier_in(struct rpi_copier *copier, uint64_t device, const void *host,
		  size_t bytes, bool named)
{
	/* Not written through: in this direction the host is only read. */
	if (bytes <= RPI_COMMAND_INLINE)
		return copy_at_once(copier, RPI_COMMAND_COPY_IN, device,
				    (void *)(uintptr_t)host, bytes, true);
	return rpi_copier_in_all(&copier, &device, 1, host, bytes, named);
}

static int copy_out_staged(struct rpi_copier *copier, uint8_t *host, uint64_t device,
			   size_t bytes)
{
	size_t piece = piece_bytes(bytes);
	size_t asked = 0;
	size_t taken = 0;
	int err = 0;

	while (taken < bytes && !err) {
		const struct rpi_reply *reply;
		size_t n;

		while (asked < bytes && asked - taken < RPI_STAGING_CHUNKS * piece) {
			size_t chunk = asked / piece % RPI_STAGING_CHUNKS;

			n = bytes - asked < piece ? bytes - asked : piece;
			fill(rpi_copier_command(copier), RPI_COMMAND_COPY_OUT,
			     device + asked,
			     copier->chunks + chunk * RPI_STAGING_CHUNK_BYTES, n);
			rpi_copier_send(copier);
			asked += piece;
		}
		err = rpi_copier_reply(copier, &reply);
		if (err)
			break;
		n = bytes - taken < piece ? bytes - taken : piece;
		rpi_copy_stage(host + taken,
			       copier->chunks + taken / piece % RPI_STAGING_CHUNKS *
							RPI_STAGING_CHUNK_BYTES,
			       n, bytes);
		taken += piece;
	}
	count(&copier->bytes_staged, bytes);
	return settle(copier, err);
}

int rpi_copier_out(struct rpi_copier *copier, void *host, uint64_t device, size_t bytes,
		   bool named)
{
	if (bytes <= RPI_COMMAND_INLINE)
		return copy_at_once(copier, RPI_COMMAND_COPY_OUT, device, host, bytes,
				    true);
	if (!named)
		return copy_out_staged(copier, host, device, bytes);
	count(&copier->bytes_named, bytes);
	return copy_at_once(copier, RPI_COMMAND_COPY_OUT, device, host, bytes, false);
}
