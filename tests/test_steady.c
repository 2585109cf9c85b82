/* SPDX-License-Identifier: MIT */
/* What a dispatch costs once everything is warm: no system call, no allocation, no
 * page fault, on either side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringplane/ringplane.h>

#include "base/cpus.h"
#include "deed.h"
#include "proc.h"

#define HELPER_MODE "--dispatch"
#define WARM_UP	    200
#define DISPATCHES  2000

/* Counting allocations. */

/* Of this process; a chip begins with the caller's count. */
static _Atomic uint64_t allocations;

static void count_allocation(void)
{
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

#if defined(__SANITIZE_ADDRESS__)

/* The sanitizer's allocator can't be replaced, but it tells. */
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *,
								  size_t),
					      void (*free_hook)(const volatile void *));

static void on_malloc(const volatile void *ptr, size_t bytes)
{
	(void)ptr;
	(void)bytes;
	count_allocation();
}

static void on_free(const volatile void *ptr)
{
	(void)ptr;
}

static void count_from_here(void)
{
	__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

#else

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *ptr, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes)
{
	count_allocation();
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	count_allocation();
	return __libc_calloc(count, bytes);
}

void *realloc(void *ptr, size_t bytes)
{
	count_allocation();
	return __libc_realloc(ptr, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	count_allocation();
	return __libc_memalign(align, bytes);
}

static void count_from_here(void)
{
}

#endif

/* A dispatch with arguments. */

#define ELEMENTS     256
#define WINDOW_BYTES ((size_t)64 << 10)

/* What it does with a comm domain. */
enum windows {
	NO_WINDOWS,
	FRESH,
	RETAINED, /* and reset */
	EAGER,
	KEPT,
	WINDOWS_COUNT
};

/* What the chip tells of itself, in its output. */
enum {
	TOLD_ALLOCATIONS,
	TOLD_FAULTS,
	TOLD_SUM
};

static int entry(struct rp_chip *chip, const struct rp_arg *args, size_t nargs)
{
	const uint64_t *in = args[0].u.tensor.data;
	uint64_t *out = args[1].u.tensor.data;
	struct rusage usage;
	int i;

	(void)chip;
	if (nargs > 3) {
		struct rp_comm *comm = args[3].u.comm;

		memset(rp_comm_window(comm, rp_comm_rank(comm)), 1, WINDOW_BYTES);
	}
	if (args[2].u.scalar.value.u64) {
		/* Asked to tell: this one makes a system call. */
		getrusage(RUSAGE_SELF, &usage);
		out[TOLD_FAULTS] = (uint64_t)usage.ru_minflt;
	}
	out[TOLD_ALLOCATIONS] = atomic_load(&allocations);
	for (i = 0; i < ELEMENTS; i++)
		out[TOLD_SUM] += in[i];
	return 0;
}

static const struct rp_param params[] = {
	{ .name = "in",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_UINT64,
	  .access = RP_IN,
	  .rank = 1,
	  .shape = { ELEMENTS } },
	{ .name = "out",
	  .kind = RP_ARG_TENSOR,
	  .dtype = RP_UINT64,
	  .access = RP_OUT,
	  .rank = 1,
	  .shape = { ELEMENTS } },
	{ .name = "tell", .kind = RP_ARG_SCALAR, .dtype = RP_UINT64 },
};

static int lease_window(struct rp_run *run, struct rp_arg *arg)
{
	struct rp_domain_spec spec;
	struct rp_domain *domain;
	int err;

	rp_domain_spec_init(&spec);
	spec.name = "window";
	spec.window_bytes = WINDOW_BYTES;
	err = rp_run_domain(run, &spec, &domain);
	*arg = rp_arg_domain(domain);
	return err;
}

static int two_tasks(struct rp_run *run, const struct rp_arg *args, size_t nargs,
		     void *user)
{
	struct rp_arg task_args[] = { args[0], args[1], args[2], { 0 } };
	struct rp_task task = { .args = task_args, .arg_count = 3 };
	int err = 0;

	(void)nargs;
	if (*(enum windows *)user != NO_WINDOWS) {
		err = lease_window(run, &task_args[3]);
		task.arg_count = 4;
	}
	if (!err)
		err = rp_run_task(run, &task);
	return err ? err : rp_run_task(run, &task);
}

struct bench {
	struct rp_program *program;
	struct rp_worker *worker;
	struct rp_recording *recording; /* NULL: nothing is replayed */
	uint64_t *in;
	uint64_t *out[2];
	struct rp_arg args[2][3]; /* of the two in flight */
	enum windows windows;
};

static void use_windows(struct rp_worker_options *options, enum windows windows)
{
	static const enum rp_window_reset resets[WINDOWS_COUNT] = {
		[RETAINED] = RP_WINDOWS_RESET,
		[EAGER] = RP_WINDOWS_RESET_EAGER,
		[KEPT] = RP_WINDOWS_RESET_OFF,
	};

	options->persistent = windows > FRESH;
	options->reset_windows = resets[windows];
}

static int bench_open(struct bench *bench, enum rp_wait_policy policy, bool dispatcher,
		      enum windows windows)
{
	static const struct rp_entry entries[] = { { "sum", entry } };
	const int64_t shape[] = { ELEMENTS };
	struct rp_worker_options options;
	struct rp_program_desc desc;
	struct rp_tensor in, out;
	void *memory[3];
	int i;

	for (i = 0; i < 3; i++)
		PROC_MUST(!rp_shared_alloc(ELEMENTS * sizeof(uint64_t), &memory[i]));
	bench->in = memory[0];
	for (i = 0; i < ELEMENTS; i++)
		bench->in[i] = 1;
	PROC_MUST(!rp_tensor_host(&in, bench->in, RP_UINT64, 1, shape));
	for (i = 0; i < 2; i++) {
		bench->out[i] = memory[1 + i];
		PROC_MUST(!rp_tensor_host(&out, bench->out[i], RP_UINT64, 1, shape));
		bench->args[i][0] = rp_arg_tensor(in);
		bench->args[i][1] = rp_arg_tensor(out);
		bench->args[i][2] = rp_arg_u64(0);
	}
	rp_program_desc_init(&desc);
	desc.name = "steady";
	desc.params = params;
	desc.param_count = 3;
	desc.entries = entries;
	desc.entry_count = 1;
	desc.orchestrate = two_tasks;
	bench->windows = windows;
	desc.user = &bench->windows;
	PROC_MUST(!rp_program_create(&desc, &bench->program));
	deed_options(&options, 1);
	options.wait = options.worker_wait = policy;
	options.dispatcher = dispatcher;
	use_windows(&options, windows);
	/* Whoever else wants the CPUs, no spin ends in a sleep. */
	options.spin_us_min = options.spin_us_max = 10000000;
	bench->recording = NULL;
	i = rp_worker_prepare(&bench->program, 1, &options, &bench->worker);
	/* A recording has no domains and no dispatcher. */
	if (i || dispatcher || windows != NO_WINDOWS || policy != RP_WAIT_SPIN)
		return i;
	return rp_worker_record(bench->worker, NULL, bench->args[0], 3, NULL,
				&bench->recording);
}

static void bench_close(struct bench *bench)
{
	rp_recording_free(bench->recording);
	PROC_MUST(!rp_worker_close(bench->worker, RP_WAIT_FOREVER));
	rp_worker_free(bench->worker);
	rp_program_free(bench->program);
	PROC_MUST(!rp_shared_free(bench->in));
	PROC_MUST(!rp_shared_free(bench->out[0]));
	PROC_MUST(!rp_shared_free(bench->out[1]));
}

/* Blocking ones and pairs in flight, by turns; also replays where there is a recording.
 */
static void dispatch(struct bench *bench, int count)
{
	struct rp_handle handles[2];
	int i, j;

	for (i = 0; i < count; i += 4) {
		for (j = 0; j < 2; j++)
			PROC_MUST(!rp_worker_run(bench->worker, bench->program,
						 bench->args[j], 3, NULL));
		for (j = 0; j < 2; j++)
			PROC_MUST(!rp_worker_submit(bench->worker, NULL, bench->args[j],
						    3, NULL, &handles[j]));
		for (j = 0; j < 2; j++) {
			PROC_MUST(!rp_handle_wait(handles[j], RP_WAIT_FOREVER));
			PROC_MUST(!rp_handle_release(handles[j]));
		}
		for (j = 0; j < 2 && bench->recording; j++)
			PROC_MUST(!rp_recording_run(bench->recording, bench->args[j], 3,
						    NULL, NULL));
	}
}

static void ask_chip(struct bench *bench, uint64_t *allocations_out, uint64_t *faults_out)
{
	bench->args[0][2] = rp_arg_u64(1);
	PROC_MUST(!rp_worker_run(bench->worker, NULL, bench->args[0], 3, NULL));
	bench->args[0][2] = rp_arg_u64(0);
	PROC_MUST(bench->out[0][TOLD_SUM] == ELEMENTS);
	*allocations_out = bench->out[0][TOLD_ALLOCATIONS];
	*faults_out = bench->out[0][TOLD_FAULTS];
}

static int set_up(void **state)
{
	(void)state;
	alarm(PROC_WATCHDOG_S);
	return 0;
}

static void a_warm_dispatch_allocates_nothing_on_either_side(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_SPIN, RP_WAIT_HYBRID };
	uint64_t chip_before, chip_after, faults, before, after;
	void *volatile block; /* or the compiler would leave both calls out */
	struct bench bench;
	size_t i;

	(void)state;
	count_from_here();
	before = atomic_load(&allocations);
	block = malloc(100);
	free(block);
	assert_true(atomic_load(&allocations) > before);
	for (i = 0; i < 4 * WINDOWS_COUNT; i++) {
		assert_int_equal(bench_open(&bench, policies[i % 2], i / 2 % 2, i / 4),
				 0);
		/* A thread may take memory to begin with, when it first runs. */
		if (i / 2 % 2)
			dispatch(&bench, 4);
		/* From the very first dispatch on: all memory was taken at prepare. */
		before = atomic_load(&allocations);
		ask_chip(&bench, &chip_before, &faults);
		dispatch(&bench, DISPATCHES);
		ask_chip(&bench, &chip_after, &faults);
		after = atomic_load(&allocations);
		if (after != before || chip_after != chip_before)
			fail_msg("case %d: %d allocations in the caller, %d in the chip",
				 (int)i, (int)(after - before),
				 (int)(chip_after - chip_before));
		bench_close(&bench);
	}
}

