/* SPDX-License-Identifier: MIT */
/* Spans as lines of text, and back. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringplane/trace.h>

#include "base/descriptor.h"
#include "base/error.h"

#define TAG	    "[STRACE] "
#define SUM	    " sum="
#define SUM_DIGITS  8
#define VERSION	    1
#define BATCH	    256
#define FILE_BUFFER 65536

/* FNV-1a: tells cut and mixed lines, not malice. */
static uint32_t checksum(const char *text, size_t bytes)
{
	uint32_t sum = 2166136261u;

	while (bytes--)
		sum = (sum ^ (uint8_t)*text++) * 16777619u;
	return sum;
}

/* A name as one word: what would end it, or begin another marker, in hex. */
static void encode(const char *text, char *out)
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i + 1 < RP_SPAN_NAME_BYTES && text[i]; i++) {
		uint8_t byte = (uint8_t)text[i];

		if (byte > ' ' && byte < 0x7f && !strchr("%=[]", byte)) {
			*out++ = (char)byte;
			continue;
		}
		*out++ = '%';
		*out++ = digits[byte >> 4];
		*out++ = digits[byte & 15];
	}
	*out = 0;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int decode(const char *text, size_t bytes, char *out)
{
	size_t i, at = 0;

	for (i = 0; i < bytes; i++) {
		char c = text[i];

		if (c == '%') {
			if (bytes - i < 3 || digit(text[i + 1]) < 0 ||
			    digit(text[i + 2]) < 0)
				return -EINVAL;
			c = (char)(digit(text[i + 1]) << 4 | digit(text[i + 2]));
			i += 2;
		}
		if (!c || at + 1 >= RP_SPAN_NAME_BYTES)
			return -EINVAL;
		out[at++] = c;
	}
	out[at] = 0;
	return 0;
}

int rp_marker_format(const struct rp_span *span, char *buf, size_t bytes)
{
	char task[3 * RP_SPAN_NAME_BYTES], id[3 * RP_SPAN_NAME_BYTES];
	char name[3 * RP_SPAN_NAME_BYTES];
	size_t at;

	if (!span || !buf || bytes < RP_MARKER_BYTES)
		return rpi_fail(-EINVAL,
				"rp_marker_format: %s, expected a span and a buffer of "
				"at least %d bytes",
				!span ? "span NULL" : "no room", RP_MARKER_BYTES);
	encode(span->name, name);
	encode(span->task_name, task);
	encode(span->task_id, id);
	at = rpi_format(buf, bytes,
			TAG "v=%d pid=%d tid=%d peer=%d run=%" PRIu64 " inv=%" PRIu64
			    " hid=%s task=%s dom=%s name=%s ts=%" PRIu64 " dur=%" PRIu64
			    " val=%" PRIu64 " on=%d",
			VERSION, span->pid, span->tid, span->peer, span->run, span->task,
			id, task, span->domain == RP_SPAN_DEVICE ? "dev" : "host", name,
			span->begin_ns, span->duration_ns, span->value, span->follows);
	at += rpi_format(buf + at, bytes - at, SUM "%08x", checksum(buf, at));
	return (int)at;
}

/* --- Parsing -------------------------------------------------------------- */

enum kind {
	TEXT,
	U64,
	I32,
	DOMAIN,
	SAME_VERSION
};

static const struct {
	const char *key;
	enum kind kind;
	size_t at;
} fields[] = {
	{ "v", SAME_VERSION, 0 },
	{ "pid", I32, offsetof(struct rp_span, pid) },
	{ "tid", I32, offsetof(struct rp_span, tid) },
	{ "peer", I32, offsetof(struct rp_span, peer) },
	{ "run", U64, offsetof(struct rp_span, run) },
	{ "inv", U64, offsetof(struct rp_span, task) },
	{ "hid", TEXT, offsetof(struct rp_span, task_id) },
	{ "task", TEXT, offsetof(struct rp_span, task_name) },
	{ "dom", DOMAIN, offsetof(struct rp_span, domain) },
	{ "name", TEXT, offsetof(struct rp_span, name) },
	{ "ts", U64, offsetof(struct rp_span, begin_ns) },
	{ "dur", U64, offsetof(struct rp_span, duration_ns) },
	{ "val", U64, offsetof(struct rp_span, value) },
	{ "on", I32, offsetof(struct rp_span, follows) },
};

#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

static int parse_number(const char *text, size_t bytes, bool is_signed, int64_t *out)
{
	char copy[24];
	char *end;

	if (!bytes || bytes >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, bytes);
	copy[bytes] = 0;
	/* strtoll() would pass over blanks and signs. */
	if (digit(copy[0]) < 0 && !(is_signed && copy[0] == '-'))
		return -EINVAL;
	errno = 0;
	*out = is_signed ? strtoll(copy, &end, 10) : (int64_t)strtoull(copy, &end, 10);
	return *end || errno || (is_signed && *out != (int32_t)*out) ? -EINVAL : 0;
}

