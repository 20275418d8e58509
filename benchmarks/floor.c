/* floor.c: the least that an extension can do, and still hand memory on safely: what `make bench` puts beside dlpack.
 *
 * hold(obj) locks the buffer of bytes, and ask(obj) refers to an object with __dlpack__. Both look at nothing, decide
 * nothing, and take every argument unread; what they give is right for bytearrays of 4096 items alone. The C exchange
 * API gives one tensor, again and again. All is called by CPython's own fastest means, without the stable ABI's limits.
 *
 * It is C because that is the least. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlpack/dlpack.h>

struct floor {
    PyObject_HEAD
    PyObject *producer; /* or NULL, and a view */
    Py_buffer view;
};

struct block {
    DLManagedTensorVersioned managed;
    int64_t shape, stride;
};

static PyTypeObject floor_type;
static PyObject *dlpack_name;

static DLTensor tensor_of(struct floor *self, struct block *block)
{
    block->shape = self->view.len;
    block->stride = 1;
    return (DLTensor){
        .data = self->view.buf,
        .device = {kDLCPU, 0},
        .ndim = 1,
        .dtype = {kDLUInt, 8, 1},
        .shape = &block->shape,
        .strides = &block->stride,
    };
}

/* torch, for one, calls it without the GIL. */
static void release(PyObject *owner, void *block)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(owner);
    PyGILState_Release(state);
    PyMem_RawFree(block);
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

static PyObject *floor_dlpack(struct floor *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (self->producer != NULL) {
        PyObject *passed[5] = {self->producer};
        Py_ssize_t given = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
        memcpy(passed + 1, args + nargs, (size_t)given * sizeof *args);
        return PyObject_VectorcallMethod(dlpack_name, passed, 1, kwnames);
    }
    struct block *block = PyMem_RawMalloc(sizeof *block);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    DLTensor tensor = tensor_of(self, block);
    if (kwnames == NULL) {
        DLManagedTensor *managed = (DLManagedTensor *)&block->managed;
        *managed = (DLManagedTensor){tensor, Py_NewRef((PyObject *)self), delete_legacy};
        return PyCapsule_New(block, "dltensor", destroy_legacy);
    }
    block->managed = (DLManagedTensorVersioned){.version = {1, 3},
                                                .manager_ctx = Py_NewRef((PyObject *)self),
                                                .deleter = delete_versioned,
                                                .dl_tensor = tensor};
    return PyCapsule_New(block, "dltensor_versioned", destroy_versioned);
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
    PyObject_GC_Del(self);
}

static int floor_traverse(struct floor *self, visitproc visit, void *arg)
{
    Py_VISIT(self->producer);
    Py_VISIT(self->view.obj);
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
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)floor_dealloc,
    .tp_traverse = (traverseproc)floor_traverse,
    .tp_methods = floor_methods,
};

static PyObject *hold(PyObject *Py_UNUSED(module), PyObject *obj)
{
    struct floor *self = PyObject_GC_New(struct floor, &floor_type);
    if (self == NULL) {
        return NULL;
    }
    self->producer = NULL;
    if (PyObject_GetBuffer(obj, &self->view, PyBUF_FULL_RO) < 0) {
        self->view.obj = NULL;
        Py_CLEAR(self);
        return NULL;
    }
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *ask(PyObject *Py_UNUSED(module), PyObject *obj)
{
    struct floor *self = PyObject_GC_New(struct floor, &floor_type);
    if (self == NULL) {
        return NULL;
    }
    self->producer = Py_NewRef(obj);
    self->view.obj = NULL;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* The C exchange API: the same tensor for every object. */

static void delete_nothing(DLManagedTensorVersioned *managed)
{
    (void)managed;
}

static int tensor_from_object(void *obj, DLManagedTensorVersioned **out)
{
    static int64_t shape = 4096, stride = 1;
    static char data[4096] __attribute__((aligned(64)));
    static DLManagedTensorVersioned tensor = {
        .version = {1, 3},
        .deleter = delete_nothing,
        .dl_tensor = {data, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, &shape, &stride, 0},
    };
    (void)obj;
    *out = &tensor;
    return 0;
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

static PyMethodDef functions[] = {{"hold", hold, METH_O, NULL}, {"ask", ask, METH_O, NULL}, {0}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "floor", .m_size = -1, .m_methods = functions};

static PyTypeObject exchanged_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "floor.Exchanged",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
};

PyMODINIT_FUNC PyInit_floor(void)
{
    PyObject *made = PyModule_Create(&module),
             *capsule = PyCapsule_New((void *)&exchange_api, "dlpack_exchange_api", NULL);
    dlpack_name = PyUnicode_InternFromString("__dlpack__");
    if (made == NULL || capsule == NULL || dlpack_name == NULL || PyType_Ready(&floor_type) < 0 ||
        PyType_Ready(&exchanged_type) < 0 ||
        PyDict_SetItemString(exchanged_type.tp_dict, "__dlpack_c_exchange_api__", capsule) < 0 ||
        PyModule_AddObjectRef(made, "Exchanged", (PyObject *)&exchanged_type) < 0) {
        return NULL;
    }
    Py_DECREF(capsule);
    return made;
}
