/* SPDX-License-Identifier: MIT */
/*
 * Static probes for bpftrace, perf and SystemTap: an instruction that does nothing until
 *a tracer takes its place. Provider "ringplane"; each has two numbers:
 *
 *	submit  run, program index      a dispatch was accepted
 *	start   run, task               a process begins a task (its dependencies are met)
 *	finish  run, status             the outcome was collected
 *	wake    peer, wake-ups so far   a sleeping worker process is woken
 *	reset   domain id, what         a chip zeroes its window (window/reset.h)
 *
 * Without <sys/sdt.h> there are none.
 */
#ifndef RPI_BASE_PROBE_H
#define RPI_BASE_PROBE_H

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define RPI_PROBES 1
#endif
#endif

#ifdef RPI_PROBES
#define rpi_probe(name, a, b) DTRACE_PROBE2(ringplane, name, a, b)
#else
#define RPI_PROBES	      0
#define rpi_probe(name, a, b) ((void)(a), (void)(b))
#endif

#endif
