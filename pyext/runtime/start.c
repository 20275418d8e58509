/* start.c: starts the Go core when it is first needed, and anew in a forked child.
 *
 * It is C because it must run before there is a Go runtime, and in a forked child, whose inherited runtime is dead. */
#include "runtime/runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void grow_function(int32_t processors);

static _Atomic(describe_function *) describe_in_core; /* NULL: no core runs */
static _Atomic(grow_function *) grow_in_core;         /* NULL: already grown, or a limit forbids it */
static int32_t most_processors;
static char core_path[4096]; /* in this library's folder */

/* A start of the core waits for forks, and a fork waits for a start. Forks don't wait for each other: os.fork holds the
 * GIL, which a pthread_atfork handler of another library may await in another fork. So a start releases the GIL while
 * it waits. Start and fork may still wait for each other: if such a handler waits for the starting thread, if that
 * thread itself forks, or if a library's constructor forks, during which the core can't be loaded. So neither waits
 * longer than LONGEST_WAIT. */
enum { STARTING = -1 };
static atomic_int forks;         /* forks in progress, or STARTING */
static atomic_int forks_process; /* process that counts them */

enum { LONGEST_WAIT = 1500 }; /* milliseconds */

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Claims the start if no fork is in progress, or after LONGEST_WAIT. */
static bool may_start(int64_t begin)
{
    int now = 0;
    return atomic_compare_exchange_strong(&forks, &now, STARTING) ||
           (now > 0 && milliseconds() - begin > LONGEST_WAIT && atomic_compare_exchange_strong(&forks, &now, STARTING));
}

/* Waits until it may start, and blocks all signals: a handler may fork, and would wait for the start that it
 * interrupts. Go's threads inherit the mask, so they take no signal that the program's threads block. */
static void begin_start(sigset_t *before)
{
    int64_t begin = milliseconds();
    block_signals(before);
    while (!may_start(begin)) {
        restore_signals(before);
        Py_BEGIN_ALLOW_THREADS
        wait_a_little();
        Py_END_ALLOW_THREADS
        block_signals(before);
    }
}

static void end_start(const sigset_t *before)
{
    atomic_store(&forks, 0);
    restore_signals(before);
}

/* Starts the core unless one runs. Keeps the GIL meanwhile, if there is one: then os.putenv can't change the environment. */
static struct failure start(const char *copy)
{
    struct failure failure = {0};
    struct core core = {.version = DLPACK_GO_VERSION};
    sigset_t before;
    begin_start(&before);
    if (atomic_load(&describe_in_core) == NULL) {
        failure = start_runtime(core_path, copy, &core);
        if (failure.name == NULL && core.describe == NULL) {
            failure.name = strcmp(core.version, DLPACK_GO_VERSION) == 0 ? "panic" : "version";
        }
        if (failure.name != NULL) {
            forget_runtime();
        }
        most_processors = core.most_processors;
        atomic_store(&grow_in_core, core.grow);
        atomic_store(&describe_in_core, core.describe);
    }
    end_start(&before);
    return failure;
}

PyObject *start_copy(PyObject *Py_UNUSED(module), PyObject *path)
{
    const char *copy = PyBytes_AsString(path);
    if (copy == NULL) {
        return NULL;
    }
    struct failure failure = start(copy);
    return Py_BuildValue("(zlyi)", failure.name, failure.number, failure.text, failure.error);
}

/* Forgets the inherited runtime, which has lost its threads (golang/go#15538), and what it bound to this thread, whose
 * destructor would enter that runtime when the thread ends. */
static void after_fork_in_child(void)
{
    atomic_store(&describe_in_core, NULL);
    atomic_store(&grow_in_core, NULL);
    forget_runtime();
    python_after_fork();
    atomic_store(&forks, 0); /* forks of other threads are the parent's */
}

describe_function *running_core(void)
{
    enum { MOST_STARTS = 8 }; /* after each, a signal handler may fork */
    if (atomic_load(&forks) > 0 && getpid() != atomic_load(&forks_process)) {
        after_fork_in_child(); /* another library's fork handler comes here before it */
    }
    prepare_thread();
    describe_function *describe = atomic_load(&describe_in_core);
    for (int starts = 0; describe == NULL && starts < MOST_STARTS; starts++) {
        struct failure failure = start(NULL);
        if (failure.name != NULL &&
            check_in_python(python.start_failed, Py_BuildValue("(yzlyi)", core_path, failure.name, failure.number,
                                                               failure.text, failure.error)) < 0) {
            return NULL;
        }
        describe = atomic_load(&describe_in_core);
    }
    if (describe == NULL) { /* Python's modules started another package's core */
        PyErr_SetString(PyExc_RuntimeError, "the Go core can't start in a copy of the package under another name");
    }
    return describe;
}

void grow_core(void)
{
    sigset_t before;
    if (atomic_load(&grow_in_core) == NULL) {
        return;
    }
    begin_start(&before);
    grow_function *grow = atomic_load(&grow_in_core);
    if (grow != NULL && may_grow(most_processors)) {
        grow(most_processors);
    }
    atomic_store(&grow_in_core, NULL); /* last: other large copies wait for this */
    end_start(&before);
}

static void before_fork(void)
{
    int64_t begin = milliseconds();
    int now = atomic_load(&forks);
    atomic_store(&forks_process, getpid());
    while ((now == STARTING || !atomic_compare_exchange_weak(&forks, &now, now + 1)) &&
           milliseconds() - begin <= LONGEST_WAIT) {
        wait_a_little();
        now = atomic_load(&forks);
    }
}

/* The count may already be 0: if a signal handler forks during a fork, its child counts from 0, and the interrupted
 * fork also ends there. */
static void after_fork(void)
{
    int now = atomic_load(&forks);
    while (now > 0 && !atomic_compare_exchange_weak(&forks, &now, now - 1)) {
    }
}

int start_init(void)
{
    static bool done;
    if (done) {
        return 0;
    }
    if (!path_beside("_core", core_path, sizeof core_path)) {
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
