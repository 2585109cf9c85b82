#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rpbench peers: what is missing or dies is a line of the report, and the rest is there.
#
# bench-peers.sh RPBENCH
set -euo pipefail

rpbench=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail()
{
	echo "rpbench peers: $*"
	cat "$out"/* 2>/dev/null || true
	exit 1
}

# Nothing in PATH: mpirun can't be started, or this build has no Open MPI at all.
PATH=/nowhere "$rpbench" peers --quick --runs 1 --ops 2 --json >"$out/json" 2>"$out/err" ||
	fail "status $?, expected 0 without mpirun"
for text in '"name": "peers.ringplane.rtt.64B"' '"name": "peers.ringplane.copy.64MiB"' \
	'"peers.mpi.rtt.64B": "'; do
	grep -qF "$text" "$out/json" || fail "no $text without mpirun"
done
! grep -qF '"name": "peers.mpi' "$out/json" || fail "Open MPI without mpirun"

# A transport that dies in the middle: its case fails, and the others are reported.
if grep -q '"peers.zmq.rtt.64B": "built without' "$out/json"; then
	echo "bench-peers: ok, this build has no ZeroMQ to be killed"
	exit 0
fi
"$rpbench" peers --runs 40 --ops 2000 --only 'peers.zmq.rtt.64B' >"$out/text" 2>"$out/err" &
pid=$!
child=
until [ -n "$child" ] || ! kill -0 "$pid" 2>/dev/null; do
	for one in $(cat "/proc/$pid/task/"*/children 2>/dev/null || true); do
		[ "$(cat "/proc/$one/comm" 2>/dev/null || true)" != rpbench_zmq ] || child=$one
	done
done
[ -n "$child" ] || fail "ended before its transport could be killed"
sleep 0.5 # into its rounds, most likely; before them it is skipped
kill -KILL "$child"
status=0
wait "$pid" || status=$?
case $status in
0) word='skipped, ZeroMQ: its program' ;;
1) word='1 failure, ZeroMQ: its program' ;;
*) fail "status $status with a transport killed, expected 1" ;;
esac
grep -q "$word" "$out/text" || fail "no \"$word\" with a transport killed"
grep -q '^limits.pingpong.payload ' "$out/text" || fail "no limit in the report"
echo "bench-peers: ok"
