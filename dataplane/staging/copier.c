/* SPDX-License-Identifier: MIT */
/*
 * Copies between host and device. A large one goes through the chunks in pieces, so
 * that this side's copy of one piece overlaps the chip's copy of the one before. No
 * allocation; system calls only to sleep and to wake.
 *
 * Two ways. What the caches hold goes through them in small pieces, which one core takes
 * from the other's cache. More goes around them in whole chunks: of small pieces each
 * would be read while it is still on its way to memory.
 */
#include "staging/copier.h"

#include <errno.h>
#include <string.h>

#include "base/futex.h"
#include "base/testing.h"
#include "dispatch/queue.h"
#include "memory/copy.h"

/* A fall is told by a wake-up as well; this only bounds a missed one. */
#define REPLY_SLEEP_NS 100000000u

/* Pieces of what goes through the caches: a quarter of the whole, so that both sides have
 * work early, within these bounds. Less than two of the least is one piece. */
#define PIECE_BYTES_MIN	 ((size_t)8 << 10)
#define PIECE_BYTES_MAX	 ((size_t)64 << 10)
#define PIECE_BYTES_STEP ((size_t)4 << 10)

int rpi_copier_init(struct rpi_copier *copier, struct rpi_plane *plane, uint32_t peer_idx,
		    struct rpi_command_lane *lane, uint8_t *chunks)
{
	rpi_copy_setup();
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

	rpi_test_point("copier.send");
	/* C1 */
	atomic_store_explicit(&command->seq, copier->next_seq, memory_order_release);
	copier->next_seq++;
	rpi_rouse(&copier->plane->rouser, copier->peer_idx); /* E4 */
}

static bool replied(const struct rpi_copier *copier, uint64_t seq)
{
	const struct rpi_reply *reply =
		&copier->lane->replies[seq & (RPI_COMMAND_SLOTS - 1)];

	/* As in rpi_command_poll(). */
	__builtin_prefetch(&reply->data[RPI_COMMAND_FIRST]);
	/* C2 */
	return atomic_load_explicit(&reply->seq, memory_order_acquire) == seq;
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
	rpi_fence(); /* E5 */
	if (replied(copier, seq) || fallen(copier))
		return;
	/* A test takes the bound away, so that a missed wake-up is a hang. */
	rpi_futex_wait(&peer->reply_futex, seen, RPI_FUTEX_SHARED,
		       rpi_test_point("copier.sleep") ? UINT64_MAX
						      : rpi_now_ns() + REPLY_SLEEP_NS);
}

