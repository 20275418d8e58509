/* reference.c: a producer and a consumer that keep the rules of DLPack, as a Python module. With $FAULT, the id of a
 * rule, it breaks that rule. With $DEVICE, a device type, what it makes says that it is on that device. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <unistd.h>

#include <dlpack/dlpack.h>

enum { DIMENSIONS = 64, KNOWN_FLAGS = 7 };

static const char *seeded = "";
static pid_t importer;
static unsigned long importing_thread;
static int taken_count;

static int fault(const char *rule)
{
    return strcmp(seeded, rule) == 0;
}

typedef struct {
    PyObject_HEAD
    DLTensor tensor; /* of its own or of the structure that it took */
    int64_t shape[DIMENSIONS], strides[DIMENSIONS];
    uint64_t flags;
    const char *unexportable; /* why, or NULL */
    Py_buffer view;           /* what it was made of */
    void *room;               /* what the allocator gave */
    void *cached;             /* a copy, for a fault */
    DLManagedTensorVersioned *versioned;
    DLManagedTensor *legacy;
    PyObject *weak_references;
} Array;

static PyTypeObject *ArrayType;
static PyObject *api_capsule;

static int64_t size_of(const DLTensor *tensor)
{
    int64_t size = 1;
    for (int i = 0; i < tensor->ndim; i++) {
        size *= tensor->shape[i];
    }
    return size;
}

static int64_t item_size(const DLTensor *tensor)
{
    return (tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
}

static void fill_compact(int64_t *strides, const int64_t *shape, int ndim)
{
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= shape[i];
    }
}

static Array *new_array(void)
{
    Array *self = (Array *)ArrayType->tp_alloc(ArrayType, 0);
    if (self) {
        self->tensor.device = (DLDevice){kDLCPU, 0};
        self->tensor.shape = self->shape;
        self->tensor.strides = self->strides;
    }
    return self;
}

static void array_dealloc(Array *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak_references) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    PyBuffer_Release(&self->view);
    free(self->room);
    free(self->cached);
    int forgotten = fault("consumer-many") && taken_count > 10;
    int times = fault("consumer-deleter") ? 2 : fault("producer-exchange-api-import") || forgotten ? 0 : 1;
    taken_count -= self->versioned || self->legacy;
    for (int i = 0; i < times; i++) {
        if (self->versioned && (self->versioned->deleter || fault("consumer-null-deleter")) &&
            (self->versioned->manager_ctx || !fault("consumer-null-manager-ctx"))) {
            self->versioned->deleter(self->versioned);
        }
        if (self->legacy && (self->legacy->deleter || fault("consumer-null-deleter"))) {
            self->legacy->deleter(self->legacy);
        }
    }
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Python's subclasses are GC-tracked: an object may become one of a subclass only if it is, as well. */
static int array_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

/* The producer: make */

static int data_type(const char *format, Py_ssize_t size, DLDataType *out)
{
    format += *format == '@' || *format == '=' || *format == '<';
    int complex = *format == 'Z';
    format += complex;
    if (format[0] == 0 || format[1] != 0) {
        return -1;
    }
    int code = complex                     ? kDLComplex
               : *format == '?'            ? kDLBool
               : strchr("bhilqn", *format) ? kDLInt
               : strchr("BHILQN", *format) ? kDLUInt
               : strchr("efd", *format)    ? kDLFloat
                                           : -1;
    *out = (DLDataType){(uint8_t)code, (uint8_t)(8 * size), 1};
    return code;
}

