/* delegate.c: objects with __dlpack__, which are asked for their tensor, or with a consumer's arguments for a capsule.
 * If they refuse, their other protocols serve.
 *
 * It is C because each export asks. dlpack._delegate decides what to ask after a refusal, and off the CPU. */
#include "delegate/delegate.h"

#include <stdatomic.h>

/* Asking. */

/* Calls obj.__dlpack__ with only the arguments that were given: a producer may not know the others. */
HOT static PyObject *call_producer(PyObject *obj, const struct export_arguments *arguments)
{
    PyObject *passed[1 + EXPORT_ARGUMENTS] = {obj};
    unsigned which = 0, count = 0;
    for (int i = 0; i < EXPORT_ARGUMENTS; i++) {
        if (arguments->all[i] != NULL) {
            which |= 1u << i;
            passed[++count] = arguments->all[i];
        }
    }
    int *calls = begin_producer_call(false);
    if (calls == NULL) {
        return NULL;
    }
    PyObject *keywords = which == 0 ? NULL : PyTuple_GetItem(constants.export_keywords, which);
    PyObject *capsule = vectorcall_method(names.dlpack, passed, 1, keywords);
    --*calls;
    return capsule;
}

enum { NO_DEVICE = -2 }; /* error: the answer is not a device */

/* Calls obj.__dlpack_device__(). 1: read; 0: obj has no such method; -1 or NO_DEVICE: error. */
static int producer_device(PyObject *obj, DLDevice *device)
{
    PyObject *method;
    int *calls = begin_producer_call(false);
    if (calls == NULL) {
        return -1;
    }
    int found = optional_attribute(obj, names.dlpack_device, &method);
    PyObject *pair = found > 0 ? PyObject_CallNoArgs(method) : NULL;
    --*calls;
    if (found <= 0) {
        return found;
    }
    Py_DECREF(method);
    if (pair == NULL) {
        return -1;
    }
    if (!plain_device(pair, device)) {
        PyObject *ints = call_python(python.device_answered, PyTuple_Pack(2, obj, pair));
        found = ints != NULL && plain_device(ints, device) ? 1 : NO_DEVICE;
        Py_XDECREF(ints);
    }
    Py_DECREF(pair);
    return found;
}

/* call_python for a function that may ask a producer. */
static PyObject *ask_in_python(PyObject *function, PyObject *args)
{
    int *calls = begin_producer_call(true);
    if (calls == NULL) {
        Py_XDECREF(args);
        return NULL;
    }
    PyObject *answer = call_python(function, args);
    --*calls;
    return answer;
}

/* Importing. */

/* Makes an object with the tensor of the producer's answer, which the work queued on a stream completes. */
static DLPackObject *import_capsule(DLPackObject *self, PyObject *capsule, int64_t stream)
{
    DLPackObject *imported = object_new(self->obj, self->copy);
    if (imported == NULL) {
        return NULL;
    }
    imported->protocol = self->protocol;
    imported->stream = stream;
    if (!PyCapsule_CheckExact(capsule)) {
        check_in_python(python.no_capsule, PyTuple_Pack(3, self->obj, names.dlpack, capsule));
        Py_CLEAR(imported);
    }
    else if (take_capsule(imported, capsule) < 0) {
        explain_refusal(imported);
        Py_CLEAR(imported);
    }
    return imported;
}

/* Keeps `imported`, unless another thread or the producer came first; steals it. Returns the import kept, borrowed. */
static DLPackObject *keep_import(DLPackObject *self, DLPackObject *imported)
{
    DLPackObject *kept = NULL;
    if (imported == NULL || atomic_compare_exchange_strong(&self->imported, &kept, object_kept(imported))) {
        return imported;
    }
    Py_DECREF((PyObject *)imported);
    return kept;
}

