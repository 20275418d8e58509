/* windows.c: Windows, besides no_check.c. It has neither forks nor signals that choose a thread.
 *
 * It is C because it must run before there is a Go runtime. */
#include "platform/platform.h"

#include <wchar.h>
#include <windows.h>

#include <psapi.h>

/* Searches all modules: the name of Python's library contains its version. */
void *find_in_process(const char *name)
{
    HMODULE modules[1024];
    DWORD bytes = 0;
    void *found = NULL;
    K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes);
    for (size_t i = 0; i < bytes / sizeof *modules && i < 1024 && found == NULL; i++) {
        found = (void *)GetProcAddress(modules[i], name);
    }
    return found;
}

bool path_beside(const char *library, char *path, size_t size)
{
    enum { MOST = 4096 };
    wchar_t here[MOST], *slash;
    HMODULE module;
    DWORD length, flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExW(flags, (const wchar_t *)path_beside, &module) ||
        (length = GetModuleFileNameW(module, here, MOST)) == 0 || length >= MOST ||
        (slash = wcsrchr(here, L'\\')) == NULL ||
        swprintf(slash + 1, MOST - (slash + 1 - here), L"%hs.dll", library) < 0) {
        return false;
    }
    return WideCharToMultiByte(CP_UTF8, 0, here, -1, path, (int)size, NULL, NULL) > 0;
}

bool measure_stack(size_t *used, size_t *size)
{
    ULONG_PTR start, end, here = (ULONG_PTR)__builtin_frame_address(0);
    GetCurrentThreadStackLimits(&start, &end);
    *used = end - here;
    *size = end - start;
    return here >= start && here < end; /* else a stack that a library made */
}

struct failure start_runtime(const char *path, const char *copy, struct core *core)
{
    static char text[512];
    wchar_t wide[4096];
    (void)copy;
    HMODULE library = MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 4096) > 0 ? LoadLibraryW(wide) : NULL;
    dlpack_core_function *entry =
        library == NULL ? NULL : (dlpack_core_function *)(void *)GetProcAddress(library, "dlpack_core");
    if (entry == NULL) {
        DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
        DWORD length = FormatMessageA(flags, NULL, GetLastError(), 0, text, sizeof text, NULL);
        text[strcspn(text, "\r\n")] = 0;
        return (struct failure){.name = "library", .text = length > 0 ? text : "LoadLibrary failed"};
    }
    entry(core);
    return (struct failure){0};
}

void call_describe(describe_function *describe, struct request *request, struct answer *answer)
{
    describe(request, answer);
}

/* These have no use on Windows. */

void forget_runtime(void)
{
}

void prepare_thread(void)
{
}

bool is_bound(void)
{
    return true;
}

void block_signals(sigset_t *before)
{
    (void)before;
}

void restore_signals(const sigset_t *before)
{
    (void)before;
}