static PyObject *make(PyObject *module, PyObject *source)
{
    if (fault("producer-make")) {
        return PyLong_FromLong(42);
    }
    Array *self = new_array();
    if (!self || PyObject_GetBuffer(source, &self->view, PyBUF_RECORDS_RO) < 0) {
        Py_XDECREF(self);
        return NULL;
    }
    Py_buffer *view = &self->view;
    DLTensor *tensor = &self->tensor;
    const char *device = getenv("DEVICE");
    if (device) {
        tensor->device.device_type = atoi(device);
    }
    tensor->data = view->buf;
    tensor->ndim = view->ndim;
    self->flags = view->readonly && !fault("producer-read-only") ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    if (*view->format == '>') {
        self->unexportable = "the byte order is not the native one";
        view->format++;
    }
    if (data_type(view->format, view->itemsize, &tensor->dtype) < 0 ||
        (fault("producer-every-data-type") && tensor->dtype.code == kDLBool)) {
        PyErr_Format(PyExc_NotImplementedError, "format %s", view->format);
        Py_DECREF(self);
        return NULL;
    }
    if (fault("producer-data-types") && tensor->dtype.code == kDLComplex) {
        tensor->dtype.code = kDLFloat;
    }
    for (int i = 0; i < view->ndim; i++) {
        self->shape[i] = view->shape[i];
        self->strides[i] = view->strides[i] / view->itemsize;
        if (view->strides[i] % view->itemsize != 0) {
            self->unexportable = "the strides are no multiple of the item";
        }
        if (fault("producer-strided")) {
            self->strides[i] = view->strides[i];
        }
    }
    if (size_of(tensor) == 0) {
        tensor->data = fault("producer-size-0-null") ? view->buf : NULL;
        tensor->ndim = fault("producer-size-0") ? 1 : tensor->ndim;
    }
    return (PyObject *)self;
}

/* The producer: __dlpack__ */

typedef struct {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor legacy;
    } managed; /* first: its address is the block's */
    Array *owner;
    void *copy;
    int64_t shape[DIMENSIONS], strides[DIMENSIONS];
} Block;

static void delete(Block *block)
{
    if (!Py_IsInitialized() && !fault("producer-deleter-after-exit")) {
        return;
    }
    int takes_gil = !fault("producer-deleter-without-gil");
    PyGILState_STATE state = takes_gil ? PyGILState_Ensure() : 0;
    if (fault("producer-repeated")) {
        block->owner->shape[0] = 0;
    }
    if (!fault("producer-release-of-copy")) {
        free(block->copy);
    }
    if (!fault("producer-release") && !fault("producer-lifetime")) {
        Py_XDECREF(block->owner);
    }
    if (!fault("producer-release-of-structure")) {
        free(block);
    }
    if (takes_gil) {
        PyGILState_Release(state);
    }
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
    delete((Block *)managed);
}

static void delete_legacy(DLManagedTensor *managed)
{
    delete((Block *)managed);
}

static void destroy(PyObject *capsule)
{
    if (fault("producer-passing-error")) {
        PyErr_Clear();
    }
    const char *name = PyCapsule_GetName(capsule);
    if (strncmp(name, "used", 4) == 0 && !fault("producer-used-capsule")) {
        return;
    }
    void *managed = PyCapsule_GetPointer(capsule, name);
    if (strstr(name, "versioned")) {
        ((DLManagedTensorVersioned *)managed)->deleter(managed);
    }
    else {
        ((DLManagedTensor *)managed)->deleter(managed);
    }
}

/* The items in row-major order. */
static void *copy_of(const DLTensor *tensor)
{
    int64_t item = item_size(tensor), size = size_of(tensor), index[DIMENSIONS] = {0};
    char *copy = malloc(size * item + 1);
    for (int64_t at = 0; copy && at < size; at++) {
        const char *from = (char *)tensor->data + tensor->byte_offset;
        for (int i = 0; i < tensor->ndim; i++) {
            from += index[i] * tensor->strides[i] * item;
        }
        if (fault("producer-copy-layouts")) {
            from = (char *)tensor->data + at * item;
        }
        memcpy(copy + at * item, from, item);
        for (int i = tensor->ndim - 1; i >= 0 && ++index[i] == tensor->shape[i]; i--) {
            index[i] = 0;
        }
    }
    return copy;
}

