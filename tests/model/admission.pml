/* SPDX-License-Identifier: MIT */
/*
 * A1, A2: one thread builds, the others queue and are handed the place.
 * dispatch/admission.c. The queue is ring/burst.h with several producers: a place
 * is reserved and later published, in order.
 *
 * x86-TSO where it matters: leaving is a plain store of 0 to `taken` and then a
 * look at the queue, arriving is a plain store of the queue's tail and then a try
 * at `taken`. Both lie in a buffer until a fence or an exchange drains it.
 *
 * Checked: one thread inside, each ticket granted once, nobody sleeps for ever.
 *
 * To be found faulty:
 *   -DNO_LEAVE_FENCE   the owner looks at the queue without a fence
 *   -DNO_LEAVE_LOOK    it does not look again after it gave the place up
 *   -DNO_ARRIVE_TRY    who has queued does not try the place again
 *
 * The arriving fence has no control here: the try is an exchange, which drains the
 * tail on x86 with or without it.
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef TURNS
#define TURNS 2
#endif

#define WAITS	0
#define SLEEPS	1
#define GRANTED 2

bool taken;
bool leaving; /* somebody's store of 0 is in its buffer */
byte leaver;

/* The ring: reserved up to head, published up to tail, popped up to front. It is
 * as long as there are threads. */
byte ring[THREADS];
byte head, tail, front;
byte count_reserved, count_published;

byte ticket[THREADS];
bool in_futex[THREADS];

/* Not in the code. */
byte inside;

#define NEXT(at) (((at) + 1) % THREADS)

inline drain(self)
{
	if
	:: leaving && leaver == self ->
		leaving = false;
		taken = false
	:: else
	fi
}

/* Own stores are seen by own loads. */
inline try_take(self, got)
{
	atomic {
		drain(self);
		got = !taken;
		taken = true
	}
}

inline leave(self, got, oldest)
{
	do
	:: true ->
		/* hand_on() */
		if
		:: atomic {
			count_published ->
			oldest = ring[front];
			front = NEXT(front);
			count_published--;
			count_reserved--
		   };
		   atomic {
			assert(ticket[oldest] != GRANTED);
			got = (ticket[oldest] == SLEEPS);
			ticket[oldest] = GRANTED
		   };
		   if
		   :: got -> in_futex[oldest] = false
		   :: else
		   fi;
		   break
		:: else
		fi;
		/* The buffer has one entry: an older one is gone, it was followed by
		 * an exchange of another thread. */
		atomic {
			assert(!leaving);
			leaving = true;
			leaver = self
		};
#ifndef NO_LEAVE_FENCE
		atomic { drain(self) };
#endif
#ifdef NO_LEAVE_LOOK
		break;
#endif
		if
		:: !count_published -> break
		:: else
		fi;
		try_take(self, got);
		if
		:: !got -> break
		:: else
		fi
	od;
	got = false;
	oldest = 0
}

proctype thread(byte self)
{
	byte turn, oldest, place;
	bool got;

	do
	:: turn < TURNS ->
		try_take(self, got);
		if
		:: got -> goto in
		:: else
		fi;
		ticket[self] = WAITS;
		/* rpi_burst_push(): reserve, write, publish after the earlier ones. */
		atomic {
			assert(count_reserved < THREADS);
			place = head;
			head = NEXT(head);
			count_reserved++
		};
		ring[place] = self;
		atomic {
			tail == place ->
			tail = NEXT(tail);
			count_published++;
			place = 0
		};
#ifndef NO_ARRIVE_TRY
		try_take(self, got);
		if
		:: got -> leave(self, got, oldest)
		:: else
		fi;
#endif
		/* await_grant(): a few looks, which are no step, then sleep. */
		atomic {
			if
			:: ticket[self] == GRANTED -> goto in
			:: ticket[self] == WAITS -> ticket[self] = SLEEPS
			fi
		};
		do
		:: ticket[self] == GRANTED -> break
		:: else ->
			atomic {
				in_futex[self] = (ticket[self] == SLEEPS)
			};
			!in_futex[self]
		od;
in:
		atomic {
			got = false;
			inside++;
			assert(inside == 1)
		};
		atomic {
			assert(taken);
			inside--;
			turn++
		};
		leave(self, got, oldest)
	:: else -> break
	od;
	/* A thread that sleeps or goes drains its buffer. */
	atomic { drain(self) }
}

active proctype drain_buffers()
{
end:
	do
	:: atomic { leaving -> leaving = false; taken = false }
	od
}

init {
	byte idx;

	atomic {
		do
		:: idx < THREADS -> run thread(idx); idx++
		:: else -> break
		od
	}
}
