#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the fuzz target of artifacts with clang, and lets libFuzzer at it.
#
# run.sh SOURCE_DIR SEEDS SECONDS [CORPUS]
#
# SEEDS    a directory with manifests to begin with, in any depth.
# CORPUS   where what was found is kept, and gone on from; none: a temporary directory.
set -euo pipefail

source_dir=$1 seeds=$2 seconds=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
corpus=${4:-$dir/corpus}

sanitize=-fsanitize=fuzzer,address,undefined
if ! command -v clang >/dev/null ||
	! echo 'int LLVMFuzzerTestOneInput(const char *b, long n); int LLVMFuzzerTestOneInput(const char *b, long n) { return b && n ? 0 : 0; }' |
		clang "$sanitize" -x c - -o "$dir/probe" 2>/dev/null; then
	echo "skipped: no clang with libFuzzer here"
	exit 77
fi

cd "$source_dir"
sources=(control/program/*.c dataplane/base/{clock,error,testing}.c
	dataplane/memory/dtype.c dataplane/runtime/sizing.c dataplane/trace/capture.c)
# shellcheck disable=SC2046 # flags are words
clang "$sanitize" -fno-sanitize-recover=all -O1 -g -std=gnu11 -D_GNU_SOURCE \
	-DRPI_TESTING=1 -Iinclude -Idataplane -Icontrol "${sources[@]}" \
	tests/fuzz/artifact_fuzz.c $(pkg-config --cflags --libs jansson) -ldl -pthread -lm \
	-o "$dir/artifact_fuzz"

mkdir -p "$corpus" "$dir/seeds"
find "$seeds" -name manifest.json | while read -r file; do
	cp "$file" "$dir/seeds/$(echo "$file" | md5sum | cut -c1-32)"
done
# The words of the format, from the texts in the sources that read and write it.
grep -ohE '"[A-Za-z_]{2,24}"' control/program/manifest_*.c dataplane/memory/dtype.c |
	sort -u | sed 's/"\(.*\)"/"\\"\1\\""/' >"$dir/words"
cd "$dir"
"$dir/artifact_fuzz" -dict="$dir/words" -max_total_time="$seconds" -max_len=8192 \
	-timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
	"$corpus" "$dir/seeds" 2>&1 | tail -n 12
