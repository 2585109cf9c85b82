/* SPDX-License-Identifier: MIT */
/*
 * dispatch_stress [--seconds S] [--seed N] [--runs N] [--threads N] [--chips N]
 *                 [--dispatcher]
 *
 * Threads submit random graphs of tasks over their own shared tensors, on 1 to 3 chips,
 * and wait for them in random ways. Each graph is also worked off serially here; after
 * each wait the tensors must agree, byte for byte. Rings, waiting and memory change with
 * the seed. It repeats with the next seed until the seconds are over, at least once.
 * With a dispatcher the graphs are worked off from a queue, whose size is random too.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support.h"
#include "stress.h"

#define THREADS_MAX 8
#define TENSORS	    6
#define SIDE	    8 /* each tensor is SIDE x SIDE words */
#define WORDS	    (SIDE * SIDE)
#define TASKS_MAX   24
#define VIEWS_MAX   4
#define AHEAD_MAX   3 /* runs that a thread has not waited for */

static struct {
	int runs;
	int threads;
	int chips;
	int dispatcher;
} asked = { .runs = 120, .threads = 3 };

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "dispatch_stress: %s: %d \"%s\"\n", what, err, rp_last_error());
	exit(1);
}

/* --- The work: the same function in a chip, in a callback, and here ------------ */

/* Every written element becomes a function of itself, of the read ones beside it, and
 * of the scalar. */
static void mix(const struct rp_arg *args, size_t nargs)
{
	uint64_t salt = args[nargs - 1].u.scalar.value.u64;
	size_t out, in;

	for (out = 0; out < nargs - 1; out++) {
		const struct rp_tensor *to = &args[out].u.tensor;
		int64_t count = bed_elements(to);

		if (!(args[out].access & RP_OUT))
			continue;
		for (int64_t i = 0; i < count; i++) {
			uint64_t *word = (uint64_t *)(void *)bed_at(to, i);
			uint64_t sum = *word * 3 + salt + (uint64_t)i;

			for (in = 0; in < nargs - 1; in++) {
				const struct rp_tensor *from = &args[in].u.tensor;
				int64_t at = i % bed_elements(from);

				if (args[in].access == RP_IN)
					sum = sum * 31 +
					      *(uint64_t *)(void *)bed_at(from, at);
			}
			*word = sum;
		}
	}
}

static int entry_mix(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)chip;
	mix(args, nargs);
	return 0;
}

static int entry_refuse(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	(void)args;
	(void)nargs;
	return rp_chip_fail(chip, -EILSEQ, "refused");
}

static int callback_mix(struct rp_callback_context *context, const struct rp_arg *args,
			size_t nargs, void *user)
{
	(void)context;
	(void)user;
	mix(args, nargs);
	return 0;
}

enum {
	MIX,
	REFUSE
};

/* --- Graphs ------------------------------------------------------------------- */

struct step {
	int32_t chip; /* CALLBACK: the callback worker's */
	uint32_t nargs;
	struct rp_arg args[VIEWS_MAX + 1];
};

#define CALLBACK (-100)

struct graph {
	uint32_t count;
	bool refused;  /* its last task fails; nothing else is in it */
	bool given_up; /* the orchestration fails after all tasks */
	struct step steps[TASKS_MAX];
};

struct lane_of_work {
	struct rp_worker *worker;
	uint64_t seed;
	uint64_t *shared; /* TENSORS x WORDS */
	uint64_t *model;  /* likewise, private */
	uint32_t chips;
	int runs;
	uint64_t tasks;
	uint64_t dispatches;
};

/* The run's configuration carries the address of its graph. */
static int submit_graph(struct rp_worker *worker, const struct graph *graph,
			struct rp_handle *handle_out)
{
	struct rp_run_config config;

	rp_run_config_init(&config);
	config.tag = (uint64_t)(uintptr_t)graph;
	if (!handle_out)
		return rp_worker_run(worker, NULL, NULL, 0, &config);
	return rp_worker_submit(worker, NULL, NULL, 0, &config, handle_out);
}

