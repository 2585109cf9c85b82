/* SPDX-License-Identifier: MIT */
/*
 * E5: two chips end the tasks of a run and tell whoever asked to be told.
 * chip/progress.c, dispatch/wait.c (arm_run, sleep_for_run, disarm_run),
 * dispatch/finish.c, dispatch/frame.c, dispatch/submit.c (accept_run).
 *
 * One frame, used by RUNS runs in turn, so that a chip may come late to run n and
 * find run n + 1. Odd runs have tasks on both chips, even ones on chip 1 only. A
 * thread submits, a leader waits for each run and sleeps, another thread may end
 * a run by polling. The memory is x86-TSO: `fin` is what a chip has stored as its
 * done_seq, `done` what others see. No other plain store is followed by a load
 * that matters before an exchange or a fence, so those act at once.
 *
 * Checked: nobody sleeps for ever, one taker per arming, no wake-up for a run that
 * nobody armed. With ALWAYS: one announcement per run, and not before the run can
 * be collected: a loop that watches the descriptor collects all of them.
 *
 *   -DALWAYS notices are armed at acceptance for the descriptor; a loop reads it
 *   -DBLOCK  notices are armed for the waiter as runs are accepted (gate.armed)
 *   -DNO_LEADER  nobody waits beside that loop (for ALWAYS)
 *   -DNO_LOOKER  nobody looks at runs beside the leader or the loop
 * To be found faulty:
 *   -DNO_FENCE         a chip's look has no fence before it
 *   -DLOOK_FIRST       the leader looks before it arms, not after that
 *   -DCLEAR_LATE       the attention bit goes after the notice was read
 *   -DCLEAR_FOR_GOOD   it is not set again when the other chip is still at work
 *   -DNO_SECOND_LOOK   (with ALWAYS) nobody looks once it is armed at acceptance
 *   -DSLEEP_ON_FINISHING  the leader sleeps although somebody is collecting
 *   -DARM_EARLY        (with ALWAYS) armed before the run counts as running
 */
#ifndef RUNS
#define RUNS 2
#endif
#define CHIPS  2
#define BUFFER 2

/* run->word, in two parts that always change together. */
#define FREE	  0
#define BUILDING  1
#define RUNNING	  2
#define FINISHING 3
byte word_seq;
byte word_state;

/* frame->notice likewise. */
#define ARMED  1
#define WAITER 2
#define FD     4
byte notice_seq;
byte notice;

byte frame_peers; /* bit set */
byte target[CHIPS];
byte published[CHIPS]; /* tasks sent */
byte fin[CHIPS];       /* done_seq as the chip has stored it */
byte done[CHIPS];      /* as others see it */

/* peer->attention; ALWAYS is a compile-time matter here. */
bool attention[CHIPS];

/* The parent's park: sticky, and P2 is doze.pml's matter. */
bool pending;

byte event; /* the descriptor: 1 readable */
byte finished; /* for rp_worker_reap() */

/* Not in the code: what is checked. */
byte outcomes[RUNS + 1];
byte armings[RUNS + 1];
byte takings[RUNS + 1];
byte announced[RUNS + 1];
byte reaped;

#define WHOLE_PEERS(seq) (((seq) & 1) -> 3 : 2)

#define DRAIN(c) done[c] = fin[c]

#ifndef NO_FENCE
#define FENCE(c) DRAIN(c)
#else
#define FENCE(c) skip
#endif

/* RPI_ATTENTION_ALWAYS is set: the other bits decide nothing and are left out. */
#if defined(ALWAYS) || defined(BLOCK)
#define LOOKS_ALWAYS
#define ASK(c) skip
#else
#define ASK(c) attention[c] = true
#endif

/* What a look that happens at one moment finds. */
#define ALL_DONE \
	((!(frame_peers & 1) || done[0] >= target[0]) && \
	 (!(frame_peers & 2) || done[1] >= target[1]))

/* rpi_frame_take_notice(): `got` is 0 when there was nothing to take. */
inline take_notice(seq, got)
{
	atomic {
		if
		:: notice_seq == seq && (notice & ARMED) ->
			got = notice & ~ARMED;
			notice = 0;
			takings[seq]++;
			assert(takings[seq] <= armings[seq])
		:: else -> got = 0
		fi
	}
}

