/* SPDX-License-Identifier: MIT */
#ifndef RINGPLANE_EXPORT_H
#define RINGPLANE_EXPORT_H

/* Everything else in the library is hidden. */
#define RP_API __attribute__((visibility("default")))

#endif
