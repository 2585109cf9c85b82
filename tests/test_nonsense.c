/* SPDX-License-Identifier: MIT */
/* A process writes what it never may into the words that it shares with the caller. */
#include "chip/server.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "check.h"
#include "deed.h"
#include "proc.h"

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	deed_pad_reset();
	return 0;
}

enum nonsense {
	WRITE_DONE_FAR,
	WRITE_DONE_MAX,
	WRITE_LOADED,
	WRITE_DOZING,
	WRITE_ATTENTION,
	WRITE_DEP_WAITERS,
	WRITE_ROOM,
	WRITE_PHASE,
	WRITE_FAILED_STATUS,
	WRITE_CANCELLED,
	WRITE_RING_FULL,
	WRITE_RING_WILD,
	WRITE_KINDS
};

/* Until the caller has heard: what was written would be mended otherwise. */
static void await_gate(void)
{
	while (!atomic_load(&deed_pad->gate))
		proc_pause_us(100);
}

static int write_nonsense(struct rp_chip *chip, uint64_t operand)
{
	struct rpi_frame *frame = &chip->frames[chip->task->frame_idx];

	switch ((enum nonsense)operand) {
	case WRITE_DONE_FAR:
		atomic_store(&chip->self->done_seq, chip->rx.next_seq + 1000);
		await_gate();
		break;
	case WRITE_DONE_MAX:
		atomic_store(&chip->self->done_seq, UINT64_MAX);
		await_gate();
		break;
	case WRITE_LOADED:
		atomic_store(&chip->self->loaded_seq, UINT64_MAX);
		break;
	case WRITE_DOZING:
		atomic_store(&chip->self->dozing, UINT32_MAX);
		break;
	case WRITE_ATTENTION:
		atomic_store(&chip->self->attention, UINT32_MAX);
		break;
	case WRITE_DEP_WAITERS:
		atomic_store(&chip->self->dep_waiters, UINT64_MAX);
		break;
	case WRITE_ROOM:
		atomic_store(&chip->self->room_seq, UINT64_MAX);
		break;
	case WRITE_PHASE:
		atomic_store(&chip->self->phase, UINT32_MAX);
		break;
	case WRITE_FAILED_STATUS:
		frame->failed_status = 77;
		memset(frame->failed_text, 'x', sizeof(frame->failed_text));
		atomic_store(&frame->cancelled_run, chip->task->run_seq);
		atomic_store(&frame->failed_run, chip->task->run_seq);
		break;
	case WRITE_CANCELLED:
		atomic_store(&frame->cancelled_run, chip->task->run_seq);
		break;
	case WRITE_RING_FULL:
		/* Full, as the parent must read it. */
		rpi_burst_set_indices(
			chip->rx.at.burst,
			&(struct rpi_burst_indices){
				.prod_head = 1000,
				.prod_tail = 1000,
				.cons_tail = 1000 - rpi_burst_capacity(chip->rx.at.burst),
			});
		break;
	case WRITE_RING_WILD:
		rpi_burst_set_indices(chip->rx.at.burst, &(struct rpi_burst_indices){
								 .prod_head = UINT32_MAX,
								 .prod_tail = 5,
								 .cons_head = 0x80000000u,
								 .cons_tail = 0x7fffffffu,
							 });
		break;
	default:
		break;
	}
	return 0;
}

static int host_with_a_mad_chip(void *arg)
{
	uint64_t kind = *(uint64_t *)arg;
	struct rp_worker_options options;
	struct rp_worker *worker;
	struct rp_handle handle;
	int err;
	int i;

	deed_custom = write_nonsense;
	deed_options(&options, 2);
	options.wait = RP_WAIT_SPIN;
	PROC_MUST(!deed_prepare(&options, &worker));
	PROC_MUST(!deed_run(worker, DEED_ALL_CHIPS, DEED_NOTHING, 0));
	err = deed_run(worker, 0, DEED_CUSTOM, kind);
	atomic_store(&deed_pad->gate, 1);
	PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD);
	if (kind == WRITE_DONE_FAR || kind == WRITE_DONE_MAX ||
	    kind == WRITE_FAILED_STATUS || kind == WRITE_CANCELLED)
		PROC_MUST(err == -EPROTO || err == -EOWNERDEAD);
	/* What comes after it may fail and may not end; it must not take the caller
	 * with it. Many tasks in a run use the ring that has been written to. */
	for (i = 0; i < 20; i++) {
		err = deed_submit_many(worker, 0, DEED_NOTHING, 0, 30, &handle);
		PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD);
		if (err)
			break;
		err = rp_handle_wait(handle, 200000000);
		PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD ||
			  err == -ETIMEDOUT);
		if (err)
			break;
	}
	err = rp_worker_close(worker, 300000000);
	PROC_MUST(!err || err == -EPROTO || err == -EOWNERDEAD || err == -ETIMEDOUT);
	rp_worker_free(worker);
	PROC_MUST(!proc_children(getpid(), NULL, 0));
	return 0;
}

static void nonsense_in_shared_words_is_never_followed(void **state)
{
	uint64_t kind;
	int bad = 0;

	(void)state;
	for (kind = 0; kind < WRITE_KINDS; kind++) {
		int status;

		deed_pad_reset();
		status = proc_in_host(host_with_a_mad_chip, &kind);
		if (!status)
			continue;
		print_message("nonsense %d: the caller ended with wait status %#x\n",
			      (int)kind, (unsigned)status);
		bad++;
	}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nonsense_in_shared_words_is_never_followed,
				       set_up),
	};

	return cmocka_run_group_tests_name("nonsense", tests, NULL, NULL);
}
