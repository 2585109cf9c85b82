/* SPDX-License-Identifier: MIT */
/* Span trees as text: the nesting is in the names. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "benchmark/stats.h"
#include "trace/text.h"

/* More names than a launch has. */
#define NODES_MAX 64
#define DEPTH_MAX 16
#define LABEL	  128

struct node {
	const char *name;
	bool device;
	int parent;   /* -1: the root */
	double first; /* ns after the root's begin, of the first launch that has it */
	/* Over launches; each launch adds the sum of its spans of that name. */
	size_t count;
	double sum, squares, min, max;
};

struct tree {
	struct node nodes[NODES_MAX];
	int count;
};

/* --- Growing -------------------------------------------------------------- */

static struct node *node_of(struct tree *tree, const struct rp_span *span, double first)
{
	struct node *node;
	int i;

	for (i = 0; i < tree->count; i++)
		if (!strcmp(tree->nodes[i].name, span->name))
			return &tree->nodes[i];
	if (tree->count == NODES_MAX)
		return NULL;
	node = &tree->nodes[tree->count++];
	*node = (struct node){ .name = span->name,
			       .device = span->domain == RP_SPAN_DEVICE,
			       .first = first,
			       .min = INFINITY };
	return node;
}

static void add_launch(struct tree *tree, const struct rp_invocation *launch)
{
	double us[NODES_MAX] = { 0 };
	bool there[NODES_MAX] = { false };
	size_t i;
	int n;

	for (i = 0; i < launch->span_count; i++) {
		const struct rp_span *span = &launch->spans[i];
		struct node *node = node_of(
			tree, span, (double)(int64_t)(span->begin_ns - launch->begin_ns));

		if (!node)
			continue;
		us[node - tree->nodes] += (double)span->duration_ns / 1000.0;
		there[node - tree->nodes] = true;
	}
	for (n = 0; n < tree->count; n++) {
		struct node *node = &tree->nodes[n];

		if (!there[n])
			continue;
		node->count++;
		node->sum += us[n];
		node->squares += us[n] * us[n];
		node->min = us[n] < node->min ? us[n] : node->min;
		node->max = us[n] > node->max ? us[n] : node->max;
	}
}

/* A span's parent is the longest name that its own begins with. */
static void find_parents(struct tree *tree)
{
	int child, other;

	for (child = 0; child < tree->count; child++) {
		size_t best = 0;

		tree->nodes[child].parent = -1;
		for (other = 0; other < tree->count; other++) {
			const char *name = tree->nodes[other].name;
			size_t length = strlen(name);

			if (other == child || length <= best ||
			    strncmp(tree->nodes[child].name, name, length) != 0 ||
			    tree->nodes[child].name[length] != '.')
				continue;
			best = length;
			tree->nodes[child].parent = other;
		}
	}
}

/* --- Printing ------------------------------------------------------------- */

struct style {
	enum rp_spread spread;
	bool single; /* one launch: no spread */
	int width;
};

static double mean_of(const struct node *node)
{
	return node->sum / (double)node->count;
}

static double stdev_of(const struct node *node)
{
	double n = (double)node->count;
	double of = node->count > 1
			    ? (node->squares - node->sum * node->sum / n) / (n - 1)
			    : 0;

	return of > 0 ? sqrt(of) : 0;
}

static const char *label_of(const struct tree *tree, const struct node *node)
{
	const char *above = node->parent < 0 ? NULL : tree->nodes[node->parent].name;

	return above ? node->name + strlen(above) + 1 : node->name;
}

static void put_node(struct rpi_text *out, const struct tree *tree,
		     const struct node *node, const char *branches,
		     const struct style *style)
{
	char label[LABEL];

	rpi_format(label, sizeof(label), "%s%s%s", branches, label_of(tree, node),
		   node->device ? " [dev]" : "");
	rpi_text_put(out, "%-*s  %10.1fus", style->width, label, mean_of(node));
	if (!style->single &&
	    (style->spread == RP_SPREAD_STDEV || style->spread == RP_SPREAD_BOTH)) {
		char spread[32];

		/* The sign is two bytes and one column. */
		rpi_format(spread, sizeof(spread), "\u00b1%.1f", stdev_of(node));
		rpi_text_put(out, "  %11s", spread);
	}
	if (!style->single &&
	    (style->spread == RP_SPREAD_MINMAX || style->spread == RP_SPREAD_BOTH))
		rpi_text_put(out, "  [%.1f..%.1f]", node->min, node->max);
	rpi_text_put(out, "\n");
}

/* The next child of `parent` in the order of their begins, after `last`. */
static int next_child(const struct tree *tree, int parent, int last)
{
	int best = -1, i;

	for (i = 0; i < tree->count; i++) {
		const struct node *node = &tree->nodes[i];

		if (node->parent != parent)
			continue;
		if (last >= 0 && (node->first < tree->nodes[last].first ||
				  (node->first <= tree->nodes[last].first && i <= last)))
			continue;
		if (best < 0 || node->first < tree->nodes[best].first)
			best = i;
	}
	return best;
}

