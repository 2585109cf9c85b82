/* SPDX-License-Identifier: MIT */
/* A process is killed in mid-copy, on either side: nobody hangs, everybody hears it. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deed.h"
#include "device.h"
#include "proc.h"
#include "support.h"

#define CHIPS	    2
#define LARGE_BYTES (5 * MIB + 77)

/* A worker with an allocation on each chip, one of them stacked. */
struct scene {
	struct rp_worker *worker;
	uint64_t addresses[CHIPS];
	struct rp_tensor stack;
	struct rp_tensor host; /* like the stack */
	uint8_t *plain;
	uint8_t *shared; /* before the fork: named in place */
};

static void open_scene(struct scene *scene)
{
	struct rp_worker_options options;
	void *shared;
	uint32_t i;

	assert_ok(rp_shared_alloc(LARGE_BYTES, &shared));
	scene->shared = shared;
	scene->plain = calloc(CHIPS, LARGE_BYTES);
	deed_options(&options, CHIPS);
	options.device_memory_bytes = 16 * MIB;
	assert_ok(deed_prepare(&options, &scene->worker));
	for (i = 0; i < CHIPS; i++)
		assert_ok(rp_worker_device_alloc(scene->worker, i, LARGE_BYTES,
						 &scene->addresses[i]));
	scene->host = TENSOR(scene->plain, RP_UINT8, CHIPS, 3 * MIB);
	assert_ok(rp_worker_alloc_stacked(scene->worker, &scene->host, NULL, 0,
					  &scene->stack));
}

static void close_scene(struct scene *scene)
{
	rp_worker_free(scene->worker);
	rp_shared_free(scene->shared);
	free(scene->plain);
}

/* The copies there are. Single ones go to chip 1. */
static int up_small(struct scene *s)
{
	return rp_worker_copy_to(s->worker, 1, s->addresses[1], 0, s->plain, 0, 64);
}

static int up_one_piece(struct scene *s)
{
	return rp_worker_copy_to(s->worker, 1, s->addresses[1], 0, s->plain, 0, 5000);
}

static int up_large(struct scene *s)
{
	return rp_worker_copy_to(s->worker, 1, s->addresses[1], 0, s->plain, 0,
				 LARGE_BYTES);
}

static int up_named(struct scene *s)
{
	return rp_worker_copy_to(s->worker, 1, s->addresses[1], 0, s->shared, 0,
				 LARGE_BYTES);
}

static int down_small(struct scene *s)
{
	return rp_worker_copy_from(s->worker, 1, s->addresses[1], 0, s->plain, 0, 64);
}

static int down_one_piece(struct scene *s)
{
	return rp_worker_copy_from(s->worker, 1, s->addresses[1], 0, s->plain, 0, 5000);
}

static int down_large(struct scene *s)
{
	return rp_worker_copy_from(s->worker, 1, s->addresses[1], 0, s->plain, 0,
				   LARGE_BYTES);
}

static int down_named(struct scene *s)
{
	return rp_worker_copy_from(s->worker, 1, s->addresses[1], 0, s->shared, 0,
				   LARGE_BYTES);
}

static int fan_small(struct scene *s)
{
	return rp_worker_copy_to_all(s->worker, (uint32_t[]){ 0, 1 }, s->addresses, CHIPS,
				     0, s->plain, 64);
}

static int fan_large(struct scene *s)
{
	return rp_worker_copy_to_all(s->worker, (uint32_t[]){ 0, 1 }, s->addresses, CHIPS,
				     0, s->plain, LARGE_BYTES);
}

static int stack_up(struct scene *s)
{
	struct rp_tensor another;

	return rp_worker_alloc_stacked(s->worker, &s->host, NULL, 0, &another);
}

static int stack_down(struct scene *s)
{
	return rp_worker_copy_stacked_from(s->worker, &s->stack, &s->host);
}

static const struct {
	const char *name;
	int (*copy)(struct scene *scene);
	bool both; /* chips take part */
} copies[] = {
	{ "up_small", up_small, false },     { "up_one_piece", up_one_piece, false },
	{ "up_large", up_large, false },     { "up_named", up_named, false },
	{ "down_small", down_small, false }, { "down_one_piece", down_one_piece, false },
	{ "down_large", down_large, false }, { "down_named", down_named, false },
	{ "fan_small", fan_small, true },    { "fan_large", fan_large, true },
	{ "stack_up", stack_up, true },	     { "stack_down", stack_down, true },
};

