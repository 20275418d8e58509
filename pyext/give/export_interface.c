/* export_interface.c: exports a DLPackObject's memory by __array_struct__. dlpack._object has the other array interfaces.
 *
 * It is C because the capsule's structure must be released without Go. */
#include "give/give.h"
#include "read/array_struct.h"

#include <stdlib.h>

/* The capsule's context is the object with the memory, the shape and the strides. */
static void destroy_array_struct(PyObject *capsule)
{
    Py_DECREF((PyObject *)PyCapsule_GetContext(capsule));
    free(PyCapsule_GetPointer(capsule, NULL));
}

PyObject *make_array_struct(struct memory *self)
{
    PyArrayInterface *array = malloc(sizeof *array);
    if (array == NULL) {
        return PyErr_NoMemory();
    }
    *array = (PyArrayInterface){
        .two = 2,
        .nd = self->tensor.ndim,
        .typekind = self->names.typestr[1],
        .itemsize = (int)self->itemsize,
        .flags = ARRAY_ALIGNED | ARRAY_NOTSWAPPED | (object_is_compact(self, 'C') ? ARRAY_C_CONTIGUOUS : 0) |
                 (object_is_compact(self, 'F') ? ARRAY_F_CONTIGUOUS : 0) |
                 (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? 0 : ARRAY_WRITEABLE),
        .shape = self->tensor.shape,
        .strides = byte_strides(self),
        .data = object_address(self),
    };
    PyObject *capsule = PyCapsule_New(array, NULL, destroy_array_struct);
    if (capsule == NULL) {
        free(array);
        return NULL;
    }
    PyCapsule_SetContext(capsule, Py_NewRef((PyObject *)self));
    return capsule;
}
