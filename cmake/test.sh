#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test.sh DIR [ctest options]: runs the tests of a build, then names every case that
# was skipped: a skip never reads as a pass.
set -euo pipefail

dir=$1
shift
status=0
ctest --test-dir "$dir" --output-on-failure --no-tests=error "$@" || status=$?

log=$dir/Testing/Temporary/LastTest.log
# cmocka prints each skipped case, and a sum that says "test(s)"; ours prints why.
skips=$(awk '
	/^[0-9]+\/[0-9]+ Test: / { test = $3 }
	/^\[  SKIPPED \] / && !/test\(s\)/ && !seen[test, $0]++ {
		print "skipped: " test ": " $4
	}' "$log")
if [ -n "$skips" ]; then
	printf '%s\n' "$skips"
fi
if [ "$status" -eq 0 ]; then
	printf '%d cases skipped\n' "$(printf '%s' "$skips" | grep -c . || true)"
	echo "100% tests passed"
fi
exit "$status"
