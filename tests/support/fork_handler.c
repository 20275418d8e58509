/* fork_handler.c: a library whose fork handler takes the GIL, and a thread of C that forks. */
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_t thread;
static atomic_bool reached;
static int status;

static void take_gil(void)
{
    reached = true;
    PyGILState_STATE state = PyGILState_Ensure();
    PyGILState_Release(state);
}

int register_handler(void)
{
    return pthread_atfork(take_gil, NULL, NULL);
}

static void *fork_once(void *nothing)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, &status, 0);
    return nothing;
}

/* Returns when the handler waits for the GIL, which the caller holds. */
int begin_fork(void)
{
    int error = pthread_create(&thread, NULL, fork_once, NULL);
    while (error == 0 && !reached) {
        usleep(1000);
    }
    return error;
}

/* The status of the child. The caller does not hold the GIL. */
int end_fork(void)
{
    pthread_join(thread, NULL);
    return status;
}
