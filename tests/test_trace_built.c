/* SPDX-License-Identifier: MIT */
/* What a build was made without is refused by name; the environment has no say in it. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

static void judge(struct rp_worker *worker, uint32_t what, bool built)
{
	struct rp_trace *trace;
	int err = rp_trace_attach(worker, what, &trace);

	if (!built) {
		assert_int_equal(err, -EOPNOTSUPP);
		assert_says("rp_trace_attach", "SIMPLER_HOST_STRACE", "SIMPLER_DFX");
		return;
	}
	assert_ok(err);
	rp_trace_detach(trace);
}

static void judge_capture(struct rp_worker *worker, struct rp_capture capture, bool built)
{
	struct rp_run_config config;
	int err;

	rp_run_config_init(&config);
	config.capture = capture;
	config.capture.output_dir = "/tmp/ringplane-not-made";
	err = rp_run_config_check(&config);
	assert_int_equal(err, built ? 0 : -EOPNOTSUPP);
	if (built)
		return;
	assert_says("rp_run_config_check", "enable_", "SIMPLER_DFX");
	assert_int_equal(rp_worker_run(worker, NULL, NULL, 0, &config), -EOPNOTSUPP);
	assert_int_equal(access(config.capture.output_dir, F_OK), -1);
}

static void the_build_decides_what_can_be_captured(void **state)
{
	struct bed bed;

	(void)state;
	setenv("SIMPLER_HOST_STRACE", SIMPLER_HOST_STRACE ? "0" : "1", 1);
	setenv("SIMPLER_DFX", SIMPLER_DFX ? "0" : "1", 1);
	bed_open(&bed, 1);
	judge_capture(bed.worker, (struct rp_capture){ .enable_chip_swimlane = 1 },
		      SIMPLER_DFX && SIMPLER_HOST_STRACE);
	judge_capture(bed.worker, (struct rp_capture){ .enable_dep_gen = true },
		      SIMPLER_DFX);
	judge_capture(bed.worker, (struct rp_capture){ .enable_pmu = true }, SIMPLER_DFX);
	judge_capture(bed.worker, (struct rp_capture){ .enable_dump_args = true },
		      SIMPLER_DFX);
	judge_capture(bed.worker, (struct rp_capture){ .enable_scope_stats = true },
		      SIMPLER_DFX);
	bed_close(&bed);
}

static void the_build_decides_what_can_be_recorded(void **state)
{
	struct bed bed;

	(void)state;
	setenv("SIMPLER_HOST_STRACE", SIMPLER_HOST_STRACE ? "0" : "1", 1);
	setenv("SIMPLER_DFX", SIMPLER_DFX ? "0" : "1", 1);
	bed_open(&bed, 1);
	judge(bed.worker, RP_TRACE_HOST, SIMPLER_HOST_STRACE);
	judge(bed.worker, RP_TRACE_DEVICE, SIMPLER_DFX);
	judge(bed.worker, RP_TRACE_KERNELS, SIMPLER_DFX);
	judge(bed.worker, RP_TRACE_HOST | RP_TRACE_DEVICE,
	      SIMPLER_HOST_STRACE && SIMPLER_DFX);
	assert_ok(bed_run_one(&bed, ENTRY_EMPTY, NULL, 0));
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(the_build_decides_what_can_be_recorded),
		PROCESS_TEST(the_build_decides_what_can_be_captured),
	};

	return cmocka_run_group_tests_name("trace_built", tests, NULL, NULL);
}
