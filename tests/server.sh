#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A server of docs/examples under load: it answers, keeps deadlines, survives the death of
# its chip, and goes when it is told to.
#
# server.sh SERVER LOAD_GENERATOR
set -euo pipefail

server=$1 load=$2
dir=$(mktemp -d)
pid=
clean_up()
{
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	rm -rf "$dir"
}
trap clean_up EXIT

fail()
{
	echo "$(basename "$server"): $*"
	cat "$dir"/*.log 2>/dev/null || true
	exit 1
}

# The server's chip: the only child of its threads.
chip_of()
{
	cat "/proc/$pid/task/"*/children 2>/dev/null | tr -d ' '
}

# field NAME FILE: the number in front of a word of the load generator's first line.
field()
{
	head -n 1 "$2" | grep -oE "[0-9]+ $1" | cut -d ' ' -f 1
}

await()
{
	local i
	for i in $(seq 200); do
		"$@" && return
		sleep 0.05
	done
	fail "no '$*' for 10 s"
}

start()
{
	"$server" --socket "$dir/socket" 2>"$dir/server.log" &
	pid=$!
	for _ in $(seq 200); do
		[ ! -S "$dir/socket" ] || return 0
		if ! kill -0 "$pid" 2>/dev/null; then
			local status=0
			wait "$pid" || status=$?
			if [ "$status" -eq 77 ]; then
				echo "skipped: $(cat "$dir/server.log")"
				exit 0
			fi
			fail "it ended with $status"
		fi
		sleep 0.05
	done
	fail "no socket for 10 s"
}

# SIGTERM ends it with 0, and nothing is left.
stop()
{
	local chip status=0
	chip=$(chip_of)
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" -eq 0 ] || fail "SIGTERM: it ended with $status"
	[ ! -e "$dir/socket" ] || fail "its socket is left behind"
	! kill -0 "$chip" 2>/dev/null || fail "its chip $chip is left behind"
	pid=
}

# At least so many clients are connected.
connected()
{
	[ "$(ls "/proc/$pid/fd" | wc -l)" -ge $((idle_fds + $1)) ]
}

start
idle_fds=$(ls "/proc/$pid/fd" | wc -l)
"$load" --socket "$dir/socket" --clients 8 --seconds 1 >"$dir/plain.log" ||
	fail "plain: the load generator ended with $?"
[ "$(field served "$dir/plain.log")" -gt 0 ] || fail "plain: nothing was served"
[ "$(field 'timed out' "$dir/plain.log")" -eq 0 ] || fail "plain: something timed out"
[ "$(field failed "$dir/plain.log")" -eq 0 ] || fail "plain: something failed"
grep -q 'p99.9' "$dir/plain.log" && grep -q '#' "$dir/plain.log" || fail "no histogram"

# More clients than frames, with less time than the queue takes.
"$load" --socket "$dir/socket" --clients 16 --seconds 1 --work-us 20000 \
	--deadline-us 60000 >"$dir/late.log" || fail "late: it ended with $?"
[ "$(field 'timed out' "$dir/late.log")" -gt 0 ] || fail "late: nothing timed out"
[ "$(field failed "$dir/late.log")" -eq 0 ] || fail "late: something failed"

# Its chip killed in the middle: what was in flight fails, the rest is served.
"$load" --socket "$dir/socket" --clients 8 --seconds 2 --work-us 2000 \
	>"$dir/killed.log" &
loader=$!
await connected 8
sleep 0.3
first=$(chip_of)
kill -KILL "$first"
status=0
wait "$loader" || status=$?
[ "$status" -eq 0 ] || fail "killed: the load generator ended with $status"
lost=$(field failed "$dir/killed.log")
[ "$lost" -ge 1 ] && [ "$lost" -le 2 ] || fail "killed: $lost failed, expected 1 or 2"
[ "$(chip_of)" != "$first" ] || fail "killed: the same chip"
grep -q 'prepared anew' "$dir/server.log" || fail "killed: it does not say so"

# And killed while it is idle.
first=$(chip_of)
kill -KILL "$first"
# Another chip than the first one.
another() { [ -n "$(chip_of)" ] && [ "$(chip_of)" != "$first" ]; }
await another
"$load" --socket "$dir/socket" --clients 2 --seconds 0.3 >"$dir/idle.log" ||
	fail "idle: the load generator ended with $?"
[ "$(field failed "$dir/idle.log")" -eq 0 ] || fail "idle: something failed"

# Clients that go without a word, and one that speaks another language.
"$load" --socket "$dir/socket" --clients 8 --seconds 5 --work-us 5000 >/dev/null 2>&1 &
loader=$!
await connected 8
kill -KILL "$loader"
wait "$loader" 2>/dev/null || true
"$load" --socket "$dir/socket" --clients 2 --seconds 0.3 >"$dir/after.log" ||
	fail "after: the load generator ended with $?"
stop
grep -Eq 'served, .* 2 restarts' "$dir/server.log" || fail "its last line"

# Told to go in the middle of work: what is in flight is answered.
start
"$load" --socket "$dir/socket" --clients 4 --seconds 5 --work-us 1000 \
	>"$dir/gone.log" 2>&1 &
loader=$!
await connected 4
stop
wait "$loader" 2>/dev/null || true
[ "$(tail -n +1 "$dir/gone.log" | grep -c 'wrong answer')" -eq 0 ] || fail "wrong answer"

# The socket of a server that was killed is no obstacle, that of a live one is.
start
kill -KILL "$pid"
wait "$pid" 2>/dev/null || true
[ -S "$dir/socket" ] || fail "no socket of a killed server"
"$server" --socket "$dir/socket" 2>"$dir/server.log" &
pid=$!
answers() { "$load" --socket "$dir/socket" --clients 1 --seconds 0.1 >/dev/null 2>&1; }
await answers
status=0
"$server" --socket "$dir/socket" 2>/dev/null || status=$?
[ "$status" -eq 1 ] || fail "a second server: it ended with $status, expected 1"
answers || fail "the first server is gone"
stop
echo "$(basename "$server"): ok"
