/* SPDX-License-Identifier: MIT */
/* What runs in a chip's process, and in the callback's. */
#include <errno.h>
#include <string.h>

#include <ringplane/chip.h>

#include "clock.h"
#include "forward.h"
#include "program.h"
#include "sampler.h"

/*
 * Sums are made in the windows: each chip leaves its own in its window, tells its peers,
 * and reads theirs. Windows may hold what earlier runs left. So what a cell is waited for
 * is never a mere 1 but the run's generation and the sum's number, and sums take turns at
 * two places: a peer can be one sum ahead, never two.
 */
struct meeting_place {
	struct exchange exchange;
	struct rp_comm *comm;
	uint32_t rank, size, first; /* first: this run's first turn */
	size_t turn_floats;	    /* from one of the two places to the other */
	float *parts[CHIPS_MAX];    /* of each rank's window */
};

static float *window_of(const struct meeting_place *p, uint32_t rank,
			enum window_buffer buffer)
{
	struct rp_tensor tensor;

	return rp_comm_tensor(p->comm, rank, (uint32_t)buffer, &tensor) ? NULL
									: tensor.data;
}

/* Tell all peers that this chip has left its own, and wait until all have. */
static int meet_all(struct meeting_place *p, enum meeting kind, uint32_t turn)
{
	uint64_t row = (uint64_t)kind * p->size;
	/* Odd: never the zero of a fresh window. */
	int32_t value = (int32_t)(2 * turn + 1);
	int err = 0;

	for (uint32_t peer = 0; peer < p->size && !err; peer++)
		if (peer != p->rank)
			err = rp_comm_notify(p->comm, WINDOW_ARRIVED, peer, row + p->rank,
					     value, RP_NOTIFY_SET);
	for (uint32_t peer = 0; peer < p->size && !err; peer++)
		if (peer != p->rank)
			err = rp_comm_wait(p->comm, WINDOW_ARRIVED, row + peer, RP_EQ,
					   value, 0);
	return err;
}

static float *own_parts(struct exchange *exchange, uint32_t k)
{
	struct meeting_place *p = (struct meeting_place *)exchange;

	return p->parts[p->rank] + (k & 1) * p->turn_floats;
}

static int meet_sums(struct exchange *exchange, uint32_t k, const float **sums_out)
{
	struct meeting_place *p = (struct meeting_place *)exchange;

	for (uint32_t rank = 0; rank < p->size; rank++)
		sums_out[rank] = p->parts[rank] + (k & 1) * p->turn_floats;
	return meet_all(p, k & 1 ? MEETING_ODD : MEETING_EVEN, p->first + k);
}

/* The token that this chip chose last stays in its state. */
static int32_t *chosen_of(const struct forward *f)
{
	void *chosen = f->state + f->layout.chosen;

	return chosen;
}

struct pass {
	struct forward forward;
	struct meeting_place place;
	int64_t begin_ns;
	int32_t pos, count;
};

static void meet_at(struct meeting_place *p, struct rp_comm *comm,
		    const struct forward *f, int32_t count)
{
	p->exchange.own = own_parts;
	p->exchange.meet = meet_sums;
	p->comm = comm;
	p->rank = rp_comm_rank(comm);
	p->size = rp_comm_size(comm);
	p->first =
		(uint32_t)rp_comm_generation(comm) * (forward_sums(&f->head.config) + 1);
	p->turn_floats =
		(size_t)(f->layout.own_parts * count) * (size_t)f->layout.dim_rows;
	for (uint32_t rank = 0; rank < p->size; rank++)
		p->parts[rank] = window_of(p, rank, WINDOW_PARTS);
}