inline announce(seq, got)
{
	if
	:: got & WAITER -> pending = true
	:: else
	fi;
	if
	:: got & FD ->
		atomic {
			event = 1;
			announced[seq]++;
			assert(announced[seq] == 1)
		}
	:: else
	fi
}

/* collect(), by the one that has seized the run. */
inline collect(seq, got)
{
	atomic {
		outcomes[seq]++;
		assert(outcomes[seq] == 1)
	};
#ifdef ALWAYS
	finished++;
#endif
	take_notice(seq, got);
	word_state = FREE; /* and gate_published(): gate.pml's matter */
	announce(seq, got)
}

/* rpi_run_poll(): all done, seize, collect. A look that finds less is no step. */
inline poll(seq, got)
{
	if
	:: word_seq == seq && word_state == RUNNING && ALL_DONE ->
		if
		:: atomic {
			word_seq == seq && word_state == RUNNING ->
			word_state = FINISHING
		   };
		   collect(seq, got)
		:: else
		fi
	:: else
	fi
}

#define OVER(seq) (word_seq > (seq) || (word_seq == (seq) && word_state == FREE))

/* rpi_run_enqueue() and accept_run(). */
active proctype submitter()
{
	byte seq = 1;
	byte got;

	do
	:: seq <= RUNS ->
		/* take_frame() */
		word_state == FREE;
		atomic {
			word_seq = seq;
			word_state = BUILDING
		};
		if
		:: WHOLE_PEERS(seq) & 1 -> published[0]++
		:: else
		fi;
		published[1]++;
		frame_peers = WHOLE_PEERS(seq);
		if
		:: WHOLE_PEERS(seq) & 1 -> target[0] = published[0]
		:: else
		fi;
		target[1] = published[1];
#ifdef ARM_EARLY
		atomic {
			notice_seq = seq;
			notice = ARMED | FD;
			armings[seq]++
		};
		word_state = RUNNING;
		poll(seq, got);
#else
		atomic {
			notice_seq = seq;
#ifdef BLOCK
			armings[seq]++;
			notice = ARMED | WAITER
#else
			notice = 0
#endif
		};
		word_state = RUNNING;
#ifdef ALWAYS
		/* Armed only now: whoever is told of the end can collect it. */
		atomic {
			if
			:: !(notice & ARMED) -> armings[seq]++
			:: else
			fi;
			notice = notice | ARMED | FD
		};
#ifndef NO_SECOND_LOOK
		/* The tasks may all have ended before the notice was armed, and
		 * somebody may have collected the run before that. */
		poll(seq, got);
		!(word_seq == seq && word_state == FINISHING);
		if
		:: word_state == FREE ->
			take_notice(seq, got);
			announce(seq, got)
		:: else
		fi;
#endif
#endif
#endif
		seq++
	:: else -> break
	od
}

/* rpi_server_publish() and look_at_notices(). */
proctype chip(byte self)
{
	byte seen_seq, seen;
	byte peers;
	bool all;
	byte got;
	byte idx;

end:
	do
	:: atomic {
		published[self] > fin[self] && fin[self] - done[self] < BUFFER ->
		fin[self]++
	   };
	   FENCE(self);
#ifndef LOOKS_ALWAYS
	   if
	   :: attention[self] ->
#endif
#if !defined(LOOKS_ALWAYS) && !defined(CLEAR_LATE)
		atomic {
			DRAIN(self);
			attention[self] = false
		};
#endif
		atomic {
			seen_seq = notice_seq;
			seen = notice
		};
#ifdef CLEAR_LATE
		atomic {
			DRAIN(self);
			attention[self] = false
		};
#endif
		if
		:: seen & ARMED ->
			/* rpi_frame_all_done(), one load after the other: the frame may
			 * be in the hands of the next submit. */
			peers = frame_peers;
			all = true;
			idx = 0;
			do
			:: idx < CHIPS && (peers & (1 << idx)) ->
				got = done[idx];
				if
				:: got < target[idx] ->
					all = false;
					break
				:: else -> idx++
				fi
			:: idx < CHIPS && !(peers & (1 << idx)) -> idx++
			:: idx == CHIPS -> break
			od;
			if
			:: all ->
				take_notice(seen_seq, got);
				announce(seen_seq, got)
			:: else ->
#if !defined(CLEAR_FOR_GOOD) && !defined(LOOKS_ALWAYS)
				attention[self] = true
#else
				skip
#endif
			fi
		:: else
		fi;
#ifndef LOOKS_ALWAYS
	   :: else
	   fi;
#endif
	   atomic {
		seen_seq = 0;
		seen = 0;
		peers = 0;
		all = false;
		got = 0;
		idx = 0
	   }
	od
}