/* Caches the copy that copy=None forced, for later exports, if its source was complete. Steals imported. */
static PyObject *keep_copy(DLPackObject *self, DLPackObject *imported, bool was_complete)
{
    if (was_complete && self->copy == COPY_IF_NEEDED && imported->copy == COPY_IF_NEEDED && holds_memory(imported)) {
        DLPackObject *kept = keep_import(self, (DLPackObject *)Py_NewRef((PyObject *)imported));
        if (holds_memory(kept)) { /* it may be another thread's */
            Py_INCREF((PyObject *)kept);
            Py_DECREF((PyObject *)imported);
            return (PyObject *)kept;
        }
    }
    return (PyObject *)imported;
}

PyObject *import_given(PyObject *Py_UNUSED(module), PyObject *args)
{
    DLPackObject *self;
    PyObject *capsule;
    long long stream;
    if (!PyArg_ParseTuple(args, "O!OL", DLPackObject_type, &self, &capsule, &stream)) {
        return NULL;
    }
    DLPackObject *imported = import_capsule(self, capsule, stream);
    return imported == NULL ? take_exception() : keep_copy(self, imported, stream != STREAM_UNKNOWN);
}

PyObject *read_by_others(PyObject *Py_UNUSED(module), PyObject *args)
{
    DLPackObject *self;
    PyObject *copied;
    enum copy copy;
    if (!PyArg_ParseTuple(args, "O!O", DLPackObject_type, &self, &copied)) {
        return NULL;
    }
    plain_copy(copied, &copy);
    DLPackObject *served = object_new(self->obj, copy);
    int found = served == NULL ? -1 : describe_by_protocols(served);
    const char *protocol = served == NULL || found == 0 ? NULL : served->protocol;
    if (found > 0) {
        return Py_BuildValue("(sN)", protocol, keep_copy(self, served, served->tensor.device.device_type == kDLCPU));
    }
    Py_XDECREF((PyObject *)served);
    return Py_BuildValue("(zN)", protocol, found < 0 ? take_exception() : new_none());
}

/* Makes an object with the producer's tensor as it is now, on the device that producer_device found. If that refused
 * (found < 0), its refusal is pending. */
static DLPackObject *import_from(DLPackObject *self, int found, DLDevice device)
{
    if (found > 0 && device.device_type != kDLCPU) {
        return (DLPackObject *)ask_in_python(python.import_tensor, PyTuple_Pack(2, self, Py_False));
    }
    const struct export_arguments newest = {.max_version = constants.newest_version};
    PyObject *capsule = found < 0 ? NULL : call_producer(self->obj, &newest);
    DLPackObject *imported = capsule == NULL ? NULL : import_capsule(self, capsule, STREAM_LEGACY);
    drop_capsule(capsule);
    if (imported != NULL || found == NO_DEVICE ||
        !(capsule == NULL ? is_refusal() : PyErr_ExceptionMatches(PyExc_BufferError))) {
        return imported;
    }
    return (DLPackObject *)ask_in_python(python.import_refused, Py_BuildValue("(ONO)", self, take_exception(),
                                                                              found >= 0 ? Py_True : Py_False));
}

int delegate_device(DLPackObject *self, DLDevice *device)
{
    int found = producer_device(self->obj, device);
    if (found > 0 || found == NO_DEVICE || (found < 0 && !is_refusal())) {
        return found > 0 ? 0 : -1;
    }
    const DLPackObject *kept = self->imported;
    kept = kept != NULL ? kept : keep_import(self, import_from(self, found, *device));
    if (kept != NULL) {
        PyErr_Clear();
        *device = kept->tensor.device;
    }
    return kept == NULL ? -1 : 0;
}

/* Lets the producer order its work on the imported memory before the legacy default stream, or off CUDA finish it. */
static int order_import(DLPackObject *self)
{
    DLPackObject *ordered = (DLPackObject *)ask_in_python(python.import_tensor, PyTuple_Pack(2, self, Py_True));
    if (ordered == NULL) {
        return -1;
    }
    bool same = ordered->tensor.data == self->imported->tensor.data;
    self->imported->stream = ordered->stream;
    self->imported->thread = ordered->thread;
    Py_DECREF((PyObject *)ordered);
    if (!same) {
        PyErr_SetString(PyExc_BufferError, "the producer gives other memory at each export, so that no stream orders "
                                           "this one (use __dlpack__)");
        return -1;
    }
    return 0;
}

