/* SPDX-License-Identifier: MIT */
/*
 * The life of the two frames: dispatch/submit.c, dispatch/finish.c,
 * dispatch/frame.c, control/worker/close.c (drain_runs, do_close) and
 * control/worker/supervisor.c (fall, let_go, watch).
 *
 * Two threads submit and wait, one thread closes at any time. Each run has one
 * task; the first one's fails in the process, and the last of thread 1 is failed
 * by its orchestration after the task was sent. Waiting is a block until the run
 * is over or can be collected (how that is told is notice.pml and gate.pml), and
 * admission is a lock (admission.pml).
 *
 * x86-TSO where it matters: a submitter stores RUNNING and then looks at `fall`;
 * `unseen` says that this store is still in its buffer.
 *
 * Checked: a frame is begun only when it is free and admission is held, each
 * outcome is collected once and is the right one, nobody hangs, nothing is begun
 * after the worker was closed, and then both frames are free.
 *
 *   -DFALL      the process may die at any moment
 *   -DDEADLINE  close may run out of time, and then kills; best with TURNS0 1
 *   -DTURNS0, -DTURNS1  runs of the two threads, 2 and 1
 * To be found faulty:
 *   -DFALL -DNO_FENCE         the submitter looks at `fall` without a fence
 *   -DFALL -DNO_FALLEN_LOOK   the submitter does not look at `fall`
 *   -DNO_SECOND_LOOK	       nor at `closing` once it is admitted
 *   -DNO_SEIZURE	       runs are collected by whoever sees them done
 *   -DCLOSE_PAST_ADMITTED     close does not wait for a thread that was admitted
 *			       and has no run yet
 */
#ifndef TURNS0
#define TURNS0 2
#endif
#ifndef TURNS1
#define TURNS1 1
#endif
#define RUNS (TURNS0 + TURNS1)

#define FREE	  0
#define BUILDING  1
#define RUNNING	  2
#define FINISHING 3
byte state[2];
byte seq_of[2];
bool unseen[2];
byte target[2];
byte cancelled_run[2], failed_run[2];

byte next_seq = 1;
bool taken; /* admission */
bool closing;

#define NONE	0
#define STARTED 1
#define DONE	2
byte fall;

/* The lane: task n belongs to run n, as each run has one. */
byte published, done;
byte frame_of[RUNS + 1];
bool stop;
bool dead; /* no process is left, or it touches nothing any more */

#define STOP 1
#define KILL 2
byte order;
bool rung;
bool joined;

/* Outcomes. */
#define SUCCESS 1
#define FAILED	2
#define FALLEN	3
byte outcome[RUNS + 1];

/* Not in the code. */
bool executed[RUNS + 1];
byte abandoned; /* the run that its orchestration failed */
bool closed;

#define DRAIN(f)                                \
	atomic {                                \
		if                              \
		:: unseen[f] ->                 \
			unseen[f] = false;      \
			state[f] = RUNNING      \
		:: else                         \
		fi                              \
	}

#ifndef NO_FENCE
#define FENCE(f) DRAIN(f)
#else
#define FENCE(f) skip
#endif

#define OVER(f, seq) (seq_of[f] != (seq) || state[f] == FREE)
#define ENDED(f, seq)                                               \
	(seq_of[f] == (seq) && state[f] == RUNNING && done >= target[f])

/* The seizure and the outcome, which nobody sees before the frame is free. */
#ifdef NO_SEIZURE
#define SEIZE(f) skip
#else
#define SEIZE(f) state[f] = FINISHING
#endif
inline seize(f, fell)
{
	SEIZE(f);
	assert(seq_of[f] != 0);
	assert(outcome[seq_of[f]] == 0);
	if
	:: fell -> outcome[seq_of[f]] = FALLEN
	:: !fell && cancelled_run[f] == seq_of[f] ->
		assert(failed_run[f] == seq_of[f]); /* or -EPROTO */
		assert(seq_of[f] == 1 || seq_of[f] == abandoned);
		outcome[seq_of[f]] = FAILED
	:: else ->
		assert(executed[seq_of[f]]);
		assert(seq_of[f] != abandoned);
		outcome[seq_of[f]] = SUCCESS
	fi
}

/* rpi_plane_await() */
inline await(f, seq)
{
	if
	:: atomic { ENDED(f, seq) -> seize(f, false) };
	   state[f] = FREE
	:: OVER(f, seq) -> skip
	fi
}

/* Its look at the tasks comes before the one at the word. */
inline finish_fallen(f, seen)
{
	seen = seq_of[f];
	if
	:: atomic { ENDED(f, seen) -> seize(f, false) };
	   state[f] = FREE
	:: else ->
		if
		:: atomic {
			state[f] == RUNNING && seq_of[f] == seen ->
			seize(f, true)
		   };
		   state[f] = FREE
		:: else
		fi
	fi;
	seen = 0
}

