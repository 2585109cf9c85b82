/* SPDX-License-Identifier: MIT */
/* Graphs of tasks and kernels: the edges are those worked out by hand, with their
 * reasons, and Graphviz takes the file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture_bed.h"
#include "noop.h"

#define FORMAT "ringplane.dep_gen"

/* --- Tasks ------------------------------------------------------------------ */

static int task(struct rp_run *run, int chip, struct rp_arg first, struct rp_arg second)
{
	const struct rp_arg args[] = { first, second };
	const struct rp_task task = {
		.entry = 0, .chip = chip, .args = args, .arg_count = 2
	};

	return rp_run_task(run, &task);
}

/* x has two halves. 0: chip 0 writes the first, reads y. 1: chip 1 writes the second,
 * reads y. 2: chip 0 reads all of x, writes y. 3: the callback reads y. */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	struct rp_tensor half[2];
	struct rp_arg y = rp_in(args[1].u.tensor);
	int err = 0;

	(void)nargs, (void)user;
	for (int i = 0; !err && i < 2; i++) {
		err = rp_tensor_slice(&args[0].u.tensor, 0, i * 4, 4, 1, &half[i]);
		if (!err)
			err = task(run, i, rp_out(half[i]), rp_in(args[1].u.tensor));
	}
	if (!err)
		err = task(run, 0, rp_in(args[0].u.tensor), rp_out(args[1].u.tensor));
	return err ? err : rp_run_callback(run, 0, &y, 1);
}

static bool has_edge(const json_t *edges, int from, int to, const char *reason,
		     const char *memory)
{
	const json_t *edge;
	size_t i;

	json_array_foreach(edges, i, edge)
	{
		if (capture_number(edge, "from") != from ||
		    capture_number(edge, "to") != to ||
		    strcmp(capture_text(edge, "reason"), reason) != 0)
			continue;
		if (!memory ? !json_object_get(edge, "memory")
			    : !strcmp(capture_text(edge, "memory"), memory))
			return true;
	}
	return false;
}

/* Every edge's ends are nodes, and lead onwards. */
static void check_ends(const json_t *edges, size_t nodes)
{
	const json_t *edge;
	size_t i;

	json_array_foreach(edges, i, edge)
	{
		assert_true(capture_number(edge, "from") < capture_number(edge, "to"));
		assert_in_range(capture_number(edge, "from"), 0, nodes - 1);
		assert_in_range(capture_number(edge, "to"), 0, nodes - 1);
	}
}

/* By Graphviz where it is installed; and it is balanced, and each statement ends. */
static void check_dot(const struct capture_bed *files, const char *name)
{
	char path[256], command[600], line[512];
	int depth = 0, lines = 0;
	FILE *file;

	capture_path(files, path, sizeof(path), "%s", name);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		const size_t length = strcspn(line, "\n");

		assert_true(length > 0);
		assert_non_null(strchr("{};", line[length - 1]));
		depth += line[length - 1] == '{';
		depth -= line[length - 1] == '}';
		assert_true(depth >= 0);
		lines++;
	}
	fclose(file);
	assert_int_equal(depth, 0);
	assert_true(lines >= 2);
	if (system("command -v dot >/dev/null 2>&1") != 0) {
		print_message("no 'dot' here: the file is judged by its form alone\n");
		return;
	}
	snprintf(command, sizeof(command), "dot -Tplain '%s' >/dev/null", path);
	assert_int_equal(system(command), 0);
}

static void tasks_follow_by_the_memory_that_they_share(void **state)
{
	static const struct rp_entry touch = { "touch", noop_entry };
	struct rp_param params[] = { capture_words, capture_words };
	struct rp_worker_options options;
	struct rp_run_config config;
	struct capture_bed files;
	const json_t *edges;
	int64_t *data;
	struct bed bed;
	json_t *root;

	(void)state;
	params[0].name = "x";
	params[1].name = "y";
	bed_options(&options, 2);
	capture_prepare(&bed,
			(struct rp_program_desc){ .name = "graph",
						  .params = params,
						  .param_count = COUNT(params),
						  .entries = &touch,
						  .callbacks = &capture_look,
						  .callback_count = 1,
						  .orchestrate = orchestrate },
			&options);
	capture_open(&files, &config);
	config.capture.enable_dep_gen = true;
	data = bed_shared(4096, 0);
	const struct rp_arg args[] = { rp_arg_tensor(TENSOR(data, RP_INT64, 8)),
				       rp_arg_tensor(TENSOR(data + 8, RP_INT64, 8)) };
	assert_ok(rp_worker_run(bed.worker, NULL, args, 2, &config));
	/* Its files and no others. */
	assert_int_equal(capture_count(&files, "dispatch_1"), 2 + 3);
	assert_int_equal(capture_count(&files, "dispatch_1/rank1"), 2);
	root = capture_load(&files, "dispatch_1/dep_gen.json", FORMAT);
	assert_true(json_is_true(json_object_get(root, "whole")));
	assert_int_equal(capture_number(root, "passes"), 1);
	assert_int_equal(json_array_size(capture_array(root, "nodes")), 4);
	edges = capture_array(root, "edges");
	check_ends(edges, 4);
	assert_true(has_edge(edges, 0, 2, "read after write", "x"));
	assert_true(has_edge(edges, 1, 2, "read after write", "x"));
	assert_true(has_edge(edges, 0, 2, "write after read", "y"));
	assert_true(has_edge(edges, 1, 2, "write after read", "y"));
	assert_true(has_edge(edges, 2, 3, "read after write", "y"));
	assert_true(has_edge(edges, 0, 2, "order", NULL));
	assert_int_equal(json_array_size(edges), 6);
	json_decref(root);
	root = capture_load(&files, "dispatch_1/rank1/dep_gen.json", FORMAT);
	assert_int_equal(json_array_size(capture_array(root, "nodes")), 1);
	json_decref(root);
	check_dot(&files, "dispatch_1/dep_gen.dot");
	check_dot(&files, "dispatch_1/rank0/dep_gen.dot");
	/* With a swimlane the graph is of the first run, the times of the second. */
	config.capture.enable_chip_swimlane = 2;
	assert_ok(rp_worker_run(bed.worker, NULL, args, 2, &config));
	root = capture_load(&files, "dispatch_2/dep_gen.json", FORMAT);
	assert_int_equal(capture_number(root, "graph_run"), 2);
	assert_int_equal(capture_number(root, "run"), 3);
	assert_int_equal(json_array_size(capture_array(root, "edges")), 6);
	json_decref(root);
	bed_close(&bed);
	capture_close(&files);
	rp_shared_free(data);
}

