/* room.c: gives the Go runtime, which ends the process where it gets no memory, what the extension keeps back for it.
 *
 * It is C because Go's runtime maps its memory by C's mmap, and within this library that is the one below. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

void **dlpack_room; /* struct core's */

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    void *memory = mmap64(address, length, protection, flags, file, offset), *given;
    if (memory == MAP_FAILED && errno == ENOMEM && dlpack_room != NULL &&
        (given = __atomic_exchange_n(dlpack_room, NULL, __ATOMIC_ACQ_REL)) != NULL) {
        munmap(given, ROOM_BYTES);
        memory = mmap64(address, length, protection, flags, file, offset);
    }
    return memory;
}
