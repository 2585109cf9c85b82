#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The decode program's command line: what it refuses, and what it prints.
#
# decode-cli.sh DECODE
set -euo pipefail

decode=$1
failed=0

# refuses TEXT ARGUMENT...: it ends with 1 and a line that has TEXT.
refuses()
{
	local text=$1 said status=0
	shift
	said=$("$decode" "$@" 2>&1 >/dev/null) || status=$?
	if [ "$status" -ne 1 ] || [[ $said != *"$text"* ]]; then
		echo "decode $*: status $status, \"$said\", expected 1 and \"$text\""
		failed=1
	fi
}

refuses '--no-such-thing' --no-such-thing
refuses '"word", expected options only' word
refuses '--chips: "0", expected a number from 1 to' --chips 0
refuses '--chips: "two", expected a number from 1 to' --chips two
refuses '--chips: "4294967298", expected a number from 1 to' --chips 4294967298
refuses '3 chips for 8 heads, 4 of keys, and 172 hidden rows, expected one of 1, 2, 4' \
	--chips 3
refuses '--steps: "-1", expected a number from 0 to' --steps -1
refuses '--steps: "", expected a number from 0 to' --steps ''
refuses '--seed: "9223372036854775808", expected a number from' \
	--seed 9223372036854775808
refuses '--temperature: "-1", expected a finite number, 0 or more' --temperature -1
refuses '--temperature: "nan", expected a finite number, 0 or more' --temperature nan
refuses '--temperature: "inf", expected a finite number, 0 or more' --temperature inf
refuses '--temperature: "1e39", expected a finite number, 0 or more' --temperature 1e39
refuses '--temperature: "", expected a finite number, 0 or more' --temperature ''
refuses '--top-p: "0", expected above 0, at most 1' --top-p 0
refuses '--top-p: "1.5", expected above 0' --top-p 1.5
refuses '--top-p: "inf", expected above 0, at most 1' --top-p inf
# Nothing is left of it in a float, which would let all pass.
refuses '--top-p: "1e-300", expected above 0' --top-p 1e-300
refuses '--wait: "sleep", expected one of hybrid, spin, block' --wait sleep
refuses '--weights: "disk", expected one of resident, host' --weights disk
refuses '--sample: "dice", expected one of host, callback, chip' --sample dice
refuses 'without --tokenizer, expected both' --model /nowhere/model.bin
refuses 'without --model, expected both' --tokenizer /nowhere/tok.bin
refuses '/nowhere/model.bin' --model /nowhere/model.bin --tokenizer /nowhere/tok.bin
refuses '--prompt: 14 tokens, expected at most 13: steps' --steps 13 \
	--prompt 'Once upon a time'
# It names no option that was not given.
refuses 'no --prompt, so that it is "Once upon a time": 14 tokens, expected at most 6' \
	--steps 6
# Its tokens are not counted first, which would take minutes.
refuses 'tokens or more, expected at most 512: steps' --steps 0 \
	--prompt "$(printf '%0100000d' 0)"
said=$("$decode" --steps 2 --prompt 'a long prompt' 2>/dev/null) || true
if [ -n "$said" ]; then
	echo "decode: \"$said\" of a prompt that is refused, expected nothing"
	failed=1
fi

# What can't be written is an error, also where no stream is there to write to: the
# program's files do not take its place.
for where in /dev/full '&-'; do
	status=0
	said=$(eval '"$decode" --steps 20 2>&1 '">$where") || status=$?
	if [ "$status" -ne 1 ] || [[ $said != *'decode: stdout: '* ]]; then
		echo "decode >$where: status $status, \"$said\", expected 1 and a line"
		failed=1
	fi
done

first=$("$decode" --ids --steps 30 --chips 1 2>/dev/null)
for options in '--chips 2' '--chips 4 --no-persistent' \
	'--chips 2 --no-persistent --no-reset' '--chips 2 --no-reset --wait block' \
	'--chips 2 --wait spin' '--chips 1 --wait spin --no-persistent' \
	'--chips 3 --chips 2 --wait spin --wait hybrid' '--chips 2 --weights host' \
	'--chips 4 --sample chip' '--chips 2 --sample callback'; do
	# Parted on purpose.
	# shellcheck disable=SC2086
	ids=$("$decode" --ids --steps 30 $options 2>/dev/null)
	if [ "$ids" != "$first" ]; then
		echo "decode $options: \"$ids\", expected \"$first\""
		failed=1
	fi
done
summary=$("$decode" --steps 30 2>&1 >/dev/null)
for word in tokens/s chips ringplane fixed windows copies ' 0 bytes in' rest; do
	if [[ $summary != *"$word"* ]]; then
		echo "decode: no \"$word\" in its summary: $summary"
		failed=1
	fi
done

# A chip that is killed in the middle: the program says so and ends with 1.
said=$(mktemp)
"$decode" --chips 4 --steps 500 --weights host --no-persistent >/dev/null 2>"$said" &
pid=$!
chip=
until [ -n "$chip" ] || ! kill -0 "$pid" 2>/dev/null; do
	chip=$(cat "/proc/$pid/task/"*/children 2>/dev/null | tr ' ' '\n' | sed -n 2p)
done
[ -z "$chip" ] || kill -KILL "$chip"
status=0
wait "$pid" || status=$?
if [ "$status" -ne 1 ] || ! grep -q 'killed by signal 9' "$said"; then
	echo "decode with a chip killed: status $status, $(cat "$said")"
	failed=1
fi
rm -f "$said"
[ "$failed" -eq 0 ] || exit 1
echo "decode-cli: ok"
