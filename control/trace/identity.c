/* SPDX-License-Identifier: MIT */
/* Build-ids, from the notes of what is loaded. */
#include "trace/identity.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "base/error.h"

/* As many bytes of a build-id as are shown: SHA-1 has 20. */
#define ID_BYTES_MAX 20

struct search {
	uintptr_t fn;
	uintptr_t base;
	uint8_t id[ID_BYTES_MAX];
	size_t id_bytes;
};

static size_t padded(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

static void find_id(const uint8_t *at, size_t bytes, struct search *search)
{
	while (bytes >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)at;
		size_t head = sizeof(*note) + padded(note->n_namesz);
		size_t whole = head + padded(note->n_descsz);

		if (whole > bytes || whole < head)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    !memcmp(at + sizeof(*note), "GNU", 4)) {
			search->id_bytes = note->n_descsz < ID_BYTES_MAX ? note->n_descsz
									 : ID_BYTES_MAX;
			memcpy(search->id, at + head, search->id_bytes);
			return;
		}
		at += whole;
		bytes -= whole;
	}
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && search->fn >= low &&
		    search->fn - low < part->p_memsz)
			break;
	}
	if (i == info->dlpi_phnum)
		return 0;
	search->base = info->dlpi_addr;
	for (i = 0; i < info->dlpi_phnum && !search->id_bytes; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_NOTE)
			find_id((const uint8_t *)(info->dlpi_addr + part->p_vaddr),
				part->p_memsz, search);
	}
	return 1;
}

int rpi_identity_of(const void *fn, char *buf, size_t bytes)
{
	struct search search = { .fn = (uintptr_t)fn };
	size_t at = 0, i;

	dl_iterate_phdr(look, &search);
	if (!search.id_bytes)
		return -ENOENT;
	for (i = 0; i < search.id_bytes; i++)
		at += rpi_format(buf + at, bytes - at, "%02x", search.id[i]);
	rpi_format(buf + at, bytes - at, "-%llx",
		   (unsigned long long)(search.fn - search.base));
	return 0;
}
