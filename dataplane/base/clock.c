/* SPDX-License-Identifier: MIT */
/* Decides whether the counter can be used, and how fast it runs. */
#include "base/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define NS_PER_S 1000000000u
#define ONE_32	 ((uint64_t)1 << 32)

/* Two of these are measured. At 20 ns of uncertainty at each end, 200 us give
 * 0.02 %, far more than a spin budget asks for. */
#define MEASURE_NS 200000u

struct rpi_clock rpi_clock = {
	.ns_mult = ONE_32,
	.tick_mult = ONE_32,
	.frequency = NS_PER_S,
	.source = "clock_gettime (not set up)",
};

uint64_t rpi_clock_judge(uint64_t told_hz, uint64_t first_hz, uint64_t second_hz)
{
	uint64_t low = first_hz < second_hz ? first_hz : second_hz;
	uint64_t high = first_hz < second_hz ? second_hz : first_hz;
	uint64_t mean = low + (high - low) / 2;

	/* Below 1 MHz it is no clock for microseconds. */
	if (low < 1000000 || high - low > mean / 100)
		return 0;
	/* What the processor tells is exact when it is true: firmware and
	 * hypervisors have told wrong ones. */
	if (told_hz && (told_hz > mean ? told_hz - mean : mean - told_hz) <= mean / 200)
		return told_hz;
	return mean;
}

#if defined(__x86_64__)

/* The kernel has watched the counter since boot; a clock source that is not
 * based on it says that it did not like what it saw. */
static bool kernel_trusts_tsc(void)
{
	static const char *const names[] = { "tsc\n", "kvm-clock\n",
					     "hyperv_clocksource_tsc_page\n" };
	char text[64];
	ssize_t bytes;
	int fd;

	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return false;
	text[bytes] = 0;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i]))
			return true;
	return false;
}

/* constant_tsc and nonstop_tsc. */
static bool tsc_is_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007u, &a, &b, &c, &d) && d & 1u << 8;
}

/* Leaf 0x15 of the processor, or leaf 0x40000010 of a hypervisor; 0 for neither. */
static uint64_t told_frequency(void)
{
	unsigned a, b, c, d;

	if (__get_cpuid(0x15, &a, &b, &c, &d) && a && b && c)
		return (uint64_t)c * b / a;
	__cpuid(1, a, b, c, d);
	if (!(c & 1u << 31))
		return 0;
	__cpuid(0x40000000u, a, b, c, d);
	if (a < 0x40000010u)
		return 0;
	__cpuid(0x40000010u, a, b, c, d);
	return (uint64_t)a * 1000;
}

struct reading {
	uint64_t tsc, ns;
};

/* Both clocks at the same moment: of a few tries the one least disturbed. */
static struct reading read_both(void)
{
	struct reading best = { 0, 0 };
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < 8; i++) {
		uint64_t before = __builtin_ia32_rdtsc();
		uint64_t ns = rpi_now_ns();
		uint64_t width = __builtin_ia32_rdtsc() - before;

		if (width < best_width) {
			best_width = width;
			best.tsc = before + width / 2;
			best.ns = ns;
		}
	}
	return best;
}

static uint64_t frequency_between(struct reading from, struct reading to)
{
	uint64_t ns = to.ns - from.ns;

	return ns ? (uint64_t)((unsigned __int128)(to.tsc - from.tsc) * NS_PER_S / ns)
		  : 0;
}

static struct reading read_later(uint64_t ns)
{
	while (rpi_now_ns() < ns)
		rpi_cpu_pause();
	return read_both();
}

static void clock_setup_once(void)
{
	struct reading start, middle, end;
	uint64_t hz;

	if (!tsc_is_invariant() || !kernel_trusts_tsc()) {
		rpi_clock.source = "clock_gettime (counter not trusted)";
		return;
	}
	start = read_both();
	middle = read_later(start.ns + MEASURE_NS);
	end = read_later(middle.ns + MEASURE_NS);
	hz = rpi_clock_judge(told_frequency(), frequency_between(start, middle),
			     frequency_between(middle, end));
	if (!hz) {
		rpi_clock.source = "clock_gettime (counter uneven)";
		return;
	}
	rpi_clock.frequency = hz;
	rpi_clock.ns_mult = (uint64_t)(((unsigned __int128)NS_PER_S << 32) / hz);
	rpi_clock.tick_mult = (uint64_t)(((unsigned __int128)hz << 32) / NS_PER_S);
	rpi_clock.source = "tsc";
	rpi_clock.counter = true;
}

#else

static void clock_setup_once(void)
{
	rpi_clock.source = "clock_gettime";
}

#endif

void rpi_clock_setup(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, clock_setup_once);
}
