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
    drop_foreign(pair);
    return found;
}

/* call_python for a function that may ask a producer. */
static PyObject *ask_in_python(PyObject *function, PyObject *args)
{
    int *calls = begin_producer_call(true);
    if (calls == NULL) {
        drop_foreign(args);
        return NULL;
    }
    PyObject *answer = call_python(function, args);
    --*calls;
    return answer;
}

/* Importing. */

/* Begins an object for the producer's tensor, which the work queued on a stream completes. NULL: no memory. */
static struct memory *begin_import(struct delegate *self, struct reading *reading, int64_t stream)
{
    struct memory *begun = object_begin(reading, self->obj, self->copy, NULL);
    if (begun != NULL) {
        reading->protocol = self->protocol;
        reading->stream = stream;
        reading->exports = true; /* unless it is kept */
    }
    return begun;
}

/* Makes an object with the tensor of the producer's answer, which the work queued on a stream completes. */
static struct memory *import_capsule(struct delegate *self, PyObject *capsule, int64_t stream)
{
    struct reading reading;
    if (!PyCapsule_CheckExact(capsule)) {
        check_in_python(python.no_capsule, PyTuple_Pack(3, self->obj, names.dlpack, capsule));
        return NULL;
    }
    struct memory *begun = begin_import(self, &reading, stream), *imported = NULL;
    if (begun != NULL) {
        imported = object_of_capsule(begun, &reading, capsule);
        if (imported == NULL) {
            explain_refusal(&reading);
        }
    }
    return imported;
}

/* Takes the tensor that the producer's C exchange API gives, which the work queued on *stream completes. On CUDA only if
 * it is not to be copied, since copies are ordered by the producer. 1: taken; 0: ask it; -1: error, which is final. */
static int take_exchanged(struct delegate *self, DLManagedTensorVersioned **managed, int64_t *stream)
{
    int taken = self->exchange == NULL ? 0 : exchange_tensor(self->exchange, self->obj, managed, stream);
    if (taken > 0 && self->copy != COPY_NEVER && (*managed)->dl_tensor.device.device_type != kDLCPU) {
        delete_exchanged(*managed);
        return 0;
    }
    return taken;
}

/* Makes an object with the tensor; steals it. NULL, without an error: ask the producer. */
static struct memory *import_managed(struct delegate *self, DLManagedTensorVersioned *managed, int64_t stream)
{
    struct reading reading;
    struct memory *begun = begin_import(self, &reading, stream);
    struct memory *imported = begun == NULL ? NULL : object_of(read_managed(&reading, managed, true), begun, &reading);
    if (imported == NULL) {
        delete_exchanged(managed);
        if (is_refusal()) {
            PyErr_Clear(); /* the producer may give another tensor */
        }
    }
    return imported;
}

/* Keeps `imported`, unless another thread or the producer came first; steals it. Returns the import kept, borrowed. */
static struct memory *keep_import(struct delegate *self, struct memory *imported)
{
    struct memory *kept = NULL;
    if (imported != NULL) {
        object_keep(imported);
    }
    if (imported == NULL || atomic_compare_exchange_strong(&self->imported, &kept, imported)) {
        return imported;
    }
    Py_DECREF((PyObject *)imported);
    return kept;
}

/* Caches the copy that copy=None forced, for later exports, if its source was complete. Steals imported. */
static PyObject *keep_copy(struct delegate *self, struct memory *imported, bool was_complete)
{
    if (was_complete && self->copy == COPY_IF_NEEDED && imported->copy == COPY_IF_NEEDED &&
        holds_memory(&imported->hold)) {
        struct memory *kept = keep_import(self, (struct memory *)Py_NewRef((PyObject *)imported));
        if (holds_memory(&kept->hold)) { /* it may be another thread's */
            Py_INCREF((PyObject *)kept);
            Py_DECREF((PyObject *)imported);
            return (PyObject *)kept;
        }
    }
    return (PyObject *)imported;
}

PyObject *import_given(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct delegate *self;
    PyObject *capsule;
    long long stream;
    if (!PyArg_ParseTuple(args, "O!OL", DLPackObject_type, &self, &capsule, &stream)) {
        return NULL;
    }
    struct memory *imported = import_capsule(self, capsule, stream);
    return imported == NULL ? take_exception() : keep_copy(self, imported, stream != STREAM_UNKNOWN);
}

PyObject *read_by_others(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct delegate *self;
    PyObject *copied;
    enum copy copy;
    if (!PyArg_ParseTuple(args, "O!O", DLPackObject_type, &self, &copied)) {
        return NULL;
    }
    plain_copy(copied, &copy);
    struct reading reading = {.protocol = NULL};
    struct memory *served = object_by(read_by_protocols, &reading, self->obj, copy, NULL, true);
    if (served == NULL && !PyErr_Occurred()) {
        return Py_BuildValue("(OO)", Py_None, Py_None);
    }
    return Py_BuildValue("(zN)", reading.protocol,
                         served == NULL ? take_exception()
                                        : keep_copy(self, served, served->tensor.device.device_type == kDLCPU));
}

