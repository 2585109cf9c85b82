# SPDX-License-Identifier: MIT
# A public header as doxygen wants it: each comment at the margin documents what follows.
# Its first paragraph becomes text; what comes after it is laid out by hand and stays so.
# Comments behind a member on its own line document that member.

function shown(line)
{
	sub(/^ \* ?/, "", line)
	return line
}

# "/* text */" behind code.
!inside && /^[ \t].*[;,][ \t]*\/\* .*\*\/$/ { sub(/\/\* /, "/**< "); print; next }
# "/* text */" above a member, also of several lines.
!inside && /^[ \t]+\/\* / { sub(/\/\* /, "/** "); print; next }

!inside && /^\/\* .*\*\/$/ && !/SPDX/ { sub(/^\/\*/, "/**"); print; next }
!inside && /^\/\*/ && !/\*\/$/ {
	inside = 1
	laid_out = 0
	line = $0
	sub(/^\/\* ?/, "", line)
	print "/** " line
	next
}
inside && /\*\/$/ {
	line = $0
	sub(/ ?\*\/$/, "", line)
	if (line != "")
		print shown(line)
	if (laid_out)
		print "@endverbatim"
	print "*/"
	inside = 0
	next
}
inside && /^ \*$/ && !laid_out { print ""; print "@verbatim"; laid_out = 1; next }
inside { print shown($0); next }
{ print }
