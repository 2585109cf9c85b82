/* SPDX-License-Identifier: MIT */
#ifndef BENCH_TOP_H
#define BENCH_TOP_H

/* rpbench top PID: the counters of another process's workers. The exit status. */
int bench_top(int argc, const char **argv);

#endif
