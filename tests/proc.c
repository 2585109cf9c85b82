/* SPDX-License-Identifier: MIT */
#include "proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

uint64_t proc_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void proc_pause_us(unsigned us)
{
	struct timespec time = { .tv_sec = us / 1000000u,
				 .tv_nsec = (long)(us % 1000000u) * 1000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

static FILE *open_of(pid_t pid, const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return fopen(path, "re");
}

/* Calls fn for each entry of a directory whose name is a number. */
static int each_number(const char *path, void (*fn)(long number, void *arg), void *arg)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		count++;
		if (fn)
			fn(atol(entry->d_name), arg);
	}
	closedir(dir);
	return count;
}

int proc_fd_count(pid_t pid)
{
	char path[64];
	int count;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	count = each_number(path, NULL, NULL);
	/* The directory itself was open. */
	return count > 0 && pid == getpid() ? count - 1 : count;
}

int proc_map_count(pid_t pid, const char *needle)
{
	FILE *file = open_of(pid, "maps");
	char line[512];
	int count = 0;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		count += !needle || strstr(line, needle);
	fclose(file);
	return count;
}

int proc_shared_count(pid_t pid)
{
	FILE *file = open_of(pid, "maps");
	char line[512];
	char perms[8];
	int count = 0;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		count += sscanf(line, "%*x-%*x %7s", perms) == 1 && perms[3] == 's';
	fclose(file);
	return count;
}

static bool status_field(pid_t pid, const char *field, char *buf, size_t bytes)
{
	FILE *file = open_of(pid, "status");
	size_t length = strlen(field);
	char line[256];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		if (strncmp(line, field, length) || line[length] != ':')
			continue;
		snprintf(buf, bytes, "%s", line + length + 1);
		found = true;
	}
	fclose(file);
	return found;
}

int proc_thread_count(pid_t pid)
{
	char text[64];

	return status_field(pid, "Threads", text, sizeof(text)) ? atoi(text) : -1;
}

uint64_t proc_status_mask(pid_t pid, const char *field)
{
	char text[64];

	if (!status_field(pid, field, text, sizeof(text)))
		return UINT64_MAX;
	return strtoull(text, NULL, 16);
}

/* The fields of a stat file past the name, which may hold anything. */
static bool stat_fields(const char *path, char *state_out, long *ppid_out,
			uint64_t *ticks_out)
{
	unsigned long long user = 0, system = 0;
	char line[1024];
	FILE *file = fopen(path, "re");
	char *at;
	long ppid = 0;
	char state = 0;
	bool ok;

	if (!file)
		return false;
	ok = fgets(line, sizeof(line), file) && (at = strrchr(line, ')')) &&
	     sscanf(at + 1, " %c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
		    &state, &ppid, &user, &system) == 4;
	fclose(file);
	if (!ok)
		return false;
	*state_out = state;
	*ppid_out = ppid;
	*ticks_out = user + system;
	return true;
}

static bool stat_of(pid_t pid, char *state_out, long *ppid_out, uint64_t *ticks_out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return stat_fields(path, state_out, ppid_out, ticks_out);
}

char proc_state(pid_t pid)
{
	uint64_t ticks;
	char state;
	long ppid;

	return stat_of(pid, &state, &ppid, &ticks) ? state : 0;
}

char proc_thread_state(pid_t tid)
{
	char path[64];
	uint64_t ticks;
	char state;
	long ppid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	return stat_fields(path, &state, &ppid, &ticks) ? state : 0;
}

struct cpu_sum {
	pid_t pid;
	uint64_t ns;
	bool exact;
};

static void add_thread(long tid, void *arg)
{
	struct cpu_sum *sum = arg;
	char file_name[64];
	unsigned long long ns;
	FILE *file;

	snprintf(file_name, sizeof(file_name), "task/%ld/schedstat", tid);
	file = open_of(sum->pid, file_name);
	if (!file)
		return;
	if (fscanf(file, "%llu", &ns) == 1) {
		sum->ns += ns;
		sum->exact = true;
	}
	fclose(file);
}

