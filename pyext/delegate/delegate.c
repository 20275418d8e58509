/* delegate.c: objects with __dlpack__, which are asked for their tensor, or by a consumer's arguments for a capsule; where
 * they refuse, their other protocols serve.
 *
 * It is C because each export asks. What else is asked after a refusal, and off the CPU, dlpack._delegate decides. */
#include "delegate/delegate.h"
#include "platform/platform.h"

#include <stdatomic.h>

/* Asking. */

/* A producer may say that its memory is a DLPackObject's, whose producer says the same, and so on in a circle. Python's
 * recursion limit does not end that: no Python function need be on the stack. */
static int *begin_asking(void)
{
    static _Thread_local int asked; /* calls of producers that have not ended */
    int *here = &asked;             /* each look at a thread's variable takes 4 ns */
    if (*here >= NESTED_FREELY && !stack_has_room(*here)) {
        PyErr_SetString(PyExc_RecursionError, "asdlpack: a producer's memory is another's, and so on until the stack "
                                              "had no room; expected memory at the end");
        return NULL;
    }
    ++*here;
    return here;
}

/* Raises that a producer's method returned something else. -1. */
static int refuse_answer(PyObject *obj, const char *method, const char *expected, PyObject *answer)
{
    return check_in_python(PYTHON_WRONG_ANSWER, Py_BuildValue("(OssO)", obj, method, expected, answer));
}

/* obj.__dlpack__ with the arguments that are there: a producer that knows no others must not be given them. */
static PyObject *call_producer(PyObject *obj, const struct export_arguments *arguments)
{
    PyObject *const all[] = {arguments->stream, arguments->max_version, arguments->dl_device, arguments->copy};
    PyObject *passed[5] = {obj};
    unsigned which = 0, count = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (all[i] != NULL) {
            which |= 1u << i;
            passed[++count] = all[i];
        }
    }
    int *asked = begin_asking();
    if (asked == NULL) {
        return NULL;
    }
    PyObject *keywords = which == 0 ? NULL : PyTuple_GetItem(constants.export_keywords, which);
    PyObject *capsule = vectorcall_method(names.dlpack, passed, 1, keywords);
    --*asked;
    return capsule;
}

/* obj.__dlpack_device__(). 1: read; 0: obj has no such method; -1: error. */
static int producer_device(PyObject *obj, DLDevice *device)
{
    PyObject *method;
    int found = optional_attribute(obj, names.dlpack_device, &method);
    if (found <= 0) {
        return found;
    }
    int *asked = begin_asking();
    PyObject *pair = asked == NULL ? NULL : PyObject_CallNoArgs(method);
    if (asked != NULL) {
        --*asked;
    }
    Py_DECREF(method);
    if (pair == NULL) {
        return -1;
    }
    found = parse_device(pair, device);
    if (found == 0) {
        found =
            refuse_answer(obj, "__dlpack_device__", "a tuple of two ints of 32 bits, (device type, device id)", pair);
    }
    Py_DECREF(pair);
    return found;
}

/* Whether the pending exception says that the producer can't, rather than that something broke. */
static bool is_refusal(void)
{
    return PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
           (PyErr_ExceptionMatches(PyExc_RuntimeError) /* NotImplementedError is one */ &&
            !PyErr_ExceptionMatches(PyExc_RecursionError));
}

int delegate_device(DLPackObject *self, DLDevice *device)
{
    int found = producer_device(self->obj, device);
    if (found > 0 || (found < 0 && !is_refusal())) {
        return found > 0 ? 0 : -1;
    }
    PyErr_Clear();
    const DLPackObject *holder = tensor_of(self);
    if (holder == NULL) {
        return -1;
    }
    *device = holder->tensor.device;
    return 0;
}

/* Importing. */

/* The tensor of a producer that refused, by another protocol of it, and copied where copy says so. Steals the text of
 * the refusal, which may be NULL: error. */
