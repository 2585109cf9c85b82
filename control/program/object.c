/* SPDX-License-Identifier: MIT */
#include "program/object.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/digest.h"
#include "base/error.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

struct rpi_object {
	int fd; /* the memfd */
	size_t bytes;
	uint64_t digest;
	char *label;
	void *handle; /* dlopen()'s; NULL: not loaded */
	struct link_map *map;
	uint64_t serial;
	uint64_t load_ns;
};

static _Atomic uint64_t loaded; /* objects, ever */

static int create(const char *call, const char *label, size_t bytes,
		  struct rpi_object **object_out)
{
	struct rpi_object *object = calloc(1, sizeof(*object));
	char name[200];
	int err = 0;

	if (!object || !(object->label = strdup(label))) {
		free(object);
		return rpi_fail(-ENOMEM, "%s: no memory", call);
	}
	rpi_format(name, sizeof(name), "ringplane:%s", label);
	object->bytes = bytes;
	object->fd = rpi_descriptor_above_standard(
		memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (object->fd < 0)
		err = object->fd;
	else
		err = rpi_descriptor_size(object->fd, bytes);
	if (err) {
		rpi_object_free(object);
		return rpi_fail(err, "%s: %zu bytes for a copy of %s: %s", call, bytes,
				label, strerror(-err));
	}
	*object_out = object;
	return 0;
}

static void *map_writable(const struct rpi_object *object)
{
	void *bytes = mmap(NULL, object->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			   object->fd, 0);

	return bytes == MAP_FAILED ? NULL : bytes;
}

/* What is there now is what it will be. */
static int seal(const char *call, struct rpi_object *object, void *bytes)
{
	object->digest = rpi_digest(RPI_DIGEST_BEGIN, bytes, object->bytes);
	munmap(bytes, object->bytes);
	if (fcntl(object->fd, F_ADD_SEALS, SEALS))
		return rpi_fail(-errno, "%s: sealing the copy of %s: %s", call,
				object->label, strerror(errno));
	return 0;
}

static int read_all(int fd, uint8_t *to, size_t bytes)
{
	while (bytes) {
		ssize_t got = read(fd, to, bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -EIO;
		to += got;
		bytes -= (size_t)got;
	}
	return 0;
}

static int read_open(const char *call, int fd, const char *label, size_t max,
		     struct rpi_object **object_out)
{
	struct rpi_object *object;
	struct stat stat;
	void *bytes;
	int err;

	if (fstat(fd, &stat))
		return rpi_fail(-errno, "%s: %s: %s", call, label, strerror(errno));
	if (!S_ISREG(stat.st_mode))
		return rpi_fail(-EINVAL, "%s: %s is no regular file", call, label);
	if (stat.st_size <= 0 || (uint64_t)stat.st_size > max)
		return rpi_fail(-EINVAL, "%s: %s has %lld bytes, expected 1..%zu", call,
				label, (long long)stat.st_size, max);
	err = create(call, label, (size_t)stat.st_size, &object);
	if (err)
		return err;
	bytes = map_writable(object);
	err = bytes ? read_all(fd, bytes, object->bytes) : -ENOMEM;
	if (err) {
		if (bytes)
			munmap(bytes, object->bytes);
		rpi_fail(err, "%s: reading %s: %s", call, label, strerror(-err));
	} else {
		err = seal(call, object, bytes);
	}
	if (err)
		rpi_object_free(object);
	else
		*object_out = object;
	return err;
}

int rpi_object_read(const char *call, int dir_fd, const char *file, const char *label,
		    size_t max, struct rpi_object **object_out)
{
	/* A FIFO must not hang the open, a link not lead elsewhere. */
	int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int err;

	if (fd < 0)
		return rpi_fail(-errno, "%s: opening %s: %s", call, label,
				strerror(errno));
	err = read_open(call, fd, label, max, object_out);
	close(fd);
	return err;
}

int rpi_object_copy(const char *call, const void *bytes, size_t count, const char *label,
		    struct rpi_object **object_out)
{
	struct rpi_object *object;
	void *to;
	int err;

	err = create(call, label, count, &object);
	if (err)
		return err;
	to = map_writable(object);
	if (to) {
		memcpy(to, bytes, count);
		err = seal(call, object, to);
	} else {
		err = rpi_fail(-ENOMEM, "%s: no memory to copy %s", call, label);
	}
	if (err)
		rpi_object_free(object);
	else
		*object_out = object;
	return err;
}

/*
 * The dynamic linker knows what it has by path: an object that was loaded from a
 * descriptor which is closed by now, here or in the process that forked this one, still
 * has the name. Move on to a descriptor whose name is free.
 */
static int name_of_its_own(struct rpi_object *object, char *path, size_t bytes)
{
	for (;;) {
		void *other;
		int fd;

		rpi_format(path, bytes, "/proc/self/fd/%d", object->fd);
		other = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
		if (!other)
			return 0;
		dlclose(other);
		fd = fcntl(object->fd, F_DUPFD_CLOEXEC, object->fd + 1);
		if (fd < 0)
			return errno == EINVAL ? -EMFILE : -errno;
		close(object->fd);
		object->fd = fd;
	}
}

int rpi_object_load(const char *call, struct rpi_object *object)
{
	uint64_t begin_ns = rpi_now_ns();
	const char *why;
	char path[64];
	int err;

	err = name_of_its_own(object, path, sizeof(path));
	if (err)
		return rpi_fail(err, "%s: a descriptor for %s: %s", call, object->label,
				strerror(-err));
	object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!object->handle || dlinfo(object->handle, RTLD_DI_LINKMAP, &object->map)) {
		why = dlerror();
		return rpi_fail(-ENOEXEC, "%s: loading %s: %s", call, object->label,
				why ? why : "no reason given");
	}
	object->load_ns = rpi_now_ns() - begin_ns;
	/* Release: whoever counts it has it. */
	object->serial = atomic_fetch_add_explicit(&loaded, 1, memory_order_acq_rel) + 1;
	return 0;
}

/* dlsym() also finds what the object's dependencies define. */
static void *own_symbol(struct rpi_object *object, const char *symbol, unsigned char type)
{
	const ElfW(Sym) *entry = NULL;
	struct link_map *map = NULL;
	void *address;
	Dl_info info;

	address = *symbol ? dlsym(object->handle, symbol) : NULL;
	if (!address || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ||
	    map != object->map ||
	    !dladdr1(address, &info, (void **)&entry, RTLD_DL_SYMENT) || !entry ||
	    info.dli_saddr != address || ELF64_ST_TYPE(entry->st_info) != type)
		return NULL;
	return address;
}

int rpi_object_function(const char *call, struct rpi_object *object, const char *what,
			const char *symbol, void **fn_out)
{
	*fn_out = own_symbol(object, symbol, STT_FUNC);
	if (*fn_out)
		return 0;
	return rpi_fail(-ENOENT,
			"%s: %s: %s is '%s', which the object does not define as a "
			"function that it exports",
			call, object->label, what, symbol);
}

int rpi_object_datum(const char *call, struct rpi_object *object, const char *symbol,
		     void **datum_out)
{
	*datum_out = own_symbol(object, symbol, STT_OBJECT);
	if (*datum_out)
		return 0;
	return rpi_fail(-ENOENT, "%s: %s does not export '%s'", call, object->label,
			symbol);
}

void rpi_object_free(struct rpi_object *object)
{
	if (!object)
		return;
	if (object->handle)
		dlclose(object->handle);
	if (object->fd >= 0)
		close(object->fd);
	free(object->label);
	free(object);
}

size_t rpi_object_bytes(const struct rpi_object *object)
{
	return object->bytes;
}

uint64_t rpi_object_digest(const struct rpi_object *object)
{
	return object->digest;
}

const char *rpi_object_label(const struct rpi_object *object)
{
	return object->label;
}

uintptr_t rpi_object_base(const struct rpi_object *object)
{
	return object->map ? (uintptr_t)object->map->l_addr : 0;
}

uint64_t rpi_object_load_ns(const struct rpi_object *object)
{
	return object->load_ns;
}

const void *rpi_object_map(const struct rpi_object *object)
{
	void *bytes = mmap(NULL, object->bytes, PROT_READ, MAP_PRIVATE, object->fd, 0);

	return bytes == MAP_FAILED ? NULL : bytes;
}

void rpi_object_unmap(const struct rpi_object *object, const void *bytes)
{
	munmap((void *)bytes, object->bytes);
}

uint64_t rpi_object_serial(const struct rpi_object *object)
{
	return object->serial;
}

uint64_t rpi_object_count(void)
{
	/* Acquire: those that are counted are there. */
	return atomic_load_explicit(&loaded, memory_order_acquire);
}
