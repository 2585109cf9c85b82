/* SPDX-License-Identifier: MIT */
#include "copy_bed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringplane/device.h>

#include "base/error.h"
#include "copy_worker.h"
#include "memory/copy.h"

/* Bytes that the samples of one run move at most, so that --ops can't take hours. */
#define RUN_BYTES_MAX	((uint64_t)16 << 30)
#define QUICK_BYTES_MAX ((uint64_t)512 << 20)

static bool is_stacked(const struct copy_variant *variant)
{
	return variant->chip_count > 1 && variant->path != COPY_FANOUT;
}

int copy_bed_setup(struct bench_case *c)
{
	const struct copy_variant *variant = c->arg;
	struct copy_bed *bed = calloc(1, sizeof(*bed));
	int err;

	if (!bed)
		return rpi_fail(-ENOMEM, "%s: no memory", c->name);
	bed->variant = variant;
	err = copy_block_get(copy_host_block(variant), variant->bytes);
	if (err)
		goto free_bed;
	err = copy_worker_get(variant, &bed->at);
	if (err)
		goto put_block;
	c->data = bed;
	return 0;

put_block:
	copy_block_put(copy_host_block(variant));
free_bed:
	free(bed);
	return err;
}

void copy_bed_teardown(struct bench_case *c)
{
	struct copy_bed *bed = c->data;

	copy_worker_put(bed->at);
	copy_block_put(copy_host_block(bed->variant));
	free(bed);
	c->data = NULL;
}

static int host_tensor(const struct copy_bed *bed, struct rp_tensor *out)
{
	const int64_t shape[] = { bed->variant->chip_count,
				  (int64_t)(bed->variant->bytes /
					    bed->variant->chip_count) };

	return rp_tensor_host(out, bed->host, RP_UINT8, 2, shape);
}

/* Upload to new shards in the place of the ones before. */
static int upload_stacked(struct copy_bed *bed)
{
	struct rp_tensor host;
	int err = host_tensor(bed, &host);

	if (!err && bed->has_stacked)
		err = rp_worker_free_stacked(bed->at->worker, &bed->stacked);
	bed->has_stacked = false;
	if (!err)
		err = rp_worker_alloc_stacked(bed->at->worker, &host, NULL, 0,
					      &bed->stacked);
	bed->has_stacked = !err;
	return err;
}

static int download_stacked(struct copy_bed *bed)
{
	struct rp_tensor host;
	int err = host_tensor(bed, &host);

	return err ? err
		   : rp_worker_copy_stacked_from(bed->at->worker, &bed->stacked, &host);
}

static int upload_to_all(struct copy_bed *bed)
{
	static const uint32_t chips[COPY_CHIPS_MAX] = { 0, 1 };

	return rp_worker_copy_to_all(bed->at->worker, chips, bed->at->device,
				     bed->variant->chip_count, 0, bed->host,
				     bed->variant->bytes);
}

int copy_bed_transfer(struct copy_bed *bed)
{
	const struct copy_variant *variant = bed->variant;
	const struct copy_worker *at = bed->at;

	if (variant->path == COPY_FANOUT)
		return upload_to_all(bed);
	if (is_stacked(variant))
		return variant->way == COPY_H2D ? upload_stacked(bed)
						: download_stacked(bed);
	if (variant->way == COPY_H2D)
		return rp_worker_copy_to(at->worker, 0, at->device[0], 0, bed->host, 0,
					 variant->bytes);
	return rp_worker_copy_from(at->worker, 0, at->device[0], 0, bed->host, 0,
				   variant->bytes);
}

int copy_bed_enter(struct bench_case *c)
{
	struct copy_bed *bed = c->data;
	int err = copy_worker_enter(bed->at, bed->variant, c->options);

	bed->host = copy_block_at(copy_host_block(bed->variant));
	if (!err && is_stacked(bed->variant) && !bed->has_stacked)
		err = upload_stacked(bed);
	/* Device memory is there, and both sides' spins know each other. */
	for (int i = 0; !err && bed->at->spins && i < 8; i++)
		err = copy_bed_transfer(bed);
	return err;
}

static void remark(struct bench_case *c, const struct copy_bed *bed)
{
	if (bed->gigabytes > 0.0)
		rpi_format(c->remark, sizeof(c->remark),
			   "CPU seconds per GB: caller %.3f, chips %.3f; copied by %s",
			   bed->caller_s / bed->gigabytes, bed->chips_s / bed->gigabytes,
			   bed->variant->bytes >= rpi_copy_around_bytes()
				   ? rpi_copy_engine()
				   : "memcpy");
}

void copy_bed_leave(struct bench_case *c)
{
	struct copy_bed *bed = c->data;

	if (bed->has_stacked)
		rp_worker_free_stacked(bed->at->worker, &bed->stacked);
	bed->has_stacked = false;
	copy_worker_leave(bed->at);
	remark(c, bed);
}

