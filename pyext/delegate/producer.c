/* producer.c: asks objects that have __dlpack__, and serves by their other protocols where they refuse.
 *
 * It is C because it calls Python, which Go never does. */
#include "delegate/delegate.h"
#include "platform/platform.h"

#include <stdatomic.h>

static void raise_answer_of(PyObject *obj, const char *method, const char *expected, PyObject *value)
{
    raise_text(PyExc_ValueError, PYTHON_WRONG_ANSWER, Py_BuildValue("(OssO)", obj, method, expected, value));
}

/* The names of the arguments whose bits are set, a tuple made once for each combination: borrowed. NULL: error. */
static PyObject *keywords_of(unsigned which, unsigned count)
{
    static _Atomic(PyObject *) made[16];
    PyObject *const all[] = {names.stream, names.max_version, names.dl_device, names.copy};
    PyObject *keywords = atomic_load(&made[which]), *none = NULL;
    if (keywords != NULL) {
        return keywords;
    }
    keywords = PyTuple_New(count);
    for (Py_ssize_t i = 0, at = 0; i < 4 && keywords != NULL; i++) {
        if (which & 1u << i && PyTuple_SetItem(keywords, at++, Py_NewRef(all[i])) < 0) {
            Py_CLEAR(keywords);
        }
    }
    if (keywords != NULL && !atomic_compare_exchange_strong(&made[which], &none, keywords)) {
        Py_DECREF(keywords);
        keywords = none; /* another thread's */
    }
    return keywords;
}

/* A producer may say that its memory is a DLPackObject's, whose producer says the same, and so on in a circle. Python's
 * recursion limit does not end that: no Python function need be on the stack. */
static int *begin_asking(void)
{
    static _Thread_local int asked; /* calls and imports of producers that have not ended */
    int *here = &asked;             /* each look at a thread's variable takes 4 ns */
    if (*here >= NESTED_FREELY && !stack_has_room(*here)) {
        PyErr_SetString(PyExc_RecursionError, "asdlpack: a producer's memory is another's, and so on until the stack "
                                              "had no room; expected memory at the end");
        return NULL;
    }
    ++*here;
    return here;
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
    PyObject *keywords = which == 0 ? NULL : keywords_of(which, count);
    int *asked = which != 0 && keywords == NULL ? NULL : begin_asking();
    if (asked == NULL) {
        return NULL;
    }
    PyObject *capsule = call_method(names.dlpack, passed, keywords);
    --*asked;
    if (capsule != NULL && !PyCapsule_CheckExact(capsule)) {
        raise_answer_of(obj, "__dlpack__", "a capsule", capsule);
        Py_CLEAR(capsule);
    }
    return capsule;
}

/* Whether the pending exception says that the producer can't, rather than that something broke. */
static bool is_refusal(void)
{
    return PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
           (PyErr_ExceptionMatches(PyExc_RuntimeError) /* NotImplementedError is one */ &&
            !PyErr_ExceptionMatches(PyExc_RecursionError));
}

/* The tensor of a producer that just refused, by another protocol of it, and copied where copy says so. */
static DLPackObject *serve_by_others(DLPackObject *self, enum copy copy)
{
    PyObject *refusal = take_exception_text();
    if (refusal == NULL) {
        return NULL;
    }
    DLPackObject *served = object_new(self->obj, copy);
    if (served == NULL) {
        Py_DECREF(refusal);
        return NULL;
    }
    int found = describe_by_protocols(served);
    if (found > 0 && is_of_cuda(served->tensor.device) &&
        check_in_python(PYTHON_CHECK_STREAM_NAMED, PyTuple_Pack(1, self->obj)) < 0) {
        found = -1;
    }
    if (found > 0) {
        Py_DECREF(refusal);
        return served;
    }
    PyObject *other = NULL; /* what the other protocol said, if there is one */
    if (found < 0 && (is_refusal() || PyErr_ExceptionMatches(PyExc_ValueError))) {
        other = take_exception_text();
    }
    if (!PyErr_Occurred()) {
        raise_text(PyExc_BufferError, PYTHON_REFUSED_BY_ALL,
                   Py_BuildValue("(OOzO)", self->obj, refusal, other == NULL ? NULL : served->protocol,
                                 other == NULL ? Py_None : other));
    }
    Py_XDECREF(other);
    Py_DECREF(refusal);
    Py_DECREF((PyObject *)served);
    return NULL;
}

