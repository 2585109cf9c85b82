/* SPDX-License-Identifier: MIT */
#include "capture/drain.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "process/thread.h"
#include "trace/pipe.h"
#include "worker/worker.h"

/* Between two looks at pipes that are empty. */
#define LOOK_NS	    50000

#define CHUNK_BYTES 65536

void rpi_dump_name(const struct rpi_dump_head *head, char *buf, size_t bytes)
{
	rpi_format(buf, bytes, "task%" PRIu64 ".arg%u.%s.bin", head->task_seq, head->arg,
		   head->phase == RPI_DUMP_BEFORE ? "before" : "after");
}

/* The first error stays. */
static void note_error(struct rpi_dump *dump, int err)
{
	if (dump->err)
		return;
	dump->err = err;
	rpi_format(dump->text, sizeof(dump->text), "%s", rp_last_error());
}

static int fail_nonsense(const struct rpi_dump *dump, uint32_t peer)
{
	uint32_t number;
	const char *kind = rpi_session_kind(dump->session, peer, &number);

	return rpi_fail(-EPROTO,
			"rp_worker_submit: enable_dump_args: %s %u wrote what makes no "
			"sense",
			kind, number);
}

/* --- What comes through a pipe -------------------------------------------- */

struct source {
	struct rpi_dump *dump;
	uint32_t peer;
	struct rpi_pipe *pipe;
	uint64_t left; /* of a tensor's bytes */
};

/* Take exactly so many bytes, waiting for them; to NULL: away with them. 0, -EPIPE when
 * no more will come, -EPROTO. */
static int take(struct source *source, void *to, size_t bytes)
{
	const struct timespec moment = { .tv_nsec = LOOK_NS };
	uint8_t *at = to;

	while (bytes) {
		/* Acquire, and before the look: what was put before is there. */
		const bool over =
			atomic_load_explicit(&source->dump->over, memory_order_acquire);
		const ptrdiff_t got = rpi_pipe_take(source->pipe, at, bytes);

		if (got < 0)
			return (int)got;
		if (!got && over)
			return -EPIPE;
		if (!got)
			nanosleep(&moment, NULL);
		if (at)
			at += got;
		bytes -= (size_t)got;
	}
	return 0;
}

static int put_bytes(FILE *file, void *context)
{
	struct source *source = context;
	static _Thread_local uint8_t chunk[CHUNK_BYTES];

	while (source->left) {
		const size_t bytes = source->left < CHUNK_BYTES ? (size_t)source->left
								: CHUNK_BYTES;
		int err = take(source, chunk, bytes);

		if (err)
			return err;
		source->left -= bytes;
		if (fwrite(chunk, 1, bytes, file) != bytes)
			return errno ? -errno : -EIO;
	}
	return 0;
}

static bool makes_sense(const struct rpi_dump_head *head)
{
	return head->phase <= RPI_DUMP_AFTER && head->arg < head->arg_count &&
	       head->rank <= RP_MAX_DIMS && head->sent <= head->bytes &&
	       (head->kind == RP_ARG_TENSOR || !head->sent);
}

/* The bytes of a tensor into its file, once nothing has gone wrong; else away. */
static int take_bytes(struct source *source, struct rpi_dumped *dumped)
{
	struct rpi_dump *dump = source->dump;
	char name[RPI_DUMP_NAME_BYTES];
	int err = 0;

	source->left = dumped->head.sent;
	if (!source->left)
		return 0;
	if (!dump->err) {
		rpi_dump_name(&dumped->head, name, sizeof(name));
		err = rpi_place_write(&dump->session->place, source->peer, name,
				      put_bytes, source);
		if (err == -EPIPE || err == -EPROTO)
			return err;
		if (err)
			note_error(dump, err);
	}
	dumped->whole = !dump->err;
	return take(source, NULL, (size_t)source->left);
}

/* One argument. 0, or why there is no more of this pipe. */
static int take_one(struct source *source)
{
	struct rpi_dump *dump = source->dump;
	struct rpi_dumped dumped = { .peer = source->peer, .whole = true }, *kept;
	struct rpi_dump_tail tail;
	int err;

	err = take(source, &dumped.head, sizeof(dumped.head));
	if (!err && !makes_sense(&dumped.head))
		err = -EPROTO;
	if (err)
		return err;
	err = take_bytes(source, &dumped);
	if (!err)
		err = take(source, &tail, sizeof(tail));
	if (err)
		dumped.whole = false;
	else
		dumped.err = (int)tail.err;
	kept = rpi_list_append(&dump->dumped, 1, sizeof(*kept));
	if (kept)
		*kept = dumped;
	else
		note_error(dump, rpi_session_no_memory());
	return err;
}

/* All that there is. True: there was something. */
static bool look(struct source *source)
{
	bool some = false;
	int err = 0;

	while (source->pipe && !err) {
		const uint64_t put =
			atomic_load_explicit(&source->pipe->put, memory_order_relaxed);
		const uint64_t taken =
			atomic_load_explicit(&source->pipe->taken, memory_order_relaxed);

		if (put == taken)
			break;
		some = true;
		err = take_one(source);
	}
	if (err == -EPROTO)
		note_error(source->dump, fail_nonsense(source->dump, source->peer));
	if (err) {
		rpi_pipe_close(source->pipe);
		source->pipe = NULL;
	}
	return some;
}

static void *drain(void *arg)
{
	const struct timespec moment = { .tv_nsec = LOOK_NS };
	struct rpi_dump *dump = arg;
	const uint32_t peers = rpi_session_peers(dump->session);
	struct source sources[RP_MAX_PEERS];
	bool over, some;
	uint32_t peer;

	for (peer = 0; peer < peers; peer++)
		sources[peer] = (struct source){ .dump = dump,
						 .peer = peer,
						 .pipe = rpi_worker_pipe(
							 dump->session->worker, peer) };
	do {
		/* Acquire, and before the looks: what was put before is there. */
		over = atomic_load_explicit(&dump->over, memory_order_acquire);
		some = false;
		for (peer = 0; peer < peers; peer++)
			some |= look(&sources[peer]);
		if (!some && !over)
			nanosleep(&moment, NULL);
	} while (some || !over);
	return NULL;
}

static void close_pipes(const struct rpi_dump *dump)
{
	const uint32_t peers = rpi_session_peers(dump->session);
	uint32_t peer;

	for (peer = 0; peer < peers; peer++)
		rpi_pipe_close(rpi_worker_pipe(dump->session->worker, peer));
}

int rpi_drain_start(struct rpi_dump *dump)
{
	const struct rp_worker *worker = dump->session->worker;
	const uint32_t peers = rpi_session_peers(dump->session);
	uint32_t peer;
	int err;

	for (peer = 0; peer < peers; peer++)
		rpi_pipe_open(rpi_worker_pipe(worker, peer),
			      dump->session->asked.dump_args_max_bytes);
	err = rpi_thread_start(&dump->thread, "rp-dump", drain, dump);
	dump->runs = !err;
	if (err)
		close_pipes(dump);
	return err;
}

void rpi_drain_stop(struct rpi_dump *dump)
{
	if (!dump->runs)
		return;
	atomic_store_explicit(&dump->over, 1, memory_order_release);
	pthread_join(dump->thread, NULL);
	dump->runs = false;
	close_pipes(dump);
}