/* Which chip and which byte of which allocation byte `at` of the case is. */
static int find_device(const struct copy_bed *bed, size_t at, uint32_t *chip_out,
		       uint64_t *address_out, size_t *offset_out)
{
	size_t shard_bytes = bed->variant->bytes / bed->variant->chip_count;
	struct rp_tensor shard;
	int err;

	if (!is_stacked(bed->variant)) {
		*address_out = bed->at->device[*chip_out];
		*offset_out = at;
		return 0;
	}
	err = rp_tensor_index(&bed->stacked, (int64_t)(at / shard_bytes), &shard);
	if (!err)
		err = rp_worker_tensor_address(bed->at->worker, &shard, chip_out,
					       address_out);
	*offset_out = at % shard_bytes;
	return err;
}

int copy_bed_mark(struct copy_bed *bed, size_t at, uint64_t word)
{
	uint64_t address;
	uint32_t chip = 0;
	size_t offset;
	int err;

	if (bed->variant->way == COPY_H2D) {
		memcpy(bed->host + at, &word, sizeof(word));
		return 0;
	}
	err = find_device(bed, at, &chip, &address, &offset);
	return err ? err
		   : rp_worker_copy_to(bed->at->worker, chip, address, offset, &word, 0,
				       sizeof(word));
}

int copy_bed_look(struct copy_bed *bed, size_t at, uint64_t *word_out)
{
	const uint32_t last =
		bed->variant->path == COPY_FANOUT ? bed->variant->chip_count - 1 : 0;
	uint64_t address, word = 0, same = 0;
	size_t offset;
	int err = 0;

	if (bed->variant->way == COPY_D2H) {
		memcpy(word_out, bed->host + at, sizeof(*word_out));
		return 0;
	}
	for (uint32_t i = 0; !err && i <= last; i++) {
		uint32_t chip = i;

		err = find_device(bed, at, &chip, &address, &offset);
		if (!err)
			err = rp_worker_copy_from(bed->at->worker, chip, address, offset,
						  &word, 0, sizeof(word));
		if (i && word != same)
			word = ~same;
		same = word;
	}
	*word_out = word;
	return err;
}

static double seconds(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		return 0.0;
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void copy_bed_cpu(const struct copy_bed *bed, double *caller_s_out, double *chips_s_out)
{
	clockid_t clock;

	*caller_s_out = seconds(CLOCK_PROCESS_CPUTIME_ID);
	*chips_s_out = 0.0;
	for (uint32_t chip = 0; chip < bed->variant->chip_count; chip++)
		if (!clock_getcpuclockid(rp_worker_pid(bed->at->worker, chip), &clock))
			*chips_s_out += seconds(clock);
}

int copy_bed_counted(const struct copy_bed *bed, uint64_t *staged_out,
		     uint64_t *named_out)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	int err = rp_worker_get_stats(bed->at->worker, &stats);

	*staged_out = stats.bytes_staged;
	*named_out = stats.bytes_named;
	return err;
}

static uint64_t ops_max(const struct bench_options *options, size_t bytes)
{
	uint64_t most = (options->quick ? QUICK_BYTES_MAX : RUN_BYTES_MAX) / bytes;

	return most < BENCH_OPS_MAX ? most : BENCH_OPS_MAX;
}

static int plan_limit(struct bench_plan *plan, const struct bench_options *options,
		      const struct copy_variant *variant, const char *name)
{
	struct bench_case c = { .unit = variant->rtt ? "ns" : "GB/s",
				.per_sample = (double)variant->bytes,
				.ops_max = ops_max(options, variant->bytes),
				.arg = variant,
				.setup = copy_memcpy_setup,
				.round = copy_memcpy_round,
				.teardown = copy_memcpy_teardown };

	if (bench_plan_has(plan, name))
		return 0;
	if (variant->rtt) {
		c.setup = copy_relay_setup;
		c.round = copy_relay_round;
		c.teardown = copy_relay_teardown;
	}
	rpi_format(c.name, sizeof(c.name), "%s", name);
	return bench_plan_add(plan, &c);
}

int copy_bed_plan(struct bench_plan *plan, const struct bench_options *options,
		  const struct copy_variant *variant, const char *name, const char *limit)
{
	struct bench_case c = { .unit = variant->rtt ? "ns" : "GB/s",
				.limits = limit,
				.ops_max = ops_max(options, variant->bytes),
				.arg = variant,
				.setup = copy_bed_setup,
				.round = variant->rtt ? copy_rtt_round : copy_rate_round,
				.teardown = copy_bed_teardown,
				.enter = copy_bed_enter,
				.leave = copy_bed_leave };
	int err = plan_limit(plan, options, variant, limit);

	/* Bytes that arrive: a fan-out brings them to each chip. */
	c.per_sample = (double)variant->bytes *
		       (variant->path == COPY_FANOUT ? variant->chip_count : 1);
	rpi_format(c.name, sizeof(c.name), "%s", name);
	return err ? err : bench_plan_add(plan, &c);
}
