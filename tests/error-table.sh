#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The guide's table of errors, the public headers and the code name the same errnos.
#
# error-table.sh SOURCE_DIR
set -euo pipefail
cd "$1"

errnos()
{
	grep -oE -e '-E[A-Z0-9_]{2,}' | sort -u
}

table=$(grep -oE '^\| `-E[^|]*' docs/guide.md | errnos)
headers=$(cat include/ringplane/*.h | errnos)
# What the code fails with by a decision of ours: each errno that it names and does not
# only compare with. The rest is the system's.
code=$(find control dataplane -name '*.[ch]' -print0 | xargs -0 cat | tr -s '\n\t ' ' ' |
	sed -E 's#/\*([^*]|\*+[^*/])*\*+/##g; s/([=!]=|case) ?-E[A-Z0-9]+//g' | errnos)
# And of these what no caller of the library sees.
#   -EPIPE      a process of the worker sends no more arguments (capture/drain.c)
#   -ERRNO_MAX  no errno: the bound of those that an entry may return
internal='-EPIPE -ERRNO_MAX'

breaches=0
for errno in $internal; do
	grep -qxe "$errno" <<<"$code" && continue
	echo "$errno: not in the code, but on the list of what nobody sees"
	breaches=$((breaches + 1))
done
code=$(grep -vxF -e "${internal// /$'\n'}" <<<"$code")
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
