/* SPDX-License-Identifier: MIT */
/* Open MPI: MPI_Send and MPI_Recv between two ranks that mpirun has started. */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "transport.h"

#define TAG	    1
#define SINGLE_COPY "OMPI_MCA_btl_vader_single_copy_mechanism"

/* Where a process may not read another's memory Open MPI finds out too late. */
static int cma_works(void)
{
	char from = 1, to = 0;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static int refuse(const char *what, int code)
{
	char text[MPI_MAX_ERROR_STRING];
	int length;

	if (MPI_Error_string(code, text, &length))
		rpi_format(text, sizeof(text), "error %d", code);
	return rpi_fail(-EIO, "%s: %s", what, text);
}

int transport_send(struct transport *t, const void *from, size_t bytes)
{
	int code = MPI_Send(from, (int)bytes, MPI_BYTE, !t->side, TAG, MPI_COMM_WORLD);

	return rpi_unlikely(code) ? refuse("MPI_Send", code) : 0;
}

int transport_recv(struct transport *t, void *into, size_t bytes, const void **at_out)
{
	int code = MPI_Recv(into, (int)bytes, MPI_BYTE, !t->side, TAG, MPI_COMM_WORLD,
			    MPI_STATUS_IGNORE);

	*at_out = into;
	return rpi_unlikely(code) ? refuse("MPI_Recv", code) : 0;
}

int transport_open(struct transport *t)
{
	int cma = t->words->cma && cma_works(), code, ranks, rank;

	if (!cma)
		setenv(SINGLE_COPY, "none", 1);
	code = MPI_Init(NULL, NULL);
	if (code)
		return refuse("MPI_Init", code);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (ranks != 2 || rank != (int)t->side)
		return rpi_fail(-EIO, "MPI_Init: rank %d of %d, expected %d of 2", rank,
				ranks, (int)t->side);
	rpi_format(t->words->side[t->side].note, BENCH_TEXT_BYTES,
		   "Open MPI %d.%d.%d, ob1 over vader (shared memory)%s; both sides poll",
		   OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION,
		   cma ? ", large ones by cma" : ", large ones in pieces");
	return 0;
}

void transport_close(struct transport *t)
{
	(void)t;
	MPI_Finalize();
}
