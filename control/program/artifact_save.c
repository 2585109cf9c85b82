/* SPDX-License-Identifier: MIT */
/* From programs to files. */
#include <ringplane/artifact.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "dispatch/program.h"
#include "program/manifest.h"
#include "program/object.h"

static const char call[] = "rp_program_save";

/* The names of all functions, and where they lie. */
struct names {
	struct rpi_manifest_symbols symbols;
	const char **list; /* entries, then callbacks */
	struct link_map *map;
	const char *first; /* whose object `map` is */
};

static int name_function(struct names *names, const char *what, const char *owner,
			 uintptr_t function, const char **symbol_out)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1((void *)function, &info, (void **)&map, RTLD_DL_LINKMAP) || !map ||
	    !info.dli_sname || (uintptr_t)info.dli_saddr != function)
		return rpi_fail(-EINVAL,
				"%s: %s '%s' is no function that a shared object "
				"exports, expected one (RP_API)",
				call, what, owner);
	if (!*map->l_name)
		return rpi_fail(-EINVAL,
				"%s: %s '%s' lies in the main program, expected a shared "
				"object",
				call, what, owner);
	if (names->map && names->map != map)
		return rpi_fail(-EINVAL,
				"%s: %s '%s' lies in %s, '%s' in %s, expected one shared "
				"object",
				call, what, owner, map->l_name, names->first,
				names->map->l_name);
	names->map = map;
	names->first = owner;
	*symbol_out = info.dli_sname;
	return 0;
}

static int name_all(const struct rp_program *program, struct names *names)
{
	const char **callbacks;
	uint32_t i;
	int err = 0;

	names->list = calloc(program->entry_count + program->callback_count,
			     sizeof(*names->list));
	if (!names->list)
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	callbacks = names->list + program->entry_count;
	names->symbols.entries = names->list;
	names->symbols.callbacks = callbacks;
	for (i = 0; !err && i < program->entry_count; i++)
		err = name_function(names, "entry", program->entries[i].name,
				    (uintptr_t)program->entries[i].fn, &names->list[i]);
	for (i = 0; !err && i < program->callback_count; i++) {
		const struct rp_callback *callback = &program->callbacks[i];

		if (callback->user)
			return rpi_fail(-EINVAL,
					"%s: callback '%s' has a user pointer, expected "
					"NULL",
					call, callback->name);
		if (callback->fn)
			err = name_function(names, "callback", callback->name,
					    (uintptr_t)callback->fn, &callbacks[i]);
	}
	if (!err && program->user)
		err = rpi_fail(-EINVAL,
			       "%s: the orchestration of '%s' has a user pointer, "
			       "expected NULL",
			       call, program->name);
	if (!err && program->orchestrate)
		err = name_function(names, "the orchestration of", program->name,
				    (uintptr_t)program->orchestrate,
				    &names->symbols.orchestrate);
	return err;
}

static int write_all(int fd, const uint8_t *bytes, size_t count)
{
	while (count) {
		ssize_t put = write(fd, bytes, count);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		bytes += put;
		count -= (size_t)put;
	}
	return 0;
}

