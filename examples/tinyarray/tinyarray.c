/* tinyarray.c: arrays of float32, of any shape, that share their memory with other libraries by DLPack.
 *
 * A whole library in one file: array(buffer) copies numbers, from_dlpack(object) shares those of other libraries, and an
 * Array exports its memory by __dlpack__ and as a buffer. test_dlpack.py tests it by pytest-dlpack. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlpack/dlpack.h>
#include <math.h>
#include <stdbool.h>

enum { MAX_NDIM = 32, ITEM = sizeof(float) };

typedef struct {
    PyObject_HEAD
    char *data; /* of the first item; items need not be aligned */
    int ndim;
    int64_t shape[MAX_NDIM], strides[MAX_NDIM]; /* strides in bytes, as buffers have them */
    bool readonly;
    void *memory;                        /* an array's own, by malloc */
    DLManagedTensorVersioned *versioned; /* or another library's */
    DLManagedTensor *legacy;
} Array;

static PyTypeObject ArrayType;

static Array *new_array(int ndim)
{
    if (ndim < 0 || ndim > MAX_NDIM) {
        return (Array *)PyErr_Format(PyExc_BufferError, "ndim %d: expected 0 to %d", ndim, MAX_NDIM);
    }
    Array *self = (Array *)ArrayType.tp_alloc(&ArrayType, 0); /* zeroed */
    if (self != NULL) {
        self->ndim = ndim;
    }
    return self;
}

static void array_dealloc(Array *self)
{
    if (self->versioned != NULL && self->versioned->deleter != NULL) {
        self->versioned->deleter(self->versioned);
    }
    if (self->legacy != NULL && self->legacy->deleter != NULL) {
        self->legacy->deleter(self->legacy);
    }
    free(self->memory);
    Py_TYPE(self)->tp_free(self);
}

static int64_t size_of(const Array *self)
{
    int64_t size = 1;
    for (int i = 0; i < self->ndim; i++) {
        size *= self->shape[i];
    }
    return size;
}

static void set_row_major(Array *self)
{
    int64_t stride = ITEM;
    for (int i = self->ndim - 1; i >= 0; i--) {
        self->strides[i] = stride;
        stride *= self->shape[i];
    }
}

/* array(buffer): a copy */
static PyObject *array(PyObject *Py_UNUSED(module), PyObject *source)
{
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_FULL_RO) < 0) {
        return NULL;
    }
    Array *self = NULL;
    if (strcmp(view.format, "f") != 0) {
        PyErr_Format(PyExc_NotImplementedError, "format %s: expected f, float32", view.format);
    }
    else if ((self = new_array(view.ndim)) != NULL) {
        for (int i = 0; i < view.ndim; i++) {
            self->shape[i] = view.shape[i];
        }
        set_row_major(self);
        self->memory = self->data = malloc(view.len + 1);
        if (self->memory == NULL) {
            PyErr_NoMemory();
            Py_CLEAR(self);
        }
        else if (PyBuffer_ToContiguous(self->data, &view, view.len, 'C') < 0) {
            Py_CLEAR(self);
        }
    }
    PyBuffer_Release(&view);
    return (PyObject *)self;
}

static int get_buffer(Array *self, Py_buffer *view, int flags)
{
    PyObject *exporter = (PyObject *)self;
    if (PyBuffer_FillInfo(view, exporter, self->data, size_of(self) * ITEM, self->readonly, flags) < 0) {
        return -1;
    }
    view->itemsize = ITEM;
    view->format = flags & PyBUF_FORMAT ? "f" : NULL;
    view->ndim = self->ndim;
    view->shape = (Py_ssize_t *)self->shape;
    view->strides = (Py_ssize_t *)self->strides;
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !PyBuffer_IsContiguous(view, 'C')) {
        PyErr_SetString(PyExc_BufferError, "the items don't follow each other: ask for strides");
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

/* The producer */

typedef struct {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor legacy;
    } managed; /* first, since its address is the deleter's argument */
    Array *owner;
    int64_t strides[MAX_NDIM];
} Export;

