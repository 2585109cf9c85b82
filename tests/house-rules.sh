#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The house rules that a script can check. Prints file:line of each breach.
#
# house-rules.sh SOURCE_DIR
set -euo pipefail
cd "$1"

breaches=0

# rule TEXT: reads breaches, one a line, from standard input.
rule()
{
	local found
	found=$(cat)
	[ -z "$found" ] && return
	printf '%s\n' "$found" | sed "s|\$|  <- $1|"
	breaches=$((breaches + $(printf '%s\n' "$found" | wc -l)))
}

# sources DIR...: every file that we write, apart from prose.
sources()
{
	find "$@" -type f \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.pml' -o \
		-name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt -o -name Makefile -o \
		-name run \) | sort
}

# code PATTERN DIR...: file:line: text of the C code that matches. Comments do not
# count; strings do.
code()
{
	local pattern=$1
	shift
	find "$@" -name '*.[ch]' | sort | PATTERN=$pattern xargs awk '
		BEGIN { token = "\"(\\\\.|[^\"\\\\])*\"|\047(\\\\.|[^\047\\\\])*\047|/[*]|//" }
		FNR == 1 { inside = 0 }
		{
			line = $0
			out = ""
			while (line != "") {
				if (inside) {
					end = index(line, "*/")
					if (!end)
						break
					line = substr(line, end + 2)
					inside = 0
				}
				if (!match(line, token)) {
					out = out line
					break
				}
				found = substr(line, RSTART, RLENGTH)
				out = out substr(line, 1, RSTART - 1)
				if (found == "//")
					break
				inside = found == "/*"
				out = out (inside ? " " : found)
				line = substr(line, RSTART + RLENGTH)
			}
			if (out ~ ENVIRON["PATTERN"])
				print FILENAME ":" FNR ": " $0
		}'
}

# longer LINES DIR...: the files that have more.
longer()
{
	local limit=$1
	shift
	find "$@" -name '*.[ch]' | sort | xargs wc -l |
		awk -v limit="$limit" '$2 != "total" && $1 > limit { print $2 ":" $1 ":" }'
}
rule "more than 500 lines" < <(longer 500 include dataplane control bench)
rule "more than 800 lines" < <(longer 800 tests docs)

rule "no SPDX line at the top" < <(
	sources include dataplane control bench tests docs cmake CMakeLists.txt Makefile .ci/run |
		while read -r file; do
			head -n 2 "$file" | grep -q 'SPDX-License-Identifier: MIT' ||
				echo "$file:1:"
		done)

# __asm__ __volatile__ is another word.
rule "volatile; use _Atomic with the order written out" < <(
	code '(^|[^_A-Za-z0-9])volatile([^_A-Za-z0-9]|$)' dataplane)

rule "a name under /dev/shm; regions are memfds" < <(
	code '/dev/shm|(^|[^_A-Za-z0-9])shm_open *[(]' include dataplane control)

# A child resets its handlers; that code alone may name one, and only to these two.
rule "a signal handler" < <(
	code '(^|[^_A-Za-z0-9])(signal|sigaction|sigset|bsd_signal) *[(]' \
		include dataplane control | grep -v '^control/process/' || true)
rule "a signal handler other than SIG_DFL and SIG_IGN" < <(
	code 'sa_handler|sa_sigaction|(^|[^_A-Za-z0-9])signal *[(]' control/process |
		grep -vE 'SIG_DFL|SIG_IGN' || true)

rule "output; the library prints nothing" < <(
	code '(^|[^_A-Za-z0-9])(v?printf|puts|putchar|perror|psignal|warnx?|errx?) *[(]|(v?fprintf|fputs|fputc|fwrite|write|v?dprintf) *[(][^;]*(stdout|stderr|STD(OUT|ERR)_FILENO)' \
		include dataplane control)

rule "exit() in the library" < <(
	code '(^|[^_A-Za-z0-9])exit *[(]' include dataplane control)

# Split, so that this file is clean of them.
marks='TO''DO|FIX''ME|XX''X'
rule "an open end" < <(
	sources include dataplane control bench tests docs cmake CMakeLists.txt Makefile .ci/run |
		xargs grep -nE "(^|[^A-Za-z])($marks)([^A-Za-z]|\$)" || true)

rule "a public header that include/CMakeLists.txt does not list" < <(
	find include -name '*.h' -printf '%P\n' | sort | while read -r header; do
		grep -qxE " *$header\)?" include/CMakeLists.txt || echo "include/$header:1:"
	done)

rule "a source that CMakeLists.txt does not list" < <(
	for dir in dataplane control bench; do
		find "$dir" -name '*.c' -printf '%P\n' | sort | while read -r source; do
			grep -qxE " *$source\)?" "$dir/CMakeLists.txt" ||
				echo "$dir/$source:1:"
		done
	done)

rule "a test that tests/CMakeLists.txt does not run" < <(
	find tests -maxdepth 1 -name 'test_*.c' | sort | while read -r file; do
		name=${file#tests/test_}
		grep -q "^ *rp_add_test(${name%.c} " tests/CMakeLists.txt || echo "$file:1:"
	done
	find tests/stress -name '*.c' -printf '%f\n' | sort | while read -r source; do
		grep -q "stress/$source" tests/CMakeLists.txt || echo "tests/stress/$source:1:"
	done)

if [ "$breaches" -ne 0 ]; then
	echo "house-rules: $breaches breaches"
	exit 1
fi
echo "house-rules: ok"
