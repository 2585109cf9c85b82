#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A server of docs/examples under load and among clients that mean no good: it answers,
# keeps deadlines, survives the death of its chip, and goes when it is told to.
#
# Nothing here depends on how fast the machine is. What must be in flight when something
# happens is held there by a chip that is stopped.
#
# server.sh SERVER LOAD_GENERATOR HOSTILE
set -euo pipefail

server=$1 load=$2 hostile=$3
# 256 clients are to have a descriptor each, in the server and in what asks it.
[ "$(ulimit -S -n)" = unlimited ] || [ "$(ulimit -S -n)" -ge 1024 ] || ulimit -S -n 1024 ||
	{ echo "skipped: needs 1024 descriptors (ulimit -n)"; exit 77; }
# What a caller leaves open would count among the server's descriptors. 255 is this script.
for fd in $(ls /proc/$BASHPID/fd); do
	[ "$fd" -le 2 ] || [ "$fd" -eq 255 ] || eval "exec $fd>&-"
done

# Not where TMPDIR says: the path of a socket has 107 characters at most.
dir=$(mktemp -d /tmp/ringplane-server-XXXXXX)
socket=$dir/socket
pid=
other=
clean_up()
{
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	[ -z "$other" ] || kill -KILL "$other" 2>/dev/null || true
	rm -rf "$dir"
}
trap clean_up EXIT

fail()
{
	echo "$(basename "$server"): $*"
	cat "$dir"/*.log 2>/dev/null || true
	exit 1
}

# The server's chip: the only child of its threads, which come and go.
chip_of()
{
	cat "/proc/$pid/task/"*/children 2>/dev/null | tr -d ' ' || true
}

# "" when there is no such process.
state_of()
{
	sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null || true
}

asleep() { [[ $(state_of "$1") != [RD] ]]; }
stopped() { [[ $(state_of "$1") == T ]]; }
gone() { [[ $(state_of "$1") == @(|Z) ]]; }

# field NAME FILE: the number in front of a word of the load generator's first line.
field()
{
	grep -m 1 'served,' "$2" | grep -oE "[0-9]+ $1" | cut -d ' ' -f 1
}

await()
{
	for _ in $(seq 400); do
		"$@" && return
		sleep 0.05
	done
	fail "no '$*' for 20 s"
}

# The kernel's list has the flag of a socket that listens, and the state of one that was
# accepted, before its path.
# One that a server had which has just ended may still be in the list: it must be $pid's.
listening()
{
	local inode
	for inode in $(grep "00010000 0005 .* $socket\$" /proc/net/unix |
		tr -s ' ' | cut -d ' ' -f 7); do
		[ -z "$(find "/proc/$pid/fd" -lname "socket:\[$inode\]" 2>/dev/null)" ] ||
			return 0
	done
	return 1
}
connected() { [ "$(grep -c " 0005 03 .* $socket\$" /proc/net/unix)" -eq "$1" ]; }
answers() { "$load" --socket "$socket" --clients 1 --seconds 0.1 >/dev/null 2>&1; }

# Another chip than $first, which is then $now.
another()
{
	now=$(chip_of)
	[ -n "$now" ] && [ "$now" != "$first" ]
}
listens_or_ended() { gone "$pid" || listening; }

start()
{
	local status=0
	"$server" --socket "$socket" 2>"$dir/server.log" &
	pid=$!
	await listens_or_ended
	gone "$pid" || return 0
	wait "$pid" || status=$?
	pid=
	if [ "$status" -eq 77 ]; then
		echo "skipped: $(cat "$dir/server.log")"
		exit 77
	fi
	fail "it ended with $status"
}

# stop [CHIP]: SIGTERM, to the chip as well if one is given, ends it with 0, and nothing
# is left.
stop()
{
	local chip status=0
	chip=$(chip_of)
	kill -TERM "$pid" "$@"
	wait "$pid" || status=$?
	pid=
	[ "$status" -eq 0 ] || fail "SIGTERM: it ended with $status"
	[ ! -e "$socket" ] || fail "its socket is left behind"
	gone "$chip" || fail "its chip $chip is left behind"
}

