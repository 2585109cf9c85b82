/* SPDX-License-Identifier: MIT */
/* The slot ring, alone in one process, then between two. */
#include "ring/slot.h"

#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Ends a hang; nothing here takes a hundredth of it. */
#define WATCHDOG_S 120

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))

#define SLOTS_MAX  8

/* Fills the payload of a slot exactly. */
struct note {
	uint64_t words[RPI_SLOT_PAYLOAD_BYTES / sizeof(uint64_t)];
};

static_assert(sizeof(struct note) == RPI_SLOT_PAYLOAD_BYTES, "a payload is full");

static void note_fill(struct note *note, uint64_t seq)
{
	for (size_t i = 0; i < COUNT(note->words); i++)
		note->words[i] = seq * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static bool note_is(const struct note *note, uint64_t seq)
{
	for (size_t i = 0; i < COUNT(note->words); i++)
		if (note->words[i] != seq * UINT64_C(0x9e3779b97f4a7c15) + i)
			return false;
	return true;
}

struct pair {
	struct rpi_slot slots[SLOTS_MAX];
	struct rpi_slot_tx tx;
	struct rpi_slot_rx rx;
};

static void pair_init(struct pair *p, uint64_t slot_count, uint64_t first_seq)
{
	/* What lay there before is not zero. */
	memset(p, 0xa5, sizeof(*p));
	rpi_slot_init(p->slots, slot_count, first_seq);
	rpi_slot_tx_init(&p->tx, p->slots, slot_count, first_seq);
	rpi_slot_rx_init(&p->rx, p->slots, slot_count, first_seq);
}

static const uint64_t first_seqs[] = { 1, 0, UINT32_MAX, UINT64_MAX - 2, UINT64_MAX };

static void n_slots_hold_exactly_n_over_any_wrap(void **state)
{
	(void)state;
	for (uint64_t slot_count = 1; slot_count <= SLOTS_MAX; slot_count *= 2) {
		for (size_t i = 0; i < COUNT(first_seqs); i++) {
			uint64_t done_seq = first_seqs[i] - 1;
			uint64_t seq = first_seqs[i];
			struct pair p;

			pair_init(&p, slot_count, first_seqs[i]);
			for (int round = 0; round < 3; round++) {
				assert_null(rpi_slot_rx_poll(&p.rx));
				for (uint64_t n = 0; n < slot_count; n++) {
					assert_int_equal(
						rpi_slot_tx_room(&p.tx, done_seq),
						slot_count - n);
					note_fill(rpi_slot_tx_payload(&p.tx), seq + n);
					assert_int_equal(rpi_slot_tx_publish(&p.tx),
							 seq + n);
				}
				assert_int_equal(rpi_slot_tx_room(&p.tx, done_seq), 0);
				for (uint64_t n = 0; n < slot_count; n++, seq++) {
					const void *note = rpi_slot_rx_poll(&p.rx);

					assert_non_null(note);
					assert_true(note_is(note, seq));
					assert_int_equal(rpi_slot_rx_next(&p.rx), seq);
					done_seq = seq;
				}
			}
			assert_null(rpi_slot_rx_poll(&p.rx));
		}
	}
}

static void room_is_bounded_whatever_the_done_word_says(void **state)
{
	static const struct {
		const char *name;
		uint64_t next_seq, done_seq, want;
	} cases[] = {
		{ "nothing sent", 1, 0, 4 },
		{ "one pending", 2, 0, 3 },
		{ "full", 5, 0, 0 },
		{ "all done", 5, 4, 4 },
		{ "pending over the wrap", 1, UINT64_MAX, 3 },
		{ "full over the wrap", 2, UINT64_MAX - 2, 0 },
		{ "next is 0, all done", 0, UINT64_MAX, 4 },
		{ "done ahead of what was sent", 5, 5, 0 },
		{ "done far ahead", 5, UINT64_MAX / 2, 0 },
		{ "done more than a ring behind", 9, 3, 0 },
	};
	struct rpi_slot slots[4];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct rpi_slot_tx tx;

		print_message("  %s\n", cases[i].name);
		rpi_slot_tx_init(&tx, slots, 4, cases[i].next_seq);
		assert_int_equal(rpi_slot_tx_room(&tx, cases[i].done_seq), cases[i].want);
	}
}

static void zero_memory_is_ready_for_sequence_1(void **state)
{
	struct rpi_slot slots[4];
	struct rpi_slot_tx tx;
	struct rpi_slot_rx rx;
	struct note note;

	(void)state;
	memset(slots, 0, sizeof(slots));
	rpi_slot_tx_init(&tx, slots, 4, 1);
	rpi_slot_rx_init(&rx, slots, 4, 1);
	for (uint64_t seq = 1; seq <= 4; seq++) {
		assert_null(rpi_slot_rx_poll(&rx));
		note_fill(&note, seq);
		assert_int_equal(rpi_slot_tx_put(&tx, &note), seq);
		assert_true(note_is(rpi_slot_rx_poll(&rx), seq));
		rpi_slot_rx_next(&rx);
	}
}

