#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the library into a prefix of its own, moves that away, and lets a C and a
# C++ program, and that of the README, use it: by find_package() and by pkg-config, shared
# and static. Then what the shared library exports and needs.
#
# run.sh SOURCE_DIR BUILD_DIR CC CXX LIBDIR
set -euo pipefail

source_dir=$1 build_dir=$2 cc=$3 cxx=$4 libdir=$5
user=$source_dir/tests/install/user
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

say() { printf '%s\n' "-- $*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

say "install"
cmake --install "$build_dir" --prefix "$dir/first" >"$dir/install.log"
mv "$dir/first" "$dir/prefix"
lib=$dir/prefix/$libdir
version=$(sed -n 's/^Version: //p' "$lib/pkgconfig/ringplane.pc")

# The program of the README, which says what it prints.
awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$source_dir/README.md" >"$dir/first.c"
[ -s "$dir/first.c" ] || fail "README.md has no C program"
want=$(sed -n 's/.*printf(.*\/\* \(.*\) \*\/$/\1/p' "$dir/first.c")
# first PROGRAM
first()
{
	local said
	said=$("$1") || fail "the README's program ended with $?"
	[ "$said" = "$want" ] || fail "the README's program printed '$said', it says '$want'"
}

say "find_package(ringplane $version)"
cmake -S "$user" -B "$dir/build" -G Ninja -DCMAKE_PREFIX_PATH="$dir/prefix" \
	-DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
	-DRINGPLANE_VERSION="$version" -DFIRST="$dir/first.c" >"$dir/configure.log" || {
	cat "$dir/configure.log"
	fail "configuring a project that finds ringplane"
}
cmake --build "$dir/build"
for program in c_ringplane cpp_ringplane c_ringplane_static cpp_ringplane_static load_thrice; do
	say "run $program"
	"$dir/build/$program"
done
for program in first first_static; do
	say "run $program, the program of the README"
	first "$dir/build/$program"
done

export PKG_CONFIG_PATH=$lib/pkgconfig
say "pkg-config: $(pkg-config --cflags --libs ringplane)"
# Its words are quoted for a shell: a prefix may have a space.
eval "shared=($(pkg-config --cflags --libs ringplane))"
# As the guide says it.
eval "static=($(pkg-config --cflags ringplane) $(pkg-config --static --libs ringplane |
	sed 's/-lringplane/-l:libringplane.a/'))"
"$cc" -std=c11 -Wall -Werror "$user/user.c" "${shared[@]}" -o "$dir/c"
"$cxx" -std=c++17 -Wall -Werror "$user/user.cpp" "${shared[@]}" -o "$dir/cpp"
"$cc" -std=c11 -Wall -Werror "$user/user.c" "${static[@]}" -o "$dir/c_static"
for program in c cpp; do
	say "run $program"
	LD_LIBRARY_PATH=$lib "$dir/$program"
done
say "run c_static"
"$dir/c_static"

say "run readme, the program of the README"
"$cc" -std=c11 -Wall -Wextra -Werror "$dir/first.c" "${shared[@]}" -o "$dir/readme"
(
	export LD_LIBRARY_PATH=$lib
	first "$dir/readme"
)

say "exported symbols and needed libraries"
readelf -W --dyn-syms "$lib/libringplane.so" |
	awk '$7 != "UND" && $8 != "" && $1 ~ /^[0-9]+:$/ { sub(/@.*/, "", $8); print $8 }' \
	>"$dir/exported"
grep -q '^rp_' "$dir/exported" || fail "no rp_ symbol is exported"
if grep -vE '^(rp_|RINGPLANE_0$)' "$dir/exported"; then
	fail "the symbols above are exported and should be hidden"
fi
if readelf -d "$lib/libringplane.so" | grep -E 'NEEDED.*librte_'; then
	fail "the shared library needs a DPDK library"
fi
say "ok"
