/* SPDX-License-Identifier: MIT */
/* An eventfd that a poll loop watches. */
#ifndef RPI_COMPLETION_EVENT_H
#define RPI_COMPLETION_EVENT_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* Make it readable. Never blocks: the descriptor is non-blocking, and a counter
 * that is full is readable already. */
static inline void rpi_event_raise(int event_fd)
{
	const uint64_t one = 1;

	while (write(event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Make it quiet. */
static inline void rpi_event_clear(int event_fd)
{
	uint64_t count;

	while (read(event_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

#endif