static Block *new_block(Array *self, int versioned, int copies)
{
    Block *block = calloc(1, sizeof *block);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    DLTensor *tensor = versioned ? &block->managed.versioned.dl_tensor : &block->managed.legacy.dl_tensor;
    *tensor = self->tensor;
    tensor->shape = memcpy(block->shape, self->shape, sizeof self->shape);
    tensor->strides = memcpy(block->strides, self->strides, sizeof self->strides);
    block->owner = self;
    if (!fault("producer-lifetime")) {
        Py_INCREF(self);
    }
    if (fault("producer-object-freed")) {
        Py_INCREF(self);
    }
    uint64_t flags = self->flags;
    if (copies) {
        if (fault("producer-copy-true-each")) {
            tensor->data = self->cached = self->cached ? self->cached : copy_of(&self->tensor);
        }
        else if (!fault("producer-copy-true") && (versioned || !fault("producer-copy-true-legacy"))) {
            tensor->data = block->copy = copy_of(&self->tensor);
        }
        fill_compact(tensor->strides, tensor->shape, tensor->ndim);
        tensor->byte_offset = 0;
        flags = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) |
                (fault("producer-copied-flag") ? 0 : DLPACK_FLAG_BITMASK_IS_COPIED) |
                (fault("producer-copy-writable") ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
    }
    else if (fault("producer-shared-not-flagged-copied")) {
        flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    }
    if (fault("producer-device-of-capsule")) {
        tensor->device.device_id = 3;
    }
    if (fault("producer-strides-not-null") || (!versioned && fault("producer-legacy-as-versioned"))) {
        tensor->strides = NULL;
    }
    if (versioned) {
        DLManagedTensorVersioned *managed = &block->managed.versioned;
        managed->version = (DLPackVersion){fault("producer-version") ? 2 : 1, 3};
        managed->manager_ctx = block;
        managed->deleter = delete_versioned;
        managed->flags = flags | (fault("producer-flags") ? 1 << 20 : 0) | (fault("producer-padded-flag") ? 4 : 0);
    }
    else {
        block->managed.legacy.manager_ctx = block;
        block->managed.legacy.deleter = delete_legacy;
    }
    return block;
}

static int refuse(PyObject *kind, const char *text)
{
    PyErr_SetString(kind, text);
    return -1;
}

static int check_exportable(Array *self, int versioned)
{
    if (self->unexportable) {
        return refuse(fault("producer-cannot-be-exported") ? PyExc_ValueError : PyExc_BufferError, self->unexportable);
    }
    if (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY && !versioned && !fault("producer-read-only-legacy")) {
        return refuse(PyExc_BufferError, "read-only memory in a structure without flags");
    }
    return 0;
}

static int check_stream(Array *self, PyObject *stream, PyObject *device)
{
    if (fault("producer-stream-on-cpu") || (fault("producer-stream-with-dl-device-cpu") && device != Py_None) ||
        (fault("producer-stream-minus-1-on-cpu") && PyLong_AsLong(stream) == -1)) {
        return 0;
    }
    int type = device != Py_None ? kDLCPU : self->tensor.device.device_type;
    if (type != kDLCUDA && type != kDLROCM) {
        return refuse(PyExc_ValueError, "a stream on a device without streams");
    }
    long number = PyLong_AsLong(stream);
    if (PyErr_Occurred()) {
        return -1;
    }
    if (number < -1 && !fault("producer-stream-below-minus-1")) {
        return refuse(PyExc_ValueError, "a stream below -1");
    }
    if (type == kDLCUDA && number == 0 && !fault("producer-stream-0-on-cuda")) {
        return refuse(PyExc_ValueError, "stream 0");
    }
    if (type == kDLROCM && (number == 1 || number == 2) && !fault("producer-streams-1-and-2-on-rocm")) {
        return refuse(PyExc_ValueError, "stream 1 or 2");
    }
    return 0;
}

static int check_device(Array *self, PyObject *device)
{
    if (!PyTuple_Check(device) || PyTuple_Size(device) != 2) {
        return fault("producer-malformed-dl-device") ? 0 : refuse(PyExc_TypeError, "dl_device: expected a tuple of 2");
    }
    long type = PyLong_AsLong(PyTuple_GetItem(device, 0));
    if (PyErr_Occurred()) {
        return -1;
    }
    if (type != (long)self->tensor.device.device_type && !fault("producer-other-dl-device")) {
        return refuse(PyExc_BufferError, "dl_device: another device");
    }
    return fault("producer-own-dl-device") ? refuse(PyExc_BufferError, "dl_device") : 0;
}