/* The stream by whose order a producer's memory is complete, which was asked for this one; None is the legacy default
 * stream. 0: found, or STREAM_UNKNOWN; -1: error. */
static int read_order(PyObject *stream, int64_t *number)
{
    *number = STREAM_LEGACY;
    bool known = stream == NULL || plain_int(stream, number);
    if (!known) {
        PyObject *plain = call_python(PYTHON_FITTING, PyTuple_Pack(1, stream));
        if (plain == NULL) {
            return -1;
        }
        known = plain_int(plain, number);
        Py_DecRef(plain);
    }
    if (!known || *number < 0) {
        *number = STREAM_UNKNOWN;
    }
    return 0;
}

/* A new object with the tensor of a capsule that the producer gave for this stream, or where that can't be taken, by
 * another protocol of it; steals the capsule. */
static DLPackObject *import_capsule(DLPackObject *self, PyObject *capsule, PyObject *stream, enum copy copy)
{
    DLPackObject *imported = object_new(self->obj, self->copy);
    if (imported != NULL) {
        imported->protocol = self->protocol;
        if (read_order(stream, &imported->stream) < 0 || take_capsule(imported, capsule) < 0) {
            Py_CLEAR(imported);
        }
    }
    drop_capsule(capsule);
    if (imported == NULL && PyErr_ExceptionMatches(PyExc_BufferError)) {
        imported = serve_by_others(self, copy);
    }
    return imported;
}

/* obj.__dlpack_device__(). 1: read; 0: obj has no such method; -1: error. */
static int producer_device(PyObject *obj, DLDevice *device)
{
    PyObject *method;
    int found = optional_attribute(obj, names.dlpack_device, &method);
    if (found <= 0) {
        return found;
    }
    PyObject *pair = NULL;
    int *asked = begin_asking();
    if (asked != NULL) {
        pair = PyObject_CallNoArgs(method);
        --*asked;
    }
    Py_DECREF(method);
    if (pair == NULL) {
        return -1;
    }
    found = parse_device(pair, device);
    if (found == 0) {
        raise_answer_of(obj, "__dlpack_device__", "a tuple of two ints of 32 bits, (device type, device id)", pair);
        found = -1;
    }
    Py_DECREF(pair);
    return found;
}

/* Whether a producer is told CUDA's legacy default stream where nobody named one: None means that, but not to torch,
 * which then orders nothing. Torch's pinned tensors, kDLCUDAHost, take no stream. */
static bool has_default_stream(DLDevice device)
{
    return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
}

/* 1: where nobody names a stream, the producer is told the legacy default one; 0: none; -1: error. */
static int names_default_stream(PyObject *obj)
{
    DLDevice device;
    int found = producer_device(obj, &device);
    if (found < 0 && (is_refusal() || PyErr_ExceptionMatches(PyExc_ValueError))) {
        PyErr_Clear(); /* what it has to say it says in __dlpack__, too */
        return 0;
    }
    return found > 0 ? has_default_stream(device) : found;
}

/* obj.__dlpack__ for a stream, versioned if it can be. */
static PyObject *call_for_import(PyObject *obj, PyObject *stream, PyObject *copy)
{
    struct export_arguments arguments = {.stream = stream, .max_version = constants.newest_version, .copy = copy};
    PyObject *capsule = call_producer(obj, &arguments);
    /* A method that lacks a keyword raises TypeError itself; a subclass of it, such as pyarrow's, is a refusal. */
    if (capsule == NULL && PyErr_Occurred() == PyExc_TypeError) {
        PyErr_Clear();
        capsule = call_producer(obj, &(struct export_arguments){.stream = stream});
    }
    return capsule;
}

/* Asks again, for the legacy default stream: the producer may have refused the stream, as torch refuses the per-thread
 * default one. The memory is then ordered before the consumer's stream here. */
