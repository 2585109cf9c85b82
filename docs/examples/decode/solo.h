/* SPDX-License-Identifier: MIT */
/* The same forward pass in one thread of one process: what a chip's share is held
 * against. */
#ifndef DECODE_SOLO_H
#define DECODE_SOLO_H

#include "checkpoint.h"

struct solo;

/* 0 or negative errno with a line. The checkpoint outlives it. */
int solo_open(const struct checkpoint *checkpoint, struct solo **solo_out);
void solo_close(struct solo *solo);

/* Feed one token; the logits after it, valid until the next, or NULL with a line. */
const float *solo_step(struct solo *solo, int32_t token, int32_t pos);

#endif
