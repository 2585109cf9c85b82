/* SPDX-License-Identifier: MIT */
/* Programs that are really timed: what a benchmark makes of a worker of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support.h"

#define NAP_US 300

static int nap(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct timespec length = { .tv_nsec = NAP_US * 1000 };

	(void)chip;
	(void)args;
	(void)nargs;
	nanosleep(&length, NULL);
	return 0;
}

static int count_up(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int64_t *data = args[0].u.tensor.data;

	(void)chip;
	(void)nargs;
	data[0]++;
	return 0;
}

static int refuse(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return rp_chip_fail(chip, -EIO, "told to fail");
}

static const struct rp_entry entries[] = { { "nap", nap },
					   { "count_up", count_up },
					   { "refuse", refuse } };

enum {
	NAP,
	COUNT_UP,
	REFUSE
};

static int both(struct rp_run *run, const struct rp_arg *args, size_t nargs, void *user)
{
	const struct rp_arg counted = rp_inout(args[0].u.tensor);
	struct rp_task task = { .entry = NAP };
	int err = rp_run_task(run, &task);

	(void)nargs;
	(void)user;
	task.chip = 1;
	if (!err)
		err = rp_run_task(run, &task);
	task = (struct rp_task){
		.entry = COUNT_UP, .chip = 1, .args = &counted, .arg_count = 1
	};
	return err ? err : rp_run_task(run, &task);
}

static int failing(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		   void *user)
{
	const struct rp_task task = { .entry = REFUSE };

	(void)args;
	(void)nargs;
	(void)user;
	return rp_run_task(run, &task);
}

static struct rp_program *program(rp_orchestrate_fn orchestrate, uint32_t chips)
{
	static const struct rp_param params[] = { { .name = "count",
						    .kind = RP_ARG_TENSOR,
						    .dtype = RP_INT64,
						    .access = RP_INOUT,
						    .rank = 1,
						    .shape = { 8 } } };
	struct rp_program_desc desc;
	struct rp_program *made;

	rp_program_desc_init(&desc);
	desc.name = "timed";
	desc.params = params;
	desc.param_count = 1;
	desc.entries = entries;
	desc.entry_count = COUNT(entries);
	desc.orchestrate = orchestrate;
	desc.chip_count = chips;
	assert_ok(rp_program_create(&desc, &made));
	return made;
}

static void options_of(struct rp_worker_options *worker,
		       struct rp_benchmark_options *options, uint32_t chips)
{
	bed_options(worker, chips);
	*options = (struct rp_benchmark_options){ .size = sizeof(*options),
						  .worker = worker };
}

static void a_distributed_program_is_timed_by_rank_and_slot(void **state)
{
	int64_t *data = bed_shared(4096, 0);
	struct rp_arg arg = rp_arg_tensor(TENSOR(data, RP_INT64, 8));
	struct rp_program *timed = program(both, 2);
	struct rp_benchmark_options options;
	struct rp_worker_options worker;
	struct rp_benchmark_stats *stats;
	struct rp_benchmark_info info;
	struct rp_series series[4];
	struct rp_summary device, host, window;
	static char text[8192];

	(void)state;
	options_of(&worker, &options, 2);
	for (int persistent = 0; persistent < 2; persistent++) {
		data[0] = 0;
		worker.persistent = persistent;
		assert_ok(rp_benchmark(timed, &arg, 1, 6, 2, &options, &stats));
		/* Warm-up runs too. */
		assert_int_equal(data[0], 8);
		rp_benchmark_get_info(stats, &info);
		assert_int_equal(info.launches, 6 * 3);
		assert_int_equal(info.ranks, 2);
		assert_false(info.all_zero_device || info.fallback_flattened ||
			     info.unstable_dispatch_slots);
		rp_benchmark_summary(stats, RP_METRIC_DEVICE, &device);
		rp_benchmark_summary(stats, RP_METRIC_HOST, &host);
		rp_benchmark_summary(stats, RP_METRIC_UNION, &window);
		assert_int_equal(device.count, 6);
		assert_true(device.min >= NAP_US);
		assert_true(host.min >= device.min && window.min >= NAP_US);
		assert_int_equal(rp_benchmark_per_dispatch(stats, RP_METRIC_DEVICE,
							   series, COUNT(series)),
				 3);
		assert_string_equal(series[0].task, "nap");
		assert_string_equal(series[1].task, "nap");
		assert_string_equal(series[2].task, "count_up");
		for (int i = 0; i < 6; i++) {
			assert_true(series[0].us[i] >= NAP_US);
			assert_true(series[1].us[i] >= NAP_US);
		}
		rp_benchmark_print_mean_tree(stats, RP_SPREAD_STDEV, 1, 1, text,
					     sizeof(text));
		assert_non_null(strstr(text, "count_up"));
		assert_non_null(strstr(text, "`- writeback"));
		rp_benchmark_free(stats);
	}
	rp_program_free(timed);
	rp_shared_free(data);
}

