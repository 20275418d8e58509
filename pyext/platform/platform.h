/* platform.h: the room of what differs between systems. It uses only the core's contract, and knows no Python.
 *
 * build.py lists each system's files. Nothing here raises: a function that fails returns that, or a struct failure. */
#ifndef DLPACK_PLATFORM_H
#define DLPACK_PLATFORM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h> /* sigset_t, on Windows */

#include "core/core.h"

/* Why the core can't start. name is the failure's, NULL if there is none; dlpack._start has the words for it. The other
 * fields are the values in those words: a number, an errno, a text that lives until the next call. */
struct failure {
    const char *name, *text;
    long number;
    int error;
};

/* Finds a function of the program that loaded this library. NULL: absent. */
void *find_in_process(const char *name);

/* Writes the path of `library`, a name without suffix in this library's folder; in UTF-8 on Windows. false: the path is
 * unknown or too long. */
bool path_beside(const char *library, char *path, size_t size);

/* State of one thread, zeroed at first. */
struct thread {
    int producer_calls; /* calls of producers in progress */
    int gil_takers;     /* calls of take_gil without their give_gil_back: deeper on this stack, or in greenlets */
    int frees;          /* deallocations in progress */
    char *first_free;   /* place on the stack of the first one that had to ask for space */
    void *put_aside;    /* objects whose deallocation is postponed */
    uint64_t serial;    /* 0: none yet */
    void *stack;        /* its lowest address; NULL: not read yet */
    size_t stack_size;
    uint64_t stack_limit; /* RLIMIT_STACK when stack was read; 0 if that doesn't bound it */
    bool blocks_fault_signals;
};
struct thread *this_thread(void);

/* True if this thread's stack has space for one more nested call while `nested` are in progress: less than half of it
 * is used, and from 50 calls on less than 4 MiB. If its bounds are unknown, true for fewer than 50 calls. The count
 * alone can't tell: it includes the calls of waiting greenlets, whose part of the stack is stored elsewhere. */
bool stack_has_space(int nested);

/* True if this thread's stack has `least` bytes left, or if its bounds are unknown and Go will assume so. */
bool stack_has_bytes(size_t least);

/* Measures this thread's stack in bytes. false: its bounds are unknown. */
bool measure_stack(size_t *used, size_t *size);

/* Up to this number, nested calls always have space, and need not ask. */
enum { NESTED_FREELY = 4 };

/* Tries likewise what Go needs in addition with this number of processors. */
bool may_grow(int processors);

/* Opens the core's library, or the file `copy` unless that is NULL, and calls its entry, which binds this thread to a Go
 * runtime; hides the GO* variables meanwhile. If this process or one that it was forked from has opened the library
 * before, only a copy can be opened: without one the failure is "copy", and its number a descriptor for one, or -1. */
struct failure start_runtime(const char *path, const char *copy, struct core *core);

/* In a forked child, removes the parent's runtime: what it bound to this thread, whose destructor would enter it, and
 * its signal handlers, which may wait without end. */
void forget_runtime(void);

/* Gives this thread, once, an alternate signal stack, unless it has one, and notes whether it blocks SIGSEGV or SIGBUS.
 * Call it before start_runtime, and before each call of the core's functions. */
void prepare_thread(void);

/* Calls the core's describe, with SIGSEGV and SIGBUS unblocked: Go recovers from a fault only if they are. Other signals
 * wait during this thread's first call. */
typedef void describe_function(struct request *, struct answer *);
void call_describe(describe_function *describe, struct request *request, struct answer *answer);

/* True if Go has bound this thread in a call. False in a forked child, and if Go's key was not found. */
bool is_bound(void);

/* Blocks all signals in this thread, until restore_signals restores `before`. */
void block_signals(sigset_t *before);
void restore_signals(const sigset_t *before);

/* Shared by posix.c, linux.c and darwin.c. */
bool may_be_loaded(const char *path); /* false: the loader would hang on a FIFO, or fault in a truncated file */
struct failure check_start(void);     /* takes all that Go needs with FIRST_CPUS, and gives it back */
int create_memfd(void);               /* an empty file in memory, executable; -1: none, errno says why */

#endif