static int orchestrate(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		       void *user)
{
	const struct graph *graph =
		(const struct graph *)(uintptr_t)rp_run_get_config(run)->tag;
	uint32_t i;

	(void)args;
	(void)nargs;
	(void)user;
	for (i = 0; i < graph->count; i++) {
		const struct step *step = &graph->steps[i];
		int err;

		if (step->chip == CALLBACK)
			err = rp_run_callback(run, 0, step->args, step->nargs);
		else
			err = bed_task(run, step->chip, MIX, step->args, step->nargs);
		if (err)
			return err;
	}
	if (graph->refused)
		return bed_task(run, RP_CHIP_ANY, REFUSE, NULL, 0);
	return graph->given_up ? rp_run_fail(run, -ENOEXEC, "given up") : 0;
}

static struct rp_tensor random_view(struct lane_of_work *work, uint32_t tensor)
{
	static const int64_t shape[] = { SIDE, SIDE };
	struct rp_tensor view;

	must(rp_tensor_host(&view, work->shared + tensor * WORDS, RP_UINT64, 2, shape),
	     "rp_tensor_host");
	for (uint32_t dim = 0; dim < 2; dim++) {
		int64_t start, count;

		if (bed_random(&work->seed) % 3)
			continue;
		start = (int64_t)(bed_random(&work->seed) % SIDE);
		count = 1 + (int64_t)(bed_random(&work->seed) % (uint64_t)(SIDE - start));
		must(rp_tensor_slice(&view, dim, start, count, 1, &view),
		     "rp_tensor_slice");
	}
	return view;
}

/* The views of a task are of different tensors, so that none overlap. */
static void random_step(struct lane_of_work *work, struct step *step)
{
	static const enum rp_access accesses[] = { RP_IN, RP_IN, RP_INOUT, RP_OUT };
	uint32_t views = 1 + (uint32_t)(bed_random(&work->seed) % VIEWS_MAX);
	uint32_t first = (uint32_t)(bed_random(&work->seed) % TENSORS);
	uint32_t i;

	step->chip = (int32_t)(bed_random(&work->seed) % (work->chips + 1)) - 1;
	if (bed_random(&work->seed) % 8 == 0)
		step->chip = CALLBACK;
	for (i = 0; i < views; i++)
		step->args[i] =
			rp_arg_view(random_view(work, (first + i) % TENSORS),
				    accesses[bed_random(&work->seed) % COUNT(accesses)]);
	step->args[i++] = rp_arg_u64(bed_random(&work->seed));
	step->nargs = i;
}

static void random_graph(struct lane_of_work *work, struct graph *graph)
{
	uint64_t kind = bed_random(&work->seed) % 16;

	memset(graph, 0, sizeof(*graph));
	graph->refused = kind == 0;
	if (kind < 2)
		return;
	/* Often a few, sometimes more than a small ring holds. */
	graph->count = (uint32_t)(bed_random(&work->seed) % (kind < 6 ? TASKS_MAX : 5));
	for (uint32_t i = 0; i < graph->count; i++)
		random_step(work, &graph->steps[i]);
}

/* The same tasks, one after another, on the private copy. */
static void play_serially(struct lane_of_work *work, const struct graph *graph)
{
	for (uint32_t i = 0; i < graph->count; i++) {
		struct rp_arg args[VIEWS_MAX + 1];
		uint32_t n;

		memcpy(args, graph->steps[i].args, sizeof(args));
		for (n = 0; n + 1 < graph->steps[i].nargs; n++) {
			struct rp_tensor *view = &args[n].u.tensor;

			view->data = (uint8_t *)work->model +
				     ((uint8_t *)view->data - (uint8_t *)work->shared);
			if (args[n].access == RP_OUT)
				for (int64_t k = 0; k < bed_elements(view); k++)
					memset(bed_at(view, k), 0, 8);
		}
		mix(args, n + 1);
	}
	work->tasks += graph->count;
}

