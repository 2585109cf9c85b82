/* SPDX-License-Identifier: MIT */
#include "golden.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 16384

void golden_path(const char *name, char *path_out, size_t bytes)
{
	const char *dir = getenv("RINGPLANE_MODELS");

	snprintf(path_out, bytes, "%s/%s", dir ? dir : RINGPLANE_MODELS_DIR, name);
}

/* A JSON string as far as the file has them. */
static void unquote(const char *from, char *to, size_t bytes)
{
	size_t used = 0;

	for (from++; *from && *from != '"' && used + 1 < bytes; from++) {
		char byte = *from;

		if (byte == '\\') {
			from++;
			byte = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
		}
		to[used++] = byte;
	}
	to[used] = 0;
}

static size_t numbers(const char *from, int32_t *to)
{
	size_t count = 0;
	char *end;

	for (long value = strtol(from, &end, 10); end != from && count < GOLDEN_IDS;
	     value = strtol(from, &end, 10)) {
		to[count++] = (int32_t)value;
		from = end;
	}
	return count;
}

static void take(struct golden *g, const char *key, const char *value)
{
	if (strcmp(key, "prompt") == 0)
		unquote(value, g->prompt, sizeof(g->prompt));
	else if (strcmp(key, "text") == 0)
		unquote(value, g->text, sizeof(g->text));
	else if (strcmp(key, "steps") == 0)
		g->steps = (int32_t)strtol(value, NULL, 10);
	else if (strcmp(key, "prompt_ids") == 0)
		g->prompt_count = numbers(value, g->prompt_ids);
	else if (strcmp(key, "generated_ids") == 0)
		g->count = numbers(value, g->ids);
}

size_t golden_load(struct golden cases[GOLDEN_CASES])
{
	char path[4096], line[LINE_BYTES];
	size_t count = 0;
	FILE *file;

	golden_path("expected-greedy.txt", path, sizeof(path));
	file = fopen(path, "r");
	if (!file) {
		printf("skipped: no %s: set RINGPLANE_MODELS to where the models are\n",
		       path);
		return 0;
	}
	while (fgets(line, sizeof(line), file)) {
		char *tab = strchr(line, '\t');

		if (line[0] == '#' || !tab)
			continue;
		*tab++ = 0;
		tab[strcspn(tab, "\n")] = 0;
		if (strcmp(line, "case") == 0) {
			if (count == GOLDEN_CASES)
				break;
			memset(&cases[count], 0, sizeof(cases[count]));
			snprintf(cases[count].name, sizeof(cases[count].name), "%s", tab);
			count++;
		} else if (count) {
			take(&cases[count - 1], line, tab);
		}
	}
	fclose(file);
	return count;
}