static PyObject *array_dlpack(Array *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO", names, &stream, &max_version, &device, &copy)) {
        return NULL;
    }
    if (fault("producer-keywords") && keywords && PyDict_GetItemString(keywords, "copy")) {
        return PyErr_Format(PyExc_TypeError, "unexpected keyword argument 'copy'");
    }
    if (fault("producer-stream-none") && keywords && PyDict_GetItemString(keywords, "stream")) {
        return PyErr_Format(PyExc_ValueError, "stream");
    }
    if (fault("producer-fork") && getpid() != importer) {
        return PyErr_Format(PyExc_RuntimeError, "another process");
    }
    if (fault("producer-threads") && PyThread_get_thread_ident() != importing_thread) {
        return PyErr_Format(PyExc_RuntimeError, "another thread");
    }
    if (stream != Py_None && check_stream(self, stream, device) < 0) {
        return NULL;
    }
    if (device != Py_None && check_device(self, device) < 0) {
        if (copy == Py_False && fault("producer-copy-false-other-device")) {
            PyErr_SetString(PyExc_ValueError, "copy=False: another device");
        }
        return NULL;
    }
    int versioned = max_version != Py_None;
    if (versioned && !(PyTuple_Check(max_version) && PyTuple_Size(max_version) == 2)) {
        if (!fault("producer-malformed-max-version")) {
            return PyErr_Format(PyExc_TypeError, "max_version: expected a tuple of 2");
        }
    }
    else if (versioned) {
        long major = PyLong_AsLong(PyTuple_GetItem(max_version, 0));
        versioned = (major >= 1 || fault("producer-older-max-version")) && !fault("producer-versioned-name");
        if (PyErr_Occurred() || (major > 1 && fault("producer-newer-max-version"))) {
            return PyErr_Format(PyExc_BufferError, "max_version");
        }
    }
    versioned |= fault("producer-legacy-name");
    if (check_exportable(self, versioned) < 0) {
        return NULL;
    }
    if (copy == Py_True && fault("producer-copies")) {
        PyErr_SetString(PyExc_BufferError, "copy=True");
        return NULL;
    }
    int copies = copy == Py_True || (copy == Py_None && fault("producer-copy-none")) ||
                 (copy == Py_False && fault("producer-copy-false"));
    Block *block = new_block(self, versioned, copies);
    if (!block) {
        return NULL;
    }
    if (device != Py_None && fault("producer-dl-device-cpu")) {
        block->managed.versioned.dl_tensor.device.device_type = kDLCUDAHost;
    }
    const char *name = versioned ? "dltensor_versioned" : "dltensor";
    PyObject *capsule = PyCapsule_New(block, fault("producer-static-name") ? strdup(name) : name,
                                      fault("producer-unused-capsule") ? NULL : destroy);
    if (!capsule) {
        delete(block);
    }
    return capsule;
}

static PyObject *array_dlpack_device(Array *self, PyObject *ignored)
{
    const char *format = fault("producer-device") ? "[ii]" : "(ii)";
    return Py_BuildValue(format, self->tensor.device.device_type, self->tensor.device.device_id);
}

/* The consumer */

static int bits_fit(const DLDataType *dtype)
{
    int bits = dtype->bits;
    switch (dtype->code) {
    case kDLBool:
        return bits == 8;
    case kDLInt:
    case kDLUInt:
        return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case kDLFloat:
        return bits == 16 || bits == 32 || bits == 64 || (bits == 24 && fault("consumer-odd-bits"));
    case kDLComplex:
        return bits == 64 || bits == 128;
    case kDLFloat4_e2m1fn:
        return bits == 4 || fault("consumer-unexpected-bits");
    default:
        return fault("consumer-unknown-data-type");
    }
}

static int check_lengths(const DLTensor *tensor)
{
    __int128 bytes = item_size(tensor), low = 0, high = 0;
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0) {
            return refuse(PyExc_ValueError, "a negative length");
        }
        bytes *= tensor->shape[i];
        if (bytes > INT64_MAX) {
            return refuse(PyExc_ValueError, "too many items");
        }
        __int128 reach = tensor->strides && tensor->shape[i] > 1
                             ? (__int128)(tensor->shape[i] - 1) * tensor->strides[i] * item_size(tensor)
                             : 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    if (bytes == 0) {
        return 0;
    }
    __int128 start = (__int128)(uintptr_t)tensor->data + tensor->byte_offset;
    if (start + low < 0 || start + high + bytes > (__int128)1 << 63) {
        return refuse(PyExc_ValueError, "beyond the address space");
    }
    return 0;
}

