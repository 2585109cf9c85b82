/* SPDX-License-Identifier: MIT */
/* What captures note of kernels: every edge is one that was kept, and times are in order;
 * also when threads run the kernels meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "kernel_bed.h"

#define KERNELS 400
#define WORDS	24

/* Of each kernel, from its records. */
struct kernel_times {
	uint64_t submitted, ready, begin, end;
	char name[RPI_NOTE_NAME_BYTES + 1];
};

struct edge {
	uint64_t from, to;
};

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *seed >> 33;
}

static int count_up(const struct rp_arg *args, size_t nargs)
{
	for (size_t i = 0; i < nargs; i++)
		if (args[i].access & RP_OUT)
			((int64_t *)args[i].u.tensor.data)[0]++;
	return 0;
}

static struct rp_arg range(int64_t *words, uint64_t at, uint64_t count, uint32_t access)
{
	struct rp_arg arg = { .kind = RP_ARG_TENSOR, .access = access };
	const int64_t shape = (int64_t)count;

	assert_ok(rp_tensor_host(&arg.u.tensor, &words[at], RP_INT64, 1, &shape));
	return arg;
}

/* Random ranges of the words, read or written; some kernels name others instead. */
static void submit_all(struct rpi_runtime *runtime, int64_t *words, uint64_t seed)
{
	rp_kernel_id ids[KERNELS];

	for (int i = 0; i < KERNELS; i++) {
		const uint64_t at = next(&seed) % WORDS;
		struct rp_arg args[2] = {
			range(words, at, 1, RP_IN),
			range(words, next(&seed) % WORDS, 1, RP_INOUT),
		};
		rp_kernel_id dep = i ? ids[next(&seed) % (uint64_t)i] : 0;
		const struct rp_kernel kernel = {
			.fn = count_up,
			.name = i % 3 ? "a kernel" : NULL,
			.args = args,
			.arg_count = 1 + (uint32_t)(next(&seed) % 2),
			.deps = &dep,
			.dep_count = i && next(&seed) % 4 == 0,
		};

		assert_ok(rpi_runtime_submit(runtime, &kernel, &ids[i]));
	}
}

static size_t read_all(const struct rpi_trace_ring *ring, struct kernel_times *times,
		       struct edge *edges, size_t edge_count)
{
	struct rpi_trace_copy copy;
	uint64_t at = 0, dropped = 0;

	while (rpi_trace_take(ring, &at, &copy, &dropped)) {
		const uint64_t index = RPI_NOTE_INDEX(copy.value);

		assert_true(index < KERNELS);
		switch (copy.what & UINT16_MAX) {
		case RPI_SPAN_DEVICE_KERNEL:
			times[index].begin = copy.begin;
			times[index].end = copy.end;
			break;
		case RPI_SPAN_KERNEL_LIFE:
			times[index].submitted = copy.begin;
			times[index].ready = copy.end;
			break;
		case RPI_SPAN_KERNEL_NAME:
			assert_int_equal(RPI_NOTE_PART(copy.value), 0);
			memcpy(times[index].name, &copy.begin, sizeof(copy.begin));
			break;
		case RPI_SPAN_KERNEL_EDGE:
			assert_in_range(RPI_NOTE_REASON(copy.end), RPI_REASON_RAW,
					RPI_REASON_ORDER);
			edges[edge_count++] = (struct edge){ copy.begin, index };
			break;
		default:
			fail_msg("a record of kind %u",
				 (unsigned)(copy.what & UINT16_MAX));
		}
	}
	assert_int_equal(dropped, 0);
	return edge_count;
}

static void check(const struct kernel_times *times, const struct edge *edges,
		  size_t edge_count)
{
	for (int i = 0; i < KERNELS; i++) {
		assert_true(times[i].submitted > 0);
		assert_true(times[i].submitted <= times[i].ready);
		assert_true(times[i].ready <= times[i].begin);
		assert_true(times[i].begin <= times[i].end);
		assert_string_equal(times[i].name, i % 3 ? "a kernel" : "");
	}
	assert_true(edge_count > KERNELS / 2);
	for (size_t i = 0; i < edge_count; i++) {
		assert_true(edges[i].from < edges[i].to);
		assert_true(times[edges[i].from].end <= times[edges[i].to].begin);
	}
}

static void every_edge_was_kept(void **state)
{
	struct rpi_trace *trace;
	static struct edge edges[RPI_SPAN_RING];

	(void)state;
	for (uint32_t threads = 0; threads <= 3; threads += 3) {
		struct kernel_times *times = calloc(KERNELS, sizeof(*times));
		const size_t bytes = sizeof(*trace) + sizeof(trace->logs[0]);
		struct rpi_runtime_config config = { .compute_threads = threads };
		struct rpi_runtime *runtime;
		const char *text;
		size_t count = 0;
		int64_t words[WORDS] = { 0 };

		trace = aligned_alloc(RPI_SHARE_ALIGN, bytes);
		assert_non_null(trace);
		assert_non_null(times);
		memset(trace, 0, bytes);
		config.tracer =
			(struct rpi_tracer){ .trace = trace, .log = &trace->logs[0] };
		assert_ok(rpi_runtime_open(&config, &runtime));
		rpi_trace_want(trace,
			       RPI_TRACE_KERNELS | RPI_TRACE_DEVICE | RPI_TRACE_NOTES, 0);
		runtime->noted = RPI_TRACE_NOTES & ~RPI_TRACE_SCOPES;
		rpi_runtime_begin(runtime, NULL);
		submit_all(runtime, words, threads + 5);
		assert_int_equal(rpi_runtime_end(runtime, 0, &text), 0);
		assert_int_equal(runtime->noted, 0);
		for (int which = 0; which < RPI_TRACE_RINGS; which++)
			count = read_all(&trace->logs[0].rings[which], times, edges,
					 count);
		check(times, edges, count);
		rpi_runtime_close(runtime);
		free(times);
		free(trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_edge_was_kept),
	};

	return cmocka_run_group_tests_name("runtime_notes", tests, NULL, NULL);
}
