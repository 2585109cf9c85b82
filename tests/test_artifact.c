/* SPDX-License-Identifier: MIT */
/*
 * Programs in directories. Arguments: two artifacts of the same sources, built with the
 * factors 2 and 3. Damage is done to copies of the first.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "noop.h"
#include "support.h"

#define LENGTH 64

static const char *twice_dir, *thrice_dir;
static char scratch[64]; /* a directory of each test's own */

static const char *in_scratch(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", scratch, file);
	return path;
}

static void copy_file(const char *from_dir, const char *file)
{
	static char bytes[1 << 20];
	char path[512];
	size_t count;
	FILE *from, *to;

	snprintf(path, sizeof(path), "%s/%s", from_dir, file);
	from = fopen(path, "r");
	assert_non_null(from);
	unlink(in_scratch(file));
	to = fopen(in_scratch(file), "w");
	assert_non_null(to);
	count = fread(bytes, 1, sizeof(bytes), from);
	assert_true(count && count < sizeof(bytes));
	assert_int_equal(fwrite(bytes, 1, count, to), count);
	fclose(from);
	fclose(to);
}

static void copy_artifact(const char *from_dir)
{
	copy_file(from_dir, "sim.so");
	copy_file(from_dir, "manifest.json");
}

static int scratch_setup(void **state)
{
	strcpy(scratch, "/tmp/ringplane-artifact-XXXXXX");
	if (!mkdtemp(scratch))
		return -1;
	copy_artifact(twice_dir);
	return bed_setup(state);
}

static int scratch_teardown(void **state)
{
	DIR *dir = opendir(scratch);
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (unlinkat(dirfd(dir), entry->d_name, 0))
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	closedir(dir);
	rmdir(scratch);
	return bed_teardown(state);
}

#define ARTIFACT_TEST(f) \
	cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

/* y of one run of the program on two chips must be factor * x + 100 + k. */
static void check_runs(struct rp_program *program, int64_t factor)
{
	int64_t *x = bed_shared(LENGTH * sizeof(*x), 0);
	int64_t *y = bed_shared(LENGTH * sizeof(*y), 0);
	struct bed bed = { .program = program };
	struct rp_worker_options options;

	for (int i = 0; i < LENGTH; i++)
		x[i] = i;
	bed_options(&options, 2);
	assert_ok(rp_worker_prepare(&program, 1, &options, &bed.worker));
	assert_ok(RUN(&bed, rp_arg_tensor(TENSOR(x, RP_INT64, LENGTH)),
		      rp_arg_tensor(TENSOR(y, RP_INT64, LENGTH)), rp_arg_i64(7)));
	for (int i = 0; i < LENGTH; i++)
		assert_int_equal(y[i], factor * i + 107);
	assert_int_equal(RUN(&bed, rp_arg_tensor(TENSOR(x, RP_INT64, LENGTH)),
			     rp_arg_tensor(TENSOR(y, RP_INT64, LENGTH)), rp_arg_i64(-1)),
			 -EIO);
	assert_says("entry 'refuse' of 'sample'", "refused by");
	assert_ok(rp_worker_close(bed.worker, RP_WAIT_FOREVER));
	rp_worker_free(bed.worker);
	rp_shared_free(x);
	rp_shared_free(y);
}

static void a_loaded_program_runs_on_every_chip(void **state)
{
	struct rp_program *program;

	(void)state;
	assert_ok(rp_program_load(scratch, NULL, &program));
	check_runs(program, 2);
	rp_program_free(program);
}

