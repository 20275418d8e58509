/* export.c: __dlpack__, the capsules that it makes and their deleters.
 *
 * It is C because a deleter runs on any thread, at any time, and must never enter Go. */
#include "object/object.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char capsule_legacy[] = "dltensor";
const char capsule_versioned[] = "dltensor_versioned";
const char capsule_used_legacy[] = "used_dltensor";
const char capsule_used_versioned[] = "used_dltensor_versioned";

/* One export: the struct that the consumer gets, with its shape and strides behind it. manager_ctx is a reference to
 * the DLPackObject, which keeps the memory alive. */
struct block {
    union {
        DLManagedTensor legacy;
        DLManagedTensorVersioned versioned;
    };
    int64_t dims[];
};

/* Once Python ends, what is held is left to the process's end. */
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

/* A capsule dies: if it was not consumed, its tensor dies with it. */
HOT static void destroy_capsule(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (name == NULL || name[0] != capsule_legacy[0]) {
        return; /* "used_..." */
    }
    bool versioned = name == capsule_versioned || strcmp(name, capsule_versioned) == 0;
    if (!versioned && name != capsule_legacy && strcmp(name, capsule_legacy) != 0) {
        return;
    }
    struct block *block = PyCapsule_GetPointer(capsule, name);
    Py_DECREF((PyObject *)(versioned ? block->versioned.manager_ctx : block->legacy.manager_ctx));
    free(block);
}

/* A block of self's tensor. NULL: error. */
HOT static struct block *make_block(DLPackObject *self, bool versioned)
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
    Py_INCREF((PyObject *)self);
    return block;
}

HOT DLManagedTensorVersioned *make_managed(DLPackObject *self)
{
    return (DLManagedTensorVersioned *)make_block(self, true); /* which the block begins with */
}

static PyObject *make_capsule(DLPackObject *self, bool versioned)
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

int parse_copy(PyObject *value, enum copy *copy)
{
    if (value != Py_None && value != Py_False && value != Py_True) {
        raise_unexpected(PyExc_TypeError, "copy: expected True, False or None", value);
        return -1;
    }
    *copy = value == Py_None ? COPY_IF_NEEDED : value == Py_True ? COPY_ALWAYS : COPY_NEVER;
    return 0;
}

int parse_device(PyObject *pair, DLDevice *device)
{
    int64_t values[2] = {0, 0};
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        PyObject *value = PyTuple_GetItem(pair, i);
        if (i == 1 && value == Py_None) {
            break; /* paddle's CPU tensors say (1, None) */
        }
        int read = read_int(value, true, &values[i]);
        if (read <= 0) {
            return read;
        }
        if (values[i] < INT32_MIN || values[i] > INT32_MAX) {
            return 0;
        }
    }
    *device = (DLDevice){(int32_t)values[0], (int32_t)values[1]};
    return 1;
}

bool same_device(DLDevice one, DLDevice other)
{
    return one.device_type == other.device_type && (one.device_id == other.device_id || one.device_type == kDLCPU);
}

bool is_of_cuda(DLDevice device)
{
    return device.device_type == kDLCUDA || device.device_type == kDLCUDAHost || device.device_type == kDLCUDAManaged;
}

/* Consumers pass a constant: those that mean version 1 are remembered, the first few, and kept alive. To read the tuple
 * each time costs 7 ns. */
static _Atomic(PyObject *) known_versions[4];

static bool is_known_version(PyObject *value)
{
    for (int i = 0; i < 4; i++) {
        if (atomic_load_explicit(&known_versions[i], memory_order_relaxed) == value) {
            return true;
        }
    }
    return false;
}

static void remember_version(PyObject *value)
{
    for (int i = 0; i < 4; i++) {
        PyObject *none = NULL;
        if (atomic_compare_exchange_strong(&known_versions[i], &none, value)) {
            Py_INCREF(value);
            return;
        }
    }
}

