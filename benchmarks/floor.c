/* floor.c: the lower bound for an extension that hands memory on safely. `make bench` compares dlpack with it.
 *
 * hold(obj) locks the buffer of bytes, and refer(obj) refers to an object with __dlpack__. Both look at nothing, decide
 * nothing, and take every argument unread; their results are right for bytearrays of 4096 items alone. describe(obj)
 * holds a buffer of bytes, and looks its type up in Go's table. dlpack needs at least that look-up, because Go decides
 * the meaning of a type. describe makes its own memoryview of a memoryview: CPython crashes if one in a garbage cycle
 * is cleared before its export. copy(obj) copies a matrix of floats, its rows in reverse order, or every second column,
 * into memory such as dlpack's copies have. CPython calls all of them in its fastest way, without the limits of the
 * stable ABI.
 *
 * It is C because nothing has less overhead. */
#include "ask/request.c"
#include "ask/table.c"

struct floor {
    PyObject_HEAD
    PyObject *producer; /* or NULL, and a view */
    Py_buffer view;
    PyObject *memoryview; /* whose view it is; or NULL */
};

enum { MOST_DIMS = 4 };

/* The object that describe returns. */
struct described {
    struct floor floor;
    DLTensor tensor;
    int64_t itemsize; /* bytes */
    uint64_t flags;
    struct type_names names;
    int64_t dims[2 * MOST_DIMS]; /* shape and strides */
};

struct block {
    union {
        DLManagedTensor legacy;
        DLManagedTensorVersioned versioned;
    };
    int64_t dims[2 * MOST_DIMS];
};

static PyTypeObject floor_type, described_type;
static PyObject *dlpack_name;

/* torch, for one, calls it without the GIL. */
static void release(PyObject *owner, void *block)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(owner);
    PyGILState_Release(state);
    free(block);
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
    release(managed->manager_ctx, managed);
}

static void delete_legacy(DLManagedTensor *managed)
{
    release(managed->manager_ctx, managed);
}

static void destroy_versioned(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    }
}

static void destroy_legacy(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        delete_legacy(PyCapsule_GetPointer(capsule, "dltensor"));
    }
}

/* NULL: error. */
static struct block *make_block(struct floor *self, bool versioned)
{
    struct block *block = malloc(sizeof *block);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    DLTensor tensor;
    if (Py_IS_TYPE(self, &described_type)) {
        tensor = ((struct described *)self)->tensor;
        memcpy(block->dims, tensor.shape, 2 * (size_t)tensor.ndim * sizeof *block->dims);
    }
    else {
        tensor = (DLTensor){.data = self->view.buf, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLUInt, 8, 1}};
        block->dims[0] = self->view.len;
        block->dims[1] = 1;
    }
    tensor.shape = block->dims;
    tensor.strides = block->dims + tensor.ndim;
    Py_INCREF(self);
    if (versioned) {
        block->versioned = (DLManagedTensorVersioned){.version = {1, 3},
                                                      .manager_ctx = self,
                                                      .deleter = delete_versioned,
                                                      .dl_tensor = tensor};
    }
    else {
        block->legacy = (DLManagedTensor){tensor, self, delete_legacy};
    }
    return block;
}

static PyObject *floor_dlpack(struct floor *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (self->producer != NULL) {
        PyObject *passed[5] = {self->producer};
        Py_ssize_t given = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
        memcpy(passed + 1, args + nargs, (size_t)given * sizeof *args);
        return PyObject_VectorcallMethod(dlpack_name, passed, 1, kwnames);
    }
    struct block *block = make_block(self, kwnames != NULL);
    if (block == NULL) {
        return NULL;
    }
    return kwnames == NULL ? PyCapsule_New(block, "dltensor", destroy_legacy)
                           : PyCapsule_New(block, "dltensor_versioned", destroy_versioned);
}

static PyObject *floor_dlpack_device(PyObject *self, PyObject *ignored)
{
    (void)self, (void)ignored;
    return Py_BuildValue("(ii)", kDLCPU, 0);
}

static void floor_dealloc(struct floor *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->producer);
    PyBuffer_Release(&self->view);
    Py_CLEAR(self->memoryview);
    PyObject_GC_Del(self);
}

static int floor_traverse(struct floor *self, visitproc visit, void *arg)
{
    Py_VISIT(self->producer);
    Py_VISIT(self->view.obj);
    Py_VISIT(self->memoryview);
    return 0;
}

static PyMethodDef floor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))floor_dlpack, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__dlpack_device__", floor_dlpack_device, METH_NOARGS, NULL},
    {0},
};

static PyTypeObject floor_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "floor.Floor",
    .tp_basicsize = sizeof(struct floor),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_dealloc = (destructor)floor_dealloc,
    .tp_traverse = (traverseproc)floor_traverse,
    .tp_methods = floor_methods,
};

static PyTypeObject described_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "floor.Described",
    .tp_base = &floor_type,
    .tp_basicsize = sizeof(struct described),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)floor_dealloc,
    .tp_traverse = (traverseproc)floor_traverse,
};

/* NULL: error. */
static struct floor *new_floor(PyTypeObject *type, PyObject *obj)
{
    struct floor *self = PyObject_GC_New(struct floor, type);
    if (self == NULL) {
        return NULL;
    }
    self->producer = NULL;
    self->memoryview = PyMemoryView_Check(obj) ? PyMemoryView_FromObject(obj) : NULL; /* also NULL: no memory */
    if (PyErr_Occurred() ||
        PyObject_GetBuffer(self->memoryview == NULL ? obj : self->memoryview, &self->view, PyBUF_FULL_RO) < 0) {
        self->view.obj = NULL;
        Py_CLEAR(self);
    }
    else if (self->memoryview != NULL) {
        PyBuffer_Release(&self->view); /* what it points to stays */
    }
    return self;
}