static void delete_export(Export *export)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(export->owner);
        PyGILState_Release(state);
        free(export);
    }
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
    delete_export((Export *)managed);
}

static void delete_legacy(DLManagedTensor *managed)
{
    delete_export((Export *)managed);
}

static void destroy_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned") || PyCapsule_IsValid(capsule, "dltensor")) {
        delete_export(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    }
}

static PyObject *new_capsule(Array *owner, bool is_versioned, uint64_t flags)
{
    Export *export = calloc(1, sizeof *export);
    if (export == NULL) {
        return PyErr_NoMemory();
    }
    DLTensor tensor = {size_of(owner) == 0 ? NULL : owner->data,
                       {kDLCPU, 0},
                       owner->ndim,
                       {kDLFloat, 32, 1},
                       owner->shape,
                       export->strides};
    for (int i = 0; i < owner->ndim; i++) {
        export->strides[i] = owner->strides[i] / ITEM;
    }
    if (is_versioned) {
        DLPackVersion version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
        export->managed.versioned = (DLManagedTensorVersioned){version, export, delete_versioned, flags, tensor};
    }
    else {
        export->managed.legacy = (DLManagedTensor){tensor, export, delete_legacy};
    }
    PyObject *capsule = PyCapsule_New(export, is_versioned ? "dltensor_versioned" : "dltensor", destroy_capsule);
    if (capsule == NULL) {
        free(export);
        return NULL;
    }
    export->owner = (Array *)Py_NewRef((PyObject *)owner);
    return capsule;
}

static PyObject *dlpack(Array *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0, type = kDLCPU, id = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", names, &stream, &max_version, &device, &copy) ||
        (max_version != Py_None && !PyArg_ParseTuple(max_version, "ii;max_version", &major, &minor)) ||
        (device != Py_None && !PyArg_ParseTuple(device, "ii;dl_device", &type, &id))) {
        return NULL;
    }
    if (stream != Py_None) {
        return PyErr_Format(PyExc_ValueError, "stream %R: expected None, for the CPU has no streams", stream);
    }
    if (type != kDLCPU || id != 0) {
        return PyErr_Format(PyExc_BufferError, "dl_device (%d, %d): expected (1, 0), the CPU", type, id);
    }
    bool is_versioned = major >= 1;
    if (copy == Py_True) {
        PyObject *own = array(NULL, (PyObject *)self);
        PyObject *capsule = own == NULL ? NULL : new_capsule((Array *)own, is_versioned, DLPACK_FLAG_BITMASK_IS_COPIED);
        Py_XDECREF(own);
        return capsule;
    }
    if (self->readonly && !is_versioned) {
        PyErr_SetString(PyExc_BufferError, "read-only memory: pass max_version (1, 0), or copy=True");
        return NULL;
    }
    return new_capsule(self, is_versioned, self->readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
}

static PyObject *dlpack_device(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("(ii)", kDLCPU, 0);
}

/* The consumer */

/* Reads a tensor's shape and strides into an Array. Returns what is wrong with them, or NULL. */
static const char *read_shape(Array *self, const DLTensor *tensor)
{
    if (tensor->ndim > 0 && tensor->shape == NULL) {
        return "shape is NULL";
    }
    double items = 1, reach = (double)tensor->byte_offset; /* as double, since int64_t could overflow */
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0) {
            return "a length is negative";
        }
        self->shape[i] = tensor->shape[i];
        items *= (double)tensor->shape[i];
        reach += tensor->strides == NULL ? 0 : fabs((double)tensor->strides[i]) * ITEM * (double)tensor->shape[i];
    }
    if (items > 1e15 || reach > 1e16) {
        return "shape, strides or byte_offset lead beyond all memory";
    }
    if (items > 0 && tensor->data == NULL) {
        return "data is NULL";
    }
    set_row_major(self);
    for (int i = 0; i < tensor->ndim && tensor->strides != NULL; i++) {
        self->strides[i] = tensor->strides[i] * ITEM;
    }
    return NULL;
}

