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
static char core_path[4096];                                 /* beside this library */

static struct failure start_alone(const char *copy)
{
    struct core core = {.processors = usable_cpus() + SPARE_CPUS};
    struct failure failure = check_room(core.processors);
    if (failure.name != NULL) {
        core.processors = LEAST_PROCESSORS;
        failure = check_room(core.processors);
    }
    if (failure.name == NULL) {
        failure = start_runtime(core_path, copy, &core);
    }
    if (failure.name != NULL) {
        return failure;
    }
    if (core.describe == NULL) {
        return (struct failure){.name = "panic"};
    }
    if (core.request_size != sizeof(struct request) || core.answer_size != sizeof(struct answer)) {
        return (struct failure){.name = "version"};
    }
    atomic_store(&describe_in_go, core.describe);
    return failure;
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

/* Starts the core, unless one runs. It keeps the GIL, since os.putenv must not change the environment meanwhile. */
static struct failure start(const char *copy)
{
    struct failure failure = {0};
    sigset_t before;
    lock(&before);
    if (atomic_load(&describe_in_go) == NULL) {
        failure = start_alone(copy);
    }
    unlock(&before);
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

describe_function *running_core(void)
{
    prepare_thread();
    describe_function *describe;
    while ((describe = atomic_load(&describe_in_go)) == NULL) {
        struct failure failure = start(NULL);
        if (failure.name != NULL &&
            check_in_python(PYTHON_START_FAILED, Py_BuildValue("(yzlyi)", core_path, failure.name, failure.number,
                                                               failure.text, failure.error)) < 0) {
            return NULL;
        }
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
    forget_runtime();
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
