/* SPDX-License-Identifier: MIT */
#include "case.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

bool bench_plan_has(const struct bench_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->case_count; i++)
		if (!strcmp(plan->cases[i].name, name))
			return true;
	for (size_t i = 0; i < plan->derived_count; i++)
		if (!strcmp(plan->derived[i].name, name))
			return true;
	return false;
}

int bench_plan_add(struct bench_plan *plan, const struct bench_case *c)
{
	struct bench_case *grown;

	assert(c->name[0] && !bench_plan_has(plan, c->name));
	assert(!bench_unit_is_rate(c->unit) || c->per_sample > 0.0);
	grown = realloc(plan->cases, (plan->case_count + 1) * sizeof(*grown));
	if (!grown)
		return rpi_fail(-ENOMEM, "plan: no memory for %s", c->name);
	plan->cases = grown;
	plan->cases[plan->case_count++] = *c;
	return 0;
}

int bench_plan_derive(struct bench_plan *plan, const char *name, const char *unit,
		      const char *limits, const char *needs)
{
	struct bench_derived *grown, *derived;

	assert(!bench_plan_has(plan, name));
	grown = realloc(plan->derived, (plan->derived_count + 1) * sizeof(*grown));
	if (!grown)
		return rpi_fail(-ENOMEM, "plan: no memory for %s", name);
	plan->derived = grown;
	derived = &plan->derived[plan->derived_count++];
	memset(derived, 0, sizeof(*derived));
	rpi_format(derived->name, sizeof(derived->name), "%s", name);
	derived->unit = unit;
	derived->limits = limits;
	derived->needs = needs;
	return 0;
}

/* Whether `name` is one of the names parted by '|'. */
static bool names_hold(const char *names, const char *name)
{
	size_t length = strlen(name);

	while (names && *names) {
		size_t part = strcspn(names, "|");

		if (part == length && !strncmp(names, name, length))
			return true;
		names += part + (names[part] == '|');
	}
	return false;
}

/* Whether one of the patterns parted by '|' matches. */
static bool patterns_match(const char *patterns, const char *name)
{
	char pattern[BENCH_NAME_BYTES];

	while (*patterns) {
		size_t part = strcspn(patterns, "|");

		rpi_format(pattern, sizeof(pattern), "%.*s", (int)part, patterns);
		if (!fnmatch(pattern, name, 0))
			return true;
		patterns += part + (patterns[part] == '|');
	}
	return false;
}

/* Whether something that is kept asks for this case, or for this derived line. */
static bool is_needed(const struct bench_plan *plan, const bool *keep_case,
		      const bool *keep_derived, const char *name)
{
	for (size_t i = 0; i < plan->case_count; i++)
		if (keep_case[i] && names_hold(plan->cases[i].limits, name))
			return true;
	for (size_t i = 0; i < plan->derived_count; i++)
		if (keep_derived[i] && (names_hold(plan->derived[i].limits, name) ||
					patterns_match(plan->derived[i].needs, name)))
			return true;
	return false;
}

/* Marks what is needed until a pass finds nothing more. */
static void close_over_needs(const struct bench_plan *plan, bool *keep_case,
			     bool *keep_derived)
{
	bool again = true;

	while (again) {
		again = false;
		for (size_t i = 0; i < plan->case_count; i++) {
			if (keep_case[i] || !is_needed(plan, keep_case, keep_derived,
						       plan->cases[i].name))
				continue;
			keep_case[i] = true;
			again = true;
		}
		for (size_t i = 0; i < plan->derived_count; i++) {
			if (keep_derived[i] || !is_needed(plan, keep_case, keep_derived,
							  plan->derived[i].name))
				continue;
			keep_derived[i] = true;
			again = true;
		}
	}
}

int bench_plan_select(struct bench_plan *plan, const char *pattern)
{
	bool *keep, *keep_case, *keep_derived, any = false;
	size_t kept = 0;

	if (!pattern)
		return 0;
	keep = calloc(plan->case_count + plan->derived_count + 1, sizeof(*keep));
	if (!keep)
		return rpi_fail(-ENOMEM, "--only: no memory");
	keep_case = keep;
	keep_derived = keep + plan->case_count;

	for (size_t i = 0; i < plan->case_count; i++)
		any |= keep_case[i] = !fnmatch(pattern, plan->cases[i].name, 0);
	for (size_t i = 0; i < plan->derived_count; i++)
		any |= keep_derived[i] = !fnmatch(pattern, plan->derived[i].name, 0);
	close_over_needs(plan, keep_case, keep_derived);

	for (size_t i = 0; i < plan->case_count; i++)
		if (keep_case[i])
			plan->cases[kept++] = plan->cases[i];
	plan->case_count = kept;
	kept = 0;
	for (size_t i = 0; i < plan->derived_count; i++)
		if (keep_derived[i])
			plan->derived[kept++] = plan->derived[i];
	plan->derived_count = kept;
	free(keep);
	if (!any)
		return rpi_fail(-ENOENT,
				"--only: \"%s\", expected a pattern that matches a name",
				pattern);
	return 0;
}

void bench_plan_free(struct bench_plan *plan)
{
	free(plan->cases);
	free(plan->derived);
	memset(plan, 0, sizeof(*plan));
}