/* Makes an object with the producer's tensor as it is now, on the device that producer_device found. If that refused
 * (found < 0), its refusal is pending. */
static struct memory *import_from(struct delegate *self, int found, DLDevice device)
{
    if (found > 0 && device.device_type != kDLCPU) {
        return (struct memory *)ask_in_python(python.import_tensor, PyTuple_Pack(2, self, Py_False));
    }
    const struct export_arguments newest = {.max_version = constants.newest_version};
    PyObject *capsule = found < 0 ? NULL : call_producer(self->obj, &newest);
    struct memory *imported = capsule == NULL ? NULL : import_capsule(self, capsule, STREAM_LEGACY);
    drop_foreign(capsule);
    if (imported != NULL || found == NO_DEVICE ||
        !(capsule == NULL ? is_refusal() : PyErr_ExceptionMatches(PyExc_BufferError))) {
        return imported;
    }
    return (struct memory *)ask_in_python(python.import_refused, Py_BuildValue("(ONO)", self, take_exception(),
                                                                               found >= 0 ? Py_True : Py_False));
}

int delegate_device(struct delegate *self, DLDevice *device)
{
    int is_on_cpu = self->exchange == NULL ? 0 : exchange_is_on_cpu(self->exchange, self->obj);
    if (is_on_cpu != 0) {
        *device = (DLDevice){kDLCPU, 0};
        return is_on_cpu < 0 ? -1 : 0;
    }
    int found = producer_device(self->obj, device);
    if (found > 0 || found == NO_DEVICE || (found < 0 && !is_refusal())) {
        return found > 0 ? 0 : -1;
    }
    const struct memory *kept = self->imported;
    kept = kept != NULL ? kept : keep_import(self, import_from(self, found, *device));
    if (kept != NULL) {
        PyErr_Clear();
        *device = kept->tensor.device;
    }
    return kept == NULL ? -1 : 0;
}

/* The tensor, of a delegate or not. */

struct memory *tensor_of(DLPackObject *self)
{
    if (!self->is_delegate) {
        return (struct memory *)self;
    }
    struct delegate *delegate = (struct delegate *)self;
    if (delegate->imported != NULL) {
        return delegate->imported;
    }
    DLManagedTensorVersioned *managed;
    int64_t stream;
    struct memory *imported =
        take_exchanged(delegate, &managed, &stream) > 0 ? import_managed(delegate, managed, STREAM_UNKNOWN) : NULL;
    if (imported == NULL && !PyErr_Occurred()) {
        DLDevice device = {kDLCPU, 0};
        int found = producer_device(self->obj, &device);
        imported = import_from(delegate, found, device);
    }
    return keep_import(delegate, imported);
}

struct memory *ordered_tensor_of(DLPackObject *self)
{
    struct memory *holder = tensor_of(self);
    if (holder == NULL || !self->is_delegate || holder->tensor.device.device_type == kDLCPU ||
        holds_memory(&holder->hold)) {
        return (struct memory *)Py_XNewRef((PyObject *)holder);
    }
    struct memory *ordered = (struct memory *)ask_in_python(python.import_tensor, PyTuple_Pack(2, self, Py_True));
    if (ordered != NULL && ordered->tensor.data != holder->tensor.data) {
        check_in_python(python.refuse_in_words, Py_BuildValue("(s)", "other-memory"));
        Py_CLEAR(ordered);
    }
    if (ordered != NULL) {
        object_keep(ordered);
    }
    return ordered;
}

struct memory *cpu_tensor_of(DLPackObject *self)
{
    static const DLDevice cpu = {kDLCPU, 0};
    struct memory *holder = tensor_of(self);
    if (holder == NULL || holder->tensor.device.device_type == kDLCPU) {
        return holder;
    }
    if (!holder->on_cpu) {
        object_refuse(holder, holder->tensor.device.device_type == kDLCUDA ? "on-cuda" : "on-gpu");
        return NULL;
    }
    struct memory *ordered = ordered_tensor_of(self);
    PyObject *waited = ordered == NULL ? NULL : object_on((DLPackObject *)ordered, &cpu, COPY_NEVER);
    Py_XDECREF((PyObject *)ordered);
    Py_XDECREF(waited);
    return waited == NULL ? NULL : holder;
}

