#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test.sh DIR [ctest options]: runs the tests of a build and names every case that was
# skipped, which ctest counts as passed, with the reasons that the tests give.
set -euo pipefail

dir=$1
shift
status=0
ctest --test-dir "$dir" --output-on-failure --no-tests=error "$@" || status=$?

# cmocka prints a line for each skipped case, and a sum that says "test(s)".
awk '
	/^[0-9]+\/[0-9]+ Test: / { test = $3 }
	/^\[  SKIPPED \] / && !/test\(s\)/ && !seen[test, $0]++ {
		print "skipped: " test ": " $4
	}
	/^skipped: / && !seen[test, $0]++ {
		print "skipped: " test ": " substr($0, 10)
	}' "$dir/Testing/Temporary/LastTest.log" || true
exit "$status"