static void the_contract_can_be_read(void **state)
{
	struct rp_program_contract contract = { .size = sizeof(contract) };
	struct rp_program *program;
	struct rp_scalar bias;

	(void)state;
	assert_ok(rp_program_load(scratch, "sim", &program));
	assert_ok(rp_program_get_contract(program, &contract));
	assert_string_equal(contract.output_dir, scratch);
	assert_string_equal(contract.platform, "sim");
	assert_string_equal(contract.backend_type, "sim");
	assert_string_equal(contract.runtime_name, "tensormap_and_ringbuffer");
	assert_int_equal(contract.runtime_config->ring_task_window.ring[2], 64);
	assert_int_equal(contract.runtime_config->ring_heap.ring[2], 0);
	assert_int_equal(contract.output_count, 1);
	assert_int_equal(contract.output_indices[0], 1);
	assert_true(contract.has_return);
	assert_true(contract.domain_provider);
	assert_int_equal(contract.entry_count, 2);
	assert_string_equal(contract.entries[1].name, "refuse");
	assert_true(contract.load_ns > 0 && contract.assemble_ns > 0);
	assert_string_equal(rp_program_name(program), "sample");
	assert_int_equal(rp_program_param_count(program), 3);
	assert_string_equal(rp_program_param(program, 2)->name, "k");
	assert_string_equal(rp_program_param(program, 1)->dim_names[0], "n");
	assert_int_equal(rp_program_callback(program, "ask"), 1);
	assert_ok(rp_program_scalar(program, "bias", &bias));
	assert_int_equal(bias.value.i64, 100);
	contract.size = 8;
	assert_int_equal(rp_program_get_contract(program, &contract), -EINVAL);
	rp_program_free(program);
}

static void after_a_rebuild_a_load_finds_the_new_code(void **state)
{
	struct rp_program *before, *after;

	(void)state;
	assert_ok(rp_program_load(scratch, NULL, &before));
	copy_artifact(thrice_dir);
	assert_ok(rp_program_load(scratch, NULL, &after));
	check_runs(after, 3);
	check_runs(before, 2);
	assert_int_not_equal(rp_program_identity(before), rp_program_identity(after));
	rp_program_free(before);
	check_runs(after, 3);
	/* The descriptor of the first may be the third's. */
	copy_artifact(twice_dir);
	assert_ok(rp_program_load(scratch, NULL, &before));
	check_runs(before, 2);
	rp_program_free(before);
	rp_program_free(after);
}

static void rebuilt_in_place_it_is_new_as_well(void **state)
{
	struct rp_program *program;
	static char bytes[1 << 20];
	char path[512];
	ssize_t count;
	int from, to;

	(void)state;
	assert_ok(rp_program_load(scratch, NULL, &program));
	rp_program_free(program);
	/* The same inode, other bytes. */
	snprintf(path, sizeof(path), "%s/sim.so", thrice_dir);
	from = open(path, O_RDONLY);
	to = open(in_scratch("sim.so"), O_WRONLY | O_TRUNC);
	count = read(from, bytes, sizeof(bytes));
	assert_true(count > 0);
	assert_int_equal(write(to, bytes, (size_t)count), count);
	close(from);
	close(to);
	copy_file(thrice_dir, "manifest.json");
	assert_ok(rp_program_load(scratch, NULL, &program));
	check_runs(program, 3);
	rp_program_free(program);
}

static void saved_again_it_is_the_same(void **state)
{
	struct rp_program *program, *again;
	char copy[128];

	(void)state;
	snprintf(copy, sizeof(copy), "%s/again", scratch);
	assert_ok(rp_program_load(scratch, NULL, &program));
	assert_ok(rp_program_save(program, copy));
	assert_ok(rp_program_load(copy, NULL, &again));
	assert_int_equal(rp_program_identity(program), rp_program_identity(again));
	check_runs(again, 2);
	rp_program_free(again);
	rp_program_free(program);
	unlink(in_scratch("again/sim.so"));
	unlink(in_scratch("again/manifest.json"));
}

