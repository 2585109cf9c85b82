/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/error.h"
#include "sysfile.h"

struct bench_clock bench_clock = { .tsc = false, .ns_per_tick = 1.0 };

#if defined(__x86_64__)
/* The processor says that the counter never changes its pace, and the kernel
 * has not given it up for another source. */
static bool tsc_trusted(void)
{
	static const char *const good[] = { "tsc", "kvm-clock",
					    "hyperv_clocksource_tsc_page" };
	unsigned int eax, ebx, ecx, edx;
	char source[64];

	if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & (1u << 8)))
		return false;
	if (bench_sysfile_line("/sys/devices/system/clocksource/clocksource0/"
			       "current_clocksource",
			       source, sizeof(source)))
		return false;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!strcmp(source, good[i]))
			return true;
	return false;
}

/* A counter and a clock read as close together as the machine lets them: of
 * several tries the one with the shortest distance. */
static void read_pair(uint64_t *ticks_out, uint64_t *ns_out)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 16; i++) {
		uint64_t before = __builtin_ia32_rdtsc();
		uint64_t ns = rpi_now_ns();
		uint64_t after = __builtin_ia32_rdtsc();

		if (after - before < best) {
			best = after - before;
			*ticks_out = before + (after - before) / 2;
			*ns_out = ns;
		}
	}
}

static double tsc_ns_per_tick(uint64_t window_ns)
{
	uint64_t ticks0 = 0, ticks1 = 0, ns0 = 0, ns1 = 0;

	read_pair(&ticks0, &ns0);
	do {
		read_pair(&ticks1, &ns1);
	} while (ns1 - ns0 < window_ns);
	return ticks1 > ticks0 ? (double)(ns1 - ns0) / (double)(ticks1 - ticks0) : 0.0;
}
#endif

void bench_clock_init(void)
{
#if defined(__x86_64__)
	double first, second;

	if (!tsc_trusted())
		return;
	first = tsc_ns_per_tick(10000000);
	second = tsc_ns_per_tick(10000000);
	/* Two windows that disagree: the counter is not what it claims to be. */
	if (first <= 0.0 || fabs(second / first - 1.0) > 1e-3)
		return;
	bench_clock.ns_per_tick = (first + second) / 2.0;
	bench_clock.tsc = true;
#endif
}

const char *bench_clock_text(void)
{
	static char text[32];

	if (bench_clock.tsc)
		rpi_format(text, sizeof(text), "tsc %.2f GHz",
			   1.0 / bench_clock.ns_per_tick);
	else
		rpi_format(text, sizeof(text), "clock_gettime");
	return text;
}
