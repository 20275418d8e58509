/* capsule.c: takes over the tensor of a DLPack capsule, as the Python specification of DLPack tells consumers, and of
 * a ctypes pointer to a structure of dlpack.structs.
 *
 * It is C because capsules and deleters are C. */
#include "read/read.h"

#include <stdatomic.h>
#include <string.h>

int check_version(DLPackVersion version)
{
    if (version.major != DLPACK_MAJOR_VERSION) {
        PyErr_Format(PyExc_BufferError, "DLPack version %u.%u: expected 1.x (ask the producer with max_version=(1, 3))",
                     version.major, version.minor);
        return -1;
    }
    return 0;
}

/* Of another major version only the version may be read. */
static int describe_managed(DLPackObject *self, const void *managed, bool versioned)
{
    struct request request;
    if (versioned) {
        const DLManagedTensorVersioned *tensor = managed;
        if (check_version(tensor->version) < 0) {
            return -1;
        }
        self->version = tensor->version;
        self->flags |= tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
        request_tensor(&request, &tensor->dl_tensor, tensor->flags);
    }
    else {
        request_tensor(&request, &((const DLManagedTensor *)managed)->dl_tensor, 0);
    }
    request.producer_stream = self->stream;
    return object_describe(self, &request);
}

int take_managed(DLPackObject *self, void *managed, bool versioned)
{
    if (describe_managed(self, managed, versioned) < 0) {
        return -1;
    }
    object_hold_managed(self, managed, versioned);
    return 0;
}

/* The struct of a capsule that was not consumed; NULL: error. */
static void *managed_of(DLPackObject *self, PyObject *capsule, bool *versioned)
{
    const char *name = PyCapsule_GetName(capsule);
    *versioned = name != NULL && strcmp(name, capsule_versioned) == 0;
    if (!*versioned && (name == NULL || strcmp(name, capsule_legacy) != 0)) {
        check_in_python(python.capsule_name, Py_BuildValue("(yss)", name, capsule_legacy, capsule_versioned));
        return NULL;
    }
    if (!*versioned) {
        /* It can't say whether its memory may be written: jax's must not. So it may not, as in numpy. */
        self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    if (self->protocol == NULL) {
        self->protocol = *versioned ? capsule_versioned : capsule_legacy;
    }
    return PyCapsule_GetPointer(capsule, name);
}

int take_capsule(DLPackObject *self, PyObject *capsule)
{
    bool versioned;
    void *managed;
    int renamed = -1;
    /* Renamed first: from here on no other thread can take it. */
    Py_BEGIN_CRITICAL_SECTION(capsule);
    managed = managed_of(self, capsule, &versioned);
    if (managed != NULL) {
        renamed = PyCapsule_SetName(capsule, versioned ? capsule_used_versioned : capsule_used_legacy);
    }
    Py_END_CRITICAL_SECTION();
    if (renamed < 0) {
        return -1;
    }
    if (take_managed(self, managed, versioned) < 0) {
        Py_BEGIN_CRITICAL_SECTION(capsule);
        PyCapsule_SetName(capsule, versioned ? capsule_versioned : capsule_legacy);
        Py_END_CRITICAL_SECTION();
        return -1;
    }
    return 0;
}

int inspect_capsule(DLPackObject *self, PyObject *capsule)
{
    bool versioned;
    const void *managed = managed_of(self, capsule, &versioned);
    return managed == NULL ? -1 : describe_managed(self, managed, versioned);
}

/* The classes of dlpack.structs, which registers them: a ctypes pointer to a structure is known by its type. */

static const char *const structure_names[] = {
    [STRUCTURE_TENSOR] = "DLTensor",
    [STRUCTURE_LEGACY] = "DLManagedTensor",
    [STRUCTURE_VERSIONED] = "DLManagedTensorVersioned",
};

/* Of each structure its type, and that of pointers to it. NULL: dlpack.structs was never imported. */
static _Atomic(PyObject *) structure_types[3][2];

PyObject *register_structures(PyObject *Py_UNUSED(module), PyObject *args)
{
    for (Py_ssize_t i = 0; i < 6 && i < PyTuple_Size(args); i++) {
        Py_XDECREF(atomic_exchange(&structure_types[i / 2][i % 2], Py_NewRef(PyTuple_GetItem(args, i))));
    }
    return new_none();
}

int find_structure(PyObject *obj, enum structure *kind)
{
    PyObject *type = (PyObject *)Py_TYPE(obj);
    for (int i = 0; i < 3; i++) {
        if (type == structure_types[i][1]) {
            *kind = i;
            return 1;
        }
        if (type == structure_types[i][0]) {
            PyErr_Format(PyExc_TypeError,
                         "asdlpack: expected a pointer to the %s, got the structure itself (pass ctypes.pointer of it)",
                         structure_names[i]);
            return -1;
        }
    }
    return 0;
}

/* The address in a ctypes pointer, which becomes NULL where the structure is taken over: so it is taken once. */
static void *address_in(PyObject *pointer, enum structure kind, bool take)
{
    Py_buffer view;
    if (PyObject_GetBuffer(pointer, &view, PyBUF_WRITABLE) < 0) {
        return NULL;
    }
    void **place = view.buf, *address = take ? __atomic_exchange_n(place, NULL, __ATOMIC_ACQ_REL) : *place;
    PyBuffer_Release(&view);
    if (address == NULL) {
        PyErr_Format(PyExc_ValueError,
                     "pointer to a %s is NULL; expected the structure's address (what asdlpack took over is NULL)",
                     structure_names[kind]);
    }
    return address;
}

int inspect_structure(DLPackObject *self, PyObject *pointer, enum structure kind)
{
    self->protocol = structure_names[kind];
    const void *address = address_in(pointer, kind, false);
    if (address == NULL) {
        return -1;
    }
    if (kind != STRUCTURE_TENSOR) {
        return describe_managed(self, address, kind == STRUCTURE_VERSIONED);
    }
    struct request request;
    request_tensor(&request, address, 0);
    return object_describe(self, &request);
}

int take_structure(DLPackObject *self, PyObject *pointer, enum structure kind)
{
    bool versioned = kind == STRUCTURE_VERSIONED;
    self->protocol = structure_names[kind];
    void *managed = address_in(pointer, kind, true);
    if (managed == NULL) {
        return -1;
    }
    if (take_managed(self, managed, versioned) < 0) {
        struct pending pending;
        set_aside(&pending);
        delete_managed(managed, versioned);
        put_back(&pending);
        return -1;
    }
    self->hides_obj = !holds_memory(self);
    return 0;
}
