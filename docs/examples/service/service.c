/* SPDX-License-Identifier: MIT */
#include "service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringplane/ringplane.h>

#include "clock.h"

#define FRAMES	2
#define STUCK_S 5
#define LOOK_NS NS_PER_S /* while a frame is busy, at least so often */
#define TRIES	10
#define NEVER	INT64_MAX

/* One of the two dispatches in flight, with memory of its own. */
struct frame {
	struct rp_arg args[3];
	float *values;	 /* in, then out */
	struct job *job; /* NULL: nobody waits for it any more */
	struct rp_handle handle;
	int64_t looked_ns, kept_ns; /* when last, and how long it has been busy */
	bool busy;
};

struct service {
	struct service_options options;
	struct rp_program *program;
	struct rp_worker *worker;
	struct frame frames[FRAMES];
	struct job *first, **last; /* the queue */
	struct service_counts counts;
	int fd;
};

/* Runs in the chip's process. */
static int serve(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const float *x = args[0].u.tensor.data;
	float *y = args[1].u.tensor.data;
	int64_t until = now_ns() + args[2].u.scalar.value.u32 * INT64_C(1000);

	(void)nargs;
	while (now_ns() < until && !rp_chip_cancelled(chip))
		;
	for (int i = 0; i < VALUE_COUNT; i++)
		y[i] = 2 * x[i] + 1;
	return 0;
}

static int make_program(struct service *s)
{
	const struct rp_entry entry = { "serve", serve };
	const struct rp_param params[] = {
		{ .name = "x",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_IN,
		  .rank = 1,
		  .shape = { VALUE_COUNT } },
		{ .name = "y",
		  .kind = RP_ARG_TENSOR,
		  .dtype = RP_FLOAT32,
		  .access = RP_OUT,
		  .rank = 1,
		  .shape = { VALUE_COUNT } },
		{ .name = "work_us", .kind = RP_ARG_SCALAR, .dtype = RP_UINT32 },
	};
	struct rp_program_desc desc;

	rp_program_desc_init(&desc);
	desc.name = "serve";
	desc.params = params;
	desc.param_count = 3;
	desc.entries = &entry;
	desc.entry_count = 1;
	return rp_program_create(&desc, &s->program);
}

static int make_frame(struct frame *frame)
{
	const int64_t shape[] = { VALUE_COUNT };
	struct rp_tensor tensor;
	void *memory;
	int err = rp_shared_alloc(2 * VALUE_COUNT * sizeof(float), &memory);

	for (int i = 0; i < 2 && !err; i++) {
		frame->values = memory;
		err = rp_tensor_host(&tensor, frame->values + i * VALUE_COUNT, RP_FLOAT32,
				     1, shape);
		frame->args[i] = rp_arg_tensor(tensor);
	}
	return err;
}

static int start(struct service *s)
{
	struct rp_worker_options options;
	int err;

	rp_worker_options_init(&options);
	options.ring_fd = s->options.ring_fd;
	options.ring_user_data = s->options.ring_user_data;
	err = rp_worker_prepare(&s->program, 1, &options, &s->worker);
	if (err)
		return err;
	s->fd = rp_worker_fd(s->worker);
	return s->fd < 0 ? s->fd : 0;
}

int service_open(const struct service_options *options, struct service **out)
{
	struct service *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->options = *options;
	s->last = &s->first;
	err = make_program(s);
	for (int i = 0; i < FRAMES && !err; i++)
		err = make_frame(&s->frames[i]);
	if (!err)
		err = start(s);
	if (err) {
		service_close(s, "service");
		return err;
	}
	*out = s;
	return 0;
}

static void done(struct service *s, struct job *job, int status)
{
	job->active = false;
	job->response.id = job->request.id;
	job->response.status = status;
	if (status)
		memset(job->response.values, 0, sizeof(job->response.values));
	s->counts.served += !status;
	s->counts.timed_out += status == -ETIMEDOUT;
	s->counts.failed += status && status != -ETIMEDOUT;
	s->options.done(job, s->options.user);
}

