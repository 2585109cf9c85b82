/* SPDX-License-Identifier: MIT */
/* Where a view of device memory lies; the table of what lives there is control's. */
#ifndef RPI_DISPATCH_RESIDENT_H
#define RPI_DISPATCH_RESIDENT_H

#include <stdint.h>

/* The chip of a whole stacked tensor, whose shards lie on several. */
#define RPI_CHIP_SEVERAL UINT32_MAX

struct rpi_resident {
	uint32_t chip;
	uint32_t dtype;
	uint64_t address; /* device address of the view's first byte */
};

#endif
