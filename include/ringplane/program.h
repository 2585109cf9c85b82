/* SPDX-License-Identifier: MIT */
/*
 * A program is the prepared unit of work: a parameter list, a host
 * orchestration that turns one call into tasks, the chip entries that those
 * tasks run, and callbacks that run in processes of their own.
 */
#ifndef RINGPLANE_PROGRAM_H
#define RINGPLANE_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include <ringplane/export.h>
#include <ringplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rp_callback_context;
struct rp_chip;
struct rp_comm;
struct rp_domain;
struct rp_program;
struct rp_run;
struct rp_run_config;

/* A dimension that each call may choose. */
#define RP_DIM_ANY (-1)

/* The limits of one task. */
#define RP_MAX_TASK_TENSORS 256
#define RP_MAX_TASK_SCALARS 128

/* Rings that the chip runtime keeps kernels in, one per depth of scope; see kernel.h. */
#define RP_RING_COUNT 4

/* What a task may do to a tensor; a program's parameter grants it. */
enum rp_access {
	RP_IN = 1,
	/* Not uploaded: host memory reads as zero when the task starts, resident
	 * memory as it is. */
	RP_OUT = 2,
	RP_INOUT = 3,
};

enum rp_arg_kind {
	RP_ARG_TENSOR = 1,
	RP_ARG_SCALAR = 2,
	RP_ARG_DOMAIN = 3, /* of a task and its entry only; see <ringplane/domain.h> */
};

/* One value of 64 bits or fewer. The member that `dtype` names is the one set. */
struct rp_scalar {
	uint32_t dtype; /* enum rp_dtype */
	uint32_t reserved;
	union {
		uint64_t bits; /* the whole cell; unused high bits are zero */
		int64_t i64;
		uint64_t u64;
		int32_t i32;
		uint32_t u32;
		float f32;
		uint8_t boolean;
	} value;
};

/* An argument of a dispatch, of a task, and of a chip entry. */
struct rp_arg {
	uint32_t kind;	 /* enum rp_arg_kind */
	uint32_t access; /* enum rp_access; tensors of tasks and entries only */
	union {
		struct rp_tensor tensor;
		struct rp_scalar scalar;
		struct rp_domain *domain; /* in an orchestration */
		struct rp_comm *comm;	  /* in a chip entry; see <ringplane/comm.h> */
	} u;
};

/* A parameter of a program. */
struct rp_param {
	const char *name;	    /* not "", and no other parameter's */
	uint32_t kind;		    /* enum rp_arg_kind */
	uint32_t dtype;		    /* a scalar: an integer, RP_BOOL or RP_FLOAT32 */
	uint32_t access;	    /* enum rp_access; 0 for a scalar */
	uint32_t rank;		    /* 1..RP_MAX_DIMS; 0 for a scalar */
	int64_t shape[RP_MAX_DIMS]; /* > 0, or RP_DIM_ANY */
	/* Dynamic dims of one name must agree within one call. NULL: free, as a fixed
	 * dim must be. */
	const char *dim_names[RP_MAX_DIMS];
	uint32_t flags; /* RP_PARAM_* */
};

/* A scalar that has no default: each build says what becomes of it (see `scalars` of a
 * description). Without the flag, a scalar that a build does not mention is left to run
 * time. */
#define RP_PARAM_DECIDE 0x1u

/*
 * What a build makes of one scalar parameter. Given a value, the parameter is part of the
 * program: no argument of a call, and another value is another program; read it with
 * rp_program_scalar(). Left to run time, it is an argument like any other.
 */
struct rp_scalar_choice {
	const char *name;  /* of a scalar parameter */
	uint32_t run_time; /* 1: left to run time, and `value` means nothing; else 0 */
	uint32_t reserved; /* 0 */
	struct rp_scalar value; /* of the parameter's dtype */
};

/*
 * The host orchestration: called in the submitting thread, or the worker's
 * dispatcher, once per dispatch, to enqueue that dispatch's tasks with
 * rp_run_task() and rp_run_callback().
 *
 * args     the checked arguments of this call, one per parameter; each tensor
 *          carries the access that its parameter grants. Valid until return.
 * Returns  0, or a negative errno that the submit then returns. Tasks already
 *          enqueued are cancelled and waited for first; nothing stays in flight.
 */
