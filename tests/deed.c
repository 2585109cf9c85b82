/* SPDX-License-Identifier: MIT */
#include "deed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proc.h"

struct deed_pad *deed_pad;
int (*deed_custom)(struct rp_chip *chip, uint64_t operand);

enum {
	ARG_CHIP,
	ARG_DEED,
	ARG_OPERAND,
	ARG_TASKS,
	ARG_COUNT
};

void deed_pad_reset(void)
{
	if (!deed_pad) {
		deed_pad = mmap(NULL, sizeof(*deed_pad), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		PROC_MUST(deed_pad != MAP_FAILED);
	}
	memset((void *)deed_pad, 0, sizeof(*deed_pad));
}

/* A page that nobody may touch: a real fault, that no compiler sees coming. */
static int fault(void)
{
	volatile int *nowhere =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return *nowhere;
}

static int act(struct rp_chip *chip, enum deed deed, uint64_t operand)
{
	volatile uint64_t turns = 0;

	switch (deed) {
	case DEED_FAIL:
		return -(int)operand;
	case DEED_RETURN:
		return (int)operand;
	case DEED_SLEEP:
		proc_pause_us((unsigned)operand);
		return 0;
	case DEED_GATE:
		while (atomic_load(&deed_pad->gate) < operand)
			proc_pause_us(100);
		return 0;
	case DEED_HANG:
		for (;;)
			pause();
	case DEED_SPIN:
		for (;;)
			turns = turns + 1;
	case DEED_SEGV:
		return fault();
	case DEED_EXIT:
		exit((int)operand);
	case DEED_ABORT:
		abort();
	case DEED_CUSTOM:
		return deed_custom(chip, operand);
	default:
		return 0;
	}
}

static int entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	uint32_t id = rp_chip_id(chip) % DEED_CHIPS;
	int status;

	if (nargs != 2)
		return -EINVAL;
	atomic_fetch_add(&deed_pad->entered[id], 1);
	status = act(chip, (enum deed)args[0].u.scalar.value.u64,
		     args[1].u.scalar.value.u64);
	atomic_fetch_add(&deed_pad->left[id], 1);
	return status;
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	uint64_t chip = args[ARG_CHIP].u.scalar.value.u64;
	uint64_t tasks = args[ARG_TASKS].u.scalar.value.u64;
	uint32_t chip_count = rp_run_chip_count(run);
	struct rp_task task = { .args = &args[ARG_DEED], .arg_count = 2 };
	uint64_t i;
	uint32_t each;
	int err = 0;

	(void)nargs;
	(void)user;
	for (i = 0; !err && i < tasks; i++) {
		for (each = 0; !err && each < chip_count; each++) {
			if (chip != DEED_ALL_CHIPS && chip != each)
				continue;
			task.chip = (int32_t)each;
			err = rp_run_task(run, &task);
		}
	}
	return err;
}

static const struct rp_param params[ARG_COUNT] = {
	[ARG_CHIP] = { .name = "chip", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	[ARG_DEED] = { .name = "deed", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	[ARG_OPERAND] = { .name = "operand", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
	[ARG_TASKS] = { .name = "tasks", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
};

struct rp_program *deed_program(void)
{
	static const struct rp_entry entries[] = { { "act", entry } };
	struct rp_program_desc desc;
	struct rp_program *program;

	rp_program_desc_init(&desc);
	desc.name = "deed";
	desc.params = params;
	desc.param_count = ARG_COUNT;
	desc.entries = entries;
	desc.entry_count = 1;
	desc.orchestrate = orchestrate;
	PROC_MUST(!rp_program_create(&desc, &program));
	return program;
}

void deed_options(struct rp_worker_options *options, uint32_t chip_count)
{
	rp_worker_options_init(options);
	options->chip_count = chip_count;
	options->device_memory_bytes = (size_t)2 << 20;
	options->pages = RP_PAGES_NEVER;
}

int deed_prepare(const struct rp_worker_options *options, struct rp_worker **worker_out)
{
	struct rp_worker_options plain;
	struct rp_program *program;
	int err;

	if (!deed_pad)
		deed_pad_reset();
	program = deed_program();
	deed_options(&plain, 1);
	err = rp_worker_prepare(&program, 1, options ? options : &plain, worker_out);
	rp_program_free(program);
	return err;
}

static void fill(struct rp_arg *args, uint64_t chip, enum deed deed, uint64_t operand,
		 uint64_t tasks)
{
	args[ARG_CHIP] = rp_arg_u64(chip);
	args[ARG_DEED] = rp_arg_u64((uint64_t)deed);
	args[ARG_OPERAND] = rp_arg_u64(operand);
	args[ARG_TASKS] = rp_arg_u64(tasks);
}

int deed_submit_many(struct rp_worker *worker, uint64_t chip, enum deed deed,
		     uint64_t operand, uint64_t tasks, struct rp_handle *handle_out)
{
	struct rp_arg args[ARG_COUNT];

	fill(args, chip, deed, operand, tasks);
	return rp_worker_submit(worker, NULL, args, ARG_COUNT, NULL, handle_out);
}

int deed_submit(struct rp_worker *worker, uint64_t chip, enum deed deed, uint64_t operand,
		struct rp_handle *handle_out)
{
	return deed_submit_many(worker, chip, deed, operand, 1, handle_out);
}

int deed_run(struct rp_worker *worker, uint64_t chip, enum deed deed, uint64_t operand)
{
	struct rp_arg args[ARG_COUNT];

	fill(args, chip, deed, operand, 1);
	return rp_worker_run(worker, NULL, args, ARG_COUNT, NULL);
}

struct entered {
	uint32_t chip;
	uint64_t n;
};

static bool has_entered(void *arg)
{
	const struct entered *entered = arg;

	return atomic_load(&deed_pad->entered[entered->chip]) >= entered->n;
}

void deed_await_entered(uint32_t chip, uint64_t n)
{
	struct entered entered = { .chip = chip, .n = n };

	PROC_MUST(proc_await(has_entered, &entered));
}
