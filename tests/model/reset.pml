/* SPDX-License-Identifier: MIT */
/*
 * Windows between runs: each chip works off, in order, the tasks that the parent has
 * written for it, reset and entry of one run after the other. A reset follows the
 * entries of the run before on every other chip; an entry follows the resets of its own
 * run on every other chip. Both are edges of the same kind: the one who waits reads the
 * other's done_seq (E2, release and acquire; in the store order of x86 nothing else is
 * to be reordered, so steps are taken one by one here).
 *
 * An entry leaves a stamp in its own window and a mark in each peer's, waits for the
 * marks of the others, and reads their stamps. Lost marks end in a deadlock, which the
 * search reports; stale contents fail an assertion.
 *
 * -DNO_FOLLOW   a reset follows nobody
 * -DNO_SETTLE   an entry does not follow the resets of the others
 */
#ifndef CHIPS
#define CHIPS 2
#endif
#ifndef RUNS
#define RUNS 3
#endif

/* Tasks of a chip are numbered from 1: reset of run r is 2r + 1, its entry 2r + 2. */
byte done_seq[CHIPS];
byte stamp[CHIPS];

typedef window {
	byte mark[CHIPS]
}
window windows[CHIPS];

proctype chip(byte self)
{
	byte now = 0;
	byte other;

	do
	:: now == RUNS -> break
	:: else ->
		/* Reset: peers are done with the run before. */
#ifndef NO_FOLLOW
		for (other : 0 .. CHIPS - 1) {
			(other == self || done_seq[other] >= 2 * now)
		}
#endif
		stamp[self] = 0;
		for (other : 0 .. CHIPS - 1) {
			windows[self].mark[other] = 0
		}
		done_seq[self] = 2 * now + 1;
		/* Entry: windows of the peers are zeroed. */
#ifndef NO_SETTLE
		for (other : 0 .. CHIPS - 1) {
			(other == self || done_seq[other] >= 2 * now + 1)
		}
#endif
		assert(stamp[self] == 0);
		stamp[self] = 1;
		for (other : 0 .. CHIPS - 1) {
			assert(windows[other].mark[self] == 0);
			windows[other].mark[self] = 1
		}
		for (other : 0 .. CHIPS - 1) {
			(windows[self].mark[other] == 1)
		}
		for (other : 0 .. CHIPS - 1) {
			assert(stamp[other] == 1)
		}
		done_seq[self] = 2 * now + 2;
		now++
	od
}

init {
	byte self;

	atomic {
		for (self : 0 .. CHIPS - 1) {
			run chip(self)
		}
	}
}
