/* reserve_linux.c: the core's entry, and what Go's runtime calls for memory and threads. It ends the process where it
 * gets none, so it gets what the extension keeps in reserve for it.
 *
 * It is C because the runtime calls C's mmap and pthread_create, and must find these instead. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

extern void dlpackStart(struct core *);

static void **reserve;                                   /* struct core's */
static __typeof__(&pthread_create) create_thread;        /* struct core's; NULL before the entry is called */
static __typeof__(&pthread_getattr_np) stack_attributes; /* struct core's */
static struct {
    void *(*routine)(void *);
    void *argument;
} first_thread; /* of Go's; NULL: there was no constructor */

/* Within this library it is mmap. */
void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    void *memory = mmap64(address, length, protection, flags, file, offset), *given;
    if (memory == MAP_FAILED && errno == ENOMEM && reserve != NULL &&
        (given = __atomic_exchange_n(reserve, NULL, __ATOMIC_ACQ_REL)) != NULL) {
        munmap(given, RESERVE_BYTES);
        memory = mmap64(address, length, protection, flags, file, offset);
    }
    return memory;
}

/* The linker puts it in the place of pthread_create (build.py). A constructor of this library starts Go's first thread,
 * before the extension can say how: that waits for the entry. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument)
{
    if (create_thread == NULL) {
        first_thread.routine = routine;
        first_thread.argument = argument;
        return 0;
    }
    return create_thread(thread, attributes, routine, argument);
}

/* The same: Go asks where a thread's stack lies, at its first call. */
int __wrap_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
    return stack_attributes(thread, attributes);
}

void dlpack_core(struct core *core)
{
    pthread_t thread;
    reserve = core->reserve;
    create_thread = core->create_thread;
    stack_attributes = core->stack_attributes;
    if (first_thread.routine == NULL ||
        create_thread(&thread, NULL, first_thread.routine, first_thread.argument) == 0) {
        dlpackStart(core);
    }
}
