/* SPDX-License-Identifier: MIT */
/* What an entry or a callback can ask of its process. */
#include <stdarg.h>
#include <stdio.h>

#include "chip/server.h"
#include "dispatch/frame.h"

uint32_t rp_chip_id(const struct rp_chip *chip)
{
	return chip->peer_idx;
}

uint32_t rp_chip_count(const struct rp_chip *chip)
{
	return chip->chip_count;
}

const struct rp_program *rp_chip_program(const struct rp_chip *chip)
{
	return chip->programs[chip->task->program];
}

uint64_t rp_chip_run_id(const struct rp_chip *chip)
{
	return chip->task->run_seq;
}

uint64_t rp_chip_run_tag(const struct rp_chip *chip)
{
	return chip->frames[chip->task->frame_idx].config.tag;
}

bool rp_chip_cancelled(const struct rp_chip *chip)
{
	return rpi_frame_cancelled(&chip->frames[chip->task->frame_idx],
				   chip->task->run_seq);
}

/* A code that is no error is taken as it is: report() says what was wrong. */
static int fail(struct rp_chip *chip, int code, const char *format, va_list args)
{
	chip->fail_code = code;
	vsnprintf(chip->fail_text, sizeof(chip->fail_text), format, args);
	return code;
}

int rp_chip_fail(struct rp_chip *chip, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fail(chip, code, format, args);
	va_end(args);
	return code;
}

uint64_t rp_callback_run_id(const struct rp_callback_context *context)
{
	return rp_chip_run_id(&context->chip);
}

uint64_t rp_callback_run_tag(const struct rp_callback_context *context)
{
	return rp_chip_run_tag(&context->chip);
}

int rp_callback_fail(struct rp_callback_context *context, int code, const char *format,
		     ...)
{
	va_list args;

	va_start(args, format);
	fail(&context->chip, code, format, args);
	va_end(args);
	return code;
}
