/* SPDX-License-Identifier: MIT */
/* A prepared worker: what control/ owns around the data plane. */
#ifndef RPI_WORKER_WORKER_H
#define RPI_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ringplane/worker.h>

#include "base/list.h"
#include "chip/server.h"
#include "dispatch/plane.h"
#include "domain/table.h"
#include "process/process.h"
#include "region/inherited.h"
#include "region/region.h"
#include "region/shared.h"
#include "staging/copier.h"
#include "tensor/store.h"
#include "worker/mapper.h"

enum rpi_life {
	RPI_LIFE_OPEN = 0,
	RPI_LIFE_CLOSING = 1, /* one thread is at it */
	RPI_LIFE_CLOSED = 2,
};

/* What the supervisor thread is told through its descriptor. */
enum rpi_order {
	RPI_ORDER_NONE = 0,
	RPI_ORDER_STOP = 1, /* processes are idle: let them leave */
	RPI_ORDER_KILL = 2, /* end them as they are */
};

/* The thread that forks the processes, watches them, and outlives them. */
struct rpi_supervisor {
	pthread_t thread;
	bool started;
	int order_fd; /* eventfd */
	_Atomic uint32_t order;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ready; /* under lock: start-up has been decided */
	int status; /* how: 0, or what prepare fails with */
	char text[RPI_ERROR_BYTES];
};

struct rp_worker {
	struct rpi_plane plane;
	struct rp_worker_options options; /* as resolved */
	int *chip_cpus;
	const struct rpi_backend_ops *backend;

	struct rp_program **programs;
	uint32_t program_count;
	uint32_t program_room;		  /* for programs that come after prepare */
	struct rpi_callback **callbacks;  /* [program_count], each one's in its order */
	struct rp_signature **signatures; /* [signature_count]: copies of the options' */
	size_t signature_count;
	uint32_t callback_workers;

	/* Peers, frames, lanes and parks: one region. */
	struct rpi_region region;
	bool has_region;
	struct rpi_shared_map shared; /* host memory that the processes see */
	bool has_shared;
	struct rpi_mapper mapper; /* how they get more of it */
	struct rpi_inherited inherited;

	/* Spans, one ring for this process and one for each peer; its backing comes with
	 * the first that is recorded. */
	struct rpi_region trace_region;
	uint64_t anchor_ticks, anchor_ns; /* one moment on both clocks, at prepare */
	struct rpi_board_source *counter_sources;
	bool device_spans;	/* SIMPLER_DEVICE_STRACE_ENABLE, as it was then */
	struct rp_trace *trace; /* under lock; NULL: nobody is attached */
	uint32_t trace_wants;	/* RPI_TRACE_*; under lock */
	uint32_t capture_wants; /* likewise */

	char *capture_dir;		/* of the options; a copy */
	struct rpi_list capture_places; /* directories that it has captured into */

	struct rpi_domains domains;
	void *zero_chunk; /* RPI_ZERO_CHUNK_BYTES, read-only; NULL: not needed */

	/* Device memory, and the way to it. */
	struct rpi_store store;
	bool has_store;
	struct rpi_region chunks;		/* staging; RPI_STAGING_CHUNKS per chip */
	struct rpi_command_lane *command_lanes; /* shared, [peer_count] */
	struct rpi_copier *copiers;		/* [peer_count] */
	struct rpi_frame *frames;
	struct rpi_lane_memory *lane_memory; /* [peer_count] */
	struct rpi_park *parks;		     /* [peer_count] */
	struct rpi_park parent_park;
	bool crowded; /* more processes want to spin than there are CPUs */
	bool packed;  /* more than twice as many: a spin would only be in the way */

	/* One process after the other is forked from this block. */
	struct rp_chip *server;
	struct rpi_process *processes; /* [peer_count] */
	struct rpi_supervisor supervisor;
	pthread_t dispatcher;
	bool has_dispatcher;
	int start_fd; /* eventfd: a process is ready, or has failed */