HOT int parse_max_version(PyObject *value, bool *versioned)
{
    *versioned = value != NULL && is_known_version(value);
    if (value == NULL || *versioned) {
        return 0;
    }
    int64_t major = 0, minor;
    int read = 0;
    if ((PyTuple_CheckExact(value) || PyTuple_Check(value)) && PyTuple_Size(value) == 2) {
        read = read_int(PyTuple_GetItem(value, 0), true, &major);
        if (read > 0) {
            read = read_int(PyTuple_GetItem(value, 1), true, &minor);
        }
    }
    if (read == 0) {
        const char *expected = "max_version: expected None or a tuple of two ints of 64 bits, (major, minor)";
        return check_in_python(PYTHON_WRONG_PAIR, Py_BuildValue("(sO)", expected, value));
    }
    *versioned = major >= DLPACK_MAJOR_VERSION;
    if (*versioned && PyTuple_CheckExact(value) && PyLong_CheckExact(PyTuple_GetItem(value, 0)) &&
        PyLong_CheckExact(PyTuple_GetItem(value, 1))) {
        remember_version(value);
    }
    return read < 0 ? -1 : 0;
}

bool needs_no_ordering(const DLPackObject *self)
{
    return self->stream == STREAM_UNKNOWN || (self->stream == STREAM_LEGACY && !self->on_cpu);
}

/* Reads an argument that is there. -1: error. */
static int parse_target(PyObject *value, DLDevice *device)
{
    static const char expected[] =
        "dl_device: expected None or a tuple of two ints of 32 bits, (device type, device id)";
    int read = parse_device(value, device);
    if (read == 0) {
        return check_in_python(PYTHON_WRONG_PAIR, Py_BuildValue("(sO)", expected, value));
    }
    return read > 0 ? 0 : -1;
}

static int parse_stream(PyObject *value, int64_t *stream)
{
    int read = read_int(value, true, stream);
    if (read == 0) {
        return check_in_python(PYTHON_WRONG,
                               Py_BuildValue("(sO(O))", "stream: expected None or an int of 64 bits", value, value));
    }
    return read > 0 ? 0 : -1;
}

/* 1: the arguments ask for more than self as it is; 0: they don't; -1: error. */
static int parse_terms(const DLPackObject *self, const struct export_arguments *arguments, struct terms *terms)
{
    enum copy copy = COPY_IF_NEEDED;
    if (arguments->stream == NULL && arguments->dl_device == NULL && arguments->copy == NULL &&
        needs_no_ordering(self)) {
        return 0;
    }
    *terms = (struct terms){.target = self->tensor.device, .exports = true, .has_stream = arguments->stream != NULL};
    if ((arguments->copy != NULL && parse_copy(arguments->copy, &copy) < 0) ||
        (arguments->dl_device != NULL && parse_target(arguments->dl_device, &terms->target) < 0) ||
        (terms->has_stream && parse_stream(arguments->stream, &terms->stream) < 0)) {
        return -1;
    }
    terms->copy = copy;
    terms->has_target = !same_device(terms->target, self->tensor.device);
    return terms->has_stream || terms->has_target || copy == COPY_ALWAYS || !needs_no_ordering(self);
}

HOT PyObject *export_tensor(DLPackObject *self, const struct export_arguments *arguments)
{
    bool versioned;
    struct terms terms;
    if (parse_max_version(arguments->max_version, &versioned) < 0) {
        return NULL;
    }
    int asked = parse_terms(self, arguments, &terms);
    if (asked < 0) {
        return NULL;
    }
    if (!versioned && self->versioned_only) {
        object_refuse(self, "no legacy capsule");
        return NULL;
    }
    if (asked == 0) {
        return make_capsule(self, versioned);
    }
    DLPackObject *exported = object_meeting(self, &terms);
    if (exported == NULL) {
        return NULL;
    }
    PyObject *capsule = make_capsule(exported, versioned);
    Py_DECREF((PyObject *)exported);
    return capsule;
}