static PyObject *call_for_default_stream(PyObject *obj, PyObject **stream, PyObject *copy)
{
    struct pending refusal;
    int64_t order;
    set_aside(&refusal);
    int named = read_order(*stream, &order);
    if (named == 0 && order != STREAM_LEGACY) {
        named = names_default_stream(obj);
    }
    if (named == 0) {
        put_back(&refusal);
        return NULL;
    }
    drop_pending(&refusal);
    if (named < 0) {
        return NULL;
    }
    *stream = constants.legacy_stream;
    return call_for_import(obj, *stream, copy);
}

/* Imports the producer's tensor, versioned if it can; where it refuses, its other protocols serve. Of the arguments,
 * the stream is passed on, and a copy=False; with copy=True, what the other protocols say is copied, and converted. */
static DLPackObject *import_tensor(DLPackObject *self, const struct export_arguments *arguments)
{
    enum copy copy = arguments->copy == Py_True ? COPY_ALWAYS : self->copy;
    PyObject *never = arguments->copy == Py_False ? Py_False : NULL;
    PyObject *stream = arguments->stream;
    if (stream == NULL) {
        int named = names_default_stream(self->obj);
        if (named < 0) {
            return NULL;
        }
        stream = named ? constants.legacy_stream : NULL;
    }
    PyObject *capsule = call_for_import(self->obj, stream, never);
    if (capsule == NULL && is_refusal()) {
        capsule = call_for_default_stream(self->obj, &stream, never);
    }
    if (capsule != NULL) {
        return import_capsule(self, capsule, stream, copy);
    }
    return is_refusal() ? serve_by_others(self, copy) : NULL;
}

int delegate_device(DLPackObject *self, DLDevice *device)
{
    int found = producer_device(self->obj, device);
    if (found > 0) {
        return 0;
    }
    if (found < 0) {
        if (!is_refusal()) {
            return -1;
        }
        PyErr_Clear();
    }
    const DLPackObject *holder = tensor_of(self);
    if (holder == NULL) {
        return -1;
    }
    *device = holder->tensor.device;
    return 0;
}

static DLPackObject *import_without_order(DLPackObject *self)
{
    DLDevice device = {kDLCPU, 0};
    if (producer_device(self->obj, &device) < 0) {
        return is_refusal() ? serve_by_others(self, self->copy) : NULL;
    }
    /* Off the CPU: where the memory is looked at, not read, no work on it need be waited for. */
    bool looks = device.device_type != kDLCPU && self->copy == COPY_NEVER;
    return import_tensor(self, &(struct export_arguments){.stream = looks ? constants.no_ordering : NULL});
}

DLPackObject *delegate_import(DLPackObject *self)
{
    int *asked = begin_asking();
    if (asked == NULL) {
        return NULL;
    }
    DLPackObject *imported = import_without_order(self);
    --*asked;
    return imported;
}

