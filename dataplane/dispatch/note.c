/* SPDX-License-Identifier: MIT */
#include "dispatch/note.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool add_args(struct rp_run *run, const struct rpi_args *given)
{
	struct rpi_note_arg *kept =
		rpi_list_append(&run->notes->args, given->count, sizeof(*kept));
	uint32_t view = 0, i;

	for (i = 0; kept && i < given->count; i++) {
		memset(&kept[i], 0, sizeof(kept[i]));
		kept[i].arg = given->args[i];
		if (kept[i].arg.kind == RP_ARG_TENSOR)
			kept[i].view = run->views[view++];
	}
	return kept != NULL;
}

static bool add_deps(struct rp_run *run, uint32_t count)
{
	struct rpi_dep *kept = rpi_list_append(&run->notes->deps, count, sizeof(*kept));

	if (kept)
		rpi_follow_list(&run->follow, kept);
	return kept != NULL;
}

void rpi_note_task(struct rp_run *run, uint32_t peer, uint64_t seq,
		   const struct rpi_task_body *body, const struct rpi_args *given)
{
	struct rpi_notes *notes = run->notes;
	struct rpi_note_task *kept;
	const struct rpi_note_task task = {
		.seq = seq,
		.peer = peer,
		.op = (enum rpi_op)body->op,
		.program = body->program,
		.entry = body->entry,
		.arg_at = notes->args.count,
		.arg_count = given->count,
		.dep_at = notes->deps.count,
		.dep_count = rpi_follow_count(&run->follow),
	};

	if (notes->err)
		return;
	kept = add_args(run, given) && add_deps(run, task.dep_count)
		       ? rpi_list_append(&notes->tasks, 1, sizeof(*kept))
		       : NULL;
	if (kept)
		*kept = task;
	else
		notes->err = -ENOMEM;
}

void rpi_notes_free(struct rpi_notes *notes)
{
	free(notes->tasks.at);
	free(notes->args.at);
	free(notes->deps.at);
	memset(notes, 0, sizeof(*notes));
}