# refuses STATUS ARGUMENT...: the server ends with it, and says a line.
refuses()
{
	local status=0 want=$1
	shift
	timeout 60 "$server" "$@" 2>"$dir/refused.log" || status=$?
	[ "$status" -eq "$want" ] || fail "'$*' ended with $status, expected $want"
	grep -q "^$(basename "$server"): " "$dir/refused.log" || fail "'$*' says nothing"
}

# load_stopped CLIENTS: a load whose first requests have all been read by the server and
# can't be answered. The load is $other, its output load.log, the chip $first.
load_stopped()
{
	# Once a later one is served, the chip is done with those that were given up.
	answers || fail "nothing is served"
	await connected 0
	first=$(chip_of)
	kill -STOP "$first"
	await stopped "$first"
	"$load" --socket "$socket" --clients "$1" --seconds 0.3 >"$dir/load.log" 2>&1 &
	other=$!
	await connected "$1"
	await asleep "$other"
	await asleep "$pid"
}

# load_ended NAME: each of its requests has been answered, and $lost is how many with an
# error.
load_ended()
{
	local status=0
	wait "$other" || status=$?
	other=
	[ "$status" -eq 0 ] || fail "$1: the load generator ended with $status"
	lost=$(field failed "$dir/load.log")
}

# loses_two NAME COMMAND...: what the command does to the stopped chip costs both requests
# that were in flight, and brings another chip. A machine that is suspended meanwhile may
# let go of the chip before: then that is tried again.
loses_two()
{
	local name=$1
	shift
	for _ in 1 2 3 4 5; do
		load_stopped 8
		"$@"
		load_ended "$name"
		[ "$lost" -le 2 ] || break
		[ "$lost" -eq 2 ] || continue
		another || fail "$name: the same chip"
		return 0
	done
	fail "$name: $lost failed, expected 2"
}

start
"$load" --socket "$socket" --clients 8 --seconds 1 >"$dir/plain.log" ||
	fail "plain: the load generator ended with $?"
[ "$(field served "$dir/plain.log")" -gt 0 ] || fail "plain: nothing was served"
[ "$(field 'timed out' "$dir/plain.log")" -eq 0 ] || fail "plain: something timed out"
[ "$(field failed "$dir/plain.log")" -eq 0 ] || fail "plain: something failed"
grep -q 'p99.9' "$dir/plain.log" && grep -q '#' "$dir/plain.log" || fail "no histogram"

# More clients than frames, with less time than the queue takes.
"$load" --socket "$socket" --clients 16 --seconds 1 --work-us 20000 \
	--deadline-us 60000 >"$dir/late.log" || fail "late: it ended with $?"
[ "$(field 'timed out' "$dir/late.log")" -gt 0 ] || fail "late: nothing timed out"
[ "$(field failed "$dir/late.log")" -eq 0 ] || fail "late: something failed"
# None can be in time: each takes longer than it has.
"$load" --socket "$dir/socket" --clients 2 --seconds 1 --work-us 1000 \
	--deadline-us 500 >"$dir/never.log" || fail "never: it ended with $?"
[ "$(field 'timed out' "$dir/never.log")" -gt 0 ] || fail "never: nothing timed out"
[ "$(field served "$dir/never.log")" -eq 0 ] || fail "never: a late one was served"

# Its chip killed in the middle: what was in flight fails, the rest is served. If all of
# this took too long, the server has done it.
kill_first() { kill -KILL "$first" 2>/dev/null || true; }
loses_two killed kill_first
grep -q 'prepared anew' "$dir/server.log" || fail "killed: it does not say so"

# One that is stuck: the server ends it.
loses_two stuck true
grep -q 'for too long' "$dir/server.log" || fail "stuck: it does not say so"

# And killed while it is idle.
first=$(chip_of)
kill -KILL "$first"
await another
"$load" --socket "$socket" --clients 2 --seconds 0.3 >"$dir/idle.log" ||
	fail "idle: the load generator ended with $?"
[ "$(field failed "$dir/idle.log")" -eq 0 ] || fail "idle: something failed"

# Clients that go without a word, and those that mean no good.
await connected 0
"$load" --socket "$socket" --clients 8 --seconds 100 --work-us 5000 >/dev/null 2>&1 &
other=$!
await connected 8
kill -KILL "$other"
wait "$other" 2>/dev/null || true
for how in gone garbage huge; do
	"$hostile" $how "$socket" || fail "$how"
