/* The CUDA driver API as far as it is used, for driver.go: Go can't call a C function by its address.

   Written by hand, so that no header of NVIDIA's is needed; the names and values are those of cuda.h. A call takes the
   function's address, and gives MISSING where that is NULL. What the driver returns through a pointer is returned with
   the result: no pointer into Go's memory is kept, or moves under a call. Handles are integers on Go's side, as api.go
   says. */

#ifndef DLPACK_DRIVER_H
#define DLPACK_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum { MISSING = -1 };

enum {
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
};

enum { /* CUpointer_attribute */
       CU_POINTER_ATTRIBUTE_CONTEXT = 1,
       CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
       CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
};

enum { CU_MEMORYTYPE_DEVICE = 2 };

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray, *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray, *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

struct value {
    CUresult result;
    uint64_t value;
};

struct pointer_attributes {
    CUresult result;
    uintptr_t context;
    unsigned int memory_type, managed;
    int device;
};

struct capture_info {
    CUresult result;
    int status;
    uint64_t id;
};

static inline CUresult call_cuGetErrorName(void *f, CUresult result, const char **name)
{
    return f ? ((CUresult (*)(CUresult, const char **))f)(result, name) : MISSING;
}

static inline CUresult call_cuInit(void *f)
{
    return f ? ((CUresult (*)(unsigned int))f)(0) : MISSING;
}

static inline struct value call_cuDeviceGetCount(void *f)
{
    int count = 0;
    CUresult result = f ? ((CUresult (*)(int *))f)(&count) : MISSING;
    return (struct value){result, (uint64_t)count};
}

static inline struct value call_cuDeviceGetAttribute(void *f, int attribute, CUdevice device)
{
    int value = 0;
    CUresult result = f ? ((CUresult (*)(int *, int, CUdevice))f)(&value, attribute, device) : MISSING;
    return (struct value){result, (uint64_t)value};
}

static inline struct value call_cuDevicePrimaryCtxRetain(void *f, CUdevice device)
{
    CUcontext context = NULL;
    CUresult result = f ? ((CUresult (*)(CUcontext *, CUdevice))f)(&context, device) : MISSING;
    return (struct value){result, (uintptr_t)context};
}

static inline CUresult call_cuDevicePrimaryCtxRelease(void *f, CUdevice device)
{
    return f ? ((CUresult (*)(CUdevice))f)(device) : MISSING;
}

static inline struct value call_cuDevicePrimaryCtxGetState(void *f, CUdevice device)
{
    unsigned int flags = 0;
    int active = 0;
    CUresult result = f ? ((CUresult (*)(CUdevice, unsigned int *, int *))f)(device, &flags, &active) : MISSING;
    return (struct value){result, (uint64_t)active};
}

static inline struct value call_cuCtxGetCurrent(void *f)
{
    CUcontext context = NULL;
    CUresult result = f ? ((CUresult (*)(CUcontext *))f)(&context) : MISSING;
    return (struct value){result, (uintptr_t)context};
}

static inline struct value call_cuCtxGetDevice(void *f)
{
    CUdevice device = 0;
    CUresult result = f ? ((CUresult (*)(CUdevice *))f)(&device) : MISSING;
    return (struct value){result, (uint64_t)device};
}

static inline CUresult call_cuCtxPushCurrent(void *f, uintptr_t context)
{
    return f ? ((CUresult (*)(CUcontext))f)((CUcontext)context) : MISSING;
}

static inline CUresult call_cuCtxPopCurrent(void *f)
{
    CUcontext popped;
    return f ? ((CUresult (*)(CUcontext *))f)(&popped) : MISSING;
}

static inline struct pointer_attributes call_cuPointerGetAttributes(void *f, CUdeviceptr pointer)
{
    struct pointer_attributes known = {0};
    CUcontext context = NULL;
    int attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&context, &known.memory_type, &known.managed, &known.device};
    known.result =
        f ? ((CUresult (*)(unsigned int, int *, void **, CUdeviceptr))f)(4, attributes, values, pointer) : MISSING;
    known.context = (uintptr_t)context;
    return known;
}

static inline struct value call_cuMemAlloc(void *f, size_t bytes)
{
    CUdeviceptr pointer = 0;
    CUresult result = f ? ((CUresult (*)(CUdeviceptr *, size_t))f)(&pointer, bytes) : MISSING;
    return (struct value){result, pointer};
}

static inline CUresult call_cuMemFree(void *f, CUdeviceptr pointer)
{
    return f ? ((CUresult (*)(CUdeviceptr))f)(pointer) : MISSING;
}

