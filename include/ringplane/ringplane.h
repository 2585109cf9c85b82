/* SPDX-License-Identifier: MIT */
/* All of ringplane's public interface. */
#ifndef RINGPLANE_RINGPLANE_H
#define RINGPLANE_RINGPLANE_H

#include <ringplane/artifact.h>
#include <ringplane/benchmark.h>
#include <ringplane/capture.h>
#include <ringplane/chip.h>
#include <ringplane/chip_worker.h>
#include <ringplane/comm.h>
#include <ringplane/device.h>
#include <ringplane/domain.h>
#include <ringplane/error.h>
#include <ringplane/handle.h>
#include <ringplane/host.h>
#include <ringplane/kernel.h>
#include <ringplane/memory.h>
#include <ringplane/oneshot.h>
#include <ringplane/program.h>
#include <ringplane/recording.h>
#include <ringplane/run.h>
#include <ringplane/stats.h>
#include <ringplane/tensor.h>
#include <ringplane/trace.h>
#include <ringplane/worker.h>

#endif