static void compare(const struct lane_of_work *work, int run)
{
	if (!memcmp(work->shared, work->model, TENSORS * WORDS * 8))
		return;
	for (int i = 0; i < TENSORS * WORDS; i++)
		if (work->shared[i] != work->model[i]) {
			fprintf(stderr,
				"dispatch_stress: run %d, tensor %d word %d is %#" PRIx64
				", serially %#" PRIx64 "\n",
				run, i / WORDS, i % WORDS, work->shared[i],
				work->model[i]);
			exit(1);
		}
}

/* --- Threads ------------------------------------------------------------------ */

static void hear(struct lane_of_work *work, struct rp_handle handle, int want)
{
	static const int64_t timeouts[] = { 0, 1000, 1000000, RP_WAIT_FOREVER };
	int status;

	do {
		int64_t timeout = timeouts[bed_random(&work->seed) % COUNT(timeouts)];

		status = rp_handle_wait(handle, timeout);
	} while (status == -ETIMEDOUT);
	if (status != want) {
		fprintf(stderr, "dispatch_stress: a run ended with %d \"%s\", not %d\n",
			status, rp_last_error(), want);
		exit(1);
	}
	must(rp_handle_wait(handle, 0) - want, "the cached outcome");
	must(rp_handle_done(handle) - 1, "rp_handle_done");
	must(rp_handle_release(handle), "rp_handle_release");
}

/* Runs overlap only where they touch nothing: two runs are not ordered against each
 * other by what they name, so the thread waits for its graphs before the next one. */
static void *work_off(void *arg)
{
	static const struct graph given_up = { .given_up = true };
	struct lane_of_work *work = arg;
	struct graph *graph = malloc(sizeof(*graph));

	must(graph ? 0 : -ENOMEM, "malloc");
	for (int run = 0; run < work->runs; run++) {
		struct rp_handle handle, ahead[AHEAD_MAX];
		uint64_t empties = bed_random(&work->seed) % (AHEAD_MAX + 1);

		random_graph(work, graph);
		if (bed_random(&work->seed) % 2) {
			must(submit_graph(work->worker, graph, NULL) -
				     (graph->refused ? -EILSEQ : 0),
			     "rp_worker_run");
			work->dispatches++;
		} else {
			static const struct graph nothing;
			uint64_t i;

			must(submit_graph(work->worker, graph, &handle),
			     "rp_worker_submit");
			for (i = 0; i < empties; i++)
				must(submit_graph(work->worker, &nothing, &ahead[i]),
				     "rp_worker_submit");
			while (i)
				hear(work, ahead[--i], 0);
			hear(work, handle, graph->refused ? -EILSEQ : 0);
			work->dispatches += 1 + empties;
		}
		play_serially(work, graph);
		compare(work, run);
		/* Nothing runs for an orchestration that fails at once. A request was
		 * accepted all the same. */
		if (bed_random(&work->seed) % 8 == 0) {
			must(submit_graph(work->worker, &given_up, NULL) + ENOEXEC,
			     "a failing orchestration");
			work->dispatches += asked.dispatcher;
		}
	}
	free(graph);
	return NULL;
}

static struct rp_program *create_program(void)
{
	static const struct rp_entry entries[] = {
		[MIX] = { "mix", entry_mix }, [REFUSE] = { "refuse", entry_refuse }
	};
	static const struct rp_callback callbacks[] = { { .name = "mix-back",
							  .fn = callback_mix } };
	struct rp_program *program;
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = "stress";
	desc.entries = entries;
	desc.entry_count = COUNT(entries);
	desc.callbacks = callbacks;
	desc.callback_count = COUNT(callbacks);
	desc.orchestrate = orchestrate;
	must(rp_program_create(&desc, &program), "rp_program_create");
	return program;
}

