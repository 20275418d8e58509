/* python.c: helpers for Python objects that the stable ABI of 3.11 lacks or makes long. */
#include "python/python.h"
#include "platform/platform.h"

#include <stdatomic.h>
#include <string.h>

/* Functions of the running Python that the stable ABI has only later, by their public or older private names. */
static int (*get_optional_attribute)(PyObject *, PyObject *, PyObject **);         /* public from 3.13 on */
static int (*is_finalizing)(void);                                                 /* public from 3.13 on */
static PyThreadState *(*attached_thread_state)(void);                              /* public from 3.13 on */
PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);        /* stable from 3.12 on */
PyObject *(*vectorcall_method)(PyObject *, PyObject *const *, size_t, PyObject *); /* stable from 3.12 on */

static PyInterpreterState *main_interpreter; /* the only one that may import this package */

static void *find_in_python(const char *name, const char *older_name)
{
    void *function = find_in_process(name);
    return function != NULL ? function : find_in_process(older_name);
}

/* While Python finalises, a thread that takes the GIL hangs, or crashes if it does so a little later. So does one that
 * has the GIL and releases it for a while, as any Python code does: its deleter never returns. So from atexit on, which
 * comes before, no thread takes the GIL here, and Python waits for those that have. */
static atomic_bool ending;
static atomic_int gil_takers; /* of all threads */

static void count_gil_takers(int more)
{
    this_thread()->gil_takers += more;
    atomic_fetch_add(&gil_takers, more);
}

PyObject *stop_deleters(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    atomic_store(&ending, true);
    return PyBool_FromLong(atomic_load(&gil_takers) > this_thread()->gil_takers);
}

void python_after_fork(void)
{
    atomic_store(&gil_takers, this_thread()->gil_takers); /* the other threads are the parent's */
}

struct names names;

static int make_names(void)
{
#define NAME(name) #name
#define DUNDER(name) "__" #name "__"
    static const char *const texts[] = {NAMES(NAME, DUNDER)};
    for (int i = 0; i < COUNT_OF(texts); i++) {
        PyObject *name = PyUnicode_InternFromString(texts[i]);
        if (name == NULL) {
            return -1;
        }
        ((PyObject **)&names)[i] = name;
    }
    return 0;
}

struct constants constants;

static int make_constants(void)
{
    constants.newest_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
    constants.cpu = Py_BuildValue("(ii)", kDLCPU, 0);
    return PyErr_Occurred() ? -1 : 0;
}

struct python_functions python;

/* Handed down once: calls import nothing, and so work in a forked child, after os.chroot, and while Python
 * finalises. */
int take_functions(PyObject *functions)
{
    static const char *const texts[] = {PYTHON_FUNCTIONS(NAME)};
    for (int i = 0; i < COUNT_OF(texts); i++) {
        PyObject *function = PyMapping_GetItemString(functions, texts[i]);
        if (function == NULL) {
            return -1;
        }
        ((PyObject **)&python)[i] = function;
    }
    constants.export_keywords = call_python(python.export_keywords, PyTuple_New(0));
    return constants.export_keywords == NULL ? -1 : 0;
}

int python_init(PyObject *module)
{
    get_optional_attribute = find_in_python("PyObject_GetOptionalAttr", "_PyObject_LookupAttr");
    is_finalizing = find_in_python("Py_IsFinalizing", "_Py_IsFinalizing");
    attached_thread_state = find_in_python("PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet");
    vectorcall = find_in_process("PyObject_Vectorcall");
    vectorcall_method = find_in_process("PyObject_VectorcallMethod");
    if (get_optional_attribute == NULL || is_finalizing == NULL || attached_thread_state == NULL ||
        vectorcall == NULL || vectorcall_method == NULL) {
        PyErr_SetString(PyExc_ImportError, "dlpack: this Python lacks functions that CPython 3.11 and later have");
        return -1;
    }
    main_interpreter = PyInterpreterState_Get();
    atomic_store(&ending, false); /* Python may have been initialised again */
    if (make_names() < 0 || make_constants() < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "_newest_version", constants.newest_version);
}

