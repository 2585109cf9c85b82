/* SPDX-License-Identifier: MIT */
/* The sub-commands, in the order in which they are listed. */
#include "command.h"

#include <stddef.h>

const struct bench_command *const bench_commands[] = {
	&bench_limits_command,	&bench_dispatch_command,
	&bench_copy_command,	&bench_device_command,
	&bench_reset_command,	&bench_collective_command,
	&bench_prepare_command, &bench_programs_command,
	&bench_arena_command,	&bench_tasks_command,
	&bench_decode_command,	&bench_trace_command,
	&bench_peers_command,	NULL,
};
