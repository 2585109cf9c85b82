/* SPDX-License-Identifier: MIT */
#include "process/hygiene.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define FIRST_DESCRIPTOR 3

void rpi_child_bind_to_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Before that line the parent's death was not told: look. */
	if (getppid() != parent)
		_exit(0);
}

void rpi_child_reset_signals(void)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t none;
	int sig;

	/* The forking thread had everything blocked: no handler of the parent can
	 * run here before it is gone. Refused for SIGKILL, SIGSTOP and libc's own. */
	for (sig = 1; sig < NSIG; sig++)
		sigaction(sig, sig == SIGINT ? &ignore : &plain, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int by_number(const void *a, const void *b)
{
	int left = *(const int *)a;
	int right = *(const int *)b;

	return (left > right) - (left < right);
}

static int kept(int fd, const int *keep, size_t keep_count)
{
	size_t i;

	for (i = 0; i < keep_count; i++)
		if (keep[i] == fd)
			return 1;
	return 0;
}

/* Kernels without close_range(). */
static void close_listed(const int *keep, size_t keep_count)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (fd >= FIRST_DESCRIPTOR && fd != dirfd(dir) &&
		    !kept(fd, keep, keep_count))
			close(fd);
	}
	closedir(dir);
}

static int close_span(unsigned int first, unsigned int last)
{
	if (first > last)
		return 0;
	return (int)syscall(SYS_close_range, first, last, 0);
}

void rpi_child_close_descriptors(int *keep, size_t keep_count)
{
	unsigned int next = FIRST_DESCRIPTOR;
	size_t i;

	qsort(keep, keep_count, sizeof(*keep), by_number);
	for (i = 0; i < keep_count; i++) {
		if (keep[i] < (int)next)
			continue;
		if (close_span(next, (unsigned int)keep[i] - 1)) {
			close_listed(keep, keep_count);
			return;
		}
		next = (unsigned int)keep[i] + 1;
	}
	if (close_span(next, UINT32_MAX))
		close_listed(keep, keep_count);
}

void rpi_child_name(const char *name)
{
	prctl(PR_SET_NAME, name);
}

int rpi_child_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return 0;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return rpi_fail(-errno,
				"chip_cpus names CPU %d, which this process may not use",
				cpu);
	return 0;
}
