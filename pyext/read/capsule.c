/* capsule.c: takes over the tensor of a DLPack capsule, by the rules of DLPack's Python specification; that of the
 * result of to_dlpack(); and that at a ctypes pointer to a structure of dlpack.structs.
 *
 * It is C because capsules and deleters are C. */
#include "read/read.h"

#include <stdatomic.h>
#include <string.h>

int check_version(DLPackVersion version)
{
    if (version.major != DLPACK_MAJOR_VERSION) {
        PyErr_Format(PyExc_BufferError,
                     "DLPack version %u.%u: expected %d.x (which a producer has to give where max_version is (%d, %d))",
                     version.major, version.minor, DLPACK_MAJOR_VERSION, DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
        return -1;
    }
    return 0;
}

/* If the major version is another one, only the version may be read. */
static int read_managed(DLPackObject *self, const void *managed, bool versioned, struct request *request)
{
    if (versioned) {
        const DLManagedTensorVersioned *tensor = managed;
        if (check_version(tensor->version) < 0) {
            return -1;
        }
        self->version = tensor->version;
        self->flags |= tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
        request_tensor(request, &tensor->dl_tensor, tensor->flags);
    }
    else {
        request_tensor(request, &((const DLManagedTensor *)managed)->dl_tensor, 0);
    }
    request->producer_stream = self->stream;
    return 0;
}

static int describe_managed(DLPackObject *self, const void *managed, bool versioned)
{
    struct request request;
    return read_managed(self, managed, versioned, &request) < 0 ? -1 : object_describe(self, &request);
}

int take_managed(DLPackObject *self, void *managed, bool versioned)
{
    if (describe_managed(self, managed, versioned) < 0) {
        return -1;
    }
    object_hold_managed(self, managed, versioned);
    return 0;
}

/* Returns the struct of a capsule that was not consumed. NULL: error. */
static void *managed_of(DLPackObject *self, PyObject *capsule, bool *versioned)
{
    const char *name = PyCapsule_GetName(capsule);
    *versioned = name != NULL && strcmp(name, capsule_versioned) == 0;
    if (!*versioned && (name == NULL || strcmp(name, capsule_legacy) != 0)) {
        check_in_python(python.capsule_name, Py_BuildValue("(yss)", name, capsule_legacy, capsule_versioned));
        return NULL;
    }
    if (!*versioned) {
        /* A legacy capsule can't say that its memory is read-only, as jax's is: so assume it, as numpy does. */
        self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    if (self->protocol == NULL) {
        self->protocol = *versioned ? capsule_versioned : capsule_legacy;
    }
    return PyCapsule_GetPointer(capsule, name);
}

/* Like managed_of, and renames the capsule, so that no other thread can take it. */
static void *consume(DLPackObject *self, PyObject *capsule, bool *versioned)
{
    void *managed;
    int renamed = -1;
    Py_BEGIN_CRITICAL_SECTION(capsule);
    managed = managed_of(self, capsule, versioned);
    if (managed != NULL) {
        renamed = PyCapsule_SetName(capsule, *versioned ? capsule_used_versioned : capsule_used_legacy);
    }
    Py_END_CRITICAL_SECTION();
    return renamed < 0 ? NULL : managed;
}

int take_capsule(DLPackObject *self, PyObject *capsule)
{
    bool versioned;
    void *managed = consume(self, capsule, &versioned);
    if (managed == NULL) {
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

int read_to_dlpack(DLPackObject *self, struct request *request)
{
    PyObject *method;
    /* Ask the type: a proxy, such as dask's Delayed, has an attribute of any name. */
    int found = optional_attribute((PyObject *)Py_TYPE(self->obj), names.to_dlpack, &method);
    if (found <= 0) {
        return found;
    }
    Py_DECREF(method);
    PyObject *capsule = vectorcall_method(names.to_dlpack, &self->obj, 1, NULL);
    if (capsule == NULL) {
        return -1;
    }
    bool versioned;
    void *managed = NULL;
    if (!PyCapsule_CheckExact(capsule)) {
        check_in_python(python.no_capsule, PyTuple_Pack(3, self->obj, names.to_dlpack, capsule));
    }
    else if ((managed = consume(self, capsule, &versioned)) != NULL) {
        object_hold_managed(self, managed, versioned);
    }
    drop_capsule(capsule);
    return managed == NULL || read_managed(self, managed, versioned, request) < 0 ? -1 : 1;
}

/* Registered by dlpack.structs: the function that reads its structures, their types, and the types of ctypes pointers
 * to them. Never freed; NULL: dlpack.structs was not imported. */
static _Atomic(PyObject *) structures;

PyObject *register_structures(PyObject *Py_UNUSED(module), PyObject *args)
{
    atomic_store(&structures, Py_NewRef(args));
    return new_none();
}

PyObject *structure_reader(PyObject *obj)
{
    PyObject *registered = structures;
    for (Py_ssize_t i = 1; registered != NULL && i < PyTuple_Size(registered); i++) {
        if (PyTuple_GetItem(registered, i) == (PyObject *)Py_TYPE(obj)) {
            return PyTuple_GetItem(registered, 0);
        }
    }
    return NULL;
}

PyObject *structure_reader_of(PyObject *Py_UNUSED(module), PyObject *obj)
{
    PyObject *reader = structure_reader(obj);
    return reader == NULL ? new_none() : Py_NewRef(reader);
}

enum structure { TENSOR, MANAGED, MANAGED_VERSIONED };

/* Describes the structure at `address`, then takes it over, or holds the owner. */
static int read_structure(DLPackObject *self, void *address, bool versioned, bool takes, PyObject *owner)
{
    int described = describe_managed(self, address, versioned); /* a DLManagedTensor begins with its DLTensor */
    if (takes && described < 0) {
        struct pending pending;
        set_aside(&pending);
        delete_managed(address, versioned);
        put_back(&pending);
    }
    else if (takes) {
        object_hold_managed(self, address, versioned);
        self->hides_obj = !holds_memory(self);
    }
    else if (described == 0 && !holds_memory(self)) {
        self->object = Py_NewRef(owner);
        self->holding = HOLDS_OBJECT;
    }
    return described;
}

PyObject *share_structure(PyObject *Py_UNUSED(module), PyObject *args)
{
    static const char *const protocols[] = {"DLTensor", "DLManagedTensor", "DLManagedTensorVersioned"};
    PyObject *pointer, *owner, *copied, *target;
    int kind, takes;
    enum copy copy;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "OipOOO", &pointer, &kind, &takes, &owner, &copied, &target) ||
        PyObject_GetBuffer(pointer, &view, PyBUF_WRITABLE) < 0) {
        return NULL;
    }
    plain_copy(copied, &copy);
    DLPackObject *self = object_new(pointer, copy);
    void **place = view.buf, *address = NULL;
    if (self != NULL) {
        self->protocol = protocols[kind];
        self->stream = kind == TENSOR ? STREAM_UNKNOWN : STREAM_LEGACY;
        self->has_target = plain_device(target, &self->target);
        address = takes ? __atomic_exchange_n(place, NULL, __ATOMIC_ACQ_REL) : *place;
    }
    PyBuffer_Release(&view);
    if (self != NULL && address == NULL) {
        PyErr_Format(PyExc_ValueError,
                     "pointer to a %s is NULL; expected the structure's address (what asdlpack took over is NULL)",
                     self->protocol);
    }
    if (address == NULL || read_structure(self, address, kind == MANAGED_VERSIONED, takes, owner) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}
