/* module.c: the module, and asdlpack(), which finds the protocol that an object speaks.
 *
 * It is C because only C can define a module of CPython's stable ABI. */
#include "extension.h"

struct names names;

static int has_dlpack(PyObject *obj)
{
    PyObject *method;
    int found = optional_attribute(obj, names.dlpack, &method);
    if (found > 0) {
        found = method != Py_None;
        Py_DECREF(method);
    }
    return found;
}

/* These types can't be given another protocol; looking for one would cost more than all the rest. */
static bool speaks_buffer_alone(PyObject *obj)
{
    return PyBytes_CheckExact(obj) || PyByteArray_CheckExact(obj) || Py_IS_TYPE(obj, &PyMemoryView_Type);
}

int describe_by_other_protocols(DLPackObject *self)
{
    static const struct {
        const char *name;
        int (*read)(DLPackObject *, struct request *);
    } protocols[] = {
        {"__array_interface__", read_array_interface},
        {"__array_struct__", read_array_struct},
        {"__cuda_array_interface__", read_cuda_array_interface},
        {"buffer", read_buffer},
        {"__arrow_c_array__", read_arrow_array},
        {"__arrow_c_stream__", read_arrow_stream},
    };
    enum { BUFFER = 3 };
    struct request request;
    for (size_t i = speaks_buffer_alone(self->obj) ? BUFFER : 0; i < sizeof protocols / sizeof *protocols; i++) {
        self->protocol = protocols[i].name;
        int found = protocols[i].read(self, &request);
        if (found > 0) {
            found = object_describe(self, &request) < 0 ? -1 : 1;
        }
        if (found != 0) {
            return found;
        }
    }
    return 0;
}

static void raise_no_protocol(PyObject *obj)
{
    PyObject *type = type_name(obj);
    if (type != NULL) {
        PyErr_Format(
            PyExc_TypeError,
            "%U object shares no memory: asdlpack looked for __dlpack__, __array_interface__, __array_struct__, "
            "__cuda_array_interface__, the buffer protocol, __arrow_c_array__ and __arrow_c_stream__%s",
            type, PyList_Check(obj) || PyTuple_Check(obj) ? " (use array.array or numpy.asarray)" : "");
        Py_DECREF(type);
    }
}

/* Recognises the protocol of self->obj. 1: done; 0: it speaks none; -1: error. */
static int recognise(DLPackObject *self)
{
    PyObject *obj = self->obj;
    if (PyCapsule_CheckExact(obj)) {
        return take_capsule(self, obj) < 0 ? -1 : 1;
    }
    int found = speaks_buffer_alone(obj) ? 0 : has_dlpack(obj);
    if (found > 0) {
        self->delegate = true;
        self->protocol = "__dlpack__";
        PyObject_GC_Track(self);
    }
    return found != 0 ? found : describe_by_other_protocols(self);
}

static PyObject *wrap(PyObject *obj, enum copy copy)
{
    if (PyType_Check(obj)) {
        PyErr_Format(PyExc_TypeError,
                     "asdlpack: expected an object that holds memory, got the type %R: pass an instance", obj);
        return NULL;
    }
    if (PyWeakref_CheckProxy(obj)) {
        PyErr_SetString(PyExc_TypeError, "asdlpack: a weak reference keeps no memory alive: pass the object itself");
        return NULL;
    }
    DLPackObject *self = object_new(obj, copy), *shared = NULL;
    if (self == NULL) {
        return NULL;
    }
    int found = recognise(self);
    if (found == 0) {
        raise_no_protocol(obj);
    }
    else if (found > 0) {
        /* A delegate copies nothing before its tensor is there. */
        shared = copy == COPY_ALWAYS ? tensor_of(self) : self;
    }
    Py_XINCREF((PyObject *)shared);
    Py_DECREF((PyObject *)self);
    return (PyObject *)shared;
}

