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

void object_keep(struct memory *self)
{
    self->flags &= ~DLPACK_FLAG_BITMASK_IS_COPIED;
}

/* Like tuple, this type has no tp_clear: the object's references are those that it was made with, so another object
 * breaks each cycle. A finaliser of the same garbage finds the memory intact.
 *
 * hides_obj: obj is a ctypes pointer, which keeps the structure taken over and its deleter alive. If the collector saw
 * it, it would clear it before this object is freed, and ctypes would free both. */
int object_traverse(PyObject *self, visitproc visit, void *arg)
{
    DLPackObject *object = (DLPackObject *)self;
    struct memory *memory = (struct memory *)self;
    Py_VISIT(Py_TYPE(self));
    if (object->is_delegate) {
        Py_VISIT(object->obj);
        Py_VISIT(((struct delegate *)self)->imported);
        return 0;
    }
    if (!memory->hides_obj) {
        Py_VISIT(memory->obj);
    }
    return hold_traverse(&memory->hold, visit, arg);
}

static void object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    DLPackObject *object = (DLPackObject *)self;
    struct memory *memory = object->is_delegate ? NULL : (struct memory *)self;
    if (object->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    struct pending pending;
    set_aside(&pending);
    if (memory != NULL) {
        hold_release(&memory->hold);
    }
    else {
        Py_XDECREF((PyObject *)((struct delegate *)self)->imported);
    }
    Py_XDECREF(object->obj);
    put_back(&pending);
    if (memory != NULL && memory->tensor.shape != memory->dims) {
        free(memory->tensor.shape);
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
 * put aside, linked by the names of their protocols, which nobody reads any more; the call one level up frees them. */
HOT void object_dealloc(PyObject *self)
{
    struct thread *thread = this_thread();
    PyObject_GC_UnTrack(self);
    if (thread->frees >= NESTED_FREELY && !may_nest(thread)) {
        ((DLPackObject *)self)->protocol = thread->put_aside;
        thread->put_aside = self;
        return;
    }
    thread->frees++;
    object_free(self);
    while (thread->put_aside != NULL) {
        DLPackObject *next = thread->put_aside;
        thread->put_aside = (void *)next->protocol;
        object_free((PyObject *)next);
    }
    thread->frees--;
}

/* Birth. */

HOT struct memory *object_begin(struct reading *reading, PyObject *obj, enum copy copy, const DLDevice *device)
{
    struct memory *self = PyObject_GC_New(struct memory, DLPackObject_type);
    if (self != NULL) {
        reading_init(reading, obj, copy, device, &self->hold);
    }
    return self;
}

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

/* Frees an object that was only begun. */
static struct memory *object_abandon(struct memory *begun, const struct reading *reading)
{
    PyTypeObject *type = Py_TYPE((PyObject *)begun);
    if (!reading->lent) {
        give_back(&begun->hold);
    }
    PyObject_GC_Del(begun);
    Py_DECREF((PyObject *)type);
    return NULL;
}

HOT struct memory *object_of(int found, struct memory *begun, struct reading *reading)
{
    struct memory *self = begun;
    struct request *request = &reading->request;
    struct answer answer;
    if (begun == NULL) {
        return NULL;
    }
    request->terms = reading->terms;
    if (found > 0 && request->terms.target.device_type == kDLCPU && request->device.device_type == kDLCPU) {
        request->terms.has_target = false; /* the CPU has one id */
    }
    if (found <= 0 || ask(request, &answer) < 0) {
        return object_abandon(begun, reading);
    }
    int64_t *dims = self->dims;
    size_t ndim = (size_t)answer.ndim;
    if (ndim > INLINE_NDIM && (dims = malloc(3 * ndim * sizeof *dims)) == NULL) {
        free_copy(&answer);
        PyErr_NoMemory();
        return object_abandon(begun, reading);
    }
    for (size_t i = 0; i < ndim; i++) {
        dims[i] = answer.dims[i];
        dims[ndim + i] = answer.dims[ndim + i];
        dims[2 * ndim + i] = (int64_t)((uint64_t)answer.dims[ndim + i] * (uint64_t)answer.itemsize);
    }
    bool copied = answer.memory != NULL || answer.device_memory != NULL;
    if (copied) {
        give_back(&self->hold);
        self->hold.holding = answer.memory != NULL ? HOLDS_MEMORY : HOLDS_DEVICE;
        self->hold.memory = answer.memory != NULL ? answer.memory : answer.device_memory;
    }
    self->weakrefs = NULL;
    self->obj = copied ? NULL : Py_XNewRef(reading->obj);
    self->protocol = reading->protocol;
    self->copy = reading->terms.copy;
    self->is_delegate = false;
    self->hides_obj = reading->hides_obj && !copied;
    self->versioned_only = answer.versioned_only;
    self->on_cpu = answer.on_cpu;
    self->producer_copied = !copied && (answer.flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0;
    self->stream = answer.stream;
    self->thread = answer.stream == STREAM_PER_THREAD ? serial() : 0;
    self->version = reading->version;
    self->flags = answer.flags | (reading->readonly && !copied ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
    if (!reading->exports) {
        object_keep(self);
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
    self->itemsize = answer.itemsize;
    self->names = answer.names;
    PyObject_GC_Track(self);
    return self;
}

HOT struct memory *object_by(int (*read)(struct reading *), struct reading *reading, PyObject *obj, enum copy copy,
                             const DLDevice *device, bool exports)
{
    struct memory *begun = object_begin(reading, obj, copy, device);
    if (begun == NULL) {
        return NULL;
    }
    reading->exports = exports;
    int found = read(reading);
    struct memory *self = object_of(found, begun, reading);
    if (self == NULL && found != 0) {
        explain_refusal(reading);
    }
    return self;
}

struct memory *object_of_capsule(struct memory *begun, struct reading *reading, PyObject *capsule)
{
    struct memory *self = object_of(read_capsule(reading, capsule), begun, reading);
    if (self == NULL && reading->lent) {
        return_capsule(capsule);
    }
    return self;
}

HOT struct delegate *delegate_of(PyObject *obj, enum copy copy, const struct exchange *exchange)
{
    struct delegate *self = PyObject_GC_New(struct delegate, DLPackObject_type);
    if (self != NULL) {
        self->weakrefs = NULL;
        self->obj = Py_NewRef(obj);
        self->protocol = "__dlpack__";
        self->copy = copy;
        self->is_delegate = true;
        self->exchange = exchange;
        atomic_init(&self->imported, NULL);
        PyObject_GC_Track(self);
    }
    return self;
}

int64_t producer_stream(const struct memory *self)
{
    bool elsewhere = self->stream == STREAM_PER_THREAD && self->thread != serial();
    return elsewhere ? STREAM_LEGACY : self->stream;
}

void read_object(struct reading *reading, struct memory *self)
{
    reading->protocol = self->protocol;
    reading->readonly = (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    reading->hold->object = Py_NewRef((PyObject *)self);
    reading->hold->holding = HOLDS_OBJECT;
    request_tensor(&reading->request, &self->tensor, self->flags);
    reading->request.producer_stream = producer_stream(self);
}

struct memory *object_meeting(struct memory *self, const struct terms *terms)
{
    struct reading reading;
    struct memory *begun = object_begin(&reading, self->obj, terms->copy, NULL);
    if (begun == NULL) {
        return NULL;
    }
    read_object(&reading, self);
    reading.terms = *terms;
    reading.exports = terms->exports;
    struct memory *other = object_of(1, begun, &reading);
    if (other != NULL && !holds_memory(&other->hold) && same_device(other->tensor.device, self->tensor.device)) {
        Py_DECREF((PyObject *)other);
        return (struct memory *)Py_NewRef((PyObject *)self);
    }
    return other;
}
