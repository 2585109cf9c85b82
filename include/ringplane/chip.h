/* SPDX-License-Identifier: MIT */
/* What a chip entry, or a callback, can ask of the process that it runs in. */
#ifndef RINGPLANE_CHIP_H
#define RINGPLANE_CHIP_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/comm.h>
#include <ringplane/export.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* This chip, 0..rp_chip_count()-1, and how many there are. */
RP_API uint32_t rp_chip_id(const struct rp_chip *chip);
RP_API uint32_t rp_chip_count(const struct rp_chip *chip);

/* The program of the running task. Valid in its entry. */
RP_API const struct rp_program *rp_chip_program(const struct rp_chip *chip);

/* The run that this task belongs to (see rp_run_id()), and its config's tag. */
RP_API uint64_t rp_chip_run_id(const struct rp_chip *chip);
RP_API uint64_t rp_chip_run_tag(const struct rp_chip *chip);

/* True once the run has failed elsewhere: a long entry may end early. */
RP_API bool rp_chip_cancelled(const struct rp_chip *chip);

/*
 * Say in one line why the entry fails and return `code`, which must be
 * negative. The line reaches whoever waits for the run, if the entry returns `code`.
 */
RP_API int rp_chip_fail(struct rp_chip *chip, int code, const char *format, ...)
	__attribute__((cold, format(printf, 3, 4)));

/* The same for a callback. */
RP_API uint64_t rp_callback_run_id(const struct rp_callback_context *context);
RP_API uint64_t rp_callback_run_tag(const struct rp_callback_context *context);
RP_API int rp_callback_fail(struct rp_callback_context *context, int code,
			    const char *format, ...)
	__attribute__((cold, format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
