/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TEXTFILE_H
#define BENCH_TEXTFILE_H

/* A file of this text. 0 or negative errno, without an error line. */
int bench_textfile_write(const char *path, const char *text);

#endif
