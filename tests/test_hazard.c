/* SPDX-License-Identifier: MIT */
/*
 * Whom a task must follow. Directed cases first, then random programs of accesses
 * over parts of one buffer, judged by an oracle that keeps every access of every byte.
 *
 * A task starts, has loaded its inputs, and ends, in this order; tasks of one process
 * run one after another. An edge that is needed may be given directly or follow from
 * others, so the oracle asks what is sure to be over when a task starts.
 */
#include "dispatch/hazard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define PEERS	  4
#define TASKS_MAX 48
#define SIDE	  8
#define BYTES	  (SIDE * SIDE * 4)

static _Alignas(64) uint8_t buffer[BYTES];

static struct rp_tensor whole(void)
{
	return TENSOR(buffer, RP_INT32, SIDE, SIDE);
}

static struct rp_tensor part(int64_t row, int64_t rows, int64_t column, int64_t columns)
{
	struct rp_tensor tensor = whole();

	assert_ok(rp_tensor_slice(&tensor, 0, row, rows, 1, &tensor));
	assert_ok(rp_tensor_slice(&tensor, 1, column, columns, 1, &tensor));
	return tensor;
}

static void add(struct rpi_hazards *hazards, const struct rp_tensor *tensor, bool write,
		uint32_t peer, uint64_t seq, struct rpi_follow *follow)
{
	struct rpi_view view;

	assert_ok(rpi_view_from_tensor("test", tensor, &view));
	assert_ok(rpi_hazards_add(hazards, &view, write, peer, seq, follow));
}

/* --- Directed ------------------------------------------------------------ */

static void two_accesses_make_the_edge_that_they_need(void **state)
{
	enum {
		NONE,
		DONE,
		LOADED
	};
	static const struct {
		const char *name;
		bool first_writes, second_writes;
		uint32_t first_peer, second_peer;
		int64_t second_row,
			second_column; /* of a 4 x 4 part; the first is at 0, 0 */
		int want, want_in_place;
	} cases[] = {
		{ "read after write", true, false, 0, 1, 0, 0, DONE, DONE },
		{ "write after write", true, true, 0, 1, 0, 0, DONE, DONE },
		{ "write after read", false, true, 0, 1, 0, 0, LOADED, DONE },
		{ "read after read", false, false, 0, 1, 0, 0, NONE, NONE },
		{ "same process", true, true, 2, 2, 0, 0, NONE, NONE },
		{ "one element shared", true, false, 3, 0, 3, 3, DONE, DONE },
		{ "other rows", true, true, 0, 1, 4, 0, NONE, NONE },
		{ "other columns", true, true, 0, 1, 0, 4, NONE, NONE },
		{ "diagonal", true, true, 0, 1, 4, 4, NONE, NONE },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(cases) * 2; k++) {
		bool in_place = k >= COUNT(cases);
		size_t c = k % COUNT(cases);
		int want = in_place ? cases[c].want_in_place : cases[c].want;
		struct rp_tensor first = part(0, 4, 0, 4);
		struct rp_tensor second =
			part(cases[c].second_row, 4, cases[c].second_column, 4);
		struct rpi_follow follow;
		struct rpi_hazards hazards;
		struct rpi_dep dep;

		rpi_hazards_init(&hazards, in_place ? 0 : PEERS);
		rpi_follow_reset(&follow);
		assert_true(rpi_follow_none(&follow));
		add(&hazards, &first, cases[c].first_writes, cases[c].first_peer, 17,
		    &follow);
		assert_true(rpi_follow_none(&follow));
		add(&hazards, &second, cases[c].second_writes, cases[c].second_peer, 99,
		    &follow);
		if (rpi_follow_count(&follow) != (want != NONE))
			fail_msg("%s: %u edges", cases[c].name,
				 rpi_follow_count(&follow));
		if (want != NONE) {
			rpi_follow_list(&follow, &dep);
			if (dep.peer != cases[c].first_peer || dep.seq != 17 ||
			    dep.loaded != (want == LOADED))
				fail_msg("%s: the wrong edge", cases[c].name);
		}
		rpi_hazards_fini(&hazards);
	}
}

