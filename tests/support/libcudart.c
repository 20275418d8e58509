/* libcudart.c: the functions of CUDA's runtime that torch calls to tell its devices and streams, and to order two streams.
 * They call libcuda.c, which also gets torch's own calls. Preloaded, they stand before those of NVIDIA's library. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Calls a function of the driver; all its arguments are passed with 64 bits. */
#define DRIVER(name, ...) ((int (*)(uintptr_t, ...))function(name))(__VA_ARGS__)

static void *function(const char *name)
{
    static void *driver;
    if (driver == NULL) {
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    }
    return dlsym(driver, name);
}

EXPORT int cudaDriverGetVersion(int *version)
{
    *version = 99000;
    return 0;
}

EXPORT int cudaGetDeviceCount(int *count)
{
    return DRIVER("cuDeviceGetCount", (uintptr_t)count);
}

EXPORT int cudaGetDevice(int *device)
{
    return DRIVER("cuCtxGetDevice", (uintptr_t)device);
}

EXPORT int cudaSetDevice(int device)
{
    void *context = NULL;
    int result = DRIVER("cuDevicePrimaryCtxRetain", (uintptr_t)&context, device);
    return result != 0 ? result : DRIVER("cuCtxSetCurrent", (uintptr_t)context);
}

EXPORT int cudaGetDeviceProperties(void *properties, int device)
{
    return 0; /* they are 0 */
}

EXPORT int cudaGetDriverEntryPointByVersion(const char *name, void **entry, unsigned version, unsigned flags,
                                            int *status)
{
    *entry = function(name);
    return 0;
}

EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return 0;
}

EXPORT int cudaStreamIsCapturing(void *stream, int *status)
{
    return DRIVER("cuStreamIsCapturing", (uintptr_t)stream, status);
}

EXPORT int cudaStreamGetCaptureInfo(void *stream, int *status)
{
    return cudaStreamIsCapturing(stream, status);
}

EXPORT int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    return DRIVER("cuEventCreate", (uintptr_t)event, (uintptr_t)flags);
}

EXPORT int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
    return DRIVER("cuEventRecord", (uintptr_t)event, stream);
}

EXPORT int cudaEventRecord(void *event, void *stream)
{
    return DRIVER("cuEventRecord", (uintptr_t)event, stream);
}

EXPORT int cudaStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return DRIVER("cuStreamWaitEvent", (uintptr_t)stream, event, (uintptr_t)flags);
}

EXPORT int cudaEventDestroy(void *event)
{
    return DRIVER("cuEventDestroy_v2", (uintptr_t)event);
}
