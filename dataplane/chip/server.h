/* SPDX-License-Identifier: MIT */
/*
 * A worker process from the inside: it takes tasks from its lane in order, runs
 * them, and publishes how far it is. Set up by control/ in the parent before the
 * fork, completed in the process after it; used by that one thread.
 */
#ifndef RPI_CHIP_SERVER_H
#define RPI_CHIP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <ringplane/chip.h>
#include <ringplane/kernel.h>

#include "chip/backend.h"
#include "comm/comm.h"
#include "completion/park.h"
#include "completion/spin.h"
#include "dispatch/callback.h"
#include "dispatch/lane.h"
#include "dispatch/program.h"
#include "dispatch/rouse.h"
#include "dispatch/wire.h"
#include "staging/command.h"
#include "staging/mapping.h"
#include "trace/span.h"
#include "window/reset.h"

/* Where an argument of the running task lies on both sides. */
struct rpi_placed {
	const struct rpi_wire_tensor *wire;
	const struct rpi_wire_strides *strides; /* NULL: contiguous */
	rpi_device_addr at;
};

struct rpi_hurdle;
struct rpi_pmu;
struct rpi_runtime;
struct rpi_runtime_config;

struct rp_chip {
	uint32_t chip_count;
	uint32_t peer_idx; /* its chip id, or past the chips a callback worker */
	uint32_t peer_count;
	bool in_place; /* unified memory, and every callback worker */

	struct rpi_peer *self; /* shared: this process's words */
	struct rpi_peer *peers;
	struct rpi_frame *frames;
	struct rpi_lane_rx rx;
	struct rpi_command_rx commands;
	struct rpi_mapping_rx mapping;
	struct rpi_park *park; /* where this process sleeps */
	struct rpi_rouser rouser;
	struct rpi_spin spin;	  /* between tasks */
	struct rpi_spin dep_spin; /* for another process's task */

	/* Telling the parent. */
	struct rpi_park *parent_park;
	int event_fd;
	int ring_fd;
	uint64_t ring_user_data;

	struct rp_program *const *programs;
	uint32_t program_count;
	struct rpi_callback *const *callbacks;

	const struct rpi_backend_ops *backend;
	struct rpi_device *device;
	rpi_device_addr argument_base;
	size_t argument_bytes;
	struct rpi_runtime *runtime; /* NULL: entries submit no kernels here */

	struct rpi_tracer tracer; /* of this process */
	struct rpi_pmu *pmu;	  /* NULL: no task was counted yet */

	struct rpi_windows windows;
	struct rp_comm comms[RP_MAX_DOMAINS]; /* by slot; lease 0: not in use */

	/* The running task. */
	const struct rpi_task_body *task;
	struct rpi_placed placed[RP_MAX_TASK_TENSORS];
	uint32_t placed_count;
	/* Of RPI_OP_RUN_WORDS: the stream that another task has in its lane. */
	_Alignas(RPI_CACHE_LINE)
		uint8_t records[RPI_WORDS_MAX * sizeof(struct rpi_wire_tensor)];
	const struct rp_program *records_of; /* whose they are; NULL: nobody's */
	bool reads_host;
	struct rp_arg args[RP_MAX_TASK_TENSORS + RP_MAX_TASK_SCALARS];
	int fail_code;
	char fail_text[RPI_ERROR_BYTES];
};

/* Callbacks see the same process under another name. */
struct rp_callback_context {
	struct rp_chip chip;
};

/* Work until told to stop; what control/ calls once the process is ready. */
void rpi_server_run(struct rp_chip *chip);

/* task.c: run one task, from its dependencies to its outputs. */
void rpi_server_execute(struct rp_chip *chip, const struct rpi_task_body *task);

/* observe.c: run the entry or callback of a task whose arguments are there, by `run`, and
 * tell captures what they want to know of it. */
typedef int (*rpi_run_fn)(struct rp_chip *chip, const struct rpi_task_body *task);
__attribute__((cold)) int rpi_server_observe(struct rp_chip *chip,
					     const struct rpi_task_body *task,
					     rpi_run_fn run);

/* bring.c: arguments that travel in the task itself, or place those of a stream on the
 * device, and bring results back. */