uint64_t proc_cpu_ns(pid_t pid)
{
	struct cpu_sum sum = { .pid = pid };
	char path[64];
	uint64_t ticks;
	char state;
	long ppid;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	each_number(path, add_thread, &sum);
	if (sum.exact)
		return sum.ns;
	/* A kernel without schedstat counts in ticks. */
	if (!stat_of(pid, &state, &ppid, &ticks))
		return 0;
	return ticks * 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

bool proc_is_gone(pid_t pid)
{
	char state = proc_state(pid);

	return !state || state == 'Z' || state == 'X';
}

void proc_name(pid_t pid, char *buf, size_t bytes)
{
	FILE *file = open_of(pid, "comm");

	buf[0] = '\0';
	if (!file)
		return;
	if (fgets(buf, (int)bytes, file))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(file);
}

struct child_list {
	pid_t parent;
	pid_t *pids;
	int max, count, zombies;
};

static void add_child(long pid, void *arg)
{
	struct child_list *list = arg;
	uint64_t ticks;
	char state;
	long ppid;

	if (!stat_of((pid_t)pid, &state, &ppid, &ticks) || ppid != list->parent)
		return;
	if (list->count < list->max)
		list->pids[list->count] = (pid_t)pid;
	list->count++;
	list->zombies += state == 'Z';
}

int proc_children(pid_t pid, pid_t *pids_out, int max)
{
	struct child_list list = { .parent = pid, .pids = pids_out, .max = max };

	each_number("/proc", add_child, &list);
	return list.count;
}

void proc_fd_link(pid_t pid, int fd, char *buf, size_t bytes)
{
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	length = readlink(path, buf, bytes - 1);
	buf[length < 0 ? 0 : length] = '\0';
}

struct holder {
	pid_t pid;
	struct stat file;
	bool holds;
};

static void compare_fd(long fd, void *arg)
{
	struct holder *holder = arg;
	struct stat file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%ld", (int)holder->pid, fd);
	if (!stat(path, &file) && file.st_dev == holder->file.st_dev &&
	    file.st_ino == holder->file.st_ino)
		holder->holds = true;
}

bool proc_holds(pid_t pid, int fd)
{
	struct holder holder = { .pid = pid };
	char path[64];

	if (fstat(fd, &holder.file))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	each_number(path, compare_fd, &holder);
	return holder.holds;
}

void proc_census_take(struct proc_census *census_out)
{
	struct child_list list = { .parent = getpid() };
	pid_t self = getpid();

	census_out->fds = proc_fd_count(self);
	census_out->memfds = proc_map_count(self, "/memfd:");
	census_out->rings = proc_map_count(self, "[io_uring]");
	census_out->threads = proc_thread_count(self);
	each_number("/proc", add_child, &list);
	census_out->children = list.count;
	census_out->zombies = list.zombies;
}

struct census_pair {
	struct proc_census before, now;
};

static bool census_equal(void *arg)
{
	struct census_pair *pair = arg;

	proc_census_take(&pair->now);
	return !memcmp(&pair->before, &pair->now, sizeof(pair->now));
}

static void print_census(const char *when, const struct proc_census *census)
{
	fprintf(stderr,
		"%s: %d descriptors, %d memfd and %d ring mappings, %d threads, %d "
		"children, %d zombies\n",
		when, census->fds, census->memfds, census->rings, census->threads,
		census->children, census->zombies);
}

static void print_fd(long fd, void *arg)
{
	char link[128];

	(void)arg;
	proc_fd_link(getpid(), (int)fd, link, sizeof(link));
	fprintf(stderr, "  %ld %s\n", fd, link);
}

bool proc_census_same(const struct proc_census *before)
{
	struct census_pair pair = { .before = *before };
	uint64_t end_ns = proc_now_ns() + 3000000000u;

	while (!census_equal(&pair)) {
		if (proc_now_ns() < end_ns) {
			proc_pause_us(2000);
			continue;
		}
		print_census("before", before);
		print_census("now", &pair.now);
		each_number("/proc/self/fd", print_fd, NULL);
		return false;
	}
	return true;
}

bool proc_await(bool (*cond)(void *arg), void *arg)
{
	uint64_t end_ns = proc_now_ns() + PROC_PATIENCE_NS;

	while (!cond(arg)) {
		if (proc_now_ns() >= end_ns)
			return false;
		proc_pause_us(1000);
	}
	return true;
}

static bool is_gone(void *arg)
{
	return proc_is_gone(*(pid_t *)arg);
}

bool proc_await_gone(pid_t pid)
{
	return proc_await(is_gone, &pid);
}

void proc_reap_everything(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = saved;
}

pid_t proc_fork_host(int (*body)(void *arg), void *arg)
{
	pid_t parent = getpid();
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(98);
	/* The framework catches these to go on with the next test. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGFPE, SIG_DFL);
	signal(SIGILL, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	alarm(PROC_WATCHDOG_S);
	_exit(body(arg));
}

int proc_in_host(int (*body)(void *arg), void *arg)
{
	pid_t pid = proc_fork_host(body, arg);
	int status = -1;

	if (pid > 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	return status;
}

struct hushed {
	int (*body)(void *arg);
	void *arg;
};

static int run_hushed(void *arg)
{
	const struct hushed *hushed = arg;
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	PROC_MUST(dup2(nowhere, STDERR_FILENO) == STDERR_FILENO);
	return hushed->body(hushed->arg);
}

bool proc_aborts(int (*body)(void *arg), void *arg)
{
	struct hushed hushed = { body, arg };
	int status = proc_in_host(run_hushed, &hushed);

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
