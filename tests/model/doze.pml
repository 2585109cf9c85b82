/* SPDX-License-Identifier: MIT */
/*
 * E4: a worker process goes to sleep while others publish work for it.
 * chip/doze.c, chip/server.c, dispatch/rouse.[ch], dispatch/lane.c (publication),
 * completion/park.c, completion/fence.h, control/worker/supervisor.c (let_go).
 *
 * The memory is x86-TSO. Where a thread stores and then loads without a fence its
 * stores lie in a buffer that drains at any time: `published` is what the parent
 * has stored, `work` what the others see; `stop_stored` and `stop` likewise. All
 * other sites are exchanges, seq_cst stores, or stores that nothing is loaded
 * after, and act at once.
 *
 * Checked: no state without a successor in which the worker sleeps (each task is
 * executed, a stop is obeyed), one wake-up per announced doze, none without.
 *
 *   -DURING    the park blocks on a completion queue, not on the futex
 *   -DSTOP_EARLY  stop comes while tasks may be outstanding
 * To be found faulty:
 *   -DNO_FENCE    only the sleeper has a fence
 *   -DNO_RECHECK  the sleeper does not look again after the announcement (or, without
 *                 a fence, may have looked before it)
 *   -DNO_PENDING  wake-ups are not sticky
 */
#ifndef TASKS
#define TASKS 3
#endif
#define BUFFER 2 /* stores that the parent may have outstanding */

byte published, work;
bool stop_stored, stop;
byte executed;
bool dozing;

/* The worker's park. */
bool pending, asleep;
bool blocked; /* futex: in the kernel */
bool queued;  /* io_uring: a completion is there */

/* Not in the code: what is checked. */
bool announced; /* from the store of 1 to the sleeper's own exchange */
bool roused;	/* this doze's wake-up was taken */

/* The waker's end of E4. */
#ifndef NO_FENCE
#define FENCE work = published
#else
#define FENCE skip
#endif

inline park_wake()
{
#ifndef NO_PENDING
	pending = true;
#endif
	if
	:: asleep ->
		atomic {
			blocked = false;
			queued = true
		}
	:: else
	fi
}

inline rouse_sleeper(took)
{
	/* The exchange. */
	atomic {
		took = dozing;
		dozing = false;
		if
		:: took ->
			assert(announced);
			assert(!roused);
			roused = true
		:: else
		fi
	};
	if
	:: took -> park_wake()
	:: else
	fi
}

inline park_sleep()
{
	asleep = true;
	if
	:: pending -> queued = false
	:: else ->
#ifdef URING
		atomic { queued -> queued = false }
#else
		atomic {
			if
			:: pending -> skip /* EAGAIN */
			:: else -> blocked = true
			fi
		};
		!blocked
#endif
	fi;
	asleep = false;
	pending = false
}

active proctype parent()
{
	bool took;

	do
	:: published < TASKS ->
		atomic { published - work < BUFFER -> published++ }; /* E1 */
		FENCE;
		if
		:: dozing ->
			work = published; /* an exchange drains */
			rouse_sleeper(took)
		:: else
		fi
	:: else -> break
	od
}

/* The supervisor: stop, then rouse_all(). */
active proctype stopper()
{
	bool took;

#ifndef STOP_EARLY
	executed == TASKS;
#endif
	stop_stored = true;
	/* rpi_rouse_all(): its fence drains its own buffer. */
	stop = stop_stored;
	rouse_sleeper(took)
}

/* A process that fails a run rouses everybody, at any time or never. */
active proctype failer()
{
	bool took;

	if
	:: true -> rouse_sleeper(took)
	:: true -> skip
	fi
}

active proctype drain_buffers()
{
end:
	do
	:: atomic { work < published -> work++ }
	:: atomic { stop != stop_stored -> stop = stop_stored }
	od
}

active proctype worker()
{
	do
	:: true ->
		if
		:: atomic { work > executed -> executed++ }
		:: else ->
			if
			:: stop -> break
			:: else
			fi;
			/* rpi_server_doze(): the store and its fence */
			atomic {
				dozing = true;
				announced = true;
				roused = false
			};
			if
#ifndef NO_RECHECK
			:: work > executed || stop ->
				if
				:: !dozing ->
					queued = false;
					pending = false
				:: else
				fi
			:: else ->
#else
			:: true ->
#endif
				park_sleep()
			fi;
			atomic {
				dozing = false;
				announced = false
			}
		fi
	od;
#ifndef STOP_EARLY
	assert(executed == TASKS)
#endif
}