/* Where the process dies, seen from both sides, and at which step. */
static const struct {
	const char *point;
	bool in_chip;
	unsigned nth;
} deaths[] = {
	{ "chip.command", true, 1 },  { "chip.command", true, 3 },
	{ "chip.copied", true, 1 },   { "chip.copied", true, 4 },
	{ "copier.send", false, 1 },  { "copier.send", false, 5 },
	{ "copier.reply", false, 1 }, { "copier.reply", false, 3 },
};

static struct proc_census at_start;

static int set_up(void **state)
{
	int err = bed_setup(state);

	deed_pad_reset();
	trap_install();
	proc_census_take(&at_start);
	return err;
}

static int tear_down(void **state)
{
	trap_uninstall();
	return bed_teardown(state);
}

/* Later calls say the same, on either chip; giving back still works. */
static void assert_fallen(struct scene *scene)
{
	struct rp_tensor out;
	struct rp_handle handle;
	uint64_t n;
	size_t i;

	for (i = 0; i < COUNT(copies); i++) {
		assert_int_equal(copies[i].copy(scene), -EOWNERDEAD);
		assert_says("signal 9");
	}
	assert_int_equal(rp_worker_copy_to(scene->worker, 0, scene->addresses[0], 0,
					   scene->plain, 0, 8),
			 -EOWNERDEAD);
	assert_int_equal(rp_worker_device_alloc(scene->worker, 0, 8, &n), -EOWNERDEAD);
	assert_int_equal(rp_worker_alloc_tensor(scene->worker, 0, RP_UINT8, 1,
						(int64_t[]){ 8 }, NULL, &out),
			 -EOWNERDEAD);
	assert_int_equal(rp_worker_committed_device_memory(scene->worker, 0, &n),
			 -EOWNERDEAD);
	assert_int_equal(deed_submit(scene->worker, 0, DEED_NOTHING, 0, &handle),
			 -EOWNERDEAD);
	assert_ok(rp_worker_free_stacked(scene->worker, &scene->stack));
	assert_ok(rp_worker_free_stacked(scene->worker, &scene->stack));
	assert_ok(rp_worker_device_free(scene->worker, 0, scene->addresses[0]));
	assert_ok(rp_worker_close(scene->worker, RP_WAIT_FOREVER));
	assert_int_equal(copies[0].copy(scene), -ESHUTDOWN);
}

static void kill_at_every_point(size_t first, size_t past)
{
	unsigned died = 0;
	size_t c, d;

	for (c = first; c < past; c++) {
		for (d = 0; d < COUNT(deaths); d++) {
			/* Where both take part, each dies once. */
			uint32_t victim = copies[c].both ? d % CHIPS : 1;
			struct scene scene;
			pid_t pid;
			char name[16];
			bool came;
			int err;

			open_scene(&scene);
			pid = rp_worker_pid(scene.worker, victim);
			trap_kill(deaths[d].point, deaths[d].in_chip ? pid : getpid(),
				  deaths[d].nth, pid);
			err = copies[c].copy(&scene);
			came = trap_hits() >= deaths[d].nth;
			trap_off();
			if (err != -EOWNERDEAD && came &&
			    strcmp(deaths[d].point, "copier.reply"))
				fail_msg("%s, killed at %s %u: %d", copies[c].name,
					 deaths[d].point, deaths[d].nth, err);
			if (err == -EOWNERDEAD) {
				snprintf(name, sizeof(name), "chip %u", victim);
				assert_says(name, "signal 9");
			} else {
				/* It had all been copied, or there is no such step. */
				assert_ok(err);
			}
			if (came) {
				died++;
				/* The supervisor may not have seen it yet. */
				while (up_small(&scene) == 0)
					;
				assert_fallen(&scene);
			}
			close_scene(&scene);
			assert_true(proc_census_same(&at_start));
		}
	}
	print_message("%u deaths\n", died);
	assert_true(died >= (past - first) * 4);
}

static void uploads_end_when_their_chip_dies(void **state)
{
	(void)state;
	kill_at_every_point(0, 4);
}