static void only_the_newest_task_of_a_process_is_followed(void **state)
{
	struct rp_tensor all = whole();
	struct rpi_hazards hazards;
	struct rpi_follow follow;
	struct rpi_dep deps[PEERS];

	(void)state;
	rpi_hazards_init(&hazards, 0);
	for (uint64_t seq = 1; seq <= SIDE; seq++) {
		struct rp_tensor row = part((int64_t)seq - 1, 1, 0, SIDE);

		rpi_follow_reset(&follow);
		add(&hazards, &row, true, seq % 2, seq, &follow);
		assert_true(rpi_follow_none(&follow));
	}
	add(&hazards, &all, false, 3, 1, &follow);
	assert_int_equal(rpi_follow_count(&follow), 2);
	rpi_follow_list(&follow, deps);
	assert_int_equal(deps[0].peer, 0);
	assert_int_equal(deps[0].seq, SIDE);
	assert_int_equal(deps[1].peer, 1);
	assert_int_equal(deps[1].seq, SIDE - 1);
	rpi_hazards_fini(&hazards);
}

static void the_list_is_as_long_as_the_regions_not_as_the_tasks(void **state)
{
	struct rpi_hazards hazards;
	struct rpi_follow follow;
	uint64_t seed = 3;

	(void)state;
	rpi_hazards_init(&hazards, PEERS);
	for (uint64_t seq = 1; seq < 5000; seq++) {
		struct rp_tensor row =
			part((int64_t)(bed_random(&seed) % SIDE), 1, 0, SIDE);

		rpi_follow_reset(&follow);
		add(&hazards, &row, bed_random(&seed) % 3 == 0,
		    (uint32_t)(bed_random(&seed) % PEERS), seq, &follow);
		assert_true(hazards.count <= SIDE * (1 + PEERS));
	}
	rpi_hazards_reset(&hazards);
	assert_int_equal(hazards.count, 0);
	rpi_hazards_fini(&hazards);
}

/* --- Random, against the oracle ------------------------------------------- */

struct task {
	uint32_t peer;
	uint64_t seq;
	/* Tasks of each process that are sure to have ended, or to have loaded their
	 * inputs, when this one starts. */
	uint64_t ended[PEERS];
	uint64_t loaded[PEERS];
};

struct program {
	struct task tasks[TASKS_MAX];
	uint32_t count;
	uint64_t next_seq[PEERS];
	/* What each task does to each byte: bit 0 reads, bit 1 writes. */
	uint8_t touches[TASKS_MAX][BYTES];
};

static const struct task *find(const struct program *program, uint32_t peer, uint64_t seq)
{
	for (uint32_t i = 0; i < program->count; i++)
		if (program->tasks[i].peer == peer && program->tasks[i].seq == seq)
			return &program->tasks[i];
	return NULL;
}

static void raise_to(uint64_t *word, uint64_t to)
{
	if (*word < to)
		*word = to;
}

static void inherit(struct task *task, const struct task *before)
{
	for (uint32_t peer = 0; peer < PEERS; peer++) {
		raise_to(&task->ended[peer], before->ended[peer]);
		raise_to(&task->loaded[peer], before->loaded[peer]);
	}
}

static void know(struct program *program, struct task *task,
		 const struct rpi_follow *follow)
{
	struct rpi_dep deps[2 * PEERS];
	uint32_t count = rpi_follow_count(follow);

	memset(task->ended, 0, sizeof(task->ended));
	memset(task->loaded, 0, sizeof(task->loaded));
	if (task->seq > 1) {
		inherit(task, find(program, task->peer, task->seq - 1));
		raise_to(&task->ended[task->peer], task->seq - 1);
	}
	assert_true(count <= COUNT(deps));
	rpi_follow_list(follow, deps);
	for (uint32_t i = 0; i < count; i++) {
		const struct rpi_dep *dep = &deps[i];
		const struct task *before = find(program, dep->peer, dep->seq);

		/* Nobody waits for a later task, nor for its own process. */
		assert_non_null(before);
		assert_int_not_equal(dep->peer, task->peer);
		inherit(task, before);
		raise_to(&task->loaded[dep->peer], dep->seq);
		raise_to(&task->ended[dep->peer], dep->loaded ? dep->seq - 1 : dep->seq);
	}
	for (uint32_t peer = 0; peer < PEERS; peer++)
		raise_to(&task->loaded[peer], task->ended[peer]);
}

/* What one task needs of an earlier one: 2 its end, 1 that it has loaded, 0 nothing. */
static int needs(const struct program *program, uint32_t before, uint32_t after,
		 bool in_place)
{
	const uint8_t *a = program->touches[before];
	const uint8_t *b = program->touches[after];
	int need = 0;

	for (int i = 0; i < BYTES; i++) {
		if ((a[i] & 2) && b[i])
			return 2;
		if (a[i] && (b[i] & 2))
			need = in_place ? 2 : 1;
	}
	return need;
}

