/* SPDX-License-Identifier: MIT */
/*
 * Where the files of one captured dispatch go: DIR/dispatch_N/, and in it a directory for
 * each process. What is ours is known by a marker and by names; nothing else is ever
 * removed, and no symbolic link followed but those in the path that was given.
 */
#ifndef RPI_CAPTURE_PLACE_H
#define RPI_CAPTURE_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rp_worker;

/* A file about all processes. */
#define RPI_PLACE_ALL UINT32_MAX

struct rpi_place {
	const struct rp_worker *worker;
	const char *output_dir; /* for error lines */
	int root;		/* descriptors */
	int dir;
	char name[40]; /* of the second in the first */
};

/* Make it, and remove what earlier captures left if this is the worker's first into that
 * directory. 0, -ENOTEMPTY, -EBUSY, or what the system says, with an error line. */
int rpi_place_open(struct rpi_place *place, struct rp_worker *worker,
		   const char *output_dir, uint64_t run);

/* keep: false removes it again. */
void rpi_place_close(struct rpi_place *place, bool keep);

/* A worker's options name it: make it and see that it can be written to. Likewise. */
int rpi_place_try(const char *call, const char *output_dir);

/*
 * A file that appears under its name when it is whole.
 *
 * peer  a chip, a callback worker past those, or RPI_PLACE_ALL.
 * put   writes it: 0, or a negative errno. What it misses of the file's own errors is
 *       found afterwards.
 */
int rpi_place_write(const struct rpi_place *place, uint32_t peer, const char *name,
		    int (*put)(FILE *file, void *context), void *context);

#endif
