/* hold.h: the room of what keeps memory alive, and gives it back. It knows no DLPackObject. */
#ifndef DLPACK_HOLD_H
#define DLPACK_HOLD_H

#include "ask/ask.h"

/* Owns one of these, or nothing. */
struct hold {
    enum { HOLDS_NOTHING, HOLDS_VIEW, HOLDS_OBJECT, HOLDS_LEGACY, HOLDS_VERSIONED, HOLDS_MEMORY, HOLDS_DEVICE } holding;
    union {
        Py_buffer view; /* filled in its place: its shape may point into itself */
        PyObject *object;
        void *managed; /* one of the next two */
        DLManagedTensor *legacy;
        DLManagedTensorVersioned *versioned;
        void *memory; /* from allocate_aligned, or a struct device_memory */
    };
};

/* True if it owns memory of its own: a copy. */
bool holds_memory(const struct hold *hold);

/* Releases what it owns. Exporters and deleters are foreign code, which a pending exception has to outlive: set it aside
 * before, or call give_back, which does so. */
void hold_release(struct hold *hold);
void give_back(struct hold *hold);

/* Visits what it owns for the garbage collector. */
int hold_traverse(const struct hold *hold, visitproc visit, void *arg);

#endif
