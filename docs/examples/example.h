/* SPDX-License-Identifier: MIT */
/* What the examples have in common: their options, and what they do about an error. Of
 * ringplane this uses rp_last_error() alone. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/error.h>

#define EXAMPLE_OPTIONS_MAX 8

/* --name N, an int of min..max; with max 0 it is a switch, --name, that sets 1. */
struct example_option {
	const char *name, *help;
	int *value; /* holds the default */
	int min, max;
};

/* The program's own, without its folder. */
static const char *example_name = "example";

/* End the program if a call has failed, and say why. */
static inline void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", example_name, rp_last_error());
	exit(1);
}

static inline void example_help(const char *about, const struct example_option *options)
{
	printf("%s: %s\n\n", example_name, about);
	for (; options->name; options++)
		if (options->max)
			printf("  --%s N, %d..%d\n        %s; %d without it\n",
			       options->name, options->min, options->max, options->help,
			       *options->value);
		else
			printf("  --%s\n        %s\n", options->name, options->help);
}

static inline int example_number(const struct example_option *option, const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (end != text && !*end && number >= option->min && number <= option->max)
		return (int)number;
	fprintf(stderr, "%s: --%s %s, expected %d..%d\n", example_name, option->name,
		text, option->min, option->max);
	exit(2);
}

/* The command line. `options` ends with an empty one. --help and mistakes end the
 * program. */
static inline void example_options(int argc, char **argv, const char *about,
				   const struct example_option *options)
{
	struct option longs[EXAMPLE_OPTIONS_MAX + 2] = { { "help", no_argument, NULL,
							   'h' } };
	const char *slash = strrchr(argv[0], '/');
	int which, at;

	example_name = slash ? slash + 1 : argv[0];
	for (at = 0; at < EXAMPLE_OPTIONS_MAX && options[at].name; at++)
		longs[at + 1] = (struct option){ options[at].name,
						 options[at].max ? required_argument
								 : no_argument,
						 NULL, 1 };
	while ((which = getopt_long(argc, argv, "", longs, &at)) == 1)
		*options[at - 1].value =
			options[at - 1].max ? example_number(&options[at - 1], optarg)
					    : 1;
	if (which == 'h') {
		example_help(about, options);
		exit(0);
	}
	if (which == -1 && optind == argc)
		return;
	if (which == -1)
		fprintf(stderr, "%s: unexpected '%s'\n", example_name, argv[optind]);
	exit(2);
}

#endif
