/* SPDX-License-Identifier: MIT */
/*
 * Memory near a CPU, on machines with several memory nodes. All of it is a wish: where
 * there is one node, or the kernel refuses, memory is where it would have been.
 */
#ifndef RPI_REGION_NODE_H
#define RPI_REGION_NODE_H

#include <stddef.h>

/* Where the kernel lists the nodes. Tests put a tree of their own there. */
extern const char *rpi_node_root;

/* The node that a CPU belongs to; -1 where there is one node only, or it is not known.
 * Opens files: set-up only. */
int rpi_node_of_cpu(int cpu);

/* Have the pages of [at, at + bytes) come from that node while it has any, in whichever
 * process touches them first where the memory is shared; what is backed already moves
 * there as far as it may. Node -1: nothing. 0, or what mbind() said. */
int rpi_node_prefer(void *at, size_t bytes, int node);

#endif
