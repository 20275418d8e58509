/* known_types.c: caches the protocol of types that can't change. Looking for attributes takes 22 to 33 ns, as long as
 * all the rest.
 *
 * It is C because it is asked before anything else is known of an object. */
#include "read/read.h"

#include <stdatomic.h>

enum {
    PLACES = 64, /* a power of two */
    TRIES = 4,   /* places that a type may have */
    KNOWN = 7,   /* the bits of a place below the type's address, a multiple of 8 */
};

/* A type's address, with an enum known_type in its lowest bits; 0: free. Places are never reused, and each holds a
 * reference to its type, so that no other type can take its address. This keeps at most PLACES types alive, all of them
 * immutable types that libraries define in C. */
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

/* numpy's class of the data types of objects. Never freed; set before an array's type is known. (A thread without the
 * GIL may see it later: then an array of objects is refused at first use, as others are.) */
static PyObject *_Atomic objects_type;

int holds_objects(PyObject *obj)
{
    PyObject *dtype = PyObject_GetAttr(obj, names.dtype);
    int holds = dtype == NULL ? -1 : (PyObject *)Py_TYPE(dtype) == objects_type;
    Py_XDECREF(dtype);
    return holds;
}

bool owns_memory(PyObject *obj)
{
    enum { STEPS = 4 }; /* an array, its base array, a memoryview, and that one's object */
    bool owns = false;
    PyObject *owner = Py_NewRef(obj);
    for (int step = 0; step < STEPS && owner != NULL && !owns; step++) {
        bool is_array = known_type(owner) == HAS_BOTH;
        PyObject *next = NULL;
        if (PyBytes_CheckExact(owner) || PyByteArray_CheckExact(owner)) {
            owns = true;
        }
        else if (is_array || PyMemoryView_Check(owner)) {
            int found = optional_attribute(owner, is_array ? names.base : names.obj, &next);
            owns = is_array && found == 0;
        }
        Py_DECREF(owner);
        owner = next;
    }
    Py_XDECREF(owner);
    PyErr_Clear();
    return owns;
}

int remember_type(PyObject *obj, enum known_type known)
{
    PyTypeObject *type = Py_TYPE(obj);
    if (!PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) {
        return 0;
    }
    bool looks_up = PyType_GetSlot(type, Py_tp_getattro) == (void *)PyObject_GenericGetAttr;
    PyObject *has_dlpack = known == HAS_DLPACK ? Py_True : Py_False;
    PyObject *answer = looks_up ? call_python(python.shares_by_both, PyTuple_Pack(2, type, has_dlpack)) : new_none();
    if (answer == NULL) {
        return -1;
    }
    bool changes = answer == Py_None, is_array = !changes && answer != Py_False;
    uintptr_t filled = (uintptr_t)type | (changes ? CHANGES : is_array ? HAS_BOTH : known);
    PyObject *unset = NULL;
    if (!is_array || !atomic_compare_exchange_strong(&objects_type, &unset, answer)) {
        Py_DecRef(answer);
    }
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