	pthread_mutex_t lock;
	pthread_cond_t closed;
	enum rpi_life life; /* under lock */
	int close_status;
	uint64_t id; /* slot and generation in the table of workers */
};

/* prepare.c: rp_worker_prepare(), with room for so many programs more. */
int rpi_worker_prepare(struct rp_program *const *programs, size_t program_count,
		       const struct rp_worker_options *options, uint32_t program_room,
		       struct rp_worker **worker_out);

/* dispatch.c: submit a known call, and wait, or give a handle. begin_ns: when the public
 * call began; wall_ns_out may be NULL, and is set on success. */
int rpi_worker_run_known(struct rp_worker *worker, const struct rpi_offer *offer,
			 uint64_t begin_ns, uint64_t *wall_ns_out);
int rpi_worker_submit_known(struct rp_worker *worker, struct rpi_offer *offer,
			    struct rp_handle *handle_out);

/* programs.c: one more, which the processes have already and which has no callbacks. Its
 * index. By one thread at a time, who knows that there is room. */
uint32_t rpi_worker_add_program(struct rp_worker *worker, struct rp_program *program);

/* trace/attach.c: spans that a capture wants beside those who trace; 0: it has ended. */
void rpi_trace_want_captured(struct rp_worker *worker, uint32_t wants);

/* layout.c: the shared region and what lies in it. */
int rpi_worker_lay_out(struct rp_worker *worker);

/* The memory node of a chip's CPU; -1: any. Opens files. */
int rpi_worker_chip_node(const struct rp_worker *worker, uint32_t chip);
void rpi_worker_unlay(struct rp_worker *worker);

/* The pipe of a peer; NULL for this process. */
struct rpi_pipe *rpi_worker_pipe(const struct rp_worker *worker, uint32_t peer);

/* The way to its own ring of spans, of a peer or (peer_count) this process. */
struct rpi_tracer rpi_worker_tracer(const struct rp_worker *worker, uint32_t peer);

/* What wake-ups are sent with: as parks sleep, or to the caller's own io_uring. */
static inline enum rpi_park_engine rpi_waker_engine(const struct rp_worker *worker)
{
	return worker->plane.ring_fd >= 0 ? RPI_PARK_URING : worker->parent_park.engine;
}

/* How a side of this worker spins; see options.c. */
void rpi_worker_spin_init(const struct rp_worker *worker, enum rp_wait_policy policy,
			  struct rpi_spin *spin);

/* child.c: the body of a worker process; arg is a struct rpi_child_arg. */
struct rpi_child_arg {
	struct rp_worker *worker;
	uint32_t peer_idx;
	pid_t parent;
};
int rpi_child_main(void *child_arg);
void rpi_peer_name(const struct rp_worker *worker, uint32_t peer_idx, char *buf,
		   size_t bytes);

/* supervisor.c */
int rpi_supervisor_start(struct rp_worker *worker);
void rpi_supervisor_order(struct rp_worker *worker, enum rpi_order order);
void rpi_supervisor_join(struct rp_worker *worker);

/* callbacks.c: bind them by name, and count their processes. */
int rpi_callbacks_bind(struct rp_worker *worker);
void rpi_callbacks_release(struct rp_worker *worker);

/* dispatcher.c: nothing on a worker without one. */
int rpi_dispatcher_create(struct rp_worker *worker, uint32_t params, uint32_t tensors);
int rpi_dispatcher_start(struct rp_worker *worker);
int rpi_dispatcher_drain(struct rp_worker *worker, uint64_t deadline_ns);
void rpi_dispatcher_stop(struct rp_worker *worker);

/* table.c: handles name their worker by slot and generation. */
int rpi_table_enter(struct rp_worker *worker);
void rpi_table_leave(struct rp_worker *worker);
struct rp_worker *rpi_table_find(uint64_t id);

/* options.c */
int rpi_options_resolve(const struct rp_worker_options *given,
			struct rp_worker_options *out);

/* programs.c: 0, or -EINVAL with an error line that names the programs. */
int rpi_programs_check(struct rp_program *const *programs, size_t count,
		       const struct rp_worker_options *options);

#endif
