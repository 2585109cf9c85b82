/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "check.h"
#include "proc.h"

static int call_piece(void *arg)
{
	int (**piece)(void) = arg;

	return (*piece)();
}

void assert_child(int (*piece)(void), const char *missing)
{
	int status = proc_in_host(call_piece, &piece);

	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CHILD_SKIPS) {
		print_message("skipped: %s\n", missing);
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), CHILD_OK);
}

bool child_deny(int nr, int arg, uint32_t value, int err)
{
	uint32_t at = (uint32_t)offsetof(struct seccomp_data, args) +
		      8 * (uint32_t)(arg < 0 ? 0 : arg);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = COUNT(code), .filter = code };

	if (arg < 0)
		code[3] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}
