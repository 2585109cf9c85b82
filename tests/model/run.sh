#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Check the protocol models with spin. Each line below is one exhaustive search of
# a bounded model (no bitstate hashing): `holds` must end without an error, `fails`
# is the same model with a step of the protocol left out or misplaced, and must find
# one: else the model proves nothing. Memory order is modelled as x86-TSO.
#
# run.sh [model...]   names without .pml; all of them if none is given
#
# One core, at most a minute a line and 2 GB. 0 all as expected, 1 not, 77 no spin.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
cc=${CC:-cc}
memory_mb=1900
seconds=${RP_MODEL_SECONDS:-600}

if ! command -v spin >/dev/null 2>&1; then
	echo "skipped: spin is not installed (Debian: apt-get install spin)"
	exit 77
fi
if ! command -v "$cc" >/dev/null 2>&1; then
	echo "skipped: no C compiler '$cc' (set CC)"
	exit 77
fi

table() {
	cat <<'TABLE'
doze holds
doze holds -DURING
doze holds -DSTOP_EARLY
doze holds -DSTOP_EARLY -DURING
doze fails -DNO_FENCE
doze fails -DNO_FENCE -DURING
doze fails -DNO_RECHECK
doze fails -DNO_PENDING
deps holds
deps fails -DNO_FENCE
deps fails -DREGISTER_FIRST
notice holds
notice holds -DRUNS=3 -DNO_LOOKER
notice holds -DALWAYS -DNO_LEADER
notice holds -DALWAYS -DNO_LEADER -DNO_LOOKER -DRUNS=3
notice holds -DALWAYS -DRUNS=1
notice holds -DBLOCK
notice holds -DBLOCK -DRUNS=3 -DNO_LOOKER
notice fails -DNO_FENCE
notice fails -DLOOK_FIRST
notice fails -DCLEAR_LATE
notice fails -DCLEAR_FOR_GOOD
notice fails -DSLEEP_ON_FINISHING
notice fails -DALWAYS -DNO_LEADER -DNO_FENCE
notice fails -DALWAYS -DNO_LEADER -DNO_SECOND_LOOK
notice fails -DALWAYS -DNO_LEADER -DARM_EARLY
notice fails -DBLOCK -DNO_FENCE
reset holds
reset holds -DCHIPS=3 -DRUNS=2
reset fails -DNO_FOLLOW
reset fails -DNO_SETTLE
gate holds
gate holds -DSTAYS
gate holds -DFALL
gate holds -DSTAYS -DEARLY
gate holds -DSTAYS -DEARLY -DEMPTY
gate holds -DBLOCK
gate holds -DBLOCK -DSTAYS
gate holds -DBLOCK -DFALL
gate holds -DBLOCK -DSTAYS -DEARLY
gate holds -DBLOCK -DSTAYS -DEARLY -DEMPTY
gate fails -DNO_RESIGN_BUMP
gate fails -DSTAYS -DNO_FOLLOWER_ARM
gate fails -DSTAYS -DNO_PUBLISHED
gate fails -DNO_LEADER_LOOK
gate fails -DDISARM_LATE
gate fails -DSLEEP_ON_FINISHING
gate fails -DFALL -DNO_WAKE_ALL
gate fails -DSTAYS -DEARLY -DLOOK_ONLY
gate fails -DBLOCK -DSTAYS -DEARLY -DLOOK_ONLY
gate fails -DSTAYS -DEARLY -DEMPTY -DSLEEP_ON_BUILDING
queue holds
queue holds -DPASS
queue holds -DUNBOUND
queue holds -DCOUNT=2 -DSTALLS
queue holds -DTURNS=1 -DEARLY
queue holds -DTURNS=1 -DFALL
queue holds -DTURNS=1 -DEARLY -DSTALLS
queue holds -DTURNS=1 -DFALL -DSTALLS
queue holds -DSUBMITTERS=3 -DTURNS=1
queue fails -DNO_FENCE
queue fails -DNO_RECHECK
queue fails -DLOOK_FIRST
queue fails -DNO_TAKING
queue fails -DNO_STOP_WAKE
queue fails -DNO_ROOM_RECHECK
queue fails -DNO_ROOM_WAKE
queue fails -DSUBMITTERS=3 -DCOUNT=2 -DSTALLS -DNO_ROOM_FENCE
queue fails -DEARLY -DNO_CLOSING_LOOK
queue fails -DFALL -DSTALLS -DNO_FALL_LOOK
queue fails -DEARLY -DSTALLS -DNO_ROUSE
queue fails -DFALL -DSTALLS -DNO_ROUSE
queue fails -DSUBMITTERS=3 -DTURNS=1 -DNO_BLOCKED_LOOK
queue fails -DSUBMITTERS=3 -DCOUNT=2 -DLEAVE_EARLY
queue fails -DGIVE_BACK_EARLY
queue fails -DRING_SHORT
queue fails -DPASS -DCONSUME_EARLY
queue fails -DUNBOUND -DKEEP
queue fails -DUNQUEUE_EARLY
queue fails -DUNQUEUE_BLIND
queue fails -DNO_WATCH
queue fails -DFALL -DREFUSE_QUEUED
queue fails -DEARLY -DNO_OPEN_LOOK
queue fails -DEARLY -DNO_DRAIN
queue fails -DEARLY -DPAST_BUILDING
admission holds
admission fails -DNO_LEAVE_FENCE
admission fails -DNO_LEAVE_LOOK
admission fails -DNO_ARRIVE_TRY
frames holds
frames holds -DTURNS1=2
frames holds -DFALL
frames holds -DFALL -DTURNS0=1
frames holds -DDEADLINE -DTURNS0=1
frames holds -DFALL -DDEADLINE -DTURNS0=1
frames fails -DFALL -DNO_FENCE
frames fails -DFALL -DNO_FALLEN_LOOK
frames fails -DNO_SECOND_LOOK
frames fails -DNO_SEIZURE
frames fails -DCLOSE_PAST_ADMITTED
crew holds
crew holds -DBIDE
crew holds -DKERNELS=5
crew fails -DNO_RECHECK
crew fails -DLOOK_EARLY
crew fails -DANNOUNCE_LATE
crew fails -DNO_COUNT
crew fails -DSTOP_ONCE
await holds
await fails -DLOOK_FIRST
await fails -DBELL_LATE
await fails -DTELL_FIRST
TABLE
}

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1

