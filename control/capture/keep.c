/* SPDX-License-Identifier: MIT */
#include "capture/keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "capture/session.h"

struct piece {
	void *at;
	void *copy;
	size_t bytes;
};

static int take_piece(struct rpi_keep *keep, const struct rpi_grant *grant)
{
	const size_t bytes = grant->high - grant->low;
	struct piece *piece;

	if (grant->resident || !(grant->access & RP_OUT) || !bytes)
		return 0;
	piece = rpi_list_append(&keep->pieces, 1, sizeof(*piece));
	if (!piece)
		return rpi_session_no_memory();
	*piece = (struct piece){ (void *)grant->low, malloc(bytes), bytes };
	if (!piece->copy)
		return rpi_fail(-ENOMEM,
				"rp_worker_submit: capture: no memory to keep %zu bytes "
				"of an argument",
				bytes);
	memcpy(piece->copy, piece->at, bytes);
	return 0;
}

int rpi_keep_take(struct rpi_keep *keep, struct rpi_plane *plane,
		  const struct rpi_offer *offer)
{
	const struct rp_program *program = offer->program;
	struct rpi_call call = { .plane = plane, .program = program };
	uint32_t i;
	int err;

	call.args = calloc(program->param_count + 1, sizeof(*call.args));
	call.grants = calloc(program->tensor_count + 1, sizeof(*call.grants));
	err = call.args && call.grants ? rpi_call_bind(&call, offer->args, offer->nargs)
				       : rpi_session_no_memory();
	for (i = 0; !err && i < call.grant_count; i++)
		err = take_piece(keep, &call.grants[i]);
	free(call.args);
	free(call.grants);
	if (err)
		rpi_keep_free(keep);
	return err;
}

void rpi_keep_restore(const struct rpi_keep *keep)
{
	const struct piece *pieces = keep->pieces.at;
	uint32_t i;

	for (i = 0; i < keep->pieces.count; i++)
		memcpy(pieces[i].at, pieces[i].copy, pieces[i].bytes);
}

void rpi_keep_free(struct rpi_keep *keep)
{
	const struct piece *pieces = keep->pieces.at;
	uint32_t i;

	for (i = 0; i < keep->pieces.count; i++)
		free(pieces[i].copy);
	free(keep->pieces.at);
	keep->pieces = (struct rpi_list){ 0 };
}
