/* SPDX-License-Identifier: MIT */
/* What a build was made without is refused by name; the environment has no say in it. */
#include <errno.h>
#include <stdlib.h>

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
	};

	return cmocka_run_group_tests_name("trace_built", tests, NULL, NULL);
}
