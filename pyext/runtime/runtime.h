/* runtime.h: the room that starts the Go core when it is first needed. Errors: NULL or -1 with an exception set. */
#ifndef DLPACK_RUNTIME_H
#define DLPACK_RUNTIME_H

#include "platform/platform.h"
#include "python/python.h"

/* dlpack._dlpack._start_copy: starts the core from `path`, a copy of its file. Returns the fields of a struct
 * failure. */
PyObject *start_copy(PyObject *module, PyObject *path);

/* Finds the core's file and installs the fork handlers. Called once per import; the first request starts the core. */
int start_init(void);

/* Gives the core more processors, once, before the first call that lets other Python threads run: else a call that
 * waits for its memory would keep others from the core. Does nothing if a limit forbids it. */
void grow_core(void);

/* Returns the core's describe; starts the core first if none runs. NULL: it can't start. */
describe_function *running_core(void);

#endif