/* True if Python's attached thread state is this thread's. In 3.11 it is that of the thread with the GIL, which all
 * interpreters share. */
static bool is_attached(PyThreadState *attached)
{
    return attached != NULL && (Py_Version >= 0x030c0000 || attached == PyGILState_GetThisThreadState());
}

static bool is_of_main(PyThreadState *attached)
{
    return Py_Version < 0x030c0000 || PyThreadState_GetInterpreter(attached) == main_interpreter;
}

bool holds_gil(void)
{
    PyThreadState *attached = attached_thread_state();
    return is_attached(attached) && is_of_main(attached) && !is_finalizing();
}

PyObject *new_none(void)
{
    Py_IncRef(Py_None);
    return Py_None;
}

bool take_gil(PyGILState_STATE *state)
{
    count_gil_takers(1);
    bool gone = !Py_IsInitialized() || is_finalizing();
    PyThreadState *attached = gone ? NULL : attached_thread_state();
    /* Taking the main interpreter's GIL while holding another one's may deadlock. */
    bool elsewhere = is_attached(attached) && !is_of_main(attached);
    if (gone || elsewhere || (atomic_load(&ending) && !holds_gil())) {
        count_gil_takers(-1);
        return false;
    }
    *state = PyGILState_Ensure();
    return true;
}

void give_gil_back(PyGILState_STATE state)
{
    PyGILState_Release(state);
    count_gil_takers(-1);
}

HOT int *begin_producer_call(bool in_python)
{
    enum { MOST_IN_PYTHON = 120, LEAST_BYTES = 512 /* of the stack for a call through Python; measured: 1,250 */ };
    size_t used, size;
    int *here = &this_thread()->producer_calls;
    if (*here >= NESTED_FREELY &&
        (!stack_has_space(*here) || (in_python && *here >= MOST_IN_PYTHON &&
                                     (!measure_stack(&used, &size) || used / LEAST_BYTES >= (size_t)*here)))) {
        PyErr_Format(PyExc_RecursionError,
                     "asdlpack: %d producers in a row name another one's memory; expected one at the end that has some",
                     *here);
        return NULL;
    }
    ++*here;
    return here;
}

HOT int optional_attribute(PyObject *obj, PyObject *name, PyObject **value)
{
    int found = get_optional_attribute(obj, name, value);
    if (*value == Py_None) {
        Py_DecRef(*value);
        *value = NULL;
        return 0;
    }
    return found;
}

HOT bool read_arguments(const struct parameters *parameters, void *values, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames)
{
    PyObject **value_of = values;
    if (nargs > parameters->positional) {
        return false;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        value_of[i] = args[i];
    }
    uint32_t given = (1u << nargs) - 1, needed = (1u << parameters->required) - 1;
    Py_ssize_t keywords = kwnames == NULL ? 0 : Py_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < keywords; i++) {
        const PyObject *name = PyTuple_GetItem(kwnames, i);
        int which = parameters->required > 0;
        while (parameters->names[which] != NULL && *parameters->names[which] != name) {
            which++;
        }
        if (parameters->names[which] == NULL || given & 1u << which) {
            return false;
        }
        value_of[which] = args[nargs + i];
        given |= 1u << which;
    }
    return (given & needed) == needed;
}

bool plain_int(PyObject *value, int64_t *into)
{
    int overflow = 1;
    if (PyLong_CheckExact(value) || PyLong_Check(value)) {
        *into = PyLong_AsLongLongAndOverflow(value, &overflow);
    }
    return overflow == 0;
}

bool plain_pair(PyObject *value, int64_t pair[2])
{
    return (PyTuple_CheckExact(value) || PyTuple_Check(value)) && Py_SIZE(value) == 2 &&
           plain_int(PyTuple_GetItem(value, 0), &pair[0]) && plain_int(PyTuple_GetItem(value, 1), &pair[1]);
}

