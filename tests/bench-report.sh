#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# rpbench report: what it runs, what it takes, what it refuses, and what it writes.
#
# bench-report.sh RPBENCH RECORDED.json
set -euo pipefail

rpbench=$(realpath "$1") recorded=$(realpath "$2")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail()
{
	echo "rpbench report: $*"
	exit 1
}

# refuses STATUS TEXT ARGUMENT...: it ends so, with a line that has TEXT.
refuses()
{
	local want=$1 text=$2 said status=0
	shift 2
	said=$("$rpbench" report "$@" 2>&1 >/dev/null) || status=$?
	[ "$status" -eq "$want" ] && [[ $said == *"$text"* ]] ||
		fail "$*: status $status, \"$said\", expected $want and \"$text\""
}

refuses 2 '--no-such-thing' --no-such-thing
refuses 2 '"word", expected options only' word
refuses 2 '--from: no file' --from
refuses 2 '--from: with an option of a run' --from --full "$recorded"
refuses 2 '--commands: "nothing", expected sub-commands' --commands trace,nothing
refuses 1 "--out: '/nowhere/at/all'" --out /nowhere/at/all --from "$recorded"
refuses 1 "/nowhere.json" --out "$out" --from /nowhere.json
echo '{"results": 5}' >"$out/bad.json"
refuses 1 'has no results, expected a report of --json' --out "$out" --from "$out/bad.json"
echo '{"results": [' >"$out/bad.json"
refuses 1 'bad.json' --out "$out" --from "$out/bad.json"
[ ! -e "$out/report.html" ] || fail "a page of what was refused"

# Two of them run, and what is made of it is what compare takes.
"$rpbench" report --commands trace,arena --runs 1 --ops 20 --out "$out/run" >"$out/said" ||
	fail "ended with $? after two sub-commands"
[ "$(cat "$out/said")" = "$out/run/report.html"$'\n'"$out/run/report.json" ] ||
	fail "said $(cat "$out/said")"
for text in '"name": "trace"' '"name": "arena"' '"name": "trace.span"' '"kernel": ' \
	'"pages": ' '"libc": '; do
	grep -qF "$text" "$out/run/report.json" || fail "no $text in its JSON"
done
"$rpbench" compare "$out/run/report.json" "$out/run/report.json" >"$out/said" ||
	fail "compare does not take its JSON"
grep -q '^trace.span ' "$out/said" || fail "compare finds nothing in its JSON"
# And so does report itself, with another file: each name once.
"$rpbench" report --out "$out/again" --from "$out/run/report.json" "$recorded" \
	"$recorded" >/dev/null || fail "does not take its own JSON"
[ "$(grep -c '"name": "dispatch.spin.rtt"' "$out/again/report.json")" -eq 1 ] ||
	fail "a name that two files have stands in it twice"

# A sub-command that can't run is named, and costs the others nothing.
status=0
"$rpbench" report --commands arena,trace --runs 0 --out "$out/none" >/dev/null 2>&1 ||
	status=$?
[ "$status" -eq 1 ] || fail "status $status where sub-commands fail, expected 1"
for name in arena trace; do
	grep -q "<b>$name</b>: ended with status 2: rpbench: --runs: 0, expected" \
		"$out/none/report.html" || fail "does not say why $name failed"
done

# Also where its line is no text: what is not UTF-8 is shown as such.
status=0
"$rpbench" report --commands trace --cpus $'\xff\xc3' --out "$out/bytes" >/dev/null 2>&1 ||
	status=$?
[ "$status" -eq 1 ] || fail "status $status where a line is no text, expected 1"
grep -qF '?' <(grep -F '<b>trace</b>: ended with status 2: rpbench: --cpus: ' \
	"$out/bytes/report.html") || fail "does not say why a line that is no text failed"

# What can't be said is a failure, whoever was to say it.
for words in list --help --version 'compare run/report.json run/report.json' \
	'report --from run/report.json --out again' 'trace --runs 1 --ops 3' \
	'trace --runs 1 --ops 3 --json' 'trace --runs 1 --ops 3 --csv'; do
	status=0
	# shellcheck disable=SC2086
	said=$(cd "$out" && "$rpbench" $words 2>&1 >/dev/full) || status=$?
	[ "$status" -eq 1 ] && [[ $said == rpbench:\ * ]] ||
		fail "$words: status $status, \"$said\", where stdout is full"
done

# A page that can't be written whole is not there, and the old one stays.
cp "$out/again/report.html" "$out/old.html"
status=0
said=$(
	ulimit -f 8
	trap '' XFSZ
	"$rpbench" report --from "$recorded" --out "$out/again" 2>&1 >/dev/null
) || status=$?
[ "$status" -eq 1 ] && [[ $said == *'File too large'* ]] ||
	fail "status $status, \"$said\", where files may not grow"
