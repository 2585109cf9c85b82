/* SPDX-License-Identifier: MIT */
/*
 * doze_stress [--seconds S] [--seed N] [--runs N] [--chips N] [--dispatcher]
 *
 * Whoever publishes something just as the other side dozes off must wake it, or the two
 * wait for each other for ever. Each run aims at one such moment:
 *   gap    an idle chip, when the caller submits again
 *   work   the caller that waits, when the chip ends its task
 *   chain  a chip that waits for another one's task, when that ends
 *   queue  the dispatcher, when the caller submits again
 * by a delay that grows while the sleeper is still awake at its end and shrinks once it
 * has slept, so that it stays about there. With a second chip or none, and all policies
 * and ways to sleep, by the seed. A run that does not end has lost its wake-up.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support.h"
#include "base/cpu.h"
#include "stress.h"

/* A lost wake-up takes for ever; a busy machine does not take so long. */
#define HANG_NS	  (UINT64_C(60) * 1000000000)

#define DELAY_MIN 100
#define DELAY_MAX 1000000

enum moment {
	GAP,
	WORK,
	CHAIN,
	QUEUE,
	MOMENTS
};

static const char *const moment_names[] = { "gap", "work", "chain", "queue" };

static struct {
	int runs;
	int chips;
	int dispatcher;
} asked = { .runs = 1500 };

struct aim {
	uint64_t delay_ns;
	uint64_t awake, slept; /* runs that found the sleeper so */
};

struct player {
	struct rp_worker *worker;
	struct rp_worker_options options;
	struct rp_tensor link; /* what a chain hangs on */
	struct aim aims[MOMENTS];
	uint64_t seed;
};

/* One run's tasks: chip 0 works so long; with two, chip 1 follows it. */
struct plan {
	const struct player *player;
	uint64_t work_ns;
	bool chain;
};

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "doze_stress: %s: %d \"%s\"\n", what, err, rp_last_error());
	_exit(1);
}

static void pass_time(uint64_t ns)
{
	uint64_t until_ns = rpi_now_ns() + ns;

	while (rpi_now_ns() < until_ns)
		rpi_cpu_pause();
}

static int entry_work(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	pass_time(args[nargs - 1].u.scalar.value.u64);
	return 0;
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct plan *plan =
		(const struct plan *)(uintptr_t)rp_run_get_config(run)->tag;
	struct rp_tensor link = plan->player->link;
	int err;

	(void)args;
	(void)nargs;
	(void)user;
	if (!plan->chain)
		return TASK(run, 0, 0, rp_arg_u64(plan->work_ns));
	err = TASK(run, 0, 0, rp_arg_view(link, RP_OUT), rp_arg_u64(plan->work_ns));
	if (!err)
		err = TASK(run, 1, 0, rp_arg_view(link, RP_IN), rp_arg_u64(0));
	return err;
}

/* How often the one slept that a moment is about. */
static uint64_t sleeps(const struct player *p, enum moment moment)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	must(rp_worker_get_stats(p->worker, &stats), "rp_worker_get_stats");
	switch (moment) {
	case WORK:
		return stats.caller_sleeps;
	case QUEUE:
		return stats.dispatcher_sleeps;
	default:
		return stats.worker_sleeps;
	}
}

static void hang(const struct player *p, enum moment moment, uint64_t delay_ns)
{
	struct rp_worker_stats stats = { .size = sizeof(stats) };

	rp_worker_get_stats(p->worker, &stats);
	fprintf(stderr,
		"doze_stress: %s, delay %" PRIu64 " ns: the run does not end; %" PRIu64
		" tasks of %" PRIu64 " runs did, chips slept %" PRIu64
		" times and were woken %" PRIu64 " times, the caller %" PRIu64
		" and %" PRIu64 ", the dispatcher %" PRIu64 " and %" PRIu64 "\n",
		moment_names[moment], delay_ns, stats.tasks, stats.dispatches,
		stats.worker_sleeps, stats.worker_wakes, stats.caller_sleeps,
		stats.caller_wakes, stats.dispatcher_sleeps, stats.dispatcher_wakes);
	_exit(1);
}

/* Asleep or, where it is not the caller that is aimed at, awake. */
static void await(struct player *p, struct rp_handle handle, enum moment moment,
		  uint64_t delay_ns)
{
	const uint64_t until_ns = rpi_now_ns() + HANG_NS;
	int status;

	if (moment != WORK && bed_random(&p->seed) % 2) {
		while (!rp_handle_done(handle)) {
			if (rpi_now_ns() > until_ns)
				hang(p, moment, delay_ns);
			sched_yield();
		}
	}
	status = rp_handle_wait(handle, (int64_t)HANG_NS);
	if (status == -ETIMEDOUT)
		hang(p, moment, delay_ns);
	must(status, "a run");
	must(rp_handle_release(handle), "rp_handle_release");
}

