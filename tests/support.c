/* SPDX-License-Identifier: MIT */
#include "support.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct board *board;

/* The script of the dispatch that this thread submits. */
static _Thread_local struct {
	script_fn fn;
	void *arg;
} current;

void bed_breathe(void)
{
	struct timespec moment = { .tv_nsec = 50000 };

	nanosleep(&moment, NULL);
}

void bed_give_a_chance(void)
{
	for (int i = 0; i < 100; i++)
		bed_breathe();
}

/* --- Tensors ------------------------------------------------------------- */

uint32_t bed_element_bytes(const struct rp_tensor *tensor)
{
	uint32_t bits = rp_dtype_bits((enum rp_dtype)tensor->dtype);

	return bits < 8 ? 1 : bits / 8;
}

int64_t bed_elements(const struct rp_tensor *tensor)
{
	int64_t count = 1;

	for (uint32_t dim = 0; dim < tensor->rank; dim++)
		count *= tensor->shape[dim];
	return tensor->dtype == RP_FP4E2M1 ? count / 2 : count;
}

uint8_t *bed_at(const struct rp_tensor *tensor, int64_t i)
{
	bool pairs = tensor->dtype == RP_FP4E2M1;
	int64_t bytes = bed_element_bytes(tensor);
	uint8_t *at = tensor->data;

	for (uint32_t dim = tensor->rank; dim-- > 0;) {
		bool last = dim == tensor->rank - 1;
		int64_t length = tensor->shape[dim] / (pairs && last ? 2 : 1);
		int64_t stride = tensor->strides[dim] / (pairs && !last ? 2 : 1);

		at += i % length * stride * bytes;
		i /= length;
	}
	return at;
}

struct rp_tensor bed_tensor(void *data, enum rp_dtype dtype, uint32_t rank,
			    const int64_t *shape)
{
	struct rp_tensor tensor;

	assert_ok(rp_tensor_host(&tensor, data, dtype, rank, shape));
	return tensor;
}

/* --- Entries: in a worker process, where nothing may be asserted ----------- */

static const struct rp_tensor *tensor_arg(const struct rp_arg *args, size_t nargs,
					  size_t n)
{
	for (size_t i = 0; i < nargs; i++)
		if (args[i].kind == RP_ARG_TENSOR && !n--)
			return &args[i].u.tensor;
	return NULL;
}

static uint64_t scalar_arg(const struct rp_arg *args, size_t nargs, size_t n)
{
	for (size_t i = 0; i < nargs; i++)
		if (args[i].kind == RP_ARG_SCALAR && !n--)
			return args[i].u.scalar.value.bits;
	return 0;
}

static int copy_elements(const struct rp_tensor *from, const struct rp_tensor *to)
{
	int64_t count;

	if (!from || !to)
		return -EINVAL;
	count = bed_elements(from);
	if (count != bed_elements(to) || from->dtype != to->dtype)
		return -EINVAL;
	for (int64_t i = 0; i < count; i++)
		memcpy(bed_at(to, i), bed_at(from, i), bed_element_bytes(from));
	return 0;
}

static int add_to_written(const struct rp_arg *args, size_t nargs, uint64_t add)
{
	for (size_t i = 0; i < nargs; i++) {
		const struct rp_tensor *tensor = &args[i].u.tensor;

		if (args[i].kind != RP_ARG_TENSOR || !(args[i].access & RP_OUT))
			continue;
		if (tensor->dtype != RP_INT64)
			return -EINVAL;
		for (int64_t k = 0; k < bed_elements(tensor); k++) {
			uint64_t *at = (uint64_t *)(void *)bed_at(tensor, k);

			*at += add;
		}
	}
	return 0;
}

static void leave_note(uint32_t chip, uint64_t word)
{
	uint64_t at = atomic_fetch_add(&board->note_count, 1);

	if (at < BOARD_NOTES)
		board->notes[at] = (struct note){ .chip = chip, .word = (uint32_t)word };
}

static bool gate_is_open(uint64_t gate)
{
	return atomic_load(&board->gates[gate]);
}

static int entry_empty(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	(void)args;
	(void)nargs;
	return 0;
}

static int entry_copy(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	return copy_elements(tensor_arg(args, nargs, 0), tensor_arg(args, nargs, 1));
}

static int entry_add(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	return add_to_written(args, nargs, scalar_arg(args, nargs, 0));
}

static int entry_fill_half(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const struct rp_tensor *tensor = tensor_arg(args, nargs, 0);

	(void)chip;
	for (int64_t i = 0; i < bed_elements(tensor) / 2; i++)
		memset(bed_at(tensor, i), 0x11, bed_element_bytes(tensor));
	return 0;
}