static void read_backs_end_when_their_chip_dies(void **state)
{
	(void)state;
	kill_at_every_point(4, 8);
}

static void fan_outs_and_stacks_end_when_a_chip_dies(void **state)
{
	(void)state;
	kill_at_every_point(8, 12);
}

/* One of several threads that copy until they hear of the death. */
struct hand {
	pthread_t thread;
	struct scene *scene;
	uint8_t *host;
	uint32_t chip;
	int err;
	char text[256];
};

static void *copy_until_death(void *arg)
{
	struct hand *me = arg;

	while (!me->err) {
		me->err = rp_worker_copy_to(me->scene->worker, me->chip,
					    me->scene->addresses[me->chip], 0, me->host,
					    0, LARGE_BYTES);
		if (!me->err)
			me->err = rp_worker_copy_from(me->scene->worker, me->chip,
						      me->scene->addresses[me->chip], 0,
						      me->host, 0, 3000);
	}
	snprintf(me->text, sizeof(me->text), "%s", rp_last_error());
	return NULL;
}

static void every_copying_thread_hears_of_it(void **state)
{
	uint64_t seed = device_seed(31);
	int round;
	size_t i;

	(void)state;
	for (round = 0; round < 12; round++) {
		struct hand hands[5];
		struct scene scene;
		uint32_t victim = (uint32_t)round % CHIPS;

		open_scene(&scene);
		for (i = 0; i < COUNT(hands); i++) {
			hands[i] = (struct hand){ .scene = &scene,
						  .chip = i % CHIPS,
						  .host = calloc(1, LARGE_BYTES) };
			assert_int_equal(pthread_create(&hands[i].thread, NULL,
							copy_until_death, &hands[i]),
					 0);
		}
		proc_pause_us((unsigned)(bed_random(&seed) % 20000));
		kill(rp_worker_pid(scene.worker, victim), SIGKILL);
		for (i = 0; i < COUNT(hands); i++) {
			pthread_join(hands[i].thread, NULL);
			assert_int_equal(hands[i].err, -EOWNERDEAD);
			assert_non_null(strstr(hands[i].text, "signal 9"));
			free(hands[i].host);
		}
		assert_fallen(&scene);
		close_scene(&scene);
		assert_true(proc_census_same(&at_start));
	}
}

/* A host application that dies in mid-copy; its chips' pids are left in the pad. */
static int host_that_dies(void *arg)
{
	const size_t *which = arg;
	struct scene scene;
	uint32_t i;

	open_scene(&scene);
	for (i = 0; i < CHIPS; i++)
		atomic_store(&deed_pad->words[i],
			     (uint64_t)rp_worker_pid(scene.worker, i));
	trap_kill(deaths[which[1]].point,
		  deaths[which[1]].in_chip ? rp_worker_pid(scene.worker, 1) : getpid(), 1,
		  getpid());
	copies[which[0]].copy(&scene);
	/* A chip that kills its parent dies with it, and may be the first. */
	pause();
	return 0;
}

static void chips_do_not_outlive_a_parent_that_dies_in_mid_copy(void **state)
{
	static const size_t kinds[] = { 0, 2, 6, 9 };
	size_t which[2];
	size_t k;
	uint32_t i;

	(void)state;
	for (k = 0; k < COUNT(kinds); k++) {
		for (which[1] = 0; which[1] < COUNT(deaths); which[1] += 2) {
			int status;

			which[0] = kinds[k];
			deed_pad_reset();
			status = proc_in_host(host_that_dies, which);
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			for (i = 0; i < CHIPS; i++) {
				pid_t pid = (pid_t)atomic_load(&deed_pad->words[i]);

				assert_true(pid > 0);
				assert_true(proc_await_gone(pid));
			}
			trap_off();
		}
	}
	assert_true(proc_census_same(&at_start));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(uploads_end_when_their_chip_dies),
		TEST(read_backs_end_when_their_chip_dies),
		TEST(fan_outs_and_stacks_end_when_a_chip_dies),
		TEST(every_copying_thread_hears_of_it),
		TEST(chips_do_not_outlive_a_parent_that_dies_in_mid_copy),
	};

	return cmocka_run_group_tests_name("test_copy_death", tests, NULL, NULL);
}
