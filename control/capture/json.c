/* SPDX-License-Identifier: MIT */
#include "capture/json.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "program/program.h"
#include "worker/worker.h"

json_t *rpi_cap_u64(uint64_t value)
{
	return json_integer((json_int_t)value);
}

json_t *rpi_cap_text(const char *text)
{
	json_t *value = json_string(text);
	char plain[RPI_ERROR_BYTES];

	if (value)
		return value;
	rpi_utf8_copy(plain, sizeof(plain), text);
	return json_string(plain);
}

void rpi_cap_add(json_t **array, json_t *value)
{
	if (!json_array_append_new(*array, value))
		return;
	json_decref(*array);
	*array = NULL;
}

bool rpi_cap_set(json_t *object, const char *key, json_t *value)
{
	return !json_object_set_new(object, key, value);
}

static json_t *processes(struct rpi_session *session)
{
	const uint32_t peers = session->worker->plane.peer_count;
	json_t *all = json_array();
	uint32_t peer, number;

	for (peer = 0; all && peer <= peers; peer++) {
		const char *kind = rpi_session_kind(session, peer, &number);

		rpi_cap_add(&all,
			    json_pack("{s:i, s:s, s:i, s:i}", "peer",
				      peer < peers ? (int)peer : -1, "kind", kind,
				      "number", (int)number, "pid", session->pids[peer]));
	}
	return all;
}

json_t *rpi_cap_head(struct rpi_session *session, const char *format, uint32_t of)
{
	const struct rpi_capture_run *run = rpi_session_timed(session);
	json_t *head = json_object();
	uint32_t number;
	bool ok;

	ok = rpi_cap_set(head, "format", json_string(format)) &&
	     rpi_cap_set(head, "version", json_integer(1)) &&
	     rpi_cap_set(head, "program", rpi_cap_text(session->offer->program->name)) &&
	     rpi_cap_set(head, "run", rpi_cap_u64(run->run)) &&
	     rpi_cap_set(head, "passes", json_integer(session->pass)) &&
	     rpi_cap_set(head, "status", json_integer(session->status)) &&
	     rpi_cap_set(head, "processes", processes(session));
	if (ok && session->status)
		ok = rpi_cap_set(head, "error", rpi_cap_text(session->text));
	if (ok && of != RPI_PLACE_ALL) {
		const char *kind = rpi_session_kind(session, of, &number);

		ok = rpi_cap_set(
			head, "of",
			json_pack("{s:s, s:i}", "kind", kind, "number", (int)number));
	}
	if (ok)
		return head;
	json_decref(head);
	return NULL;
}

int rpi_cap_put(FILE *file, json_t *root, size_t flags)
{
	if (!root)
		return rpi_session_no_memory();
	/* Where the file is at fault its own error says how: see rpi_place_write(). */
	if (json_dumpf(root, file, flags) && !ferror(file))
		return rpi_session_no_memory();
	fputc('\n', file);
	return 0;
}

static int put(FILE *file, void *context)
{
	return rpi_cap_put(file, context, JSON_INDENT(1));
}

int rpi_cap_write(struct rpi_session *session, uint32_t peer, const char *name,
		  json_t *root)
{
	int err;

	if (!root)
		return rpi_session_no_memory();
	err = rpi_place_write(&session->place, peer, name, put, root);
	json_decref(root);
	return err;
}