done
await connected 0
stop
restarts=$(grep -c 'prepared anew' "$dir/server.log")
grep -Eq "served, .* $restarts restarts" "$dir/server.log" || fail "its last line"

# More clients than it has places: who is in is served, and so is who comes after them.
start
"$hostile" crowd "$socket" &
other=$!
await connected 256
kill -KILL "$other"
wait "$other" 2>/dev/null || true
await connected 0
answers || fail "nothing after the crowd"

# More than it has descriptors: it waits for one, and does not run in circles.
await connected 0
ticks() { cut -d ' ' -f 14,15 "/proc/$pid/stat" | tr ' ' '+'; }
highest=$(ls "/proc/$pid/fd" | sort -n | tail -n 1)
prlimit --pid "$pid" --nofile=$((highest + 5)):
"$hostile" crowd "$socket" &
other=$!
some_connected() { ! connected 0; }
await some_connected
before=$(ticks)
sleep 1
! connected 256 || fail "its limit of descriptors is none"
[ $(($(ticks) - (before))) -lt 50 ] || fail "it spins without a descriptor"
kill -KILL "$other"
wait "$other" 2>/dev/null || true
await connected 0
answers || fail "nothing after the descriptors ran out"

# Clients that read none of their answers are no burden for others, nor for the end. Here
# there are still fewer descriptors than such clients.
"$hostile" deaf "$socket" >"$dir/deaf.log" &
other=$!
await grep -q deaf "$dir/deaf.log"
answers || fail "nothing beside the deaf"
stop
kill -KILL "$other"
wait "$other" 2>/dev/null || true

# One chip after the other killed, each once the server has answered again, and some as
# they start.
start
"$load" --socket "$socket" --clients 8 --seconds 2 --work-us 1000 >"$dir/row.log" &
other=$!
first=
for _ in $(seq 20); do
	answers || fail "row: nothing is served"
	await another
	first=$now
	kill -KILL "$first"
done
wait "$other" || fail "row: the load generator ended with $?"
other=
[ "$(field failed "$dir/row.log")" -le 40 ] || fail "row: more failed than were in flight"
for _ in 1 2 3 4 5; do
	until another; do
		! gone "$pid" || fail "row: it ended: $(cat "$dir/server.log")"
	done
	first=$now
	kill -KILL "$first"
done
await answers

# Told to go in the middle of work: what has been asked is answered.
load_stopped 4
stop
load_ended told

# As a service manager does it, which tells the chip as well.
start
"$load" --socket "$socket" --clients 4 --seconds 100 --work-us 1000 \
	>"$dir/gone.log" 2>&1 &
other=$!
await connected 4
stop "$(chip_of)"
wait "$other" 2>/dev/null || true
other=
! grep -q 'wrong answer' "$dir/gone.log" || fail "a wrong answer at the end"

# Killed itself, its chip goes with it. The socket that is left is no obstacle, that of a
# live server is.
start
load_stopped 4
kill -KILL "$pid"
wait "$pid" 2>/dev/null || true
wait "$other" 2>/dev/null || true
pid=
other=
await gone "$first"
[ -S "$socket" ] || fail "no socket of a killed server"
start
refuses 1 --socket "$socket"
answers || fail "the first server is gone"
stop

# Other things at its path are somebody's.
echo precious >"$dir/file"
refuses 1 --socket "$dir/file"
[ "$(cat "$dir/file")" = precious ] || fail "it took a file for a socket"
refuses 1 --socket "$dir"
refuses 1 --socket "$dir/missing/socket"
refuses 1 --socket "$dir/$(printf '%0108d' 0)"
refuses 1 --socket ""
refuses 2
refuses 2 --socket "$socket" more
refuses 2 --sockets "$socket"
for wrong in '--clients 0' '--clients 257' '--seconds 0' '--seconds inf' '--work-us -1' \
	'--work-us 1000001' '--deadline-us -1' '--more' 'more'; do
	status=0
	"$load" --socket "$socket" $wrong >/dev/null 2>&1 || status=$?
	[ "$status" -eq 2 ] || fail "load generator, $wrong: it ended with $status"
done
echo "$(basename "$server"): ok"
