/* SPDX-License-Identifier: MIT */
/* What park.c asks of its two engines. Nobody else includes this. */
#ifndef RPI_COMPLETION_PARK_ENGINE_H
#define RPI_COMPLETION_PARK_ENGINE_H

#include "completion/park.h"

/* 0, or a negative errno and in *why_out a few words on it. */
int rpi_park_uring_create(struct rpi_park *park, const char **why_out);
int rpi_park_uring_own(struct rpi_park *park);
void rpi_park_uring_disown(struct rpi_park *park);
void rpi_park_uring_destroy(struct rpi_park *park);

/* Sleep until poked. 0 poked, interrupted or for no reason; -ETIMEDOUT. */
int rpi_park_uring_block(struct rpi_park *park, uint64_t deadline_ns);
int rpi_park_futex_block(struct rpi_park *park, uint64_t deadline_ns);

/* End the block, now or the next one. One system call. */
int rpi_park_uring_poke(struct rpi_park *park, struct rpi_waker *waker);
int rpi_park_futex_poke(struct rpi_park *park);

/* Forget the pokes that have arrived, without a system call. */
void rpi_park_uring_drain(struct rpi_park *park);

#endif
