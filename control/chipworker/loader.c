/* SPDX-License-Identifier: MIT */
/*
 * How a program comes to a chip whose process exists: as the argument of a dispatch. The
 * argument has the program's manifest, the places of its entries, and, unless the process
 * has that already, the shared object that they are in. The entry below rebuilds the
 * program in the chip.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/chip.h>
#include <ringplane/memory.h>

#include "base/digest.h"
#include "base/error.h"
#include "chip/server.h"
#include "chipworker/chip_worker.h"
#include "program/manifest.h"
#include "program/object.h"

/* What an entry function is told apart by, in another process. */
struct place {
	uint64_t at;   /* its address; inside the object, from the object's base */
	uint64_t base; /* of what it lies in, with no object; 0: not known */
	uint64_t name; /* digest of that one's file name */
};

/* The argument: this, the places, the manifest, the object. */
struct cargo {
	uint64_t entry_count;
	uint64_t manifest_bytes;
	uint64_t object_bytes; /* 0: the entries are where the process has them */
};

static struct place place_of(uintptr_t address)
{
	struct place place = { .at = address };
	Dl_info info;

	if (dladdr((void *)address, &info) && info.dli_fname) {
		place.base = (uintptr_t)info.dli_fbase;
		place.name = rpi_digest(RPI_DIGEST_BEGIN, info.dli_fname,
					strlen(info.dli_fname));
	}
	return place;
}

/* In the chip. -------------------------------------------------------------- */

static int find_entry(const struct cargo *cargo, struct rpi_object *object,
		      const struct place *place, struct rp_entry *entry)
{
	struct place here;

	if (cargo->object_bytes) {
		entry->fn = (rp_entry_fn)(uintptr_t)(rpi_object_base(object) + place->at);
		return 0;
	}
	here = place_of(place->at);
	if (here.base != place->base || here.name != place->name)
		return rpi_fail(-ENOEXEC,
				"entry '%s' lies in an object that was loaded after the "
				"worker was opened: load that before, or load the "
				"program from an artifact",
				entry->name);
	entry->fn = (rp_entry_fn)(uintptr_t)place->at;
	return 0;
}

static int rebuild(const struct cargo *cargo, struct rpi_object *object,
		   struct rp_program **program_out)
{
	const struct place *places = (const struct place *)(cargo + 1);
	const char *text = (const char *)(places + cargo->entry_count);
	struct rpi_manifest manifest;
	uint64_t i;
	int err;

	err = rpi_manifest_read("register", "manifest", text, cargo->manifest_bytes,
				&manifest);
	if (err)
		return err;
	for (i = 0; !err && i < cargo->entry_count; i++)
		err = find_entry(cargo, object, &places[i], &manifest.entries[i]);
	if (!err)
		err = rp_program_create(&manifest.desc, program_out);
	rpi_manifest_free(&manifest);
	return err;
}

static int load(const struct cargo *cargo, struct rp_program **program_out)
{
	const struct place *places = (const struct place *)(cargo + 1);
	const char *bytes =
		(const char *)(places + cargo->entry_count) + cargo->manifest_bytes;
	struct rpi_object *object = NULL;
	int err = 0;

	if (cargo->object_bytes)
		err = rpi_object_copy("register", bytes, cargo->object_bytes, "chip",
				      &object);
	if (!err && object)
		err = rpi_object_load("register", object);
	if (!err)
		err = rebuild(cargo, object, program_out);
	if (err)
		rpi_object_free(object);
	else
		(*program_out)->object = object;
	return err;
}

static int load_entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_program **programs = (struct rp_program **)chip->programs;
	const uint64_t idx = args[1].u.scalar.value.u64;
	int err;

	(void)nargs;
	err = load(args[0].u.tensor.data, &programs[idx]);
	return err ? rp_chip_fail(chip, err, "%s", rp_last_error()) : 0;
}

/* In the parent. ------------------------------------------------------------ */