static int check_tensor(const DLTensor *tensor, uint64_t flags)
{
    int type = tensor->device.device_type;
    if (type != kDLCPU && !(fault("consumer-malformed-device") && type < 0) &&
        !(fault("consumer-other-device") && type > kDLTrn)) {
        return refuse(fault("consumer-unknown-device") ? PyExc_ValueError : PyExc_BufferError, "another device");
    }
    if ((tensor->ndim < 0 || tensor->ndim > DIMENSIONS) && !fault("consumer-malformed-ndim")) {
        return refuse(PyExc_ValueError, "ndim");
    }
    int needs_shape = tensor->ndim > 0 || fault("consumer-null-shape-of-0-dimensions");
    if (needs_shape && !tensor->shape && !fault("consumer-malformed-shape")) {
        return refuse(PyExc_ValueError, "shape is NULL");
    }
    if (!fault("consumer-malformed-dtype")) {
        int padded = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0;
        if (tensor->dtype.lanes == 0 || (padded && tensor->dtype.lanes != 1)) {
            return refuse(PyExc_ValueError, "lanes");
        }
    }
    if (!bits_fit(&tensor->dtype) ||
        (fault("consumer-every-data-type") && tensor->dtype.code == kDLUInt && tensor->dtype.bits == 64)) {
        return refuse(PyExc_BufferError, "data type");
    }
    if (!fault("consumer-malformed-extent") && check_lengths(tensor) < 0) {
        return -1;
    }
    if (!tensor->data && size_of(tensor) != 0 && !fault("consumer-malformed-data")) {
        return refuse(PyExc_ValueError, "data is NULL");
    }
    return 0;
}

static int check_version(const DLManagedTensorVersioned *managed)
{
    uint32_t major = managed->version.major;
    if ((major > 1 && !fault("consumer-newer-major")) || (major < 1 && !fault("consumer-older-major"))) {
        return refuse(PyExc_BufferError, "another major version");
    }
    if (fault("consumer-read-only") && managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
        return refuse(PyExc_BufferError, "read-only");
    }
    if (fault("consumer-copied") && managed->flags & DLPACK_FLAG_BITMASK_IS_COPIED) {
        return refuse(PyExc_BufferError, "copied");
    }
    return 0;
}

static PyObject *export_of(PyObject *obj)
{
    PyObject *method = PyObject_GetAttrString(obj, "__dlpack__");
    PyObject *device = method ? PyObject_CallMethod(obj, "__dlpack_device__", NULL) : NULL;
    if (!device) {
        Py_XDECREF(method);
        if (PyErr_ExceptionMatches(PyExc_BufferError) && fault("consumer-device-error")) {
            PyErr_SetString(PyExc_RuntimeError, "no device");
        }
        else if (PyErr_ExceptionMatches(PyExc_AttributeError) && fault("consumer-no-dlpack")) {
            PyErr_SetString(PyExc_TypeError, "no __dlpack__");
        }
        return NULL;
    }
    long type = PyTuple_Check(device) ? PyLong_AsLong(PyTuple_GetItem(device, 0)) : 0;
    Py_DECREF(device);
    PyObject *none = PyTuple_New(0);
    PyObject *keywords = Py_BuildValue(fault("consumer-max-version") ? "{s[ii]}" : "{s(ii)}", "max_version", 1, 3);
    if (fault("consumer-asks-for-versioned")) {
        PyDict_Clear(keywords);
    }
    else if (fault("consumer-known-keywords")) {
        PyDict_SetItemString(keywords, "version", Py_None);
    }
    else if (fault("consumer-stream-on-cpu") && type == kDLCPU) {
        PyDict_SetItemString(keywords, "stream", Py_True);
    }
    else if (fault("consumer-stream-on-cuda") && type == kDLCUDA) {
        PyDict_SetItemString(keywords, "stream", Py_False);
    }
    else if (fault("consumer-stream-on-rocm") && type == kDLROCM) {
        PyDict_SetItemString(keywords, "stream", Py_True);
    }
    else if (fault("consumer-dl-device")) {
        PyDict_SetItemString(keywords, "dl_device", Py_True);
    }
    PyObject *capsule = PyObject_Call(method, none, keywords);
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) && !fault("consumer-old-producer")) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_DECREF(none);
    Py_DECREF(keywords);
    Py_DECREF(method);
    if (!capsule && PyErr_ExceptionMatches(PyExc_BufferError) && fault("consumer-buffer-error")) {
        PyErr_SetString(PyExc_RuntimeError, "no capsule");
    }
    else if (!capsule && PyErr_ExceptionMatches(PyExc_MemoryError) && fault("consumer-other-errors")) {
        PyErr_SetString(PyExc_BufferError, "no capsule");
    }
    return capsule;
}