static void a_payload_is_unseen_until_it_is_published(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p, 2, 1);
	note_fill(rpi_slot_tx_payload(&p.tx), 1);
	assert_null(rpi_slot_rx_poll(&p.rx));
	rpi_slot_tx_publish(&p.tx);
	/* Looking again changes nothing; the payload is the slot itself. */
	assert_ptr_equal(rpi_slot_rx_poll(&p.rx), p.slots[1].payload);
	assert_ptr_equal(rpi_slot_rx_poll(&p.rx), p.slots[1].payload);
	rpi_slot_rx_next(&p.rx);
	assert_null(rpi_slot_rx_poll(&p.rx));
}

static void a_slot_of_another_round_is_not_the_expected_one(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p, 2, 1);
	atomic_store(&p.slots[1].seq, 3);
	assert_null(rpi_slot_rx_poll(&p.rx));
	atomic_store(&p.slots[1].seq, UINT64_MAX);
	assert_null(rpi_slot_rx_poll(&p.rx));
	atomic_store(&p.slots[1].seq, 1);
	assert_non_null(rpi_slot_rx_poll(&p.rx));
}

#define PROCESS_ITEMS	  50000u
#define PROCESS_FIRST_SEQ (UINT64_MAX - PROCESS_ITEMS / 2)

struct shared {
	struct rpi_slot slots[SLOTS_MAX];
	_Alignas(RPI_SHARE_ALIGN) _Atomic uint64_t done_seq; /* E2 */
};

static int consume_all(struct shared *s)
{
	struct rpi_slot_rx rx;

	rpi_slot_rx_init(&rx, s->slots, SLOTS_MAX, PROCESS_FIRST_SEQ);
	for (uint32_t i = 0; i < PROCESS_ITEMS; i++) {
		const void *note = rpi_slot_rx_poll(&rx);
		uint64_t seq;

		while (!note) {
			sched_yield();
			note = rpi_slot_rx_poll(&rx);
		}
		if (!note_is(note, PROCESS_FIRST_SEQ + i))
			return 1;
		seq = rpi_slot_rx_next(&rx);
		/* E2, consumer's end. */
		atomic_store_explicit(&s->done_seq, seq, memory_order_release);
	}
	return rpi_slot_rx_poll(&rx) ? 2 : 0;
}

static void a_parent_sends_and_a_child_reads_in_the_slot(void **state)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), pid;
	struct rpi_slot_tx tx;
	struct note note;
	int status;

	(void)state;
	assert_ptr_not_equal(s, MAP_FAILED);
	rpi_slot_init(s->slots, SLOTS_MAX, PROCESS_FIRST_SEQ);
	atomic_store(&s->done_seq, PROCESS_FIRST_SEQ - 1);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(99);
		alarm(WATCHDOG_S);
		_exit(consume_all(s));
	}
	rpi_slot_tx_init(&tx, s->slots, SLOTS_MAX, PROCESS_FIRST_SEQ);
	for (uint32_t i = 0; i < PROCESS_ITEMS; i++) {
		/* E2, producer's end. */
		while (rpi_slot_tx_room(
			       &tx, atomic_load_explicit(&s->done_seq,
							 memory_order_acquire)) == 0) {
			/* A child that found a fault has left; don't wait for it. */
			if (waitpid(pid, &status, WNOHANG) != 0)
				fail_msg("the child ended early, status 0x%x", status);
			sched_yield();
		}
		/* In place and by copy, in turn. */
		if (i % 2) {
			note_fill(&note, PROCESS_FIRST_SEQ + i);
			rpi_slot_tx_put(&tx, &note);
		} else {
			note_fill(rpi_slot_tx_payload(&tx), PROCESS_FIRST_SEQ + i);
			rpi_slot_tx_publish(&tx);
		}
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(atomic_load(&s->done_seq),
			 PROCESS_FIRST_SEQ + PROCESS_ITEMS - 1);
	munmap(s, sizeof(*s));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(n_slots_hold_exactly_n_over_any_wrap),
		cmocka_unit_test(room_is_bounded_whatever_the_done_word_says),
		cmocka_unit_test(zero_memory_is_ready_for_sequence_1),
		cmocka_unit_test(a_payload_is_unseen_until_it_is_published),
		cmocka_unit_test(a_slot_of_another_round_is_not_the_expected_one),
		cmocka_unit_test(a_parent_sends_and_a_child_reads_in_the_slot),
	};

	alarm(WATCHDOG_S);
	return cmocka_run_group_tests_name("slot", tests, NULL, NULL);
}