static void touch(struct program *program, uint32_t task, const struct rp_tensor *tensor,
		  uint8_t how)
{
	for (int64_t i = 0; i < bed_elements(tensor); i++) {
		uint8_t *at = bed_at(tensor, i);

		for (uint32_t byte = 0; byte < bed_element_bytes(tensor); byte++)
			program->touches[task][at + byte - buffer] |= how;
	}
}

static struct rp_tensor random_part(uint64_t *seed, bool steps)
{
	struct rp_tensor tensor = whole();

	for (uint32_t dim = 0; dim < 2; dim++) {
		int64_t step = steps ? 1 + (int64_t)(bed_random(seed) % 3) : 1;
		int64_t start = (int64_t)(bed_random(seed) % SIDE);
		int64_t most = (SIDE - 1 - start) / step + 1;
		int64_t count = 1 + (int64_t)(bed_random(seed) % (uint64_t)most);

		assert_ok(rp_tensor_slice(&tensor, dim, start, count, step, &tensor));
	}
	/* Sometimes of lower rank. */
	if (bed_random(seed) % 4 == 0)
		assert_ok(rp_tensor_index(&tensor, 0, &tensor));
	return tensor;
}

static void check_needed(const struct program *program, bool in_place)
{
	uint32_t after = program->count - 1;
	const struct task *task = &program->tasks[after];

	for (uint32_t before = 0; before < after; before++) {
		const struct task *old = &program->tasks[before];
		int need = needs(program, before, after, in_place);
		uint64_t sure = need == 2 ? task->ended[old->peer]
					  : task->loaded[old->peer];

		if (need && sure < old->seq)
			fail_msg("task %u (process %u) may start before task %u (process "
				 "%u) has %s",
				 after, task->peer, before, old->peer,
				 need == 2 ? "ended" : "loaded");
	}
}

static void check_not_needless(const struct program *program,
			       const struct rpi_follow *follow, bool in_place)
{
	struct rpi_dep deps[2 * PEERS];
	uint32_t count = rpi_follow_count(follow);

	rpi_follow_list(follow, deps);
	for (uint32_t i = 0; i < count; i++) {
		const struct task *before = find(program, deps[i].peer, deps[i].seq);

		assert_int_not_equal(needs(program, (uint32_t)(before - program->tasks),
					   program->count - 1, in_place),
				     0);
	}
}

static void play(struct program *program, struct rpi_hazards *hazards, uint64_t *seed,
		 bool steps, bool in_place)
{
	memset(program, 0, sizeof(*program));
	rpi_hazards_reset(hazards);
	while (program->count < TASKS_MAX) {
		uint32_t number = program->count;
		struct task *task = &program->tasks[number];
		uint32_t views = 1 + (uint32_t)(bed_random(seed) % 3);
		struct rpi_follow follow;

		task->peer = (uint32_t)(bed_random(seed) % PEERS);
		task->seq = ++program->next_seq[task->peer];
		rpi_follow_reset(&follow);
		while (views--) {
			struct rp_tensor tensor = random_part(seed, steps);
			uint8_t how = (uint8_t)(1 + bed_random(seed) % 3);

			touch(program, number, &tensor, how);
			add(hazards, &tensor, how & 2, task->peer, task->seq, &follow);
		}
		know(program, task, &follow);
		program->count++;
		check_needed(program, in_place);
		if (!steps)
			check_not_needless(program, &follow, in_place);
	}
}

static void random_programs_get_every_edge_they_need(void **state)
{
	static struct program program;
	struct rpi_hazards hazards;
	uint64_t seed = 11;

	(void)state;
	for (int k = 0; k < 800; k++) {
		bool in_place = k & 1;

		rpi_hazards_init(&hazards, in_place ? 0 : PEERS);
		play(&program, &hazards, &seed, k & 2, in_place);
		rpi_hazards_fini(&hazards);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_accesses_make_the_edge_that_they_need),
		cmocka_unit_test(only_the_newest_task_of_a_process_is_followed),
		cmocka_unit_test(the_list_is_as_long_as_the_regions_not_as_the_tasks),
		cmocka_unit_test(random_programs_get_every_edge_they_need),
	};

	return cmocka_run_group_tests_name("hazard", tests, NULL, NULL);
}
