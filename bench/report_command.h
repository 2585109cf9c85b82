/* SPDX-License-Identifier: MIT */
#ifndef BENCH_REPORT_COMMAND_H
#define BENCH_REPORT_COMMAND_H

/* rpbench report: the whole set, or stored results, as a page. The exit status. */
int bench_report_command(int argc, const char **argv);

#endif
