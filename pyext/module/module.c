/* module.c: the module, and asdlpack(), which finds the protocol that an object speaks.
 *
 * It is C because only C can define a module of CPython's stable ABI. */
#include "module/module.h"
#include "platform/platform.h"

/* 1: obj has __dlpack__; 0: it has none; -1: error. */
static int has_dlpack(PyObject *obj, enum known_type known)
{
    PyObject *method;
    if (known == HAS_DLPACK || known == HAS_BOTH) {
        return 1;
    }
    if (known == BUFFER_ALONE || PyCapsule_CheckExact(obj)) {
        return 0;
    }
    int found = optional_attribute(obj, names.dlpack, &method);
    if (found <= 0) {
        return found;
    }
    Py_DECREF(method);
    return check_mask(obj) < 0 || (known == NOT_KNOWN && remember_type(obj, HAS_DLPACK) < 0) ? -1 : 1;
}

/* Copies a numpy array by its buffer, which takes half as long as by a capsule. NULL without an error: no buffer. */
__attribute__((noinline)) static PyObject *copy_buffer(PyObject *obj)
{
    struct reading reading;
    struct memory *begun = object_begin(&reading, obj, COPY_ALWAYS, NULL);
    int found = begun == NULL ? -1 : lock_buffer(&reading);
    reading.request.owned = found > 0 && (reading.request.facts & FACT_STRIDES) == 0 && owns_memory(obj);
    PyObject *self = (PyObject *)object_of(found, begun, &reading);
    if (self == NULL && (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError))) {
        PyErr_Clear();
    }
    return self;
}

/* Makes a delegate, and imports its tensor if that is to be copied or moved. A move makes the only copy, on its way to
 * the device. */
HOT static PyObject *share_delegate(PyObject *obj, enum copy copy, const DLDevice *device, enum known_type known,
                                    const struct exchange *exchange)
{
    if (device == NULL && copy == COPY_ALWAYS && known_type(obj) == HAS_BOTH) {
        PyObject *copied = copy_buffer(obj);
        if (copied != NULL || PyErr_Occurred()) {
            return copied;
        }
    }
    if (exchange == NULL && known != HAS_BOTH && find_exchange(obj, &exchange) < 0) {
        return NULL;
    }
    enum copy later = device == NULL || copy == COPY_NEVER ? copy : COPY_IF_NEEDED;
    DLPackObject *self = (DLPackObject *)delegate_of(obj, later, exchange);
    if (self == NULL || (device == NULL && copy != COPY_ALWAYS)) {
        return (PyObject *)self;
    }
    PyObject *shared = device != NULL ? object_on(self, device, copy) : Py_XNewRef((PyObject *)tensor_of(self));
    Py_DECREF((PyObject *)self);
    return shared;
}

