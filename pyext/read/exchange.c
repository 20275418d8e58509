/* exchange.c: takes an object's tensor by the C exchange API of its type, which takes a tenth of the time of a __dlpack__
 * that is written in Python.
 *
 * It is C because that API is. dlpack._delegate knows the types, and what their __dlpack__ refuses and this API doesn't. */
#include "read/read.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A type whose API may be called. Never freed, and keeps its references, so that no other type can take its
 * address. Functions are called with the object; None if the type needs none. */
struct exchange {
    PyTypeObject *type;
    const DLPackExchangeAPI *api;     /* of any version; by dlpack.h it lives as long as the process */
    PyObject *dlpack, *dlpack_device; /* the library's own; if the type has others now, they are asked */
    PyObject *overrides;              /* true if something replaces the methods of the object */
    PyObject *attribute, *refused;    /* __dlpack__ refuses an object whose attribute has this value */
    PyObject *conjugate;              /* true of complex items that __dlpack__ refuses */
    PyObject *negative;               /* true if the items are stored negated, which __dlpack__ forgets */
    PyObject *on_cpu;                 /* an attribute: True if the memory is the CPU's; None: ask __dlpack_device__ */
    PyObject *pinned;                 /* true of CPU memory that __dlpack_device__ calls a GPU's */
    PyObject *cuda_device;            /* __dlpack__ refuses memory on CUDA devices other than this; None: ask it */
};

enum { TYPES = 8, OTHERS = 64 };
static _Atomic(struct exchange *) exchanges[TYPES];
static _Atomic(PyTypeObject *) others[OTHERS]; /* types that were looked at; a dead one's address may be a new one's */

static struct exchange *remember(PyTypeObject *type, PyObject *capsule)
{
    const DLPackExchangeAPI *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    PyObject *checks = api == NULL ? NULL : call_python(python.exchange_checks, PyTuple_Pack(1, type));
    if (checks == NULL || checks == Py_None) {
        Py_DecRef(checks);
        return NULL;
    }
    struct exchange *made = malloc(sizeof *made);
    if (made == NULL) {
        Py_DECREF(checks);
        PyErr_NoMemory();
        return NULL;
    }
    *made = (struct exchange){.type = (PyTypeObject *)Py_NewRef((PyObject *)type), .api = api};
    PyObject **fields[] = {&made->dlpack,  &made->dlpack_device, &made->overrides, &made->attribute,
                           &made->refused, &made->conjugate,     &made->negative,  &made->on_cpu,
                           &made->pinned,  &made->cuda_device};
    for (int i = 0; i < COUNT_OF(fields); i++) {
        *fields[i] = PyTuple_GetItem(checks, i); /* the tuple is kept */
    }
    for (int i = 0; i < TYPES; i++) {
        struct exchange *place = NULL;
        if (atomic_compare_exchange_strong(&exchanges[i], &place, made)) {
            return made;
        }
        if (place->type == type) { /* another thread was faster */
            break;
        }
    }
    Py_DECREF((PyObject *)type);
    Py_DECREF(checks);
    free(made);
    return NULL;
}

