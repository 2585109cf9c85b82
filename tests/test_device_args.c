/* SPDX-License-Identifier: MIT */
/* Resident tensors as arguments: used where they are, or refused with the reason. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "support.h"

#define CHIPS 2
#define WIDTH 100

static struct rp_program *programs[2];
static struct rp_worker *worker;

/* What the next orchestration does instead of its own. */
static int swapped;
static script_fn script;

enum {
	MOVE, /* y[i] = x[i] on chip i */
	ADD   /* y[i] += 1 */
};

static int by_shards(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		     void *user)
{
	int err = 0;

	if (script)
		return script(run, (void *)(uintptr_t)args);
	for (int i = 0; i < CHIPS && !err; i++) {
		struct rp_tensor part[2];

		for (size_t k = 0; k < nargs && !err; k++)
			err = rp_tensor_index(&args[k].u.tensor, i, &part[k]);
		if (err)
			return err;
		if (*(int *)user == MOVE)
			err = TASK(run, swapped ? 1 - i : i, ENTRY_COPY, rp_in(part[0]),
				   rp_out(part[1]));
		else
			err = TASK(run, swapped ? 1 - i : i, ENTRY_ADD, rp_inout(part[0]),
				   rp_arg_i64(1));
	}
	return err;
}

static void create(int which)
{
	static int kinds[] = { MOVE, ADD };
	static const struct rp_param params[] = {
		{ .name = "x",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_IN,
		  .rank = 2,
		  .shape = { CHIPS, RP_DIM_ANY } },
		{ .name = "y",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_INT64,
		  .access = RP_INOUT,
		  .rank = 2,
		  .shape = { CHIPS, RP_DIM_ANY } },
	};
	struct rp_program_desc desc;

	bed_describe(&desc, which == MOVE ? "move" : "add", params + which, 2 - which);
	desc.orchestrate = by_shards;
	desc.user = &kinds[which];
	assert_ok(rp_program_create(&desc, &programs[which]));
}

static int set_up(void **state)
{
	struct rp_worker_options options;
	int err = bed_setup(state);

	swapped = 0;
	script = NULL;
	create(MOVE);
	create(ADD);
	bed_options(&options, CHIPS);
	assert_ok(rp_worker_prepare(programs, 2, &options, &worker));
	return err;
}

static int tear_down(void **state)
{
	rp_worker_free(worker);
	rp_program_free(programs[0]);
	rp_program_free(programs[1]);
	return bed_teardown(state);
}

static int move(struct rp_tensor x, struct rp_tensor y)
{
	struct rp_arg args[] = { rp_arg_tensor(x), rp_arg_tensor(y) };

	return rp_worker_run(worker, programs[MOVE], args, 2, NULL);
}

static int add(struct rp_tensor y)
{
	struct rp_arg arg = rp_arg_tensor(y);

	return rp_worker_run(worker, programs[ADD], &arg, 1, NULL);
}

/* A stack of CHIPS rows of WIDTH, each element `value`. */
static struct rp_tensor must_stack(int64_t value, const uint32_t *chips)
{
	int64_t data[CHIPS * WIDTH];
	struct rp_tensor host = TENSOR(data, RP_INT64, CHIPS, WIDTH);
	struct rp_tensor out;

	for (size_t i = 0; i < COUNT(data); i++)
		data[i] = value;
	assert_ok(rp_worker_alloc_stacked(worker, &host, chips, chips ? CHIPS : 0, &out));
	return out;
}

static void assert_stack_is(const struct rp_tensor *stack, int64_t value)
{
	int64_t data[CHIPS * WIDTH];
	struct rp_tensor host = TENSOR(data, RP_INT64, CHIPS, WIDTH);

	assert_ok(rp_worker_copy_stacked_from(worker, stack, &host));
	for (size_t i = 0; i < COUNT(data); i++)
		assert_int_equal(data[i], value);
}

static struct rp_worker_stats stats_now(void)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	assert_ok(rp_worker_get_stats(worker, &stats));
	return stats;
}

