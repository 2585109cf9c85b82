/* SPDX-License-Identifier: MIT */
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/testing.h"
#include "check.h"
#include "deed.h"
#include "noop.h"
#include "proc.h"

struct rig *rig;

static int hook(const char *point)
{
	atomic_fetch_add(&rig->calls, 1);
	if (strcmp(point, rig->point) || atomic_fetch_add(&rig->hits, 1) + 1 != rig->nth)
		return 0;
	switch (rig->act) {
	case RIG_KILL:
		kill(getpid(), SIGKILL);
		return 0;
	case RIG_EXIT:
		_exit(3);
	case RIG_SEGV:
		raise(SIGSEGV);
		return 0;
	case RIG_HANG:
		for (;;)
			pause();
	default:
		return rig->err;
	}
}

void rig_arm(const char *point, int nth, enum rig_act act, int err)
{
	atomic_store(&rig->hits, 0);
	atomic_store(&rig->calls, 0);
	snprintf(rig->point, sizeof(rig->point), "%s", point);
	rig->nth = nth;
	rig->act = act;
	rig->err = err;
	rpi_test_hook = hook;
}

void rig_disarm(void)
{
	rpi_test_hook = NULL;
}

int rig_setup(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	if (rig)
		return 0;
	rig = mmap(NULL, sizeof(*rig), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		   -1, 0);
	return rig == MAP_FAILED;
}

int rig_teardown(void **state)
{
	(void)state;
	rig_disarm();
	return 0;
}

static const struct rp_entry noop_entries[] = { { "noop", noop_entry } };

#define CALLBACKS_MAX 60

struct rp_program *rig_program(const struct rig_traits *traits)
{
	struct rp_callback callbacks[CALLBACKS_MAX];
	char names[CALLBACKS_MAX][16];
	struct rp_program_desc desc;
	struct rp_program *program;
	uint32_t i;

	for (i = 0; i < traits->callback_workers; i++) {
		snprintf(names[i], sizeof(names[i]), "look%u", i);
		callbacks[i] =
			(struct rp_callback){ .name = names[i], .fn = noop_callback };
	}
	rp_program_desc_init(&desc);
	desc.name = traits->name;
	desc.platform = traits->platform;
	desc.runtime = traits->runtime;
	desc.chip_count = traits->chip_count;
	desc.entries = noop_entries;
	desc.entry_count = 1;
	if (traits->callback_workers) {
		desc.callbacks = callbacks;
		desc.callback_count = traits->callback_workers;
		desc.callback_workers = traits->callback_workers;
	}
	assert_int_equal(rp_program_create(&desc, &program), 0);
	return program;
}

int rig_prepare(enum rp_page_policy pages, double timeout_s,
		struct rp_worker **worker_out)
{
	struct rp_program *program = rig_program(
		&(struct rig_traits){ .name = "trio", .callback_workers = 1 });
	struct rp_worker_options options;
	int err;

	deed_options(&options, 2);
	options.pages = pages;
	if (timeout_s > 0)
		options.startup_timeout_s = timeout_s;
	err = rp_worker_prepare(&program, 1, &options, worker_out);
	rp_program_free(program);
	return err;
}

void rig_end(struct rp_worker *worker)
{
	assert_int_equal(rp_worker_run(worker, NULL, NULL, 0, NULL), 0);
	assert_int_equal(rp_worker_close(worker, RP_WAIT_FOREVER), 0);
	rp_worker_free(worker);
}
