/* SPDX-License-Identifier: MIT */
/* FNV-1a over bytes, 64 bits: it finds damage and tells things apart. It is no defence
 * against whoever wants two contents to look alike. */
#ifndef RPI_BASE_DIGEST_H
#define RPI_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define RPI_DIGEST_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t rpi_digest(uint64_t digest, const void *bytes, size_t count)
{
	const uint8_t *at = (const uint8_t *)bytes;

	while (count--)
		digest = (digest ^ *at++) * UINT64_C(0x100000001b3);
	return digest;
}

#endif