int rpi_loader_create(const char *platform, const char *runtime,
		      struct rp_program **program_out)
{
	static const struct rp_param params[] = {
		{ .name = "cargo",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_UINT8,
		  .access = RP_IN,
		  .rank = 1,
		  .shape = { RP_DIM_ANY } },
		{ .name = "index", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	};
	static const struct rp_entry entry = { "load", load_entry };
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = "ringplane.loader";
	desc.platform = platform;
	desc.runtime = runtime;
	desc.params = params;
	desc.param_count = 2;
	desc.entries = &entry;
	desc.entry_count = 1;
	return rp_program_create(&desc, program_out);
}

/* Symbols and a file serve nobody here. */
static char *write_manifest(const struct rp_program *program)
{
	const struct rpi_manifest_object object = { .platform = program->platform,
						    .file = "none" };
	struct rpi_manifest_symbols symbols = { .orchestrate = NULL };
	const char **names = calloc(program->entry_count, sizeof(*names));
	char *text = NULL;
	uint32_t i;

	for (i = 0; names && i < program->entry_count; i++)
		names[i] = "";
	symbols.entries = names;
	if (names)
		text = rpi_manifest_write(program, &symbols, &object, NULL);
	free(names);
	return text;
}

static void fill_places(const struct rp_program *program, bool carried,
			struct place *places)
{
	uint32_t i;

	for (i = 0; i < program->entry_count; i++) {
		uintptr_t at = (uintptr_t)program->entries[i].fn;

		if (carried)
			places[i] = (struct place){ .at = at - rpi_object_base(
								       program->object) };
		else
			places[i] = place_of(at);
	}
}

static int pack(const struct rp_program *program, bool carried, const char *manifest,
		void **memory_out, size_t *bytes_out)
{
	const struct cargo cargo = {
		.entry_count = program->entry_count,
		.manifest_bytes = strlen(manifest),
		.object_bytes = carried ? rpi_object_bytes(program->object) : 0,
	};
	const size_t places_bytes = cargo.entry_count * sizeof(struct place);
	const void *object = NULL;
	uint8_t *at;
	int err;

	*bytes_out =
		sizeof(cargo) + places_bytes + cargo.manifest_bytes + cargo.object_bytes;
	if (carried && !(object = rpi_object_map(program->object)))
		return rpi_fail(-ENOMEM, "no memory to copy %s",
				rpi_object_label(program->object));
	err = rp_shared_alloc(*bytes_out, memory_out);
	if (!err) {
		at = memcpy(*memory_out, &cargo, sizeof(cargo));
		at += sizeof(cargo);
		fill_places(program, carried, (struct place *)(void *)at);
		at += places_bytes;
		memcpy(at, manifest, cargo.manifest_bytes);
		if (carried)
			memcpy(at + cargo.manifest_bytes, object, cargo.object_bytes);
	}
	if (carried)
		rpi_object_unmap(program->object, object);
	return err;
}

static int ship(struct rp_chip_worker *chip_worker, void *memory, size_t bytes,
		uint32_t idx)
{
	struct rp_arg args[2] = { [1] = rp_arg_u64(idx) };
	const int64_t shape[] = { (int64_t)bytes };
	struct rp_run_config config;
	struct rp_tensor tensor;
	int err;

	/* Nobody wants to capture this one. */
	rp_run_config_init(&config);
	config.capture.output_dir = "";
	err = rp_tensor_host(&tensor, memory, RP_UINT8, 1, shape);
	args[0] = rp_arg_tensor(tensor);
	return err ? err
		   : rp_worker_run(chip_worker->worker, chip_worker->loader, args, 2,
				   &config);
}

int rpi_loader_load(struct rp_chip_worker *chip_worker, const char *call,
		    struct rp_program *program, uint32_t idx)
{
	/* The process has what was loaded before it was forked. */
	const bool carried = program->object && rpi_object_serial(program->object) >
							chip_worker->object_count;
	char *manifest = write_manifest(program);
	char text[RPI_ERROR_BYTES];
	void *memory = NULL;
	size_t bytes;
	int err;

	if (!manifest)
		return rpi_fail(-EINVAL,
				"%s: '%s' has a name that is not UTF-8, or there is no "
				"memory",
				call, program->name);
	err = pack(program, carried, manifest, &memory, &bytes);
	free(manifest);
	if (!err)
		err = ship(chip_worker, memory, bytes, idx);
	rpi_format(text, sizeof(text), "%s", rp_last_error());
	rp_shared_free(memory);
	return err ? rpi_fail(err, "%s: '%s': %s", call, program->name, text) : 0;
}
