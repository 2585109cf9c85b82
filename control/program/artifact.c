/* SPDX-License-Identifier: MIT */
/* From files to programs. */
#include <ringplane/artifact.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "dispatch/program.h"
#include "program/manifest.h"
#include "program/object.h"

#define LABEL_BYTES 320

static const char load_call[] = "rp_program_load";

/* The line of a description that a file gave, with the file's name. */
static int create_from(const char *call, const char *label,
		       const struct rp_program_desc *desc,
		       struct rp_program **program_out)
{
	char text[RPI_ERROR_BYTES];
	int err = rp_program_create(desc, program_out);

	if (!err)
		return 0;
	rpi_format(text, sizeof(text), "%s", rp_last_error());
	return rpi_fail(err, "%s: %s: %s", call, label, text);
}

int rp_program_import(const char *path, struct rp_program **program_out)
{
	static const char call[] = "rp_program_import";
	uint64_t begin_ns = rpi_now_ns();
	struct rp_program *program;
	struct rpi_object *object = NULL;
	void *desc;
	int err;

	if (!path || !program_out)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", call,
				path ? "program_out" : "object");
	err = rpi_object_read(call, AT_FDCWD, path, path, RPI_OBJECT_BYTES_MAX, &object);
	if (err)
		return err;
	err = rpi_object_load(call, object);
	if (!err)
		err = rpi_object_datum(call, object, "rp_program_object", &desc);
	if (!err)
		err = create_from(call, path, desc, &program);
	if (err) {
		rpi_object_free(object);
		return err;
	}
	program->object = object;
	program->assemble_ns = rpi_object_load_ns(object);
	program->load_ns = rpi_now_ns() - begin_ns - program->assemble_ns;
	*program_out = program;
	return 0;
}

/* Read the manifest of an open directory. */
static int read_manifest(int dir_fd, const char *label, struct rpi_manifest *manifest_out)
{
	struct rpi_object *file;
	const void *text;
	int err;

	err = rpi_object_read(load_call, dir_fd, RPI_MANIFEST_FILE, label,
			      RPI_MANIFEST_BYTES_MAX, &file);
	if (err)
		return err;
	text = rpi_object_map(file);
	if (text) {
		err = rpi_manifest_read(load_call, label, text, rpi_object_bytes(file),
					manifest_out);
		rpi_object_unmap(file, text);
	} else {
		err = rpi_fail(-ENOMEM, "%s: no memory to read %s", load_call, label);
	}
	rpi_object_free(file);
	return err;
}

static int find_object(const struct rpi_manifest *manifest, const char *label,
		       const char *platform,
		       const struct rpi_manifest_object **object_out)
{
	char names[200];
	size_t at = 0;
	size_t i;

	names[0] = '\0';
	for (i = 0; i < manifest->object_count; i++) {
		if (!strcmp(manifest->objects[i].platform, platform)) {
			*object_out = &manifest->objects[i];
			return 0;
		}
		if (at + 1 < sizeof(names))
			at += rpi_format(names + at, sizeof(names) - at, "%s%s",
					 i ? ", " : "", manifest->objects[i].platform);
	}
	return rpi_fail(-ENOENT,
			"%s: %s has no object for platform '%s', it has them for: %s",
			load_call, label, platform, names);
}

static int check_object(const struct rpi_manifest_object *said,
			const struct rpi_object *object)
{
	if (said->bytes != rpi_object_bytes(object))
		return rpi_fail(-EBADMSG, "%s: %s has %zu bytes, its manifest says %llu",
				load_call, rpi_object_label(object),
				rpi_object_bytes(object),
				(unsigned long long)said->bytes);
	if (said->digest != rpi_object_digest(object))
		return rpi_fail(-EBADMSG,
				"%s: %s has digest %016llx, its manifest says %016llx",
				load_call, rpi_object_label(object),
				(unsigned long long)rpi_object_digest(object),
				(unsigned long long)said->digest);
	return 0;
}

