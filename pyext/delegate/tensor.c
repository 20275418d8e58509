/* tensor.c: the tensor of a DLPackObject, which a delegate imports when it is first needed.
 *
 * It is C because attributes and exports ask for it each time. */
#include "delegate/delegate.h"

#include <stdatomic.h>

DLPackObject *tensor_of(DLPackObject *self)
{
    if (!self->delegate) {
        return self;
    }
    DLPackObject *kept = self->imported;
    if (kept == NULL) {
        DLPackObject *imported = delegate_import(self);
        if (imported == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(&self->imported, &kept, imported)) {
            return imported;
        }
        Py_DECREF((PyObject *)imported); /* another thread, or the producer, came here, and the first import stays */
    }
    return kept;
}

DLPackObject *ordered_tensor_of(DLPackObject *self)
{
    DLPackObject *holder = tensor_of(self);
    if (holder == NULL || !self->delegate || !is_of_cuda(holder->tensor.device) || holds_memory(holder)) {
        return holder;
    }
    return delegate_order(self) < 0 ? NULL : holder;
}

DLPackObject *cpu_tensor_of(DLPackObject *self)
{
    DLPackObject *holder = tensor_of(self);
    if (holder == NULL || holder->tensor.device.device_type == kDLCPU) {
        return holder;
    }
    if (!holder->on_cpu) {
        object_refuse(holder, holder->tensor.device.device_type == kDLCUDA ? "on CUDA" : "on a GPU");
        return NULL;
    }
    static const DLDevice cpu = {kDLCPU, 0};
    DLPackObject *waited = ordered_tensor_of(self) == NULL ? NULL : object_on(holder, &cpu, COPY_NEVER);
    Py_XDECREF((PyObject *)waited);
    return waited == NULL ? NULL : holder;
}

DLPackObject *object_on(DLPackObject *self, const DLDevice *device, enum copy copy)
{
    struct terms terms = {.copy = copy};
    DLDevice here = self->tensor.device;
    if (device != NULL) {
        if (self->delegate && delegate_device(self, &here) < 0) {
            return NULL;
        }
        terms.has_target = !same_device(here, *device);
        terms.target = *device;
    }
    if (!terms.has_target && copy != COPY_ALWAYS) {
        return (DLPackObject *)Py_NewRef((PyObject *)self);
    }
    if (terms.has_target && self->delegate) {
        return delegate_move(self, here, &terms);
    }
    DLPackObject *tensor = ordered_tensor_of(self);
    return tensor == NULL ? NULL : object_meeting(tensor, &terms);
}