static void a_hundred_runs_move_no_byte_of_it(void **state)
{
	struct rp_tensor x = must_stack(7, NULL);
	struct rp_tensor y = must_stack(0, NULL);
	struct rp_worker_stats before = stats_now();
	struct rp_worker_stats after;

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_ok(move(x, y));
		assert_ok(add(y));
		assert_ok(add(x));
	}
	after = stats_now();
	assert_int_equal(after.tasks - before.tasks, 3 * 100 * CHIPS);
	assert_int_equal(after.bytes_to_device, before.bytes_to_device);
	assert_int_equal(after.bytes_from_device, before.bytes_from_device);
	assert_int_equal(after.copies_to_device, before.copies_to_device);
	assert_int_equal(after.copies_from_device, before.copies_from_device);
	assert_int_equal(after.bytes_zeroed, before.bytes_zeroed);
	assert_int_equal(after.bytes_staged, before.bytes_staged);
	assert_int_equal(after.bytes_named, before.bytes_named);
	assert_stack_is(&x, 107);
	assert_stack_is(&y, 107);
}

static void programs_of_one_worker_share_it(void **state)
{
	struct rp_tensor x = must_stack(3, NULL);
	struct rp_tensor y = must_stack(0, NULL);

	(void)state;
	assert_ok(add(x));
	assert_ok(move(x, y));
	assert_ok(add(y));
	assert_stack_is(&y, 5);
}

static void what_an_out_task_leaves_alone_stays(void **state)
{
	static int64_t zeros[WIDTH];
	struct rp_tensor y = must_stack(9, NULL);
	struct rp_tensor host;
	uint64_t address;
	uint32_t chip;

	(void)state;
	/* One slot of a cache is written, its neighbours are as they were. */
	assert_ok(rp_tensor_index(&y, 1, &host));
	assert_ok(rp_worker_tensor_address(worker, &host, &chip, &address));
	assert_ok(rp_worker_copy_to(worker, chip, address, 5 * sizeof(int64_t), zeros, 0,
				    sizeof(int64_t)));
	assert_ok(add(y));
	int64_t data[CHIPS * WIDTH];
	struct rp_tensor back = TENSOR(data, RP_INT64, CHIPS, WIDTH);

	assert_ok(rp_worker_copy_stacked_from(worker, &y, &back));
	for (int i = 0; i < CHIPS * WIDTH; i++)
		assert_int_equal(data[i], i == WIDTH + 5 ? 1 : 10);
}

static struct rp_tensor captured[2];

static int write_half(struct rp_run *run, void *args)
{
	struct rp_tensor half;

	(void)args;
	if (rp_tensor_slice(&captured[0], 0, 0, WIDTH / 2, 1, &half))
		return -EINVAL;
	/* Declared OUT as a whole, written in part. */
	return TASK(run, 1, ENTRY_FILL_HALF, rp_out(captured[0]))
		       ?: TASK(run, 1, ENTRY_ADD, rp_inout(half), rp_arg_i64(1));
}

static void a_task_may_name_what_its_orchestration_holds(void **state)
{
	int64_t row[WIDTH];
	struct rp_tensor y = must_stack(9, NULL);
	struct rp_tensor other = must_stack(4, NULL);
	uint64_t address;
	uint32_t chip;

	(void)state;
	assert_ok(rp_tensor_index(&y, 1, &captured[0]));
	script = write_half;
	assert_ok(add(other));
	assert_ok(rp_worker_tensor_address(worker, &captured[0], &chip, &address));
	assert_ok(rp_worker_copy_from(worker, chip, address, 0, row, 0, sizeof(row)));
	for (int i = 0; i < WIDTH; i++)
		assert_int_equal(row[i],
				 i < WIDTH / 2 ? INT64_C(0x1111111111111111) + 1 : 9);
	assert_stack_is(&other, 4);
}

