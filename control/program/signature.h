/* SPDX-License-Identifier: MIT */
/* What a callback takes: checked, copied, compared. */
#ifndef RPI_PROGRAM_SIGNATURE_H
#define RPI_PROGRAM_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>

#include <ringplane/program.h>

/* 0, or -EINVAL with a line that names the callback. */
int rpi_signature_check(const char *call, const char *callback,
			const struct rp_signature *signature);

/* One block with all of it, ended with free(). NULL without memory. */
struct rp_signature *rpi_signature_copy(const struct rp_signature *signature);

/* Whether what one takes includes everything that the other does; if not, why goes to
 * buf. */
bool rpi_signature_accepts(const struct rp_signature *taker,
			   const struct rp_signature *given, char *buf, size_t bytes);

#endif