static int entry_fail(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	int code = (int)scalar_arg(args, nargs, 0);

	return rp_chip_fail(chip, code, "told to fail with %d", code);
}

static int entry_return(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	return (int)scalar_arg(args, nargs, 0);
}

static int entry_gate(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	uint64_t gate = scalar_arg(args, nargs, 0);

	atomic_fetch_add(&board->entered[gate], 1);
	while (!gate_is_open(gate)) {
		if (rp_chip_cancelled(chip))
			return -ECANCELED;
		bed_breathe();
	}
	atomic_fetch_add(&board->passed[gate], 1);
	return add_to_written(args, nargs, scalar_arg(args, nargs, 1));
}

static int entry_open(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	gate_open((uint32_t)scalar_arg(args, nargs, 0));
	return 0;
}

static int entry_note(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	leave_note(rp_chip_id(chip), scalar_arg(args, nargs, 0));
	return 0;
}

static int entry_see(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	struct seen *seen = &board->seen;

	seen->run_id = rp_chip_run_id(chip);
	seen->tag = rp_chip_run_tag(chip);
	seen->chip = rp_chip_id(chip);
	seen->chip_count = rp_chip_count(chip);
	seen->nargs = nargs;
	if (nargs)
		memcpy(seen->args, args, nargs * sizeof(*args));
	return 0;
}

static int callback_copy(struct rp_callback_context *context, const struct rp_arg *args,
			 size_t nargs, void *user)
{
	(void)context;
	(void)user;
	return copy_elements(tensor_arg(args, nargs, 0), tensor_arg(args, nargs, 1));
}

static int callback_fail(struct rp_callback_context *context, const struct rp_arg *args,
			 size_t nargs, void *user)
{
	int code = (int)scalar_arg(args, nargs, 0);

	(void)user;
	return rp_callback_fail(context, code, "the callback was told to fail with %d",
				code);
}

static int callback_gate_copy(struct rp_callback_context *context,
			      const struct rp_arg *args, size_t nargs, void *user)
{
	uint64_t gate = scalar_arg(args, nargs, 0);
	int err;

	(void)context;
	(void)user;
	err = copy_elements(tensor_arg(args, nargs, 0), tensor_arg(args, nargs, 1));
	if (err)
		return err;
	atomic_fetch_add(&board->entered[gate], 1);
	while (!gate_is_open(gate))
		bed_breathe();
	atomic_fetch_add(&board->passed[gate], 1);
	return copy_elements(tensor_arg(args, nargs, 0), tensor_arg(args, nargs, 2));
}

static int callback_note(struct rp_callback_context *context, const struct rp_arg *args,
			 size_t nargs, void *user)
{
	(void)context;
	(void)user;
	leave_note(NOTE_CALLBACK, scalar_arg(args, nargs, 0));
	return 0;
}

static const struct rp_entry entries[] = {
	[ENTRY_EMPTY] = { "empty", entry_empty },
	[ENTRY_COPY] = { "copy", entry_copy },
	[ENTRY_ADD] = { "add", entry_add },
	[ENTRY_FILL_HALF] = { "fill-half", entry_fill_half },
	[ENTRY_FAIL] = { "fail", entry_fail },
	[ENTRY_RETURN] = { "return", entry_return },
	[ENTRY_GATE] = { "gate", entry_gate },
	[ENTRY_OPEN] = { "open", entry_open },
	[ENTRY_NOTE] = { "note", entry_note },
	[ENTRY_SEE] = { "see", entry_see },
};

static const struct rp_callback callbacks[] = {
	[CALLBACK_COPY] = { .name = "copy-back", .fn = callback_copy },
	[CALLBACK_FAIL] = { .name = "fail-back", .fn = callback_fail },
	[CALLBACK_GATE_COPY] = { .name = "gate-copy-back", .fn = callback_gate_copy },
	[CALLBACK_NOTE] = { .name = "note-back", .fn = callback_note },
};

/* --- Workers ------------------------------------------------------------- */

static int play_script(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	(void)args;
	(void)nargs;
	(void)user;
	return current.fn ? current.fn(run, current.arg) : 0;
}

int bed_setup(void **state)
{
	(void)state;
	if (!board) {
		board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (board == MAP_FAILED)
			return -1;
	}
	memset((void *)board, 0, sizeof(*board));
	alarm(WATCHDOG_S);
	return 0;
}

int bed_teardown(void **state)
{
	(void)state;
	alarm(0);
	return 0;
}

void bed_options(struct rp_worker_options *options, uint32_t chip_count)
{
	rp_worker_options_init(options);
	options->chip_count = chip_count;
	options->startup_timeout_s = WATCHDOG_S;
	options->device_memory_bytes = (size_t)8 << 20;
	options->handle_count = 64;
}