static void what_is_not_resident_here_is_refused(void **state)
{
	static int64_t private_row[CHIPS * WIDTH];
	struct rp_tensor good = must_stack(1, NULL);
	struct rp_tensor bad[9];
	const struct {
		int err;
		const char *why;
	} want[] = {
		{ -EXDEV, "another worker" },
		{ -EINVAL, "raw device address" },
		{ -EINVAL, "raw device address" },
		{ -ESTALE, "freed" },
		{ -EINVAL, "dtype" },
		{ -EINVAL, "it is float32" },
		{ -EINVAL, "shape" },
		{ -ERANGE, "resident tensor" },
		{ -EFAULT, "rp_shared_alloc()" },
	};
	struct rp_worker_stats before;
	struct rp_worker *other;
	uint64_t raw;
	size_t i;

	(void)state;
	assert_ok(rp_worker_prepare(programs, 2, NULL, &other));
	assert_ok(rp_worker_alloc_tensor(other, 0, RP_INT64, 2,
					 (int64_t[]){ CHIPS, WIDTH }, NULL, &bad[0]));
	assert_ok(rp_worker_device_alloc(worker, 0, 4096, &raw));
	bad[1] = TENSOR((void *)(uintptr_t)raw, RP_INT64, CHIPS, WIDTH);
	bad[2] = TENSOR((void *)(uintptr_t)(raw + 64), RP_INT64, CHIPS, WIDTH);
	bad[3] = must_stack(1, NULL);
	assert_ok(rp_worker_free_stacked(worker, &bad[3]));
	bad[4] = good;
	bad[4].dtype = RP_INT32;
	assert_ok(rp_worker_alloc_tensor(worker, 0, RP_FLOAT32, 2,
					 (int64_t[]){ CHIPS, WIDTH }, NULL, &bad[5]));
	bad[5].dtype = RP_INT64;
	bad[6] = TENSOR(private_row, RP_INT64, CHIPS * WIDTH);
	bad[6].resident = good.resident;
	bad[6].data = NULL;
	bad[7] = TENSOR(private_row, RP_INT64, CHIPS, WIDTH + 1);
	bad[7].resident = good.resident;
	bad[7].data = NULL;
	bad[8] = TENSOR(private_row, RP_INT64, CHIPS, WIDTH);
	before = stats_now();
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(move(good, bad[i]), want[i].err);
		assert_says("rp_worker_submit: '", want[i].why);
		assert_int_equal(move(bad[i], good), want[i].err);
	}
	/* Nothing of it ran, and the worker serves on. */
	assert_int_equal(stats_now().tasks, before.tasks);
	assert_ok(add(good));
	assert_stack_is(&good, 2);
	rp_worker_free(other);
}

static int refused_task(struct rp_run *run, void *args)
{
	const struct rp_arg *given = args;
	const struct rp_tensor stack = given[0].u.tensor;
	struct rp_tensor shard, forged;

	if (rp_tensor_index(&stack, 0, &shard))
		return -EBADMSG;
	/* Of another chip. */
	if (TASK(run, 1, ENTRY_ADD, rp_inout(shard), rp_arg_i64(1)) != -EINVAL ||
	    !strstr(rp_last_error(), "lies on chip 0, the task goes to chip 1"))
		return -EBADMSG;
	/* On several. */
	if (TASK(run, 0, ENTRY_ADD, rp_inout(stack), rp_arg_i64(1)) != -EINVAL ||
	    !strstr(rp_last_error(), "stacked"))
		return -EBADMSG;
	/* Named as what it is not. */
	forged = shard;
	forged.dtype = RP_UINT64;
	if (TASK(run, 0, ENTRY_ADD, rp_inout(forged), rp_arg_i64(1)) != -EINVAL)
		return -EBADMSG;
	forged = shard;
	forged.data = (void *)(uintptr_t)(CHIPS * WIDTH * sizeof(int64_t));
	if (TASK(run, 0, ENTRY_ADD, rp_inout(forged), rp_arg_i64(1)) != -ERANGE)
		return -EBADMSG;
	forged = shard;
	forged.resident ^= UINT64_C(1) << 20; /* another generation */
	if (TASK(run, 0, ENTRY_ADD, rp_inout(forged), rp_arg_i64(1)) != -ESTALE ||
	    !strstr(rp_last_error(), "rp_run_task: argument 0: "))
		return -EBADMSG;
	forged.resident = shard.resident ^ UINT64_C(1) << 63; /* another worker */
	if (TASK(run, 0, ENTRY_ADD, rp_inout(forged), rp_arg_i64(1)) != -EXDEV)
		return -EBADMSG;
	/* What is refused leaves no trace: the rest of the run goes on. */
	return TASK(run, 0, ENTRY_ADD, rp_inout(shard), rp_arg_i64(5));
}