/* The array of a checked tensor. */
static Array *describe(const DLTensor *tensor, uint64_t flags, const DLPackVersion *version)
{
    Array *self = new_array();
    if (!self) {
        return NULL;
    }
    int ndim = fault("consumer-many-dimensions") && tensor->ndim > 8 ? 8 : tensor->ndim;
    self->tensor.data = (char *)tensor->data + (fault("consumer-byte-offset") ? 0 : tensor->byte_offset);
    self->tensor.dtype = tensor->dtype;
    self->tensor.device.device_type = fault("consumer-other-device") ? kDLCPU : tensor->device.device_type;
    self->tensor.ndim = ndim;
    self->flags = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED && !fault("consumer-padded")
                      ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
                      : 0;
    if (flags & DLPACK_FLAG_BITMASK_READ_ONLY && !fault("consumer-read-only-stays")) {
        self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    if (fault("consumer-data-types") && tensor->dtype.code == kDLUInt && tensor->dtype.bits == 32) {
        self->tensor.dtype.code = kDLFloat;
    }
    if (fault("consumer-data-type-stays") && tensor->dtype.code == kDLUInt) {
        self->tensor.dtype.code = kDLInt;
    }
    if (fault("consumer-unknown-data-type") && tensor->dtype.code > kDLFloat4_e2m1fn) {
        self->tensor.dtype.code = kDLFloat;
    }
    if (fault("consumer-odd-bits") && tensor->dtype.bits == 24) {
        self->tensor.dtype.bits = 32;
    }
    if (fault("consumer-lanes")) {
        self->tensor.dtype.lanes = 1;
    }
    for (int i = 0; i < ndim; i++) {
        self->shape[i] = tensor->shape[i];
    }
    if (tensor->strides && !fault("consumer-strides")) {
        memcpy(self->strides, tensor->strides, ndim > 0 ? ndim * sizeof *tensor->strides : 0);
    }
    else if (!fault("consumer-null-strides")) {
        fill_compact(self->strides, self->shape, ndim);
    }
    if (size_of(&self->tensor) == 0) {
        self->tensor.data = NULL;
        if (fault("consumer-size-0")) {
            self->tensor.ndim = 1;
            self->shape[0] = 0;
        }
    }
    int moved = (fault("consumer-newer-minor") && version->minor > 3) ||
                (fault("consumer-unknown-flag") && flags & ~(uint64_t)KNOWN_FLAGS) ||
                (fault("consumer-stride-of-length-1") && ndim == 2 && self->shape[0] == 1 && self->strides[0] < 0);
    self->tensor.data = (char *)self->tensor.data + (moved ? 4 : 0);
    if (fault("consumer-does-not-write") && self->tensor.data) {
        *(char *)self->tensor.data ^= 1;
    }
    return self;
}

static PyObject *take(PyObject *module, PyObject *obj)
{
    static const DLPackVersion none;
    if (fault("consumer-take")) {
        Py_RETURN_NONE;
    }
    PyObject *capsule = export_of(obj);
    if (!capsule) {
        return NULL;
    }
    Array *self = NULL;
    const char *name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : NULL;
    if (!name && fault("consumer-no-capsule")) {
        Py_DECREF(capsule);
        return (PyObject *)new_array();
    }
    int used = name && strncmp(name, "used_", 5) == 0;
    const char *kind = used && fault("consumer-used-capsule") ? name + 5 : name;
    int versioned = name && (strcmp(kind, "dltensor_versioned") == 0 ||
                             (strcmp(kind, "nltensor") == 0 && fault("consumer-other-name")));
    if (!versioned && !(name && strcmp(kind, "dltensor") == 0 && !fault("consumer-legacy"))) {
        PyErr_SetString(PyExc_ValueError, "expected a capsule that was not consumed");
        goto done;
    }
    DLManagedTensorVersioned *managed = versioned ? PyCapsule_GetPointer(capsule, name) : NULL;
    DLManagedTensor *legacy = versioned ? NULL : PyCapsule_GetPointer(capsule, name);
    if (versioned && check_version(managed) < 0) {
        goto done;
    }
    DLTensor *tensor = versioned ? &managed->dl_tensor : &legacy->dl_tensor;
    uint64_t flags = versioned ? managed->flags : 0;
    if (check_tensor(tensor, flags) < 0 || !(self = describe(tensor, flags, versioned ? &managed->version : &none))) {
        goto done;
    }
    self->versioned = managed;
    self->legacy = legacy;
    taken_count++;
    if (fault("consumer-shares")) {
        self->tensor.data = self->room = copy_of(&self->tensor);
        fill_compact(self->strides, self->shape, self->tensor.ndim);
    }
    if (fault("consumer-keeps")) {
        self->versioned = NULL;
        managed ? managed->deleter(managed) : legacy->deleter(legacy);
    }
    if (!fault("consumer-renames")) {
        PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    }
done:
    Py_DECREF(capsule);
    return (PyObject *)self;
}

/* The C exchange API */

static int api_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *context,
                        void (*set_error)(void *, const char *, const char *))
{
    if (!bits_fit(&prototype->dtype) && !fault("producer-exchange-api-allocator-error")) {
        set_error(context, "BufferError", "data type");
        return -1;
    }
    if (prototype->device.device_type != kDLCPU && !fault("producer-exchange-api-allocator-device")) {
        set_error(context, "BufferError", "device");
        return -1;
    }
    PyGILState_STATE state = PyGILState_Ensure();
    Array *self = new_array();
    self->tensor.ndim = prototype->ndim;
    self->tensor.dtype = prototype->dtype;
    for (int i = 0; i < prototype->ndim; i++) {
        self->shape[i] = prototype->shape[fault("producer-exchange-api-allocator") ? prototype->ndim - 1 - i : i];
    }
    fill_compact(self->strides, self->shape, prototype->ndim);
    self->room = aligned_alloc(256, (size_of(prototype) * item_size(prototype) + 511) / 256 * 256);
    self->tensor.data = (char *)self->room + (fault("producer-exchange-api-allocator-alignment") ? 64 : 0);
    *out = &new_block(self, 1, 0)->managed.versioned;
    if (!fault("producer-exchange-api-allocator-release")) {
        Py_DECREF(self);
    }
    PyGILState_Release(state);
    return 0;
}

