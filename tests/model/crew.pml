/* SPDX-License-Identifier: MIT */
/*
 * Compute threads go to sleep while kernels are put into the ready queue.
 * runtime/crew.c (sleep_idle, bide, wake, rpi_crew_call, rpi_crew_stop), runtime/ready.c.
 *
 * All accesses are sequentially consistent in the code, so each acts at once. The producer
 * runs no kernel itself: every one needs a thread of the crew.
 *
 * Checked: no state without a successor (each kernel is run, a stop is obeyed), `sleepers`
 * counts those that have announced a sleep, and nobody is counted at the end.
 *
 *   -DBIDE   threads may also sleep for a time without looking at the queue again
 * To be found faulty:
 *   -DNO_RECHECK      the sleeper does not look again after the announcement
 *   -DLOOK_EARLY      the producer looks for sleepers before it puts
 *   -DANNOUNCE_LATE   the sleeper looks again before the announcement
 *   -DNO_COUNT        the waker does not take the sleeper out of the count
 *   -DSTOP_ONCE       the stop wakes one thread only
 */
#ifndef KERNELS
#define KERNELS 3
#endif
#define CREW 2

byte put, taken, ran;
byte sleepers;
bool asleep[CREW];
bool blocked[CREW]; /* in the kernel */
bool stop;

/* Not in the code: what is checked. */
byte announced, gone;

inline wake(i, took)
{
	atomic {
		took = asleep[i];
		asleep[i] = false
	};
	if
	:: took ->
#ifndef NO_COUNT
		atomic {
			sleepers--;
			announced--
		};
#else
		announced--;
#endif
		blocked[i] = false
	:: else
	fi
}

inline call(seen)
{
	byte k = 0;
	bool took = false;

	if
	:: seen > 0 ->
		do
		:: k < CREW && !took ->
			if
			:: asleep[k] -> wake(k, took)
			:: else
			fi;
			k++
		:: else -> break
		od
	:: else
	fi
}

active proctype producer()
{
	byte seen, i;
	bool woke;

	do
	:: put < KERNELS ->
#ifdef LOOK_EARLY
		seen = sleepers;
		put++;
#else
		put++; /* R3 */
		seen = sleepers;
#endif
		call(seen)
	:: else -> break
	od;
	ran == KERNELS;
	stop = true;
	i = 0;
	do
	:: i < CREW ->
		wake(i, woke);
		i++
#ifdef STOP_ONCE
		;
		if
		:: woke -> break
		:: else
		fi
#endif
	:: else -> break
	od;
	gone++
}

inline announce()
{
	/* Two accesses; the count is checked after both. */
	asleep[_pid - 1] = true;
	atomic {
		sleepers++;
		announced++
	}
}

inline withdraw(mine)
{
	atomic {
		mine = asleep[_pid - 1];
		asleep[_pid - 1] = false
	};
	if
	:: mine ->
		atomic {
			sleepers--;
			announced--
		}
	:: else
	fi
}

active [CREW] proctype thread()
{
	bool mine;

	do
	:: stop -> break
	:: else ->
		if
		:: atomic { taken < put -> taken++ } -> atomic { ran++ }
#ifdef BIDE
		:: taken == put ->
			announce();
			atomic {
				if
				:: asleep[_pid - 1] -> blocked[_pid - 1] = true
				:: else
				fi
			};
			/* Woken, or the time is over. */
			blocked[_pid - 1] = false;
			withdraw(mine)
#endif
		:: taken == put ->
#ifdef ANNOUNCE_LATE
			if
			:: taken < put || stop -> goto again
			:: else
			fi;
#endif
			announce();
			do
#if !defined(NO_RECHECK) && !defined(ANNOUNCE_LATE)
			:: taken < put || stop -> break
			:: else ->
#else
			:: true ->
#endif
				atomic {
					if
					:: asleep[_pid - 1] -> blocked[_pid - 1] = true
					:: else
					fi
				};
				!blocked[_pid - 1];
				if
				:: !asleep[_pid - 1] -> goto again
				:: else
				fi
			od;
			withdraw(mine)
		fi
	again:
		skip
	od;
	assert(ran == KERNELS);
	gone++
}

active proctype judge()
{
	atomic {
		gone == CREW + 1 -> assert(sleepers == 0 && announced == 0)
	}
}
