/* SPDX-License-Identifier: MIT */
/* The contents of host tensors that a call writes, from before its first run. */
#ifndef RPI_CAPTURE_KEEP_H
#define RPI_CAPTURE_KEEP_H

#include "base/list.h"
#include "dispatch/plane.h"

struct rpi_keep {
	struct rpi_list pieces; /* zeroed: nothing kept */
};

/* Check the call's arguments and copy what it may write. 0, or what the submit is refused
 * with, and then nothing is kept. */
int rpi_keep_take(struct rpi_keep *keep, struct rpi_plane *plane,
		  const struct rpi_offer *offer);

/* As it was. */
void rpi_keep_restore(const struct rpi_keep *keep);

void rpi_keep_free(struct rpi_keep *keep);

#endif
