/* SPDX-License-Identifier: MIT */
/* Counters as text. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <ringplane/stats.h>

#include "base/error.h"
#include "trace/counters.h"
#include "trace/text.h"

struct figure {
	const char *name;
	uint64_t value;
};

#define FIGURES 7

static void latency_figures(const struct rp_latency *latency, struct figure *figures)
{
	const struct figure all[FIGURES] = {
		{ "count", latency->count },   { "mean_ns", latency->mean_ns },
		{ "p50_ns", latency->p50_ns }, { "p90_ns", latency->p90_ns },
		{ "p99_ns", latency->p99_ns }, { "p999_ns", latency->p999_ns },
		{ "max_ns", latency->max_ns },
	};

	memcpy(figures, all, sizeof(all));
}

static uint64_t value_of(const struct rp_worker_stats *stats, size_t i)
{
	uint64_t value;

	memcpy(&value, (const char *)stats + rpi_counters[i].field, sizeof(value));
	return value;
}

static void put_text(struct rpi_text *out, const struct rp_worker_stats *stats,
		     const struct rp_latency *latency)
{
	struct figure figures[FIGURES];
	size_t i;

	for (i = 0; i < rpi_counter_count; i++)
		rpi_text_put(out, "%-20s %20" PRIu64 "\n", rpi_counters[i].name,
			     value_of(stats, i));
	if (!latency)
		return;
	latency_figures(latency, figures);
	for (i = 0; i < FIGURES; i++)
		rpi_text_put(out, "latency.%-12s %20" PRIu64 "\n", figures[i].name,
			     figures[i].value);
}

static void put_json(struct rpi_text *out, const struct rp_worker_stats *stats,
		     const struct rp_latency *latency)
{
	size_t i;

	rpi_text_put(out, "{");
	for (i = 0; i < rpi_counter_count; i++)
		rpi_text_put(out, "%s\"%s\":%" PRIu64, i ? "," : "", rpi_counters[i].name,
			     value_of(stats, i));
	if (latency) {
		struct figure figures[FIGURES];

		latency_figures(latency, figures);
		rpi_text_put(out, ",\"latency\":{\"measured\":%s",
			     latency->measured ? "true" : "false");
		for (i = 0; i < FIGURES; i++)
			rpi_text_put(out, ",\"%s\":%" PRIu64, figures[i].name,
				     figures[i].value);
		rpi_text_put(out, "}");
	}
	rpi_text_put(out, "}\n");
}

static void put_quantile(struct rpi_text *out, const char *labels, const char *quantile,
			 uint64_t ns)
{
	rpi_text_put(out, "ringplane_dispatch_seconds{%s%squantile=\"%s\"} %.9f\n",
		     labels, *labels ? "," : "", quantile, (double)ns * 1e-9);
}

static void put_prometheus(struct rpi_text *out, const struct rp_worker_stats *stats,
			   const struct rp_latency *latency, const char *labels)
{
	const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
	size_t i;

	for (i = 0; i < rpi_counter_count; i++) {
		const struct rpi_counter *counter = &rpi_counters[i];
		const char *suffix = counter->gauge ? "" : "_total";

		rpi_text_put(out, "# HELP ringplane_%s%s %s\n# TYPE ringplane_%s%s %s\n",
			     counter->name, suffix, counter->help, counter->name, suffix,
			     counter->gauge ? "gauge" : "counter");
		rpi_text_put(out, "ringplane_%s%s%s%s%s %" PRIu64 "\n", counter->name,
			     suffix, open, labels, close, value_of(stats, i));
	}
	if (!latency)
		return;
	rpi_text_put(out, "# HELP ringplane_dispatch_seconds from submit to outcome\n"
			  "# TYPE ringplane_dispatch_seconds summary\n");
	put_quantile(out, labels, "0.5", latency->p50_ns);
	put_quantile(out, labels, "0.9", latency->p90_ns);
	put_quantile(out, labels, "0.99", latency->p99_ns);
	put_quantile(out, labels, "0.999", latency->p999_ns);
	rpi_text_put(out, "ringplane_dispatch_seconds_sum%s%s%s %.9f\n", open, labels,
		     close, (double)latency->mean_ns * (double)latency->count * 1e-9);
	rpi_text_put(out, "ringplane_dispatch_seconds_count%s%s%s %" PRIu64 "\n", open,
		     labels, close, latency->count);
}

int rp_stats_print(const struct rp_worker_stats *stats, const struct rp_latency *latency,
		   enum rp_stats_format format, const char *labels, char *buf,
		   size_t bytes)
{
	struct rpi_text out = { buf, bytes, 0 };

	if (!stats || stats->size != sizeof(*stats) || (!buf && bytes) ||
	    (latency && latency->size != sizeof(*latency)))
		return rpi_fail(-EINVAL,
				"rp_stats_print: %s, expected structs whose size is set "
				"and a buffer",
				!stats		? "stats NULL"
				: !buf && bytes ? "buf NULL"
						: "a size");
	if (bytes)
		*buf = 0;
	switch (format) {
	case RP_STATS_TEXT:
		put_text(&out, stats, latency);
		return (int)out.used;
	case RP_STATS_JSON:
		put_json(&out, stats, latency);
		return (int)out.used;
	case RP_STATS_PROMETHEUS:
		put_prometheus(&out, stats, latency, labels ? labels : "");
		return (int)out.used;
	}
	return rpi_fail(-EINVAL, "rp_stats_print: format %d, expected RP_STATS_*",
			(int)format);
}
