/* SPDX-License-Identifier: MIT */
#ifndef RINGPLANE_ERROR_H
#define RINGPLANE_ERROR_H

#include <ringplane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One line about the last call of this thread that failed: the call, the
 * argument and its value, and what was expected. A call that succeeds leaves
 * it as it was, and so does rp_handle_wait() with "still running". Never NULL; ""
 * when nothing has failed yet.
 *
 * Ownership   the library's, valid until this thread's next failing call.
 * Threads     any; each thread has its own line.
 * Blocks      no.
 */
RP_API const char *rp_last_error(void);

enum rp_log_level {
	RP_LOG_DEBUG = 0,
	RP_LOG_INFO = 1,
	RP_LOG_WARN = 2,
	RP_LOG_ERROR = 3,
};

/* Receives one line, no newline at its end. May be called from any thread and,
 * for what a worker process has to say, inside that process. */
typedef void (*rp_log_fn)(enum rp_log_level level, const char *line, void *user);

/*
 * Send what the library has to say to fn. It is silent until this is called:
 * it never prints by itself. NULL makes it silent again.
 *
 * fn, user    read by later calls; user must outlive them. Workers prepared
 *             afterwards inherit both.
 * level       lines below it are not formatted.
 * Threads     any. Blocks: no.
 */
RP_API void rp_log_set(rp_log_fn fn, void *user, enum rp_log_level level);

#ifdef __cplusplus
}
#endif

#endif
