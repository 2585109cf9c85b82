/* SPDX-License-Identifier: MIT */
/* Orchestrations that are recorded once and replayed with other memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define LENGTH 48

/* What an orchestration is to do besides its tasks; the library can't see it. */
static enum trick {
	TRICK_NONE,
	TRICK_RUN_ID,
	TRICK_CONFIG,
	TRICK_COPY,
	TRICK_DOMAIN,
	TRICK_PARTLY,
	TRICK_OWN,
	TRICK_FAIL,
} trick;

static struct rp_worker *copied;
static uint64_t copy_address;
static int64_t *own; /* memory of the orchestration's */
static unsigned orchestrations;

static int play_trick(struct rp_run *run, const struct rp_arg *args)
{
	struct rp_domain_spec spec;
	struct rp_domain *domain;
	struct rp_tensor tensor;
	int64_t word = 0;
	int err = 0;

	switch (trick) {
	case TRICK_RUN_ID:
		return rp_run_id(run) ? 0 : -EINVAL;
	case TRICK_CONFIG:
		return rp_run_get_config(run)->tag == 99 ? -EINVAL : 0;
	case TRICK_COPY:
		return rp_worker_copy_to(copied, 0, copy_address, 0, &word, 0,
					 sizeof(word));
	case TRICK_DOMAIN:
		rp_domain_spec_init(&spec);
		spec.name = "ring";
		spec.window_bytes = 4096;
		return rp_run_domain(run, &spec, &domain);
	case TRICK_PARTLY:
		/* One element more than the argument has. */
		tensor = args[0].u.tensor;
		tensor.shape[0]++;
		return TASK(run, 0, ENTRY_EMPTY, rp_in(tensor));
	case TRICK_OWN:
		err = rp_tensor_host(&tensor, own, RP_INT64, 1, (int64_t[]){ LENGTH });
		return err ? err
			   : TASK(run, 0, ENTRY_ADD, rp_inout(tensor), rp_arg_i64(1));
	case TRICK_FAIL:
		return -ENOTSUP;
	default:
		return 0;
	}
}

/*
 * Both halves of y become x + k on a chip each, then all of z becomes y on the last, then
 * a callback copies z to w: dependencies within, and both ways.
 */
static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const uint32_t chips = rp_run_chip_count(run);
	struct rp_tensor x = args[0].u.tensor, y = args[1].u.tensor;
	const int64_t half = x.shape[0] / 2;
	int err = play_trick(run, args);

	(void)nargs;
	(void)user;
	orchestrations++;
	for (uint32_t i = 0; i < 2 && !err; i++) {
		int32_t chip = (int32_t)(i % chips);
		struct rp_tensor from, to;

		if (rp_tensor_slice(&x, 0, i * half, half, 1, &from) ||
		    rp_tensor_slice(&y, 0, i * half, half, 1, &to))
			return -EINVAL;
		err = TASK(run, chip, ENTRY_COPY, rp_in(from), rp_out(to));
		if (!err)
			err = TASK(run, chip, ENTRY_ADD, rp_inout(to), args[4]);
	}
	if (!err)
		err = TASK(run, (int32_t)chips - 1, ENTRY_COPY, rp_in(y),
			   rp_out(args[2].u.tensor));
	if (!err)
		err = CALL(run, 0, rp_in(args[2].u.tensor), rp_out(args[3].u.tensor));
	return err;
}

static int copy_callback(struct rp_callback_context *context, const struct rp_arg *args,
			 size_t nargs, void *user)
{
	(void)context;
	(void)nargs;
	(void)user;
	memcpy(args[1].u.tensor.data, args[0].u.tensor.data, LENGTH * sizeof(int64_t));
	return 0;
}

