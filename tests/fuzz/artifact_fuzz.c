/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer's target for artifacts: any bytes are a manifest. What is accepted must be
 * written and read again as the same program; nothing may crash, leak or hang.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/artifact.h>

#include "base/error.h"
#include "dispatch/program.h"
#include "program/manifest.h"

/* One in so many goes through the file system and the whole loader. */
#define WHOLE 8

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static int entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	return (int)nargs;
}

static void insist(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "artifact_fuzz: %s: %s\n", what, rp_last_error());
	abort();
}

/* A program of what was read; functions stand in. NULL: it is refused. */
static struct rp_program *create(struct rpi_manifest *manifest)
{
	struct rp_program *program;
	size_t i;
	int err;

	for (i = 0; i < manifest->desc.entry_count; i++)
		manifest->entries[i].fn = entry;
	err = rp_program_create(&manifest->desc, &program);
	insist(!err || err == -EINVAL, "an error that is none of create's");
	return err ? NULL : program;
}

static void write_and_read(const struct rp_program *program,
			   const struct rpi_manifest *manifest)
{
	const struct rpi_manifest_object object = { .platform = program->platform,
						    .file = "x.so" };
	const struct rpi_manifest_symbols symbols = {
		.orchestrate = manifest->orchestrate,
		.entries = manifest->entry_symbols,
		.callbacks = manifest->callback_symbols,
	};
	char *text = rpi_manifest_write(program, &symbols, &object, NULL);
	struct rpi_manifest again;
	struct rp_program *same;

	insist(text != NULL, "what was read can't be written");
	insist(!rpi_manifest_read("fuzz", "again", text, strlen(text), &again),
	       "what was written can't be read");
	same = create(&again);
	insist(same && rp_program_identity(same) == rp_program_identity(program),
	       "another program came back");
	rp_program_free(same);
	rpi_manifest_free(&again);
	free(text);
}

static void load_whole(const uint8_t *bytes, size_t count)
{
	static char dir[] = "/tmp/ringplane-fuzz-XXXXXX";
	static char path[64];
	struct rp_program *program;
	int fd;

	if (!path[0]) {
		insist(mkdtemp(dir) != NULL, "no directory");
		snprintf(path, sizeof(path), "%s/manifest.json", dir);
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	insist(fd >= 0 && write(fd, bytes, count) == (ssize_t)count, "no file");
	close(fd);
	/* There is no object that it could have. */
	insist(rp_program_load(dir, NULL, &program) < 0, "loaded from nothing");
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static unsigned turn;
	struct rpi_manifest manifest;
	struct rp_program *program;
	int err;

	err = rpi_manifest_read("fuzz", "manifest", (const char *)bytes, count,
				&manifest);
	insist(!err || err == -EINVAL || err == -EOPNOTSUPP,
	       "an error that is none of the manifest's");
	if (!err) {
		program = create(&manifest);
		if (program)
			write_and_read(program, &manifest);
		rp_program_free(program);
		rpi_manifest_free(&manifest);
	}
	if (turn++ % WHOLE == 0)
		load_whole(bytes, count);
	return 0;
}
