/* SPDX-License-Identifier: MIT */
#include "late.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/testing.h"
#include "proc.h"

struct late_hook *late_hooks;

void *late_block(int fill)
{
	return bed_shared(LATE_BYTES, fill);
}

struct rp_tensor late_tensor(void *block, int64_t count)
{
	return bed_tensor(block, RP_INT64, 1, &count);
}

/* The first line of the mapping that holds addr, in a file of /proc that has such. */
static FILE *open_at(pid_t pid, const char *name, const void *addr, char *flags)
{
	char line[512];
	FILE *file;

	snprintf(line, sizeof(line), "/proc/%d/%s", (int)pid, name);
	file = fopen(line, "re");
	while (file && fgets(line, sizeof(line), file)) {
		uintptr_t low, high;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &low, &high, flags) ==
			    3 &&
		    low <= (uintptr_t)addr && (uintptr_t)addr < high)
			return file;
	}
	if (file)
		fclose(file);
	return NULL;
}

bool late_is_mapped(pid_t pid, const void *addr)
{
	char flags[5];
	FILE *file = open_at(pid, "maps", addr, flags);

	if (file)
		fclose(file);
	return file && flags[0] == 'r';
}

long late_resident_kib(pid_t pid, const void *addr)
{
	char flags[5], line[256];
	FILE *file = open_at(pid, "smaps", addr, flags);
	long kib = -1;

	while (file && kib < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "Rss: %ld", &kib) != 1)
			kib = -1;
	if (file)
		fclose(file);
	return kib;
}

struct look {
	struct bed *bed;
	const void *addr;
	bool mapped;
};

static bool all_agree(void *arg)
{
	const struct look *look = arg;
	int pid;

	for (uint32_t peer = 0; (pid = rp_worker_pid(look->bed->worker, peer)); peer++)
		if (late_is_mapped(pid, look->addr) != look->mapped)
			return false;
	return true;
}

bool late_all_mapped(struct bed *bed, const void *addr, bool mapped)
{
	struct look look = { bed, addr, mapped };

	return proc_await(all_agree, &look);
}

static int come_by(const char *point)
{
	for (int which = 0; which < 2; which++) {
		struct late_hook *hook = &late_hooks[which];
		int only = atomic_load(&hook->pid);

		if (strcmp(hook->point, point) || (only && only != getpid()))
			continue;
		atomic_fetch_add(&hook->passed, 1);
		if (atomic_fetch_sub(&hook->left, 1) > 0)
			return 0;
		switch (atomic_load(&hook->deed)) {
		case LATE_DIE:
			kill(getpid(), SIGKILL);
			return 0;
		case LATE_HOLD:
			while (atomic_load(&hook->deed) == LATE_HOLD)
				bed_breathe();
			return 0;
		default:
			return atomic_load(&hook->deed);
		}
	}
	return 0;
}

void late_hook_set(int which, const char *point, int64_t left, int deed)
{
	struct late_hook *hook = &late_hooks[which];

	atomic_store(&hook->deed, deed);
	atomic_store(&hook->left, left);
	atomic_store(&hook->pid, 0);
	atomic_store(&hook->passed, 0);
	snprintf(hook->point, sizeof(hook->point), "%s", point);
	rpi_test_hook = come_by;
}

void late_hook_clear(void)
{
	for (int which = 0; which < 2; which++) {
		late_hooks[which].point[0] = '\0';
		atomic_store(&late_hooks[which].deed, LATE_PASS);
	}
}

int late_setup(void **state)
{
	if (!late_hooks) {
		late_hooks = mmap(NULL, 2 * sizeof(*late_hooks), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (late_hooks == MAP_FAILED)
			return -1;
	}
	/* Before any fork, so that processes have it whatever is set later. */
	rpi_test_hook = come_by;
	late_hook_clear();
	return bed_setup(state);
}

int late_teardown(void **state)
{
	late_hook_clear();
	rpi_test_hook = NULL;
	return bed_teardown(state);
}