void bed_describe(struct rp_program_desc *desc, const char *name,
		  const struct rp_param *params, size_t param_count)
{
	rp_program_desc_init(desc);
	desc->name = name;
	desc->params = params;
	desc->param_count = param_count;
	desc->entries = entries;
	desc->entry_count = COUNT(entries);
	desc->orchestrate = play_script;
}

void bed_prepare(struct bed *bed, const struct rp_program_desc *desc,
		 const struct rp_worker_options *options)
{
	assert_ok(rp_program_create(desc, &bed->program));
	assert_ok(rp_worker_prepare(&bed->program, 1, options, &bed->worker));
}

void bed_open_with(struct bed *bed, const struct rp_worker_options *options)
{
	struct rp_program_desc desc;

	bed_describe(&desc, "support", NULL, 0);
	desc.callbacks = callbacks;
	desc.callback_count = COUNT(callbacks);
	desc.callback_workers = 1;
	bed_prepare(bed, &desc, options);
}

void bed_open(struct bed *bed, uint32_t chip_count)
{
	struct rp_worker_options options;

	bed_options(&options, chip_count);
	bed_open_with(bed, &options);
}

void bed_open_unified(struct bed *bed, uint32_t chip_count, bool unified)
{
	struct rp_worker_options options;

	bed_options(&options, chip_count);
	options.unified_memory = unified;
	bed_open_with(bed, &options);
}

void bed_close(struct bed *bed)
{
	/* Errors that a test left unheard are its own business. */
	rp_worker_close(bed->worker, RP_WAIT_FOREVER);
	rp_worker_free(bed->worker);
	rp_program_free(bed->program);
	bed->worker = NULL;
	bed->program = NULL;
}

int bed_submit(struct bed *bed, script_fn script, void *arg, struct rp_handle *out)
{
	int err;

	current.fn = script;
	current.arg = arg;
	err = rp_worker_submit(bed->worker, bed->program, NULL, 0, NULL, out);
	current.fn = NULL;
	return err;
}

int bed_run(struct bed *bed, script_fn script, void *arg)
{
	int err;

	current.fn = script;
	current.arg = arg;
	err = rp_worker_run(bed->worker, bed->program, NULL, 0, NULL);
	current.fn = NULL;
	return err;
}

int bed_task(struct rp_run *run, int32_t chip, uint32_t entry, const struct rp_arg *args,
	     uint32_t arg_count)
{
	struct rp_task task = {
		.entry = entry, .chip = chip, .args = args, .arg_count = arg_count
	};

	return rp_run_task(run, &task);
}

struct one_task {
	uint32_t entry;
	const struct rp_arg *args;
	uint32_t arg_count;
};

static int script_one_task(struct rp_run *run, void *arg)
{
	const struct one_task *one = arg;

	return bed_task(run, 0, one->entry, one->args, one->arg_count);
}

int bed_run_one(struct bed *bed, uint32_t entry, const struct rp_arg *args,
		uint32_t arg_count)
{
	struct one_task one = { entry, args, arg_count };

	return bed_run(bed, script_one_task, &one);
}

int script_gate(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_GATE, rp_arg_u64((uint64_t)(uintptr_t)arg));
}

int script_fail(struct rp_run *run, void *arg)
{
	return TASK(run, 0, ENTRY_FAIL, rp_arg_i64(-(int64_t)(intptr_t)arg));
}

int script_gate_fail(struct rp_run *run, void *arg)
{
	int err = script_gate(run, arg);

	return err ? err : script_fail(run, (void *)(intptr_t)EIO);
}

void keep_error(struct kept_error *kept, int err)
{
	kept->err = err;
	snprintf(kept->line, sizeof(kept->line), "%s", rp_last_error());
}

void *bed_shared(size_t bytes, int fill)
{
	void *memory = NULL;

	assert_ok(rp_shared_alloc(bytes, &memory));
	memset(memory, fill, bytes);
	return memory;
}

struct rp_worker_stats bed_stats(struct bed *bed)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	assert_ok(rp_worker_get_stats(bed->worker, &stats));
	return stats;
}

void gate_open(uint32_t gate)
{
	atomic_store(&board->gates[gate], 1);
}

void gate_await_entered(uint32_t gate, uint64_t tasks)
{
	while (atomic_load(&board->entered[gate]) < tasks)
		bed_breathe();
}

bool gate_comes_entered(uint32_t gate, uint64_t tasks)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (atomic_load(&board->entered[gate]) < tasks) {
		bed_breathe();
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - begin.tv_sec) * INT64_C(1000000000) > PATIENCE_NS)
			return false;
	}
	return true;
}

uint64_t bed_random(uint64_t *seed)
{
	/* splitmix64 */
	uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}
