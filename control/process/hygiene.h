/* SPDX-License-Identifier: MIT */
/* What a forked child does before anything else, so that it is nobody's but ours. */
#ifndef RPI_PROCESS_HYGIENE_H
#define RPI_PROCESS_HYGIENE_H

#include <stddef.h>
#include <sys/types.h>

/* Die with the parent, whoever of its threads ends meanwhile: the forking thread
 * lives as long as the worker. Exits at once when the parent is gone already. */
void rpi_child_bind_to_parent(pid_t parent);

/* Default handlers, SIGINT ignored, nothing blocked. */
void rpi_child_reset_signals(void);

/* Close every descriptor from 3 on except those in `keep` (sorted here). */
void rpi_child_close_descriptors(int *keep, size_t keep_count);

/* What `ps` shows (15 characters); pins to `cpu` unless it is negative. */
void rpi_child_name(const char *name);
int rpi_child_pin(int cpu);

#endif
