/* SPDX-License-Identifier: MIT */
#include "base/testing.h"

#ifdef RPI_TESTING
int (*rpi_test_hook)(const char *point);
#else
/* ISO C wants a declaration in every file. */
extern int rpi_test_hook_absent;
#endif
