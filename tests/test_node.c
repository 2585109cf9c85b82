/* SPDX-License-Identifier: MIT */
/* Memory near a CPU: which node that is, for made-up machines, and that the kernel is
 * asked for it, on whatever machine this is. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <ringplane/ringplane.h>

#include "region/node.h"
#include "region/region.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MIB	     ((size_t)1 << 20)
#define WATCHDOG_S   120
#define NODES_MAX    1024

/* The nodes of a machine, "name cpulist" each; NULL ends them. */
static char root[] = "/tmp/test_node.XXXXXX";
static const char *real_root;

static void make_node(const char *name, const char *cpus)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0700), 0);
	if (!cpus)
		return;
	snprintf(path, sizeof(path), "%s/%s/cpulist", root, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fprintf(file, "%s\n", cpus) > 0);
	assert_int_equal(fclose(file), 0);
}

static void remove_node(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/cpulist", root, name);
	unlink(path);
	snprintf(path, sizeof(path), "%s/%s", root, name);
	rmdir(path);
}

static int set_up(void **state)
{
	(void)state;
	alarm(WATCHDOG_S);
	strcpy(root + strlen(root) - 6, "XXXXXX");
	real_root = rpi_node_root;
	rpi_node_root = mkdtemp(root);
	return rpi_node_root ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	rmdir(root);
	rpi_node_root = real_root;
	alarm(0);
	return 0;
}

static void the_node_of_a_cpu_is_the_one_that_lists_it(void **state)
{
	static const struct {
		const char *what;
		struct {
			const char *name, *cpus;
		} nodes[4];
		int cpu, want;
	} cases[] = {
		{ "one node", { { "node0", "0-3" } }, 0, -1 },
		{ "first of two", { { "node0", "0-3" }, { "node1", "4-7" } }, 3, 0 },
		{ "second of two", { { "node0", "0-3" }, { "node1", "4-7" } }, 4, 1 },
		{ "interleaved", { { "node0", "0,2,4" }, { "node1", "1,3,5" } }, 3, 1 },
		{ "several ranges",
		  { { "node0", "0-3,16-19" }, { "node1", "4-7,20-23" } },
		  22,
		  1 },
		{ "end of a range", { { "node0", "0-9" }, { "node1", "10-19" } }, 19, 1 },
		{ "not a prefix", { { "node0", "11" }, { "node1", "1" } }, 1, 1 },
		{ "gap in the numbers", { { "node0", "0" }, { "node7", "1" } }, 1, 7 },
		{ "memory alone", { { "node0", "0-1" }, { "node1", "" } }, 1, 0 },
		{ "no list", { { "node0", NULL }, { "node1", "1" } }, 1, 1 },
		{ "nonsense", { { "node0", "x" }, { "node1", "-" } }, 1, -1 },
		{ "no such cpu", { { "node0", "0-3" }, { "node1", "4-7" } }, 8, -1 },
		{ "not pinned", { { "node0", "0-3" }, { "node1", "4-7" } }, -1, -1 },
		{ "other directories",
		  { { "node0", "0" }, { "nodes", "1" }, { "node1x", "1" } },
		  0,
		  -1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		int node;

		for (size_t n = 0; n < 4 && cases[i].nodes[n].name; n++)
			make_node(cases[i].nodes[n].name, cases[i].nodes[n].cpus);
		node = rpi_node_of_cpu(cases[i].cpu);
		for (size_t n = 0; n < 4 && cases[i].nodes[n].name; n++)
			remove_node(cases[i].nodes[n].name);
		if (node != cases[i].want)
			fail_msg("%s: node %d, expected %d", cases[i].what, node,
				 cases[i].want);
	}
}

static void without_a_list_of_nodes_there_is_none(void **state)
{
	(void)state;
	rpi_node_root = "/nowhere/at/all";
	assert_int_equal(rpi_node_of_cpu(0), -1);
}

/* Mode and node of the policy at an address; a negative errno when that can't be asked.
 */
static int policy_at(void *at, int *mode_out, int *node_out)
{
	unsigned long mask[NODES_MAX / (sizeof(unsigned long) * CHAR_BIT)] = { 0 };

	*node_out = -1;
	if (syscall(SYS_get_mempolicy, mode_out, mask, (unsigned long)NODES_MAX, at,
		    (unsigned long)MPOL_F_ADDR))
		return -errno;
	for (int node = 0; node < NODES_MAX && *node_out < 0; node++)
		if (mask[(size_t)node / 64] & 1UL << node % 64)
			*node_out = node;
	return 0;
}

/* Whether this kernel keeps policies at all; says so when not. */
static bool has_policies(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	int err = rpi_node_prefer(at, 4096, 0);

	munmap(at, 4096);
	if (err)
		print_message("mbind() is not to be had: %s\n", strerror(-err));
	return !err;
}

static void assert_prefers(void *at, int node)
{
	int mode, got;

	assert_int_equal(policy_at(at, &mode, &got), 0);
	assert_int_equal(mode, MPOL_PREFERRED);
	assert_int_equal(got, node);
}

static void a_region_asks_for_its_node(void **state)
{
	struct rpi_region region;
	int mode, node;

	(void)state;
	if (!has_policies())
		skip();
	assert_int_equal(rpi_region_create_lazy(&region, "test", 4 * MIB, RP_PAGES_AUTO),
			 0);
	assert_int_equal(rpi_node_prefer(region.base, 2 * MIB, 0), 0);
	assert_prefers(region.base, 0);
	assert_prefers((uint8_t *)region.base + 2 * MIB - 4096, 0);
	/* And nothing beyond. */
	assert_int_equal(policy_at((uint8_t *)region.base + 2 * MIB, &mode, &node), 0);
	assert_int_equal(mode, MPOL_DEFAULT);
	assert_int_equal(rpi_region_populate(&region, 0, region.bytes), 0);
	rpi_region_destroy(&region);
}

static void no_node_asks_for_nothing(void **state)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	int mode, node;

	(void)state;
	assert_int_equal(rpi_node_prefer(at, 4096, -1), 0);
	if (!policy_at(at, &mode, &node))
		assert_int_equal(mode, MPOL_DEFAULT);
	munmap(at, 4096);
}

