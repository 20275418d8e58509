/* capsule.c: reads the tensor of a DLPack capsule, by the rules of DLPack's Python specification, and that of the result
 * of to_dlpack().
 *
 * It is C because capsules and managed tensors are C. */
#include "read/read.h"

#include <string.h>

const char capsule_legacy[] = "dltensor";
const char capsule_versioned[] = "dltensor_versioned";
const char capsule_used_legacy[] = "used_dltensor";
const char capsule_used_versioned[] = "used_dltensor_versioned";

int check_version(DLPackVersion version)
{
    if (version.major == DLPACK_MAJOR_VERSION) {
        return 0;
    }
    return check_in_python(python.refuse_in_words,
                           Py_BuildValue("(sIIiO)", "dlpack-version", version.major, version.minor,
                                         DLPACK_MAJOR_VERSION, constants.newest_version));
}

/* If the major version is another one, only the version may be read. */
int read_managed(struct reading *reading, void *managed, bool versioned)
{
    const DLManagedTensorVersioned *tensor = managed;
    reading->hold->managed = managed;
    reading->hold->holding = versioned ? HOLDS_VERSIONED : HOLDS_LEGACY;
    reading->lent = true;
    if (versioned && check_version(tensor->version) < 0) {
        return -1;
    }
    if (versioned) {
        reading->version = tensor->version;
        reading->readonly = (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    }
    request_tensor(&reading->request, versioned ? &tensor->dl_tensor : &((DLManagedTensor *)managed)->dl_tensor,
                   versioned ? tensor->flags : 0);
    reading->request.producer_stream = reading->stream;
    return 1;
}

/* Returns the struct of a capsule that was not consumed. NULL: error. */
static void *managed_of(struct reading *reading, PyObject *capsule, bool *versioned)
{
    const char *name = PyCapsule_GetName(capsule);
    *versioned = name != NULL && strcmp(name, capsule_versioned) == 0;
    if (!*versioned && (name == NULL || strcmp(name, capsule_legacy) != 0)) {
        check_in_python(python.capsule_name, Py_BuildValue("(yss)", name, capsule_legacy, capsule_versioned));
        return NULL;
    }
    /* A legacy capsule can't say that its memory is read-only, as jax's is: so assume it, as numpy does. */
    reading->readonly = !*versioned;
    if (reading->protocol == NULL) {
        reading->protocol = *versioned ? capsule_versioned : capsule_legacy;
    }
    return PyCapsule_GetPointer(capsule, name);
}

int read_capsule(struct reading *reading, PyObject *capsule)
{
    void *managed;
    bool versioned;
    int renamed = -1;
    Py_BEGIN_CRITICAL_SECTION(capsule);
    managed = managed_of(reading, capsule, &versioned);
    if (managed != NULL) { /* no other thread can take it now */
        renamed = PyCapsule_SetName(capsule, versioned ? capsule_used_versioned : capsule_used_legacy);
    }
    Py_END_CRITICAL_SECTION();
    return renamed < 0 ? -1 : read_managed(reading, managed, versioned);
}

void return_capsule(PyObject *capsule)
{
    Py_BEGIN_CRITICAL_SECTION(capsule);
    bool versioned = PyCapsule_IsValid(capsule, capsule_used_versioned);
    if (versioned || PyCapsule_IsValid(capsule, capsule_used_legacy)) {
        PyCapsule_SetName(capsule, versioned ? capsule_versioned : capsule_legacy);
    }
    Py_END_CRITICAL_SECTION();
}

int read_to_dlpack(struct reading *reading, PyObject *Py_UNUSED(ignored))
{
    PyObject *method;
    /* Ask the type: a proxy, such as dask's Delayed, has an attribute of any name. */
    int found = optional_attribute((PyObject *)Py_TYPE(reading->obj), names.to_dlpack, &method);
    if (found <= 0) {
        return found;
    }
    Py_DECREF(method);
    PyObject *capsule = vectorcall_method(names.to_dlpack, &reading->obj, 1, NULL);
    if (capsule == NULL) {
        return -1;
    }
    found = -1;
    if (PyCapsule_CheckExact(capsule)) {
        found = read_capsule(reading, capsule);
        reading->lent = false; /* the capsule goes now */
    }
    else {
        check_in_python(python.no_capsule, PyTuple_Pack(3, reading->obj, names.to_dlpack, capsule));
    }
    drop_foreign(capsule);
    return found;
}