static Array *array_of(const DLTensor *tensor)
{
    DLDevice device = tensor->device;
    DLDataType dtype = tensor->dtype;
    if (device.device_type != kDLCPU || device.device_id != 0) {
        return (Array *)PyErr_Format(PyExc_BufferError, "device (%d, %d): expected (1, 0), the CPU", device.device_type,
                                     device.device_id);
    }
    if (dtype.code != kDLFloat || dtype.bits != 32 || dtype.lanes != 1) {
        return (Array *)PyErr_Format(PyExc_BufferError, "dtype (%d, %d, %d): expected (2, 32, 1), float32", dtype.code,
                                     dtype.bits, dtype.lanes);
    }
    Array *self = new_array(tensor->ndim);
    const char *wrong = self == NULL ? NULL : read_shape(self, tensor);
    if (wrong != NULL) {
        PyErr_Format(PyExc_BufferError, "malformed tensor: %s", wrong);
        Py_CLEAR(self);
    }
    if (self != NULL) {
        self->data = tensor->data == NULL ? NULL : (char *)tensor->data + tensor->byte_offset;
    }
    return self;
}

static Array *take_versioned(PyObject *capsule)
{
    DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major != DLPACK_MAJOR_VERSION) { /* only its deleter may be read */
        return (Array *)PyErr_Format(PyExc_BufferError, "DLPack %d: expected 1", managed->version.major);
    }
    Array *self = array_of(&managed->dl_tensor);
    if (self != NULL && PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0) {
        Py_CLEAR(self);
    }
    if (self != NULL) {
        self->versioned = managed;
        self->readonly = managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    return self;
}

static Array *take_legacy(PyObject *capsule)
{
    DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
    Array *self = array_of(&managed->dl_tensor);
    if (self != NULL && PyCapsule_SetName(capsule, "used_dltensor") < 0) {
        Py_CLEAR(self);
    }
    if (self != NULL) {
        self->legacy = managed;
    }
    return self;
}

/* from_dlpack(object): shares. A capsule that is refused keeps its tensor, and deletes it. */
static PyObject *from_dlpack(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *none = method == NULL ? NULL : PyTuple_New(0);
    PyObject *keywords = none == NULL ? NULL : Py_BuildValue("{s(ii)}", "max_version", 1, DLPACK_MINOR_VERSION);
    PyObject *capsule = keywords == NULL ? NULL : PyObject_Call(method, none, keywords);
    if (capsule == NULL && keywords != NULL && PyErr_ExceptionMatches(PyExc_TypeError)) { /* older than max_version */
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(keywords);
    if (capsule == NULL) {
        return NULL;
    }
    Array *self = NULL;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        self = take_versioned(capsule);
    }
    else if (PyCapsule_IsValid(capsule, "dltensor")) {
        self = take_legacy(capsule);
    }
    else {
        PyErr_Format(PyExc_TypeError, "__dlpack__ returned %R: expected an unused capsule of DLPack", capsule);
    }
    Py_DECREF(capsule);
    return (PyObject *)self;
}

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, NULL},
    {NULL},
};

static PyBufferProcs array_as_buffer = {.bf_getbuffer = (getbufferproc)get_buffer};

static PyTypeObject ArrayType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tinyarray.Array",
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)array_dealloc,
    .tp_methods = array_methods,
    .tp_as_buffer = &array_as_buffer,
};

static PyMethodDef functions[] = {
    {"array", array, METH_O, "array(buffer): a copy of float32 numbers"},
    {"from_dlpack", from_dlpack, METH_O, "from_dlpack(object): an array that shares the object's memory"},
    {NULL},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "tinyarray", .m_methods = functions};

PyMODINIT_FUNC PyInit_tinyarray(void)
{
    PyObject *self = PyType_Ready(&ArrayType) < 0 ? NULL : PyModule_Create(&module);
    if (self != NULL && PyModule_AddObjectRef(self, "Array", (PyObject *)&ArrayType) < 0) {
        Py_CLEAR(self);
    }
    return self;
}
