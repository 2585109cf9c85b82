/* SPDX-License-Identifier: MIT */
/* One line that says what was wrong, as the library's own calls leave one. */
#ifndef DECODE_FAIL_H
#define DECODE_FAIL_H

/* Write the line and return `err`. */
int decode_fail(int err, const char *format, ...)
	__attribute__((cold, format(printf, 2, 3)));

/* Hand on the outcome of a ringplane call, and its line if it failed. */
int decode_pass(int err);

/* This thread's last line. */
const char *decode_error(void);

#endif
