/* SPDX-License-Identifier: MIT */
#include "base/list.h"

#include <stdlib.h>

void *rpi_list_append(struct rpi_list *list, uint32_t count, size_t bytes)
{
	if (!list->at || list->room - list->count < count) {
		uint64_t room = list->room ? 2 * (uint64_t)list->room : 64;
		void *at;

		while (room - list->count < count)
			room *= 2;
		at = room <= UINT32_MAX ? realloc(list->at, room * bytes) : NULL;
		if (!at)
			return NULL;
		list->at = at;
		list->room = (uint32_t)room;
	}
	list->count += count;
	return (uint8_t *)list->at + (list->count - count) * bytes;
}