static void tasks_name_what_lies_on_their_chip(void **state)
{
	struct rp_tensor y = must_stack(1, NULL);
	int64_t data[CHIPS * WIDTH];
	struct rp_tensor back = TENSOR(data, RP_INT64, CHIPS, WIDTH);

	(void)state;
	script = refused_task;
	assert_ok(add(y));
	script = NULL;
	assert_ok(rp_worker_copy_stacked_from(worker, &y, &back));
	assert_int_equal(data[0], 6);
	assert_int_equal(data[WIDTH], 1);
	/* The error of a task that its orchestration hands on. */
	y = must_stack(1, (uint32_t[]){ 1, 0 });
	assert_int_equal(add(y), -EINVAL);
	assert_says("chip 0", "chip 1");
	swapped = 1;
	assert_ok(add(y));
	assert_stack_is(&y, 2);
}

static int write_what_is_read(struct rp_run *run, void *args)
{
	const struct rp_arg *given = args;
	struct rp_tensor x;

	if (rp_tensor_index(&given[0].u.tensor, 0, &x))
		return -EBADMSG;
	return TASK(run, 0, ENTRY_ADD, rp_inout(x), rp_arg_i64(1));
}

static void what_a_program_only_reads_is_not_written(void **state)
{
	struct rp_tensor x = must_stack(1, NULL);
	struct rp_tensor y = must_stack(2, NULL);

	(void)state;
	script = write_what_is_read;
	assert_int_equal(move(x, y), -EACCES);
	assert_says("'x'");
	script = NULL;
	assert_stack_is(&x, 1);
	/* Given twice, it may be written through the name that says so. */
	script = write_what_is_read;
	assert_ok(move(x, x));
	script = NULL;
}

static void host_memory_is_never_taken_for_a_chips(void **state)
{
	static const size_t sizes[] = { 1 * MIB, 8 * MIB, 64 * MIB, 256 * MIB };
	struct rp_tensor good = must_stack(1, NULL);
	uint64_t raw;
	size_t i;

	(void)state;
	/* Where these lie, a chip that was forked from here might have its memory. */
	assert_ok(rp_worker_device_alloc(worker, 0, 4096, &raw));
	for (i = 0; i < COUNT(sizes); i++) {
		uint8_t *at = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		struct rp_tensor host;
		size_t part;

		assert_true(at != MAP_FAILED);
		for (part = 0; part < sizes[i]; part += sizes[i] / 64) {
			host = TENSOR(at + part, RP_INT64, CHIPS, 8);
			assert_int_equal(move(good, host), -EFAULT);
		}
		munmap(at, sizes[i]);
	}
}

static void unified_memory_makes_no_difference_to_it(void **state)
{
	struct rp_worker_options options;
	int64_t *host = bed_shared(CHIPS * WIDTH * sizeof(*host), 0);
	struct rp_tensor x = TENSOR(host, RP_INT64, CHIPS, WIDTH);
	struct rp_tensor y;

	(void)state;
	rp_worker_free(worker);
	bed_options(&options, CHIPS);
	options.unified_memory = true;
	assert_ok(rp_worker_prepare(programs, 2, &options, &worker));
	y = must_stack(1, NULL);
	assert_ok(add(y));
	assert_stack_is(&y, 2);
	host[0] = 9;
	assert_ok(move(x, y));
	host[0] = 0;
	assert_ok(move(y, x));
	assert_int_equal(host[0], 9);
	assert_int_equal(host[1], 0);
	assert_int_equal(move(must_stack(1, (uint32_t[]){ 1, 0 }), x), -EINVAL);
	rp_shared_free(host);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_hundred_runs_move_no_byte_of_it),
		TEST(programs_of_one_worker_share_it),
		TEST(what_an_out_task_leaves_alone_stays),
		TEST(a_task_may_name_what_its_orchestration_holds),
		TEST(what_is_not_resident_here_is_refused),
		TEST(tasks_name_what_lies_on_their_chip),
		TEST(what_a_program_only_reads_is_not_written),
		TEST(unified_memory_makes_no_difference_to_it),
		TEST(host_memory_is_never_taken_for_a_chips),
	};

	return cmocka_run_group_tests_name("test_device_args", tests, NULL, NULL);
}