static void what_can_not_be_saved_is_refused(void **state)
{
	struct rp_entry entry = { "noop", noop_entry };
	struct rp_program_desc desc;
	struct rp_program *program;

	(void)state;
	rp_program_desc_init(&desc);
	desc.name = "here";
	desc.entries = &entry;
	desc.entry_count = 1;
	assert_ok(rp_program_create(&desc, &program));
	assert_int_equal(rp_program_save(program, scratch), -EINVAL);
	assert_says("rp_program_save", "entry 'noop'", "expected");
	assert_int_equal(rp_program_save(program, NULL), -EINVAL);
	assert_int_equal(rp_program_save(NULL, scratch), -EINVAL);
	rp_program_free(program);
	desc.platform = "../sim";
	assert_ok(rp_program_create(&desc, &program));
	assert_int_equal(rp_program_save(program, scratch), -EINVAL);
	assert_says("platform '../sim'");
	rp_program_free(program);
	assert_ok(rp_program_load(scratch, NULL, &program));
	assert_int_equal(rp_program_save(program, "/proc/nowhere/a"), -ENOENT);
	assert_says("rp_program_save", "/proc/nowhere/a");
	rp_program_free(program);
}

/* --- Damage ---------------------------------------------------------------- */

static json_t *read_manifest(void)
{
	json_t *manifest = json_load_file(in_scratch("manifest.json"), 0, NULL);

	assert_non_null(manifest);
	return manifest;
}

static void write_manifest(json_t *manifest)
{
	assert_int_equal(json_dump_file(manifest, in_scratch("manifest.json"), 0), 0);
	json_decref(manifest);
}

static void write_text(const char *file, const char *text)
{
	FILE *to = fopen(in_scratch(file), "w");

	assert_non_null(to);
	fputs(text, to);
	fclose(to);
}

/* The member at a path of keys and indices, "params.0.dtype", becomes this JSON; NULL: it
 * goes. */
static void set(const char *path, const char *value)
{
	json_t *manifest = read_manifest();
	json_t *at = manifest;
	char parts[128];
	char *part, *next, *save;

	snprintf(parts, sizeof(parts), "%s", path);
	part = strtok_r(parts, ".", &save);
	while ((next = strtok_r(NULL, ".", &save))) {
		at = json_is_array(at) ? json_array_get(at, (size_t)atoi(part))
				       : json_object_get(at, part);
		assert_non_null(at);
		part = next;
	}
	if (json_is_array(at))
		json_array_set_new(at, (size_t)atoi(part),
				   json_loads(value, JSON_DECODE_ANY, NULL));
	else if (value)
		json_object_set_new(at, part, json_loads(value, JSON_DECODE_ANY, NULL));
	else
		json_object_del(at, part);
	write_manifest(manifest);
}