int rpi_copier_reply(struct rpi_copier *copier, const struct rpi_reply **reply_out)
{
	uint64_t seq = copier->reply_seq + 1;
	const struct rpi_reply *reply =
		&copier->lane->replies[seq & (RPI_COMMAND_SLOTS - 1)];
	struct rpi_spin_wait wait;
	bool slept = false;

	rpi_test_point("copier.reply");
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

/* One command whose reply carries everything, or that names it. */
static int copy_out_at_once(struct rpi_copier *copier, enum rpi_command_op op,
			    uint64_t device, void *host, size_t bytes, bool inlined)
{
	struct rpi_command *command = rpi_copier_command(copier);
	const struct rpi_reply *reply;
	int err;

	fill(command, op, device, host, bytes);
	command->inlined = inlined;
	rpi_copier_send(copier);
	err = rpi_copier_reply(copier, &reply);
	if (!err && inlined)
		memcpy(host, reply->data, bytes);
	return err;
}

/* How a transfer is cut and carried out; its pieces take turns in so many places of the
 * chunks, one after the other. */
struct cut {
	size_t piece_bytes;
	enum rpi_command_op in, out;
};

static struct cut cut_up(size_t bytes)
{
	struct cut cut = { .in = RPI_COMMAND_COPY_IN, .out = RPI_COMMAND_COPY_OUT };
	size_t piece = bytes / RPI_STAGING_CHUNKS;

	if (bytes >= rpi_copy_around_bytes()) {
		cut.piece_bytes = RPI_STAGING_CHUNK_BYTES;
		cut.in = RPI_COMMAND_STREAM_IN;
		cut.out = RPI_COMMAND_STREAM_OUT;
		return cut;
	}
	piece = (piece + PIECE_BYTES_STEP - 1) & ~(PIECE_BYTES_STEP - 1);
	if (piece < PIECE_BYTES_MIN)
		piece = PIECE_BYTES_MIN;
	cut.piece_bytes = piece < PIECE_BYTES_MAX ? piece : PIECE_BYTES_MAX;
	return cut;
}

static uint8_t *place(const struct rpi_copier *copier, const struct cut *cut, size_t at)
{
	return copier->chunks +
	       at / cut->piece_bytes % RPI_STAGING_CHUNKS * cut->piece_bytes;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
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

/* The oldest reply of each chip: one piece has left its place. */
static int reply_of_all(struct rpi_copier *const *copiers, size_t count_of)
{
	const struct rpi_reply *reply;
	size_t i;
	int err = 0;

	for (i = 0; i < count_of && !err; i++)
		err = rpi_copier_reply(copiers[i], &reply);
	return err;
}

/* Read what is left to read of all of them; the first error stays. */
static int settle_all(struct rpi_copier *const *copiers, size_t count_of, int err)
{
	size_t i;

	for (i = 0; i < count_of; i++)
		err = settle(copiers[i], err);
	return err;
}

/* The bytes ride in the commands themselves. */
static int copy_in_inlined(struct rpi_copier *const *copiers, const uint64_t *devices,
			   size_t count_of, const void *host, size_t bytes)
{
	size_t i;

	for (i = 0; i < count_of; i++) {
		struct rpi_command *command = rpi_copier_command(copiers[i]);

		fill(command, RPI_COMMAND_COPY_IN, devices[i], host, bytes);
		command->inlined = 1;
		memcpy(command->data, host, bytes);
		rpi_copier_send(copiers[i]);
	}
	return settle_all(copiers, count_of, 0);
}

int rpi_copier_in_all(struct rpi_copier *const *copiers, const uint64_t *devices,
		      size_t count_of, const void *host, size_t bytes, bool named)
{
	struct rpi_copier *first = copiers[0];
	const struct cut cut = cut_up(bytes);
	size_t piece = named ? bytes : cut.piece_bytes;
	size_t done;
	size_t i;
	int err = 0;

	if (bytes <= RPI_COMMAND_INLINE)
		return copy_in_inlined(copiers, devices, count_of, host, bytes);
	for (done = 0; done < bytes; done += piece) {
		const void *from = (const uint8_t *)host + done;
		size_t n = least(bytes - done, piece);

		if (done / piece >= RPI_STAGING_CHUNKS)
			err = reply_of_all(copiers, count_of);
		if (err)
			break;
		if (!named) {
			uint8_t *stage = place(first, &cut, done);

			rpi_copy_stage(stage, from, n, bytes);
			from = stage;
		}
		for (i = 0; i < count_of; i++) {
			fill(rpi_copier_command(copiers[i]), cut.in, devices[i] + done,
			     from, n);
			rpi_copier_send(copiers[i]);
		}
	}
	count(named ? &first->bytes_named : &first->bytes_staged, bytes);
	return settle_all(copiers, count_of, err);
}

int rpi_copier_in(struct rpi_copier *copier, uint64_t device, const void *host,
		  size_t bytes, bool named)
{
	return rpi_copier_in_all(&copier, &device, 1, host, bytes, named);
}

static int copy_out_staged(struct rpi_copier *copier, uint8_t *host, uint64_t device,
			   size_t bytes)
{
	const struct cut cut = cut_up(bytes);
	const size_t piece = cut.piece_bytes;
	size_t asked = 0;
	size_t taken;
	int err = 0;

	for (taken = 0; taken < bytes; taken += piece) {
		const struct rpi_reply *reply;

		for (; asked < bytes && asked - taken < RPI_STAGING_CHUNKS * piece;
		     asked += piece) {
			fill(rpi_copier_command(copier), cut.out, device + asked,
			     place(copier, &cut, asked), least(bytes - asked, piece));
			rpi_copier_send(copier);
		}
		err = rpi_copier_reply(copier, &reply);
		if (err)
			break;
		rpi_copy_stage(host + taken, place(copier, &cut, taken),
			       least(bytes - taken, piece), bytes);
	}
	count(&copier->bytes_staged, bytes);
	return settle(copier, err);
}

int rpi_copier_out(struct rpi_copier *copier, void *host, uint64_t device, size_t bytes,
		   bool named)
{
	if (bytes <= RPI_COMMAND_INLINE)
		return copy_out_at_once(copier, RPI_COMMAND_COPY_OUT, device, host, bytes,
					true);
	if (!named)
		return copy_out_staged(copier, host, device, bytes);
	count(&copier->bytes_named, bytes);
	return copy_out_at_once(copier, cut_up(bytes).out, device, host, bytes, false);
}
