/* SPDX-License-Identifier: MIT */
#include "stored.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "result.h"

/* The most of a text that is kept: a path is the longest. */
#define TEXT_BYTES 4096

json_t *bench_stored_load(const char *path, const char *who)
{
	json_error_t error;
	json_t *root = json_load_file(path, 0, &error);

	if (!root) {
		rpi_fail(-EINVAL, "%s: '%s': %s", who, path, error.text);
		return NULL;
	}
	if (json_is_array(json_object_get(root, "results")))
		return root;
	rpi_fail(-EINVAL, "%s: '%s' has no results, expected a report of --json", who,
		 path);
	json_decref(root);
	return NULL;
}

json_t *bench_stored_string(const char *text)
{
	char plain[TEXT_BYTES];

	rpi_utf8_copy(plain, sizeof(plain), text);
	return json_string(plain);
}

json_t *bench_stored_new(void)
{
	return json_pack("{s:{}, s:{}, s:[], s:[]}", "report", "machine", "commands",
			 "results");
}

const char *bench_stored_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

double bench_stored_number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

bool bench_stored_is_rate(const json_t *result)
{
	return bench_unit_is_rate(bench_stored_text(result, "unit"));
}

json_t *bench_stored_find(const json_t *results, const char *name)
{
	json_t *result;
	size_t i;

	json_array_foreach(results, i, result)
	{
		if (!strcmp(bench_stored_text(result, "name"), name))
			return result;
	}
	return NULL;
}

static void add_results(json_t *into, const json_t *results)
{
	json_t *all = json_object_get(into, "results"), *result;
	size_t i;

	json_array_foreach(results, i, result)
	{
		const char *name = bench_stored_text(result, "name");

		if (name[0] && !bench_stored_find(all, name))
			json_array_append(all, result);
	}
}

/* The machine of the first report stands for all; what none could measure is kept. */
static void add_machine(json_t *into, const json_t *machine)
{
	json_t *all = json_object_get(into, "machine");
	json_t *skipped = json_object_get(machine, "skipped");

	if (!json_object_size(all)) {
		json_object_update(all, (json_t *)(uintptr_t)machine);
		json_object_set_new(all, "skipped", json_object());
	}
	json_object_update(json_object_get(all, "skipped"), skipped);
}

void bench_stored_add(json_t *into, const char *name, json_t *report, double seconds)
{
	json_t *machine = json_object_get(report, "machine");
	json_t *commands = json_object_get(report, "commands");
	json_t *none = json_object();

	if (json_is_array(commands))
		json_array_extend(json_object_get(into, "commands"), commands);
	else
		json_array_append_new(
			json_object_get(into, "commands"),
			json_pack("{s:o, s:n, s:o, s:O}", "name",
				  bench_stored_string(name), "error", "seconds",
				  seconds >= 0 ? json_real(seconds) : json_null(),
				  "machine", json_is_object(machine) ? machine : none));
	if (json_is_object(machine))
		add_machine(into, machine);
	add_results(into, json_object_get(report, "results"));
	json_decref(none);
}

void bench_stored_fail(json_t *into, const char *name, const char *why)
{
	json_t *commands = json_object_get(into, "commands"), *command;
	size_t i;

	json_array_foreach(commands, i, command)
	{
		if (strcmp(bench_stored_text(command, "name"), name))
			continue;
		json_object_set_new(command, "error", bench_stored_string(why));
		return;
	}
	json_array_append_new(commands,
			      json_pack("{s:o, s:o, s:n, s:{}}", "name",
					bench_stored_string(name), "error",
					bench_stored_string(why), "seconds", "machine"));
}
