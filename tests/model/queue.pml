/* SPDX-License-Identifier: MIT */
/*
 * Q1 to Q5, H1: submitting threads leave requests, the dispatcher makes runs of them.
 * dispatch/queue.c, dispatch/request.c, rpi_plane_await_dispatch() in dispatch/wait.c,
 * rpi_handle_unqueue() and rpi_handles_refuse() in dispatch/handles.c; the end in
 * control/worker/close.c and control/worker/dispatcher.c, the fall in
 * control/worker/supervisor.c.
 *
 * Threads submit calls with COUNT requests. With two of them they wait for the handles,
 * another thread waits for the first one as well. Somebody closes when all have gone. A
 * run is a step: its frame and its end are frames.pml and gate.pml, admission is a lock
 * and the turn a line (admission.pml).
 *
 * The memory is x86-TSO where it matters. Two stores are followed by a load without a
 * fence: a submitter's of the ring's tail, before it looks at `dozing`, and the tail of
 * the free ring by who gives a request back, before it looks at `room`. Each lies in its
 * thread's buffer until an exchange, a fence, or at any time. The next producer waits
 * until it sees the tail, so one store a ring is enough. The dispatcher's store of
 * cons.tail acts at once: what it does later is visible later, and nobody fails for
 * seeing it late, as the ring has one place more than there are requests.
 *
 * Checked: nobody sleeps for ever; each accepted call gets one outcome, before its handle
 * says so; calls of one thread, and of those that had to wait, are made runs of in their
 * order; one wake-up per doze of the dispatcher, none without; nothing is accepted by a
 * call that comes after a close, nor in any way once the closer has all requests; and
 * then what was accepted has its run.
 *
 *   -DCOUNT    requests, 1 or 2; only two use the free ring
 *   -DSUBMITTERS, -DTURNS  threads, 2 or 3, and calls of the first of them, 1 or 2; the
 *              others have one each
 *   -DEARLY    close comes at any time
 *   -DFALL     the processes may die at any time
 *   -DPASS     the first thread copies after its calls: rpi_queue_pass()
 *   -DUNBOUND  the arguments of the last thread's call are refused
 *   -DSTALLS   an orchestration may never return; who waits for a free request is told
 *              of one, of a close and of a fall nevertheless
 * To be found faulty:
 *   -DNO_FENCE            only who goes to sleep has a fence
 *   -DNO_RECHECK          the dispatcher does not look again after the announcement
 *   -DLOOK_FIRST          a submitter looks at `dozing` before it queues
 *   -DNO_TAKING           it clears `dozing` without an exchange
 *   -DNO_STOP_WAKE        the stop wakes nobody
 *   -DNO_ROOM_RECHECK     who waits for a request does not look again
 *   -DNO_ROOM_WAKE        who gives one back does not look for who waits
 *   -DSUBMITTERS=3 -DCOUNT=2 -DSTALLS -DNO_ROOM_FENCE  who gives one back has no fence
 *   -DEARLY -DNO_CLOSING_LOOK  nor looks at `closing` before it sleeps
 *   -DFALL -DSTALLS -DNO_FALL_LOOK      nor at `fall`
 *   -DEARLY -DSTALLS -DNO_ROUSE         close does not rouse who waits
 *   -DFALL -DSTALLS -DNO_ROUSE          nor does the fall
 *   -DSUBMITTERS=3 -DTURNS=1 -DNO_BLOCKED_LOOK  a thread takes a request while others
 *       wait for one
 *   -DSUBMITTERS=3 -DCOUNT=2 -DLEAVE_EARLY  the turn ends before the request is queued
 *   -DGIVE_BACK_EARLY     the request is given back before it was taken over
 *   -DRING_SHORT          the ring has no more places than there are requests
 *   -DPASS -DCONSUME_EARLY  a request leaves the ring before its run is built
 *   -DUNBOUND -DKEEP      a refused call keeps its request
 *   -DUNQUEUE_EARLY       the handle says so before it has the run
 *   -DUNQUEUE_BLIND       by a store, after a look for who waits
 *   -DNO_WATCH            who waits for the handle does not say so
 *   -DFALL -DREFUSE_QUEUED  a refused request stays queued
 *   -DEARLY -DNO_OPEN_LOOK  a submitter does not look at `closing` first
 *   -DEARLY -DNO_DRAIN    close stops the dispatcher without the requests
 *   -DEARLY -DPAST_BUILDING  close does not wait for the run that is being built
 */