int delegate_order(DLPackObject *self)
{
    DLPackObject *ordered = import_tensor(self, &(struct export_arguments){0});
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

/* What the producer gives on another device. NULL without an exception: it refuses, or is better not asked. What it
 * copies to CUDA is complete by the order of a stream that nobody knows; to the CPU, when it returns. */
static DLPackObject *moved_by_producer(DLPackObject *self, DLDevice here, const struct terms *terms)
{
    PyObject *const copies[] = {[COPY_NEVER] = Py_False, [COPY_IF_NEEDED] = NULL, [COPY_ALWAYS] = Py_True};
    bool copied_here = here.device_type == kDLCPU || is_of_cuda(here);
    if (terms->target.device_type == kDLCUDA && copied_here) {
        return NULL;
    }
    PyObject *device = Py_BuildValue("(ii)", terms->target.device_type, terms->target.device_id);
    if (device == NULL) {
        return NULL;
    }
    struct export_arguments arguments = {
        .max_version = constants.newest_version,
        .dl_device = device,
        .copy = copies[terms->copy],
    };
    PyObject *capsule = call_producer(self->obj, &arguments);
    Py_DECREF(device);
    if (capsule != NULL) {
        return import_capsule(self, capsule, NULL, self->copy);
    }
    if (is_refusal()) {
        PyErr_Clear();
    }
    return NULL;
}

DLPackObject *delegate_move(DLPackObject *self, DLDevice here, const struct terms *terms)
{
    DLPackObject *tensor = moved_by_producer(self, here, terms);
    if (tensor == NULL && !PyErr_Occurred()) {
        tensor = import_tensor(self, &(struct export_arguments){0});
    }
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

/* The tensor of a producer that refused what the consumer asks; what copy=None has to copy is copied once, and kept. */
static DLPackObject *tensor_after_refusal(DLPackObject *self, const struct export_arguments *arguments)
{
    struct export_arguments without_stream = *arguments;
    without_stream.stream = NULL;
    PyErr_Clear();
    if (self->copy == COPY_IF_NEEDED) {
        DLPackObject *kept = tensor_of(self);
        if (kept == NULL || holds_memory(kept)) {
            return (DLPackObject *)Py_XNewRef((PyObject *)kept);
        }
    }
    /* With dl_device the stream belongs to the target; don't pass it. */
    return import_tensor(self, arguments->dl_device == NULL ? arguments : &without_stream);
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

/* A capsule that a producer gave. */
struct producer_answer {
    PyObject *capsule;      /* a new reference; NULL: error */
    const char *name;       /* which of the two it has; NULL: neither */
    const DLTensor *tensor; /* NULL: of neither name, or of another major version, of which no more is known */
};

static struct producer_answer ask_producer(PyObject *obj, const struct export_arguments *arguments)
{
    struct producer_answer answer = {.capsule = call_producer(obj, arguments)};
    if (answer.capsule == NULL) {
        return answer;
    }
    if (PyCapsule_IsValid(answer.capsule, capsule_versioned)) {
        const DLManagedTensorVersioned *managed = PyCapsule_GetPointer(answer.capsule, capsule_versioned);
        answer.name = capsule_versioned;
        answer.tensor = managed->version.major == DLPACK_MAJOR_VERSION ? &managed->dl_tensor : NULL;
    }
    else if (PyCapsule_IsValid(answer.capsule, capsule_legacy)) {
        answer.name = capsule_legacy;
        answer.tensor = &((const DLManagedTensor *)PyCapsule_GetPointer(answer.capsule, capsule_legacy))->dl_tensor;
    }
    return answer;
}

/* The producer's capsule for a consumer's arguments. Where they name no stream, and the capsule shows that the memory
 * is CUDA's, the producer is asked again with the legacy default stream. */
static struct producer_answer ask_for_consumer(DLPackObject *self, const struct export_arguments *arguments)
{
    struct producer_answer answer = ask_producer(self->obj, arguments);
    if (answer.tensor == NULL || arguments->stream != NULL || arguments->dl_device != NULL ||
        !has_default_stream(answer.tensor->device)) {
        return answer;
    }
    drop_capsule(answer.capsule);
    struct export_arguments named = *arguments;
    named.stream = constants.legacy_stream;
    return ask_producer(self->obj, &named);
}

PyObject *delegate_export(DLPackObject *self, const struct export_arguments *arguments)
{
    bool versioned;
    if (!plain_max_version(arguments->max_version, &versioned)) {
        return export_in_python(self, arguments);
    }
    struct producer_answer answer = ask_for_consumer(self, arguments);
    /* Some consumers (onnxruntime, tensorflow) overlook an offset. */
    if (answer.name == (versioned ? capsule_versioned : capsule_legacy) &&
        (answer.tensor == NULL || answer.tensor->byte_offset == 0)) {
        return answer.capsule;
    }
    DLPackObject *tensor = NULL;
    if (answer.capsule != NULL) {
        tensor = import_capsule(self, answer.capsule, arguments->stream, self->copy);
    }
    else if (is_refusal()) {
        tensor = tensor_after_refusal(self, arguments);
    }
    if (tensor == NULL) {
        return NULL;
    }
    PyObject *capsule = export_imported(self, tensor, arguments);
    Py_DECREF((PyObject *)tensor);
    return capsule;
}