static inline CUresult call_cuMemcpyDtoHAsync(void *f, uintptr_t dst, CUdeviceptr src, size_t bytes, uintptr_t stream)
{
    return f ? ((CUresult (*)(void *, CUdeviceptr, size_t, CUstream))f)((void *)dst, src, bytes, (CUstream)stream)
             : MISSING;
}

static inline CUresult call_cuMemcpyHtoDAsync(void *f, CUdeviceptr dst, uintptr_t src, size_t bytes, uintptr_t stream)
{
    return f ? ((CUresult (*)(CUdeviceptr, const void *, size_t, CUstream))f)(dst, (const void *)src, bytes,
                                                                              (CUstream)stream)
             : MISSING;
}

static inline CUresult call_cuMemcpyDtoDAsync(void *f, CUdeviceptr dst, CUdeviceptr src, size_t bytes, uintptr_t stream)
{
    return f ? ((CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream))f)(dst, src, bytes, (CUstream)stream)
             : MISSING;
}

static inline CUresult call_cuMemcpyPeerAsync(void *f, CUdeviceptr dst, uintptr_t to, CUdeviceptr src, uintptr_t from,
                                              size_t bytes, uintptr_t stream)
{
    return f ? ((CUresult (*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t,
                              CUstream))f)(dst, (CUcontext)to, src, (CUcontext)from, bytes, (CUstream)stream)
             : MISSING;
}

static inline CUresult call_cuMemcpy3DAsync(void *f, const CUDA_MEMCPY3D *copy, uintptr_t stream)
{
    return f ? ((CUresult (*)(const CUDA_MEMCPY3D *, CUstream))f)(copy, (CUstream)stream) : MISSING;
}

static inline struct value call_cuStreamCreate(void *f)
{
    CUstream stream = NULL;
    CUresult result = f ? ((CUresult (*)(CUstream *, unsigned int))f)(&stream, CU_STREAM_NON_BLOCKING) : MISSING;
    return (struct value){result, (uintptr_t)stream};
}

static inline CUresult call_cuStreamDestroy(void *f, uintptr_t stream)
{
    return f ? ((CUresult (*)(CUstream))f)((CUstream)stream) : MISSING;
}

static inline struct value call_cuStreamGetCtx(void *f, uintptr_t stream)
{
    CUcontext context = NULL;
    CUresult result = f ? ((CUresult (*)(CUstream, CUcontext *))f)((CUstream)stream, &context) : MISSING;
    return (struct value){result, (uintptr_t)context};
}

static inline CUresult call_cuStreamWaitEvent(void *f, uintptr_t stream, uintptr_t event)
{
    return f ? ((CUresult (*)(CUstream, CUevent, unsigned int))f)((CUstream)stream, (CUevent)event, 0) : MISSING;
}

static inline CUresult call_cuStreamSynchronize(void *f, uintptr_t stream)
{
    return f ? ((CUresult (*)(CUstream))f)((CUstream)stream) : MISSING;
}

static inline struct value call_cuStreamIsCapturing(void *f, uintptr_t stream)
{
    int status = 0;
    CUresult result = f ? ((CUresult (*)(CUstream, int *))f)((CUstream)stream, &status) : MISSING;
    return (struct value){result, (uint64_t)status};
}

static inline struct capture_info call_cuStreamGetCaptureInfo(void *f, uintptr_t stream)
{
    struct capture_info info = {0};
    info.result =
        f ? ((CUresult (*)(CUstream, int *, uint64_t *, void *, void *, size_t *))f)((CUstream)stream, &info.status,
                                                                                     &info.id, NULL, NULL, NULL)
          : MISSING;
    return info;
}

static inline struct value call_cuThreadExchangeStreamCaptureMode(void *f, int mode)
{
    CUresult result = f ? ((CUresult (*)(int *))f)(&mode) : MISSING;
    return (struct value){result, (uint64_t)mode};
}

static inline struct value call_cuEventCreate(void *f)
{
    CUevent event = NULL;
    CUresult result = f ? ((CUresult (*)(CUevent *, unsigned int))f)(&event, CU_EVENT_DISABLE_TIMING) : MISSING;
    return (struct value){result, (uintptr_t)event};
}

static inline CUresult call_cuEventRecord(void *f, uintptr_t event, uintptr_t stream)
{
    return f ? ((CUresult (*)(CUevent, CUstream))f)((CUevent)event, (CUstream)stream) : MISSING;
}

static inline CUresult call_cuEventDestroy(void *f, uintptr_t event)
{
    return f ? ((CUresult (*)(CUevent))f)((CUevent)event) : MISSING;
}

#endif
