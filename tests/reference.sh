#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The reference is generated without a warning, and has every public function and struct.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v doxygen >/dev/null; then
	echo "skipped: doxygen is not installed (Debian: apt-get install doxygen)"
	exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
RINGPLANE_VERSION=0 RINGPLANE_DOCS=$out doxygen docs/Doxyfile

missing=0
# The name before the first parenthesis that opens an argument list.
functions=$(sed -n 's/^RP_API [^(]*\b\(rp_[a-z0-9_]*\)(.*/\1/p' include/ringplane/*.h)
for name in $functions; do
	grep -q "<name>$name</name>" "$out"/xml/*_8h.xml || { echo "no function $name"; missing=1; }
done
structs=$(sed -n 's/^struct \(rp_[a-z0-9_]*\) {.*/\1/p' include/ringplane/*.h)
for name in $structs; do
	grep -q "<compoundname>$name</compoundname>" "$out"/xml/struct*.xml ||
		{ echo "no struct $name"; missing=1; }
done
echo "$(echo "$functions" | wc -l) functions, $(echo "$structs" | wc -l) structs"
exit $missing