cmp -s "$out/again/report.html" "$out/old.html" || fail "the old page did not stay"
[ "$(ls -A "$out/again")" = $'report.html\nreport.json' ] || fail "half a file is left"

# Ended while it draws: likewise.
"$rpbench" report --from "$recorded" --out "$out/again" >/dev/null 2>&1 &
sleep 0.2
kill -TERM $! 2>/dev/null || true
wait $! 2>/dev/null || true
[ "$(ls -A "$out/again")" = $'report.html\nreport.json' ] || fail "half a page is left"

# Without gnuplot the page says so and has its tables.
PATH=/nowhere "$rpbench" report --out "$out/bare" --from "$recorded" >/dev/null ||
	fail "ended with $? without gnuplot"
grep -q 'gnuplot was not installed' "$out/bare/report.html" || fail "misses no gnuplot"
! grep -q '<svg' "$out/bare/report.html" || fail "a plot without gnuplot"
grep -q '<td>dispatch.spin.rtt</td>' "$out/bare/report.html" || fail "no table"
said=$(PATH=/nowhere "$rpbench" trace --plot "$out/x.svg" 2>&1) && fail "a plot from nothing"
[[ $said == *'--plot: gnuplot is not installed'* ]] || fail "--plot says \"$said\""

# What a file says is text and nothing else, in the page and in gnuplot.
cat >"$out/bad.json" <<'END'
{"machine": {"cpu": "<b>&\"'", "skipped": {"dispatch.<i>": "</ul><script>x"}, "pinned": 7},
"commands": [{"name": "<u>", "error": "<script>e"}, 5, null],
"results": [
{"name": "dispatch.`touch ran`", "unit": "ns", "median": 1, "limit": 2, "ratio": 0.5, "remark": "<script>r"},
{"name": "dispatch.'\nEND\nsystem('touch ran')\n", "unit": "<s>", "median": 1e300, "ratio": 1e300},
{"name": "dispatch.\"@b", "unit": "ns", "median": -1, "limit": null, "ratio": 2, "p99": "x"},
{"name": "<script>n.x", "unit": "ns"}, {"name": 5}, 7, null, {"name": "x.y", "unit": "GB/s", "ratio": []}]}
END
(cd "$out" && "$rpbench" report --out "$out/odd" --from "$out/bad.json" >/dev/null 2>&1) &&
	fail "status 0 with an error in a stored report"
[ -s "$out/odd/report.html" ] || fail "no page of an odd report"
! grep -qE '<(script|u|i|s)>' "$out/odd/report.html" || fail "its page has tags of a file"
grep -qF '&lt;b&gt;&amp;&quot;&#39;' "$out/odd/report.html" || fail "what a file says is not in it"
[ ! -e "$out/ran" ] || fail "a name of a file was run"

# A text that is cut is cut between characters, wherever that is.
for shift in '' x xx; do
	long=$shift$(printf '\u65e5%.0s' {1..300})
	cat >"$out/long.json" <<END
{"machine": {"version": "$long", "revision": "$long", "skipped": {"$long.a": "$long"}},
"commands": [{"name": "$long", "error": "$long"}],
"results": [{"name": "$long.a", "unit": "$long", "median": 1, "ratio": 2, "remark": "$long"},
{"name": "$long.b", "unit": "ns", "median": 1, "ratio": 2, "limit_name": "$long"}]}
END
	"$rpbench" report --out "$out/long" --from "$out/long.json" >/dev/null 2>&1 || true
	iconv -f UTF-8 -t UTF-8 "$out/long/report.html" >/dev/null || fail "its page is no UTF-8"
done

# Names alone are no figure.
echo '{"results": [{"name": "a.x", "unit": "ns", "median": -1, "p99": -2, "limit_name": "a.y"},
{"name": "a.y", "unit": "ns", "median": -1, "p99": -2, "limit_name": "a.x"}]}' >"$out/bad.json"
"$rpbench" report --out "$out/odd" --from "$out/bad.json" >/dev/null
! grep -q '<figure' "$out/odd/report.html" || fail "a figure of nothing"

# One figure alone.
if command -v gnuplot >/dev/null; then
	"$rpbench" device --quick --runs 1 --ops 20 --plot "$out/one.svg" >/dev/null ||
		fail "--plot ended with $?"
	grep -q '<title>Against the limits</title>' "$out/one.svg" || fail "no SVG of --plot"
	! grep -q 'var(--' "$out/one.svg" || fail "its SVG has colours that only a page knows"
	status=0
	said=$("$rpbench" device --quick --runs 1 --ops 20 --plot /dev/full 2>&1 >/dev/null) ||
		status=$?
	[ "$status" -eq 1 ] && [[ $said == *"--plot: '/dev/full': No space left"* ]] ||
		fail "status $status, \"$said\", where a plot has no room"
fi
echo "bench-report: ok"
