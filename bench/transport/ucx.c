/* SPDX-License-Identifier: MIT */
/* UCX: tagged messages of UCP between two workers, over shared memory alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "base/error.h"
#include "transport.h"

#define TAG 1

struct ucx {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h peer;
};

static int refuse(const char *what, ucs_status_t status)
{
	return rpi_fail(-EIO, "%s: %s", what, ucs_status_string(status));
}

static int make_context(const struct transport *t, struct ucx *u)
{
	const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				      .features = UCP_FEATURE_TAG };
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return refuse("ucp_config_read", status);
	/* Without it a message might go by way of a network. */
	status = ucp_config_modify(config, "TLS",
				   t->words->cma ? "shm,self" : "posix,sysv,self");
	if (status == UCS_OK)
		status = ucp_init(&params, config, &u->context);
	ucp_config_release(config);
	return status == UCS_OK ? 0 : refuse("ucp_init", status);
}

static int make_worker(struct ucx *u)
{
	const ucp_worker_params_t params = { .field_mask =
						     UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					     .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucs_status_t status = ucp_worker_create(u->context, &params, &u->worker);

	return status == UCS_OK ? 0 : refuse("ucp_worker_create", status);
}

static int make_endpoint(struct transport *t, struct ucx *u)
{
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	ucp_address_t *address;
	const void *other;
	size_t bytes;
	ucs_status_t status = ucp_worker_get_address(u->worker, &address, &bytes);
	int err;

	if (status != UCS_OK)
		return refuse("ucp_worker_get_address", status);
	err = transport_swap(t, address, bytes, &other);
	ucp_worker_release_address(u->worker, address);
	if (err)
		return err;
	params.address = other;
	status = ucp_ep_create(u->worker, &params, &u->peer);
	return status == UCS_OK ? 0 : refuse("ucp_ep_create", status);
}

/* What the endpoint's lanes go by, from what UCX prints of it. */
static void note(struct transport *t, const struct ucx *u)
{
	unsigned int major, minor, release;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	ucp_ep_print_info(u->peer, out);
	fclose(out);
	ucp_get_version(&major, &minor, &release);
	rpi_format(t->words->side[t->side].note, BENCH_TEXT_BYTES,
		   "UCX %u.%u.%u, UCP tagged messages over %s%s; both sides poll", major,
		   minor, release, strstr(text, "sysv/") ? "sysv" : "posix",
		   strstr(text, "cma/")	   ? ", large ones by cma"
		   : strstr(text, "xpmem") ? ", large ones by xpmem"
					   : ", large ones in pieces");
	free(text);
}

static int finish(struct transport *t, struct ucx *u, ucs_status_ptr_t request)
{
	ucs_status_t status;
	uint32_t looks = 0;

	if (!request)
		return 0;
	if (UCS_PTR_IS_ERR(request))
		return refuse("ucp_tag", UCS_PTR_STATUS(request));
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
		ucp_worker_progress(u->worker);
		if (rpi_unlikely(!(++looks & 0xfffff)))
			transport_check(t);
	}
	ucp_request_free(request);
	return status == UCS_OK ? 0 : refuse("ucp_tag", status);
}

int transport_send(struct transport *t, const void *from, size_t bytes)
{
	static const ucp_request_param_t param;
	struct ucx *u = t->data;

	return finish(t, u, ucp_tag_send_nbx(u->peer, from, bytes, TAG, &param));
}

int transport_recv(struct transport *t, void *into, size_t bytes, const void **at_out)
{
	static const ucp_request_param_t param;
	struct ucx *u = t->data;

	*at_out = into;
	return finish(t, u,
		      ucp_tag_recv_nbx(u->worker, into, bytes, TAG, UINT64_MAX, &param));
}

int transport_open(struct transport *t)
{
	static struct ucx ucx;
	unsigned char byte = 0;
	const void *at;
	int err = make_context(t, &ucx);

	if (!err)
		err = make_worker(&ucx);
	if (!err)
		err = make_endpoint(t, &ucx);
	t->data = &ucx;
	/* The lanes are only known when both have heard of each other. */
	if (!err)
		err = transport_send(t, &byte, 1);
	if (!err)
		err = transport_recv(t, &byte, 1, &at);
	if (!err)
		note(t, &ucx);
	return err;
}

void transport_close(struct transport *t)
{
	static const ucp_request_param_t param;
	struct ucx *u = t->data;

	finish(t, u, ucp_ep_close_nbx(u->peer, &param));
	ucp_worker_destroy(u->worker);
	ucp_cleanup(u->context);
}