/* --- A worker -------------------------------------------------------------- */

/* What the chip found of the policy of its memory. */
struct found {
	int32_t err, mode, node;
};

static int look(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct found *found = args[0].u.tensor.data;

	(void)chip;
	(void)nargs;
	found->err = policy_at(found, &found->mode, &found->node);
	return 0;
}

static struct rp_program *make_program(void)
{
	static const struct rp_param param = { .name = "found",
					       .kind = RP_ARG_TENSOR,
					       .dtype = RP_INT32,
					       .access = RP_OUT,
					       .rank = 1,
					       .shape = { 3 } };
	static const struct rp_entry entry = { .name = "look", .fn = look };
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = "look";
	desc.params = &param;
	desc.param_count = 1;
	desc.entries = &entry;
	desc.entry_count = 1;
	assert_int_equal(rp_program_create(&desc, &program), 0);
	return program;
}

static void run_worker(const int *cpus, struct found *chip_out, struct found *chunks_out)
{
	struct rp_program *program = make_program();
	struct rp_region_info info[16];
	struct rp_worker_options options;
	const int64_t shape[] = { 3 };
	struct rp_worker *worker;
	struct rp_tensor tensor;
	struct rp_arg arg;
	void *shared;
	size_t count;

	assert_int_equal(rp_shared_alloc(sizeof(*chip_out), &shared), 0);
	rp_worker_options_init(&options);
	options.device_memory_bytes = 16 * MIB;
	options.chip_cpus = cpus;
	assert_int_equal(rp_worker_prepare(&program, 1, &options, &worker), 0);
	assert_int_equal(rp_tensor_host(&tensor, shared, RP_INT32, 1, shape), 0);
	arg = rp_arg_tensor(tensor);
	assert_int_equal(rp_worker_run(worker, program, &arg, 1, NULL), 0);
	memcpy(chip_out, shared, sizeof(*chip_out));
	memset(chunks_out, -1, sizeof(*chunks_out));
	count = rp_worker_memory_report(worker, info, COUNT(info));
	for (size_t i = 0; i < count; i++)
		if (!strcmp(info[i].name, "rp-staging"))
			chunks_out->err = policy_at(info[i].base, &chunks_out->mode,
						    &chunks_out->node);
	rp_worker_free(worker);
	rp_program_free(program);
	rp_shared_free(shared);
}

static void a_pinned_chip_has_its_memory_and_its_chunks_near(void **state)
{
	const int cpus[] = { 0 };
	struct found chip, chunks;

	(void)state;
	if (!has_policies())
		skip();
	/* As if the machine had a second node somewhere else. */
	make_node("node0", "0");
	make_node("node1", "1000");
	run_worker(cpus, &chip, &chunks);
	remove_node("node0");
	remove_node("node1");
	assert_int_equal(chip.err, 0);
	assert_int_equal(chip.mode, MPOL_PREFERRED);
	assert_int_equal(chip.node, 0);
	assert_int_equal(chunks.err, 0);
	assert_int_equal(chunks.mode, MPOL_PREFERRED);
	assert_int_equal(chunks.node, 0);
}

static void one_node_leaves_the_policy_alone(void **state)
{
	const int cpus[] = { 0 };
	struct found chip, chunks;

	(void)state;
	if (!has_policies())
		skip();
	make_node("node0", "0");
	run_worker(cpus, &chip, &chunks);
	remove_node("node0");
	assert_int_equal(chip.mode, MPOL_DEFAULT);
	assert_int_equal(chunks.mode, MPOL_DEFAULT);
}

static void a_chip_that_nothing_pins_is_anywhere(void **state)
{
	struct found chip, chunks;

	(void)state;
	if (!has_policies())
		skip();
	make_node("node0", "0");
	make_node("node1", "1000");
	run_worker(NULL, &chip, &chunks);
	remove_node("node0");
	remove_node("node1");
	assert_int_equal(chip.mode, MPOL_DEFAULT);
	assert_int_equal(chunks.mode, MPOL_DEFAULT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_node_of_a_cpu_is_the_one_that_lists_it),
		TEST(without_a_list_of_nodes_there_is_none),
		TEST(a_region_asks_for_its_node),
		TEST(no_node_asks_for_nothing),
		TEST(a_pinned_chip_has_its_memory_and_its_chunks_near),
		TEST(one_node_leaves_the_policy_alone),
		TEST(a_chip_that_nothing_pins_is_anywhere),
	};

	return cmocka_run_group_tests_name("test_node", tests, NULL, NULL);
}
