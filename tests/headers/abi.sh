#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# abi.sh layout          print abi.c anew from the headers (needs gcc and gdb)
# abi.sh symbols LIB     print symbols.txt anew from the library
# abi.sh compare LIB     the same, compared with symbols.txt
#
# A public struct grows at its end and says so by its `size` member. Between two versions
# of one SONAME abi.c and symbols.txt only gain lines, and a SIZE grows.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include

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
	local dir
	dir=$(mktemp -d)
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
for name in os.environ["STRUCTS"].split():
    t = gdb.lookup_type("struct " + name)
    for f in t.fields():
        print("AT(struct %s, %s, %d, %d);" % (name, f.name, f.bitpos // 8, f.type.sizeof))
    print("SIZE(struct %s, %d);" % (name, t.sizeof))
print("#endif\n")
for name in os.environ["ENUMS"].split():
    for f in gdb.lookup_type("enum " + name).fields():
        print("VALUE(%s, %d);" % (f.name, f.enumval))
END
	STRUCTS=$(names struct) ENUMS=$(names enum) gdb -batch -x "$dir/ask.py" "$dir/all.o"
	rm -r "$dir"
}

case ${1:-} in
layout) layout ;;
symbols) exported "$2" ;;
compare)
	diff "$here/symbols.txt" <(exported "$2") ||
		{ echo "abi: symbols.txt (<) and $2 (>) differ"; exit 1; }
	;;
*)
	echo "usage: abi.sh layout | symbols LIB | compare LIB" >&2
	exit 2
	;;
esac