/* The run has ended, or its worker has. */
static void release(struct service *s, struct frame *frame, int status)
{
	struct job *job = frame->job;

	rp_handle_release(frame->handle);
	frame->busy = false;
	frame->job = NULL;
	if (!job)
		return;
	/* It ended in time, or it counts as late, whoever noticed first. */
	if (!status && job->deadline_ns <= now_ns())
		status = -ETIMEDOUT;
	memcpy(job->response.values, frame->values + VALUE_COUNT,
	       sizeof(job->response.values));
	done(s, job, status);
}

static struct job *take_first(struct service *s)
{
	struct job *job = s->first;

	s->first = job->next;
	if (!s->first)
		s->last = &s->first;
	return job;
}

static void print_counts(const struct service_counts *counts, const char *name)
{
	fprintf(stderr,
		"%s: %" PRIu64 " served, %" PRIu64 " timed out, %" PRIu64
		" failed, %" PRIu64 " restarts\n",
		name, counts->served, counts->timed_out, counts->failed,
		counts->restarts);
}

int service_close(struct service *s, const char *name)
{
	int err = 0;

	if (s->worker)
		err = rp_worker_close(s->worker, NS_PER_S);
	for (int i = 0; i < FRAMES; i++) {
		if (s->frames[i].busy)
			release(s, &s->frames[i], rp_handle_wait(s->frames[i].handle, 0));
	}
	while (s->first)
		done(s, take_first(s), -ESHUTDOWN);
	print_counts(&s->counts, name);
	rp_worker_free(s->worker);
	rp_program_free(s->program);
	for (int i = 0; i < FRAMES; i++)
		rp_shared_free(s->frames[i].values);
	free(s);
	/* It was late, or its chip had died, and the jobs have heard so; it has ended all
	 * the same. */
	return err == -ETIMEDOUT || err == -EOWNERDEAD ? 0 : err;
}

int service_fd(const struct service *s)
{
	return s->fd;
}

/* End what is left of the worker and fork another. A chip may die while it starts, too;
 * where one after the other does, it is no accident. */
static int restart(struct service *s, const char *why)
{
	int err = -EOWNERDEAD;

	fprintf(stderr, "service: %s; the worker is prepared anew\n", why);
	rp_worker_close(s->worker, 0);
	for (int i = 0; i < FRAMES; i++)
		if (s->frames[i].busy)
			release(s, &s->frames[i], -EOWNERDEAD);
	rp_worker_free(s->worker);
	s->worker = NULL;
	s->counts.restarts++;
	for (int i = 0; i < TRIES && err == -EOWNERDEAD; i++)
		err = start(s);
	return err;
}

static struct frame *free_frame(struct service *s)
{
	for (int i = 0; i < FRAMES; i++)
		if (!s->frames[i].busy)
			return &s->frames[i];
	return NULL;
}

static int send_job(struct service *s, struct frame *frame, struct job *job)
{
	int err;

	memcpy(frame->values, job->request.values, sizeof(job->request.values));
	frame->args[2] = rp_arg_u32(job->request.work_us);
	err = rp_worker_submit(s->worker, s->program, frame->args, 3, NULL,
			       &frame->handle);
	if (err)
		return err;
	frame->busy = true;
	frame->job = job;
	frame->looked_ns = now_ns();
	frame->kept_ns = 0;
	return 0;
}

/* Send from the queue while there is a free frame: no submit waits for one. */
static int send_waiting(struct service *s)
{
	struct frame *frame;

	while (s->first && (frame = free_frame(s))) {
		struct job *job = take_first(s);
		int err;

		if (job->deadline_ns <= now_ns()) {
			done(s, job, -ETIMEDOUT);
			continue;
		}
		err = send_job(s, frame, job);
		if (err == -EOWNERDEAD) {
			/* A chip died idle. */
			err = restart(s, rp_last_error());
			if (!err)
				err = send_job(s, frame, job);
		}
		if (err) {
			done(s, job, err);
			return s->worker ? 0 : err;
		}
	}
	return 0;
}

