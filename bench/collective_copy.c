/* SPDX-License-Identifier: MIT */
#include "collective_copy.h"

#include <errno.h>
#include <string.h>

#include "crew.h"

#define PAGE_BYTES 4096u

int collective_copy_setup(struct bench_case *c)
{
	const struct collective_copy *copy = c->arg;
	struct crew *crew;
	int err = crew_get(copy->process_count, 2 * copy->bytes, &crew);

	if (!err)
		c->data = crew;
	return err;
}

void collective_copy_teardown(struct bench_case *c)
{
	crew_put(c->data);
}

int collective_copy_enter(struct bench_case *c)
{
	return crew_enter(c->data, c->options);
}

static uint8_t *probe(const struct crew_turn *turn)
{
	const struct collective_copy *copy = turn->arg;

	return turn->area + turn->op * PAGE_BYTES % copy->bytes;
}

/* A word of its own each time, so that a copy that was left out would show. */
static void mark(const struct crew_turn *turn)
{
	memcpy(probe(turn), &turn->op, sizeof(turn->op));
}

static void copy_once(const struct crew_turn *turn)
{
	const struct collective_copy *copy = turn->arg;

	memcpy(turn->area + copy->bytes, turn->area, copy->bytes);
	__asm__ __volatile__("" : : "r"(turn->area) : "memory");
}

static int check(const struct crew_turn *turn)
{
	const struct collective_copy *copy = turn->arg;

	return memcmp(probe(turn) + copy->bytes, &turn->op, sizeof(turn->op)) ? -EILSEQ
									      : 0;
}

int collective_copy_round(struct bench_case *c, struct bench_round *round)
{
	const struct crew_job job = {
		.ready = mark, .act = copy_once, .check = check, .arg = c->arg
	};

	return crew_round(c->data, &job, c->options, round);
}
