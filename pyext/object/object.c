/* object.c: takes and releases what a DLPackObject holds, and fills in its tensor as Go describes it.
 *
 * It is C because the release must work without Go. */
#include "object/object.h"
#include "platform/platform.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *DLPackObject_type;

/* Ownership. */

HOT DLPackObject *object_new(PyObject *obj, enum copy copy)
{
    DLPackObject *self = PyObject_GC_New(DLPackObject, DLPackObject_type);
    if (self == NULL) {
        return NULL;
    }
    memset((char *)self + offsetof(DLPackObject, weakrefs), 0,
           offsetof(DLPackObject, itemsize) - offsetof(DLPackObject, weakrefs));
    self->obj = Py_XNewRef(obj);
    self->copy = copy;
    return self;
}

bool holds_memory(const DLPackObject *self)
{
    return self->holding == HOLDS_MEMORY || self->holding == HOLDS_DEVICE;
}

HOT DLPackObject *object_kept(DLPackObject *self)
{
    if (self != NULL && (self->flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0) {
        self->flags &= ~DLPACK_FLAG_BITMASK_IS_COPIED;
        self->producer_copied = !holds_memory(self);
    }
    return self;
}

void delete_managed(void *managed, bool versioned)
{
    DLManagedTensorVersioned *tensor = managed;
    DLManagedTensor *legacy = managed;
    if (versioned && tensor->deleter != NULL) {
        tensor->deleter(tensor);
    }
    else if (!versioned && legacy->deleter != NULL) {
        legacy->deleter(legacy);
    }
}

void object_hold_managed(DLPackObject *self, void *managed, bool versioned)
{
    if (holds_memory(self)) {
        delete_managed(managed, versioned);
        PyErr_Clear(); /* a deleter's error is not the copy's */
    }
    else {
        self->holding = versioned ? HOLDS_VERSIONED : HOLDS_LEGACY;
        self->managed = managed;
    }
}

/* Exporters and deleters are foreign code: a pending exception must outlive them. */
HOT static void give_back(DLPackObject *self)
{
    enum holding held = self->holding;
    self->holding = HOLDS_NOTHING;
    struct pending pending;
    set_aside(&pending);
    switch (held) {
    case HOLDS_NOTHING:
        break;
    case HOLDS_VIEW:
        PyBuffer_Release(&self->view);
        break;
    case HOLDS_OBJECT:
        Py_CLEAR(self->object);
        break;
    case HOLDS_LEGACY:
    case HOLDS_VERSIONED:
        delete_managed(self->managed, held == HOLDS_VERSIONED);
        break;
    case HOLDS_MEMORY:
        free_aligned(self->memory);
        break;
    case HOLDS_DEVICE:
        free_device_memory(self->memory);
        break;
    }
    Py_CLEAR(self->obj);
    put_back(&pending);
}

/* Like tuple, this type has no tp_clear: the object's references are those that it was made with, so another object
 * breaks each cycle. A finaliser of the same garbage finds the memory intact.
 *
 * hides_obj: obj is a ctypes pointer, which keeps the structure taken over and its deleter alive. If the collector saw
 * it, it would clear it before this object is freed, and ctypes would free both. */
int object_traverse(DLPackObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    if (!self->hides_obj) {
        Py_VISIT(self->obj);
    }
    Py_VISIT(self->imported);
    if (self->holding == HOLDS_VIEW) {
        Py_VISIT(self->view.obj);
    }
    else if (self->holding == HOLDS_OBJECT) {
        Py_VISIT(self->object);
    }
    return 0;
}

static void object_free(DLPackObject *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    give_back(self);
    Py_XDECREF((PyObject *)self->imported);
    if (self->tensor.shape != self->dims) {
        free(self->tensor.shape);
    }
    PyObject_GC_Del(self);
    Py_DECREF((PyObject *)type);
}

/* Python callbacks and deleters beyond its recursion limit are lost, even if the stack has space for more. So nested
 * deallocations use at most MOST bytes of the stack: about 50 of them, with a Python callback each. */
static bool may_nest(struct thread *thread)
{
    enum { MOST = 32 << 10 };
    char *here = __builtin_frame_address(0);
    if (thread->frees == NESTED_FREELY) {
        thread->first_free = here;
    }
    return thread->first_free - here < MOST && stack_has_space(thread->frees);
}

/* Trashcan: bounds the depth of recursive deallocation. Freeing an object, or a callback of its weak references, may
 * drop the last reference to another, and a long chain of these would overflow the stack. Objects that are too deep are
 * put aside, linked by tensor.data, which nobody reads any more; the call one level up frees them. */
HOT void object_dealloc(DLPackObject *self)
{
    struct thread *thread = this_thread();
    PyObject_GC_UnTrack(self);
    if (thread->frees >= NESTED_FREELY && !may_nest(thread)) {
        self->tensor.data = thread->put_aside;
        thread->put_aside = self;
        return;
    }
    thread->frees++;
    object_free(self);
    while (thread->put_aside != NULL) {
        DLPackObject *next = thread->put_aside;
        thread->put_aside = next->tensor.data;
        object_free(next);
    }
    thread->frees--;
}

/* Description: from the request to the tensor. */

/* Returns this thread's serial; unlike idents, serials are never reused. */
static uint64_t serial(void)
{
    static atomic_uint_fast64_t last;
    struct thread *thread = this_thread();
    if (thread->serial == 0) {
        thread->serial = atomic_fetch_add(&last, 1) + 1;
    }
    return thread->serial;
}

HOT int object_describe(DLPackObject *self, struct request *request)
{
    struct answer answer;
    request->terms.copy = self->copy;
    if (self->has_target && !(self->target.device_type == kDLCPU && request->device.device_type == kDLCPU)) {
        request->terms.has_target = true;
        request->terms.target = self->target;
    }
    if (ask(request, &answer) < 0) {
        return -1;
    }
    int64_t *dims = self->dims;
    size_t ndim = (size_t)answer.ndim;
    if (ndim > INLINE_NDIM && (dims = malloc(3 * ndim * sizeof *dims)) == NULL) {
        free_copy(&answer);
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < ndim; i++) {
        dims[i] = answer.dims[i];
        dims[ndim + i] = answer.dims[ndim + i];
        dims[2 * ndim + i] = (int64_t)((uint64_t)answer.dims[ndim + i] * (uint64_t)answer.itemsize);
    }
    self->tensor = (DLTensor){
        .data = (void *)(uintptr_t)(request->data + answer.offset),
        .device = answer.device,
        .ndim = answer.ndim,
        .dtype = answer.dtype,
        .shape = dims,
        .strides = dims + ndim,
        .byte_offset = answer.byte_offset,
    };
    self->flags = answer.flags | (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
    self->itemsize = answer.itemsize;
    self->versioned_only = answer.versioned_only;
    self->on_cpu = answer.on_cpu;
    self->stream = answer.stream;
    self->thread = answer.stream == STREAM_PER_THREAD ? serial() : 0;
    self->names = answer.names;
    if (answer.memory != NULL || answer.device_memory != NULL) {
        give_back(self);
        self->holding = answer.memory != NULL ? HOLDS_MEMORY : HOLDS_DEVICE;
        self->memory = answer.memory != NULL ? answer.memory : answer.device_memory;
        self->flags &= ~DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    PyObject_GC_Track(self);
    return 0;
}

int64_t producer_stream(const DLPackObject *self)
{
    bool elsewhere = self->stream == STREAM_PER_THREAD && self->thread != serial();
    return elsewhere ? STREAM_LEGACY : self->stream;
}

DLPackObject *object_meeting(DLPackObject *self, const struct terms *terms)
{
    DLPackObject *other = object_new(NULL, terms->copy);
    if (other == NULL) {
        return NULL;
    }
    other->protocol = self->protocol;
    other->flags = self->flags;
    struct request request;
    request_tensor(&request, &self->tensor, self->flags);
    request.producer_stream = producer_stream(self);
    request.terms = *terms;
    if (object_describe(other, &request) < 0) {
        Py_DECREF((PyObject *)other);
        return NULL;
    }
    if (other->holding != HOLDS_NOTHING) {
        return other;
    }
    if (same_device(other->tensor.device, self->tensor.device)) {
        Py_DECREF((PyObject *)other);
        return (DLPackObject *)Py_NewRef((PyObject *)self);
    }
    other->obj = Py_XNewRef(self->obj);
    other->object = Py_NewRef((PyObject *)self);
    other->holding = HOLDS_OBJECT;
    return other;
}