static void a_manifest_with_a_wrong_member_is_refused(void **state)
{
	static const struct {
		const char *path, *value;
		int err;
		const char *needles[2];
	} cases[] = {
		{ "format", "\"zip\"", -EINVAL, { "format is 'zip'" } },
		{ "format", NULL, -EINVAL, { "format is missing" } },
		{ "version", "2", -EOPNOTSUPP, { "version is 2", "reads 1" } },
		{ "version", "1.0", -EINVAL, { "version is no whole number" } },
		{ "version", "-1", -EINVAL, { "version is -1" } },
		{ "name", "\"\"", -EINVAL, { "name is empty" } },
		{ "name", "7", -EINVAL, { "name is no text" } },
		{ "extra", "1", -EINVAL, { "extra is not known" } },
		{ "platform", "\"a2a3\"", -ENOENT, { "platform 'a2a3'", "sim" } },
		{ "platform", "null", -EINVAL, { "platform is no text" } },
		{ "runtime", "[]", -EINVAL, { "runtime is no object" } },
		{ "runtime.name", NULL, -EINVAL, { "runtime.name is missing" } },
		{ "runtime.more", "1", -EINVAL, { "runtime.more is not known" } },
		{ "runtime.config", "3", -EINVAL, { "runtime.config is no object" } },
		{ "runtime.config", "{}", -EINVAL, { "ring_task_window is missing" } },
		{ "runtime.config.ring_heap", "[1]", -EINVAL, { "1 sizes, expected 4" } },
		{ "runtime.config.ring_heap.1", "true", -EINVAL, { "place 1" } },
		{ "runtime.config.ring_heap.1", "1000", -EINVAL, { "power of" } },
		{ "domain_provider", "1", -EINVAL, { "neither true nor false" } },
		{ "chip_count", "65", -EINVAL, { "chip_count is 65", "0..64" } },
		{ "chip_count", "\"1\"", -EINVAL, { "chip_count is no whole number" } },
		{ "callback_workers", "9", -EINVAL, { "callback_workers 9" } },
		{ "params", "{}", -EINVAL, { "params is no array" } },
		{ "params.0", "5", -EINVAL, { "params[0] is no object" } },
		{ "params.1.name", "\"x\"", -EINVAL, { "both named 'x'" } },
		{ "params.0.name", "null", -EINVAL, { "no name" } },
		{ "params.0.kind", "\"ten\"", -EINVAL, { "params[0].kind is 'ten'" } },
		{ "params.0.dtype", "\"int63\"", -EINVAL, { "dtype is 'int63'" } },
		{ "params.0.access", "\"io\"", -EINVAL, { "access is 'io'" } },
		{ "params.0.shape", "[]", -EINVAL, { "rank 0" } },
		{ "params.0.shape", "[1,2,3,4,5,6]", -EINVAL, { "6 dims", "most 5" } },
		{ "params.0.shape", "[0]", -EINVAL, { "shape", "place 0" } },
		{ "params.0.shape", "[\"\"]", -EINVAL, { "shape", "place 0" } },
		{ "params.0.shape", "[1.5]", -EINVAL, { "shape", "place 0" } },
		{ "params.0.unit", "1", -EINVAL, { "params[0].unit is not known" } },
		{ "params.2.shape", "[]", -EINVAL, { "params[2].shape is not known" } },
		{ "scalars.0.bits", "\"64\"", -EINVAL, { "bits is '64'", "16 digits" } },
		{ "scalars.0.bits", "\"00000000000000640\"", -EINVAL, { "16 digits" } },
		{ "scalars.0.dtype", "\"float16\"", -EINVAL, { "'bias' " } },
		{ "scalars.0.name", "\"k\"", -EINVAL, { "both named 'k'" } },
		{ "orchestrate", "\"nobody\"", -ENOENT, { "'nobody'", "orchestration" } },
		{ "orchestrate", "5", -EINVAL, { "orchestrate is no text" } },
		{ "entries", "[]", -EINVAL, { "entry_count 0" } },
		{ "entries.0.symbol", "\"scale2\"", -ENOENT, { "'scale2'", "'scale'" } },
		/* What other objects define is not the program's. */
		{ "entries.0.symbol", "\"system\"", -ENOENT, { "'system'" } },
		{ "entries.0.symbol", "\"rp_chip_fail\"", -ENOENT, { "'rp_chip_fail'" } },
		{ "entries.0.symbol", "\"rp_program_object\"", -ENOENT, { "function" } },
		{ "entries.0.symbol", "\"\"", -ENOENT, { "''" } },
		{ "entries.0.symbol", "null", -EINVAL, { "symbol is no text" } },
		{ "callbacks.0.symbol", "\"gone\"", -ENOENT, { "callback 'tell'" } },
		{ "callbacks.0.optional", "0", -EINVAL, { "callbacks[0].optional" } },
		{ "callbacks.0.signature", "7", -EINVAL, { "signature is no array" } },
		{ "callbacks.0.signature.0", "[]", -EINVAL, { "signature[0]" } },
		{ "objects", "{}", -ENOENT, { "no object for platform 'sim'" } },
		{ "objects", "[]", -EINVAL, { "objects is no object" } },
		{ "objects.sim", "\"sim.so\"", -EINVAL, { "objects.sim is no object" } },
		{ "objects.sim.file", "\"../sim.so\"", -EINVAL, { "inside" } },
		{ "objects.sim.file", "\"/bin/true\"", -EINVAL, { "inside" } },
		{ "objects.sim.file", "\"..\"", -EINVAL, { "inside" } },
		{ "objects.sim.file", "\"\"", -EINVAL, { "inside" } },
		{ "objects.sim.file", "\"gone.so\"", -ENOENT, { "gone.so" } },
		{ "objects.sim.bytes", "77", -EBADMSG, { "says 77" } },
		{ "objects.sim.digest",
		  "\"0123456789abcdef\"",
		  -EBADMSG,
		  { "says 0123" } },
		{ "objects.sim.digest", "\"0123456789ABCDEF\"", -EINVAL, { "digits" } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rp_program *program = (void *)1;
		int err;

		copy_artifact(twice_dir);
		set(cases[i].path, cases[i].value);
		err = rp_program_load(scratch, NULL, &program);
		if (err != cases[i].err)
			fail_msg("%s = %s: %d (%s), expected %d", cases[i].path,
				 cases[i].value, err, rp_last_error(), cases[i].err);
		assert_ptr_equal(program, (void *)1);
		assert_says("rp_program_load", scratch);
		for (size_t n = 0; n < 2; n++)
			if (cases[i].needles[n])
				assert_says(cases[i].needles[n]);
	}
}

static void a_text_that_is_no_manifest_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"null",
		"{\"format\":",
		"\xff",
		"{\"a\":1,\"a\":2}",
		"{} {}",
		"{\"a\": \"\\u0000\"}",
		"1e999",
		"{\"version\": 99999999999999999999}",
	};
	static char deep[100000];
	struct rp_program *program;

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		write_text("manifest.json", texts[i]);
		assert_int_equal(rp_program_load(scratch, NULL, &program), -EINVAL);
		assert_says("manifest.json");
	}
	memset(deep, '[', sizeof(deep) - 1);
	write_text("manifest.json", deep);
	assert_int_equal(rp_program_load(scratch, NULL, &program), -EINVAL);
	/* Any beginning of a good one. */
	for (long bytes = 0; bytes < 2000; bytes += 97) {
		copy_artifact(twice_dir);
		assert_int_equal(truncate(in_scratch("manifest.json"), bytes), 0);
		assert_int_equal(rp_program_load(scratch, NULL, &program), -EINVAL);
	}
}