#include "queue.inc"

/* rp_worker_submit() for each call, with PASS a copy, then the waits. */
proctype submitter(byte self; byte first; byte last)
{
	byte call = first;
	byte request, old, place, seen;
	bool turned, took, late;

	do
	:: true ->
		if
		:: call == MARK ->
			if :: IS_THROUGH(self) -> break :: else fi
		:: else ->
			late = closing;
			/* rpi_plane_check_open() */
			if
			:: OPEN
			:: else -> break
			fi
		fi;
		take(self, request, turned);
		if
		:: !request ->
			atomic { queued_now(self) };
			leave_turn(self, turned);
			break
		:: else
		fi;
		/* Filled: read by the dispatcher only, once it sees the tail. */
		content[request] = call;
#ifdef UNBOUND
		if
		:: self == SUBMITTERS ->
#ifndef KEEP
			give_back(self, request, old, took);
#endif
			atomic { queued_now(self) };
			leave_turn(self, turned);
			break
		:: else
		fi;
#endif
		atomic {
			if
			:: call != MARK ->
				assert(!late);
				queued[call] = YES
			:: else
			fi
		};
#ifdef LEAVE_EARLY
		leave_turn(self, turned);
#endif
		queue_up(self, call, request, place, took);
#ifndef LEAVE_EARLY
		leave_turn(self, turned);
#endif
		if
		:: call == MARK ->
			if
			:: !passed ->
				atomic { passed_futex = !passed };
END(end_pass)
				!passed_futex
			:: else
			fi;
			assert(passed);
			give_back(self, request, old, took);
			break
		:: else
		fi;
		atomic {
			request = 0;
			returned[call] = true;
			if
			:: call < last -> call++
#ifdef PASS
			:: call == last && first == 1 -> call = MARK
			:: call == last && first != 1 -> break
#else
			:: call == last -> break
#endif
			fi
		}
	od;
	/* What was not accepted will not be. */
	atomic {
		late = false;
		call = first
	};
#ifdef PASS
	/* What this thread queued is through, unless the marks were refused. */
	if
	:: first == 1 && !closing && !fall ->
		assert(outcomes[last] == 1)
	:: else
	fi;
#endif
	do
	:: self <= WAITERS && call <= last && accepted[call] ->
		await(self, call, seen);
		call++
	:: else -> break
	od;
	atomic {
		call = 0;
		drain(self);
		gone++;
		settled[self] = true
	}
}

/* Another thread that has the first handle. */
proctype waiter()
{
	byte seen;

END(end_waiter)
	if
	:: returned[1] -> await(WAITER, 1, seen)
	:: settled[1] && !returned[1]
	fi;
	gone++
}

/* --- The dispatcher --- */

inline unqueue(call, seen)
{
#ifdef UNQUEUE_BLIND
	atomic { drain(DISPATCHER); seen = queued[call] };
	queued[call] = NO;
#else
	atomic {
		drain(DISPATCHER);
		seen = queued[call];
		queued[call] = NO
	};
#endif
	if :: seen == WATCHED -> queued_futex[call] = false :: else fi;
	seen = 0
}

/* It has its run, or its error. */
inline outcome(call)
{
	atomic {
		assert(accepted[call]);
		outcomes[call]++;
		assert(outcomes[call] == 1);
#if TURNS > 1
		assert(call != 2 || outcomes[1])
#endif
	}
}

