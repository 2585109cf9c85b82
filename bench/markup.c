/* SPDX-License-Identifier: MIT */
#include "markup.h"

#include <ctype.h>

void markup_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '<')
			fputs("&lt;", out);
		else if (c == '>')
			fputs("&gt;", out);
		else if (c == '&')
			fputs("&amp;", out);
		else if (c == '"')
			fputs("&quot;", out);
		else if (c == '\'')
			fputs("&#39;", out);
		else if (c < ' ' || c == 0x7f) /* none of them is allowed in XML */
			fputc(' ', out);
		else
			fputc(c, out);
	}
}

void markup_id(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(isalnum((unsigned char)*text) || *text == '.' || *text == '-'
			      ? *text
			      : '-',
		      out);
}