bool plain_address(PyObject *value, uint64_t *into)
{
    if (!PyLong_CheckExact(value) && !PyLong_Check(value)) {
        return false;
    }
    *into = PyLong_AsUnsignedLongLong(value);
    bool fits = *into != UINT64_MAX || !PyErr_Occurred();
    if (!fits) {
        PyErr_Clear();
    }
    return fits;
}

HOT bool plain_ints(PyObject *value, int64_t *into, int32_t *count)
{
    if (!PyTuple_CheckExact(value) && !PyTuple_Check(value)) {
        return false;
    }
    Py_ssize_t size = Py_SIZE(value);
    *count = size > INT32_MAX ? INT32_MAX : (int32_t)size;
    bool plain = true;
    for (Py_ssize_t i = 0; i < size && i < MAX_NDIM && plain; i++) {
        plain = plain_int(PyTuple_GetItem(value, i), &into[i]);
    }
    return plain;
}

HOT bool plain_text(PyObject *value, const char **text)
{
    Py_ssize_t length;
    if (!PyUnicode_CheckExact(value) && (PyObject *)Py_TYPE(value) != python.DType) { /* a subclass may mean more */
        return false;
    }
    *text = PyUnicode_AsUTF8AndSize(value, &length);
    if (*text == NULL) {
        PyErr_Clear();
    }
    return *text != NULL && strlen(*text) == (size_t)length;
}

static PyObject *take_result(PyObject *result)
{
    if (result != NULL && PyExceptionInstance_Check(result)) {
        PyErr_SetObject((PyObject *)Py_TYPE(result), result);
        Py_CLEAR(result);
    }
    return result;
}

PyObject *call_python(PyObject *function, PyObject *args)
{
    PyObject *result = args == NULL ? NULL : PyObject_CallObject(function, args);
    drop_foreign(args);
    return take_result(result);
}

PyObject *make_call(PyObject *call)
{
    PyObject *result = call == NULL ? NULL : PyObject_CallNoArgs(call);
    Py_XDECREF(call);
    return result;
}

PyObject *read_in_python(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *reader =
        self == NULL ? Py_NewRef(function) : call_python(python.partial, PyTuple_Pack(2, function, self));
    PyObject *call = reader == NULL ? NULL : take_result(vectorcall(reader, args, nargs, kwnames));
    Py_XDECREF(reader);
    return make_call(call);
}

int check_in_python(PyObject *function, PyObject *args)
{
    PyObject *none = call_python(function, args);
    int checked = none == NULL ? -1 : 0;
    Py_DecRef(none);
    return checked;
}

int add_docs(PyMethodDef *methods)
{
    for (PyMethodDef *method = methods; method->ml_name != NULL; method++) {
        PyObject *text = call_python(python.doc, Py_BuildValue("(s)", method->ml_name)); /* never freed */
        method->ml_doc = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
        if (method->ml_doc == NULL) {
            return -1;
        }
    }
    return 0;
}

/* Mostly none is pending: the check takes 2 ns less than moving it. */
void set_aside(struct pending *pending)
{
    *pending = (struct pending){NULL};
    if (PyErr_Occurred()) {
        PyErr_Fetch(&pending->type, &pending->value, &pending->traceback);
    }
}

void put_back(const struct pending *pending)
{
    if (pending->type != NULL || PyErr_Occurred()) {
        PyErr_Restore(pending->type, pending->value, pending->traceback);
    }
}

bool is_refusal(void)
{
    return PyErr_ExceptionMatches(python.refusal_kinds) && !PyErr_ExceptionMatches(PyExc_RecursionError);
}

void drop_foreign(PyObject *object)
{
    struct pending pending;
    set_aside(&pending);
    Py_DecRef(object);
    put_back(&pending);
}

PyObject *take_exception(void)
{
    struct pending pending;
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "a call failed without an exception");
    }
    set_aside(&pending);
    PyErr_NormalizeException(&pending.type, &pending.value, &pending.traceback);
    PyException_SetTraceback(pending.value, pending.traceback == NULL ? Py_None : pending.traceback);
    Py_XDECREF(pending.type);
    Py_XDECREF(pending.traceback);
    return pending.value;
}