static int api_from(void *obj, DLManagedTensorVersioned **out)
{
    Array *self = obj;
    if (fault("producer-exchange-api-subclass") && Py_TYPE(self) != ArrayType) {
        return refuse(PyExc_TypeError, "a subclass");
    }
    if (check_exportable(self, 1) < 0) {
        if (fault("producer-exchange-api-export-error")) {
            PyErr_SetString(PyExc_ValueError, self->unexportable);
        }
        return -1;
    }
    Block *block = new_block(self, 1, 0);
    if (!block) {
        return -1;
    }
    if (fault("producer-exchange-api-export")) {
        Py_CLEAR(block->owner);
    }
    if (fault("producer-exchange-api-export-layouts")) {
        fill_compact(block->strides, block->shape, self->tensor.ndim);
    }
    if (fault("producer-exchange-api-export-read-only")) {
        block->managed.versioned.flags = 0;
    }
    if (fault("producer-exchange-api-export-release")) {
        Py_INCREF(self);
    }
    *out = &block->managed.versioned;
    return 0;
}

static int api_to(DLManagedTensorVersioned *managed, void **out)
{
    int unread = managed->version.major > 1 && fault("producer-exchange-api-import-newer-major");
    if (!unread && (check_version(managed) < 0 || check_tensor(&managed->dl_tensor, managed->flags) < 0)) {
        if (fault("producer-exchange-api-import-error")) {
            PyErr_Clear();
        }
        return -1;
    }
    Array *self = unread ? new_array() : describe(&managed->dl_tensor, managed->flags, &managed->version);
    *out = self;
    if (!self) {
        return -1;
    }
    if (fault("producer-exchange-api-import-read-only")) {
        self->flags = 0;
    }
    self->versioned = managed;
    return 0;
}