/* Whole or not at all, also for whoever reads meanwhile. */
static int write_file(int dir_fd, const char *dir, const char *file, const void *bytes,
		      size_t count)
{
	char part[300];
	int err = 0;
	int fd;

	rpi_format(part, sizeof(part), ".%.200s.%d", file, (int)getpid());
	fd = rpi_descriptor_above_standard(
		openat(dir_fd, part,
		       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
	if (fd >= 0) {
		err = write_all(fd, bytes, count);
		if (close(fd) && !err)
			err = -errno;
		if (!err && renameat(dir_fd, part, dir_fd, file))
			err = -errno;
		if (err)
			unlinkat(dir_fd, part, 0);
	} else {
		err = fd;
	}
	return err ? rpi_fail(err, "%s: writing %s/%s: %s", call, dir, file,
			      strerror(-err))
		   : 0;
}

/* The objects of other platforms, if the manifest that is there has the same contract. */
static json_t *objects_to_keep(int dir_fd, const char *written)
{
	json_t *now = json_loads(written, 0, NULL);
	json_t *kept = NULL;
	json_t *old = NULL;
	int fd = openat(dir_fd, RPI_MANIFEST_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
		old = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
	if (fd >= 0)
		close(fd);
	if (json_is_object(old) && now) {
		kept = json_incref(json_object_get(old, "objects"));
		json_object_del(old, "objects");
		json_object_del(old, "platform");
		json_object_del(now, "objects");
		json_object_del(now, "platform");
		if (!json_is_object(kept) || !json_equal(old, now)) {
			json_decref(kept);
			kept = NULL;
		}
	}
	json_decref(old);
	json_decref(now);
	return kept;
}

static int write_manifest(int dir_fd, const char *dir, const struct rp_program *program,
			  const struct rpi_manifest_symbols *symbols,
			  const struct rpi_manifest_object *object)
{
	char *text = rpi_manifest_write(program, symbols, object, NULL);
	json_t *kept = text ? objects_to_keep(dir_fd, text) : NULL;
	int err;

	if (kept) {
		free(text);
		text = rpi_manifest_write(program, symbols, object, kept);
		json_decref(kept);
	}
	if (!text)
		return rpi_fail(-EINVAL,
				"%s: '%s' can't be written as JSON: a name that is not "
				"UTF-8, or no memory",
				call, program->name);
	err = write_file(dir_fd, dir, RPI_MANIFEST_FILE, text, strlen(text));
	free(text);
	return err;
}

static int write_object(int dir_fd, const char *dir, const struct rpi_object *object,
			const char *file)
{
	const void *bytes = rpi_object_map(object);
	int err;

	if (!bytes)
		return rpi_fail(-ENOMEM, "%s: no memory to copy %s", call,
				rpi_object_label(object));
	err = write_file(dir_fd, dir, file, bytes, rpi_object_bytes(object));
	rpi_object_unmap(object, bytes);
	return err;
}

static int save(const struct rp_program *program, const char *dir,
		const struct names *names, const struct rpi_object *object)
{
	struct rpi_manifest_object said = { .platform = program->platform,
					    .bytes = rpi_object_bytes(object),
					    .digest = rpi_object_digest(object) };
	char file[200];
	int dir_fd;
	int err;

	rpi_format(file, sizeof(file), "%s.so", program->platform);
	said.file = file;
	if (mkdir(dir, 0777) && errno != EEXIST)
		return rpi_fail(-errno, "%s: making directory %s: %s", call, dir,
				strerror(errno));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return rpi_fail(-errno, "%s: directory %s: %s", call, dir,
				strerror(errno));
	err = write_object(dir_fd, dir, object, file);
	if (!err)
		err = write_manifest(dir_fd, dir, program, &names->symbols, &said);
	close(dir_fd);
	return err;
}

int rp_program_save(const struct rp_program *program, const char *dir)
{
	struct rpi_object *read = NULL;
	struct names names = { .list = NULL };
	int err;

	if (!program || !dir)
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", call,
				program ? "dir" : "program");
	if (!*program->platform || strchr(program->platform, '/') ||
	    strlen(program->platform) > 150)
		return rpi_fail(-EINVAL, "%s: platform '%s' can't name a file", call,
				program->platform);
	err = name_all(program, &names);
	/* The file that the program was linked with, unless it has a copy. */
	if (!err && names.map && !program->object)
		err = rpi_object_read(call, AT_FDCWD, names.map->l_name,
				      names.map->l_name, RPI_OBJECT_BYTES_MAX, &read);
	if (!err)
		err = save(program, dir, &names,
			   program->object ? program->object : read);
	rpi_object_free(read);
	free(names.list);
	return err;
}
