/* SPDX-License-Identifier: MIT */
/* What clients and servers say to each other over a socket of whole messages. */
#ifndef SERVICE_PROTOCOL_H
#define SERVICE_PROTOCOL_H

#include <stdint.h>

#define VALUE_COUNT 32
/* What a chip is asked to work for, at most. */
#define WORK_US_MAX 1000000

/* y = 2 x + 1, after so much work. */
struct request {
	uint64_t id;
	uint32_t work_us;
	uint32_t deadline_us; /* from when it was read; 0: none */
	float values[VALUE_COUNT];
};

struct response {
	uint64_t id;
	int32_t status; /* 0, or a negative errno: -ETIMEDOUT its deadline was over */
	uint32_t reserved;
	float values[VALUE_COUNT];
};

#endif
