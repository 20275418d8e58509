/* limit.h: which limit refused memory to this process, for the texts of errors. */
#ifndef DLPACK_LIMIT_H
#define DLPACK_LIMIT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Pages that alternate between two protections are a mapping each: such memory takes so many of the mappings that
 * vm.max_map_count allows. false: there are fewer. */
static inline bool split_mapping(void *memory, size_t page, int mappings, int protection)
{
    for (int i = 0; i < mappings; i += 2) {
        if (mprotect((char *)memory + (i + 1) * page, page, protection) != 0) {
            return false;
        }
    }
    return true;
}

static inline bool is_limited(int resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* Names the limit that an mmap met which failed with this error. */
static inline const char *limit_met(int error)
{
    if (error == EAGAIN) {
        return "ulimit -l, since mlockall locks new memory";
    }
    void *page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return is_limited(RLIMIT_AS) ? "vm.max_map_count, or ulimit -v" : "vm.max_map_count";
    }
    munmap(page, 1);
    if (is_limited(RLIMIT_DATA)) {
        return is_limited(RLIMIT_AS) ? "ulimit -d, -v" : "ulimit -d";
    }
    return is_limited(RLIMIT_AS) ? "ulimit -v" : "vm.overcommit_memory";
}

#endif
