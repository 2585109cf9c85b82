/* SPDX-License-Identifier: MIT */
#include "capture/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "capture/session.h"
#include "worker/worker.h"

#define MARKER	    ".ringplane-capture"
#define MARKER_TEXT "ringplane capture 1\n"
#define PREFIX	    "dispatch_"
#define TEMPORARY   ".new-"

#define DIR_FLAGS   (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* A directory that the worker has captured into. */
struct seen_place {
	dev_t device;
	ino_t inode;
};

static int fail(int err, const char *dir, const char *path, const char *name)
{
	return rpi_fail(err, "rp_worker_submit: capture: '%s%s%s%s%s': %s", dir,
			path[0] ? "/" : "", path, name[0] ? "/" : "", name,
			strerror(-err));
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* --- What is ours --------------------------------------------------------- */

/* `prefix` and a number. */
static bool is_numbered(const char *name, const char *prefix)
{
	const size_t length = strlen(prefix);

	if (strncmp(name, prefix, length) != 0 || !name[length])
		return false;
	return strspn(name + length, "0123456789") == strlen(name + length);
}

static bool is_file_of_ours(const char *name)
{
	uint32_t i, k;

	if (!strncmp(name, TEMPORARY, strlen(TEMPORARY)))
		name += strlen(TEMPORARY);
	for (i = 0; i < rpi_collector_count; i++)
		for (k = 0; rpi_collectors[i]->files[k]; k++)
			if (!fnmatch(rpi_collectors[i]->files[k], name, 0))
				return true;
	return false;
}

/* Whether a capture made the directory. */
static bool has_marker(int dir)
{
	char text[sizeof(MARKER_TEXT)];
	ssize_t got;
	int fd = openat(dir, MARKER, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text));
	close(fd);
	return got == (ssize_t)strlen(MARKER_TEXT) &&
	       !memcmp(text, MARKER_TEXT, (size_t)got);
}