# A macro that names itself sends spin's parser into all of the memory.
ulimit -v 4000000 2>/dev/null

# Prints what the search found: "none", "error", or why there is no answer.
search() {
	model=$1
	shift
	rm -f pan* _spin_nvr.tmp ./*.trail
	if ! spin -a "$@" "$model.pml" >spin.out 2>&1 || [ ! -f pan.c ]; then
		echo "spin: $(head -n 1 spin.out)"
	elif ! "$cc" -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=$memory_mb -o pan pan.c \
		>cc.out 2>&1; then
		echo "cc: $(head -n 1 cc.out)"
	elif ! timeout "$seconds" ./pan -m10000 >pan.out 2>&1; then
		echo "pan: ended with $?, longer than $seconds s or no memory"
	elif grep -q 'errors: [1-9]' pan.out; then
		echo error
	elif grep -q 'MEMLIM bound\|depth too small\|not completed' pan.out; then
		echo "pan: the search was not complete"
	elif grep -q 'errors: 0' pan.out; then
		echo none
	else
		echo "pan: $(tail -n 1 pan.out)"
	fi
}

wanted() {
	[ "$chosen" = "  " ] && return 0
	case $chosen in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

chosen=" $* "
for name in "$@"; do
	if [ ! -f "$here/$name.pml" ]; then
		echo "no model '$name' in $here, expected one of:" \
			"$(cd "$here" && echo ./*.pml | sed 's,\./,,g; s,\.pml,,g')"
		exit 1
	fi
done
cp "$here"/*.pml "$here"/*.inc . || exit 1
table >table

count=0
failed=0
while read -r name want flags; do
	wanted "$name" || continue
	begin=$(date +%s)
	# Split on purpose: one word a flag.
	# shellcheck disable=SC2086
	found=$(search "$name" $flags </dev/null)
	spent=$(($(date +%s) - begin))
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out 2>/dev/null)
	case $want:$found in
	holds:none | fails:error) verdict=ok ;;
	*) verdict=FAILED ;;
	esac
	count=$((count + 1))
	printf '%-6s %-9s %-5s %-44s %10s states %3d s' "$verdict" "$name" "$want" \
		"$flags" "${states:-?}" "$spent"
	if [ $verdict = FAILED ]; then
		failed=$((failed + 1))
		case $found in
		none) printf '  no error was found, expected one' ;;
		error) printf '  %s' "$(grep '^pan:1:' pan.out | head -n 1)" ;;
		*) printf '  %s' "$found" ;;
		esac
	fi
	printf '\n'
done <table

echo "$count searches, $failed not as expected"
[ $failed -eq 0 ] && [ $count -gt 0 ]