static uint64_t own_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

static void fault_no_page(enum windows windows)
{
	uint64_t chip_before, chip_after, before, after, count;
	struct bench bench;
	int tries;

	assert_int_equal(bench_open(&bench, RP_WAIT_SPIN, false, windows), 0);
	dispatch(&bench, WARM_UP);
	/* The kernel may move a page in its own time: not in every stretch. */
	for (tries = 0; tries < 10; tries++) {
		ask_chip(&bench, &count, &chip_before);
		before = own_faults();
		dispatch(&bench, DISPATCHES);
		after = own_faults();
		ask_chip(&bench, &count, &chip_after);
		if (before == after && chip_before == chip_after)
			break;
	}
	if (tries == 10)
		fail_msg("windows %d: %d faults in the caller, %d in the chip", windows,
			 (int)(after - before), (int)(chip_after - chip_before));
	bench_close(&bench);
}

static void a_warm_dispatch_faults_no_page_on_either_side(void **state)
{
	(void)state;
	for (int windows = 0; windows < WINDOWS_COUNT; windows++)
		fault_no_page((enum windows)windows);
}

/* Counting system calls. */

/* What the helper does: so many dispatches. */
static int helper(int policy, int windows, int count)
{
	struct bench bench;

	alarm(PROC_WATCHDOG_S);
	if (bench_open(&bench, (enum rp_wait_policy)policy, false, (enum windows)windows))
		return 3;
	dispatch(&bench, count);
	bench_close(&bench);
	return 0;
}