static void open_bed(struct bed *bed, struct rp_worker_options *options)
{
	static const char *const names[] = { "x", "y", "z", "w", "k" };
	const struct rp_callback callback = { .name = "copy", .fn = copy_callback };
	struct rp_param params[5];
	struct rp_program_desc desc;

	memset(params, 0, sizeof(params));
	for (int i = 0; i < 4; i++)
		params[i] = (struct rp_param){ .name = names[i],
					       .kind = RP_ARG_TENSOR,
					       .dtype = RP_INT64,
					       .access = i ? RP_INOUT : RP_IN,
					       .rank = 1,
					       .shape = { RP_DIM_ANY } };
	params[4] = (struct rp_param){ .name = names[4],
				       .kind = RP_ARG_SCALAR,
				       .dtype = RP_INT64 };
	bed_describe(&desc, "recorded", params, 5);
	desc.orchestrate = orchestrate;
	desc.callbacks = &callback;
	desc.callback_count = 1;
	trick = TRICK_NONE;
	bed_prepare(bed, &desc, options);
}

/* The arguments of a call, and their memory. */
struct call {
	int64_t *memory;
	struct rp_arg args[5];
};

static int64_t *part(const struct call *call, int i)
{
	return call->memory + (size_t)i * LENGTH;
}

static void call_init(struct call *call, int64_t seed)
{
	call->memory = bed_shared(5 * LENGTH * sizeof(int64_t), 0);
	for (int i = 0; i < LENGTH; i++)
		part(call, 0)[i] = seed + i;
	for (int i = 0; i < 4; i++)
		call->args[i] = rp_arg_tensor(TENSOR(part(call, i), RP_INT64, LENGTH));
	call->args[4] = rp_arg_i64(1000);
}

static void check_result(const struct call *call, int64_t seed)
{
	for (int k = 1; k < 4; k++)
		for (int i = 0; i < LENGTH; i++)
			assert_int_equal(part(call, k)[i], seed + i + 1000);
}

static void record(struct bed *bed, struct call *call, struct rp_recording **out)
{
	call_init(call, 5);
	assert_ok(rp_worker_record(bed->worker, bed->program, call->args, 5, NULL, out));
	check_result(call, 5);
}

static void a_replay_does_what_was_recorded_with_other_memory(void **state)
{
	static const struct {
		uint32_t chips;
		bool unified, persistent;
	} cases[] = { { 1, false, false },
		      { 2, false, false },
		      { 2, true, false },
		      { 2, false, true } };

	(void)state;
	for (size_t c = 0; c < COUNT(cases); c++) {
		struct rp_worker_options options;
		struct rp_recording *recording;
		struct call first, next;
		struct bed bed;
		uint64_t wall_ns = 0;
		unsigned before;

		bed_options(&options, cases[c].chips);
		options.unified_memory = cases[c].unified;
		options.persistent = cases[c].persistent;
		open_bed(&bed, &options);
		record(&bed, &first, &recording);
		assert_int_equal(rp_recording_task_count(recording), 6);
		before = orchestrations;
		for (int64_t i = 0; i < 200; i++) {
			struct rp_handle handle;

			call_init(&next, 7 * i);
			assert_ok(rp_recording_run(recording, next.args, 5, NULL,
						   &wall_ns));
			check_result(&next, 7 * i);
			memset(part(&next, 1), 0, 3 * LENGTH * sizeof(int64_t));
			assert_ok(rp_recording_submit(recording, next.args, 5, NULL,
						      &handle));
			assert_ok(rp_handle_wait(handle, RP_WAIT_FOREVER));
			assert_ok(rp_handle_release(handle));
			check_result(&next, 7 * i);
			rp_shared_free(next.memory);
		}
		assert_true(wall_ns > 0);
		assert_int_equal(orchestrations, before);
		/* The ordinary way is as open as before. */
		memset(part(&first, 1), 0, 3 * LENGTH * sizeof(int64_t));
		assert_ok(rp_worker_run(bed.worker, bed.program, first.args, 5, NULL));
		check_result(&first, 5);
		rp_shared_free(first.memory);
		rp_recording_free(recording);
		bed_close(&bed);
	}
}

