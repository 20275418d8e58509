/* room.c: memory kept back for the Go runtime, which ends the process where it gets none.
 *
 * It is C because Go's runtime maps its memory by C's mmap, and within this library that is the one below. */
#define _GNU_SOURCE
#include "core.h"
#include "limit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum {
    ROOM = 32 << 20,       /* bytes: several times what a call into Go, and a garbage collection, were seen to map */
    ADDRESSES = 128 << 20, /* with these: Go reserves 64 MiB at once, and as much again where they are not aligned */
    ROOM_MAPPINGS = 16,    /* where one was seen */
    KIND = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
};

static _Atomic(void *) room; /* NULL: it was needed */

/* Takes the room where there is none. Returns NULL, or the limit that forbids it. */
static const char *take_room(void)
{
    if (atomic_load(&room) != NULL) {
        return NULL;
    }
    void *taken = mmap64(NULL, ADDRESSES, PROT_NONE, KIND, -1, 0), *none = NULL;
    if (taken == MAP_FAILED) {
        return limit_met(errno);
    }
    if (mprotect(taken, ROOM, PROT_READ | PROT_WRITE) != 0) {
        const char *limit = limit_met(errno);
        munmap(taken, ADDRESSES);
        return limit;
    }
    bool split = split_mapping(taken, (size_t)sysconf(_SC_PAGESIZE), ROOM_MAPPINGS, PROT_NONE);
    if (!split || !atomic_compare_exchange_strong(&room, &none, taken)) {
        munmap(taken, ADDRESSES);
    }
    return split ? NULL : "vm.max_map_count";
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    void *memory = mmap64(address, length, protection, flags, file, offset), *given;
    if (memory == MAP_FAILED && errno == ENOMEM && (given = atomic_exchange(&room, NULL)) != NULL) {
        munmap(given, ADDRESSES);
        memory = mmap64(address, length, protection, flags, file, offset);
    }
    return memory;
}

extern void dlpackDescribe(struct request *, struct answer *);

void dlpack_describe_with_room(struct request *request, struct answer *answer)
{
    const char *limit = take_room();
    if (limit != NULL) {
        answer->status = STATUS_MEMORY_ERROR;
        snprintf(answer->message, sizeof answer->message,
                 "the Go core needs %d MiB that it may map, in %d mappings, and a limit forbids that (%s)",
                 ADDRESSES >> 20, ROOM_MAPPINGS, limit);
        return;
    }
    dlpackDescribe(request, answer);
    take_room(); /* again, before others use up what is left */
}
