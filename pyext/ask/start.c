/* start.c: starts the Go core when it is first needed, and afresh in a forked child.
 *
 * It is C because it must run before there is a Go runtime, and where the one inherited through fork is dead. */
#include "ask/ask.h"
#include "platform/platform.h"

#include <pthread.h>
#include <stdatomic.h>

#define CORE_FILE "_core.so"

enum { LEAST_PROCESSORS = 2 }; /* that Go gets where a limit forbids more */

static _Atomic(describe_function *) describe_in_go;          /* NULL: no core runs in this process */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* held through a start, and through a fork */
static unsigned cores;       /* how many were opened in this process and in those that it was forked from */
static char core_path[4096]; /* beside this library */

static bool enter_core(void *library, int processors, struct failure *failure)
{
    dlpack_core_function *entry = (dlpack_core_function *)find_function(library, "dlpack_core", failure);
    struct core core = {.processors = processors};
    if (entry == NULL) {
        return false;
    }
    call_entry(entry, &core);
    if (core.describe == NULL) {
        return fail(failure, CANNOT_START, "bug in dlpack's core, please report it: a panic");
    }
    if (core.request_size != sizeof(struct request) || core.answer_size != sizeof(struct answer)) {
        return fail(failure, CANNOT_START, "%.960s: it is of another version of this package; restart the process",
                    core_path);
    }
    atomic_store(&describe_in_go, core.describe);
    return true;
}

static bool open_core(int processors, struct failure *failure)
{
    void *library = cores > 0 ? open_library_copy(core_path, cores, failure) : open_library(core_path, failure);
    if (library == NULL) {
        return false;
    }
    cores++;
    return enter_core(library, processors, failure);
}

/* A malformed GOMEMLIMIT would end the process, so the runtime sees none of the GO* variables. */
static bool start(struct failure *failure)
{
    int processors = usable_cpus() + SPARE_CPUS;
    bool started = have_room(processors, failure);
    if (!started) {
        processors = LEAST_PROCESSORS;
        started = have_room(processors, failure);
    }
    char **settings = started ? hide_settings() : NULL;
    if (settings != NULL) {
        keep_fault_handlers(false);
        started = open_core(processors, failure);
        keep_fault_handlers(true);
        show_settings(settings);
    }
    else if (started) {
        started = fail(failure, NO_MEMORY, "no memory");
    }
    return started;
}

/* Blocks all signals too: a handler may fork, which takes the lock. And the threads that Go starts meanwhile inherit the
 * mask: a signal that the program's threads block must not be taken by one of Go's. */
static void lock(sigset_t *before)
{
    block_signals(BLOCK_ALL, before);
    pthread_mutex_lock(&starting);
}

static void unlock(const sigset_t *before)
{
    pthread_mutex_unlock(&starting);
    restore_signals(before);
}

describe_function *running_core(void)
{
    give_signal_stack();
    describe_function *describe = atomic_load(&describe_in_go);
    if (describe != NULL) {
        return describe;
    }
    struct failure failure = {0};
    sigset_t before;
    /* With the GIL, since os.putenv must not change the environment meanwhile. */
    lock(&before);
    if (atomic_load(&describe_in_go) != NULL || start(&failure)) {
        describe = atomic_load(&describe_in_go);
    }
    unlock(&before);
    if (describe == NULL) {
        PyObject *types[] = {
            [CANNOT_START] = PyExc_RuntimeError,
            [NO_MEMORY] = PyExc_MemoryError,
            [NO_THREADS] = PyExc_OSError,
        };
        PyErr_Format(types[failure.kind], "%s", failure.text); /* paths in it need not be UTF-8 */
    }
    return describe;
}

static sigset_t before_this_fork; /* the mask of the thread that has the lock */

static void before_fork(void)
{
    sigset_t before;
    lock(&before);
    before_this_fork = before;
}

static void after_fork(void)
{
    sigset_t before = before_this_fork; /* without the lock it may be another's */
    unlock(&before);
}

/* The runtime that a forked child inherits has lost its threads (golang/go#15538): the child forgets it. What it
 * bound to this thread is forgotten too, since its destructor, at the thread's end, would enter that runtime. */
static void after_fork_in_child(void)
{
    atomic_store(&describe_in_go, NULL);
    unbind_thread();
    restore_fault_handlers();
    python_after_fork();
    after_fork();
}

int start_init(void)
{
    static bool done;
    if (done) {
        return 0;
    }
    if (!path_beside(CORE_FILE, core_path, sizeof core_path)) {
        PyErr_SetString(PyExc_ImportError, "dlpack: the path of this extension can't be told, or is too long");
        return -1;
    }
    if (pthread_atfork(before_fork, after_fork, after_fork_in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    done = true;
    return 0;
}
