/* platform.h: the room of what differs between systems, above the core's contract and below all that knows Python.
 *
 * build.py says which files each system has. Nothing here raises: a function that fails says so in its result, or returns
 * a struct failure. */
#ifndef DLPACK_PLATFORM_H
#define DLPACK_PLATFORM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"

/* Why the core can't start, for dlpack._start, which has the words: the name of a failure, NULL where there is none, and
 * what its text says: a number, an errno, a text that lives until the next call. */
struct failure {
    const char *name, *text;
    long number;
    int error;
};

/* A function of the program that this library was loaded into; NULL: absent. */
void *find_in_process(const char *name);

/* Writes the path, in UTF-8 on Windows, of another library that lies beside this one, whose name comes without a suffix.
 * false: it can't be told, or is too long. */
bool path_beside(const char *library, char *path, size_t size);

/* What is kept for each thread, in one place: all zero at first. */
struct thread {
    int producer_calls; /* calls of producers that have not ended */
    int gil_takers;     /* calls of take_gil whose give_gil_back has not come: below on its stack, or in greenlets */
    int frees;          /* deallocations that have not ended */
    char *first_free;   /* where on the stack the first one began that had to ask for space */
    void *put_aside;    /* objects whose deallocation waits */
    uint64_t serial;    /* 0: it has none yet */
    void *stack;        /* its lowest address; NULL: not known yet */
    size_t stack_size;
    uint64_t stack_limit; /* RLIMIT_STACK when stack was read; 0 where that doesn't bound it */
    bool blocks_fault_signals;
};
struct thread *this_thread(void);

/* Whether this thread's stack has space for one more nested call, where `nested` have not ended: less than half of it is
 * used, and from 50 calls on less than 4 MiB. Where its bounds are not known: whether they are fewer than 50. The count
 * alone can't tell: the calls of a greenlet that waits are counted, but their part of the stack is stored elsewhere. */
bool stack_has_space(int nested);

/* Whether this thread's stack has so many bytes left, or its bounds are not known. */
bool stack_has_bytes(size_t least);

/* Whether it is the main thread's, and surely has much left. To measure that stack takes long: glibc reads
 * /proc/self/maps. */
bool stack_is_large(void);

/* Whether so many nested calls through Python can lie in the part of this thread's stack that is in use, by the least that
 * each takes. */
bool used_stack_may_hold(int calls);

/* How many bytes of this thread's stack are used, and how many it has. false: its bounds are not known. */
bool measure_stack(size_t *used, size_t *size);

/* So many nested calls always have space, and need not ask. */
enum { NESTED_FREELY = 4 };

/* How many processors this process may run on, at most MOST_CPUS. */
int usable_cpus(void);

/* Takes what a Go runtime takes with FIRST_CPUS, and gives it back. The failure names the limit that was met. */
struct failure check_start(void);

/* Tries in the same way what Go takes in addition with this number of processors. */
bool may_grow(int processors);

/* Zeroed memory, which in a forked child is zeroed again before any handler of a fork runs there (macOS, and
 * Linux before 4.14: it is not). NULL: there is none. */
void *map_zeroed_by_fork(size_t bytes);

/* Opens the core's library and calls its entry, which binds this thread to a Go runtime, from which the GO* variables are
 * hidden meanwhile. In a process that has opened it before, or was forked from one that has, it opens a copy: of its own
 * making, or where `copy` is not NULL the file of this path. */
struct failure start_runtime(const char *path, const char *copy, struct core *core);

/* In a forked child, gives up what a runtime has bound to this thread, whose destructor would enter the parent's, and its
 * handlers of signals, which may wait for ever. */
void forget_runtime(void);

/* Gives this thread, once, an alternate signal stack that it keeps, unless it has one, and notes whether it blocks
 * SIGSEGV or SIGBUS. It must come before start_runtime, and before each call of what the core gave. */
void prepare_thread(void);

/* Whether this thread has called the core, and Go keeps what it made for that: not in a forked child, nor where there
 * was no key for it. */
bool is_bound(void);

/* Blocks signals in this thread, besides those that it blocks already, until restore_signals puts back what was. */
enum blocked { BLOCK_ALL_BUT_FAULTS, BLOCK_ALL };
void block_signals(enum blocked which, sigset_t *before);
void restore_signals(const sigset_t *before);

/* Unblocks SIGSEGV and SIGBUS in a thread that was prepared with one of them blocked, until restore_signals: Go
 * recovers from a fault only where they are not. false: it had not, and nothing was done, which costs no system call. */
bool unblock_fault_signals(sigset_t *before);

/* What linux.c and darwin.c have for posix.c, or posix.c for them: `entry` becomes the address of dlpack_core. */
bool may_be_loaded(const char *path); /* false: the loader would wait for ever for a FIFO, or fault in a file cut off */
struct failure open_library(const char *path, void **entry);
struct failure open_library_copy(const char *path, unsigned copies, void **entry);
/* A program may have closed the standard descriptors, and open them again later: Go must not have got one of them for its
 * own. hold_standard_descriptors returns how many are held. */
int hold_standard_descriptors(int held[3]);
void release_descriptors(const int *held, int count);

#endif
