/* to.c: to(), which gives an object's memory as another library's array: by the C exchange API of its type, or by
 * numpy's from_dlpack. dlpack._to does all else: other libraries, arguments, copies on other terms, and errors.
 *
 * It is C because capsules, and from_dlpack functions in Python, take most of the time. */
#include "module/module.h"

/* True if torch or paddle can't have the tensor as it is: they would write to read-only memory, torch has no negative
 * strides, and paddle reads them wrong. */
HOT static bool needs_copy(const DLManagedTensorVersioned *managed)
{
    const DLTensor *tensor = &managed->dl_tensor;
    bool backwards = false;
    for (int32_t i = 0; i < tensor->ndim && tensor->strides != NULL; i++) {
        backwards = backwards || tensor->strides[i] < 0;
    }
    return backwards || (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
}

/* Makes an array by the C exchange API in a capsule. NULL, perhaps with an exception: dlpack._to has to. */
HOT static PyObject *give_exchanged(DLPackObject *x, PyObject *capsule)
{
    const DLPackExchangeAPI *api = exchange_api_in(capsule);
    if (api == NULL || api->managed_tensor_to_py_object_no_sync == NULL) {
        return NULL;
    }
    DLManagedTensorVersioned *managed = managed_tensor_of(x);
    if (managed != NULL && managed->dl_tensor.device.device_type == kDLCPU && needs_copy(managed)) {
        delete_exchanged(managed);
        DLPackObject *copied = (DLPackObject *)object_on(x, NULL, COPY_ALWAYS);
        managed = copied == NULL ? NULL : managed_tensor_of(copied);
        Py_XDECREF((PyObject *)copied);
    }
    void *array = NULL;
    if (managed != NULL && (managed->dl_tensor.device.device_type != kDLCPU ||
                            api->managed_tensor_to_py_object_no_sync(managed, &array) < 0)) {
        delete_exchanged(managed); /* torch and paddle leave to the caller what they refuse */
        array = NULL;
    }
    return array;
}

/* Makes an object of the same memory, seen as items of another type of the same size. NULL: error. */
static PyObject *seen_as(struct memory *memory, DLDataType type)
{
    struct reading reading;
    struct memory *begun = object_begin(&reading, memory->obj, COPY_IF_NEEDED, NULL);
    if (begun == NULL) {
        return NULL;
    }
    read_object(&reading, memory);
    reading.request.dtype = type;
    return (PyObject *)object_of(1, begun, &reading);
}

/* Makes an array by numpy's from_dlpack; of a type that it refuses, as integers, which are then seen as numpy's type of
 * that name in `types`. Then also `noted`, the producer's dtype, means it there; NULL: none. NULL, perhaps with an
 * exception: dlpack._to has to. */
HOT static PyObject *give_imported(DLPackObject *x, PyObject *from_dlpack, PyObject *types, PyObject *noted)
{
    struct memory *memory = tensor_of(x);
    if (memory == NULL || memory->tensor.device.device_type != kDLCPU) {
        return NULL;
    }
    if (memory->names.typestr[0] != '\0') {
        return vectorcall(from_dlpack, (PyObject *[]){(PyObject *)memory}, 1, NULL);
    }
    DLDataType dtype = memory->tensor.dtype;
    PyObject *type = dtype.bits == 8 * memory->itemsize && dtype.lanes == 1
                         ? PyDict_GetItemString(types, memory->names.dtype) /* entries are never removed */
                         : NULL;
    if (type != NULL && noted != NULL && PyDict_SetItem(types, noted, type) < 0) {
        return NULL;
    }
    PyObject *integers = type == NULL ? NULL : seen_as(memory, (DLDataType){kDLUInt, dtype.bits, 1});
    PyObject *array = integers == NULL ? NULL : vectorcall(from_dlpack, &integers, 1, NULL);
    PyObject *seen = array == NULL ? NULL : vectorcall_method(names.view, (PyObject *[]){array, type}, 2, NULL);
    Py_XDECREF(integers);
    Py_XDECREF(array);
    return seen;
}

/* Like give_imported, but first without an import if the producer's C exchange API gives a capsule, unless its dtype is
 * noted as one that numpy refuses, which takes microseconds. Until one is noted, no dtype is read. */
HOT static PyObject *give_to_numpy(DLPackObject *x, PyObject *from_dlpack, PyObject *types)
{
    PyObject *dtype = NULL, *array = NULL;
    bool is_exchanged = x->is_delegate && ((struct delegate *)x)->exchange != NULL;
    bool is_noted = is_exchanged && PyDict_Size(types) > 0 && optional_attribute(x->obj, names.dtype, &dtype) > 0 &&
                    PyDict_GetItemWithError(types, dtype) != NULL;
    if (is_noted) {
        Py_CLEAR(dtype);
    }
    else if (is_exchanged && !PyErr_Occurred()) {
        array = vectorcall(from_dlpack, (PyObject *[]){(PyObject *)x}, 1, NULL);
    }
    if (array == NULL && (!PyErr_Occurred() || is_refusal())) {
        PyErr_Clear();
        array = give_imported(x, from_dlpack, types, dtype);
    }
    Py_XDECREF(dtype);
    return array;
}

/* Returns how to see a numpy array whose type its __dlpack__ refuses, as dlpack._delegate notes: (numpy's type of
 * integers of as many bytes, a DLPackObject of the type); borrowed, never freed. NULL: not known, or an error. */
static PyObject *refused_type(PyObject *obj)
{
    PyObject *dtype, *how = NULL;
    if (PyDict_Size(python.types_refused) > 0 && known_type(obj) == HAS_BOTH &&
        optional_attribute(obj, names.dtype, &dtype) > 0) {
        how = PyDict_GetItemWithError(python.types_refused, dtype);
        Py_DECREF(dtype);
    }
    return how;
}

/* Shares a numpy array as integers, and sees these as its type. NULL: error. */
static DLPackObject *share_refused(PyObject *obj, PyObject *how)
{
    DLDataType type = ((struct memory *)PyTuple_GetItem(how, 1))->tensor.dtype;
    PyObject *array = vectorcall_method(names.view, (PyObject *[]){obj, PyTuple_GetItem(how, 0)}, 2, NULL);
    PyObject *shared = array == NULL ? NULL : share(array, COPY_IF_NEEDED, NULL);
    struct memory *memory = shared == NULL ? NULL : tensor_of((DLPackObject *)shared);
    PyObject *seen = memory == NULL ? NULL : seen_as(memory, type);
    Py_XDECREF(array);
    Py_XDECREF(shared);
    return (DLPackObject *)seen;
}

/* share(obj, COPY_IF_NEEDED, NULL), which does not ask numpy for what it is known to refuse. */
HOT static DLPackObject *share_any(PyObject *obj)
{
    PyObject *how = refused_type(obj);
    if (how != NULL) {
        return share_refused(obj, how);
    }
    return PyErr_Occurred() ? NULL : (DLPackObject *)share(obj, COPY_IF_NEEDED, NULL);
}

HOT PyObject *to(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs != 2 || kwnames != NULL) {
        return read_in_python(python.plain_to, NULL, args, nargs, kwnames);
    }
    PyObject *obj = args[0], *target = args[1];
    bool is_hashable = PyUnicode_CheckExact(target) || PyModule_Check(target) || PyType_Check(target);
    PyObject *taker = is_hashable ? PyDict_GetItemWithError(python.takers, target) : NULL; /* never removed */
    PyTypeObject *type = taker == NULL ? NULL : (PyTypeObject *)PyTuple_GetItem(taker, 0);
    if (taker == NULL && PyErr_Occurred()) {
        if (!is_refusal()) {
            return NULL;
        }
        PyErr_Clear(); /* a class that has no hash is none of these */
    }
    if (type != NULL && Py_IS_TYPE(obj, type)) {
        return Py_NewRef(obj);
    }
    if (type == NULL || PyType_IsSubtype(Py_TYPE(obj), type)) {
        return read_in_python(python.plain_to, NULL, args, nargs, kwnames);
    }
    DLPackObject *x = share_any(obj);
    if (x == NULL) {
        return NULL;
    }
    PyObject *direct = PyTuple_GetItem(taker, 1);
    PyObject *array =
        PyCapsule_CheckExact(direct) ? give_exchanged(x, direct) : give_to_numpy(x, direct, PyTuple_GetItem(taker, 2));
    if (array == NULL && (!PyErr_Occurred() || is_refusal())) {
        PyErr_Clear();
        array = read_in_python(python.plain_to, NULL, (PyObject *[]){(PyObject *)x, target}, 2, NULL);
    }
    Py_DECREF((PyObject *)x);
    return array;
}
