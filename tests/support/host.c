/* A program that has Python inside, and tensors that outlive it. Arguments: how often Python begins and ends; when the
 * tensors are dropped: "during" its end, "after" it, "threads" after it, or "never". */
#include <Python.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../python/dlpack/include/dlpack/dlpack.h"

enum { MOST = 4096 };

static DLManagedTensor *kept[MOST];
static int count;

static void *drop(void *managed)
{
    ((DLManagedTensor *)managed)->deleter(managed);
    return NULL;
}

/* Takes all capsules of the list `capsules` as a consumer does, and keeps their tensors. */
static int take_capsules(void)
{
    PyObject *list = PyObject_GetAttrString(PyImport_AddModule("__main__"), "capsules");
    for (Py_ssize_t i = 0; list != NULL && i < PyList_Size(list) && count < MOST; i++) {
        PyObject *capsule = PyList_GetItem(list, i);
        kept[count] = PyCapsule_GetPointer(capsule, "dltensor");
        if (kept[count++] == NULL || PyCapsule_SetName(capsule, "used_dltensor") != 0) {
            return -1;
        }
    }
    Py_XDECREF(list);
    return list == NULL ? -1 : 0;
}

/* Each tensor holds 0, 1, 2 in its first bytes, for as long as its deleter was not called. */
static int check_tensors(int from)
{
    for (int i = from; i < count; i++) {
        if (memcmp((char *)kept[i]->dl_tensor.data + kept[i]->dl_tensor.byte_offset, "\0\1\2", 3) != 0) {
            return -1;
        }
    }
    return 0;
}

static int run(const char *program, const char *when)
{
    pthread_t threads[MOST];
    int first = count, started = count;
    Py_InitializeEx(1);
    if (PyRun_SimpleString(program) != 0 || take_capsules() < 0 || check_tensors(0) < 0) {
        return 1;
    }
    int middle = strcmp(when, "during") == 0 ? (first + count) / 2 : first;
    PyThreadState *state = PyEval_SaveThread();
    for (; started < middle; started++) {
        pthread_create(&threads[started], NULL, drop, kept[started]);
    }
    PyEval_RestoreThread(state);
    if (Py_FinalizeEx() != 0 || check_tensors(middle) < 0) {
        return 2;
    }
    if (strcmp(when, "never") == 0) {
        return 0;
    }
    for (; started < count; started++) {
        if (strcmp(when, "after") == 0) {
            drop(kept[started]);
        }
        else {
            pthread_create(&threads[started], NULL, drop, kept[started]);
        }
    }
    for (int i = first; i < count && strcmp(when, "after") != 0; i++) {
        pthread_join(threads[i], NULL);
    }
    count = 0;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 64;
    }
    for (int i = 0; i < atoi(argv[2]); i++) {
        int status = run(argv[1], argv[3]);
        if (status != 0) {
            return status;
        }
    }
    return check_tensors(0) == 0 ? 0 : 3;
}