/* NULL out: only how wide the labels are. */
static void walk(struct rpi_text *out, const struct tree *tree, int parent,
		 const char *indent, int depth, struct style *style)
{
	int at = next_child(tree, parent, -1);

	while (at >= 0) {
		const struct node *node = &tree->nodes[at];
		int next = next_child(tree, parent, at);
		char branches[LABEL], below[LABEL];
		int width;

		rpi_format(branches, sizeof(branches), "%s%s", indent,
			   parent < 0  ? ""
			   : next >= 0 ? "|- "
				       : "`- ");
		rpi_format(below, sizeof(below), "%s%s", indent,
			   parent < 0  ? ""
			   : next >= 0 ? "|  "
				       : "   ");
		width = (int)(strlen(branches) + strlen(label_of(tree, node))) +
			(node->device ? 6 : 0);
		if (out)
			put_node(out, tree, node, branches, style);
		else if (width > style->width)
			style->width = width;
		if (depth < DEPTH_MAX)
			walk(out, tree, at, below, depth + 1, style);
		at = next;
	}
}

static void put_tree(struct rpi_text *out, struct tree *tree, struct style *style)
{
	find_parents(tree);
	style->width = 0;
	walk(NULL, tree, -1, "", 0, style);
	walk(out, tree, -1, "", 0, style);
}

static int check_buffer(const char *call, const struct rp_benchmark_stats *stats,
			char *buf, size_t bytes)
{
	if (!stats || (!buf && bytes))
		return rpi_fail(-EINVAL, "%s: %s NULL, expected one", call,
				stats ? "buf" : "stats");
	if (bytes)
		*buf = 0;
	return 0;
}

int rp_benchmark_print_tree(const struct rp_benchmark_stats *stats, size_t launch,
			    char *buf, size_t bytes)
{
	int err = check_buffer("rp_benchmark_print_tree", stats, buf, bytes);
	struct rpi_text out = { buf, bytes, 0 };
	struct style style = { .single = true };
	const struct rp_invocation *one;
	struct tree tree = { .count = 0 };

	if (err)
		return err;
	if (launch >= stats->launch_count)
		return rpi_fail(-EINVAL,
				"rp_benchmark_print_tree: launch %zu, expected one of "
				"%zu",
				launch, stats->launch_count);
	one = &stats->launches[launch];
	rpi_text_put(&out, "launch %zu of %zu, round=%u rank=%d slot=%u %s:\n", launch,
		     stats->launch_count, one->round, one->rank, one->slot, one->task);
	add_launch(&tree, one);
	put_tree(&out, &tree, &style);
	return (int)out.used;
}

static void put_mean(struct rpi_text *out, const struct rp_benchmark_stats *stats,
		     size_t first, enum rp_spread spread)
{
	static const char *const what[] = { "mean \u00b1stdev", "mean [min..max]",
					    "mean \u00b1stdev [min..max]", "mean" };
	const struct rp_invocation *of = &stats->launches[first];
	const size_t width = stats->launch_count / stats->rounds;
	struct style style = { .spread = spread };
	struct tree tree = { .count = 0 };
	size_t i;

	for (i = first; i < stats->launch_count; i += width)
		add_launch(&tree, &stats->launches[i]);
	rpi_text_put(out,
		     "mean of %u launches (warm-up %u excluded) of rank=%d slot=%u %s; ",
		     stats->rounds, stats->warmup, of->rank, of->slot, of->task);
	rpi_text_put(out, "each node: %s:\n", what[spread]);
	put_tree(out, &tree, &style);
}

int rp_benchmark_print_mean_tree(const struct rp_benchmark_stats *stats,
				 enum rp_spread spread, int32_t rank, int32_t slot,
				 char *buf, size_t bytes)
{
	int err = check_buffer("rp_benchmark_print_mean_tree", stats, buf, bytes);
	struct rpi_text out = { buf, bytes, 0 };
	size_t width, i;

	if (err)
		return err;
	if ((unsigned int)spread > RP_SPREAD_NONE || rank < -1 || slot < -1)
		return rpi_fail(
			-EINVAL,
			"rp_benchmark_print_mean_tree: spread %d rank %d slot %d, "
			"expected RP_SPREAD_*, and -1 or more",
			(int)spread, rank, slot);
	/* Launches of several entries have no mean. */
	if (stats->flattened || stats->unstable) {
		rpi_text_put(&out, "no mean tree: %s\n",
			     stats->flattened ? "rounds had different launches"
					      : "slots held several entries");
		return (int)out.used;
	}
	width = stats->launch_count / stats->rounds;
	for (i = 0; i < width; i++)
		if ((rank < 0 || rank == stats->launches[i].rank) &&
		    (slot < 0 || (uint32_t)slot == stats->launches[i].slot))
			put_mean(&out, stats, i, spread);
	return (int)out.used;
}