int service_add(struct service *s, struct job *job)
{
	job->deadline_ns = job->request.deadline_us
				   ? now_ns() + job->request.deadline_us * INT64_C(1000)
				   : NEVER;
	job->active = true;
	if (job->request.work_us > WORK_US_MAX) {
		done(s, job, -EINVAL);
		return 0;
	}
	job->next = NULL;
	*s->last = job;
	s->last = &job->next;
	return send_waiting(s);
}

static void unlink_job(struct service *s, struct job **link)
{
	struct job *job = *link;

	*link = job->next;
	if (!*link)
		s->last = link;
	job->active = false;
}

void service_drop(struct service *s, struct job *job)
{
	for (int i = 0; i < FRAMES; i++)
		if (s->frames[i].job == job)
			s->frames[i].job = NULL;
	for (struct job **link = &s->first; *link; link = &(*link)->next)
		if (*link == job) {
			unlink_job(s, link);
			break;
		}
	job->active = false;
}

/* End the jobs whose time is over. One in flight keeps its frame until it has ended. */
static void end_late(struct service *s, int64_t now)
{
	struct job **link = &s->first;

	for (int i = 0; i < FRAMES; i++) {
		struct job *job = s->frames[i].job;

		if (!job || job->deadline_ns > now)
			continue;
		s->frames[i].job = NULL;
		done(s, job, -ETIMEDOUT);
	}
	while (*link) {
		struct job *job = *link;

		if (job->deadline_ns > now) {
			link = &job->next;
			continue;
		}
		unlink_job(s, link);
		done(s, job, -ETIMEDOUT);
	}
}

static void collect(struct service *s)
{
	struct rp_handle ended[FRAMES];

	/* Only to make the descriptor quiet: who has ended is asked of the frames. */
	while (rp_worker_reap(s->worker, ended, FRAMES) == FRAMES)
		;
	for (int i = 0; i < FRAMES; i++)
		if (s->frames[i].busy && rp_handle_done(s->frames[i].handle))
			release(s, &s->frames[i], rp_handle_wait(s->frames[i].handle, 0));
}

/* True: it has been busy for too long. Of the time since the last look no more counts
 * than lies between two looks: where it was longer, the machine was suspended or too
 * slow for this process too, and that is no fault of the chip. */
static bool is_stuck(struct frame *frame, int64_t now)
{
	int64_t passed = now - frame->looked_ns;

	frame->looked_ns = now;
	frame->kept_ns += passed < LOOK_NS ? passed : LOOK_NS;
	return frame->kept_ns > STUCK_S * NS_PER_S;
}

/* Why the worker can't go on; NULL: it can. */
static const char *trouble(struct service *s, int64_t now)
{
	if (!rp_worker_pid(s->worker, 0))
		return "the chip has died";
	for (int i = 0; i < FRAMES; i++)
		if (s->frames[i].busy && is_stuck(&s->frames[i], now))
			return "a job keeps the chip for too long";
	return NULL;
}

int service_poll(struct service *s)
{
	int64_t now = now_ns();
	const char *why;
	int err = 0;

	collect(s);
	end_late(s, now);
	why = trouble(s, now);
	if (why)
		err = restart(s, why);
	return err ? err : send_waiting(s);
}

int64_t service_timeout_ns(const struct service *s)
{
	int64_t next = NEVER, now = now_ns();

	for (int i = 0; i < FRAMES; i++) {
		const struct frame *frame = &s->frames[i];

		if (frame->job && frame->job->deadline_ns < next)
			next = frame->job->deadline_ns;
		if (frame->busy && now + LOOK_NS < next)
			next = now + LOOK_NS;
	}
	for (const struct job *job = s->first; job; job = job->next)
		if (job->deadline_ns < next)
			next = job->deadline_ns;
	if (next == NEVER)
		return -1;
	return next > now ? next - now : 0;
}

void service_get_counts(const struct service *s, struct service_counts *out)
{
	*out = s->counts;
}
