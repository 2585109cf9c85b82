/* SPDX-License-Identifier: MIT */
/* What the tests of dump_args share: a program whose arguments are known before and
 * after. */
#ifndef RPI_TESTS_ARGS_BED_H
#define RPI_TESTS_ARGS_BED_H

#include <stdbool.h>
#include <stdint.h>

#include "capture_bed.h"

#define FORMAT	  "ringplane.dump_args"
#define FILE_NAME "dump_args.json"
#define BIG	  (3u << 20) /* more than a process can have on its way */

/* What the entry does, the last of the program's arguments. */
enum how {
	HOW_WELL,
	HOW_FAIL,
	HOW_DIE,
};

struct args_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
	uint8_t *memory;
	int64_t *x; /* [4] */
	uint8_t *y; /* [BIG] */
	int32_t *z; /* [8][8], of which a part is given */
	struct rp_arg args[4];
};

void args_open(struct args_bed *bed, uint32_t chips, bool unified);
void args_open_with(struct args_bed *bed, const struct rp_worker_options *options);
void args_close(struct args_bed *bed);

int args_run(struct args_bed *bed, enum how how);
json_t *args_load(const struct args_bed *bed, const char *name);

/* The file that an index names, in DIR/dir. */
void args_assert_bytes(const struct args_bed *bed, const char *dir, const json_t *phase,
		       const void *want, size_t bytes);

/* Of an index: an argument of a task, and what is said of it "before" or "after". */
const json_t *args_arg(const json_t *root, size_t task, size_t arg);
const json_t *args_phase(const json_t *root, size_t task, size_t arg, const char *name);

#endif