PyDoc_STRVAR(
    asdlpack_doc,
    "asdlpack(obj, /, *, copy=False)\n"
    "--\n\n"
    "Share the memory of any object as a DLPackObject, which every from_dlpack takes.\n\n"
    "The first of these that obj has is used: a DLPack capsule (which is taken over, so that it can't be used\n"
    "again), __dlpack__, __array_interface__, __array_struct__, __cuda_array_interface__, the buffer protocol.\n"
    "The memory stays alive and locked until the DLPackObject and all that was exported from it are gone.\n\n"
    "copy=False never copies, copy=None copies only what can't be shared as it is (another byte order, strides\n"
    "that are no multiple of the item, misaligned data), copy=True always copies. A copy is compact, row-major,\n"
    "64-byte aligned and writable.\n\n"
    "Raises TypeError where obj has none of the protocols, ValueError where its description contradicts itself,\n"
    "and BufferError where the memory can't be exported.");

static PyObject *asdlpack(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    enum copy copy = COPY_NEVER;
    if (nargs != 1) {
        PyErr_Format(PyExc_TypeError, "asdlpack() takes exactly one positional argument (%zd given)", nargs);
        return NULL;
    }
    Py_ssize_t keywords = kwnames == NULL ? 0 : PyTuple_Size(kwnames);
    for (Py_ssize_t i = 0; i < keywords; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        if (PyUnicode_Compare(name, names.copy) != 0) {
            PyErr_Format(PyExc_TypeError, "asdlpack() got an unexpected keyword argument %R; it takes copy", name);
            return NULL;
        }
        if (parse_copy(args[nargs + i], &copy) < 0) {
            return NULL;
        }
    }

    if (!Py_IS_TYPE(args[0], DLPackObject_type)) {
        return wrap(args[0], copy);
    }
    return copy == COPY_ALWAYS ? object_copy((DLPackObject *)args[0]) : Py_NewRef(args[0]);
}

static PyObject *count_core_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(core_calls());
}

static int intern_names(void)
{
    const struct {
        PyObject **name;
        const char *text;
    } all[] = {
        {&names.dlpack, "__dlpack__"},
        {&names.dlpack_device, "__dlpack_device__"},
        {&names.array_interface, "__array_interface__"},
        {&names.array_struct, "__array_struct__"},
        {&names.cuda_array_interface, "__cuda_array_interface__"},
        {&names.arrow_c_array, "__arrow_c_array__"},
        {&names.arrow_c_stream, "__arrow_c_stream__"},
        {&names.stream, "stream"},
        {&names.max_version, "max_version"},
        {&names.dl_device, "dl_device"},
        {&names.copy, "copy"},
        {&names.shape, "shape"},
        {&names.typestr, "typestr"},
        {&names.data, "data"},
        {&names.strides, "strides"},
        {&names.offset, "offset"},
        {&names.mask, "mask"},
        {&names.version, "version"},
        {&names.dtype, "dtype"},
        {&names.name, "name"},
        {&names.module, "__module__"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].name = PyUnicode_InternFromString(all[i].text);
        if (*all[i].name == NULL) {
            return -1;
        }
    }
    return 0;
}

static int module_exec(PyObject *module)
{
    /* The deleters take the GIL by PyGILState_Ensure, which knows the main interpreter alone. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "dlpack works in the main interpreter only, and this is a sub-interpreter");
        return -1;
    }
    if (python_init() < 0 || core_init() < 0 || intern_names() < 0 || object_init(module) < 0) {
        return -1;
    }
    return PyModule_AddStringConstant(module, "__version__", DLPACK_GO_VERSION);
}

static PyMethodDef module_methods[] = {
    {"asdlpack", (PyCFunction)(void (*)(void))asdlpack, METH_FASTCALL | METH_KEYWORDS, asdlpack_doc},
    {"_core_calls", count_core_calls, METH_NOARGS, "How many calls into the Go core this process has made."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dlpack._dlpack",
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__dlpack(void)
{
    return PyModuleDef_Init(&module_definition);
}
