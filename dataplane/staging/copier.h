/* SPDX-License-Identifier: MIT */
/*
 * The parent's side of a process's command lane, with its staging chunks. One thread
 * at a time (turns are taken in order of arrival); copies to different chips run at
 * once.
 */
#ifndef RPI_STAGING_COPIER_H
#define RPI_STAGING_COPIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "completion/spin.h"
#include "dispatch/admission.h"
#include "dispatch/plane.h"
#include "staging/command.h"

/* Chunks of one chip; this many copies of pieces are in flight. */
#define RPI_STAGING_CHUNKS	4
#define RPI_STAGING_CHUNK_BYTES ((size_t)1 << 20)

struct rpi_copier {
	struct rpi_plane *plane;
	uint32_t peer_idx;
	struct rpi_command_lane *lane; /* shared */
	uint8_t *chunks; /* shared: RPI_STAGING_CHUNKS of them; NULL: none */
	bool backed;	 /* the chunks have memory */
	uint64_t next_seq;
	uint64_t reply_seq; /* replies read so far */
	struct rpi_admission turn;
	struct rpi_spin spin;
	_Atomic uint64_t bytes_staged;
	_Atomic uint64_t bytes_named;
};

int rpi_copier_init(struct rpi_copier *copier, struct rpi_plane *plane, uint32_t peer_idx,
		    struct rpi_command_lane *lane, uint8_t *chunks);
void rpi_copier_fini(struct rpi_copier *copier);

/* Take and give back the turn; -ESHUTDOWN, -EOWNERDEAD with an error line. */
int rpi_copier_enter(struct rpi_copier *copier, const char *call);
void rpi_copier_leave(struct rpi_copier *copier);

/* A slot for the next command, all but seq to be filled; waits for nothing: the caller
 * has fewer than RPI_COMMAND_SLOTS outstanding. */
struct rpi_command *rpi_copier_command(struct rpi_copier *copier);
void rpi_copier_send(struct rpi_copier *copier);

/* Wait for the oldest reply that was not read: its status, or -EOWNERDEAD once no
 * process is left. */
int rpi_copier_reply(struct rpi_copier *copier, const struct rpi_reply **reply_out);

/* Whole copies; the turn is the caller's. `named`: the processes see the host memory. */
int rpi_copier_in(struct rpi_copier *copier, uint64_t device, const void *host,
		  size_t bytes, bool named);
int rpi_copier_out(struct rpi_copier *copier, void *host, uint64_t device, size_t bytes,
		   bool named);

/* The same host bytes to several chips, staged once in the first one's chunks. */
int rpi_copier_in_all(struct rpi_copier *const *copiers, const uint64_t *devices,
		      size_t count, const void *host, size_t bytes, bool named);

#endif
