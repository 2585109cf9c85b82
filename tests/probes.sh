#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The library has the static probes that dataplane/base/probe.h promises.
#
# probes.sh LIBRARY
set -euo pipefail

notes=$(readelf --notes --wide "$1")
for probe in submit start finish wake reset; do
	grep -A1 'Provider: ringplane' <<<"$notes" | grep -q "Name: $probe\$" || {
		echo "probes: no probe '$probe' in $1"
		exit 1
	}
done
echo "probes: ok"
