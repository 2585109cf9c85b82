#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# abi.sh layout          print abi.c anew from the headers (needs gcc and gdb)
# abi.sh complete        the same, compared with abi.c but for blanks; 77: no gcc or gdb
# abi.sh symbols LIB     print symbols.txt anew from the library
# abi.sh compare LIB     the same, compared with symbols.txt
#
# A public struct grows at its end and says so by its `size` member. Between two versions
# of one SONAME abi.c and symbols.txt only gain lines, and a SIZE grows.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

exported()
{
	readelf --dyn-syms --wide "$1" |
		awk '$4 == "FUNC" && $5 == "GLOBAL" && $7 != "UND" { print $8 }' | LC_ALL=C sort
}

# names KIND: of the public structs or enums
names()
{
	sed -n "s/^$1 \(rp_[a-z0-9_]*\) {.*/\1/p" "$include"/ringplane/*.h
}

layout()
{
	echo '#include <ringplane/ringplane.h>' >"$dir/all.c"
	gcc -g3 -fno-eliminate-unused-debug-types -I "$include" -c "$dir/all.c" -o "$dir/all.o"
	cat <<'END'
/* SPDX-License-Identifier: MIT */
/* Made by abi.sh: the layout of the public structs and the values of the public enums,
 * which programs built against an older header rely on. */
#include <stddef.h>

#include <ringplane/ringplane.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, member, offset, bytes) \
	_Static_assert(offsetof(type, member) == (offset) && \
			       sizeof(((type *)0)->member) == (bytes), \
		       #type "." #member)
#define VALUE(name, value) _Static_assert((name) == (value), #name)

/* Both lay out structs alike. */
#if defined(__x86_64__) || defined(__aarch64__)
END
	cat >"$dir/ask.py" <<'END'
import gdb, os
def members(name, t, path="", at=0):
    for f in t.fields():
        here = at + f.bitpos // 8
        print("AT(struct %s, %s%s, %d, %d);" % (name, path, f.name, here, f.type.sizeof))
        # What has a tag of its own is listed by it.
        if f.type.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) and not f.type.tag:
            members(name, f.type, path + f.name + ".", here)
for name in os.environ["STRUCTS"].split():
    t = gdb.lookup_type("struct " + name)
    members(name, t)
    print("SIZE(struct %s, %d);" % (name, t.sizeof))
print("#endif\n")
for name in os.environ["ENUMS"].split():
    for f in gdb.lookup_type("enum " + name).fields():
        print("VALUE(%s, %d);" % (f.name, f.enumval))
END
	STRUCTS=$(names struct) ENUMS=$(names enum) gdb -batch -x "$dir/ask.py" "$dir/all.o"
}

# A declaration a line, however it is wrapped.
flat()
{
	tr -d ' \t\n' | tr ';' '\n'
}

# What is not in abi.c is not checked by it: a new struct, or a member in what was padding.
complete()
{
	local made
	case $(uname -m) in
	x86_64 | aarch64) ;;
	*)
		echo "skipped: abi.c is of x86_64 and aarch64"
		exit 77
		;;
	esac
	if ! command -v gcc >/dev/null || ! gdb -batch -ex 'python print(1)' >/dev/null 2>&1; then
		echo "skipped: needs gcc, and gdb with Python (Debian: apt-get install gcc gdb)"
		exit 77
	fi
	made=$(layout)
	diff <(flat <"$here/abi.c") <(flat <<<"$made") ||
		{ echo "abi: abi.c (<) and the headers (>) differ"; exit 1; }
}

case ${1:-} in
layout) layout ;;
complete) complete ;;
symbols) exported "$2" ;;
compare)
	diff "$here/symbols.txt" <(exported "$2") ||
		{ echo "abi: symbols.txt (<) and $2 (>) differ"; exit 1; }
	;;
*)
	echo "usage: abi.sh layout | complete | symbols LIB | compare LIB" >&2
	exit 2
	;;
esac