static void a_file_that_is_not_what_it_was_is_refused(void **state)
{
	struct rp_program *program;
	struct stat stat_of;
	char byte = 0;
	int fd;

	(void)state;
	assert_int_equal(stat(in_scratch("sim.so"), &stat_of), 0);
	assert_int_equal(truncate(in_scratch("sim.so"), stat_of.st_size / 2), 0);
	assert_int_equal(rp_program_load(scratch, NULL, &program), -EBADMSG);
	assert_says("sim.so", "bytes", "its manifest says");
	copy_artifact(twice_dir);
	fd = open(in_scratch("sim.so"), O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, stat_of.st_size / 2), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, stat_of.st_size / 2), 1);
	close(fd);
	assert_int_equal(rp_program_load(scratch, NULL, &program), -EBADMSG);
	assert_says("sim.so", "digest", "its manifest says");
	assert_int_equal(truncate(in_scratch("sim.so"), 0), 0);
	assert_int_equal(rp_program_load(scratch, NULL, &program), -EINVAL);
	assert_says("sim.so has 0 bytes");
	unlink(in_scratch("sim.so"));
	assert_int_equal(rp_program_load(scratch, NULL, &program), -ENOENT);
	assert_says("sim.so");
	assert_int_equal(symlink("/bin/true", in_scratch("sim.so")), 0);
	assert_int_equal(rp_program_load(scratch, NULL, &program), -ELOOP);
	unlink(in_scratch("sim.so"));
	assert_int_equal(mkfifo(in_scratch("sim.so"), 0600), 0);
	assert_int_equal(rp_program_load(scratch, NULL, &program), -EINVAL);
	assert_says("no regular file");
	unlink(in_scratch("sim.so"));
	assert_int_equal(mkdir(in_scratch("sim.so"), 0700), 0);
	assert_int_equal(rp_program_load(scratch, NULL, &program), -EINVAL);
	assert_says("no regular file");
	unlink(in_scratch("manifest.json"));
	assert_int_equal(rp_program_load(scratch, NULL, &program), -ENOENT);
	assert_says("manifest.json");
	assert_int_equal(rp_program_load("/tmp/no/such", NULL, &program), -ENOENT);
	assert_says("/tmp/no/such");
	assert_int_equal(rp_program_load(NULL, NULL, &program), -EINVAL);
	assert_int_equal(rp_program_load(scratch, NULL, NULL), -EINVAL);
}