typedef int (*rp_orchestrate_fn)(struct rp_run *run, const struct rp_arg *args,
				 size_t nargs, void *user);

/*
 * A chip entry: runs inside the chip's worker process.
 *
 * args     resident tensors are the task's views, on the device. Host tensors are
 *          contiguous copies on the device, unless the worker was prepared with
 *          unified_memory: then they are the task's views.
 * Returns  0, or a negative errno that fails the run; see rp_chip_fail().
 */
typedef int (*rp_entry_fn)(struct rp_chip *chip, const struct rp_arg *args, size_t nargs);

/*
 * A callback: runs inside a callback worker process, on shared host memory in
 * place. Private memory is seen as it was when the worker was prepared.
 */
typedef int (*rp_callback_fn)(struct rp_callback_context *context,
			      const struct rp_arg *args, size_t nargs, void *user);

struct rp_entry {
	const char *name;
	rp_entry_fn fn;
};

/*
 * What a callback takes: one parameter per argument, in their order. Kinds, dtypes and
 * accesses must be equal; a tensor's rank may be 0, any; its dims are checked unless
 * RP_DIM_ANY. Names serve error lines and may be NULL; names of dims mean nothing here.
 */
struct rp_signature {
	size_t size; /* sizeof(struct rp_signature) */
	const struct rp_param *params;
	size_t param_count; /* 0: it takes no arguments */
};

/* The callback may stay unbound: then rp_run_callback() returns -ENOENT. */
#define RP_CALLBACK_OPTIONAL 0x1u

/*
 * A callback of a program, told apart by its name; or, in rp_worker_options, what a
 * worker binds to that name. The function runs in a process that was forked at prepare,
 * so `user` is seen as it was then, unless it lies in shared memory.
 */
struct rp_callback {
	const char *name;
	/* NULL: the program only declares it; each worker binds it by name at prepare,
	 * and must, unless it is optional. Else a default that a worker may replace. */
	rp_callback_fn fn;
	void *user;
	uint32_t flags;			      /* RP_CALLBACK_* */
	const struct rp_signature *signature; /* NULL: any arguments */
};

/* What a program is made of. Set `size`, or use rp_program_desc_init(). Names,
 * arrays and signatures are copied; functions and user pointers must outlive the program.
 */
struct rp_program_desc {
	size_t size; /* sizeof(struct rp_program_desc) */
	const char *name;
	const char *platform; /* NULL: "sim" */
	const char *runtime;  /* NULL: "tensormap_and_ringbuffer" */
	const struct rp_param *params;
	size_t param_count;
	const struct rp_entry *entries;
	size_t entry_count; /* at least 1 */
	const struct rp_callback *callbacks;
	size_t callback_count;
	/* NULL: entry 0 runs once, on chip 0, with all arguments. */
	rp_orchestrate_fn orchestrate;
	void *user; /* handed to orchestrate */
	/* The chip_count that a worker must have; 0: any. */
	uint32_t chip_count;
	/* Callback processes, at most callback_count; 0: one per callback. A worker has
	 * as many as the program that wants most. */
	uint32_t callback_workers;
	/* What this build makes of scalars, each named once at most. */
	const struct rp_scalar_choice *scalars;
	size_t scalar_count;
	uint32_t flags; /* RP_PROGRAM_* */
	/* The configuration of a dispatch that has none of its own. NULL: the defaults.
	 */
	const struct rp_run_config *config;
};

/* The program has nothing to provide comm domains with: persistent workers refuse it. */
#define RP_PROGRAM_NO_DOMAINS 0x1u

RP_API void rp_program_desc_init(struct rp_program_desc *desc);

/*
 * Build a program from a description.
 *
 * Ownership  *program_out is the caller's until rp_program_free(); workers that
 *            were prepared with it keep what they need.
 * Threads    any. Blocks: no.
 * Returns    0
 *            -EINVAL  a field is not as described above; the line names it
 *            -ENOMEM
 * Spec       004, The CompiledProgram contract
 */
RP_API int rp_program_create(const struct rp_program_desc *desc,
			     struct rp_program **program_out);