static void choose_options(struct rp_worker_options *options, uint64_t *seed)
{
	bed_options(options, asked.chips ? (uint32_t)asked.chips
					 : 1 + (uint32_t)(bed_random(seed) % 3));
	options->task_ring_slots = 4u << bed_random(seed) % 5;
	options->arg_ring_bytes = (size_t)4096 << bed_random(seed) % 2;
	options->unified_memory = bed_random(seed) % 2;
	/* Spinning on few cores only makes all of it slow. */
	options->wait = bed_random(seed) % 2 ? RP_WAIT_BLOCK : RP_WAIT_HYBRID;
	options->worker_wait = bed_random(seed) % 2 ? RP_WAIT_BLOCK : RP_WAIT_HYBRID;
	options->sleep_engine = bed_random(seed) % 2 ? RP_SLEEP_FUTEX : RP_SLEEP_AUTO;
	/* One each at a time, and those that it sends ahead: none to spare. */
	options->handle_count = (uint32_t)asked.threads * (1 + AHEAD_MAX);
	options->dispatcher = asked.dispatcher;
	options->dispatcher_queue = 1u << bed_random(seed) % 5;
}

static void go_round(uint64_t seed)
{
	struct lane_of_work works[THREADS_MAX];
	struct rp_worker_stats stats = { .size = sizeof(stats) };
	struct rp_worker_options options;
	pthread_t threads[THREADS_MAX];
	struct rp_program *program = create_program();
	struct rp_worker *worker;
	uint64_t tasks = 0, dispatches = 0;
	uint64_t dice = seed;

	choose_options(&options, &dice);
	for (int i = 0; i < asked.threads; i++) {
		void *shared;

		must(rp_shared_alloc(TENSORS * WORDS * 8, &shared), "rp_shared_alloc");
		works[i] = (struct lane_of_work){ .seed = seed * 1000 + (uint64_t)i,
						  .shared = shared,
						  .model = calloc(TENSORS, WORDS * 8),
						  .chips = options.chip_count,
						  .runs = asked.runs };
	}
	must(rp_worker_prepare(&program, 1, &options, &worker), "rp_worker_prepare");
	for (int i = 0; i < asked.threads; i++) {
		works[i].worker = worker;
		must(pthread_create(&threads[i], NULL, work_off, &works[i]),
		     "pthread_create");
	}
	for (int i = 0; i < asked.threads; i++) {
		pthread_join(threads[i], NULL);
		tasks += works[i].tasks;
		dispatches += works[i].dispatches;
	}
	must(rp_worker_get_stats(worker, &stats), "rp_worker_get_stats");
	if (stats.dispatches != dispatches || stats.tasks_cancelled) {
		fprintf(stderr,
			"dispatch_stress: %" PRIu64 " dispatches counted, %" PRIu64
			" made; %" PRIu64 " tasks cancelled\n",
			stats.dispatches, dispatches, stats.tasks_cancelled);
		exit(1);
	}
	printf("# seed %" PRIu64 ": %u chips%s, %u slots, %" PRIu64
	       " dispatches, %" PRIu64 " tasks\n",
	       seed, options.chip_count, options.unified_memory ? " unified" : "",
	       options.task_ring_slots, dispatches, tasks);
	must(rp_worker_close(worker, RP_WAIT_FOREVER), "rp_worker_close");
	rp_worker_free(worker);
	rp_program_free(program);
	for (int i = 0; i < asked.threads; i++) {
		rp_shared_free(works[i].shared);
		free(works[i].model);
	}
}

int main(int argc, char **argv)
{
	const struct stress_option options[] = {
		{ "runs", &asked.runs, 1, INT_MAX },
		{ "threads", &asked.threads, 1, THREADS_MAX },
		{ "chips", &asked.chips, 0, 8 },
		{ "dispatcher", &asked.dispatcher, 0, 0 },
	};

	return stress_run(argc, argv, "dispatch_stress", options, COUNT(options),
			  go_round);
}
