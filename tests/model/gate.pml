/* SPDX-License-Identifier: MIT */
/*
 * W1: threads of the parent wait for two runs. One leads and sleeps on the park,
 * the others follow and sleep on `epoch`. dispatch/wait.c, with dispatch/finish.c
 * and, with FALL, control/worker/supervisor.c.
 *
 * Run 0 is in flight at the beginning, run 1 is accepted at any time. Thread 0
 * waits for run 0, threads 1 and 2 for run 1; thread 2 has a deadline that passes
 * at any time. All accesses of W1 are seq_cst, so memory is one; what E5 does with
 * store buffers is notice.pml's matter, and here a run's chip is one step of "done"
 * and one look at the notice.
 *
 * Checked: nobody sleeps for ever once the runs have ended, nobody follows where
 * nobody leads, outcomes are collected once.
 *
 *   -DFALL   the processes may die at any moment; without thread 2
 *   -DSTAYS  run 0 may go on for ever: threads 1 and 2 must not wait for it
 *   -DEARLY  thread 1 comes while a dispatcher is yet to accept run 1; without
 *            thread 2
 *   -DEMPTY  run 1 has no task: no chip has a hand in its end
 *   -DBLOCK  runs are armed as they are accepted, and stay so (gate.armed)
 * To be found faulty:
 *   -DNO_RESIGN_BUMP   a leader leaves without a word
 *   -DSTAYS -DNO_FOLLOWER_ARM  a follower does not arm its run
 *   -DSTAYS -DNO_PUBLISHED     who collects a run does not tell followers
 *   -DNO_LEADER_LOOK   a follower does not look whether anybody leads
 *   -DDISARM_LATE      the notices are disarmed after the lead was given up
 *   -DSLEEP_ON_FINISHING  the leader sleeps although somebody is collecting
 *   -DSTAYS -DEARLY -DLOOK_ONLY  a run that was accepted after the attempt to arm it
 *       counts as armed
 *   -DSTAYS -DEARLY -DEMPTY -DSLEEP_ON_BUILDING  a follower sleeps on a run that
 *       could not be armed
 *   -DBLOCK -DSTAYS -DEARLY -DLOOK_ONLY  likewise: its notice may be gone by then
 *   -DFALL -DNO_WAKE_ALL  the supervisor does not wake the parent's threads
 */
#define RUNS	2
#define THREADS 3

#define FREE	  0
#define BUILDING  1
#define RUNNING	  2
#define FINISHING 3
byte state[RUNS];
bool done[RUNS];
bool armed[RUNS];

bool leader;
byte followers;
/* The epoch has changed since this thread read it. */
bool moved[THREADS];
bool in_futex[THREADS];
bool pending; /* the parent's park */
bool fallen;  /* no process is left */

/* Not in the code. */
byte outcomes[RUNS];
bool left[THREADS]; /* rpi_plane_await() has returned */

#ifdef STAYS
#define END(label) label:
#else
#define END(label)
#endif

/* The increment and FUTEX_WAKE. */
inline bump_epoch()
{
	d_step {
		moved[0] = true;
		moved[1] = true;
		moved[2] = true;
		in_futex[0] = false;
		in_futex[1] = false;
		in_futex[2] = false
	}
}

/* rpi_frame_take_notice(); the wake-up follows later. */
inline take(run_idx, took)
{
	d_step {
		took = armed[run_idx];
		armed[run_idx] = false
	}
}

inline wake(took)
{
	atomic {
		if
		:: took -> pending = true
		:: else
		fi;
		took = false
	}
}

/* Seize the run and take its notice: nobody arms a run that is not RUNNING here
 * (notice.pml lets that happen late), and a chip that took the notice in between
 * might as well have done so before. */
inline seize(run_idx, took)
{
	state[run_idx] = FINISHING;
	outcomes[run_idx]++;
	assert(outcomes[run_idx] == 1);
	take(run_idx, took)
}

inline publish(run_idx, took)
{
	state[run_idx] = FREE;
#ifndef NO_PUBLISHED
	if
	:: followers -> bump_epoch()
	:: else
	fi;
#endif
	wake(took)
}

/* rpi_run_poll(). Done stays done, so that its look and the seizure are one step. */
#define NOT_YET 0
#define BUSY	1 /* somebody is collecting */
#define SEIZED	2
#define OVER	3
inline poll(run_idx, took, found)
{
	atomic {
		if
		:: state[run_idx] == FREE -> found = OVER
		:: state[run_idx] == FINISHING -> found = BUSY
		:: state[run_idx] == RUNNING && done[run_idx] ->
			seize(run_idx, took);
			found = SEIZED
		:: else -> found = NOT_YET
		fi
	};
	if
	:: found == SEIZED ->
		publish(run_idx, took);
		found = OVER
	:: else
	fi
}

/* rpi_run_finish_fallen() */
inline finish_fallen(run_idx, took)
{
	if
	:: atomic { state[run_idx] == RUNNING -> seize(run_idx, took) };
	   publish(run_idx, took)
	:: else
	fi
}

inline arm(run_idx, told)
{
	atomic {
		if
		:: state[run_idx] == RUNNING ->
#ifndef BLOCK
			armed[run_idx] = true;
#endif
			told = true
		:: else -> told = false
		fi
	}
}