/* --- Kernels ---------------------------------------------------------------- */

static int nothing(const struct rp_arg *args, size_t nargs)
{
	(void)args, (void)nargs;
	return 0;
}

static int submit(struct rp_chip *chip, const char *name, struct rp_arg *args,
		  uint32_t count, const rp_kernel_id *deps, size_t dep_count,
		  rp_kernel_id *id)
{
	const struct rp_kernel kernel = { .fn = nothing,
					  .name = name,
					  .args = args,
					  .arg_count = count,
					  .deps = deps,
					  .dep_count = dep_count };

	return rp_chip_submit(chip, &kernel, id);
}

/* 0 makes an output; 1 reads it and makes another; 2 writes over the first; 3, in a
 * manual scope, names 1 and touches what it has written; 4 in a scope of its own, twice,
 * whose heap memory is the same: none of the two follows. */
static int kernels(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const int64_t shape[] = { 64 };
	struct rp_arg one = rp_out_new(RP_UINT8, 1, shape), pair[2], again;
	rp_kernel_id ids[2];
	int err;

	(void)args, (void)nargs;
	err = submit(chip, "make", &one, 1, NULL, 0, &ids[0]);
	pair[0] = rp_in(one.u.tensor);
	pair[1] = rp_out_new(RP_UINT8, 1, shape);
	if (!err)
		err = submit(chip, "read", pair, 2, NULL, 0, &ids[1]);
	again = rp_out(one.u.tensor);
	if (!err)
		err = submit(chip, "overwrite \"quoted\\\"", &again, 1, NULL, 0, NULL);
	if (!err)
		err = rp_scope_begin(chip, RP_SCOPE_MANUAL);
	if (!err)
		err = submit(chip, NULL, &again, 1, &ids[1], 1, NULL);
	if (!err)
		err = rp_scope_end(chip);
	for (int i = 0; !err && i < 2; i++) {
		struct rp_arg fresh = rp_out_new(RP_UINT8, 1, shape);

		err = rp_scope_begin(chip, RP_SCOPE_AUTO);
		if (!err)
			err = submit(chip, "fresh", &fresh, 1, NULL, 0, NULL);
		if (!err)
			err = rp_scope_end(chip);
		if (!err)
			err = rp_chip_drain(chip);
	}
	return err;
}

static void kernels_have_all_their_edges(void **state)
{
	static const struct rp_entry entry = { "kernels", kernels };

	(void)state;
	/* Without threads a kernel has ended when its submit returns, with them it may
	 * not have begun: the graph is the same. */
	for (uint32_t threads = 0; threads <= 2; threads += 2) {
		struct rp_worker_options options;
		struct rp_run_config config;
		struct capture_bed files;
		const json_t *node, *edges, *all;
		struct bed bed;
		json_t *root;

		bed_options(&options, 1);
		options.compute_threads = threads;
		capture_prepare(
			&bed,
			(struct rp_program_desc){ .name = "kernels", .entries = &entry },
			&options);
		capture_open(&files, &config);
		config.capture.enable_dep_gen = true;
		assert_ok(rp_worker_run(bed.worker, NULL, NULL, 0, &config));
		root = capture_load(&files, "dispatch_1/dep_gen.json", FORMAT);
		assert_true(json_is_true(json_object_get(root, "whole")));
		node = json_array_get(capture_array(root, "nodes"), 0);
		assert_string_equal(capture_text(node, "entry"), "kernels");
		assert_string_equal(capture_text(node, "kind"), "chip");
		all = capture_array(node, "kernels");
		assert_int_equal(json_array_size(all), 6);
		assert_string_equal(capture_text(json_array_get(all, 2), "name"),
				    "overwrite \"quoted\\\"");
		assert_string_equal(capture_text(json_array_get(all, 3), "name"), "");
		edges = capture_array(node, "kernel_edges");
		check_ends(edges, 6);
		assert_true(has_edge(edges, 0, 1, "read after write", NULL));
		assert_true(has_edge(edges, 1, 2, "write after read", NULL));
		assert_true(has_edge(edges, 0, 2, "write after write", NULL));
		assert_true(has_edge(edges, 1, 3, "order", NULL));
		assert_int_equal(json_array_size(edges), 4);
		json_decref(root);
		check_dot(&files, "dispatch_1/dep_gen.dot");
		/* Nothing of it stays on for the next. */
		config.capture.enable_dep_gen = false;
		assert_ok(rp_worker_run(bed.worker, NULL, NULL, 0, &config));
		assert_int_equal(capture_count(&files, ""), 1);
		bed_close(&bed);
		capture_close(&files);
	}
}