/* Makes an object by another protocol than __dlpack__. */
HOT static PyObject *share_by_others(PyObject *obj, enum copy copy, const DLDevice *device, enum known_type known)
{
    struct reading reading;
    if (known == BUFFER_ALONE) {
        return (PyObject *)object_by(lock_buffer, &reading, obj, copy, device, false);
    }
    if (PyCapsule_CheckExact(obj)) {
        struct memory *begun = object_begin(&reading, obj, copy, device);
        return begun == NULL ? NULL : (PyObject *)object_of_capsule(begun, &reading, obj);
    }
    struct memory *self = object_by(read_by_protocols, &reading, obj, copy, device, false);
    if (self == NULL && !PyErr_Occurred()) {
        check_in_python(python.no_protocol, PyTuple_Pack(1, obj));
    }
    if (self != NULL && known == NOT_KNOWN && self->hold.holding == HOLDS_VIEW &&
        remember_type(obj, BUFFER_ALONE) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* Shares an object that was wrapped before, as asked for now. NULL without an error: it was wrapped with copy=False and
 * can't be shared; now it may be copied, so ask its producer anew. */
static PyObject *share_wrapped(DLPackObject *self, enum copy copy, const DLDevice *device)
{
    bool may_copy = self->is_delegate && self->copy == COPY_NEVER && copy != COPY_NEVER;
    bool refused = may_copy && device == NULL && tensor_of(self) == NULL;
    PyObject *shared = refused ? NULL : object_on(self, device, copy);
    if (shared == NULL && may_copy && PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyErr_Clear();
    }
    return shared;
}

HOT PyObject *share(PyObject *obj, enum copy copy, const DLDevice *device)
{
    if (Py_IS_TYPE(obj, DLPackObject_type)) {
        PyObject *wrapped = share_wrapped((DLPackObject *)obj, copy, device);
        if (wrapped != NULL || PyErr_Occurred()) {
            return wrapped;
        }
        obj = ((DLPackObject *)obj)->obj;
    }
    enum known_type known = known_type(obj);
    bool is_known = known != NOT_KNOWN && known != CHANGES;
    const struct exchange *exchange = is_known ? NULL : known_exchange(obj);
    if (exchange != NULL) {
        return share_delegate(obj, copy, device, known, exchange);
    }
    if (!is_known && (PyType_Check(obj) || PyWeakref_CheckProxy(obj))) {
        check_in_python(python.no_holder, PyTuple_Pack(1, obj));
        return NULL;
    }
    PyObject *reader = is_known ? NULL : structure_reader(obj);
    if (reader != NULL) {
        PyObject *target = device == NULL ? new_none() : Py_BuildValue("(ii)", device->device_type, device->device_id);
        return make_call(call_python(reader, Py_BuildValue("(OON)", obj, copy_value(copy), target)));
    }
    int has = has_dlpack(obj, known);
    return has < 0   ? NULL
           : has > 0 ? share_delegate(obj, copy, device, known, NULL)
                     : share_by_others(obj, copy, device, known);
}

HOT static PyObject *asdlpack(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    /* With align, owner or readonly, Python reads the arguments. */
    static const struct parameters parameters = {.positional = 1,
                                                 .required = 1,
                                                 .names = {&names.obj, &names.copy, &names.device}};
    struct {
        PyObject *obj, *copy, *device;
    } given = {.copy = Py_False, .device = Py_None};
    enum copy copy;
    DLDevice device;
    if (!read_arguments(&parameters, &given, args, nargs, kwnames) || !plain_copy(given.copy, &copy) ||
        (given.device != Py_None && !plain_device(given.device, &device))) {
        return read_in_python(python.plain_asdlpack, NULL, args, nargs, kwnames);
    }
    PyObject *shared = share(given.obj, copy, given.device == Py_None ? NULL : &device);
    const struct delegate *delegate = (struct delegate *)shared;
    if (shared != NULL && delegate->is_delegate && delegate->exchange == NULL && known_type(given.obj) == HAS_BOTH) {
        int holds = holds_objects(given.obj);
        if (holds < 0 || (holds > 0 && tensor_of((DLPackObject *)shared) == NULL)) {
            Py_CLEAR(shared);
        }
    }
    return shared;
}

/* Returns (the capsule's name, its tensor or None), and consumes nothing. If the capsule was consumed, or is not
 * DLPack's, reads only the name. */
static PyObject *inspect(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    bool versioned = PyCapsule_IsValid(capsule, capsule_versioned);
    if (!versioned && !PyCapsule_IsValid(capsule, capsule_legacy)) {
        return PyErr_Occurred() ? NULL : Py_BuildValue("(sO)", name == NULL ? "" : name, Py_None);
    }
    struct reading reading;
    struct memory *begun = object_begin(&reading, capsule, COPY_NEVER, NULL);
    if (begun == NULL) {
        return NULL;
    }
    reading.exports = true; /* all its flags are seen */
    reading.protocol = versioned ? capsule_versioned : capsule_legacy;
    reading.readonly = !versioned;
    int read = read_managed(&reading, PyCapsule_GetPointer(capsule, name), versioned);
    reading.hold->holding = HOLDS_NOTHING; /* the tensor must outlive the object */
    struct memory *self = object_of(read, begun, &reading);
    return self == NULL ? NULL : Py_BuildValue("(sN)", name, self);
}

static PyObject *producer_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(this_thread()->producer_calls);
}

static PyObject *connect(PyObject *module, PyObject *functions);

static PyMethodDef module_methods[] = {
    {"_connect", connect, METH_O, NULL},
    {"asdlpack", (PyCFunction)(void (*)(void))asdlpack, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"frombuffer", (PyCFunction)(void (*)(void))frombuffer, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"from_pointer", (PyCFunction)(void (*)(void))from_pointer, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"copy_into", (PyCFunction)(void (*)(void))copy_into, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"to", (PyCFunction)(void (*)(void))to, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"_inspect", inspect, METH_O, NULL},
    {"_import", import_given, METH_VARARGS, NULL},
    {"_read_by_others", read_by_others, METH_VARARGS, NULL},
    {"_producer_calls", producer_calls, METH_NOARGS, NULL},
    {"_register_structures", register_structures, METH_VARARGS, NULL},
    {"_share_structure", share_structure, METH_VARARGS, NULL},
    {"_keep", keep, METH_VARARGS, NULL},
    {"_structure_reader", structure_reader_of, METH_O, NULL},
    {"_start_copy", start_copy, METH_O, NULL},
    {"_stop_deleters", stop_deleters, METH_NOARGS, NULL},
    {"_core_calls", core_calls, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* dlpack._dlpack._connect(functions): stores the functions that Python defines, by name. Call it before all others. */
static PyObject *connect(PyObject *Py_UNUSED(module), PyObject *functions)
{
    bool connected = take_functions(functions) == 0 && add_docs(module_methods) == 0 && type_connect() == 0;
    return connected ? new_none() : NULL;
}

/* Adds core.h's numbers that Python uses. -1: error. */
static int add_numbers(PyObject *module)
{
    bool added = PyModule_AddIntConstant(module, "_COPY_ALIGNMENT", COPY_ALIGNMENT) == 0 &&
                 PyModule_AddIntConstant(module, "_MAX_NDIM", MAX_NDIM) == 0 &&
                 PyModule_AddIntConstant(module, "_LEGACY_STREAM", STREAM_LEGACY) == 0 &&
                 PyModule_AddIntConstant(module, "_UNKNOWN_STREAM", STREAM_UNKNOWN) == 0 &&
                 PyModule_AddIntConstant(module, "_IS_COPIED", DLPACK_FLAG_BITMASK_IS_COPIED) == 0 &&
                 PyModule_AddIntConstant(module, "_PADDED", DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) == 0;
    return added ? 0 : -1;
}

static int module_exec(PyObject *module)
{
    /* Deleters take the GIL by PyGILState_Ensure, which knows only the main interpreter. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "dlpack works in the main interpreter only, and this is a sub-interpreter");
        return -1;
    }
    if (python_init(module) < 0 || start_init() < 0 || type_init(module) < 0 || add_numbers(module) < 0) {
        return -1;
    }
    return PyModule_AddStringConstant(module, "__version__", DLPACK_GO_VERSION);
}

#ifdef Py_TARGET_ABI3T
PyABIInfo_VAR(abi_info);

static PySlot module_slots[] = {
    PySlot_STATIC_DATA(Py_mod_abi, &abi_info),          PySlot_STATIC_DATA(Py_mod_name, "dlpack._dlpack"),
    PySlot_STATIC_DATA(Py_mod_methods, module_methods), PySlot_FUNC(Py_mod_exec, module_exec),
    PySlot_DATA(Py_mod_gil, Py_MOD_GIL_NOT_USED),       PySlot_END,
};

PyMODEXPORT_FUNC PyModExport__dlpack(void)
{
    return module_slots;
}
#else
static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
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
#endif