static struct rp_handle submit(struct player *p, const struct plan *plan)
{
	struct rp_run_config config;
	struct rp_handle handle;

	rp_run_config_init(&config);
	config.tag = (uint64_t)(uintptr_t)plan;
	must(rp_worker_submit(p->worker, NULL, NULL, 0, &config, &handle),
	     "rp_worker_submit");
	return handle;
}

static void adjust(struct aim *aim, bool slept)
{
	*(slept ? &aim->slept : &aim->awake) += 1;
	aim->delay_ns += slept ? -(aim->delay_ns / 8) : aim->delay_ns / 8;
	if (aim->delay_ns < DELAY_MIN)
		aim->delay_ns = DELAY_MIN;
	if (aim->delay_ns > DELAY_MAX)
		aim->delay_ns = DELAY_MAX;
}

static void go(struct player *p, enum moment moment)
{
	struct aim *aim = &p->aims[moment];
	/* Reading the counters takes a while: some come without, and about as early. */
	const bool blind = bed_random(&p->seed) % 2;
	const uint64_t delay_ns = blind ? bed_random(&p->seed) % (2 * aim->delay_ns)
					: aim->delay_ns;
	struct plan plan = { .player = p, .chain = p->options.chip_count > 1 };
	uint64_t before = 0;

	/* So that everybody is awake. */
	await(p, submit(p, &plan), moment, 0);
	if (!blind)
		before = sleeps(p, moment);
	if (moment == GAP || moment == QUEUE)
		pass_time(delay_ns);
	else
		plan.work_ns = delay_ns;
	await(p, submit(p, &plan), moment, delay_ns);
	if (!blind)
		adjust(aim, sleeps(p, moment) != before);
}

static bool applies(const struct player *p, enum moment moment)
{
	if (moment == CHAIN)
		return p->options.chip_count > 1;
	return moment != QUEUE || p->options.dispatcher;
}

static void choose_options(struct rp_worker_options *options, uint64_t *seed)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_BLOCK, RP_WAIT_HYBRID,
							RP_WAIT_SPIN };

	bed_options(options, asked.chips ? (uint32_t)asked.chips
					 : 1 + (uint32_t)(bed_random(seed) % 2));
	options->wait = policies[bed_random(seed) % COUNT(policies)];
	options->worker_wait = policies[bed_random(seed) % 2];
	options->sleep_engine = bed_random(seed) % 2 ? RP_SLEEP_FUTEX : RP_SLEEP_AUTO;
	options->dispatcher = asked.dispatcher;
}

static void go_round(uint64_t seed)
{
	static const struct rp_entry entries[] = { { "work", entry_work } };
	struct player p = { .seed = seed };
	struct rp_program_desc desc;
	struct bed bed;

	choose_options(&p.options, &p.seed);
	for (int moment = 0; moment < MOMENTS; moment++)
		p.aims[moment].delay_ns = 20000;
	p.link = TENSOR(bed_shared(64, 0), RP_UINT64, 8);
	rp_program_desc_init(&desc);
	desc.name = "doze";
	desc.entries = entries;
	desc.entry_count = COUNT(entries);
	desc.orchestrate = orchestrate;
	bed_prepare(&bed, &desc, &p.options);
	p.worker = bed.worker;
	for (int run = 0; run < asked.runs; run++) {
		enum moment moment = (enum moment)(bed_random(&p.seed) % MOMENTS);

		if (applies(&p, moment))
			go(&p, moment);
	}
	for (int moment = 0; moment < MOMENTS; moment++)
		if (applies(&p, (enum moment)moment))
			printf("# %-5s awake %" PRIu64 " asleep %" PRIu64
			       ", about %" PRIu64 " ns\n",
			       moment_names[moment], p.aims[moment].awake,
			       p.aims[moment].slept, p.aims[moment].delay_ns);
	bed_close(&bed);
	must(rp_shared_free(p.link.data), "rp_shared_free");
}

int main(int argc, char **argv)
{
	const struct stress_option options[] = {
		{ "runs", &asked.runs, 1, 1000000 },
		{ "chips", &asked.chips, 0, 8 },
		{ "dispatcher", &asked.dispatcher, 0, 0 },
	};

	return stress_run(argc, argv, "doze_stress", options, COUNT(options), go_round);
}