static void what_would_differ_is_refused(void **state)
{
	int64_t *wide = bed_shared(8 * LENGTH * sizeof(*wide), 0);
	struct rp_recording *recording;
	struct call first, next;
	struct bed bed;

	(void)state;
	open_bed(&bed, NULL);
	record(&bed, &first, &recording);
	call_init(&next, 0);
	for (int i = 0; i < 4; i++)
		next.args[i] = rp_arg_tensor(
			TENSOR(wide + (size_t)i * 2 * LENGTH, RP_INT64, LENGTH + 2));
	assert_int_equal(rp_recording_run(recording, next.args, 5, NULL, NULL), -EINVAL);
	assert_says("'x' dim 0 is 50", "recorded with 48");
	rp_shared_free(next.memory);

	call_init(&next, 0);
	next.args[4] = rp_arg_i64(1001);
	assert_int_equal(rp_recording_run(recording, next.args, 5, NULL, NULL), -EINVAL);
	assert_says("'k'", "0x3e9", "0x3e8");
	next.args[4] = rp_arg_i64(1000);
	/* Memory that was apart is one. */
	next.args[3] = next.args[0];
	assert_int_equal(rp_recording_run(recording, next.args, 5, NULL, NULL), -EINVAL);
	assert_says("'x' and 'w'", "other bytes");
	next.args[3] = rp_arg_tensor(TENSOR(part(&next, 2) + 1, RP_INT64, LENGTH));
	assert_int_equal(rp_recording_run(recording, next.args, 5, NULL, NULL), -EINVAL);
	assert_says("'z' and 'w'");
	/* And what every dispatch is refused for. */
	assert_int_equal(rp_recording_run(recording, next.args, 4, NULL, NULL), -EINVAL);
	assert_int_equal(rp_recording_run(recording, NULL, 5, NULL, NULL), -EINVAL);
	assert_int_equal(rp_recording_run(NULL, next.args, 5, NULL, NULL), -EINVAL);
	assert_int_equal(rp_recording_submit(recording, next.args, 5, NULL, NULL),
			 -EINVAL);
	next.args[3] = rp_arg_tensor(TENSOR(&first, RP_INT64, LENGTH));
	assert_int_equal(rp_recording_run(recording, next.args, 5, NULL, NULL), -EFAULT);
	rp_shared_free(next.memory);
	/* Nothing of it stays: the next good one works. */
	call_init(&next, 3);
	assert_ok(rp_recording_run(recording, next.args, 5, NULL, NULL));
	check_result(&next, 3);
	rp_shared_free(next.memory);
	rp_shared_free(first.memory);
	rp_shared_free(wide);
	bed_close(&bed);
	call_init(&next, 3);
	assert_int_equal(rp_recording_run(recording, next.args, 5, NULL, NULL), -ESTALE);
	rp_shared_free(next.memory);
	rp_recording_free(recording);
	rp_recording_free(NULL);
	assert_int_equal(rp_recording_task_count(NULL), 0);
}

/* Recorded with two arguments of one memory, it is replayed with such, at any place. */
static void arguments_that_are_one_stay_one(void **state)
{
	struct rp_recording *recording;
	struct call first, next;
	struct bed bed;

	(void)state;
	open_bed(&bed, NULL);
	call_init(&first, 5);
	first.args[3] = first.args[1];
	assert_ok(rp_worker_record(bed.worker, bed.program, first.args, 5, NULL,
				   &recording));
	call_init(&next, 9);
	assert_int_equal(rp_recording_run(recording, next.args, 5, NULL, NULL), -EINVAL);
	assert_says("'y' and 'w'");
	next.args[3] = next.args[1];
	assert_ok(rp_recording_run(recording, next.args, 5, NULL, NULL));
	assert_int_equal(part(&next, 1)[2], 1011);
	assert_int_equal(part(&next, 3)[2], 0);
	rp_recording_free(recording);
	rp_shared_free(first.memory);
	rp_shared_free(next.memory);
	bed_close(&bed);
}

