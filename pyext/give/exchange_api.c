/* exchange_api.c: __dlpack_c_exchange_api__, functions that let consumers in C exchange tensors without a capsule.
 *
 * It is C because C calls it, the allocator even without the GIL. Memory is complete in the order of the default
 * stream: exports are ordered before it, and imports were written on it, since current_work_stream names no other. */
#include "give/give.h"
#include "platform/platform.h"

#include <stdlib.h>

static const char attribute[] = "__dlpack_c_exchange_api__";

static DLPackObject *checked(PyObject *obj)
{
    if (!Py_IS_TYPE(obj, DLPackObject_type)) {
        check_in_python(python.refuse_in_words, Py_BuildValue("(sO)", "no-dlpack-object", obj));
        return NULL;
    }
    return (DLPackObject *)obj;
}

int order_before_default_stream(struct memory *self)
{
    if (needs_no_ordering(self)) {
        return 0;
    }
    struct memory *ordered = object_meeting(self, &(struct terms){.exports = EXPORTS_ORDERED});
    Py_XDECREF((PyObject *)ordered);
    return ordered == NULL ? -1 : 0;
}

/* Returns the tensor that the producer exports now, as from __dlpack__. NULL: error. */
static DLManagedTensorVersioned *managed_of_delegate(struct delegate *self)
{
    PyObject *capsule = delegate_export(self, &(struct export_arguments){.max_version = constants.newest_version});
    if (capsule == NULL) {
        return NULL;
    }
    DLManagedTensorVersioned *managed;
    Py_BEGIN_CRITICAL_SECTION(capsule);
    managed = PyCapsule_GetPointer(capsule, capsule_versioned);
    if (managed != NULL &&
        (check_version(managed->version) < 0 || PyCapsule_SetName(capsule, capsule_used_versioned) < 0)) {
        managed = NULL;
    }
    Py_END_CRITICAL_SECTION();
    drop_foreign(capsule);
    return managed;
}

HOT DLManagedTensorVersioned *managed_tensor_of(DLPackObject *self)
{
    struct memory *memory = (struct memory *)self;
    if (self->is_delegate) {
        return managed_of_delegate((struct delegate *)self);
    }
    return order_before_default_stream(memory) < 0 ? NULL : make_managed(memory);
}

HOT static int managed_tensor_from_py_object_no_sync(void *obj, DLManagedTensorVersioned **out)
{
    DLPackObject *self = checked(obj);
    *out = self == NULL ? NULL : managed_tensor_of(self);
    return *out == NULL ? -1 : 0;
}

/* The shape and strides of `out` live as long as the object. */
static int dltensor_from_py_object_no_sync(void *obj, DLTensor *out)
{
    DLPackObject *self = checked(obj);
    struct memory *ordered = self == NULL ? NULL : ordered_tensor_of(self);
    if (ordered == NULL) {
        return -1;
    }
    int refused =
        ordered->versioned_only ? object_refuse(ordered, "no-dltensor") : order_before_default_stream(ordered);
    Py_DECREF((PyObject *)ordered);
    if (refused == 0) {
        *out = tensor_of(self)->tensor;
    }
    return refused;
}

/* On failure the tensor stays the caller's: the header says only "stolen", and tvm-ffi then calls the deleter. */
static int managed_tensor_to_py_object_no_sync(DLManagedTensorVersioned *tensor, void **out)
{
    *out = NULL;
    if (tensor == NULL) {
        return check_in_python(python.refuse_in_words, Py_BuildValue("(s)", "null-tensor"));
    }
    struct reading reading;
    struct memory *begun = object_begin(&reading, NULL, COPY_NEVER, NULL);
    if (begun == NULL) {
        return -1;
    }
    reading.protocol = attribute;
    *out = object_of(read_managed(&reading, tensor, true), begun, &reading);
    return *out == NULL ? -1 : 0;
}

/* Makes an object like the prototype with this memory, which it owns. NULL: without memory; steals it. */
static struct memory *object_like(const DLTensor *prototype, void *memory)
{
    struct reading reading;
    struct memory *begun = object_begin(&reading, NULL, COPY_NEVER, NULL);
    if (begun == NULL) {
        free_aligned(memory);
        return NULL;
    }
    DLTensor tensor = *prototype;
    tensor.data = memory != NULL ? memory : (void *)COPY_ALIGNMENT;
    tensor.strides = NULL;
    tensor.byte_offset = 0;
    request_tensor(&reading.request, &tensor, 0);
    reading.protocol = attribute;
    reading.hold->memory = memory;
    reading.hold->holding = memory != NULL ? HOLDS_MEMORY : HOLDS_NOTHING;
    return object_of(1, begun, &reading);
}

/* Allocates memory that only its exports use. NULL: error. */
static struct memory *allocate(const DLTensor *prototype)
{
    struct memory *self = object_like(prototype, NULL), *allocated = NULL;
    if (self == NULL) {
        return NULL;
    }
    int64_t bytes = object_nbytes(self);
    void *memory = NULL;
    if (self->tensor.device.device_type != kDLCPU) {
        object_refuse(self, "not-allocated");
    }
    else if (bytes == 0) {
        return self;
    }
    else if ((memory = allocate_aligned((size_t)bytes)) == NULL) {
        PyErr_Format(PyExc_MemoryError, "managed_tensor_allocator: no memory for %lld bytes", (long long)bytes);
    }
    else {
        allocated = object_like(prototype, memory);
    }
    Py_DECREF((PyObject *)self);
    return allocated;
}

/* Passes the pending exception to the caller, or a MemoryError if even its text can't be made. */
static void set_error(void *error_ctx, void (*SetError)(void *, const char *, const char *))
{
    const char *kind = "MemoryError", *message = "managed_tensor_allocator: no memory";
    PyObject *texts = call_python(python.kind_and_message, Py_BuildValue("(N)", take_exception()));
    if (texts == NULL || !PyArg_ParseTuple(texts, "ss", &kind, &message)) {
        PyErr_Clear();
    }
    SetError(error_ctx, kind, message);
    Py_XDECREF(texts);
}

static int managed_tensor_allocator(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                                    void (*SetError)(void *error_ctx, const char *kind, const char *message))
{
    *out = NULL;
    PyGILState_STATE state;
    if (!take_gil(&state)) {
        SetError(error_ctx, "RuntimeError",
                 "managed_tensor_allocator: Python is finalising, or in a sub-interpreter; expected the main one");
        return -1;
    }
    struct memory *self = allocate(prototype);
    if (self != NULL) {
        *out = make_managed(self);
        Py_DECREF((PyObject *)self);
    }
    if (*out == NULL) {
        set_error(error_ctx, SetError);
    }
    give_gil_back(state);
    return *out == NULL ? -1 : 0;
}

/* NULL is the default stream. A consumer built for per-thread default streams takes it for the per-thread one, which
 * waits for the legacy one. */
static int current_work_stream(DLDeviceType Py_UNUSED(device_type), int32_t Py_UNUSED(device_id), void **out)
{
    *out = NULL;
    return 0;
}

PyObject *exchange_api(void)
{
    static DLPackExchangeAPI api = {
        .header = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}},
        .managed_tensor_allocator = managed_tensor_allocator,
        .managed_tensor_from_py_object_no_sync = managed_tensor_from_py_object_no_sync,
        .managed_tensor_to_py_object_no_sync = managed_tensor_to_py_object_no_sync,
        .dltensor_from_py_object_no_sync = dltensor_from_py_object_no_sync,
        .current_work_stream = current_work_stream,
    };
    return PyCapsule_New(&api, "dlpack_exchange_api", NULL);
}
