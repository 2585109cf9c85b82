/* SPDX-License-Identifier: MIT */
/* Who used which bytes before: against a model that looks at every byte. */
#include <string.h>

#include "check.h"
#include "memory/history.h"

#define BYTES 64
#define USERS 200

/* The last writer of each byte, and those who have read it since. */
struct model {
	int writer[BYTES];
	bool read[BYTES][USERS];
};

struct told {
	bool by[USERS];
	enum rpi_reason reason[USERS];
};

static void tell(void *context, const struct rpi_past *earlier,
		 const struct rpi_past *now, enum rpi_reason reason)
{
	struct told *told = context;

	assert_true(earlier->user < now->user);
	told->by[earlier->user] = true;
	told->reason[earlier->user] = reason;
}

static struct rpi_past range(uint64_t user, uint32_t at, uint32_t bytes, bool write)
{
	return (struct rpi_past){
		.view = { .base = 4096 + at, .span_bytes = bytes, .run_bytes = bytes },
		.user = user,
		.write = write,
	};
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return *seed >> 33;
}

/* Everybody whom the bytes say, and nobody who never touched them. One who is covered by
 * a later write may be told of or not: who comes after the write comes after him. */
static void nobody_is_missed_and_nobody_made_up(void **state)
{
	struct rpi_history history = { 0 };
	static struct model model;
	bool touched[USERS][BYTES] = { 0 };
	uint64_t seed = 11;

	(void)state;
	memset(model.writer, -1, sizeof(model.writer));
	for (int user = 0; user < USERS; user++) {
		const uint32_t at = (uint32_t)next(&seed) % BYTES;
		const uint32_t bytes = 1 + (uint32_t)next(&seed) % (BYTES - at);
		const bool write = next(&seed) % 3 == 0;
		const struct rpi_past now = range((uint64_t)user, at, bytes, write);
		struct told told = { 0 };

		rpi_history_find(&history, &now, tell, &told);
		for (uint32_t i = at; i < at + bytes; i++) {
			if (model.writer[i] >= 0) {
				assert_true(told.by[model.writer[i]]);
				assert_int_equal(told.reason[model.writer[i]],
						 write ? RPI_REASON_WAW : RPI_REASON_RAW);
			}
			for (int reader = 0; write && reader < user; reader++)
				assert_true(!model.read[i][reader] || told.by[reader]);
		}
		for (int other = 0; other < user; other++) {
			bool shared = false;

			for (uint32_t i = at; i < at + bytes; i++)
				shared |= touched[other][i];
			assert_true(!told.by[other] || shared);
		}
		assert_int_equal(rpi_history_add(&history, &now), 0);
		for (uint32_t i = at; i < at + bytes; i++) {
			touched[user][i] = true;
			if (write) {
				model.writer[i] = user;
				memset(model.read[i], 0, sizeof(model.read[i]));
			} else {
				model.read[i][user] = true;
			}
		}
	}
	rpi_history_free(&history);
}

static void spaces_and_new_memory_share_nothing(void **state)
{
	struct rpi_history history = { 0 };
	struct rpi_past first = range(0, 0, 32, true), now = range(1, 16, 32, true);
	struct told told = { 0 };

	(void)state;
	assert_int_equal(rpi_history_add(&history, &first), 0);
	now.space = 1;
	rpi_history_find(&history, &now, tell, &told);
	assert_false(told.by[0]);
	now.space = 0;
	rpi_history_find(&history, &now, tell, &told);
	assert_true(told.by[0]);
	/* One's own use is no reason to wait. */
	now.user = 0;
	memset(&told, 0, sizeof(told));
	rpi_history_find(&history, &now, tell, &told);
	assert_false(told.by[0]);
	now.user = 1;
	rpi_history_forget(&history, &now);
	rpi_history_find(&history, &now, tell, &told);
	assert_false(told.by[0]);
	rpi_history_free(&history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_missed_and_nobody_made_up),
		cmocka_unit_test(spaces_and_new_memory_share_nothing),
	};

	return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