proctype chip(byte run_idx)
{
	bool took;

	/* It may die between any two steps. */
	if
	:: atomic { !fallen -> done[run_idx] = true }
	:: fallen -> goto out
#ifdef STAYS
	:: run_idx == 0 -> goto out
#endif
	fi;
	if
	:: atomic { !fallen -> take(run_idx, took) }
	:: fallen -> goto out
	fi;
	if
	:: atomic { !fallen -> wake(took) }
	:: fallen
	fi;
out:
	atomic { took = false }
}

proctype submitter()
{
	bool took;

#ifdef EMPTY
	done[1] = true;
#elif defined(BLOCK)
	armed[1] = true;
#endif
	state[1] = RUNNING;
	/* check_fallen() */
	if
	:: fallen -> finish_fallen(1, took)
	:: else
	fi
}

proctype supervisor()
{
	bool took;

	fallen = true; /* RPI_FALL_OVER; the fence is frames.pml's matter */
	finish_fallen(0, took);
	finish_fallen(1, took);
#ifndef NO_WAKE_ALL
	bump_epoch();
	pending = true;
#endif
}

/* will_be_told() */
#ifdef LOOK_ONLY
#define WILL_BE_TOLD (state[run_idx] == RUNNING)
#else
#define WILL_BE_TOLD (told && state[run_idx] == RUNNING)
#endif

/* rpi_plane_await(). `late`: the deadline has passed. */
proctype waiter(byte self; byte run_idx; bool timed)
{
	bool late, took;
	bool told; /* the own run is armed, or over */
	byte found;
	byte other = 1 - run_idx;

#ifndef EARLY
	state[run_idx] != BUILDING; /* it has the handle */
#endif
look:
	poll(run_idx, took, found);
	atomic {
		if
		:: found == OVER -> goto out
		:: found != OVER && timed -> goto out
		:: found != OVER -> found = 0
		fi
	};
	if
	:: atomic { !leader -> leader = true }
	:: else -> goto follow
	fi;

	/* wait_as_leader(), without the spin, which only looks more often. */
sleep:
	arm(other, told);
	arm(run_idx, told);
	/* poll_all(), the own one last. */
	poll(other, took, found);
	found = 0;
	poll(run_idx, took, found);
	atomic {
		if
#ifndef SLEEP_ON_FINISHING
		:: found == OVER || (late && found != BUSY && WILL_BE_TOLD) ->
#else
		:: found == OVER || late ->
#endif
			found = 0;
			told = false;
			goto disarm
#ifndef SLEEP_ON_FINISHING
		:: found == BUSY || (found == NOT_YET && !(WILL_BE_TOLD)) ->
			found = 0;
			told = false;
			goto sleep
#endif
		:: else ->
			found = 0;
			told = false
		fi
	};
END(end_park)
	atomic {
		if
		:: pending -> pending = false
		:: timed -> late = true
		fi;
		goto sleep
	};
disarm:
#if !defined(DISARM_LATE) && !defined(BLOCK)
	atomic {
		armed[0] = false;
		armed[1] = false
	};
#endif
	leader = false;
#ifndef NO_RESIGN_BUMP
	if
	:: followers -> bump_epoch()
	:: else
	fi;
#endif
#ifdef DISARM_LATE
	atomic {
		armed[0] = false;
		armed[1] = false
	};
#endif
	goto out;

follow:
	followers++;
	moved[self] = false;
#ifndef NO_FOLLOWER_ARM
	arm(run_idx, told);
#else
	told = true;
#endif
	poll(run_idx, took, found);
	if
#ifndef SLEEP_ON_BUILDING
	:: found != OVER && !(WILL_BE_TOLD) -> skip /* sched_yield() */
	:: found != OVER && WILL_BE_TOLD ->
#else
	:: found != OVER ->
#endif
#ifndef NO_LEADER_LOOK
		if
		:: leader -> skip
		:: else -> goto awake
		fi;
#endif
		/* rpi_futex_wait() */
		atomic { in_futex[self] = !moved[self] };
END(end_futex)
		atomic {
			if
			:: !in_futex[self]
			:: timed ->
				late = true;
				in_futex[self] = false
			fi
		}
	:: else
	fi;
awake:
	atomic {
		followers--;
		moved[self] = true;
		told = false;
		found = 0;
		if
		:: late -> goto out
		:: else -> goto look
		fi
	};
out:
	atomic {
		found = 0;
		told = false;
		late = false;
		left[self] = true
	}
}

init {
	atomic {
		state[0] = RUNNING;
#ifdef BLOCK
		armed[0] = true;
#endif
		moved[0] = true;
		moved[1] = true;
		moved[2] = true;
		state[1] = BUILDING;
		run chip(0);
#ifndef EMPTY
		run chip(1);
#endif
		run submitter();
		run waiter(0, 0, false);
		run waiter(1, 1, false);
#ifdef FALL
		run supervisor()
#elif !defined(EARLY)
		run waiter(2, 1, true)
#endif
	};
	timeout; /* when nobody can do anything any more */
	assert(left[1] && (left[0] || !done[0]));
#if !defined(FALL) && !defined(EARLY)
	assert(left[2])
#endif
}