static int parse_value(size_t field, const char *text, size_t bytes, struct rp_span *out)
{
	void *at = (char *)out + fields[field].at;
	int64_t number = 0;
	int err;

	switch (fields[field].kind) {
	case TEXT:
		return decode(text, bytes, at);
	case DOMAIN:
		if (bytes == 3 && !memcmp(text, "dev", 3))
			out->domain = RP_SPAN_DEVICE;
		else if (bytes != 4 || memcmp(text, "host", 4))
			return -EINVAL;
		return 0;
	case SAME_VERSION:
		err = parse_number(text, bytes, true, &number);
		return err || number != VERSION ? -EINVAL : 0;
	case I32:
		err = parse_number(text, bytes, true, &number);
		if (!err)
			*(int32_t *)at = (int32_t)number;
		return err;
	case U64:
		err = parse_number(text, bytes, false, &number);
		if (!err)
			*(uint64_t *)at = (uint64_t)number;
		return err;
	}
	return -EINVAL;
}

/* One "key=value". Keys that this version lacks are passed over. */
static int parse_word(const char *text, size_t bytes, uint32_t *seen, struct rp_span *out)
{
	const char *equal = memchr(text, '=', bytes);
	size_t i;

	if (!equal)
		return -EINVAL;
	for (i = 0; i < FIELD_COUNT; i++) {
		size_t length = strlen(fields[i].key);

		if (length != (size_t)(equal - text) ||
		    memcmp(fields[i].key, text, length) != 0)
			continue;
		if (*seen >> i & 1)
			return -EINVAL;
		*seen |= 1u << i;
		return parse_value(i, equal + 1, bytes - length - 1, out);
	}
	return 0;
}

/* The marker that begins here, if it is whole. */
static int parse_at(const char *begin, struct rp_span *out)
{
	const char *at = begin + strlen(TAG);
	const char *end = strstr(at, SUM);
	char digits[SUM_DIGITS + 1];
	uint32_t seen = 0;

	if (!end || strlen(end) < strlen(SUM) + SUM_DIGITS)
		return -EINVAL;
	rpi_format(digits, sizeof(digits), "%08x",
		   checksum(begin, (size_t)(end - begin)));
	if (memcmp(end + strlen(SUM), digits, SUM_DIGITS) != 0)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	while (at < end) {
		size_t bytes = strcspn(at, " ");

		if (parse_word(at, bytes, &seen, out))
			return -EINVAL;
		at += bytes + (at[bytes] == ' ');
	}
	return seen == (1u << FIELD_COUNT) - 1 ? 0 : -EINVAL;
}

int rp_marker_parse(const char *line, struct rp_span *span_out)
{
	const char *at;
	struct rp_span span;

	if (!line || !span_out)
		return rpi_fail(-EINVAL, "rp_marker_parse: %s NULL, expected one",
				line ? "span_out" : "line");
	at = strstr(line, TAG);
	if (!at)
		return -ENOENT;
	/* Behind one that was cut there may be a whole one. */
	for (; at; at = strstr(at + 1, TAG)) {
		if (parse_at(at, &span))
			continue;
		*span_out = span;
		return 0;
	}
	return rpi_fail(-EINVAL,
			"rp_marker_parse: a damaged marker, expected a whole one of "
			"version %d",
			VERSION);
}

/* --- Writing what was recorded -------------------------------------------- */

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Whole lines in one write each time: others may append to the same file. */
static int write_lines(int fd, const struct rp_span *spans, size_t count, char *buffer)
{
	size_t used = 0;
	size_t i;
	int err;

	for (i = 0; i < count; i++) {
		if (FILE_BUFFER - used < RP_MARKER_BYTES + 1) {
			err = write_all(fd, buffer, used);
			if (err)
				return err;
			used = 0;
		}
		used += (size_t)rp_marker_format(&spans[i], buffer + used,
						 RP_MARKER_BYTES);
		buffer[used++] = '\n';
	}
	return write_all(fd, buffer, used);
}

static void log_lines(const struct rp_span *spans, size_t count, char *buffer)
{
	size_t i;

	for (i = 0; i < count; i++) {
		rp_marker_format(&spans[i], buffer, RP_MARKER_BYTES);
		rpi_log_line(RP_LOG_INFO, buffer);
	}
}

int rp_trace_write_markers(struct rp_trace *trace, const char *path)
{
	struct rp_span *spans;
	char *buffer;
	size_t count = 0;
	int fd = -1;
	int err = 0;

	if (!trace)
		return rpi_fail(-EINVAL,
				"rp_trace_write_markers: trace NULL, expected one");
	if (path)
		fd = rpi_descriptor_above_standard(
			open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
	if (path && fd < 0)
		return rpi_fail(fd, "rp_trace_write_markers: '%s': %s", path,
				strerror(-fd));
	spans = calloc(BATCH, sizeof(*spans));
	buffer = malloc(FILE_BUFFER);
	if (!spans || !buffer)
		err = -ENOMEM;
	/* Less than asked for was all; what comes meanwhile is the next call's. */
	for (count = BATCH; !err && count == BATCH;) {
		count = rp_trace_read(trace, spans, BATCH);
		if (path)
			err = write_lines(fd, spans, count, buffer);
		else
			log_lines(spans, count, buffer);
	}
	free(buffer);
	free(spans);
	if (path && close(fd) && !err)
		err = -errno;
	if (err)
		return rpi_fail(err, "rp_trace_write_markers: '%s': %s",
				path ? path : "log", strerror(-err));
	return 0;
}
