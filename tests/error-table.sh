#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The guide's table of errors, the public headers and the code name the same errnos.
#
# error-table.sh SOURCE_DIR
set -euo pipefail
cd "$1"

errnos()
{
	grep -oE -e '-E[A-Z0-9]{2,}' | sort -u
}

table=$(grep -oE '^\| `-E[^|]*' docs/guide.md | errnos)
headers=$(cat include/ringplane/*.h | errnos)
# What a public call fails with by a decision of ours. The rest is the system's errno.
code=$(find control dataplane -name '*.c' -print0 | xargs -0 cat | tr -s '\n\t ' ' ' |
	grep -oE 'rpi_fail\( ?-E[A-Z0-9]+' | errnos)

breaches=0
# missing WHERE WHAT_IS_THERE WHAT_MUST_BE
missing()
{
	local errno
	for errno in $3; do
		grep -qxe "$errno" <<<"$2" && continue
		echo "$errno: not in $1"
		breaches=$((breaches + 1))
	done
}

missing "the guide's table, but in a public header" "$table" "$headers"
missing "the guide's table, but in the code" "$table" "$code"
missing "a public header, but in the guide's table" "$headers" "$table"
missing "a public header, but in the code" "$headers" "$code"

if [ "$breaches" -ne 0 ]; then
	echo "error-table: $breaches breaches"
	exit 1
fi
echo "error-table: ok"
