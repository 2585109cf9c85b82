/* SPDX-License-Identifier: MIT */
/*
 * A process waits for a task of another one: await_dep() in chip/task.c,
 * rpi_server_doze() in chip/doze.c, tell_peers() in chip/progress.c.
 *
 * The peer ends TASKS tasks, the sleeper needs the last of them: so it can be told
 * of ends that do not help it yet. x86-TSO: `fin` is what the peer has stored as
 * its done_seq, `done` what others see. Also somebody rouses everybody, once or
 * never, as after a cancelled run of another frame.
 *
 * Checked: the sleeper does not sleep for ever.
 *
 * To be found faulty:
 *   -DNO_FENCE        the peer has no fence before it looks at `attention`
 *   -DREGISTER_FIRST  the peer is asked to tell before the doze is announced
 */
#ifndef TASKS
#define TASKS 3
#endif
#define BUFFER 2

byte fin, done;
bool dozing;	 /* the sleeper's */
bool waiters;	 /* the peer's dep_waiters */
bool attention; /* the peer's */
bool pending;	 /* the sleeper's park; P2 is doze.pml's matter */

#ifndef NO_FENCE
#define FENCE done = fin
#else
#define FENCE skip
#endif

inline rouse_sleeper(took)
{
	atomic {
		took = dozing;
		dozing = false
	};
	if
	:: took -> pending = true
	:: else
	fi
}

/* dep_waiters first: attention leads there. */
inline register_here()
{
	waiters = true;
	attention = true
}

active proctype peer()
{
	bool took;

	do
	:: fin < TASKS ->
		atomic { fin - done < BUFFER -> fin++ };
		FENCE;
		if
		:: attention ->
			/* tell_peers() */
			atomic {
				done = fin;
				attention = false
			};
			atomic {
				took = waiters;
				waiters = false
			};
			if
			:: took -> rouse_sleeper(took)
			:: else
			fi
		:: else
		fi
	:: else -> break
	od
}

active proctype other()
{
	bool took;

	if
	:: true -> rouse_sleeper(took)
	:: true
	fi
}

active proctype drain_buffers()
{
end:
	do
	:: atomic { done < fin -> done++ }
	od
}

active proctype sleeper()
{
	do
	:: done == TASKS -> break
	:: else ->
#ifdef REGISTER_FIRST
		register_here();
		dozing = true;
#else
		dozing = true;
		register_here();
#endif
		/* Its fence: all that it stored acts at once here. */
		if
		:: done == TASKS ->
			if
			:: !dozing -> pending = false
			:: else
			fi
		:: else ->
			atomic { pending -> pending = false }
		fi;
		dozing = false
	od
}
