/* SPDX-License-Identifier: MIT */
/*
 * The submitter sleeps until one kernel has ended, which any thread may have run.
 * runtime/await.c (sleep_for), runtime/hand.c (complete).
 *
 * Memory is x86-TSO; `done` and `awaited` are sequentially consistent, and what is stored
 * relaxed (NULL to `awaited`) is drained by the store that follows it, so each acts at once.
 *
 * Checked: no state without a successor: the sleep ends, without its time limit.
 *
 * To be found faulty:
 *   -DLOOK_FIRST  the submitter looks at `done` before it says what it waits for
 *   -DBELL_LATE   it reads the bell after the look
 *   -DTELL_FIRST  the hand looks at `awaited` before it stores `done`
 */
#define SLOTS 2
#define NONE  SLOTS

bool done[SLOTS];
byte awaited = NONE;
byte bell;
bool blocked;

active [SLOTS] proctype hand()
{
	bool told;

#ifdef TELL_FIRST
	told = awaited == _pid;
	done[_pid] = true;
#else
	done[_pid] = true; /* K3 */
	told = awaited == _pid;
#endif
	if
	:: told ->
		bell++;
		blocked = false
	:: else
	fi
}

active proctype submitter()
{
	byte slot, heard;

	for (slot : 0 .. SLOTS - 1) {
		do
		:: done[slot] -> break
		:: else ->
#ifndef BELL_LATE
			heard = bell;
#endif
#ifdef LOOK_FIRST
			if
			:: done[slot] -> break
			:: else
			fi;
			awaited = slot;
#else
			awaited = slot;
			if
			:: done[slot] ->
				awaited = NONE;
				break
			:: else
			fi;
#endif
#ifdef BELL_LATE
			heard = bell;
#endif
			atomic {
				if
				:: bell == heard -> blocked = true
				:: else
				fi
			};
			!blocked;
			awaited = NONE
		od
	}
}
