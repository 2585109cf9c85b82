#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh SOURCE [JOBS]
#
# Builds the library with each of its switches off: what it lacks is refused by name, and
# the code of it is gone.
set -euo pipefail

source=$1 jobs=${2:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
	echo "switches: $*" >&2
	exit 1
}

# build NAME OPTION: optimised a little, for without that no code is dropped.
build()
{
	local launcher=
	command -v ccache >/dev/null && launcher=ccache
	cmake -G Ninja -S "$source" -B "$work/$1" -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_C_COMPILER_LAUNCHER=$launcher \
		-DRINGPLANE_LTO=OFF -DRINGPLANE_BENCH=OFF -DRINGPLANE_EXAMPLES=OFF \
		-DRINGPLANE_TESTS=ON "-D$2=OFF" >"$work/$1.log"
	ninja -C "$work/$1" -j "$jobs" switches_refused >"$work/$1.log" ||
		{ cat "$work/$1.log" >&2; fail "$2=OFF does not build"; }
	(cd "$work/$1" && tests/switches_refused) || fail "$2=OFF: see above"
}

# users NAME SYMBOL: the objects of the library that call it.
users()
{
	nm -A "$work/$1/libringplane.a" 2>/dev/null |
		sed -n "s/^[^:]*:\([^:]*\): *U $2\$/\1/p" | sort | tr '\n' ' '
}

# expect NAME SYMBOL OBJECTS
expect()
{
	local found
	found=$(users "$1" "$2")
	[ "$found" = "$3" ] || fail "$1: $2 is called by '$found', expected '$3'"
}

# No span of a run in the caller's process.
build host SIMPLER_HOST_STRACE
expect host rpi_run_span_record ""

# Nothing of kernels and scopes, and nothing around entries.
build device SIMPLER_DFX
for symbol in rpi_note_before rpi_note_after rpi_note_end rpi_mark_begin rpi_mark_end \
	rpi_server_observe; do
	expect device $symbol ""
done
echo "switches: ok"
