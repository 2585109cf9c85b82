#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# build.sh PRESET DIR [JOBS]: configures once, then builds.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1 dir=$2 jobs=${3:-$(nproc)}

# CMake runs again by itself when a list of sources changes.
if [ ! -f "$dir/build.ninja" ] || [ CMakePresets.json -nt "$dir/build.ninja" ]; then
	cmake --preset "$preset" -B "$dir"
fi
cmake --build "$dir" --parallel "$jobs"
