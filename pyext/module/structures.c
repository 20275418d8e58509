/* structures.c: shares the tensor at a ctypes pointer to a structure of dlpack.structs.
 *
 * It is C because a deleter is called once, whichever thread comes first. */
#include "module/module.h"

#include <stdatomic.h>

/* Registered by dlpack.structs: the function that reads its structures, their types, and the types of ctypes pointers
 * to them. Never freed; NULL: dlpack.structs was not imported. */
static _Atomic(PyObject *) structures;

PyObject *register_structures(PyObject *Py_UNUSED(module), PyObject *args)
{
    atomic_store(&structures, Py_NewRef(args));
    return new_none();
}

PyObject *structure_reader(PyObject *obj)
{
    PyObject *registered = structures;
    for (Py_ssize_t i = 1; registered != NULL && i < PyTuple_Size(registered); i++) {
        if (PyTuple_GetItem(registered, i) == (PyObject *)Py_TYPE(obj)) {
            return PyTuple_GetItem(registered, 0);
        }
    }
    return NULL;
}

PyObject *structure_reader_of(PyObject *Py_UNUSED(module), PyObject *obj)
{
    PyObject *reader = structure_reader(obj);
    return reader == NULL ? new_none() : Py_NewRef(reader);
}

PyObject *share_structure(PyObject *Py_UNUSED(module), PyObject *args)
{
    enum { TENSOR, MANAGED, MANAGED_VERSIONED };
    static const char *const protocols[] = {"DLTensor", "DLManagedTensor", "DLManagedTensorVersioned"};
    PyObject *pointer, *copied, *target;
    int kind, takes;
    enum copy copy;
    DLDevice device;
    Py_buffer view;
    struct reading reading;
    if (!PyArg_ParseTuple(args, "OipOO", &pointer, &kind, &takes, &copied, &target)) {
        return NULL;
    }
    plain_copy(copied, &copy);
    struct memory *begun = object_begin(&reading, pointer, copy, plain_device(target, &device) ? &device : NULL);
    int found = begun == NULL ? -1 : PyObject_GetBuffer(pointer, &view, PyBUF_WRITABLE);
    if (found == 0) {
        void **place = view.buf;
        void *address = takes ? __atomic_exchange_n(place, NULL, __ATOMIC_ACQ_REL) : *place;
        PyBuffer_Release(&view);
        reading.protocol = protocols[kind];
        reading.stream = kind == TENSOR ? STREAM_UNKNOWN : STREAM_LEGACY;
        reading.hides_obj = takes;
        if (address == NULL) {
            found = check_in_python(python.refuse_in_words, Py_BuildValue("(ss)", "null-structure", reading.protocol));
        }
        else {
            found = read_managed(&reading, address, kind == MANAGED_VERSIONED); /* begins with its DLTensor */
            reading.lent = false;
            if (!takes) {
                reading.hold->holding = HOLDS_NOTHING;
            }
        }
    }
    return (PyObject *)object_of(found, begun, &reading);
}