/* --- Many ------------------------------------------------------------------- */

#define MANY 3000

/* More than three times what a ring holds: the chip waits for the reader. */
static int dense(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct rp_arg in = rp_in(args[0].u.tensor), out = rp_out(args[0].u.tensor);
	int err = 0;

	(void)nargs;
	for (int i = 0; !err && i < 5 * MANY; i++)
		err = submit(chip, NULL, &in, 1, NULL, 0, NULL);
	return err ? err : submit(chip, NULL, &out, 1, NULL, 0, NULL);
}

static int chain(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int64_t *words = args[0].u.tensor.data;
	int err = 0;

	(void)nargs;
	for (int i = 0; !err && i < MANY; i++) {
		struct rp_tensor word = args[0].u.tensor;
		struct rp_arg arg;

		word.data = &words[i % 7];
		word.shape[0] = 1;
		arg = rp_inout(word);
		err = submit(chip, "link", &arg, 1, NULL, 0, NULL);
	}
	return err;
}

struct chain_bed {
	struct bed bed;
	struct capture_bed files;
	struct rp_run_config config;
	struct rp_arg arg;
};

static void chain_open(struct chain_bed *bed, uint32_t entry)
{
	static const struct rp_entry entries[] = { { "chain", chain },
						   { "dense", dense } };
	struct rp_worker_options options;

	bed_options(&options, 1);
	/* Without it a kernel that is only noted is quickest: the most records. */
	options.compute_threads = !entry;
	capture_prepare(&bed->bed,
			(struct rp_program_desc){ .name = "chain",
						  .params = &capture_words,
						  .param_count = 1,
						  .entries = &entries[entry] },
			&options);
	capture_open(&bed->files, &bed->config);
	bed->config.capture.enable_dep_gen = true;
	bed->arg = rp_arg_tensor(TENSOR(bed_shared(4096, 0), RP_INT64, 8));
}

static void chain_close(struct chain_bed *bed)
{
	bed_close(&bed->bed);
	capture_close(&bed->files);
	rp_shared_free(bed->arg.u.tensor.data);
}

static void chains_are_whole(void **state)
{
	struct chain_bed bed;
	const json_t *node;
	json_t *root;

	(void)state;
	chain_open(&bed, 0);
	assert_ok(rp_worker_run(bed.bed.worker, NULL, &bed.arg, 1, &bed.config));
	root = capture_load(&bed.files, "dispatch_1/dep_gen.json", FORMAT);
	node = json_array_get(capture_array(root, "nodes"), 0);
	assert_true(json_is_true(json_object_get(root, "whole")));
	assert_int_equal(json_array_size(capture_array(node, "kernels")), MANY);
	/* Each follows the one seven before, by its only write. */
	check_ends(capture_array(node, "kernel_edges"), MANY);
	assert_int_equal(json_array_size(capture_array(node, "kernel_edges")), MANY - 7);
	json_decref(root);
	chain_close(&bed);
}

static void what_no_ring_holds_is_whole(void **state)
{
	struct chain_bed bed;
	json_t *root;
	const json_t *node;

	(void)state;
	chain_open(&bed, 1);
	assert_ok(rp_worker_run(bed.bed.worker, NULL, &bed.arg, 1, &bed.config));
	root = capture_load(&bed.files, "dispatch_1/dep_gen.json", FORMAT);
	assert_true(json_is_true(json_object_get(root, "whole")));
	node = json_array_get(capture_array(root, "nodes"), 0);
	assert_int_equal(json_array_size(capture_array(node, "kernels")), 5 * MANY + 1);
	assert_int_equal(json_array_size(capture_array(node, "kernel_edges")), 5 * MANY);
	json_decref(root);
	chain_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(tasks_follow_by_the_memory_that_they_share),
		PROCESS_TEST(kernels_have_all_their_edges),
		PROCESS_TEST(chains_are_whole),
		PROCESS_TEST(what_no_ring_holds_is_whole),
	};

	return cmocka_run_group_tests_name("capture_graph", tests, NULL, NULL);
}
