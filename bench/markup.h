/* SPDX-License-Identifier: MIT */
/* Text for HTML and XML. */
#ifndef BENCH_MARKUP_H
#define BENCH_MARKUP_H

#include <stdio.h>

/* As the content of an element or of a quoted attribute. */
void markup_text(FILE *out, const char *text);

/* As an id, or the part of a link behind '#': letters, digits, '.', '-' alone. */
void markup_id(FILE *out, const char *text);

#endif
