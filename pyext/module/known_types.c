/* known_types.c: remembers by which protocol the objects of a type are recognised, where that can't change. To look for
 * attributes costs tens of nanoseconds each, more than all the rest.
 *
 * It is C because it is asked before anything else is known of an object. */
#include "module/module.h"

#include <stdatomic.h>

enum {
    PLACES = 64, /* a power of two */
    TRIES = 4,   /* places that a type may have */
};

/* A type may go, and another take its address: a weak reference tells when. A place is taken once, and never given
 * back: no lock. */
static struct {
    _Atomic(PyObject *) reference; /* NULL: the place is free */
    _Atomic(PyTypeObject *) type;  /* NULL: what is known is not there yet, or the type is gone */
    enum known_type known;
} types[PLACES];

static PyObject *forget_type(PyObject *Py_UNUSED(self), PyObject *reference)
{
    for (size_t place = 0; place < PLACES; place++) {
        if (atomic_load(&types[place].reference) == reference) {
            atomic_store(&types[place].type, NULL);
        }
    }
    return new_none();
}

/* A new weak reference to the type. NULL: error. */
static PyObject *watch_type(PyTypeObject *type)
{
    static PyMethodDef method = {"forget_type", forget_type, METH_O, NULL};
    PyObject *callback = PyCFunction_NewEx(&method, NULL, NULL);
    PyObject *reference = callback == NULL ? NULL : PyWeakref_NewRef((PyObject *)type, callback);
    Py_XDECREF(callback);
    return reference;
}

static size_t place_of(PyTypeObject *type, size_t attempt)
{
    uint64_t hash = (uint64_t)(uintptr_t)type * 0x9E3779B97F4A7C15u;
    return ((hash >> 32) + attempt) % PLACES;
}

enum known_type known_type(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (type == &PyBytes_Type || type == &PyByteArray_Type || type == &PyMemoryView_Type) {
        return BUFFER_ALONE;
    }
    for (size_t i = 0; i < TRIES; i++) {
        size_t place = place_of(type, i);
        if (atomic_load_explicit(&types[place].type, memory_order_acquire) == type) {
            return types[place].known;
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
    PyObject *reference = fixed < 0 ? NULL : watch_type(type);
    if (reference == NULL) {
        return -1;
    }
    for (size_t i = 0; i < TRIES; i++) {
        size_t place = place_of(type, i);
        PyObject *none = NULL;
        if (atomic_compare_exchange_strong(&types[place].reference, &none, reference)) {
            types[place].known = fixed ? known : CHANGES;
            atomic_store_explicit(&types[place].type, type, memory_order_release);
            return 0;
        }
    }
    Py_DECREF(reference);
    return 0;
}
