/* SPDX-License-Identifier: MIT */
#include "completion/fence.h"

_Atomic uint32_t rpi_fence_word;