proctype drain_buffers()
{
end:
	do
	:: atomic { done[0] < fin[0] -> done[0]++ }
	:: atomic { done[1] < fin[1] -> done[1]++ }
	od
}

/* poll_all() and rpi_run_poll() */
inline look(seen_seq, left, got)
{
	atomic {
		seen_seq = word_seq;
		left = 0
	};
	poll(seen_seq, got);
	atomic {
		seen_seq = 0;
		got = 0
	}
}

/* sleep_for_run() with arm_run(), then disarm_run(): for each run in turn. */
proctype leader()
{
	byte seq = 1;
	byte seen_seq, left;
	byte got;

	do
	:: seq <= RUNS ->
		/* It has the handle. */
		word_seq > seq || (word_seq == seq && word_state != BUILDING);
again:
#ifdef LOOK_FIRST
		look(seen_seq, left, got);
#endif
#ifndef BLOCK
		/* Arms what the frame carries, which need not be `run` any more. */
		atomic {
			seen_seq = word_seq;
			left = 0;
			if
			:: word_state == RUNNING -> left = WHOLE_PEERS(word_seq)
			:: else
			fi
		};
		if
		:: left ->
			atomic {
				if
				:: notice_seq == seen_seq ->
					if
					:: !(notice & ARMED) -> armings[seen_seq]++
					:: else
					fi;
					notice = notice | ARMED | WAITER
				:: else -> left = 0
				fi
			};
			if
			:: left & 1 -> ASK(0)
			:: else
			fi;
			if
			:: left & 2 -> ASK(1)
			:: else
			fi
		:: else
		fi;
#endif
		/* Its fence: all that it stored acts at once here. */
#ifndef LOOK_FIRST
		look(seen_seq, left, got);
#endif
		if
		:: OVER(seq) -> goto out
#ifndef SLEEP_ON_FINISHING
		:: word_seq == seq && word_state == FINISHING -> goto again
#endif
		:: else
		fi;
		atomic {
			pending -> /* rpi_park_sleep() */
			pending = false;
			seen_seq = 0;
			got = 0
		};
		goto again;
out:
		/* disarm_run() */
		atomic {
#ifndef BLOCK
			if
			:: notice & WAITER ->
				notice = notice & ~WAITER;
				if
				:: !(notice & FD) && (notice & ARMED) ->
					armings[notice_seq]--;
					notice = 0
				:: else
				fi
			:: else
			fi;
#endif
			seen_seq = 0;
			got = 0
		};
		seq++
	:: else -> break
	od
}

/* A thread that looks at a run now and then: rp_handle_done(), a quick wait. */
proctype looker()
{
	byte seq = 1;
	byte got;

	do
	:: seq <= RUNS ->
		if
		:: word_seq == seq && word_state == RUNNING && ALL_DONE ->
			poll(seq, got)
		:: word_seq >= seq -> skip /* or not at all */
		fi;
		seq++
	:: else -> break
	od
}

/* rp_worker_reap() whenever the descriptor is readable. */
proctype loop()
{
	byte seen_seq;
	byte got;

	do
	:: reaped < RUNS ->
		event == 1;
		event = 0;
		/* collect_ended() */
		seen_seq = word_seq;
		poll(seen_seq, got);
		!(word_seq == seen_seq && word_state == FINISHING);
		atomic {
			reaped = reaped + finished;
			finished = 0;
			seen_seq = 0;
			got = 0
		}
	:: else -> break
	od
}

init {
	byte seen;

	atomic {
		run chip(0);
		run chip(1);
		run drain_buffers();
#ifndef NO_LEADER
		run leader();
#endif
#ifndef NO_LOOKER
		run looker();
#endif
#ifdef ALWAYS
		run loop()
#endif
	};
	timeout; /* when nobody can do anything any more */
	seen = 1;
	do
	:: seen <= RUNS ->
		assert(outcomes[seen] == 1);
#ifdef ALWAYS
		assert(announced[seen] == 1);
#endif
		seen++
	:: else -> break
	od
}
