/* room.c: memory kept back for the Go runtime, which ends the process where it gets none.
 *
 * It is C because Go's runtime maps its memory by C's mmap, and within this library that is the one below. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>

enum {
    ROOM = 32 << 20, /* bytes: several times what a call into Go, and a garbage collection, were seen to map */
    KIND = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
};

static _Atomic(void *) room; /* NULL: it was needed */

static bool have_room(void)
{
    if (atomic_load(&room) != NULL) {
        return true;
    }
    void *taken = mmap64(NULL, ROOM, PROT_READ | PROT_WRITE, KIND, -1, 0), *none = NULL;
    if (taken == MAP_FAILED) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&room, &none, taken)) {
        munmap(taken, ROOM);
    }
    return true;
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    void *memory = mmap64(address, length, protection, flags, file, offset), *given;
    if (memory == MAP_FAILED && errno == ENOMEM && (given = atomic_exchange(&room, NULL)) != NULL) {
        munmap(given, ROOM);
        memory = mmap64(address, length, protection, flags, file, offset);
    }
    return memory;
}

extern void dlpackDescribe(struct request *, struct answer *);

void dlpack_describe_with_room(struct request *request, struct answer *answer)
{
    if (!have_room()) {
        answer->status = STATUS_MEMORY_ERROR;
        snprintf(answer->message, sizeof answer->message,
                 "the Go core needs %d MiB that it may map, and no memory or address space is left (ulimit -v, -d)",
                 ROOM >> 20);
        return;
    }
    dlpackDescribe(request, answer);
    have_room(); /* again, before others use up what is left */
}
