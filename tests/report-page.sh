#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The page of rpbench report in headless Chromium: it complains of nothing, asks the
# network for nothing, and each plot is there to be seen.
#
# report-page.sh RPBENCH RECORDED.json
set -euo pipefail

rpbench=$1 recorded=$2
browser=
for name in chromium chromium-headless-shell chromium-browser google-chrome; do
	if command -v "$name" >/dev/null; then
		browser=$name
		break
	fi
done
if [ -z "$browser" ] || ! command -v gnuplot >/dev/null; then
	echo "skipped: needs a headless Chromium and gnuplot (Debian: apt-get install" \
		"chromium gnuplot-nox)"
	exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail()
{
	echo "report page: $*"
	exit 1
}

# browse ARGUMENT...: what it says on stderr goes to $out/said. One that does not come to
# an end by itself is started again, once. Its socket needs a short path.
browse()
{
	local try status=0
	for try in 1 2; do
		status=0
		HOME=$out TMPDIR=/tmp timeout -k 5 60 "$browser" --headless --no-sandbox \
			--disable-gpu --hide-scrollbars --disable-background-networking --no-first-run \
			--user-data-dir="$out/profile-$((++started))" \
			--host-resolver-rules='MAP * ~NOTFOUND' --enable-logging=stderr \
			--log-level=0 --window-size=1000,1000 "$@" >"$out/dom" 2>"$out/said" ||
			status=$?
		[ "$status" -eq 124 ] || break
	done
	[ "$status" -eq 0 ] || fail "try $try: the browser ended with $status"
	! grep -E ':CONSOLE[:(]' "$out/said" || fail "it has messages on its console"
}
started=0

"$rpbench" report --out "$out" --from "$recorded" >/dev/null

# What could be asked of anybody would stand behind one of these.
asked=$(grep -oiE '(src|srcset|data|action)=|href="[^#][^"]*|href=.[^#"]|url\([^#]|@import|<(script|link|iframe|object|embed|img|base)' \
	"$out/report.html" | sort -u || true)
[ -z "$asked" ] || fail "it has $asked"

# As it is: no message of the page, and a picture.
browse --screenshot="$out/page.png" "file://$out/report.html"
[ -s "$out/page.png" ] || fail "there is no picture of it"

# The page itself has no script. What looks at it here is put behind it: boxes of the
# plots, colours that are known, ids that are unique, and a width that fits.
cat >"$out/look.html" <<'END'
<script>
(() => {
	const said = [], ids = new Set();
	const plots = document.querySelectorAll('figure svg');
	for (const svg of plots) {
		const title = svg.querySelector('title').textContent;
		const box = svg.getBoundingClientRect();
		let drawn = 0, texts = 0;
		for (const part of svg.querySelectorAll('polygon, path, use, text')) {
			const at = part.getBoundingClientRect();
			if (at.width + at.height <= 0)
				continue;
			drawn++;
			texts += part.tagName === 'text';
			const style = getComputedStyle(part);
			if (part.tagName === 'text' && (style.fill === 'none' ||
			    at.left < box.left - 1 || at.right > box.right + 1))
				said.push(`${title}: "${part.textContent}" is not in it`);
			if (part.tagName === 'polygon' && style.fill === 'none')
				said.push(`${title}: a bar without a colour`);
		}
		if (box.width < 200 || box.height < 60 || drawn < 8 || texts < 3)
			said.push(`${title}: ${box.width} x ${box.height}, ${drawn} parts`);
	}
	for (const one of document.querySelectorAll('[id]')) {
		if (ids.has(one.id))
			said.push(`id ${one.id} twice`);
		ids.add(one.id);
	}
	for (const link of document.querySelectorAll('nav a'))
		if (!ids.has(link.getAttribute('href').slice(1)))
			said.push(`${link.getAttribute('href')} leads nowhere`);
	if (performance.getEntriesByType('resource').length)
		said.push('it loads something');
	if (document.documentElement.scrollWidth > innerWidth)
		said.push(`${document.documentElement.scrollWidth} wide in ${innerWidth}`);
	const style = getComputedStyle(document.body);
	top.document.title = `LOOKED plots=${plots.length} ` +
		`paper=${style.backgroundColor} ink=${style.color} bad=${said.length} ` +
		said.join('; ');
})();
</script>
END
cat "$out/report.html" "$out/look.html" >"$out/wide.html"
# A window is never as narrow as a phone, a frame in it is.
{
	echo '<!doctype html><title></title>'
	printf '<iframe width="360" height="800" srcdoc="'
	sed 's/&/\&amp;/g; s/"/\&quot;/g' "$out/wide.html"
	echo '"></iframe>'
} >"$out/phone.html"

# look NAME PAGE ARGUMENT...: sets $seen.
look()
{
	local name=$1 page=$2
	shift 2
	browse --dump-dom "$@" "file://$out/$page.html"
	seen=$(grep -o '<title>LOOKED [^<]*' "$out/dom" || true)
	[ -n "$seen" ] || fail "$name: nothing was seen, $(head -c 300 "$out/said")"
	case $seen in
	*' bad=0 '*) ;;
	*) fail "$name: ${seen#*LOOKED }" ;;
	esac
}

look 'a wide window' wide
want=$(grep -c '<figure>' "$out/report.html" || true)
[[ $seen == *" plots=$want "* ]] || fail "$seen, expected $want plots"
[ "$want" -ge 10 ] || fail "$want figures in the recorded report, expected 10 or more"
light=$seen
look 'a phone' phone
look 'a dark one' wide --blink-settings=preferredColorScheme=0
[ "${light#*paper=}" != "${seen#*paper=}" ] || fail "dark is as light is: $seen"
echo "report-page: ok, $want plots"
