/* SPDX-License-Identifier: MIT */
#include "generate.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "fail.h"

/* Take what is still in flight behind the end of the text. */
static int drain(struct engine *engine, int32_t in_flight)
{
	int32_t ignored;
	int err = 0;

	while (in_flight-- && !err)
		err = engine_take(engine, &ignored);
	return err;
}

int32_t generate_limit(const struct model_config *config, int32_t steps)
{
	return steps < 1 || steps > config->seq_len ? config->seq_len : steps;
}

int generate(struct engine *engine, const struct model_config *config,
	     const int32_t *prompt, size_t prompt_count, int32_t steps, generate_fn each,
	     void *user, struct generate_result *out)
{
	int32_t pos = (int32_t)prompt_count - 1, fed = pos, token = prompt[pos];
	int32_t depth = (int32_t)engine_depth(engine);
	int err;

	memset(out, 0, sizeof(*out));
	steps = generate_limit(config, steps);
	if (prompt_count > (size_t)steps)
		return decode_fail(
			-ERANGE,
			"a prompt of %zu tokens, expected at most %d: steps, or "
			"the model's seq_len",
			prompt_count, steps);
	err = engine_prefill(engine, prompt, pos, 0);
	if (err)
		return err;
	out->loop_ns = now_ns();
	while (pos < steps && !err) {
		int32_t before = token;

		/* Ahead of the token, where the chips know it before we do. */
		while (fed < steps && fed - pos < depth && !err) {
			err = engine_feed(engine, fed == pos ? token : TOKEN_CHOSEN, fed);
			fed += !err;
		}
		if (!err)
			err = engine_take(engine, &token);
		if (err)
			break;
		pos++;
		out->count++;
		each(before, token, user);
		if (token == TOKEN_BOS)
			break;
	}
	out->loop_ns = now_ns() - out->loop_ns;
	return err ? err : drain(engine, fed - pos);
}
