/* SPDX-License-Identifier: MIT */
/* One line on a terminal that says how far we are; silent anywhere else. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

/* Replace the line. Does not touch stdout. */
__attribute__((format(printf, 1, 2))) void bench_progress(const char *fmt, ...);
void bench_progress_erase(void);

#endif
