/* SPDX-License-Identifier: MIT */
/*
 * Admission: one thread at a time builds a dispatch; the others queue in order
 * of arrival and are handed the place directly. Uncontended it is one
 * compare-and-swap and no system call.
 */
#ifndef RPI_DISPATCH_ADMISSION_H
#define RPI_DISPATCH_ADMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

struct rpi_burst;

struct rpi_admission {
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint32_t taken;
	struct rpi_burst *queue; /* several producers; pointers to waiting threads */
};

int rpi_admission_init(struct rpi_admission *admission);
void rpi_admission_fini(struct rpi_admission *admission);

void rpi_admission_enter(struct rpi_admission *admission);
void rpi_admission_leave(struct rpi_admission *admission);

/* Whether a thread is inside; for a closer, which has stored its flag before. */
static inline bool rpi_admission_taken(struct rpi_admission *admission)
{
	return atomic_load_explicit(&admission->taken, memory_order_seq_cst);
}

#endif