/* Give the caller's reference back. NULL is ignored. */
RP_API void rp_program_free(struct rp_program *program);

RP_API const char *rp_program_name(const struct rp_program *program);
RP_API const char *rp_program_platform(const struct rp_program *program);
RP_API const char *rp_program_runtime(const struct rp_program *program);
RP_API size_t rp_program_param_count(const struct rp_program *program);

/* The parameter at `index`, or NULL past the end. Lives as long as the program. */
RP_API const struct rp_param *rp_program_param(const struct rp_program *program,
					       size_t index);

/* Index of a chip entry or a callback by name; -ENOENT when there is none. */
RP_API int rp_program_entry(const struct rp_program *program, const char *name);
RP_API int rp_program_callback(const struct rp_program *program, const char *name);

/* The value that a scalar was given when the program was built; -ENOENT for any other
 * name, also that of a scalar which is left to run time. */
RP_API int rp_program_scalar(const struct rp_program *program, const char *name,
			     struct rp_scalar *value_out);

/*
 * A number for what the program is: its signature, the scalars that have values, names,
 * platform, runtime, and its code. What is left to run time (values of scalars, dims)
 * has no part in it. Of a loaded program it is the same in every process; the code of one
 * that was built in this process is known by its addresses, so its number serves here.
 *
 * Threads    any. Blocks: no.
 * Spec       002, Compiling from the signature
 */
RP_API uint64_t rp_program_identity(const struct rp_program *program);

/* --- Arguments ----------------------------------------------------------- */

static inline struct rp_arg rp_arg_view(struct rp_tensor tensor, enum rp_access access)
{
	struct rp_arg arg;

	arg.kind = RP_ARG_TENSOR;
	arg.access = (uint32_t)access;
	arg.u.tensor = tensor;
	return arg;
}

/* A dispatch argument: the parameter says what may be done to it. */
static inline struct rp_arg rp_arg_tensor(struct rp_tensor tensor)
{
	return rp_arg_view(tensor, RP_INOUT);
}

static inline struct rp_arg rp_in(struct rp_tensor tensor)
{
	return rp_arg_view(tensor, RP_IN);
}

static inline struct rp_arg rp_out(struct rp_tensor tensor)
{
	return rp_arg_view(tensor, RP_OUT);
}

static inline struct rp_arg rp_inout(struct rp_tensor tensor)
{
	return rp_arg_view(tensor, RP_INOUT);
}

static inline struct rp_arg rp_arg_bits(enum rp_dtype dtype, uint64_t bits)
{
	struct rp_arg arg;

	arg.kind = RP_ARG_SCALAR;
	arg.access = 0;
	arg.u.scalar.dtype = (uint32_t)dtype;
	arg.u.scalar.reserved = 0;
	arg.u.scalar.value.bits = bits;
	return arg;
}

static inline struct rp_arg rp_arg_i64(int64_t value)
{
	return rp_arg_bits(RP_INT64, (uint64_t)value);
}

static inline struct rp_arg rp_arg_u64(uint64_t value)
{
	return rp_arg_bits(RP_UINT64, value);
}

static inline struct rp_arg rp_arg_i32(int32_t value)
{
	return rp_arg_bits(RP_INT32, (uint32_t)value);
}

static inline struct rp_arg rp_arg_u32(uint32_t value)
{
	return rp_arg_bits(RP_UINT32, value);
}

static inline struct rp_arg rp_arg_f32(float value)
{
	struct rp_arg arg = rp_arg_bits(RP_FLOAT32, 0);

	arg.u.scalar.value.f32 = value;
	return arg;
}

/* Choices of a build. */
static inline struct rp_scalar_choice rp_scalar_is(const char *name, struct rp_arg value)
{
	struct rp_scalar_choice choice;

	choice.name = name;
	choice.run_time = 0;
	choice.reserved = 0;
	choice.value = value.u.scalar;
	return choice;
}

static inline struct rp_scalar_choice rp_scalar_run_time(const char *name)
{
	struct rp_scalar_choice choice = rp_scalar_is(name, rp_arg_u64(0));

	choice.run_time = 1;
	return choice;
}

#ifdef __cplusplus
}
#endif

#endif
