/* hostile.c: the type of objects whose buffers are made by Python code, get_buffer(flags) and release_buffer(), which may
 * raise. A callback of ctypes can't. */
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    view->obj = NULL;
    PyObject *address = PyObject_CallMethod(self, "get_buffer", "i", flags);
    if (address == NULL) {
        return -1;
    }
    *view = *(Py_buffer *)PyLong_AsVoidPtr(address);
    view->obj = Py_NewRef(self);
    Py_DECREF(address);
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *view)
{
    PyObject *type, *value, *traceback;
    (void)view;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallMethod(self, "release_buffer", NULL);
    if (result == NULL) {
        PyErr_WriteUnraisable(self);
    }
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
}

PyObject *make_exporter(void)
{
    PyType_Slot slots[] = {{Py_bf_getbuffer, get_buffer}, {Py_bf_releasebuffer, release_buffer}, {0, NULL}};
    PyType_Spec spec = {.name = "hostile.Exporter", .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};
    return PyType_FromSpec(&spec);
}
