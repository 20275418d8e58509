/* export_arrow.c: gives a DLPackObject's memory by __arrow_c_array__, the Arrow PyCapsule interface. */
#include "extension.h"

PyObject *object_arrow_c_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    (void)self;
    PyErr_SetString(PyExc_BufferError, "to come");
    return NULL;
}