/* rpi_plane_dispatch() */
inline dispatch(call, request, old, took, seen)
{
	building = true;
	if
	:: fall ->
		call = content[request];
		give_back(DISPATCHER, request, old, took);
		outcome(call);
#ifndef REFUSE_QUEUED
		unqueue(call, seen)
#endif
	:: else ->
#ifdef GIVE_BACK_EARLY
		place = request;
		give_back(DISPATCHER, request, old, took);
		call = content[place];
#else
		call = content[request];
		give_back(DISPATCHER, request, old, took);
#endif
#ifdef STALLS
		/* rpi_run_orchestrate() */
		if
		:: true
		:: true ->
end_stall:
			false
		fi;
#endif
#ifdef UNQUEUE_EARLY
		unqueue(call, seen);
		outcome(call)
#else
		outcome(call);
		unqueue(call, seen)
#endif
	fi;
	atomic { call = 0; building = false }
}

active proctype dispatcher()
{
	byte request, call, old, place, seen;
	bool took;

	do
	:: tail != front ->
#ifdef CONSUME_EARLY
		atomic { request = ring[front % PLACES]; front++ };
#else
		request = ring[front % PLACES];
#endif
		if
		:: content[request] == MARK ->
			/* The thread that waits owns it from here. */
			atomic { request = 0; passed = true };
			passed_futex = false
		:: else -> dispatch(call, request, old, took, seen)
		fi;
#ifndef CONSUME_EARLY
		atomic { ring[front % PLACES] = 0; front++ }
#endif
	:: else ->
		if :: stop -> break :: else fi;
		/* doze() */
#ifdef NO_RECHECK
		if :: tail != front || stop -> goto again :: else fi;
#endif
		atomic {
			drain(DISPATCHER);
			dozing = true;
			announced = true;
			roused = false
		};
#ifndef NO_RECHECK
		if :: tail != front || stop -> goto awake :: else fi;
#endif
		atomic { doze_futex = dozing };
END(end_doze)
		!doze_futex;
awake:
		atomic {
			dozing = false;
			announced = false
		}
again:
		skip
	od;
	ended = true
}

/* --- The end --- */

active proctype closer()
{
	byte got, had;
	bool took;

#ifndef EARLY
END(end_gone)
	gone == SUBMITTERS + WAITERS;
#endif
	closing = true;
	/* rpi_queue_drain() */
	rouse(CLOSER, took);
#ifndef NO_DRAIN
	do
	:: had < COUNT ->
END(end_drain)
		(spare || freed);
		try_take(CLOSER, got);
		atomic {
			if
			:: got ->
				got = 0;
				had++
			:: else
			fi
		}
	:: else -> break
	od;
	collected = true;
#endif
	/* drain_runs() looks at admission. */
#ifndef PAST_BUILDING
END(end_building)
	!building;
#endif
	atomic {
		got = 1;
		do
		:: got <= CALLS ->
			assert(outcomes[got] == accepted[got]);
			got++
		:: else -> break
		od;
		got = 0
	};
	/* rpi_dispatcher_stop() */
	stop = true;
#ifndef NO_STOP_WAKE
	wake_dispatcher(CLOSER, took);
#endif
	ended
}

#ifdef FALL
active proctype supervisor()
{
	bool took;

	fall = true;
	rouse(SUPERVISOR, took)
}
#endif

active proctype drain_buffers()
{
end:
	do
	:: atomic { tail_by -> drain_tail() }
	:: atomic { adding_by -> drain_free() }
	od
}

init {
	byte seen = 1;

	atomic {
		spare = 1;
#if COUNT > 1
		freed = 4;
#endif
		run submitter(1, 1, TURNS);
		run submitter(2, TURNS + 1, TURNS + 1);
#if SUBMITTERS > 2
		run submitter(3, TURNS + 2, TURNS + 2)
#else
		run waiter()
#endif
	};
	timeout; /* when nobody can do anything any more */
	assert(!room_futex || (!spare && !freed && !closing && !fall));
	do
	:: seen <= CALLS ->
		assert(outcomes[seen] <= accepted[seen]);
#ifndef STALLS
		assert(outcomes[seen] == accepted[seen]);
#endif
		seen++
	:: else -> break
	od
}
