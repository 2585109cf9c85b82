/* SPDX-License-Identifier: MIT */
/*
 * A dispatch that is captured: alone on its worker, once or twice, and synchronous.
 * control/ is told of it (plane->captured), makes the passes, and writes the files.
 */
#ifndef RPI_DISPATCH_CAPTURE_H
#define RPI_DISPATCH_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "dispatch/note.h"
#include "dispatch/plane.h"

/* One run of it. */
struct rpi_pass {
	uint32_t number;	 /* rp_run_pass() */
	struct rpi_notes *notes; /* NULL: its tasks are not noted */
	bool accepted;		 /* out: there was a run, whose outcome was returned */
};

/* Under admission, with nothing in flight: run it and wait. What the submit is refused
 * with, or the run's outcome; this thread's error line is there. */
int rpi_plane_pass(struct rpi_plane *plane, const struct rpi_offer *offer,
		   struct rpi_pass *pass);

/* Submit it, and return when it has ended. The ticket's handle is done. */
int rpi_plane_submit_captured(struct rpi_plane *plane, const struct rpi_offer *offer,
			      struct rpi_ticket *ticket_out);

/* The same for the dispatcher: the outcome goes to the request's handle, and the request
 * is free again. Under admission. */
void rpi_plane_dispatch_captured(struct rpi_plane *plane, struct rpi_request *request);

#endif
