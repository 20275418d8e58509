/* export_buffer.c: gives a DLPackObject's memory by the buffer protocol (PEP 3118). */
#include "extension.h"

int object_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    (void)self;
    (void)flags;
    view->obj = NULL;
    PyErr_SetString(PyExc_BufferError, "to come");
    return -1;
}

void object_release_buffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    (void)view;
}