proctype submitter(byte self; byte turns)
{
	byte turn, f, seq;
	byte mine_f[2], mine_seq[2];
	byte seen;

	do
	:: turn < turns ->
		if
		:: closing || fall != NONE -> break
		:: else
		fi;
		atomic { !taken -> taken = true };
#ifndef NO_SECOND_LOOK
		if
		:: closing || fall != NONE -> goto leave
		:: else
		fi;
#endif
		/* take_frame() */
		do
		:: state[0] == FREE -> f = 0; break
		:: state[1] == FREE -> f = 1; break
		:: atomic {
			state[0] != FREE && state[1] != FREE ->
			f = (seq_of[0] < seq_of[1] -> 0 : 1);
			seq = seq_of[f]
		   };
		   await(f, seq);
		   if
		   :: closing || fall != NONE -> goto leave
		   :: else
		   fi
		od;
		/* begin() */
		atomic {
			assert(taken);
			assert(state[f] == FREE && !unseen[f]);
			assert(!closed);
			seq = next_seq;
			next_seq++;
			seq_of[f] = seq;
			state[f] = BUILDING;
			frame_of[seq] = f
		};
		published = seq;
		if
		:: self == 1 && turn == turns - 1 ->
			/* abandon(): rpi_run_cancel() */
			atomic {
				abandoned = seq;
				if
				:: cancelled_run[f] != seq ->
					cancelled_run[f] = seq;
					failed_run[f] = seq /* its text: E6 */
				:: else
				fi
			}
		:: else
		fi;
		/* accept_run() */
		atomic {
			target[f] = seq;
			unseen[f] = true
		};
		/* check_fallen() */
		FENCE(f);
#ifndef NO_FALLEN_LOOK
		if
		:: fall == NONE
		:: else ->
			fall == DONE;
			DRAIN(f);
			finish_fallen(f, seen)
		fi;
#endif
		/* The next exchange or fence: in await() or in leaving. */
		DRAIN(f);
		if
		:: seq == abandoned -> await(f, seq)
		:: atomic {
			seq != abandoned ->
			mine_f[turn] = f;
			mine_seq[turn] = seq
		   }
		fi;
		turn++;
leave:
		atomic {
			taken = false;
			f = 0;
			seq = 0
		}
	:: else -> break
	od;
	/* Wait for what was accepted. */
	turn = 0;
	do
	:: turn < 2 && mine_seq[turn] ->
		f = mine_f[turn];
		seq = mine_seq[turn];
		await(f, seq);
		atomic {
			assert(outcome[seq]);
			mine_f[turn] = 0;
			mine_seq[turn] = 0;
			f = 0;
			seq = 0;
			turn++
		}
	:: else -> break
	od
}

active proctype chip()
{
	byte task, f;

	do
	:: dead -> break
	:: !dead && done < published ->
		task = done + 1;
		f = frame_of[task];
		if
		:: dead -> break
		:: !dead && cancelled_run[f] == task -> skip
		:: !dead && cancelled_run[f] != task ->
			atomic {
				executed[task] = true;
				if
				:: task == 1 && cancelled_run[f] != task ->
					cancelled_run[f] = task
				:: else -> goto end_task
				fi
			};
			if
			:: dead -> break
			:: atomic { !dead -> failed_run[f] = task } /* E6 */
			fi
		fi;
end_task:
		if
		:: dead -> break
		:: atomic { !dead -> done = task; task = 0; f = 0 }
		fi
	:: !dead && done == published && stop -> break
	od
}

inline fall_down()
{
	fall = STARTED;
	dead = true;
	fall = DONE;
	finish_fallen(0, seen);
	finish_fallen(1, seen)
}

active proctype supervisor()
{
	byte seen;

	do
	:: rung ->
		rung = false;
		if
		:: order == STOP ->
			/* let_go(): a task that waits for another one's does not go on
			 * waiting when it is told to stop, so none may be there. */
			assert(state[0] == FREE && state[1] == FREE);
			stop = true;
			break
		:: order == KILL ->
			if
			:: fall == NONE -> fall_down()
			:: else
			fi;
			break
		fi
#ifdef FALL
	:: fall == NONE ->
		dead = true; /* a process died */
		fall_down()
#endif
	od;
	joined = true
}

active proctype drain_buffers()
{
end:
	do
	:: atomic { unseen[0] -> unseen[0] = false; state[0] = RUNNING }
	:: atomic { unseen[1] -> unseen[1] = false; state[1] = RUNNING }
	od
}

/* drain_runs(): the words are read one after the other. */
inline drain_runs(may_be_late)
{
	do
	:: true ->
#ifndef CLOSE_PAST_ADMITTED
		inside = taken;
#endif
		word0 = (state[0] == FREE -> 0 : seq_of[0]);
		word1 = (state[1] == FREE -> 0 : seq_of[1]);
		if
		:: !word0 && !word1 && !inside -> break
		:: !word0 && !word1 && inside ->
			/* A moment later: until something has changed. */
			(!taken || state[0] != FREE || state[1] != FREE)
		:: else ->
			atomic {
				f = (word0 && (!word1 || word0 < word1) -> 0 : 1);
				seq = (f == 0 -> word0 : word1)
			};
			if
			:: state[f] != BUILDING || seq_of[f] != seq -> await(f, seq)
#ifdef DEADLINE
			:: may_be_late -> late = true; break
#endif
			fi
		fi
	od;
	f = 0;
	seq = 0;
	word0 = 0;
	word1 = 0;
	inside = false
}

active proctype closer()
{
	byte f, seq, word0, word1;
	bool inside, late;

	closing = true;
	drain_runs(true);
	if
	:: late ->
		order = KILL;
		rung = true;
		drain_runs(false)
	:: else
	fi;
	atomic { !taken -> taken = true };
	taken = false;
	order = STOP;
	rung = true;
	joined;
	atomic {
		closed = true;
		assert(state[0] == FREE && state[1] == FREE);
		assert(!unseen[0] && !unseen[1])
	}
}

init {
	atomic {
		run submitter(0, TURNS0);
		run submitter(1, TURNS1)
	}
}
