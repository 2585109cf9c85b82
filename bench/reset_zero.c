/* SPDX-License-Identifier: MIT */
/* With one process the caller is the other core that writes the window; with more,
 * each writes the next one's. What is timed is the zeroing alone. */
#include "reset_zero.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "crew.h"
#include "memory/zero.h"
#include "reset_window.h"

/* Zeroes to copy from, as the library has them: all of them are the one zero page. */
static const void *chunk;

static int map_chunk(void)
{
	void *at;

	if (chunk)
		return 0;
	at = mmap(NULL, RPI_ZERO_CHUNK_BYTES, PROT_READ,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (at == MAP_FAILED)
		return rpi_fail(-errno, "mmap: a chunk of zeroes: %s", strerror(errno));
	chunk = at;
	return 0;
}

int reset_zero_setup(struct bench_case *c)
{
	const struct reset_zero *zero = c->arg;
	struct crew *crew;
	int err = map_chunk();

	if (!err)
		err = crew_get(zero->process_count, zero->bytes, &crew);
	if (!err)
		c->data = crew;
	return err;
}

void reset_zero_teardown(struct bench_case *c)
{
	crew_put(c->data);
}

int reset_zero_enter(struct bench_case *c)
{
	return crew_enter(c->data, c->options);
}

static void write_own(const struct crew_turn *turn)
{
	const struct reset_zero *zero = turn->arg;

	reset_write(turn->area, zero->bytes, zero->sparse);
}

static void write_next(const struct crew_turn *turn)
{
	const struct reset_zero *zero = turn->arg;

	reset_write(turn->next_area, zero->bytes, zero->sparse);
}

static void zero_window(const struct crew_turn *turn)
{
	const struct reset_zero *zero = turn->arg;

	rpi_zero(turn->area, zero->bytes, zero->engine, chunk);
}

static int look(const struct crew_turn *turn)
{
	const struct reset_zero *zero = turn->arg;
	size_t at = turn->op * RESET_PAGE_BYTES % zero->bytes;

	return reset_look(turn->area, zero->bytes, zero->sparse, &at) ? -EILSEQ : 0;
}

int reset_zero_round(struct bench_case *c, struct bench_round *round)
{
	const struct reset_zero *zero = c->arg;
	struct crew_job job = { .act = zero_window, .check = look, .arg = zero };

	if (zero->own)
		job.ready = write_own;
	else if (zero->process_count > 1)
		job.ready = write_next;
	else
		job.caller_ready = write_own;
	return crew_round(c->data, &job, c->options, round);
}