/* The tensor, of a delegate or not. */

DLPackObject *tensor_of(DLPackObject *self)
{
    if (!self->delegate) {
        return self;
    }
    if (self->imported != NULL) {
        return self->imported;
    }
    DLDevice device = {kDLCPU, 0};
    int found = producer_device(self->obj, &device);
    return keep_import(self, import_from(self, found, device));
}

DLPackObject *ordered_tensor_of(DLPackObject *self)
{
    DLPackObject *holder = tensor_of(self);
    if (holder == NULL || !self->delegate || holder->tensor.device.device_type == kDLCPU || holds_memory(holder)) {
        return holder;
    }
    return order_import(self) < 0 ? NULL : holder;
}

DLPackObject *cpu_tensor_of(DLPackObject *self)
{
    DLPackObject *holder = tensor_of(self);
    if (holder == NULL || holder->tensor.device.device_type == kDLCPU) {
        return holder;
    }
    if (!holder->on_cpu) {
        object_refuse(holder, holder->tensor.device.device_type == kDLCUDA ? "on-cuda" : "on-gpu");
        return NULL;
    }
    static const DLDevice cpu = {kDLCPU, 0};
    DLPackObject *waited = ordered_tensor_of(self) == NULL ? NULL : object_on(holder, &cpu, COPY_NEVER);
    Py_XDECREF((PyObject *)waited);
    return waited == NULL ? NULL : holder;
}

DLPackObject *object_on(DLPackObject *self, const DLDevice *device, enum copy copy)
{
    struct terms terms = {.copy = copy};
    if (device != NULL && self->delegate) {
        return (DLPackObject *)make_call(
            ask_in_python(python.move,
                          Py_BuildValue("(O(ii)O)", self, device->device_type, device->device_id, copy_value(copy))));
    }
    if (device != NULL) {
        terms.has_target = !same_device(self->tensor.device, *device);
        terms.target = *device;
    }
    if (!terms.has_target && copy != COPY_ALWAYS) {
        return (DLPackObject *)Py_NewRef((PyObject *)self);
    }
    DLPackObject *tensor = ordered_tensor_of(self);
    return tensor == NULL ? NULL : object_meeting(tensor, &terms);
}

/* Exporting. */

/* Returns the tensor in a producer's answer, and in *name its capsule's name: the expected one, the other one, or NULL.
 * Without a name the tensor is NULL. It is also NULL for another major version, whose layout is unknown. */
HOT static const DLTensor *tensor_in(PyObject *answer, const char *expected, const char **name)
{
    *name = NULL;
    if (answer == NULL) {
        return NULL;
    }
    const void *managed = PyCapsule_GetPointer(answer, expected); /* asking PyCapsule_IsValid first takes 5 ns */
    if (managed != NULL) {
        *name = expected;
    }
    else {
        PyErr_Clear();
        const char *other = expected == capsule_versioned ? capsule_legacy : capsule_versioned;
        if (!PyCapsule_IsValid(answer, other)) {
            return NULL;
        }
        *name = other;
        managed = PyCapsule_GetPointer(answer, other);
    }
    if (*name == capsule_legacy) {
        return &((const DLManagedTensor *)managed)->dl_tensor;
    }
    const DLManagedTensorVersioned *versioned = managed;
    return versioned->version.major == DLPACK_MAJOR_VERSION ? &versioned->dl_tensor : NULL;
}

/* True if the producer has to be told CUDA's legacy default stream when nobody names a stream. None means that one, but
 * torch then orders nothing. Torch's pinned tensors, kDLCUDAHost, accept no stream. */
static bool has_default_stream(DLDevice device)
{
    return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
}

/* 1: ask the producer again, with CUDA's legacy default stream, because nobody named a stream, and the consumer asked
 * for no device, or for the memory's own. 0: `given` is right; -1: error. */