PyObject *object_on(DLPackObject *self, const DLDevice *device, enum copy copy)
{
    struct terms terms = {.copy = copy};
    if (device != NULL && self->is_delegate) {
        return make_call(ask_in_python(python.move, Py_BuildValue("(O(ii)O)", self, device->device_type,
                                                                  device->device_id, copy_value(copy))));
    }
    if (device != NULL) {
        terms.has_target = !same_device(((struct memory *)self)->tensor.device, *device);
        terms.target = *device;
    }
    if (!terms.has_target && copy != COPY_ALWAYS) {
        return Py_NewRef((PyObject *)self);
    }
    struct memory *tensor = ordered_tensor_of(self), *met = tensor == NULL ? NULL : object_meeting(tensor, &terms);
    Py_XDECREF((PyObject *)tensor);
    return (PyObject *)met;
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

/* True if provably empty; the tensor is not validated yet. */
static bool is_empty(const DLTensor *tensor)
{
    bool readable = tensor->shape != NULL && tensor->ndim <= MAX_NDIM, empty = false;
    for (int32_t i = 0; readable && i < tensor->ndim; i++) {
        empty = empty || tensor->shape[i] == 0;
    }
    return empty;
}

/* True if the tensor is known to be shareable. */
static bool is_ordinary(const DLTensor *tensor)
{
    struct request request;
    struct answer answer;
    request_tensor(&request, tensor, 0);
    return look_up(&request, &answer);
}

/* True if memory that the work on the stream completes needs no more order for the consumer. */
static bool is_in_order(int64_t stream, PyObject *consumer)
{
    int64_t wanted = STREAM_LEGACY;
    return (consumer == NULL || plain_int(consumer, &wanted)) && (wanted == stream || wanted == STREAM_NO_ORDER);
}

/* Makes a capsule by the producer's C exchange API, if the arguments ask for the memory as it is, and on its device. 1:
 * made, and fits; 0: ask the producer; -1: error, which is final. */
HOT static int export_exchanged(struct delegate *self, const struct export_arguments *arguments, DLDevice asked,
                                bool versioned, PyObject **capsule)
{
    DLManagedTensorVersioned *managed;
    int64_t stream;
    if (self->exchange == NULL || arguments->copy == Py_True) {
        return 0;
    }
    if ((arguments->copy != NULL && arguments->copy != Py_False) || asked.device_type != kDLCPU) {
        return check_negative(self->exchange, self->obj);
    }
    int taken = take_exchanged(self, &managed, &stream);
    if (taken <= 0) {
        return taken;
    }
    bool on_cpu = managed->dl_tensor.device.device_type == kDLCPU;
    if ((on_cpu ? arguments->stream : arguments->dl_device) != NULL) {
        delete_exchanged(managed);
        return 0;
    }
    if (versioned && (on_cpu || is_in_order(stream, arguments->stream)) &&
        (self->copy != COPY_IF_NEEDED || is_ordinary(&managed->dl_tensor))) {
        *capsule = exchanged_capsule(managed);
    }
    else {
        struct memory *imported = import_managed(self, managed, stream);
        if (imported == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        imported = (struct memory *)keep_copy(self, imported, true);
        *capsule = export_tensor(imported, arguments);
        Py_DECREF((PyObject *)imported);
    }
    return *capsule == NULL ? -1 : 1;
}

/* Packs self and the arguments for a Python function. */
static PyObject *pack_arguments(struct delegate *self, const struct export_arguments *arguments)
{
    PyObject *all[EXPORT_ARGUMENTS];
    for (int i = 0; i < EXPORT_ARGUMENTS; i++) {
        all[i] = arguments->all[i] == NULL ? Py_None : arguments->all[i];
    }
    return PyTuple_Pack(1 + EXPORT_ARGUMENTS, self, all[0], all[1], all[2], all[3]);
}

HOT PyObject *delegate_export(struct delegate *self, const struct export_arguments *arguments)
{
    bool versioned;
    DLDevice asked = {kDLCPU, 0};
    if (!plain_max_version(arguments->max_version, &versioned) ||
        (arguments->dl_device != NULL && !plain_device(arguments->dl_device, &asked))) {
        return NULL;
    }
    struct memory *kept = self->imported;
    if (self->copy == COPY_IF_NEEDED && kept != NULL && holds_memory(&kept->hold)) {
        return export_tensor(kept, arguments);
    }
    const char *name, *expected = versioned ? capsule_versioned : capsule_legacy;
    PyObject *answer = NULL;
    if (export_exchanged(self, arguments, asked, versioned, &answer) != 0) {
        return answer;
    }
    answer = call_producer(self->obj, arguments);
    if (answer == NULL && !is_refusal()) {
        return NULL;
    }
    const DLTensor *given = tensor_in(answer, expected, &name);
    /* None means CUDA's legacy default stream, but torch then orders nothing: so the producer has to be told it. Torch's
     * pinned tensors, kDLCUDAHost, accept no stream. */
    bool lacks_stream = given != NULL && arguments->stream == NULL &&
                        (given->device.device_type == kDLCUDA || given->device.device_type == kDLCUDAManaged);
    /* Some consumers (tensorflow, onnxruntime before 1.32) ignore byte_offset, and all ignore a NULL data, which
     * torch's MaskedTensor exports. */
    bool fits =
        name == expected && (given == NULL || (given->byte_offset == 0 && (given->data != NULL || is_empty(given))));
    if (fits && !lacks_stream && (self->copy != COPY_IF_NEEDED || given == NULL || is_ordinary(given))) {
        return answer;
    }
    PyObject *refusal = answer == NULL ? take_exception() : new_none();
    PyObject *args = Py_BuildValue("(NNNOO)", pack_arguments(self, arguments), answer == NULL ? new_none() : answer,
                                   refusal, fits ? Py_True : Py_False, lacks_stream ? Py_True : Py_False);
    return make_call(ask_in_python(python.export_otherwise, args));
}
