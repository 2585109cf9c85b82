/* SPDX-License-Identifier: MIT */
/*
 * The manifest of an artifact directory: what a program is, in JSON, with names of
 * symbols where a program has functions. docs/artifact.md describes it.
 */
#ifndef RPI_PROGRAM_MANIFEST_H
#define RPI_PROGRAM_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <ringplane/worker.h>

#define RPI_MANIFEST_FILE	"manifest.json"
#define RPI_MANIFEST_FORMAT	"ringplane-program"
#define RPI_MANIFEST_VERSION	1
#define RPI_MANIFEST_BYTES_MAX	((size_t)4 << 20)
#define RPI_MANIFEST_OBJECT_MAX 64

/* A shared object, for one platform. */
struct rpi_manifest_object {
	const char *platform;
	const char *file; /* a name in the directory, with no '/' */
	uint64_t bytes;
	uint64_t digest;
};

struct rpi_manifest {
	json_t *root; /* owns all texts */
	/* As for rp_program_create(), but without functions. */
	struct rp_program_desc desc;
	struct rp_param *params;
	struct rp_scalar_choice *choices;
	struct rp_entry *entries;
	struct rp_callback *callbacks;
	struct rp_signature *signatures; /* [callback_count] */
	struct rp_run_config config;
	/* Symbols; NULL: there is no function. */
	const char *orchestrate;
	const char **entry_symbols;
	const char **callback_symbols;
	struct rpi_manifest_object objects[RPI_MANIFEST_OBJECT_MAX];
	size_t object_count;
};

/*
 * Parse and judge a text. What rp_program_create() checks is not checked here.
 *
 * Returns  0: end it with rpi_manifest_free(); -EINVAL; -EOPNOTSUPP for another version;
 *          -ENOMEM
 */
int rpi_manifest_read(const char *call, const char *label, const char *text, size_t bytes,
		      struct rpi_manifest *manifest_out);
void rpi_manifest_free(struct rpi_manifest *manifest);

/* Symbols of a program's functions, found by the caller. */
struct rpi_manifest_symbols {
	const char *orchestrate;      /* NULL: none */
	const char *const *entries;   /* [entry_count] */
	const char *const *callbacks; /* [callback_count]; NULL: no function */
};

/* The text of a manifest, ended with free(); NULL without memory. `others` are objects of
 * other platforms to keep: a JSON object, or NULL. */
char *rpi_manifest_write(const struct rp_program *program,
			 const struct rpi_manifest_symbols *symbols,
			 const struct rpi_manifest_object *object, json_t *others);

#endif
