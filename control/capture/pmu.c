/* SPDX-License-Identifier: MIT */
/* What the processor counted, a line for each task: pmu.csv. The guide has the format. */
#include "trace/pmu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "capture/collectors.h"
#include "worker/worker.h"

#define FILE_NAME "pmu.csv"

static bool on(const struct rp_capture *asked)
{
	return asked->enable_pmu;
}

/* What /proc says of who may count; "?" where it says nothing. */
static void read_paranoid(char *buf, size_t bytes)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");

	rpi_format(buf, bytes, "?");
	if (!file)
		return;
	if (fgets(buf, (int)bytes, file))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(file);
}

static int check(const char *call)
{
	const int err = rpi_pmu_probe();
	char paranoid[16];

	if (!err)
		return 0;
	read_paranoid(paranoid, sizeof(paranoid));
	return rpi_fail(
		-EOPNOTSUPP,
		"%s: enable_pmu: perf_event_open: %s "
		"(/proc/sys/kernel/perf_event_paranoid is %s), expected a machine "
		"that lets this process count something",
		call, strerror(err), paranoid);
}

static uint32_t wants(const struct rp_capture *asked, uint32_t pass, uint32_t passes)
{
	(void)asked, (void)passes;
	return pass == 1 ? RPI_TRACE_PMU : 0;
}

/* What is known of one task. */
struct row {
	const struct rpi_seen *seen; /* its first record */
	uint64_t begin, end, sum;
	uint64_t on_ns, counting_ns;
	uint64_t count[RPI_PMU_EVENTS];
	uint32_t has;
	bool timed;
};

static void fold(struct row *row, const struct rpi_seen *seen)
{
	const struct rpi_trace_copy *copy = &seen->copy;

	switch (rpi_seen_name(seen)) {
	case RPI_SPAN_PMU_TIME:
		row->timed = true;
		row->begin = copy->begin;
		row->end = copy->end;
		row->sum = copy->value;
		break;
	case RPI_SPAN_PMU_ON:
		row->on_ns = copy->begin;
		row->counting_ns = copy->end;
		break;
	case RPI_SPAN_PMU_COUNT:
		if (copy->value < RPI_PMU_EVENTS) {
			row->count[copy->value] = copy->begin;
			row->has |= 1u << copy->value;
		}
		break;
	default:
		break;
	}
}

/* The task whose records begin at *at_io; moves past them. False: it was not counted. */
static bool next_row(const struct rpi_reading *reading, uint32_t *at_io, struct row *row)
{
	const struct rpi_seen *seen = reading->seen.at;
	const uint32_t past = rpi_reading_next(reading, *at_io);

	memset(row, 0, sizeof(*row));
	row->seen = &seen[*at_io];
	for (; *at_io < past; (*at_io)++)
		fold(row, &seen[*at_io]);
	return row->timed && row->begin <= row->end;
}

struct output {
	struct rpi_session *session;
	uint32_t of; /* RPI_PLACE_ALL, or a process */
};

/* In quotes, which are doubled inside. */
static void put_quoted(FILE *file, const char *text)
{
	char plain[RP_SPAN_NAME_BYTES], *at;

	rpi_utf8_copy(plain, sizeof(plain), text);
	fputc('"', file);
	for (at = plain; *at; at++) {
		if (*at == '"')
			fputc('"', file);
		fputc(*at, file);
	}
	fputc('"', file);
}

static void put_row(const struct output *out, const struct row *row, FILE *file)
{
	const struct rpi_capture_run *run = rpi_session_graph(out->session);
	const struct rpi_seen *seen = row->seen;
	const struct rpi_label *label =
		rpi_labels_find(&out->session->labels, seen->peer, seen->copy.what);
	uint32_t number, i;
	const char *kind = rpi_session_kind(out->session, seen->peer, &number);

	fprintf(file, "%s,%u,%" PRIu64 ",%" PRIu64 ",", kind, number, run->run,
		seen->copy.task_seq);
	put_quoted(file, label ? label->name : "");
	fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%u,%u,%d,%" PRIu64 ",%" PRIu64,
		rpi_scale_ns(&run->scale, row->begin),
		rpi_scale_ns(&run->scale, row->end), RPI_PMU_THREADS(row->sum),
		RPI_PMU_COUNTED(row->sum), RPI_PMU_USER_ONLY(row->sum), row->on_ns,
		row->counting_ns);
	for (i = 0; i < RPI_PMU_EVENTS; i++) {
		fputc(',', file);
		if (row->has >> i & 1)
			fprintf(file, "%" PRIu64, row->count[i]);
	}
	fputc('\n', file);
}

static int put_table(FILE *file, void *context)
{
	const struct output *out = context;
	const struct rpi_reading *reading = &rpi_session_graph(out->session)->reading;
	const struct rpi_seen *seen = reading->seen.at;
	struct row row;
	uint32_t at = 0, i;

	fputs("process,number,run,task,entry,begin_ns,end_ns,threads,counted,user_only,"
	      "on_ns,counting_ns",
	      file);
	for (i = 0; i < RPI_PMU_EVENTS; i++)
		fprintf(file, ",%s", rpi_pmu_columns[i]);
	fputc('\n', file);
	while (at < reading->seen.count) {
		const uint32_t peer = seen[at].peer;

		if (next_row(reading, &at, &row) &&
		    (out->of == RPI_PLACE_ALL || out->of == peer))
			put_row(out, &row, file);
	}
	return 0;
}

/* A process that could count nothing; the first one is told. */
static int fail_counting(struct rpi_session *session, const struct row *row)
{
	const int err = RPI_PMU_ERR(row->sum) ? RPI_PMU_ERR(row->sum) : EIO;
	uint32_t number;
	const char *kind = rpi_session_kind(session, row->seen->peer, &number);

	return rpi_fail(-err, "rp_worker_submit: enable_pmu: %s %u: perf_event_open: %s",
			kind, number, strerror(err));
}

static int judge(struct rpi_session *session)
{
	const struct rpi_reading *reading = &rpi_session_graph(session)->reading;
	uint32_t at = 0, rows = 0;
	struct row row;

	while (at < reading->seen.count) {
		if (!next_row(reading, &at, &row))
			continue;
		if (!RPI_PMU_COUNTED(row.sum))
			return fail_counting(session, &row);
		rows++;
	}
	if (session->status || rows >= session->notes.tasks.count)
		return reading->err ? rpi_session_no_memory() : 0;
	return rpi_fail(
		-ENOBUFS,
		"rp_worker_submit: enable_pmu: %u of %u tasks, the records of the "
		"others were lost; expected fewer kernels beside it",
		rows, session->notes.tasks.count);
}

static int write_files(struct rpi_session *session)
{
	const uint32_t peers = rpi_session_peers(session);
	struct output out = { session, RPI_PLACE_ALL };
	int err;

	err = rpi_place_write(&session->place, RPI_PLACE_ALL, FILE_NAME, put_table, &out);
	for (out.of = 0; !err && out.of < peers; out.of++)
		err = rpi_place_write(&session->place, out.of, FILE_NAME, put_table,
				      &out);
	return err ? err : judge(session);
}

static const char *const files[] = { FILE_NAME, NULL };

const struct rpi_collector rpi_pmu_collector = {
	.on = on,
	.check = check,
	.wants = wants,
	.write = write_files,
	.files = files,
};
