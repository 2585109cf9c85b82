/* SPDX-License-Identifier: MIT */
/* What ringplane_add_program() runs: a shared object becomes an artifact directory. */
#include <stdio.h>
#include <string.h>

#include <ringplane/ringplane.h>

static int fail(void)
{
	fprintf(stderr, "rpprogram: %s\n", rp_last_error());
	return 1;
}

static int save(const char *object, const char *dir)
{
	struct rp_program *program;
	int err;

	if (rp_program_import(object, &program))
		return fail();
	err = rp_program_save(program, dir);
	rp_program_free(program);
	return err ? fail() : 0;
}

static int check(const char *dir)
{
	struct rp_program *program;

	if (rp_program_load(dir, NULL, &program))
		return fail();
	printf("%s: program '%s' for platform '%s', runtime '%s', identity %016llx\n",
	       dir, rp_program_name(program), rp_program_platform(program),
	       rp_program_runtime(program),
	       (unsigned long long)rp_program_identity(program));
	rp_program_free(program);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "save"))
		return save(argv[2], argv[3]);
	if (argc == 3 && !strcmp(argv[1], "check"))
		return check(argv[2]);
	fprintf(stderr, "usage: rpprogram save OBJECT DIRECTORY\n"
			"       rpprogram check DIRECTORY\n");
	return 2;
}
