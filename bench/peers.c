/* SPDX-License-Identifier: MIT */
/* rpbench peers: what other transports between two processes take for the same bytes. */
#include "base/error.h"
#include "command.h"
#include "copy_bed.h"
#include "dispatch_bed.h"
#include "transport_run.h"

/* Programs that this build has; passed by it. */
#ifndef RPBENCH_UCX
#define RPBENCH_UCX NULL
#endif
#ifndef RPBENCH_ZMQ
#define RPBENCH_ZMQ NULL
#endif
#ifndef RPBENCH_MPI
#define RPBENCH_MPI NULL
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define PAYLOAD	     "limits.pingpong.payload"
#define MEMCPY	     "copy.memcpy.h2d.staged.64MiB"

#define RUN_COPIES   64
#define QUICK_COPIES 8

static const struct transport_kind ucx = { .name = "UCX",
					   .package = "libucx-dev",
					   .program = RPBENCH_UCX };
static const struct transport_kind mpi = { .name = "Open MPI",
					   .package = "libopenmpi-dev",
					   .program = RPBENCH_MPI,
					   .launched = true };
static const struct transport_kind zmq = { .name = "ZeroMQ",
					   .package = "libzmq3-dev",
					   .program = RPBENCH_ZMQ };

/* The other way of a large message, which no setting of theirs takes by itself where it
 * is the faster one. */
static const struct transport_kind ucx_pieces = {
	.name = "UCX", .package = "libucx-dev", .program = RPBENCH_UCX, .pieces = true
};
static const struct transport_kind mpi_pieces = { .name = "Open MPI",
						  .package = "libopenmpi-dev",
						  .program = RPBENCH_MPI,
						  .launched = true,
						  .pieces = true };

static const struct transport_variant rtts[] = {
	{ "peers.ucx.rtt.64B", PAYLOAD, &ucx, TRANSPORT_RTT },
	{ "peers.mpi.rtt.64B", PAYLOAD, &mpi, TRANSPORT_RTT },
	{ "peers.zmq.rtt.64B", PAYLOAD, &zmq, TRANSPORT_RTT },
}, copies[] = {
	{ "peers.ucx.copy.64MiB", MEMCPY, &ucx, TRANSPORT_COPY },
	{ "peers.ucx.copy.64MiB.pieces", MEMCPY, &ucx_pieces, TRANSPORT_COPY },
	{ "peers.mpi.copy.64MiB", MEMCPY, &mpi, TRANSPORT_COPY },
	{ "peers.mpi.copy.64MiB.pieces", MEMCPY, &mpi_pieces, TRANSPORT_COPY },
	{ "peers.zmq.copy.64MiB", MEMCPY, &zmq, TRANSPORT_COPY },
};

static int add(struct bench_plan *plan, const struct transport_variant *variant,
	       bool quick)
{
	struct bench_case c = { .unit = "ns",
				.limits = variant->limits,
				.arg = variant,
				.setup = transport_setup,
				.round = transport_round,
				.teardown = transport_teardown };

	if (variant->what == TRANSPORT_COPY) {
		c.unit = "GB/s";
		c.per_sample = (double)TRANSPORT_BIG_BYTES;
		c.ops_max = quick ? QUICK_COPIES : RUN_COPIES;
	}
	rpi_format(c.name, sizeof(c.name), "%s", variant->name);
	return bench_plan_add(plan, &c);
}

static int peers_plan(struct bench_plan *plan, const struct bench_options *options)
{
	static const struct dispatch_variant rtt[] = {
		{ .name = PAYLOAD },
		{ .name = "peers.ringplane.rtt.64B",
		  .limits = PAYLOAD,
		  .wait = RP_WAIT_SPIN,
		  .pair_count = 1,
		  .round = dispatch_args_round },
	};
	static const struct copy_variant copy = { .bytes = TRANSPORT_BIG_BYTES,
						  .way = COPY_H2D,
						  .path = COPY_STAGED,
						  .chip_count = 1 };
	int err = 0;

	for (size_t i = 0; !err && i < COUNT(rtt); i++)
		err = dispatch_bed_plan(plan, &rtt[i]);
	for (size_t i = 0; !err && i < COUNT(rtts); i++)
		err = add(plan, &rtts[i], options->quick);
	if (!err)
		err = copy_bed_plan(plan, options, &copy, "peers.ringplane.copy.64MiB",
				    MEMCPY);
	for (size_t i = 0; !err && i < COUNT(copies); i++)
		err = add(plan, &copies[i], options->quick);
	return err;
}

const struct bench_command bench_peers_command = {
	.name = "peers",
	.summary = "UCX, Open MPI and ZeroMQ with the same bytes",
	.plan = peers_plan,
};
