/* SPDX-License-Identifier: MIT */
#include "markup.h"

#include <ctype.h>

#include "base/utf8.h"

void markup_text(FILE *out, const char *text)
{
	while (*text) {
		size_t length = rpi_utf8_length(text);
		unsigned char c = (unsigned char)*text;

		/* Part of a character, where a text was cut. */
		if (!length)
			fputc('?', out);
		else if (c == '<')
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
			fwrite(text, 1, length, out);
		text += length ? length : 1;
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
