/* SPDX-License-Identifier: MIT */
/*
 * Programs in directories: a manifest (manifest.json) and one shared object per platform,
 * with the functions of the program. The CMake function ringplane_add_program() builds
 * one from C sources; docs/artifact.md describes the files.
 */
#ifndef RINGPLANE_ARTIFACT_H
#define RINGPLANE_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Defines what a shared object offers as its program. Its functions are to be exported
 * (RP_API), and `user` pointers NULL:
 *
 *	RP_PROGRAM_OBJECT = { .size = sizeof(struct rp_program_desc), .name = "twice", ...
 *};
 */
#define RP_PROGRAM_OBJECT                                             \
	RP_API extern const struct rp_program_desc rp_program_object; \
	const struct rp_program_desc rp_program_object

/*
 * Build the program that a shared object offers. The file is copied and may be replaced
 * or removed afterwards. Its constructors run.
 *
 * Threads    any. Blocks: for the file, and the dynamic linker.
 * Returns    0
 *            -EINVAL   a NULL; no regular file, empty, larger than 256 MiB; what
 *                      rp_program_create() says to the description
 *            -ENOEXEC  the dynamic linker refuses it; the line has its reason
 *            -ENOENT   no such file; it has no RP_PROGRAM_OBJECT
 *            -ELOOP    a symbolic link
 *            -EIO      it became shorter while it was read
 *            -ENOMEM, -EMFILE  also what open() and read() say
 */
RP_API int rp_program_import(const char *object, struct rp_program **program_out);

/*
 * Write a program into a directory, which is made if it is not there. What it held for
 * the same platform is replaced; objects of other platforms stay, if they belong to the
 * same contract. The manifest changes last, at once: a reader sees the old artifact or
 * the new.
 *
 * program    all its functions are exported by one shared object, and have no `user`
 *            pointers. Platform names become names of files: no '/'.
 * Threads    any. Blocks: for the files.
 * Returns    0
 *            -EINVAL   a NULL; a function that is not exported, or lies elsewhere than
 *                      another, or in the main program; a `user` pointer; a name that is
 *                      not UTF-8, or a platform that can't name a file
 *            -ENOMEM   also what mkdir(), open(), write() and rename() say
 * Spec       004, The CompiledProgram contract
 */
RP_API int rp_program_save(const struct rp_program *program, const char *dir);

/*
 * Rebuild a program from its directory: nothing is compiled. The manifest is judged
 * whole, and the object is compared with it, before anything is loaded; then it is
 * loaded, once for all chips of the workers that are prepared later. What is loaded is a
 * copy: after a rebuild of the directory a load in the same process finds the new code,
 * and programs that were loaded before keep theirs. A program holds one descriptor.
 *
 * platform   which object; NULL: the one that the manifest names.
 * Threads    any. Blocks: for the files, and the dynamic linker.
 * Returns    0
 *            -EINVAL      a NULL; a manifest that is no JSON, lacks a member, has one
 *                         that is unknown or wrong, or names a file outside the
 *                         directory; the line has the member
 *            -ENOENT      no such directory, manifest, or object; no object for the
 *                         platform; a symbol that the object does not define
 *            -EOPNOTSUPP  a manifest of another version
 *            -EBADMSG     the object has other bytes than the manifest says
 *            -ENOEXEC     the dynamic linker refuses it; the line has its reason
 *            -ELOOP       the manifest or the object is a symbolic link
 *            -EIO         one of them became shorter while it was read
 *            -ENOMEM, -EMFILE  also what open() and read() say
 * Spec       004, The CompiledProgram contract (from_dir)
 */
RP_API int rp_program_load(const char *dir, const char *platform,
			   struct rp_program **program_out);

/* What a harness must know of a program to call it. Lives as long as the program;
 * parameters: rp_program_param(). */
struct rp_program_contract {
	size_t size;		  /* sizeof(struct rp_program_contract) */
	const char *output_dir;	  /* absolute; NULL: not loaded from a directory */
	const char *platform;	  /* what it was built for */
	const char *backend_type; /* the backend that a worker for it has */
	const char *runtime_name;
	const struct rp_run_config *runtime_config; /* of dispatches without one; NULL */
	/* Parameters that are only written, by index in the call; whether there are any.
	 */
	const uint32_t *output_indices;
	size_t output_count;
	bool has_return;
	const struct rp_entry *entries; /* chip entries; functions of this process */
	size_t entry_count;
	bool domain_provider;
	uint64_t load_ns;     /* reading and judging, the dynamic linker not counted */
	uint64_t assemble_ns; /* the dynamic linker, and finding the functions */
};

/* Returns 0, or -EINVAL for a NULL or a size that this build does not know. */
RP_API int rp_program_get_contract(const struct rp_program *program,
				   struct rp_program_contract *contract_out);

#ifdef __cplusplus
}
#endif

#endif
