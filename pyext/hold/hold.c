/* hold.c: releases what keeps memory alive.
 *
 * It is C because a release runs on any thread, at any time, and must work without Go. */
#include "hold/hold.h"

bool holds_memory(const struct hold *hold)
{
    return hold->holding == HOLDS_MEMORY || hold->holding == HOLDS_DEVICE;
}

HOT void hold_release(struct hold *hold)
{
    int held = hold->holding;
    hold->holding = HOLDS_NOTHING;
    switch (held) {
    case HOLDS_VIEW:
        PyBuffer_Release(&hold->view);
        break;
    case HOLDS_OBJECT:
        Py_CLEAR(hold->object);
        break;
    case HOLDS_LEGACY:
        if (hold->legacy->deleter != NULL) {
            hold->legacy->deleter(hold->legacy);
        }
        break;
    case HOLDS_VERSIONED:
        if (hold->versioned->deleter != NULL) {
            hold->versioned->deleter(hold->versioned);
        }
        break;
    case HOLDS_MEMORY:
        free_aligned(hold->memory);
        break;
    case HOLDS_DEVICE:
        free_device_memory(hold->memory);
        break;
    }
}

void give_back(struct hold *hold)
{
    struct pending pending;
    set_aside(&pending);
    hold_release(hold);
    put_back(&pending);
}

int hold_traverse(const struct hold *hold, visitproc visit, void *arg)
{
    if (hold->holding == HOLDS_VIEW) {
        Py_VISIT(hold->view.obj);
    }
    else if (hold->holding == HOLDS_OBJECT) {
        Py_VISIT(hold->object);
    }
    return 0;
}