/* System calls of the helper and its chip together; negative: no strace here. */
static long count_calls(int policy, int windows, int count)
{
	char self[512], command[1024], line[256];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char file_name[] = "/tmp/rp-test-steady-XXXXXX";
	long calls = -1;
	FILE *file;
	int status;
	int fd;

	assert_true(length > 0);
	self[length] = '\0';
	fd = mkstemp(file_name);
	assert_true(fd >= 0);
	/* LeakSanitizer can't work under another tracer. */
	snprintf(command, sizeof(command),
		 "ASAN_OPTIONS=detect_leaks=0 strace -f -c -o %s '%s' %s %d %d %d "
		 "2>&1",
		 file_name, self, HELPER_MODE, policy, windows, count);
	status = system(command);
	file = fdopen(fd, "r");
	while (!status && fgets(line, sizeof(line), file)) {
		double percent, seconds;
		long per_call, n;

		/* The last line of the table; the column of errors may be empty. */
		if (strstr(line, " total") && sscanf(line, "%lf %lf %ld %ld", &percent,
						     &seconds, &per_call, &n) == 4)
			calls = n;
	}
	fclose(file);
	unlink(file_name);
	if (status && WIFEXITED(status) && WEXITSTATUS(status) != 127)
		print_message("strace ended with status %d\n", WEXITSTATUS(status));
	return calls;
}

static void a_warm_dispatch_makes_no_system_call_on_either_side(void **state)
{
	static const enum rp_wait_policy policies[] = { RP_WAIT_SPIN, RP_WAIT_HYBRID };
	size_t i;

	(void)state;
	if (system("strace -f -c -o /dev/null true >/dev/null 2>&1")) {
		print_message("skipped: strace, or the right to trace, is missing\n");
		skip();
	}
	if (rpi_cpu_allowed() < 2) {
		print_message("skipped: one CPU, which spinning sides hand to each "
			      "other by system calls\n");
		skip();
	}
	/* One policy is enough for the kinds of windows. */
	for (i = 0; i <= WINDOWS_COUNT; i++) {
		int policy = policies[i == WINDOWS_COUNT];
		int windows = i == WINDOWS_COUNT ? NO_WINDOWS : (int)i;
		long few = count_calls(policy, windows, 1000);
		long many = count_calls(policy, windows, 11000);

		assert_true(few > 0 && many > 0);
		/* Ten thousand more; start-up and end differ by a few from run to run. */
		if (many - few > 200)
			fail_msg("windows %d: %ld system calls with 1000 dispatches, "
				 "%ld with 11000",
				 windows, few, many);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_warm_dispatch_allocates_nothing_on_either_side),
		TEST(a_warm_dispatch_faults_no_page_on_either_side),
		TEST(a_warm_dispatch_makes_no_system_call_on_either_side),
	};

	if (argc == 5 && !strcmp(argv[1], HELPER_MODE))
		return helper(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
	return cmocka_run_group_tests_name("steady", tests, NULL, NULL);
}