static void what_no_replay_can_do_is_refused_when_it_is_recorded(void **state)
{
	static const struct {
		enum trick trick;
		const char *why;
	} cases[] = {
		{ TRICK_RUN_ID, "run's number" },
		{ TRICK_COPY, "copies" },
		{ TRICK_DOMAIN, "comm domain" },
		{ TRICK_PARTLY, "argument" },
	};
	struct rp_recording *recording = NULL;
	struct call call;
	struct bed bed;

	(void)state;
	open_bed(&bed, NULL);
	copied = bed.worker;
	assert_ok(rp_worker_device_alloc(bed.worker, 0, 4096, &copy_address));
	for (size_t i = 0; i < COUNT(cases); i++) {
		trick = cases[i].trick;
		call_init(&call, 5);
		assert_int_equal(rp_worker_record(bed.worker, bed.program, call.args, 5,
						  NULL, &recording),
				 -EOPNOTSUPP);
		assert_says("rp_worker_record", "'recorded'", cases[i].why);
		check_result(&call, 5); /* it has run */
		rp_shared_free(call.memory);
	}
	trick = TRICK_FAIL;
	call_init(&call, 5);
	assert_int_equal(
		rp_worker_record(bed.worker, bed.program, call.args, 5, NULL, &recording),
		-ENOTSUP);
	trick = TRICK_NONE;
	assert_int_equal(
		rp_worker_record(bed.worker, bed.program, call.args, 5, NULL, NULL),
		-EINVAL);
	assert_int_equal(
		rp_worker_record(NULL, bed.program, call.args, 5, NULL, &recording),
		-EINVAL);
	assert_null(recording);
	rp_shared_free(call.memory);
	bed_close(&bed);
}

static void a_worker_with_a_dispatcher_records_nothing(void **state)
{
	struct rp_recording *recording = NULL;
	struct rp_worker_options options;
	struct call call;
	struct bed bed;

	(void)state;
	bed_options(&options, 1);
	options.dispatcher = true;
	open_bed(&bed, &options);
	call_init(&call, 5);
	assert_int_equal(
		rp_worker_record(bed.worker, bed.program, call.args, 5, NULL, &recording),
		-EOPNOTSUPP);
	assert_says("dispatcher");
	assert_int_equal(part(&call, 1)[0], 0);
	rp_shared_free(call.memory);
	bed_close(&bed);
}

static void a_config_that_was_read_must_be_the_same(void **state)
{
	struct rp_recording *recording;
	struct rp_run_config config;
	struct call call;
	struct bed bed;

	(void)state;
	rp_run_config_init(&config);
	config.tag = 7;
	open_bed(&bed, NULL);
	record(&bed, &call, &recording);
	/* Nobody has read it. */
	assert_ok(rp_recording_run(recording, call.args, 5, &config, NULL));
	rp_recording_free(recording);
	trick = TRICK_CONFIG;
	assert_ok(rp_worker_record(bed.worker, bed.program, call.args, 5, &config,
				   &recording));
	assert_ok(rp_recording_run(recording, call.args, 5, &config, NULL));
	config.tag = 8;
	assert_int_equal(rp_recording_run(recording, call.args, 5, &config, NULL),
			 -EINVAL);
	assert_says("configuration");
	rp_recording_free(recording);
	rp_shared_free(call.memory);
	bed_close(&bed);
}

static void memory_of_the_orchestration_stays_where_it_is(void **state)
{
	struct rp_recording *recording;
	struct call call;
	struct bed bed;

	(void)state;
	own = bed_shared((size_t)4 << 20, 0);
	open_bed(&bed, NULL);
	trick = TRICK_OWN;
	record(&bed, &call, &recording);
	assert_int_equal(own[LENGTH - 1], 1);
	assert_ok(rp_recording_run(recording, call.args, 5, NULL, NULL));
	assert_int_equal(own[LENGTH - 1], 2);
	/* It may be no argument's, which would be ordered with it. */
	call.args[0] = rp_arg_tensor(TENSOR(own + LENGTH - 1, RP_INT64, LENGTH));
	assert_int_equal(rp_recording_run(recording, call.args, 5, NULL, NULL), -EINVAL);
	assert_says("'x'", "orchestration");
	call.args[0] = rp_arg_tensor(TENSOR(own + LENGTH, RP_INT64, LENGTH));
	assert_ok(rp_recording_run(recording, call.args, 5, NULL, NULL));
	call.args[0] = rp_arg_tensor(TENSOR(part(&call, 0), RP_INT64, LENGTH));
	rp_shared_free(own);
	assert_int_equal(rp_recording_run(recording, call.args, 5, NULL, NULL), -EFAULT);
	assert_says("recorded", "freed");
	rp_recording_free(recording);
	rp_shared_free(call.memory);
	bed_close(&bed);
}

