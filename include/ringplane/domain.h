/* SPDX-License-Identifier: MIT */
/*
 * Comm domains: chips of one run that reach each other's memory. Each member has a
 * window of the same size and layout; named buffers are carved out of it.
 *
 * On a worker that was not prepared persistent, a domain lives for one run: it is
 * allocated zeroed, and released once the run has ended. On a persistent worker the
 * first use allocates it, later runs lease it again, and close releases it.
 */
#ifndef RINGPLANE_DOMAIN_H
#define RINGPLANE_DOMAIN_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_DOMAIN_BUFFERS 32
#define RP_MAX_TASK_DOMAINS   8
/* Domains of one worker that are allocated at the same time. */
#define RP_MAX_DOMAINS	   64
#define RP_MAX_DOMAIN_NAME 64 /* bytes of a name, its NUL included */

/* What becomes of a buffer between two runs of a persistent worker. */
enum rp_buffer_reset {
	RP_BUFFER_DEFAULT = 0, /* as the worker's reset_windows says */
	RP_BUFFER_RESET = 1,   /* reads zero when the next run starts */
	RP_BUFFER_KEEP = 2,    /* keeps its contents */
};

struct rp_domain_buffer {
	const char *name;
	uint32_t dtype; /* enum rp_dtype */
	uint32_t reset; /* enum rp_buffer_reset */
	uint64_t count; /* elements, at least 1 */
};

/* What a domain is. Set `size`, or use rp_domain_spec_init(). */
struct rp_domain_spec {
	size_t size; /* sizeof(struct rp_domain_spec) */
	const char *name;
	/* Members: distinct chips of the worker, in rank order. NULL: all, in order. */
	const uint32_t *chips;
	uint32_t chip_count;
	/* Bytes of each window; 0: what the buffers need. */
	size_t window_bytes;
	const struct rp_domain_buffer *buffers;
	uint32_t buffer_count;
	/* Bytes per rank that collectives pass data through which does not lie in the
	 * window: 256 or more for each member. 0: 64 KiB. */
	size_t staging_bytes;
	/* Longest wait of one primitive or collective before it fails with -ETIMEDOUT.
	 * 0: 10 s. RP_WAIT_FOREVER: no limit. */
	int64_t timeout_ns;
};

RP_API void rp_domain_spec_init(struct rp_domain_spec *spec);

/*
 * Allocate a domain for this run, or lease the retained one of that name. Tasks name
 * it by rp_arg_domain(). They see every member's window zeroed, except where a
 * persistent worker keeps its contents (reset_windows, rp_domain_buffer.reset).
 *
 * spec        read during the call only.
 * domain_out  valid until the orchestration returns.
 * Threads     the orchestration's own. Blocks: when a chip's ring is full.
 * Returns     0
 *             -EINVAL  a field of the spec, a chip that is none or listed twice, buffers
 *                      larger than the window, or a spec that differs from that of the
 *                      retained domain of this name
 *             -EEXIST  the run has a domain of this name already
 *             -ENOMEM  the chips' window_memory_bytes are exhausted
 *             -ENOSPC  RP_MAX_DOMAINS are allocated
 * Spec        000, Lifecycle; 002, Distributed (L3+) programs
 */
RP_API int rp_run_domain(struct rp_run *run, const struct rp_domain_spec *spec,
			 struct rp_domain **domain_out);

/*
 * End this run's use of a domain before the orchestration ends: no later task may name
 * it, and its name is free for another. Its memory stays until the run has ended.
 *
 * Returns     0, or -EINVAL for what is no domain of this run
 */
RP_API int rp_run_release_domain(struct rp_run *run, struct rp_domain *domain);

/*
 * Have every member zero its part of a buffer: after the earlier tasks of all members
 * that named the domain, before the later ones. NULL: the whole window.
 *
 * Returns     0, or -EINVAL for no domain of this run, -ENOENT for no buffer of it, and
 *             as rp_run_task()
 */
RP_API int rp_run_zero_domain(struct rp_run *run, struct rp_domain *domain,
			      const char *buffer);

/* How often the domain was used, this use included: 1 when it is fresh. */
RP_API uint64_t rp_domain_generation(const struct rp_domain *domain);

/* An argument of a task: the chip must be a member. */
static inline struct rp_arg rp_arg_domain(struct rp_domain *domain)
{
	struct rp_arg arg;

	arg.kind = RP_ARG_DOMAIN;
	arg.access = 0;
	arg.u.domain = domain;
	return arg;
}

#ifdef __cplusplus
}
#endif

#endif
