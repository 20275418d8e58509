/* capsule.c: takes over the tensor of a DLPack capsule, as the Python specification of DLPack tells consumers.
 *
 * It is C because capsules and deleters are C. */
#include "extension.h"

#include <string.h>

const char capsule_legacy[] = "dltensor";
const char capsule_versioned[] = "dltensor_versioned";
const char capsule_used_legacy[] = "used_dltensor";
const char capsule_used_versioned[] = "used_dltensor_versioned";

static int refuse_name(const char *name)
{
    if (name != NULL && (strcmp(name, capsule_used_legacy) == 0 || strcmp(name, capsule_used_versioned) == 0)) {
        PyErr_Format(
            PyExc_ValueError,
            "capsule \"%s\": it was consumed before, and a capsule is consumed once (ask its producer for another, or "
            "keep what asdlpack gave: that can be exported any number of times)",
            name);
    }
    else {
        PyErr_Format(PyExc_ValueError, "capsule \"%.100s\": expected the name \"%s\" or \"%s\"",
                     name == NULL ? "" : name, capsule_legacy, capsule_versioned);
    }
    return -1;
}

/* Reads the managed tensor; of another major version only the version may be read. */
static int read_managed(DLPackObject *self, void *managed, bool versioned, struct request *request)
{
    if (!versioned) {
        /* It can't say whether its memory may be written: jax's must not. So it may not, as in numpy. */
        self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
        request_tensor(request, &((DLManagedTensor *)managed)->dl_tensor, 0);
        return 0;
    }
    const DLManagedTensorVersioned *tensor = managed;
    if (tensor->version.major != DLPACK_MAJOR_VERSION) {
        PyErr_Format(PyExc_BufferError, "DLPack version %u.%u: expected 1.x (ask the producer with max_version=(1, 3))",
                     tensor->version.major, tensor->version.minor);
        return -1;
    }
    self->flags |= tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    request_tensor(request, &tensor->dl_tensor, tensor->flags);
    return 0;
}

int take_capsule(DLPackObject *self, PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (name == NULL && PyErr_Occurred()) {
        return -1;
    }
    bool versioned = name != NULL && strcmp(name, capsule_versioned) == 0;
    if (!versioned && (name == NULL || strcmp(name, capsule_legacy) != 0)) {
        return refuse_name(name);
    }
    void *managed = PyCapsule_GetPointer(capsule, name);
    struct request request;
    /* Renamed first: from here on no other thread can take it. */
    if (managed == NULL || PyCapsule_SetName(capsule, versioned ? capsule_used_versioned : capsule_used_legacy) < 0) {
        return -1;
    }
    if (read_managed(self, managed, versioned, &request) < 0 || object_describe(self, &request) < 0) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyCapsule_SetName(capsule, name);
        PyErr_Restore(type, value, traceback);
        return -1;
    }
    if (self->protocol == NULL) {
        self->protocol = versioned ? capsule_versioned : capsule_legacy;
    }
    object_hold_managed(self, managed, versioned);
    return 0;
}
