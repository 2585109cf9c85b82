/* SPDX-License-Identifier: MIT */
/* The copy loops by themselves: where going around the caches begins to pay. */
#ifndef BENCH_COPY_ENGINE_H
#define BENCH_COPY_ENGINE_H

#include "case.h"

/* copy.engine.NAME.SIZE for each engine of the library, beside memcpy(). */
int copy_engine_plan(struct bench_plan *plan);

#endif
