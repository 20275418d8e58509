/* export_interface.c: gives a DLPackObject's memory by the array interfaces, and to numpy by __array__. */
#include "extension.h"

PyObject *get_array_interface(PyObject *self, void *closure)
{
    (void)self;
    (void)closure;
    PyErr_SetString(PyExc_AttributeError, "to come");
    return NULL;
}

PyObject *get_array_struct(PyObject *self, void *closure)
{
    return get_array_interface(self, closure);
}

PyObject *get_cuda_array_interface(PyObject *self, void *closure)
{
    return get_array_interface(self, closure);
}

PyObject *object_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    (void)self;
    PyErr_SetString(PyExc_BufferError, "to come");
    return NULL;
}