static int feed(struct rp_chip *chip, const struct rp_arg *args, const int32_t *tokens,
		int32_t count, struct pass *pass)
{
	struct meeting_place *p = &pass->place;
	struct forward *f = &pass->forward;
	int err;

	pass->begin_ns = now_ns();
	pass->pos = args[TASK_POS].u.scalar.value.i32;
	pass->count = count;
	forward_init(f, args[TASK_WEIGHTS].u.tensor.data, args[TASK_STATE].u.tensor.data,
		     &p->exchange);
	meet_at(p, args[TASK_DOMAIN].u.comm, f, count);
	if (tokens[0] == TOKEN_CHOSEN)
		tokens = chosen_of(f);
	err = forward_feed(f, tokens, pass->count, pass->pos);
	if (err == -ERANGE)
		return rp_chip_fail(chip, err,
				    "token %d at %d, expected one of %d at one "
				    "of %d positions",
				    tokens[0], pass->pos, f->head.config.vocab_size,
				    f->head.config.seq_len);
	return err;
}

static void report(const struct rp_arg *args, const struct pass *pass, int32_t token)
{
	struct report_row *row = args[TASK_REPORT].u.tensor.data;

	row->token = token;
	row->ns = now_ns() - pass->begin_ns;
}

int entry_prefill(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct rp_tensor *tokens = &args[TASK_TOKENS].u.tensor;
	struct pass pass;
	int err = feed(chip, args, tokens->data, (int32_t)tokens->shape[0], &pass);

	(void)nargs;
	if (!err)
		report(args, &pass, TOKEN_CHOSEN);
	return err;
}

int entry_logits(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct pass pass;
	int err = feed(chip, args, &args[TASK_TOKENS].u.scalar.value.i32, 1, &pass);

	(void)nargs;
	if (err)
		return err;
	memcpy(args[TASK_LOGITS].u.tensor.data, forward_logits(&pass.forward, pass.count),
	       (size_t)pass.forward.layout.vocab * sizeof(float));
	report(args, &pass, TOKEN_CHOSEN);
	return 0;
}

/* Bring the logits of all chips together, in every chip. */
static int gather_logits(struct pass *pass, float *all)
{
	struct meeting_place *p = &pass->place;
	struct shard_head head = pass->forward.head;
	int err;

	memcpy(window_of(p, p->rank, WINDOW_LOGITS),
	       forward_logits(&pass->forward, pass->count),
	       (size_t)pass->forward.layout.vocab * sizeof(float));
	err = meet_all(p, MEETING_LOGITS, p->first + forward_sums(&head.config));
	for (uint32_t rank = 0; rank < p->size && !err; rank++) {
		int32_t from, count;

		head.rank = (int32_t)rank;
		shard_vocab(&head, &from, &count);
		memcpy(all + from, window_of(p, rank, WINDOW_LOGITS),
		       (size_t)count * sizeof(float));
	}
	return err;
}

int entry_choose(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct shard_layout *o;
	struct pass pass;
	float *state;
	int err = feed(chip, args, &args[TASK_TOKENS].u.scalar.value.i32, 1, &pass);

	(void)nargs;
	o = &pass.forward.layout;
	state = pass.forward.state;
	if (!err)
		err = gather_logits(&pass, state + o->all_logits);
	if (err)
		return err;
	*chosen_of(&pass.forward) =
		sampler_choose(&pass.forward.head.sampler, state + o->all_logits,
			       pass.forward.head.config.vocab_size, pass.pos,
			       (struct candidate *)(state + o->candidates));
	report(args, &pass, *chosen_of(&pass.forward));
	return 0;
}

int entry_nothing(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

/* Arguments: logits, the row of the report, room, position, and the three of a sampler.
 */
int callback_choose(struct rp_callback_context *context, const struct rp_arg *args,
		    size_t nargs, void *user)
{
	struct report_row *row = args[1].u.tensor.data;

	(void)context;
	(void)nargs;
	row->ns = 0;
	row->token = sampler_choose(user, args[0].u.tensor.data,
				    (int32_t)args[0].u.tensor.shape[0],
				    args[3].u.scalar.value.i32, args[2].u.tensor.data);
	return 0;
}
