/* known_types.c: remembers by which protocol the objects of a type are recognised, where that can't change. To look for
 * attributes costs 22 to 33 ns, as much as all the rest.
 *
 * It is C because it is asked before anything else is known of an object. */
#include "module/module.h"

#include <stdatomic.h>

enum {
    PLACES = 64, /* a power of two */
    TRIES = 4,   /* places that a type may have */
    KNOWN = 3,   /* the bits of a place that are no part of the type's address */
};

/* A type's address, and in its lowest bits an enum known_type; 0: free. A place is filled once, and holds a reference to
 * its type for ever, so that no other type can take its address: at most PLACES types are kept alive, of those that can't
 * change, which are of libraries. */
static atomic_uintptr_t places[PLACES];

static atomic_uintptr_t *place_of(PyTypeObject *type, size_t attempt)
{
    uint64_t hash = (uint64_t)(uintptr_t)type * 0x9E3779B97F4A7C15u;
    return &places[((hash >> 32) + attempt) % PLACES];
}

enum known_type known_type(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (type == &PyBytes_Type || type == &PyByteArray_Type || type == &PyMemoryView_Type) {
        return BUFFER_ALONE;
    }
    for (size_t attempt = 0; attempt < TRIES; attempt++) {
        uintptr_t place = atomic_load_explicit(place_of(type, attempt), memory_order_relaxed);
        if ((place & ~(uintptr_t)KNOWN) == (uintptr_t)type) {
            return place & KNOWN;
        }
    }
    return NOT_KNOWN;
}

/* Whether no attribute can come to the type. -1: error. */
static int is_immutable(PyTypeObject *type)
{
    PyObject *bases = PyObject_GetAttrString((PyObject *)type, "__mro__");
    int immutable = bases == NULL ? -1 : Py_IS_TYPE((PyObject *)type, &PyType_Type) && PyTuple_Check(bases);
    for (Py_ssize_t i = 0; immutable > 0 && i < PyTuple_Size(bases); i++) {
        PyObject *base = PyTuple_GetItem(bases, i);
        immutable = PyType_Check(base) && PyType_HasFeature((PyTypeObject *)base, Py_TPFLAGS_IMMUTABLETYPE);
    }
    Py_XDECREF(bases);
    return immutable;
}

/* Whether no attribute can come to an object of the type alone. -1: error. */
static int has_no_dict(PyTypeObject *type)
{
    if (PyType_GetSlot(type, Py_tp_getattro) != (void *)PyObject_GenericGetAttr) {
        return 0;
    }
    int64_t offset = 1;
    PyObject *number = PyObject_GetAttrString((PyObject *)type, "__dictoffset__");
    int read = number == NULL ? -1 : read_int(number, true, &offset);
    Py_XDECREF(number);
    return read < 0 ? -1 : offset == 0;
}

/* Whether __dlpack__ is a method of the type, and no attribute that may be absent. -1: error. */
static int has_dlpack_method(PyTypeObject *type)
{
    PyObject *method = PyObject_GetAttr((PyObject *)type, names.dlpack);
    int is_method = method == NULL ? -1 : Py_IS_TYPE(method, &PyMethodDescr_Type);
    Py_XDECREF(method);
    return is_method;
}

/* Whether the type has none of the attributes that come before the buffer: an object may lack one that another has, and
 * the array interface may lead to a buffer, too. -1: error. */
static int has_buffer_alone(PyTypeObject *type)
{
    PyObject *const attributes[] = {names.dlpack, names.array_interface, names.array_struct,
                                    names.cuda_array_interface};
    int found = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes && found == 0; i++) {
        PyObject *value;
        found = optional_attribute((PyObject *)type, attributes[i], &value);
        Py_XDECREF(value);
    }
    return found < 0 ? -1 : found == 0;
}

int remember_type(PyObject *obj, enum known_type known)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) {
        return 0;
    }
    int fixed = is_immutable(type);
    if (fixed > 0) {
        fixed = has_no_dict(type);
    }
    if (fixed > 0) {
        fixed = known == HAS_DLPACK ? has_dlpack_method(type) : has_buffer_alone(type);
    }
    if (fixed < 0) {
        return -1;
    }
    uintptr_t filled = (uintptr_t)type | (fixed ? known : CHANGES);
    Py_INCREF((PyObject *)type);
    for (size_t attempt = 0; attempt < TRIES; attempt++) {
        uintptr_t place = 0;
        if (atomic_compare_exchange_strong(place_of(type, attempt), &place, filled)) {
            return 0;
        }
    }
    Py_DECREF((PyObject *)type);
    return 0;
}