/* Device memory: looked up anew, on the chip it was on. */
static int shards(struct rp_run *run, const struct rp_arg *args, size_t nargs, void *user)
{
	int err = 0;

	(void)nargs;
	(void)user;
	for (int32_t chip = 0; chip < 2 && !err; chip++) {
		struct rp_tensor shard;

		if (rp_tensor_index(&args[0].u.tensor, chip, &shard))
			return -EINVAL;
		err = TASK(run, chip, ENTRY_ADD, rp_inout(shard), rp_arg_i64(chip + 1));
	}
	return err;
}

static void device_memory_is_looked_up_anew(void **state)
{
	const struct rp_param param = { .name = "x",
					.kind = RP_ARG_TENSOR,
					.dtype = RP_INT64,
					.access = RP_INOUT,
					.rank = 2,
					.shape = { 2, LENGTH } };
	int64_t zero[2 * LENGTH] = { 0 }, back[2 * LENGTH];
	struct rp_tensor host, one, other, crossed;
	struct rp_recording *recording;
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_arg arg;
	struct bed bed;

	(void)state;
	bed_options(&options, 2);
	bed_describe(&desc, "shards", &param, 1);
	desc.orchestrate = shards;
	bed_prepare(&bed, &desc, &options);
	host = TENSOR(zero, RP_INT64, 2, LENGTH);
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &one));
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, NULL, 0, &other));
	assert_ok(rp_worker_alloc_stacked(bed.worker, &host, (uint32_t[]){ 1, 0 }, 2,
					  &crossed));
	arg = rp_arg_tensor(one);
	assert_ok(rp_worker_record(bed.worker, NULL, &arg, 1, NULL, &recording));
	arg = rp_arg_tensor(other);
	for (int i = 0; i < 3; i++)
		assert_ok(rp_recording_run(recording, &arg, 1, NULL, NULL));
	host = TENSOR(back, RP_INT64, 2, LENGTH);
	assert_ok(rp_worker_copy_stacked_from(bed.worker, &other, &host));
	assert_int_equal(back[0], 3);
	assert_int_equal(back[2 * LENGTH - 1], 6);
	assert_ok(rp_worker_copy_stacked_from(bed.worker, &one, &host));
	assert_int_equal(back[2 * LENGTH - 1], 2);
	arg = rp_arg_tensor(crossed);
	assert_int_equal(rp_recording_run(recording, &arg, 1, NULL, NULL), -EINVAL);
	assert_says("'x' lies on chip 1", "recorded on chip 0");
	assert_ok(rp_worker_copy_stacked_from(bed.worker, &crossed, &host));
	assert_int_equal(back[0], 0);
	arg = rp_arg_tensor(TENSOR(bed_shared(sizeof(back), 0), RP_INT64, 2, LENGTH));
	assert_int_equal(rp_recording_run(recording, &arg, 1, NULL, NULL), -EINVAL);
	assert_says("'x' is host memory", "recorded as device");
	rp_shared_free(arg.u.tensor.data);
	assert_ok(rp_worker_free_stacked(bed.worker, &other));
	arg = rp_arg_tensor(other);
	assert_int_equal(rp_recording_run(recording, &arg, 1, NULL, NULL), -ESTALE);
	rp_recording_free(recording);
	bed_close(&bed);
}

