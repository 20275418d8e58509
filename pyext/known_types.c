/* known_types.c: remembers by which protocol the objects of a type are recognised, where that can't change. To look for
 * attributes costs tens of nanoseconds each, more than all the rest.
 *
 * It is C because it is asked before anything else is known of an object. */
#include "extension.h"

#include <stdatomic.h>

enum { MOST = 32 };

/* Weak references, since a type may go, and another take its address. Filled once, never emptied: no lock. */
static struct {
    _Atomic(PyTypeObject *) type; /* NULL: not filled yet */
    PyObject *reference;
    enum known_type known;
} types[MOST];

static atomic_int claimed;

enum known_type known_type(PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (type == &PyBytes_Type || type == &PyByteArray_Type || type == &PyMemoryView_Type) {
        return BUFFER_ALONE;
    }
    for (int i = 0; i < MOST && i < atomic_load_explicit(&claimed, memory_order_relaxed); i++) {
        if (atomic_load_explicit(&types[i].type, memory_order_acquire) == type &&
            PyWeakref_GetObject(types[i].reference) == (PyObject *)type) {
            return types[i].known;
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

int remember_type(PyObject *obj, enum known_type known)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) || atomic_load(&claimed) >= MOST) {
        return 0;
    }
    int fixed = is_immutable(type);
    if (fixed > 0) {
        fixed = has_no_dict(type);
    }
    if (fixed > 0 && known == HAS_DLPACK) {
        fixed = has_dlpack_method(type);
    }
    PyObject *reference = fixed < 0 ? NULL : PyWeakref_NewRef((PyObject *)type, NULL);
    if (reference == NULL) {
        return -1;
    }
    int place = atomic_fetch_add(&claimed, 1);
    if (place >= MOST) {
        Py_DECREF(reference);
        return 0;
    }
    types[place].reference = reference;
    types[place].known = fixed ? known : CHANGES;
    atomic_store_explicit(&types[place].type, type, memory_order_release);
    return 0;
}