static int put_marker(int dir)
{
	int fd = rpi_descriptor_above_standard(openat(
		dir, MARKER, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
	ssize_t put;
	int err = 0;

	if (fd < 0)
		return fd;
	put = write(fd, MARKER_TEXT, strlen(MARKER_TEXT));
	if (put < 0)
		err = -errno;
	else if (put != (ssize_t)strlen(MARKER_TEXT))
		err = -ENOSPC;
	if (close(fd) && !err)
		err = -errno;
	/* Half of one would make the directory a foreigner's for ever. */
	if (err)
		(void)unlinkat(dir, MARKER, 0);
	return err;
}

/* Taken for as long as a capture has it open; the system gives it back if its process
 * dies. False: another one has it. */
static bool take(int dir)
{
	/* A file system without such locks is taken as it comes. */
	return !flock(dir, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
}

/* --- Removing it ---------------------------------------------------------- */

static DIR *list(int dir)
{
	/* A descriptor of its own, which closedir() closes, from the beginning on. */
	int fd = openat(dir, ".", DIR_FLAGS);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (!stream)
		close_fd(fd);
	return stream;
}

/* What stands in a directory that captures made. */
struct walk {
	const char *root; /* for error lines */
	const char *path;
	bool removes; /* otherwise it only looks */
};

static int walk_into(const struct walk *walk, int dir, uint32_t depth);

static int walk_entry(const struct walk *walk, int dir, const char *name, uint32_t depth)
{
	struct stat what;
	int sub, err;

	if (fstatat(dir, name, &what, AT_SYMLINK_NOFOLLOW))
		return fail(-errno, walk->root, walk->path, name);
	if (S_ISREG(what.st_mode) && is_file_of_ours(name)) {
		if (walk->removes && unlinkat(dir, name, 0))
			return fail(-errno, walk->root, walk->path, name);
		return 0;
	}
	if (!S_ISDIR(what.st_mode) || depth ||
	    (!is_numbered(name, "rank") && !is_numbered(name, "callback")))
		return rpi_fail(-ENOTEMPTY,
				"rp_worker_submit: capture: '%s/%s' holds '%s', which no "
				"capture wrote, expected it elsewhere",
				walk->root, walk->path, name);
	sub = openat(dir, name, DIR_FLAGS | O_NOFOLLOW);
	if (sub < 0)
		return fail(-errno, walk->root, walk->path, name);
	err = walk_into(walk, sub, depth + 1);
	close(sub);
	if (!err && walk->removes && unlinkat(dir, name, AT_REMOVEDIR))
		err = fail(-errno, walk->root, walk->path, name);
	return err;
}

static int walk_into(const struct walk *walk, int dir, uint32_t depth)
{
	DIR *stream = list(dir);
	struct dirent *entry;
	int err = 0;

	if (!stream)
		return fail(-errno, walk->root, walk->path, "");
	while (!err && (entry = readdir(stream)) != NULL) {
		const char *name = entry->d_name;

		/* The marker goes last: until then it is ours to remove. */
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    strcmp(name, MARKER) != 0)
			err = walk_entry(walk, dir, name, depth);
	}
	closedir(stream);
	return err;
}

/* Look first: what can't be removed as a whole is left as it is. */
static int empty_out(const char *root, const char *path, int dir)
{
	struct walk walk = { .root = root, .path = path };
	int err = walk_into(&walk, dir, 0);

	walk.removes = true;
	return err ? err : walk_into(&walk, dir, 0);
}

/* One that an earlier capture made; others are passed over, and one that is being made.
 */
static int remove_old(const struct rpi_place *place, const char *name)
{
	int dir = openat(place->root, name, DIR_FLAGS | O_NOFOLLOW);
	int err;

	if (dir < 0)
		return 0;
	if (!has_marker(dir) || !take(dir)) {
		close(dir);
		return 0;
	}
	err = empty_out(place->output_dir, name, dir);
	if (!err &&
	    (unlinkat(dir, MARKER, 0) || unlinkat(place->root, name, AT_REMOVEDIR)))
		err = fail(-errno, place->output_dir, name, "");
	close(dir);
	return err;
}

static int remove_all_old(const struct rpi_place *place)
{
	DIR *stream = list(place->root);
	struct dirent *entry;
	int err = 0;

	if (!stream)
		return fail(-errno, place->output_dir, "", "");
	while (!err && (entry = readdir(stream)) != NULL)
		if (is_numbered(entry->d_name, PREFIX))
			err = remove_old(place, entry->d_name);
	closedir(stream);
	return err;
}

/* --- Making it ------------------------------------------------------------ */

/* With its parents. */
static int make_path(const char *path)
{
	char part[PATH_MAX];
	char *slash = part;

	if (strlen(path) >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, strlen(path) + 1);
	while ((slash = strchr(slash + 1, '/')) != NULL) {
		*slash = '\0';
		/* What is wrong with a parent shows below. */
		(void)mkdir(part, 0777);
		*slash = '/';
	}
	return mkdir(path, 0777) && errno != EEXIST ? -errno : 0;
}

/* Without an error line. */
static int open_root(const char *output_dir, int *fd_out)
{
	int err = make_path(output_dir);

	*fd_out = err ? -1 : rpi_descriptor_above_standard(open(output_dir, DIR_FLAGS));
	return !err && *fd_out < 0 ? *fd_out : err;
}

/* The first time that the worker captures into it. */
static int greet(const struct rpi_place *place, struct rp_worker *worker)
{
	struct seen_place *places = worker->capture_places.at;
	struct stat what;
	uint32_t i;
	int err;

	if (fstat(place->root, &what))
		return fail(-errno, place->output_dir, "", "");
	for (i = 0; i < worker->capture_places.count; i++)
		if (places[i].device == what.st_dev && places[i].inode == what.st_ino)
			return 0;
	err = remove_all_old(place);
	if (err)
		return err;
	places = rpi_list_append(&worker->capture_places, 1, sizeof(*places));
	if (!places)
		return rpi_session_no_memory();
	*places = (struct seen_place){ what.st_dev, what.st_ino };
	return 0;
}

static bool is_empty(int dir)
{
	DIR *stream = list(dir);
	struct dirent *entry;
	bool empty = stream;

	while (empty && (entry = readdir(stream)) != NULL)
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	if (stream)
		closedir(stream);
	return empty;
}

/* Its own, empty but for the marker. */
static int open_dir(struct rpi_place *place)
{
	const bool made = !mkdirat(place->root, place->name, 0777);
	bool marked;
	int err = 0;

	if (!made && errno != EEXIST)
		return fail(-errno, place->output_dir, place->name, "");
	place->dir = rpi_descriptor_above_standard(
		openat(place->root, place->name, DIR_FLAGS | O_NOFOLLOW));
	if (place->dir < 0)
		return fail(place->dir, place->output_dir, place->name, "");
	if (!take(place->dir))
		return rpi_fail(-EBUSY,
				"rp_worker_submit: capture: '%s/%s' is being written by "
				"another worker, expected a directory for each",
				place->output_dir, place->name);
	marked = !made && has_marker(place->dir);
	if (marked)
		err = empty_out(place->output_dir, place->name, place->dir);
	else if (!made && !is_empty(place->dir))
		err = rpi_fail(-ENOTEMPTY,
			       "rp_worker_submit: capture: '%s/%s' is there, and no "
			       "capture made it, expected it elsewhere",
			       place->output_dir, place->name);
	if (!err && !marked) {
		err = put_marker(place->dir);
		if (err)
			fail(err, place->output_dir, place->name, MARKER);
	}
	if (err && made)
		(void)unlinkat(place->root, place->name, AT_REMOVEDIR);
	return err;
}

int rpi_place_open(struct rpi_place *place, struct rp_worker *worker,
		   const char *output_dir, uint64_t run)
{
	int err;

	*place = (struct rpi_place){
		.worker = worker, .output_dir = output_dir, .root = -1, .dir = -1
	};
	rpi_format(place->name, sizeof(place->name), PREFIX "%" PRIu64, run);
	err = open_root(output_dir, &place->root);
	if (err)
		return fail(err, output_dir, "", "");
	err = greet(place, worker);
	if (!err)
		err = open_dir(place);
	if (err) {
		close_fd(place->root);
		close_fd(place->dir);
	}
	return err;
}

void rpi_place_close(struct rpi_place *place, bool keep)
{
	/* Best effort: an empty directory misleads nobody. */
	if (!keep && !empty_out(place->output_dir, place->name, place->dir)) {
		(void)unlinkat(place->dir, MARKER, 0);
		(void)unlinkat(place->root, place->name, AT_REMOVEDIR);
	}
	close_fd(place->dir);
	close_fd(place->root);
}

int rpi_place_try(const char *call, const char *output_dir)
{
	char name[48];
	int root, fd = -1;
	int err = open_root(output_dir, &root);

	rpi_format(name, sizeof(name), TEMPORARY "%d", (int)getpid());
	if (!err)
		fd = openat(root, name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (!err && fd < 0 && errno != EEXIST)
		err = -errno;
	if (fd >= 0) {
		close(fd);
		(void)unlinkat(root, name, 0);
	}
	close_fd(root);
	return err ? rpi_fail(err, "%s: capture: '%s': %s", call, output_dir,
			      strerror(-err))
		   : 0;
}

/* --- Files ---------------------------------------------------------------- */

/* "" for what is about all. */
static void peer_name(const struct rpi_place *place, uint32_t peer, char *buf,
		      size_t bytes)
{
	const uint32_t chips = place->worker->plane.chip_count;

	if (peer == RPI_PLACE_ALL)
		buf[0] = '\0';
	else if (peer < chips)
		rpi_format(buf, bytes, "rank%u", peer);
	else
		rpi_format(buf, bytes, "callback%u", peer - chips);
}

/* The directory of a process. */
static int open_peer(const struct rpi_place *place, const char *name)
{
	if (!name[0])
		return rpi_descriptor_above_standard(openat(place->dir, ".", DIR_FLAGS));
	if (mkdirat(place->dir, name, 0777) && errno != EEXIST)
		return -errno;
	return rpi_descriptor_above_standard(
		openat(place->dir, name, DIR_FLAGS | O_NOFOLLOW));
}

static int write_new(int dir, const char *name, int (*put)(FILE *file, void *context),
		     void *context)
{
	FILE *file;
	int fd, err;

	fd = rpi_descriptor_above_standard(openat(
		dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
	if (fd < 0)
		return fd;
	file = fdopen(fd, "w");
	if (!file) {
		err = -errno;
		close(fd);
		return err;
	}
	errno = 0;
	err = put(file, context);
	if (!err && ferror(file))
		err = errno ? -errno : -EIO;
	if (fclose(file) && !err)
		err = -errno;
	return err;
}

int rpi_place_write(const struct rpi_place *place, uint32_t peer, const char *name,
		    int (*put)(FILE *file, void *context), void *context)
{
	char temporary[NAME_MAX + 1];
	char sub[24];
	char path[sizeof(place->name) + sizeof(sub) + 1];
	int dir, err;

	peer_name(place, peer, sub, sizeof(sub));
	rpi_format(path, sizeof(path), "%s%s%s", place->name, sub[0] ? "/" : "", sub);
	rpi_format(temporary, sizeof(temporary), TEMPORARY "%s", name);
	dir = open_peer(place, sub);
	if (dir < 0)
		return fail(dir, place->output_dir, path, "");
	err = write_new(dir, temporary, put, context);
	if (!err && renameat(dir, temporary, dir, name))
		err = -errno;
	if (err)
		(void)unlinkat(dir, temporary, 0);
	close(dir);
	return err ? fail(err, place->output_dir, path, name) : 0;
}