static DLPackObject *serve_by_others(DLPackObject *self, enum copy copy, PyObject *refusal)
{
    int *asked = refusal == NULL ? NULL : begin_asking();
    DLPackObject *served = asked == NULL ? NULL : object_new(self->obj, copy);
    int found = served == NULL ? -1 : describe_by_protocols(served);
    if (found > 0 && is_of_cuda(served->tensor.device) &&
        check_in_python(PYTHON_CHECK_STREAM_NAMED, PyTuple_Pack(1, self->obj)) < 0) {
        found = -1;
    }
    if (served != NULL && found <= 0 && (found == 0 || is_refusal() || PyErr_ExceptionMatches(PyExc_ValueError))) {
        const char *other = found == 0 ? NULL : served->protocol;
        PyObject *said = found == 0 ? new_none() : take_exception_text();
        check_in_python(PYTHON_REFUSED_BY_ALL, Py_BuildValue("(OOzN)", self->obj, refusal, other, said));
    }
    if (found <= 0) {
        Py_CLEAR(served);
    }
    if (asked != NULL) {
        --*asked;
    }
    Py_XDECREF(refusal);
    return served;
}

/* A new object with the tensor of what the producer gave, which is complete by the order of a stream; where that can't
 * be taken, by another protocol. Steals the capsule. */
static DLPackObject *import_capsule(DLPackObject *self, PyObject *capsule, int64_t order, enum copy copy)
{
    DLPackObject *imported = object_new(self->obj, self->copy);
    if (imported != NULL) {
        imported->protocol = self->protocol;
        imported->stream = order;
        int taken = PyCapsule_CheckExact(capsule) ? take_capsule(imported, capsule)
                                                  : refuse_answer(self->obj, "__dlpack__", "a capsule", capsule);
        if (taken < 0) {
            Py_CLEAR(imported);
        }
    }
    drop_capsule(capsule);
    if (imported == NULL && PyErr_ExceptionMatches(PyExc_BufferError)) {
        imported = serve_by_others(self, copy, take_exception_text());
    }
    return imported;
}

/* The same of what a function of dlpack._delegate got of the producer: a capsule and its order, or the text of a
 * refusal. Steals args, which may be NULL: error. */
static DLPackObject *import_asking(DLPackObject *self, enum copy copy, enum python_function ask, PyObject *args)
{
    int *asked = begin_asking();
    if (asked == NULL) {
        Py_XDECREF(args);
        return NULL;
    }
    DLPackObject *imported = NULL;
    PyObject *answer = call_python(ask, args), *capsule;
    long long order;
    --*asked;
    if (answer != NULL && PyUnicode_Check(answer)) {
        imported = serve_by_others(self, copy, Py_NewRef(answer));
    }
    else if (answer != NULL && PyArg_ParseTuple(answer, "OL", &capsule, &order)) {
        imported = import_capsule(self, Py_NewRef(capsule), order, copy);
    }
    drop_capsule(answer); /* which holds it */
    return imported;
}

/* Imports the producer's tensor. Of a consumer's arguments, the stream is passed on, and a copy=False; with copy=True,
 * what the other protocols say is copied, and converted. */
static DLPackObject *import_tensor(DLPackObject *self, PyObject *stream, PyObject *copied)
{
    PyObject *args = PyTuple_Pack(4, self->obj, constants.newest_version, stream == NULL ? Py_None : stream,
                                  copied == NULL ? Py_None : copied);
    return import_asking(self, copied == Py_True ? COPY_ALWAYS : self->copy, PYTHON_ASK_FOR_IMPORT, args);
}

/* A new object with the producer's tensor as it is now. */
static DLPackObject *import_as_it_is(DLPackObject *self)
{
    DLDevice device = {kDLCPU, 0};
    PyObject *capsule = NULL;
    if (producer_device(self->obj, &device) < 0) {
        return is_refusal() ? serve_by_others(self, self->copy, take_exception_text()) : NULL;
    }
    if (device.device_type == kDLCPU) {
        capsule = call_producer(self->obj, &(struct export_arguments){.max_version = constants.newest_version});
    }
    if (capsule != NULL) {
        return import_capsule(self, capsule, STREAM_LEGACY, self->copy);
    }
    PyObject *error = PyErr_Occurred();
    if (error != NULL && error != PyExc_TypeError) {
        return is_refusal() ? serve_by_others(self, self->copy, take_exception_text()) : NULL;
    }
    PyErr_Clear(); /* it may lack a keyword */
    /* Off the CPU: where the memory is looked at, not read, no work on it need be waited for. */
    bool looks = device.device_type != kDLCPU && self->copy == COPY_NEVER;
    return import_tensor(self, looks ? constants.no_ordering : NULL, NULL);
}

