/* SPDX-License-Identifier: MIT */
/* A model and a tokenizer of fixed random numbers, in the formats of real ones. */
#ifndef DECODE_MADE_H
#define DECODE_MADE_H

#include <stdbool.h>

#include "checkpoint.h"

/* Files without a name: each is there as long as its descriptor, and found by path. */
struct made {
	int model_fd, tokenizer_fd;
	char model[32], tokenizer[32]; /* paths, in this process */
};

/* The shape of stories260K: what costs the loop's own time most. */
extern const struct model_config made_default;

/* 0 or negative errno with a line. */
int made_open(const struct model_config *config, bool shared_classifier,
	      struct made *made_out);
void made_close(struct made *made);

#endif