/* Clears a pending refusal: the method, which is asked then, says it in its own words. -1: another exception. */
static int clear_refusal(void)
{
    if (!PyErr_Occurred()) {
        return 0;
    }
    if (!is_refusal()) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

HOT const struct exchange *known_exchange(PyObject *obj)
{
    for (int i = 0; i < TYPES; i++) {
        struct exchange *known = atomic_load_explicit(&exchanges[i], memory_order_acquire);
        if (known == NULL || known->type == Py_TYPE(obj)) {
            return known;
        }
    }
    return NULL;
}

int find_exchange(PyObject *obj, const struct exchange **exchange)
{
    PyTypeObject *type = Py_TYPE(obj);
    *exchange = NULL;
    _Atomic(PyTypeObject *) *other = &others[((uintptr_t)type >> 4) % OTHERS];
    if (atomic_load_explicit(other, memory_order_relaxed) == type) {
        return 0;
    }
    PyObject *capsule;
    int found = optional_attribute((PyObject *)type, names.dlpack_c_exchange_api, &capsule);
    if (found > 0) {
        *exchange = remember(type, capsule);
        drop_foreign(capsule);
    }
    if (*exchange == NULL && !PyErr_Occurred()) {
        atomic_store_explicit(other, type, memory_order_relaxed);
    }
    return clear_refusal();
}

/* Returns the API, or the one before it, that has this header's major version. NULL: there is none. */
static const DLPackExchangeAPI *of_this_version(const DLPackExchangeAPI *api)
{
    while (api != NULL && api->header.version.major > DLPACK_MAJOR_VERSION) {
        api = (const DLPackExchangeAPI *)api->header.prev_api;
    }
    return api != NULL && api->header.version.major == DLPACK_MAJOR_VERSION ? api : NULL;
}

HOT const DLPackExchangeAPI *exchange_api_in(PyObject *capsule)
{
    return of_this_version(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
}

/* True unless the answer is False, or after an error, which is left to __dlpack__. Steals the answer. */
HOT static bool says_true(PyObject *answer)
{
    Py_XDECREF(answer);
    return answer != Py_False;
}

/* Returns the API of a type whose method is still `own`, if nothing replaces it for the object. NULL: ask the method;
 * an exception may be pending. */
HOT static const DLPackExchangeAPI *api_for(const struct exchange *exchange, PyObject *obj, PyObject *name,
                                            const PyObject *own)
{
    PyObject *method;
    optional_attribute((PyObject *)exchange->type, name, &method);
    Py_XDECREF(method);
    if (method != own ||
        (exchange->overrides != Py_None && says_true(vectorcall(exchange->overrides, &obj, 1, NULL)))) {
        return NULL;
    }
    return of_this_version(exchange->api);
}

/* Refuses an object whose items are stored negated: its __dlpack__ would give other values. -1: error. */
static int refuse_negative(const struct exchange *exchange, PyObject *obj)
{
    PyObject *answer = exchange->negative == Py_None ? NULL : vectorcall(exchange->negative, &obj, 1, NULL);
    Py_XDECREF(answer);
    return answer == Py_True ? check_in_python(python.refuse_in_words, Py_BuildValue("(s)", "negative-bit"))
                             : clear_refusal();
}

int check_negative(const struct exchange *exchange, PyObject *obj)
{
    bool is_known = api_for(exchange, obj, names.dlpack, exchange->dlpack) != NULL;
    return clear_refusal() < 0 || (is_known && refuse_negative(exchange, obj) < 0) ? -1 : 0;
}

void delete_exchanged(DLManagedTensorVersioned *managed)
{
    struct hold hold = {.holding = HOLDS_VERSIONED, .managed = managed};
    give_back(&hold);
}

/* True if __dlpack__ would export this tensor as it is. */
HOT static bool is_exportable(const struct exchange *exchange, PyObject *obj, const DLManagedTensorVersioned *managed)
{
    return managed->version.major == DLPACK_MAJOR_VERSION && managed->dl_tensor.data != NULL &&
           managed->dl_tensor.byte_offset == 0 &&
           (managed->dl_tensor.dtype.code != kDLComplex || exchange->conjugate == Py_None ||
            !says_true(vectorcall(exchange->conjugate, &obj, 1, NULL)));
}

/* Reads the library's current stream for the memory's device; the CPU has none. false: ask __dlpack__ for memory on this
 * device. */
static bool find_stream(const struct exchange *exchange, const DLPackExchangeAPI *api, DLDevice device, int64_t *stream)
{
    void *current = NULL;
    int64_t id;
    *stream = STREAM_LEGACY;
    if (device.device_type == kDLCPU) {
        return true;
    }
    if (device.device_type != kDLCUDA || exchange->cuda_device == Py_None || api->current_work_stream == NULL) {
        return false;
    }
    PyObject *answer = vectorcall(exchange->cuda_device, NULL, 0, NULL);
    bool is_current = answer != NULL && plain_int(answer, &id) && id == device.device_id;
    Py_XDECREF(answer);
    if (!is_current || api->current_work_stream(device.device_type, device.device_id, &current) != 0) {
        return false;
    }
    if (current != NULL) {
        *stream = (int64_t)(uintptr_t)current;
    }
    return true;
}

HOT int exchange_tensor(const struct exchange *exchange, PyObject *obj, DLManagedTensorVersioned **managed,
                        int64_t *stream)
{
    *managed = NULL;
    const DLPackExchangeAPI *api = api_for(exchange, obj, names.dlpack, exchange->dlpack);
    if (api != NULL && refuse_negative(exchange, obj) < 0) {
        return -1;
    }
    PyObject *value = api == NULL ? NULL : PyObject_GetAttr(obj, exchange->attribute);
    Py_XDECREF(value);
    int status = -1;
    if (value != NULL && value != exchange->refused && api->managed_tensor_from_py_object_no_sync != NULL) {
        status = api->managed_tensor_from_py_object_no_sync(obj, managed);
    }
    bool taken = status == 0 && *managed != NULL && !PyErr_Occurred() && is_exportable(exchange, obj, *managed) &&
                 find_stream(exchange, api, (*managed)->dl_tensor.device, stream);
    if (!taken && status == 0 && *managed != NULL) {
        delete_exchanged(*managed);
    }
    return taken ? 1 : clear_refusal();
}

HOT int exchange_is_on_cpu(const struct exchange *exchange, PyObject *obj)
{
    PyObject *value = NULL;
    /* Not by the API's dltensor_from_py_object_no_sync, which makes torch copy memory that is copied on write. */
    if (exchange->on_cpu != Py_None && api_for(exchange, obj, names.dlpack_device, exchange->dlpack_device) != NULL) {
        value = PyObject_GetAttr(obj, exchange->on_cpu);
        Py_XDECREF(value);
    }
    bool is =
        value == Py_True && (exchange->pinned == Py_None || !says_true(vectorcall(exchange->pinned, &obj, 1, NULL)));
    return is ? 1 : clear_refusal();
}

static void destroy_exchanged(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, capsule_versioned)) {
        delete_exchanged(PyCapsule_GetPointer(capsule, capsule_versioned));
    }
}

HOT PyObject *exchanged_capsule(DLManagedTensorVersioned *managed)
{
    PyObject *capsule = PyCapsule_New(managed, capsule_versioned, destroy_exchanged);
    if (capsule == NULL) {
        delete_exchanged(managed);
    }
    return capsule;
}
