/* array_struct.h: the structure in an __array_struct__ capsule, as NumPy's array interface documentation defines it. */
#ifndef ARRAY_STRUCT_H
#define ARRAY_STRUCT_H

#include <Python.h>

enum {
    ARRAY_C_CONTIGUOUS = 0x1,
    ARRAY_F_CONTIGUOUS = 0x2,
    ARRAY_ALIGNED = 0x100,
    ARRAY_NOTSWAPPED = 0x200,
    ARRAY_WRITEABLE = 0x400,
};

typedef struct {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_ssize_t *shape;
    Py_ssize_t *strides; /* bytes */
    void *data;
    PyObject *descr;
} PyArrayInterface;

#endif
