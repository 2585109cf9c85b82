/* SPDX-License-Identifier: MIT */
/*
 * A shared object with the functions of a program. Its bytes are read once, into a sealed
 * memfd, judged there, and loaded from there: what was judged is what runs, a rebuild of
 * the file is a new object, and the file may be replaced or removed meanwhile.
 */
#ifndef RPI_PROGRAM_OBJECT_H
#define RPI_PROGRAM_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#define RPI_OBJECT_BYTES_MAX ((size_t)256 << 20)

struct rpi_object;

/*
 * Read a regular file; no link is followed.
 *
 * dir_fd, file  as for openat()
 * label         what error lines and debuggers call it; copied
 * max           bytes that it may have
 * Returns       0; -ELOOP for a link; -EINVAL for what is no regular file, empty or too
 *               large; else what the system says
 */
int rpi_object_read(const char *call, int dir_fd, const char *file, const char *label,
		    size_t max, struct rpi_object **object_out);

/* The same from memory. */
int rpi_object_copy(const char *call, const void *bytes, size_t count, const char *label,
		    struct rpi_object **object_out);

/* Load it: 0, or -ENOEXEC with what the dynamic linker says. */
int rpi_object_load(const char *call, struct rpi_object *object);

/* A function that a loaded object itself defines; -ENOENT. `what` names its user. */
int rpi_object_function(const char *call, struct rpi_object *object, const char *what,
			const char *symbol, void **fn_out);

/* A datum that it defines, likewise. */
int rpi_object_datum(const char *call, struct rpi_object *object, const char *symbol,
		     void **datum_out);

/* NULL is ignored. */
void rpi_object_free(struct rpi_object *object);

size_t rpi_object_bytes(const struct rpi_object *object);
uint64_t rpi_object_digest(const struct rpi_object *object);
const char *rpi_object_label(const struct rpi_object *object);

/* Where it was loaded. */
uintptr_t rpi_object_base(const struct rpi_object *object);

/* What loading took. */
uint64_t rpi_object_load_ns(const struct rpi_object *object);

/* Its bytes, mapped read-only until rpi_object_unmap(); NULL without memory. */
const void *rpi_object_map(const struct rpi_object *object);
void rpi_object_unmap(const struct rpi_object *object, const void *bytes);

/* Loaded objects are numbered, from 1. A process that was forked when the count stood at
 * n has those up to n where this one has them. */
uint64_t rpi_object_serial(const struct rpi_object *object);
uint64_t rpi_object_count(void);

#endif