/* Has the producer order its work on the imported memory of CUDA before the legacy default stream's. */
static int order_import(DLPackObject *self)
{
    DLPackObject *ordered = import_tensor(self, NULL, NULL);
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

/* A new object with the producer's memory, which is here, on another device: as the producer gives it there, or
 * copied. */
static DLPackObject *move(DLPackObject *self, DLDevice here, const struct terms *terms)
{
    PyObject *const copies[] = {[COPY_NEVER] = Py_False, [COPY_IF_NEEDED] = Py_None, [COPY_ALWAYS] = Py_True};
    DLDevice target = terms->target;
    DLPackObject *tensor =
        import_asking(self, self->copy, PYTHON_ASK_FOR_DEVICE,
                      Py_BuildValue("(OOi(ii)O)", self->obj, constants.newest_version, here.device_type,
                                    target.device_type, target.device_id, copies[terms->copy]));
    if (tensor == NULL) {
        return NULL;
    }
    struct terms rest = *terms;
    if (rest.copy == COPY_ALWAYS && tensor->flags & DLPACK_FLAG_BITMASK_IS_COPIED) {
        rest.copy = COPY_IF_NEEDED;
    }
    DLPackObject *moved = object_meeting(tensor, &rest);
    Py_DECREF((PyObject *)tensor);
    return moved;
}

/* The tensor, of a delegate or not. */

DLPackObject *tensor_of(DLPackObject *self)
{
    if (!self->delegate) {
        return self;
    }
    DLPackObject *kept = self->imported;
    if (kept == NULL) {
        DLPackObject *imported = import_as_it_is(self);
        if (imported == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(&self->imported, &kept, imported)) {
            return imported;
        }
        Py_DECREF((PyObject *)imported); /* another thread, or the producer, came here, and the first import stays */
    }
    return kept;
}

DLPackObject *ordered_tensor_of(DLPackObject *self)
{
    DLPackObject *holder = tensor_of(self);
    if (holder == NULL || !self->delegate || !is_of_cuda(holder->tensor.device) || holds_memory(holder)) {
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
        object_refuse(holder, holder->tensor.device.device_type == kDLCUDA ? "on CUDA" : "on a GPU");
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
    DLDevice here = self->tensor.device;
    if (device != NULL) {
        if (self->delegate && delegate_device(self, &here) < 0) {
            return NULL;
        }
        terms.has_target = !same_device(here, *device);
        terms.target = *device;
    }
    if (!terms.has_target && copy != COPY_ALWAYS) {
        return (DLPackObject *)Py_NewRef((PyObject *)self);
    }
    if (terms.has_target && self->delegate) {
        return move(self, here, &terms);
    }
    DLPackObject *tensor = ordered_tensor_of(self);
    return tensor == NULL ? NULL : object_meeting(tensor, &terms);
}

/* Exporting. */

/* The tensor in a producer's answer, and which of the two names the capsule has; NULL: neither. The tensor is NULL there,
 * too, and where it is of another major version, of which no more is known. */
static const DLTensor *tensor_in(PyObject *answer, const char **name)
{
    *name = NULL;
    if (answer != NULL && PyCapsule_IsValid(answer, capsule_versioned)) {
        *name = capsule_versioned;
        const DLManagedTensorVersioned *managed = PyCapsule_GetPointer(answer, capsule_versioned);
        return managed->version.major == DLPACK_MAJOR_VERSION ? &managed->dl_tensor : NULL;
    }
    if (answer != NULL && PyCapsule_IsValid(answer, capsule_legacy)) {
        *name = capsule_legacy;
        return &((const DLManagedTensor *)PyCapsule_GetPointer(answer, capsule_legacy))->dl_tensor;
    }
    return NULL;
}

/* Whether a producer is told CUDA's legacy default stream where nobody named one: None means that, but not to torch,
 * which then orders nothing. Torch's pinned tensors, kDLCUDAHost, take no stream. */
static bool has_default_stream(DLDevice device)
{
    return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
}

/* The tensor of a producer that refused what the consumer asks; what copy=None has to copy is copied once, and kept. */
static DLPackObject *tensor_after_refusal(DLPackObject *self, const struct export_arguments *arguments)
{
    PyErr_Clear();
    DLPackObject *kept = self->copy == COPY_IF_NEEDED ? tensor_of(self) : NULL;
    if (PyErr_Occurred() || (kept != NULL && holds_memory(kept))) {
        return (DLPackObject *)Py_XNewRef((PyObject *)kept);
    }
    /* With dl_device the stream belongs to the target; don't pass it. */
    return import_tensor(self, arguments->dl_device == NULL ? arguments->stream : NULL, arguments->copy);
}

/* The tensor of a capsule that the producer gave for this stream; steals it. */
static DLPackObject *tensor_of_answer(DLPackObject *self, PyObject *capsule, PyObject *stream)
{
    int64_t order = STREAM_LEGACY;
    PyObject *number = stream == NULL ? NULL : call_python(PYTHON_ORDER_OF, PyTuple_Pack(1, stream));
    if (stream != NULL && (number == NULL || !plain_int(number, &order))) {
        drop_capsule(capsule);
        return NULL;
    }
    Py_XDECREF(number);
    return import_capsule(self, capsule, order, self->copy);
}

/* Exports what was imported for these arguments. A producer that gave a capsule has seen to the stream, and one that
 * says it copied, to the copy; so has the import, where it copied for these arguments alone. */
static PyObject *export_imported(DLPackObject *self, DLPackObject *tensor, const struct export_arguments *arguments)
{
    struct export_arguments rest = *arguments;
    if (tensor->protocol == self->protocol && tensor->stream == STREAM_UNKNOWN && arguments->dl_device == NULL) {
        rest.stream = NULL;
    }
    if (holds_memory(tensor) && arguments->copy == Py_True && tensor != self->imported) {
        rest.copy = NULL;
    }
    else if (tensor->flags & DLPACK_FLAG_BITMASK_IS_COPIED && !holds_memory(tensor)) {
        if (arguments->copy == Py_False) {
            PyErr_SetString(PyExc_BufferError, "copy=False: the producer gives a copy alone; pass copy=None or True");
            return NULL;
        }
        rest.copy = NULL;
    }
    return export_tensor(tensor, &rest);
}

PyObject *delegate_export(DLPackObject *self, const struct export_arguments *arguments)
{
    bool versioned;
    if (!plain_max_version(arguments->max_version, &versioned)) {
        return export_in_python(self, arguments);
    }
    const char *name;
    PyObject *answer = call_producer(self->obj, arguments);
    const DLTensor *given = tensor_in(answer, &name);
    if (given != NULL && arguments->stream == NULL && arguments->dl_device == NULL &&
        has_default_stream(given->device)) {
        struct export_arguments named = *arguments;
        named.stream = constants.legacy_stream;
        drop_capsule(answer);
        answer = call_producer(self->obj, &named);
        given = tensor_in(answer, &name);
    }
    /* Some consumers (onnxruntime, tensorflow) overlook an offset. */
    if (name == (versioned ? capsule_versioned : capsule_legacy) && (given == NULL || given->byte_offset == 0)) {
        return answer;
    }
    DLPackObject *tensor = NULL;
    if (answer != NULL) {
        tensor = tensor_of_answer(self, answer, arguments->stream);
    }
    else if (is_refusal()) {
        tensor = tensor_after_refusal(self, arguments);
    }
    PyObject *capsule = tensor == NULL ? NULL : export_imported(self, tensor, arguments);
    Py_XDECREF((PyObject *)tensor);
    return capsule;
}