/* More tasks than a ring holds, and arguments with strides. */
static int many(struct rp_run *run, const struct rp_arg *args, size_t nargs, void *user)
{
	int err = 0;

	(void)nargs;
	(void)user;
	for (int64_t i = 0; i < 200 && !err; i++) {
		struct rp_tensor column;

		if (rp_tensor_slice(&args[0].u.tensor, 1, i % 4, 1, 1, &column))
			return -EINVAL;
		err = TASK(run, (int32_t)(i % 2), ENTRY_ADD, rp_inout(column),
			   rp_arg_i64(i));
	}
	return err;
}

static void many_strided_tasks_press_back_and_go_on(void **state)
{
	const struct rp_param param = { .name = "x",
					.kind = RP_ARG_TENSOR,
					.dtype = RP_INT64,
					.access = RP_INOUT,
					.rank = 2,
					.shape = { 6, 4 } };
	int64_t *x = bed_shared(24 * sizeof(*x), 0), *y = bed_shared(24 * sizeof(*y), 0);
	struct rp_recording *recording;
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_arg arg;
	struct bed bed;

	(void)state;
	bed_options(&options, 2);
	options.task_ring_slots = 16;
	options.arg_ring_bytes = 4096;
	bed_describe(&desc, "many", &param, 1);
	desc.orchestrate = many;
	bed_prepare(&bed, &desc, &options);
	arg = rp_arg_tensor(TENSOR(x, RP_INT64, 6, 4));
	assert_ok(rp_worker_record(bed.worker, NULL, &arg, 1, NULL, &recording));
	assert_int_equal(rp_recording_task_count(recording), 200);
	arg = rp_arg_tensor(TENSOR(y, RP_INT64, 6, 4));
	assert_ok(rp_recording_run(recording, &arg, 1, NULL, NULL));
	assert_memory_equal(x, y, 24 * sizeof(*x));
	assert_int_equal(y[0], 50 * 98);
	rp_recording_free(recording);
	bed_close(&bed);
	rp_shared_free(x);
	rp_shared_free(y);
}

/* Tasks that take nothing, and runs that have none. */
static unsigned plain_tasks;

static int plain(struct rp_run *run, const struct rp_arg *args, size_t nargs, void *user)
{
	int err = 0;

	(void)args;
	(void)nargs;
	(void)user;
	for (unsigned i = 0; i < plain_tasks && !err; i++)
		err = rp_run_task(run, &(struct rp_task){ .entry = ENTRY_EMPTY });
	return err;
}

static void runs_without_arguments_or_tasks_are_recorded_too(void **state)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_program_desc desc;
	struct bed bed;

	(void)state;
	bed_describe(&desc, "plain", NULL, 0);
	desc.orchestrate = plain;
	bed_prepare(&bed, &desc, NULL);
	for (plain_tasks = 0; plain_tasks <= 3; plain_tasks++) {
		struct rp_recording *recording;
		uint64_t before;

		assert_ok(rp_worker_record(bed.worker, NULL, NULL, 0, NULL, &recording));
		assert_int_equal(rp_recording_task_count(recording), plain_tasks);
		assert_ok(rp_worker_get_stats(bed.worker, &stats));
		before = stats.tasks;
		assert_ok(rp_recording_run(recording, NULL, 0, NULL, NULL));
		assert_ok(rp_worker_get_stats(bed.worker, &stats));
		assert_int_equal(stats.tasks - before, plain_tasks);
		rp_recording_free(recording);
	}
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROCESS_TEST(a_replay_does_what_was_recorded_with_other_memory),
		PROCESS_TEST(what_would_differ_is_refused),
		PROCESS_TEST(arguments_that_are_one_stay_one),
		PROCESS_TEST(what_no_replay_can_do_is_refused_when_it_is_recorded),
		PROCESS_TEST(a_worker_with_a_dispatcher_records_nothing),
		PROCESS_TEST(a_config_that_was_read_must_be_the_same),
		PROCESS_TEST(memory_of_the_orchestration_stays_where_it_is),
		PROCESS_TEST(device_memory_is_looked_up_anew),
		PROCESS_TEST(many_strided_tasks_press_back_and_go_on),
		PROCESS_TEST(runs_without_arguments_or_tasks_are_recorded_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