static PyObject *hold(PyObject *Py_UNUSED(module), PyObject *obj)
{
    struct floor *self = new_floor(&floor_type, obj);
    if (self != NULL) {
        PyObject_GC_Track(self);
    }
    return (PyObject *)self;
}

static PyObject *describe(PyObject *Py_UNUSED(module), PyObject *obj)
{
    struct described *self = (struct described *)new_floor(&described_type, obj);
    if (self == NULL) {
        return NULL;
    }
    const Py_buffer *view = &self->floor.view;
    struct request request;
    struct answer answer;
    request_init(&request, PROTOCOL_BUFFER);
    request.data = (uint64_t)(uintptr_t)view->buf;
    request.itemsize = view->itemsize;
    request.ndim = view->ndim;
    request_dims(&request, view->shape, view->strides, view->itemsize);
    request_format(&request, view->format);
    if (!look_up(&request, &answer)) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_BufferError, "not in the table");
        return NULL;
    }
    self->tensor = (DLTensor){
        .data = (void *)(uintptr_t)(request.data + answer.offset),
        .device = answer.device,
        .ndim = answer.ndim,
        .dtype = answer.dtype,
        .shape = self->dims,
        .strides = self->dims + answer.ndim,
        .byte_offset = answer.byte_offset,
    };
    self->itemsize = answer.itemsize;
    self->flags = answer.flags;
    self->names = answer.names;
    memcpy(self->dims, answer.dims, 2 * (size_t)answer.ndim * sizeof *self->dims);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *refer(PyObject *Py_UNUSED(module), PyObject *obj)
{
    struct floor *self = PyObject_GC_New(struct floor, &floor_type);
    if (self == NULL) {
        return NULL;
    }
    self->producer = Py_NewRef(obj);
    self->view.obj = NULL;
    self->memoryview = NULL;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static void free_copied(PyObject *capsule)
{
    free_aligned(PyCapsule_GetPointer(capsule, NULL));
}

/* By a loop that the compiler knows all of. */
static void copy_matrix(char *to, const Py_buffer *view)
{
    Py_ssize_t rows = view->shape[0], columns = view->shape[1], row_stride = view->strides[0],
               stride = view->strides[1];
    size_t row = (size_t)columns * sizeof(float);
    if (stride == sizeof(float) && row_stride == (Py_ssize_t)row) {
        memmove(to, view->buf, (size_t)view->len);
        return;
    }
    for (Py_ssize_t k = 0; k < rows; k++) {
        Py_ssize_t i = row_stride < 0 ? rows - 1 - k : k; /* upwards in the source */
        const char *from = (const char *)view->buf + i * row_stride;
        float *items = (float *)(to + (size_t)i * row);
        if (stride == sizeof(float)) {
            memmove(items, from, row);
        }
        else {
            for (Py_ssize_t j = 0; j < columns; j++) {
                items[j] = ((const float *)from)[2 * j];
            }
        }
    }
}

static PyObject *copy(PyObject *Py_UNUSED(module), PyObject *obj)
{
    Py_buffer view;
    if (PyObject_GetBuffer(obj, &view, PyBUF_STRIDED_RO) < 0) {
        return NULL;
    }
    PyObject *copied = NULL;
    void *memory = allocate_aligned((size_t)view.len);
    if (memory == NULL) {
        PyErr_NoMemory();
    }
    else {
        Py_BEGIN_ALLOW_THREADS
        copy_matrix(memory, &view);
        Py_END_ALLOW_THREADS
        copied = PyCapsule_New(memory, NULL, free_copied);
    }
    PyBuffer_Release(&view);
    return copied;
}

/* The C exchange API. */

static int tensor_from_object(void *obj, DLManagedTensorVersioned **out)
{
    *out = (DLManagedTensorVersioned *)make_block(obj, true);
    return *out == NULL ? -1 : 0;
}

static int current_stream(DLDeviceType type, int32_t id, void **stream)
{
    (void)type, (void)id;
    *stream = NULL;
    return 0;
}

static const DLPackExchangeAPI exchange_api = {
    .header = {.version = {1, 3}},
    .managed_tensor_from_py_object_no_sync = tensor_from_object,
    .current_work_stream = current_stream,
};

static PyMethodDef functions[] = {{"hold", hold, METH_O, NULL},
                                  {"describe", describe, METH_O, NULL},
                                  {"refer", refer, METH_O, NULL},
                                  {"copy", copy, METH_O, NULL},
                                  {0}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "floor", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_floor(void)
{
    PyObject *made = PyModule_Create(&module),
             *capsule = PyCapsule_New((void *)&exchange_api, "dlpack_exchange_api", NULL);
    dlpack_name = PyUnicode_InternFromString("__dlpack__");
    if (made == NULL || capsule == NULL || dlpack_name == NULL || PyType_Ready(&floor_type) < 0 ||
        PyDict_SetItemString(floor_type.tp_dict, "__dlpack_c_exchange_api__", capsule) < 0 ||
        PyType_Ready(&described_type) < 0) {
        return NULL;
    }
    Py_DECREF(capsule);
    return made;
}
