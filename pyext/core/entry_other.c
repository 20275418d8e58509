//go:build !linux

/* entry_other.c: the core's entry, where no memory and no threads are kept for Go. */
#include "core.h"

extern void dlpackStart(struct core *);

void dlpack_core(struct core *core)
{
    dlpackStart(core);
}
