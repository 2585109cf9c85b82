/* SPDX-License-Identifier: MIT */
#ifndef RPI_COMPLETION_RING_FD_H
#define RPI_COMPLETION_RING_FD_H

#include <stdbool.h>

/* Whether a descriptor of this process is an io_uring. Leaves it as it is, whoever uses
 * it meanwhile. Reads /proc; not for the hot path. */
bool rpi_fd_is_ring(int fd);

#endif