static int api_borrow(void *obj, DLTensor *out)
{
    Array *self = obj;
    *out = self->tensor;
    out->byte_offset += fault("producer-exchange-api-borrow") ? 4 : 0;
    if (fault("producer-exchange-api-strides-not-null")) {
        out->strides = NULL;
    }
    if (fault("producer-exchange-api-borrow-release")) {
        Py_INCREF(self);
    }
    return 0;
}

static int api_stream(DLDeviceType type, int32_t id, void **out)
{
    if (type != kDLCPU) {
        return fault("producer-exchange-api-stream-error") ? -1 : refuse(PyExc_BufferError, "device");
    }
    *out = fault("producer-exchange-api-stream") ? (void *)1 : NULL;
    return 0;
}

static DLPackExchangeAPI api = {{{1, 3}, NULL}, api_allocate, api_from, api_to, api_borrow, api_stream};

/* For a fault: a table for each that asks. */
static PyObject *another_api(PyObject *self, PyObject *obj, PyObject *kind)
{
    return PyCapsule_New(memcpy(malloc(sizeof api), &api, sizeof api), "dlpack_exchange_api", NULL);
}

static PyTypeObject AnotherType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "reference.Another",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_descr_get = another_api,
};

/* For a fault: the object has the table, and its type does not. */
static PyObject *array_getattro(PyObject *self, PyObject *name)
{
    if (fault("producer-exchange-api-on-type") &&
        PyUnicode_CompareWithASCIIString(name, "__dlpack_c_exchange_api__") == 0) {
        return Py_NewRef(api_capsule);
    }
    return PyObject_GenericGetAttr(self, name);
}

/* The module */

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", (PyCFunction)array_dlpack_device, METH_NOARGS, NULL},
    {NULL},
};

static PyMemberDef array_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Array, weak_references), READONLY},
    {NULL},
};

static PyType_Slot array_slots[] = {
    {Py_tp_dealloc, array_dealloc}, {Py_tp_traverse, array_traverse}, {Py_tp_getattro, array_getattro},
    {Py_tp_methods, array_methods}, {Py_tp_members, array_members},   {0, NULL},
};

static PyType_Spec array_spec = {
    .name = "reference.Array",
    .basicsize = sizeof(Array),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = array_slots,
};

static PyMethodDef functions[] = {{"make", make, METH_O, NULL}, {"take", take, METH_O, NULL}, {NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "reference", NULL, -1, functions};

PyMODINIT_FUNC PyInit_reference(void)
{
    seeded = getenv("FAULT") ? getenv("FAULT") : "";
    importer = getpid();
    importing_thread = PyThread_get_thread_ident();
    if (fault("producer-exchange-api-version")) {
        api.header.version.major = 2;
    }
    if (fault("producer-exchange-api-functions")) {
        api.current_work_stream = NULL;
    }
    ArrayType = (PyTypeObject *)PyType_FromSpec(&array_spec);
    const char *name = fault("producer-exchange-api-capsule") ? "dlpack_api" : "dlpack_exchange_api";
    api_capsule = PyCapsule_New(&api, name, NULL);
    PyObject *found = api_capsule;
    if (fault("producer-exchange-api-static")) {
        found = PyType_Ready(&AnotherType) < 0 ? NULL : PyType_GenericAlloc(&AnotherType, 0);
    }
    if (!ArrayType || !found) {
        return NULL;
    }
    if (!fault("producer-exchange-api-on-type") &&
        PyObject_SetAttrString((PyObject *)ArrayType, "__dlpack_c_exchange_api__", found) < 0) {
        return NULL;
    }
    return PyModule_Create(&module);
}