static int find_functions(struct rpi_manifest *manifest, struct rpi_object *object)
{
	struct rp_program_desc *desc = &manifest->desc;
	char what[128];
	void *fn = NULL;
	size_t i;
	int err = 0;

	if (manifest->orchestrate)
		err = rpi_object_function(load_call, object, "the orchestration",
					  manifest->orchestrate, &fn);
	desc->orchestrate = (rp_orchestrate_fn)(uintptr_t)fn;
	for (i = 0; !err && i < desc->entry_count; i++) {
		rpi_format(what, sizeof(what), "entry '%s'", manifest->entries[i].name);
		err = rpi_object_function(load_call, object, what,
					  manifest->entry_symbols[i], &fn);
		manifest->entries[i].fn = (rp_entry_fn)(uintptr_t)fn;
	}
	for (i = 0; !err && i < desc->callback_count; i++) {
		if (!manifest->callback_symbols[i])
			continue;
		rpi_format(what, sizeof(what), "callback '%s'",
			   manifest->callbacks[i].name);
		err = rpi_object_function(load_call, object, what,
					  manifest->callback_symbols[i], &fn);
		manifest->callbacks[i].fn = (rp_callback_fn)(uintptr_t)fn;
	}
	return err;
}

/* Whatever can be judged is judged before any code is loaded. */
static int load_object(int dir_fd, const char *dir, struct rpi_manifest *manifest,
		       const char *label, const char *platform,
		       struct rpi_object **object_out)
{
	const struct rpi_manifest_object *said = NULL;
	char file[LABEL_BYTES];
	int err;

	err = find_object(manifest, label, platform, &said);
	if (err)
		return err;
	rpi_format(file, sizeof(file), "%s/%s", dir, said->file);
	err = rpi_object_read(load_call, dir_fd, said->file, file, RPI_OBJECT_BYTES_MAX,
			      object_out);
	if (err)
		return err;
	err = check_object(said, *object_out);
	if (!err)
		err = rpi_object_load(load_call, *object_out);
	if (err)
		rpi_object_free(*object_out);
	return err;
}

static int assemble(int dir_fd, const char *dir, struct rpi_manifest *manifest,
		    const char *label, const char *platform,
		    struct rp_program **program_out)
{
	struct rpi_object *object = NULL;
	uint64_t begin_ns;
	int err;

	manifest->desc.platform = platform ? platform : manifest->desc.platform;
	err = load_object(dir_fd, dir, manifest, label, manifest->desc.platform, &object);
	if (err)
		return err;
	begin_ns = rpi_now_ns();
	err = find_functions(manifest, object);
	if (!err)
		err = create_from(load_call, label, &manifest->desc, program_out);
	if (err) {
		rpi_object_free(object);
		return err;
	}
	(*program_out)->object = object;
	(*program_out)->assemble_ns =
		rpi_object_load_ns(object) + rpi_now_ns() - begin_ns;
	return 0;
}

int rp_program_load(const char *dir, const char *platform,
		    struct rp_program **program_out)
{
	uint64_t begin_ns = rpi_now_ns();
	struct rpi_manifest manifest;
	struct rp_program *program = NULL;
	char label[LABEL_BYTES];
	int dir_fd;
	int err;

	if (!dir || !program_out)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", load_call,
				dir ? "program_out" : "dir");
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return rpi_fail(-errno, "%s: directory %s: %s", load_call, dir,
				strerror(errno));
	rpi_format(label, sizeof(label), "%s/%s", dir, RPI_MANIFEST_FILE);
	err = read_manifest(dir_fd, label, &manifest);
	if (!err) {
		err = assemble(dir_fd, dir, &manifest, label, platform, &program);
		rpi_manifest_free(&manifest);
	}
	close(dir_fd);
	if (err)
		return err;
	program->output_dir = realpath(dir, NULL);
	if (!program->output_dir) {
		rp_program_free(program);
		return rpi_fail(-errno, "%s: directory %s: %s", load_call, dir,
				strerror(errno));
	}
	program->load_ns = rpi_now_ns() - begin_ns - program->assemble_ns;
	*program_out = program;
	return 0;
}

int rp_program_get_contract(const struct rp_program *program,
			    struct rp_program_contract *contract_out)
{
	if (!program || !contract_out || contract_out->size != sizeof(*contract_out))
		return rpi_fail(-EINVAL,
				"rp_program_get_contract: program or contract_out NULL, "
				"or a size other than %zu",
				sizeof(*contract_out));
	*contract_out = (struct rp_program_contract){
		.size = sizeof(*contract_out),
		.output_dir = program->output_dir,
		.platform = program->platform,
		.backend_type = program->platform,
		.runtime_name = program->runtime,
		.runtime_config = program->config,
		.output_indices = program->outputs,
		.output_count = program->output_count,
		.has_return = program->output_count > 0,
		.entries = program->entries,
		.entry_count = program->entry_count,
		.domain_provider = !(program->flags & RP_PROGRAM_NO_DOMAINS),
		.load_ns = program->load_ns,
		.assemble_ns = program->assemble_ns,
	};
	return 0;
}