void rpi_server_read_inline(struct rp_chip *chip);
const uint8_t *rpi_server_expand_words(struct rp_chip *chip);
int rpi_server_bring_in(struct rp_chip *chip, const uint8_t *stream);
int rpi_server_bring_out(struct rp_chip *chip);

/* kernels.c: the chip runtime, around each entry. `end` returns the entry's outcome. */
int rpi_server_runtime_open(struct rp_chip *chip, struct rpi_runtime_config *config,
			    const struct rp_run_config *prewarm);
void rpi_server_runtime_close(struct rp_chip *chip);
/* rp_chip_submit() with a hurdle, or NULL; `call` is for error lines. */
int rpi_server_submit_behind(struct rp_chip *chip, const char *call,
			     const struct rp_kernel *kernel,
			     const struct rpi_hurdle *hurdle, rp_kernel_id *id_out);
/* What an entry asked of the runtime in vain fails the run, with this thread's line. */
int rpi_server_runtime_refuse(struct rp_chip *chip, int err);
void rpi_server_runtime_begin(struct rp_chip *chip);
int rpi_server_runtime_end(struct rp_chip *chip, int status);

/* doze.c: sleep until something may have changed; `ready` is asked once more
 * after the doze was announced. Not past until_ns (CLOCK_MONOTONIC), where there is one.
 */
typedef bool (*rpi_ready_fn)(struct rp_chip *chip, const void *what);

/* doze.c: say where this process waits; how often to give its CPU away meanwhile. */
uint32_t rpi_server_yield_ns(const struct rp_chip *chip, uint64_t peers, bool parent);

/* Begin to spin for what one of these peers (bit set) or the parent brings. */
static inline void rpi_server_spin_begin(const struct rp_chip *chip,
					 struct rpi_spin_wait *wait,
					 struct rpi_spin *spin, uint64_t peers,
					 bool parent)
{
	rpi_spin_begin(wait, spin);
	if (rpi_unlikely(spin->crowded))
		wait->yield_ns = rpi_server_yield_ns(chip, peers, parent);
}

static inline uint64_t rpi_server_other_chips(const struct rp_chip *chip)
{
	return (UINT64_MAX >> (64 - chip->chip_count)) & ~(UINT64_C(1) << chip->peer_idx);
}
void rpi_server_doze(struct rp_chip *chip, rpi_ready_fn ready, const void *what);
void rpi_server_doze_until(struct rp_chip *chip, rpi_ready_fn ready, const void *what,
			   uint64_t until_ns);

/* command.c: whether a command may be carried out now, and do it. */
bool rpi_server_command_due(const struct rp_chip *chip);
void rpi_server_command(struct rp_chip *chip);

/* mapping.c: map and unmap what the parent has told this process to. */
void rpi_server_mapping(struct rp_chip *chip);

/* mapping.c: make sure of the memory that a task or a copy names: 0, -EFAULT for what
 * this process has unmapped, or why it could not map it. For when `watch` is set. */
int rpi_server_check_host(struct rp_chip *chip, const void *addr, size_t bytes);

static inline bool rpi_server_mapping_due(const struct rp_chip *chip)
{
	const struct rpi_mapping_rx *rx = &chip->mapping;

	/* M1 */
	if (rpi_likely(atomic_load_explicit(&chip->self->map_ticket,
					    memory_order_acquire) == rx->applied))
		return false;
	return !rx->holds || rx->held.after_task < chip->rx.next_seq;
}

/* progress.c: publish that the running task has taken its inputs. */
void rpi_server_loaded(struct rp_chip *chip, uint64_t seq);

/* progress.c: publish the end of task `seq`, tell whoever asked to be told. */
void rpi_server_publish(struct rp_chip *chip, uint64_t seq);

/* What the spans of a task are about. */
static inline struct rpi_trace_of rpi_server_span_of(const struct rp_chip *chip,
						     const struct rpi_task_body *task)
{
	return (struct rpi_trace_of){ .run_seq = task->run_seq,
				      .task_seq = chip->rx.next_seq,
				      .program = task->program,
				      .entry = task->entry };
}

static inline void rpi_count(_Atomic uint64_t *counter, uint64_t by)
{
	/* Relaxed, and no read-modify-write: this process is the only writer. */
	atomic_store_explicit(counter,
			      atomic_load_explicit(counter, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

#endif