HOT static int lacks_stream(const DLPackObject *self, const struct export_arguments *arguments, DLDevice asked,
                            const DLTensor *given)
{
    DLDevice own;
    if (given == NULL || arguments->stream != NULL || !has_default_stream(given->device)) {
        return 0;
    }
    if (arguments->dl_device == NULL) {
        return 1;
    }
    int found = producer_device(self->obj, &own);
    if (found < 0 && is_refusal()) {
        PyErr_Clear();
        return 0;
    }
    return found > 0 ? same_device(asked, own) : found;
}

/* True if provably empty; the tensor is not validated yet. */
static bool is_empty(const DLTensor *tensor)
{
    bool readable = tensor->shape != NULL && tensor->ndim <= MAX_NDIM, empty = false;
    for (int32_t i = 0; readable && i < tensor->ndim; i++) {
        empty = empty || tensor->shape[i] == 0;
    }
    return empty;
}

/* 1: copy=None has to copy, since the producer's tensor can't be shared. -1: error. */
static int needs_copy(const DLPackObject *self, PyObject *capsule)
{
    if (self->copy != COPY_IF_NEEDED) {
        return 0;
    }
    DLPackObject *looked = object_new(self->obj, COPY_NEVER);
    int seen = looked == NULL ? -1 : inspect_capsule(looked, capsule);
    Py_XDECREF((PyObject *)looked);
    if (seen < 0 && !is_refusal()) {
        return -1;
    }
    bool needs = seen < 0 && PyErr_ExceptionMatches(PyExc_BufferError);
    PyErr_Clear(); /* other refusals are left to the consumer */
    return needs;
}

HOT PyObject *delegate_export(DLPackObject *self, const struct export_arguments *arguments)
{
    bool versioned;
    DLDevice asked = {0};
    if (!plain_max_version(arguments->max_version, &versioned) ||
        (arguments->dl_device != NULL && !plain_device(arguments->dl_device, &asked))) {
        return export_in_python(self, arguments);
    }
    DLPackObject *kept = self->imported;
    if (self->copy == COPY_IF_NEEDED && kept != NULL && holds_memory(kept)) {
        return export_tensor(kept, arguments);
    }
    const char *name, *expected = versioned ? capsule_versioned : capsule_legacy;
    PyObject *answer = call_producer(self->obj, arguments);
    const DLTensor *given = tensor_in(answer, expected, &name);
    int lacks = lacks_stream(self, arguments, asked, given);
    if (lacks < 0) {
        drop_capsule(answer);
        return NULL;
    }
    if (lacks > 0) {
        struct export_arguments named = *arguments;
        named.stream = constants.legacy_stream;
        drop_capsule(answer);
        answer = call_producer(self->obj, &named);
        given = tensor_in(answer, expected, &name);
    }
    if (answer == NULL && !is_refusal()) {
        return NULL;
    }
    /* Some consumers (tensorflow, onnxruntime before 1.32) ignore byte_offset, and all ignore a NULL data, which
     * torch's MaskedTensor exports. */
    bool fits =
        name == expected && (given == NULL || (given->byte_offset == 0 && (given->data != NULL || is_empty(given))));
    int needs = fits && given != NULL ? needs_copy(self, answer) : !fits;
    if (needs == 0) {
        return answer;
    }
    if (needs < 0) {
        drop_capsule(answer);
        return NULL;
    }
    PyObject *refusal = answer == NULL ? take_exception() : new_none();
    PyObject *args =
        Py_BuildValue("(NON)", pack_arguments(self, arguments), answer == NULL ? Py_None : answer, refusal);
    PyObject *capsule = make_call(ask_in_python(python.export_otherwise, args));
    /* If it can't be copied either, pass the answer on. */
    if (capsule == NULL && fits && PyErr_ExceptionMatches(PyExc_BufferError) && PyCapsule_IsValid(answer, expected)) {
        PyErr_Clear();
        return answer;
    }
    drop_capsule(answer);
    return capsule;
}
