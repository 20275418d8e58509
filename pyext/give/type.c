/* type.c: the type DLPackObject: its attributes, methods and slots. Rare ones are in dlpack._object.
 *
 * It is C because only C can define a type of CPython's stable ABI. */
#include "give/give.h"

#include <structmember.h>

static PyObject *tuple_of(const int64_t *values, int32_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; i < count && tuple != NULL; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL || PyTuple_SetItem(tuple, i, value) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

/* Returns the dlpack._dtype.DType of a name. python.dtypes has the names of Go's table; nothing else is added to it.
 * padded: items smaller than a byte fill one each. */
static PyObject *dtype_of(const char *name, bool padded)
{
    PyObject *text = PyUnicode_FromString(name);
    PyObject *dtype = text == NULL || padded ? NULL : PyDict_GetItemWithError(python.dtypes, text);
    if (dtype != NULL) {
        Py_INCREF(dtype);
    }
    else if (text != NULL && !PyErr_Occurred()) {
        dtype = call_python(padded ? python.PaddedDType : python.DType, PyTuple_Pack(1, text));
    }
    Py_XDECREF(text);
    return dtype;
}

/* Attributes: a name, the function that returns x, the value, and help()'s text. Those with an underscore are for
 * Python code. */
#define ATTRIBUTES(X)                                                                                                  \
    X(shape, tensor_of, tuple_of(x->tensor.shape, x->tensor.ndim), "Length of each dimension, in elements.")           \
    X(strides, tensor_of, tuple_of(x->tensor.strides, x->tensor.ndim),                                                 \
      "Distance of neighbours in each dimension, in elements.")                                                        \
    X(ndim, tensor_of, PyLong_FromLong(x->tensor.ndim), "Number of dimensions.")                                       \
    X(size, tensor_of, PyLong_FromLongLong(size_of(&x->tensor)), "Number of elements.")                                \
    X(itemsize, tensor_of, PyLong_FromLongLong(x->itemsize),                                                           \
      "Bytes of one element; where elements share bytes, rounded up.")                                                 \
    X(nbytes, tensor_of, PyLong_FromLongLong(object_nbytes(x)), "Bytes of all elements.")                              \
    X(dtype, tensor_of,                                                                                                \
      dtype_of(x->names.dtype, x->tensor.dtype.bits < 8 && x->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED),     \
      "Name of the data type, a str: \"float32\", \"bfloat16\", \"float4_e2m1fnx2\". Equal to the types of numpy,\n"   \
      "ml_dtypes, torch and jax of the same meaning. Has name, itemsize, kind and str, as numpy's have.")              \
    X(device, tensor_of,                                                                                               \
      call_python(python.device, Py_BuildValue("(ii)", x->tensor.device.device_type, x->tensor.device.device_id)),     \
      "(DLDeviceType, device id).")                                                                                    \
    X(readonly, tensor_of, PyBool_FromLong((x->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0),                           \
      "Whether the memory must not be written.")                                                                       \
    X(pointer, tensor_of, PyLong_FromVoidPtr(x->tensor.data), "Address of the first element; 0 where there is none.")  \
    X(_tensor, tensor_of, Py_NewRef((PyObject *)x), NULL)                                                              \
    X(_ordered, , (PyObject *)ordered_tensor_of(x), NULL)                                                              \
    X(_on_cpu, cpu_tensor_of, Py_NewRef((PyObject *)x), NULL)                                                          \
    X(_byte_offset, tensor_of, PyLong_FromUnsignedLongLong(x->tensor.byte_offset), NULL)                               \
    X(_byte_strides, tensor_of, tuple_of(byte_strides(x), x->tensor.ndim), NULL)                                       \
    X(_is_copy, tensor_of, PyBool_FromLong(holds_memory(&x->hold)), NULL)                                              \
    X(_producer_copied, tensor_of, PyBool_FromLong(x->producer_copied), NULL)                                          \
    X(_is_packed, tensor_of, PyBool_FromLong(object_is_packed(x)), NULL)                                               \
    X(_is_row_major, tensor_of, PyBool_FromLong(object_is_compact(x, 'C')), NULL)                                      \
    X(_is_column_major, tensor_of, PyBool_FromLong(object_is_compact(x, 'F')), NULL)                                   \
    X(_address, tensor_of, PyLong_FromVoidPtr(object_address(x)), NULL)                                                \
    X(_typestr, tensor_of, PyUnicode_FromString(x->names.typestr), NULL)                                               \
    X(_copy, , Py_BuildValue("O", copy_value(x->copy)), NULL)                                                          \
    X(_stream, tensor_of, PyLong_FromLongLong(x->stream), NULL)                                                        \
    X(_version, tensor_of, Py_BuildValue("(II)", x->version.major, x->version.minor), NULL)                            \
    X(_flags, tensor_of, PyLong_FromUnsignedLongLong(x->flags), NULL)

#define GETTER(name, object_of, value, doc)                                                                            \
    static PyObject *get_##name(DLPackObject *self, void *Py_UNUSED(closure))                                          \
    {                                                                                                                  \
        __auto_type x = object_of(self);                                                                               \
        return x == NULL ? NULL : (value);                                                                             \
    }
ATTRIBUTES(GETTER)

#define ATTRIBUTE(name, object_of, value, doc) {#name, (getter)get_##name, NULL, doc, NULL},
#define INTERFACE(name, doc) {name, get_interface, NULL, doc, name}
static PyGetSetDef object_attributes[] = {
    INTERFACE("__array_interface__", "Version 3, of memory that the CPU can read; absent where it does not apply."),
    INTERFACE("__array_struct__", "The same as a C structure in a capsule."),
    INTERFACE("__cuda_array_interface__", "Version 3, of memory of CUDA; absent elsewhere."),
    ATTRIBUTES(ATTRIBUTE){NULL, NULL, NULL, NULL, NULL},
};

static PyObject *object_repr(PyObject *self)
{
    return call_python(python.repr_of, PyTuple_Pack(1, self));
}

/* Operations of arrays that this type lacks; the errors say what to use instead. */

static PyObject *refuse_use(const char *use)
{
    check_in_python(python.no_array, Py_BuildValue("(s)", use));
    return NULL;
}

static PyObject *object_item(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(key))
{
    return refuse_use("is not subscriptable");
}

static int object_set_item(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(key), PyObject *value)
{
    refuse_use(value == NULL ? "does not support item deletion" : "does not support item assignment");
    return -1;
}

static PyObject *object_iterator(PyObject *Py_UNUSED(self))
{
    return refuse_use("is not iterable");
}

/* Not a TypeError: if a scalar's len() raises that, polars makes a column with one object of it. */
static Py_ssize_t object_length(PyObject *Py_UNUSED(self))
{
    check_in_python(python.no_array, Py_BuildValue("(sO)", "has no len()", PyExc_NotImplementedError));
    return -1;
}

/* Without it, bool() would ask for the length, and numpy would take bool(x) for an item if x has no dimensions. */
static int object_is_true(PyObject *self)
{
    const struct memory *tensor = tensor_of((DLPackObject *)self);
    if (tensor == NULL) {
        bool refused = is_refusal();
        if (refused) {
            PyErr_Clear();
        }
        return refused ? 1 : -1;
    }
    if (tensor->tensor.ndim == 0) {
        refuse_use("has no truth value");
        return -1;
    }
    return 1;
}

/* Refuses ints, floats, complex numbers and DLPackObjects. Leaves it to an array on the other side to convert the object
 * and compute. No slot makes an int or a float: pandas would take every object for a scalar. */
static PyObject *refuse_operand(PyObject *other, const char *use)
{
    bool is_number = PyLong_Check(other) || PyFloat_CheckExact(other) || PyComplex_CheckExact(other);
    return is_number || Py_IS_TYPE(other, DLPackObject_type) ? refuse_use(use) : Py_NewRef(Py_NotImplemented);
}

static PyObject *object_arithmetic(PyObject *left, PyObject *right)
{
    return refuse_operand(Py_IS_TYPE(left, DLPackObject_type) ? right : left, "has no arithmetic");
}

static PyObject *object_compare(PyObject *Py_UNUSED(self), PyObject *other, int Py_UNUSED(op))
{
    return refuse_operand(other, "can't be compared");
}

/* By identity. A type that defines comparison doesn't inherit the hash. */
static Py_hash_t object_hash(PyObject *self)
{
    return ((hashfunc)PyType_GetSlot(&PyBaseObject_Type, Py_tp_hash))(self);
}

/* Methods. */

HOT static PyObject *object_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const struct parameters parameters = {.positional = 1,
                                                 .names = {&names.stream, &names.max_version, &names.dl_device,
                                                           &names.copy}};
    struct export_arguments given = {.stream = NULL};
    PyObject *capsule = NULL;
    if (read_arguments(&parameters, &given, args, nargs, kwnames)) {
        for (int i = 0; i < EXPORT_ARGUMENTS; i++) {
            given.all[i] = given.all[i] == Py_None ? NULL : given.all[i];
        }
        capsule = ((DLPackObject *)self)->is_delegate ? delegate_export((struct delegate *)self, &given)
                                                      : export_tensor((struct memory *)self, &given);
    }
    return capsule != NULL || PyErr_Occurred() ? capsule
                                               : read_in_python(python.plain_dlpack, self, args, nargs, kwnames);
}

static PyObject *object_dlpack_device(DLPackObject *self, PyObject *Py_UNUSED(ignored))
{
    DLDevice device = {kDLCPU, 0};
    if (!self->is_delegate) {
        device = ((struct memory *)self)->tensor.device;
    }
    else if (delegate_device((struct delegate *)self, &device) < 0) {
        return NULL;
    }
    if (device.device_type == kDLCPU && device.device_id == 0) {
        return Py_NewRef(constants.cpu);
    }
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

static PyMethodDef object_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))object_dlpack, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__dlpack_device__", (PyCFunction)object_dlpack_device, METH_NOARGS, NULL},
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))object_arrow_c_array, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__arrow_c_device_array__", (PyCFunction)(void (*)(void))object_arrow_c_device_array, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef object_members[] = {
    {"protocol", T_STRING, offsetof(DLPackObject, protocol), READONLY,
     "The protocol that was found: \"buffer\", \"__dlpack__\", a capsule's or a structure's name, \"pointer\". What\n"
     "has __dlpack__ is asked at each export, and where it refuses, its other protocols serve: the repr says which. Of\n"
     "what a C library gave: \"__dlpack_c_exchange_api__\"."},
    {"obj", T_OBJECT, offsetof(DLPackObject, obj), READONLY,
     "The object that was given, of from_pointer the owner; None for a copy or a C library's tensor."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(DLPackObject, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot object_slots[] = {
    {Py_tp_dealloc, object_dealloc},
    {Py_tp_traverse, object_traverse},
    {Py_tp_repr, object_repr},
    {Py_tp_iter, object_iterator},
    {Py_mp_subscript, object_item},
    {Py_mp_ass_subscript, object_set_item},
    {Py_mp_length, object_length},
    {Py_tp_richcompare, object_compare},
    {Py_tp_hash, object_hash},
    {Py_nb_bool, object_is_true},
    {Py_nb_add, object_arithmetic},
    {Py_nb_subtract, object_arithmetic},
    {Py_nb_multiply, object_arithmetic},
    {Py_nb_true_divide, object_arithmetic},
    {Py_nb_matrix_multiply, object_arithmetic},
    {Py_tp_methods, object_methods},
    {Py_tp_getset, object_attributes},
    {Py_tp_members, object_members},
    {Py_bf_getbuffer, object_get_buffer},
    {0, NULL},
};

static PyType_Spec object_spec = {
    .name = "dlpack.DLPackObject",
    .basicsize = sizeof(struct memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = object_slots,
};

int type_init(PyObject *module)
{
    if (DLPackObject_type == NULL) {
        DLPackObject_type = (PyTypeObject *)PyType_FromSpec(&object_spec);
        if (DLPackObject_type == NULL) {
            return -1;
        }
#ifdef Py_GIL_DISABLED
        /* Each object holds a reference to its type. Threads that count these wait for each other: two wrap less than
         * one. This count makes the type immortal; the module never frees it anyway. */
        Py_SET_REFCNT((PyObject *)DLPackObject_type, PY_SSIZE_T_MAX);
#endif
    }
    /* The type is immutable except its dict, in which nobody has looked anything up yet. */
    PyObject *dict = PyObject_GenericGetDict((PyObject *)DLPackObject_type, NULL), *api = exchange_api();
    int added = dict == NULL || api == NULL ? -1 : PyDict_SetItemString(dict, "__dlpack_c_exchange_api__", api);
    Py_XDECREF(dict);
    Py_XDECREF(api);
    PyType_Modified(DLPackObject_type);
    return added < 0 ? -1 : PyModule_AddType(module, DLPackObject_type);
}

/* Adds the types of Go's table to python.dtypes. */
static int add_dtypes(void)
{
    const char *name;
    for (int i = 0; (name = known_type_name(i)) != NULL; i++) {
        PyObject *dtype = dtype_of(name, false);
        int added = dtype == NULL ? -1 : PyDict_SetItemString(python.dtypes, name, dtype);
        Py_XDECREF(dtype);
        if (added < 0) {
            return -1;
        }
    }
    return 0;
}

int type_connect(void)
{
    if (add_docs(object_methods) < 0 || add_dtypes() < 0) {
        return -1;
    }
    PyObject *dict = PyObject_GenericGetDict((PyObject *)DLPackObject_type, NULL);
    int added = check_in_python(python.add_members, Py_BuildValue("(N)", dict));
    PyType_Modified(DLPackObject_type);
    return added;
}
