/* SPDX-License-Identifier: MIT */
#ifndef DECODE_SUMMARY_H
#define DECODE_SUMMARY_H

#include <stdio.h>

#include "generate.h"

/* What the loop took and where it went. Runs some empty dispatches to tell. */
int summary_print(FILE *out, struct engine *engine, const struct generate_result *result);

#endif