/* An object that no linker takes, described as it is. */
static void an_object_that_is_no_program_is_refused(void **state)
{
	struct rp_program *program;

	(void)state;
	write_text("sim.so", "not an object");
	set("objects.sim.bytes", "13");
	assert_int_equal(rp_program_load(scratch, NULL, &program), -EBADMSG);
	/* FNV-1a of it. */
	set("objects.sim.digest", "\"dd63a28e8a957270\"");
	assert_int_equal(rp_program_load(scratch, NULL, &program), -ENOEXEC);
	assert_says("loading", "sim.so");
	assert_int_equal(rp_program_import(in_scratch("sim.so"), &program), -ENOEXEC);
	assert_int_equal(rp_program_import(in_scratch("gone.so"), &program), -ENOENT);
	assert_int_equal(rp_program_import(NULL, &program), -EINVAL);
}

static void without_a_domain_provider_persistent_is_refused(void **state)
{
	struct rp_worker_options options;
	struct rp_worker *worker = NULL;
	struct rp_program *program;

	(void)state;
	set("domain_provider", "false");
	assert_ok(rp_program_load(scratch, NULL, &program));
	bed_options(&options, 2);
	options.persistent = true;
	/* Were it not refused before any fork, it would be a process too many. */
	options.startup_timeout_s = 1e-9;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), -EINVAL);
	assert_says("'sample'", scratch, "domain provider", "persistent");
	rp_program_free(program);
}

static void another_platform_is_refused_by_the_worker(void **state)
{
	json_t *manifest = read_manifest();
	json_t *objects = json_object_get(manifest, "objects");
	struct rp_worker *worker = NULL;
	struct rp_program *program;

	(void)state;
	json_object_set(objects, "a2a3", json_object_get(objects, "sim"));
	write_manifest(manifest);
	assert_ok(rp_program_load(scratch, "a2a3", &program));
	assert_string_equal(rp_program_platform(program), "a2a3");
	assert_int_equal(
		rp_worker_prepare(&program, 1,
				  &(struct rp_worker_options){
					  .size = sizeof(struct rp_worker_options),
					  .startup_timeout_s = 1,
					  .ring_fd = -1,
					  .backend = "sim" },
				  &worker),
		-EINVAL);
	assert_says("'sample'", "'a2a3'", "'sim'");
	rp_program_free(program);
	assert_int_equal(rp_program_load(scratch, "a5", &program), -ENOENT);
	assert_says("'a5'", "sim", "a2a3");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		ARTIFACT_TEST(a_loaded_program_runs_on_every_chip),
		ARTIFACT_TEST(the_contract_can_be_read),
		ARTIFACT_TEST(after_a_rebuild_a_load_finds_the_new_code),
		ARTIFACT_TEST(rebuilt_in_place_it_is_new_as_well),
		ARTIFACT_TEST(saved_again_it_is_the_same),
		ARTIFACT_TEST(what_can_not_be_saved_is_refused),
		ARTIFACT_TEST(a_manifest_with_a_wrong_member_is_refused),
		ARTIFACT_TEST(a_text_that_is_no_manifest_is_refused),
		ARTIFACT_TEST(a_file_that_is_not_what_it_was_is_refused),
		ARTIFACT_TEST(an_object_that_is_no_program_is_refused),
		ARTIFACT_TEST(without_a_domain_provider_persistent_is_refused),
		ARTIFACT_TEST(another_platform_is_refused_by_the_worker),
	};

	if (argc != 3)
		return 2;
	twice_dir = argv[1];
	thrice_dir = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