static void silenced_device_spans_leave_the_host_ones(void **state)
{
	int64_t *data = bed_shared(4096, 0);
	struct rp_arg arg = rp_arg_tensor(TENSOR(data, RP_INT64, 8));
	struct rp_program *timed = program(NULL, 0);
	struct rp_benchmark_options options;
	struct rp_worker_options worker;
	struct rp_benchmark_stats *stats;
	struct rp_benchmark_info info;
	struct rp_summary host;

	(void)state;
	options_of(&worker, &options, 1);
	assert_int_equal(setenv("SIMPLER_DEVICE_STRACE_ENABLE", "0", 1), 0);
	assert_ok(rp_benchmark(timed, &arg, 1, 3, 0, &options, &stats));
	assert_int_equal(unsetenv("SIMPLER_DEVICE_STRACE_ENABLE"), 0);
	rp_benchmark_get_info(stats, &info);
	assert_true(info.all_zero_device);
	assert_false(info.fallback_flattened);
	rp_benchmark_summary(stats, RP_METRIC_HOST, &host);
	assert_int_equal(host.count, 3);
	assert_true(host.min >= NAP_US);
	rp_benchmark_free(stats);
	rp_program_free(timed);
	rp_shared_free(data);
}

static void what_makes_no_benchmark_is_refused(void **state)
{
	int64_t *data = bed_shared(4096, 0);
	struct rp_arg arg = rp_arg_tensor(TENSOR(data, RP_INT64, 8));
	struct rp_arg resident = arg;
	struct rp_program *timed = program(both, 2), *bad = program(failing, 1);
	struct rp_benchmark_options options;
	struct rp_worker_options worker;
	struct rp_benchmark_stats *stats = NULL;

	(void)state;
	options_of(&worker, &options, 2);
	assert_int_equal(rp_benchmark(NULL, &arg, 1, 1, 0, &options, &stats), -EINVAL);
	assert_int_equal(rp_benchmark(timed, NULL, 1, 1, 0, &options, &stats), -EINVAL);
	assert_int_equal(rp_benchmark(timed, &arg, 1, 1, 0, &options, NULL), -EINVAL);
	assert_int_equal(rp_benchmark(timed, &arg, 1, 0, 0, &options, &stats), -EINVAL);
	assert_says("rp_benchmark", "rounds 0");
	assert_int_equal(rp_benchmark(timed, &arg, 1, 1, RP_BENCHMARK_ROUNDS_MAX + 1,
				      &options, &stats),
			 -EINVAL);
	assert_says("rp_benchmark", "warmup 1000001");
	resident.u.tensor.resident = 1;
	assert_int_equal(rp_benchmark(timed, &resident, 1, 1, 0, &options, &stats),
			 -EXDEV);
	assert_says("rp_benchmark", "argument 0");
	options.size--;
	assert_int_equal(rp_benchmark(timed, &arg, 1, 1, 0, &options, &stats), -EINVAL);
	options.size++;
	worker.ring_fd = 0;
	assert_int_equal(rp_benchmark(timed, &arg, 1, 1, 0, &options, &stats), -EINVAL);
	assert_says("ring_fd 0");
	worker.ring_fd = -1;
	/* A mix that prepare refuses, and one that no dispatch takes. */
	worker.reset_windows = RP_WINDOWS_RESET;
	assert_int_equal(rp_benchmark(timed, &arg, 1, 1, 0, &options, &stats), -EINVAL);
	assert_says("reset_windows");
	worker.reset_windows = RP_WINDOWS_DEFAULT;
	assert_int_equal(rp_benchmark(timed, &arg, 0, 1, 0, &options, &stats), -EINVAL);
	worker.chip_count = 1;
	assert_int_equal(rp_benchmark(bad, &arg, 1, 5, 0, &options, &stats), -EIO);
	assert_says("told to fail");
	assert_int_equal(rp_benchmark(bad, &arg, 1, 5, 1, &options, &stats), -EIO);
	assert_null(stats);
	rp_benchmark_free(NULL);
	rp_program_free(timed);
	rp_program_free(bad);
	rp_shared_free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_distributed_program_is_timed_by_rank_and_slot),
		PROCESS_TEST(silenced_device_spans_leave_the_host_ones),
		PROCESS_TEST(what_makes_no_benchmark_is_refused),
	};

	return cmocka_run_group_tests_name("benchmark", tests, NULL, NULL);
}
