/* export.c: __dlpack__, its capsules and their deleters.
 *
 * It is C because a deleter runs on any thread, at any time, and must never enter Go. */
#include "object/object.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One export: the consumer's struct, followed by its shape and strides. */
struct block {
    union {
        DLManagedTensor legacy;
        DLManagedTensorVersioned versioned;
    };
    PyObject *owner; /* reference to the DLPackObject, which keeps the memory alive; also the manager_ctx */
    int64_t dims[];
};

/* While Python finalises, frees nothing: the end of the process does. */
void release_export(void *owner, void *block)
{
    PyGILState_STATE state;
    if (holds_gil()) {
        Py_DECREF((PyObject *)owner);
    }
    else if (take_gil(&state)) {
        Py_DECREF((PyObject *)owner);
        give_gil_back(state);
    }
    else {
        return;
    }
    free(block);
}

HOT static void delete_legacy(DLManagedTensor *self)
{
    release_export(self->manager_ctx, self);
}

HOT static void delete_versioned(DLManagedTensorVersioned *self)
{
    release_export(self->manager_ctx, self);
}

/* Frees the tensor of a capsule that was not consumed. */
HOT static void destroy_capsule(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    bool used = name == NULL || name[0] != capsule_legacy[0]; /* comparing the whole name takes 5 ns */
    if (!used && (strcmp(name, capsule_versioned) == 0 || strcmp(name, capsule_legacy) == 0)) {
        struct block *block = PyCapsule_GetPointer(capsule, name);
        Py_DECREF(block->owner);
        free(block);
    }
}

/* Makes a block with self's tensor. NULL: error. */
HOT static struct block *make_block(struct memory *self, bool versioned)
{
    size_t bytes = 2 * (size_t)self->tensor.ndim * sizeof *self->tensor.shape;
    struct block *block = malloc(sizeof *block + bytes);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    DLTensor *tensor;
    if (versioned) {
        block->versioned = (DLManagedTensorVersioned){
            .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
            .manager_ctx = self,
            .deleter = delete_versioned,
            .flags = self->flags,
        };
        tensor = &block->versioned.dl_tensor;
    }
    else {
        block->legacy = (DLManagedTensor){.manager_ctx = self, .deleter = delete_legacy};
        tensor = &block->legacy.dl_tensor;
    }
    *tensor = self->tensor;
    memcpy(block->dims, self->tensor.shape, bytes);
    tensor->shape = block->dims;
    tensor->strides = block->dims + tensor->ndim;
    block->owner = Py_NewRef((PyObject *)self);
    return block;
}

HOT DLManagedTensorVersioned *make_managed(struct memory *self)
{
    return (DLManagedTensorVersioned *)make_block(self, true); /* the block's first member */
}

static PyObject *make_capsule(struct memory *self, bool versioned)
{
    struct block *block = make_block(self, versioned);
    if (block == NULL) {
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(block, versioned ? capsule_versioned : capsule_legacy, destroy_capsule);
    if (capsule == NULL) {
        release_export(self, block);
    }
    return capsule;
}

/* Arguments. */

bool plain_copy(PyObject *value, enum copy *copy)
{
    *copy = value == Py_None ? COPY_IF_NEEDED : value == Py_True ? COPY_ALWAYS : COPY_NEVER;
    return value == Py_None || value == Py_True || value == Py_False;
}

PyObject *copy_value(enum copy copy)
{
    return copy == COPY_NEVER ? Py_False : copy == COPY_ALWAYS ? Py_True : Py_None;
}

bool plain_device(PyObject *pair, DLDevice *device)
{
    int64_t ints[2] = {0};
    if (!plain_pair(pair, ints) || ints[0] != (int32_t)ints[0] || ints[1] != (int32_t)ints[1]) {
        return false;
    }
    *device = (DLDevice){(int32_t)ints[0], (int32_t)ints[1]};
    return true;
}

/* Caches the last tuple that meant version 1: consumers pass a constant, and reading it takes 5 ns. */
HOT bool plain_max_version(PyObject *value, bool *versioned)
{
    static _Atomic(PyObject *) last;
    int64_t version[2] = {0};
    *versioned = value != NULL && value == atomic_load_explicit(&last, memory_order_relaxed);
    if (value == NULL || *versioned) {
        return true;
    }
    bool plain = plain_pair(value, version);
    *versioned = plain && version[0] >= DLPACK_MAJOR_VERSION;
    if (*versioned && PyTuple_CheckExact(value) && PyLong_CheckExact(PyTuple_GetItem(value, 0)) &&
        PyLong_CheckExact(PyTuple_GetItem(value, 1))) {
        Py_XDECREF(atomic_exchange(&last, Py_NewRef(value)));
    }
    return plain;
}

bool needs_no_ordering(const struct memory *self)
{
    return self->stream == STREAM_UNKNOWN || (self->stream == STREAM_LEGACY && !self->on_cpu);
}

/* Reads the terms that plain arguments ask for. false: one is not plain. */
static bool plain_terms(const struct memory *self, const struct export_arguments *arguments, struct terms *terms)
{
    enum copy copy = COPY_IF_NEEDED;
    *terms = (struct terms){.target = self->tensor.device,
                            .exports = EXPORTS_ORDERED,
                            .has_stream = arguments->stream != NULL};
    if ((arguments->copy != NULL && !plain_copy(arguments->copy, &copy)) ||
        (arguments->dl_device != NULL && !plain_device(arguments->dl_device, &terms->target)) ||
        (terms->has_stream && !plain_int(arguments->stream, &terms->stream))) {
        return false;
    }
    terms->copy = copy;
    terms->has_target = !same_device(terms->target, self->tensor.device);
    if (terms->stream == STREAM_LEGACY && self->tensor.device.device_type == kDLCUDA && !terms->has_target) {
        terms->has_stream = false; /* on CUDA None means the same, and mostly needs no call into Go */
    }
    return true;
}

HOT PyObject *export_tensor(struct memory *self, const struct export_arguments *arguments)
{
    bool versioned, given = arguments->stream != NULL || arguments->dl_device != NULL || arguments->copy != NULL;
    struct terms terms = {.exports = EXPORTS_ORDERED, .copy = COPY_IF_NEEDED};
    if (!plain_max_version(arguments->max_version, &versioned) || (given && !plain_terms(self, arguments, &terms))) {
        return NULL;
    }
    if (!versioned && self->versioned_only) {
        object_refuse(self, "no-legacy-capsule");
        return NULL;
    }
    if (!terms.has_stream && !terms.has_target && terms.copy != COPY_ALWAYS && needs_no_ordering(self)) {
        return make_capsule(self, versioned);
    }
    struct memory *exported = object_meeting(self, &terms);
    if (exported == NULL) {
        return NULL;
    }
    PyObject *capsule = make_capsule(exported, versioned);
    Py_DECREF((PyObject *)exported);
    return capsule;
}
