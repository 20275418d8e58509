/* libcuda.c: a CUDA driver for tests, without a GPU. It has the entry points that dlpack calls and those that libraries
 * make memory, streams and captures with, and says what NVIDIA's documentation says that they say.
 *
 * Three devices. Their memory is reserved addresses, which the CPU can't touch; the bytes are elsewhere (fake_bytes).
 * Work that is queued on a stream is done only when something waits for it: if a wait is missing, values are wrong
 * each time. Misuse that may be an error in a real driver is always one here.
 *
 * The functions fake_* are the tests' own. -DcuStreamGetCtx=other makes a driver without that function. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* CUresult */
#define RESULTS(X)                                                                                                     \
    X(SUCCESS, 0)                                                                                                      \
    X(ERROR_INVALID_VALUE, 1)                                                                                          \
    X(ERROR_OUT_OF_MEMORY, 2)                                                                                          \
    X(ERROR_NOT_INITIALIZED, 3)                                                                                        \
    X(ERROR_DEINITIALIZED, 4)                                                                                          \
    X(ERROR_INVALID_DEVICE, 101)                                                                                       \
    X(ERROR_INVALID_CONTEXT, 201)                                                                                      \
    X(ERROR_ECC_UNCORRECTABLE, 214)                                                                                    \
    X(ERROR_INVALID_HANDLE, 400)                                                                                       \
    X(ERROR_NOT_READY, 600)                                                                                            \
    X(ERROR_ILLEGAL_ADDRESS, 700)                                                                                      \
    X(ERROR_CONTEXT_IS_DESTROYED, 709)                                                                                 \
    X(ERROR_LAUNCH_FAILED, 719)                                                                                        \
    X(ERROR_NOT_SUPPORTED, 801)                                                                                        \
    X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                                           \
    X(ERROR_STREAM_CAPTURE_INVALIDATED, 901)                                                                           \
    X(ERROR_STREAM_CAPTURE_MERGE, 902)                                                                                 \
    X(ERROR_STREAM_CAPTURE_UNJOINED, 904)                                                                              \
    X(ERROR_STREAM_CAPTURE_ISOLATION, 905)                                                                             \
    X(ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                                                              \
    X(ERROR_CAPTURED_EVENT, 907)                                                                                       \
    X(ERROR_TIMEOUT, 909)                                                                                              \
    X(ERROR_UNKNOWN, 999)

#define CONSTANT(name, value) name = value,
typedef enum { RESULTS(CONSTANT) } CUresult;

enum { DEVICES = 3, DEPTH = 64, MAX_PITCH = 1 << 20 };
enum { MEMORY_TYPE_HOST = 1, MEMORY_TYPE_DEVICE = 2, MEMORY_TYPE_UNIFIED = 4 }; /* CU_MEMORYTYPE_* */
enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };                          /* CU_STREAM_CAPTURE_MODE_* */
enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED };                     /* CU_STREAM_CAPTURE_STATUS_* */
static const size_t total_memory = (size_t)1 << 30;                             /* of each device */

typedef unsigned long long CUdeviceptr;

/* CUcontext, CUstream, CUevent. A handle is an address, read without a check, as by a real driver. Destroyed objects
 * stay readable, and are marked dead. */
struct object {
    enum kind { CONTEXT = 0x43545821, STREAM = 0x53545221, EVENT = 0x45564e21 } kind;
    int number;
    bool dead;
    struct context *context;
    struct object *next;
};

struct context {
    struct object object;
    int device;
    int retained; /* of a primary context */
};

struct capture {
    unsigned long long id;
    int mode, status;
    bool ended;
    int thread;
};

struct stream {
    struct object object;
    enum { CREATED, LEGACY, PER_THREAD } role;
    int thread; /* where PER_THREAD */
    bool nonblocking;
    struct capture *capture;
    int captured; /* operations in the capture */
    bool joined;  /* another stream waits for all of them */
};

struct event {
    struct object object;
    unsigned long long recorded; /* the number of the work, 0: none */
    struct capture *capture;     /* NULL: recorded outside of one */
    struct stream *stream;
    int captured;
};

struct memory {
    CUdeviceptr address;
    uint8_t *bytes;
    size_t size;
    enum { PLAIN, MANAGED, HOST, REGISTERED, POOL } kind;
    int number, device;
    struct context *context;
    struct memory *next;
};

/* Work on a stream, in the order of all streams: a block of bytes that is filled or copied (a record: none) when what
 * it waits for is done. */
struct work {
    unsigned long long number, waits_for;
    struct stream *stream;
    uint8_t *to;
    const uint8_t *from; /* NULL: filled with value */
    int value;
    size_t width, height, depth, to_pitch, to_slice, from_pitch, from_slice;
    struct work *next;
};

/* cuda.h's, written out a second time: taken from pkg/cuda/driver.h, a mistake in that would go unseen. */
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

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pid_t process; /* that called cuInit */
static struct object *objects;
static struct memory *memories;
static struct work *queue;
static struct context *primary[DEVICES];
static size_t used[DEVICES];

static _Thread_local struct context *stack[DEPTH];
static _Thread_local int depth, mode;

/* A number that no other thread ever has. */
static int this_thread(void)
{
    static int last;
    static _Thread_local int number;
    if (number == 0) {
        number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    }
    return number;
}

/* The log, and calls that are made to fail or to wait. */

static char *text;
static size_t text_length, text_size;
static int text_copy = -1;

static struct {
    const char *name; /* NULL: any function */
    int nth, count;
    CUresult result;
} failure;
static _Thread_local CUresult planned;

static struct {
    const char *name;
    sem_t reached, resumed;
} pause_at;

static const char *result_name(CUresult result)
{
#define NAME(name, value)                                                                                              \
    case value:                                                                                                        \
        return "CUDA_" #name;
    switch (result) {
        RESULTS(NAME)
    }
    return NULL;
}

/* Lives until eight more are made. */
static char *print(const char *format, ...)
{
    static _Thread_local char texts[8][64];
    static _Thread_local int next;
    char *text = texts[next++ % 8];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof texts[0], format, arguments);
    va_end(arguments);
    return text;
}

/* "s1", "e2", "c3", "primary0"; the numbers of the default streams. */
static const char *name_of(const void *handle)
{
    if ((uintptr_t)handle <= 2) {
        return print("%d", (int)(uintptr_t)handle);
    }
    const struct object *object = handle;
    switch (object->kind) {
    case CONTEXT:
        return object->number ? print("c%d", object->number)
                              : print("primary%d", ((const struct context *)handle)->device);
    case STREAM:
        return print("s%d", object->number);
    case EVENT:
        return print("e%d", object->number);
    }
    return "?";
}

static struct memory *find_memory(CUdeviceptr address)
{
    struct memory *memory = memories;
    while (memory != NULL && address - memory->address >= memory->size) {
        memory = memory->next;
    }
    return memory;
}

/* "m1", "m1+8"; "host" for what no function here allocated. */
static const char *memory_name(CUdeviceptr address)
{
    const struct memory *memory = find_memory(address);
    if (memory == NULL) {
        return "host";
    }
    size_t offset = address - memory->address;
    return offset == 0 ? print("m%d", memory->number) : print("m%d+%zu", memory->number, offset);
}

static void write_log(const char *line)
{
    size_t length = strlen(line);
    if (text_length + length + 1 > text_size) {
        text_size = 2 * (text_length + length + 1);
        text = realloc(text, text_size);
    }
    memcpy(text + text_length, line, length + 1);
    text_length += length;
    if (text_copy >= 0 && write(text_copy, line, length) < 0) {
        abort();
    }
}

static CUresult check_context(void)
{
    if (depth == 0) {
        return ERROR_INVALID_CONTEXT;
    }
    return stack[depth - 1]->object.dead ? ERROR_CONTEXT_IS_DESTROYED : SUCCESS;
}

static bool is_to_fail(const char *name)
{
    if (failure.count == 0 || (failure.name != NULL && strcmp(failure.name, name) != 0) || --failure.nth > 0) {
        return false;
    }
    failure.count--;
    return true;
}

/* Waits where fake_pause says so. False: for too long. */
static bool pass_pause(const char *name)
{
    const char *paused = __atomic_load_n(&pause_at.name, __ATOMIC_ACQUIRE);
    if (paused == NULL || strcmp(paused, name) != 0) {
        return true;
    }
    __atomic_store_n(&pause_at.name, NULL, __ATOMIC_RELEASE);
    sem_post(&pause_at.reached);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    int waited;
    do {
        waited = sem_timedwait(&pause_at.resumed, &end);
    } while (waited != 0 && errno == EINTR);
    return waited == 0;
}

/* The mutex is held between begin and end. FAILS_LATE: functions that release something, or wait, do so even if they
 * fail, since a real driver may return an error of earlier work from them. */
enum { ANYTIME = 1, IN_CONTEXT = 2, FAILS_LATE = 4 };

static CUresult begin(const char *name, int flags)
{
    bool resumed = pass_pause(name);
    pthread_mutex_lock(&mutex);
    planned = SUCCESS;
    if (!resumed) {
        return ERROR_TIMEOUT;
    }
    if (is_to_fail(name)) {
        if (!(flags & FAILS_LATE)) {
            return failure.result;
        }
        planned = failure.result;
    }
    if (!(flags & ANYTIME) && process != getpid()) {
        return ERROR_NOT_INITIALIZED;
    }
    return flags & IN_CONTEXT ? check_context() : SUCCESS;
}

static _Thread_local char arguments[256];

static void print_arguments(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(arguments, sizeof arguments, format, values);
    va_end(values);
}

static CUresult end(const char *name, CUresult result)
{
    char line[512];
    if (result == SUCCESS) {
        result = planned;
    }
    const char *known = result == SUCCESS ? "" : result_name(result);
    snprintf(line, sizeof line, "%s(%s)%s%s\n", name, arguments, result == SUCCESS ? "" : " = ",
             known != NULL ? known : print("%d", result));
    write_log(line);
    pthread_mutex_unlock(&mutex);
    return result;
}

/* A function of the driver, whose body follows: it runs unless the call fails before. Then come the flags, the
 * parameters with their types and without, and how the arguments are logged. */
#define DRIVER(name, flags, parameters, values, ...)                                                                   \
    static CUresult do_##name parameters;                                                                              \
    CUresult name parameters                                                                                           \
    {                                                                                                                  \
        CUresult result = begin(#name, flags);                                                                         \
        print_arguments(__VA_ARGS__);                                                                                  \
        return end(#name, result == SUCCESS ? do_##name values : result);                                              \
    }                                                                                                                  \
    static CUresult do_##name parameters

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        CUresult tried = (call);                                                                                       \
        if (tried != SUCCESS) {                                                                                        \
            return tried;                                                                                              \
        }                                                                                                              \
    } while (0)

/* Objects. */

static void *new_object(enum kind kind, size_t size, struct context *context, int number)
{
    struct object *object = calloc(1, size);
    *object = (struct object){.kind = kind, .number = number, .context = context, .next = objects};
    objects = object;
    return object;
}

static void kill_object(struct object *dying)
{
    dying->dead = true;
    for (struct object **object = &objects; *object != NULL; object = &(*object)->next) {
        if (*object == dying) {
            *object = dying->next;
            return;
        }
    }
}

static CUresult check_object(const void *handle, enum kind kind)
{
    const struct object *object = handle;
    if (object == NULL || object->kind != kind) {
        return kind == CONTEXT ? ERROR_INVALID_CONTEXT : ERROR_INVALID_HANDLE;
    }
    if (kind == CONTEXT ? object->dead : object->context->object.dead) {
        return ERROR_CONTEXT_IS_DESTROYED;
    }
    return object->dead ? ERROR_INVALID_HANDLE : SUCCESS;
}

static struct context *new_context(int device, int number)
{
    struct context *context = new_object(CONTEXT, sizeof *context, NULL, number);
    context->device = device;
    return context;
}

static struct stream *default_stream(struct context *context, bool legacy)
{
    for (struct object *object = objects; object != NULL; object = object->next) {
        struct stream *stream = (struct stream *)object;
        if (object->kind == STREAM && object->context == context && stream->role != CREATED &&
            (legacy ? stream->role == LEGACY : stream->role == PER_THREAD && stream->thread == this_thread())) {
            return stream;
        }
    }
    struct stream *stream = new_object(STREAM, sizeof *stream, context, 0);
    stream->role = legacy ? LEGACY : PER_THREAD;
    stream->thread = this_thread();
    return stream;
}

/* Finds a stream by its handle, or a default stream of the current context by its number. */
static CUresult find_stream(void *handle, struct stream **stream)
{
    if ((uintptr_t)handle <= 2) {
        TRY(check_context());
        *stream = default_stream(stack[depth - 1], (uintptr_t)handle != 2);
        return SUCCESS;
    }
    *stream = handle;
    return check_object(handle, STREAM);
}

/* Work. */

static void invalidate(struct capture *capture)
{
    capture->status = CAPTURE_INVALIDATED;
}

/* The legacy stream waits for the blocking streams of its context, and they for it. */
static bool follows(const struct stream *stream, const struct stream *other)
{
    return stream == other || (stream->object.context == other->object.context && !stream->nonblocking &&
                               !other->nonblocking && (stream->role == LEGACY || other->role == LEGACY));
}

static struct work *next_before(const struct work *work)
{
    struct work *other = queue;
    while (other != work && !follows(work->stream, other->stream) && other->number != work->waits_for) {
        other = other->next;
    }
    return other;
}

static void run(struct work *work)
{
    struct work *other;
    while ((other = next_before(work)) != work) {
        run(other);
    }
    for (size_t z = 0; z < work->depth; z++) {
        for (size_t y = 0; y < work->height; y++) {
            uint8_t *to = work->to + z * work->to_slice + y * work->to_pitch;
            if (work->from == NULL) {
                memset(to, work->value, work->width);
            }
            else {
                memmove(to, work->from + z * work->from_slice + y * work->from_pitch, work->width);
            }
        }
    }
    struct work **place = &queue;
    while (*place != work) {
        place = &(*place)->next;
    }
    *place = work->next;
    free(work);
}

/* Does what is queued on a stream, or on a device. */
static void complete(const struct stream *stream, int device)
{
    struct work *work = queue;
    while (work != NULL) {
        bool waited = stream == NULL
                          ? work->stream->object.context->device == device
                          : work->stream == stream || (stream->role == LEGACY && follows(stream, work->stream));
        if (waited) {
            run(work);
            work = queue;
        }
        else {
            work = work->next;
        }
    }
}

/* The legacy stream can't be used while a blocking stream of its context captures. */
static struct capture *implicit_capture(const struct stream *stream)
{
    if (stream->role != LEGACY) {
        return NULL;
    }
    for (struct object *object = objects; object != NULL; object = object->next) {
        struct stream *other = (struct stream *)object;
        if (object->kind == STREAM && object->context == stream->object.context && !other->nonblocking &&
            other->capture != NULL) {
            return other->capture;
        }
    }
    return NULL;
}

static CUresult check_use(const struct stream *stream)
{
    struct capture *capture = implicit_capture(stream);
    if (capture != NULL) {
        invalidate(capture);
        return ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return stream->capture != NULL && stream->capture->status == CAPTURE_INVALIDATED ? ERROR_STREAM_CAPTURE_INVALIDATED
                                                                                     : SUCCESS;
}

/* Invalidates captures that forbid potentially unsafe calls (defined by cuThreadExchangeStreamCaptureMode). */
static CUresult check_safe(void)
{
    CUresult result = SUCCESS;
    for (struct object *object = objects; object != NULL; object = object->next) {
        struct capture *capture = object->kind == STREAM ? ((struct stream *)object)->capture : NULL;
        if (capture != NULL && mode != MODE_RELAXED &&
            (capture->thread == this_thread() ? capture->mode != MODE_RELAXED
                                              : mode == MODE_GLOBAL && capture->mode == MODE_GLOBAL)) {
            invalidate(capture);
            result = ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

static CUresult enqueue(struct stream *stream, struct work work, unsigned long long *number)
{
    static unsigned long long last;
    TRY(check_use(stream));
    if (stream->capture != NULL) {
        stream->captured++;
        stream->joined = false;
        return SUCCESS;
    }
    struct work *added = malloc(sizeof *added);
    *added = work;
    added->stream = stream;
    added->number = ++last;
    added->next = NULL;
    struct work **place = &queue;
    while (*place != NULL) {
        place = &(*place)->next;
    }
    *place = added;
    if (number != NULL) {
        *number = added->number;
    }
    return SUCCESS;
}

/* Memory. */

static CUresult allocate(CUdeviceptr *address, size_t size, int kind, struct context *context, int device)
{
    static int last;
    if (size == 0) {
        return ERROR_INVALID_VALUE;
    }
    if (size > total_memory - used[device]) {
        return ERROR_OUT_OF_MEMORY;
    }
    struct memory *memory = calloc(1, sizeof *memory);
    memory->size = size;
    memory->kind = kind;
    memory->device = device;
    memory->context = context;
    memory->number = ++last;
    memory->bytes = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    memset(memory->bytes, 0xcd, size < 65536 ? size : 65536);
    memory->address = (CUdeviceptr)(uintptr_t)memory->bytes;
    if (kind == PLAIN || kind == POOL) {
        memory->address = (uintptr_t)mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    memory->next = memories;
    memories = memory;
    used[device] += size;
    *address = memory->address;
    return SUCCESS;
}

static void release(struct memory *memory)
{
    for (const struct work *work = queue; work != NULL; work = work->next) {
        if (work->depth != 0 && ((size_t)(work->to - memory->bytes) < memory->size ||
                                 (work->from != NULL && (size_t)(work->from - memory->bytes) < memory->size))) {
            fprintf(stderr, "m%d is freed while work on it is queued\n", memory->number);
            abort();
        }
    }
    struct memory **place = &memories;
    while (*place != memory) {
        place = &(*place)->next;
    }
    *place = memory->next;
    if (memory->kind == PLAIN || memory->kind == POOL) {
        munmap((void *)(uintptr_t)memory->address, memory->size);
    }
    if (memory->kind != REGISTERED) {
        used[memory->device] -= memory->size;
        free(memory->bytes);
    }
    free(memory);
}

/* Returns the bytes at an address of a device; NULL unless that device (-1: any) has all of them. */
static uint8_t *device_bytes(CUdeviceptr address, size_t size, int device)
{
    const struct memory *memory = find_memory(address);
    if (memory == NULL || size > memory->size - (address - memory->address) ||
        (device >= 0 && memory->device != device && (memory->kind == PLAIN || memory->kind == POOL))) {
        return NULL;
    }
    return memory->bytes + (address - memory->address);
}

static uint8_t *host_bytes(const void *address)
{
    const struct memory *memory = find_memory((uintptr_t)address);
    return memory != NULL && (memory->kind == PLAIN || memory->kind == POOL) ? NULL : (uint8_t *)address;
}

static CUresult copy(void *handle, uint8_t *to, const uint8_t *from, size_t size)
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    return to == NULL || from == NULL
               ? ERROR_INVALID_VALUE
               : enqueue(stream, (struct work){.to = to, .from = from, .width = size, .height = 1, .depth = 1}, NULL);
}

static int stream_device(void *handle)
{
    struct stream *stream;
    return find_stream(handle, &stream) == SUCCESS ? stream->object.context->device : -1;
}

/* The driver's functions: the process and its devices. */

DRIVER(cuInit, ANYTIME, (unsigned flags), (flags), "%u", flags)
{
    if (process != 0 && process != getpid()) {
        return ERROR_NOT_INITIALIZED;
    }
    process = getpid();
    return flags != 0 ? ERROR_INVALID_VALUE : SUCCESS;
}

DRIVER(cuGetErrorName, ANYTIME, (CUresult error, const char **name), (error, name), "%d", error)
{
    *name = result_name(error);
    return *name == NULL ? ERROR_INVALID_VALUE : SUCCESS;
}

DRIVER(cuGetErrorString, ANYTIME, (CUresult error, const char **text), (error, text), "%d", error)
{
    return cuGetErrorName(error, text);
}

DRIVER(cuDeviceGetCount, 0, (int *count), (count), "")
{
    *count = DEVICES;
    return SUCCESS;
}

static CUresult check_device(int device)
{
    return device < 0 || device >= DEVICES ? ERROR_INVALID_DEVICE : SUCCESS;
}

DRIVER(cuDeviceGetAttribute, 0, (int *value, int attribute, int device), (value, attribute, device), "%d, %d",
       attribute, device)
{
    TRY(check_device(device));
    *value = MAX_PITCH;
    return attribute == 11 /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */ ? SUCCESS : ERROR_INVALID_VALUE;
}

/* Contexts. */

/* Destroys a context and all that belongs to it. */
static void destroy(struct context *context)
{
    complete(NULL, context->device);
    struct memory *memory = memories;
    while (memory != NULL) {
        struct memory *next = memory->next;
        if (memory->context == context) {
            release(memory);
        }
        memory = next;
    }
    struct object *object = objects;
    while (object != NULL) {
        struct object *next = object->next;
        if (object->context == context) {
            kill_object(object);
        }
        object = next;
    }
    kill_object(&context->object);
}

DRIVER(cuDevicePrimaryCtxRetain, 0, (struct context * *context, int device), (context, device), "%d", device)
{
    TRY(check_device(device));
    if (primary[device] == NULL) {
        primary[device] = new_context(device, 0);
    }
    primary[device]->retained++;
    *context = primary[device];
    return SUCCESS;
}

DRIVER(cuDevicePrimaryCtxRelease_v2, FAILS_LATE, (int device), (device), "%d", device)
{
    TRY(check_device(device));
    if (primary[device] == NULL) {
        return ERROR_INVALID_CONTEXT;
    }
    if (--primary[device]->retained == 0) {
        destroy(primary[device]);
        primary[device] = NULL;
    }
    return SUCCESS;
}

DRIVER(cuDevicePrimaryCtxGetState, 0, (int device, unsigned *flags, int *active), (device, flags, active), "%d", device)
{
    TRY(check_device(device));
    *flags = 0;
    *active = primary[device] != NULL;
    return SUCCESS;
}

DRIVER(cuCtxCreate_v2, 0, (struct context * *context, unsigned flags, int device), (context, flags, device), "%u, %d",
       flags, device)
{
    static int last;
    *context = stack[depth++] = new_context(device, ++last);
    return SUCCESS;
}

DRIVER(cuCtxDestroy_v2, FAILS_LATE, (struct context * context), (context), "%s", name_of(context))
{
    destroy(context);
    return SUCCESS;
}

DRIVER(cuCtxGetCurrent, 0, (struct context * *context), (context), "")
{
    *context = depth == 0 ? NULL : stack[depth - 1];
    return SUCCESS;
}

DRIVER(cuCtxGetDevice, IN_CONTEXT, (int *device), (device), "")
{
    *device = stack[depth - 1]->device;
    return SUCCESS;
}

DRIVER(cuCtxSetCurrent, 0, (struct context * context), (context), "%s", name_of(context))
{
    depth -= depth > 0;
    if (context != NULL) {
        stack[depth++] = context;
    }
    return SUCCESS;
}

DRIVER(cuCtxPushCurrent_v2, 0, (struct context * context), (context), "%s", name_of(context))
{
    TRY(check_object(context, CONTEXT));
    stack[depth++] = context;
    return SUCCESS;
}

DRIVER(cuCtxPopCurrent_v2, FAILS_LATE, (struct context * *context), (context), "%s",
       name_of(depth == 0 ? NULL : stack[depth - 1]))
{
    if (depth == 0) {
        return ERROR_INVALID_CONTEXT;
    }
    depth--;
    if (context != NULL) {
        *context = stack[depth];
    }
    return SUCCESS;
}

/* Memory. */

static CUresult attribute_of(const struct memory *memory, int attribute, void *data)
{
    static const struct memory nothing;
    bool on_host = memory != NULL && (memory->kind == HOST || memory->kind == REGISTERED ||
                                      (memory->kind == MANAGED && memory->number % 2 == 0)); /* its pages move */
    int type = memory == NULL ? 0 : on_host ? MEMORY_TYPE_HOST : MEMORY_TYPE_DEVICE;
    memory = memory == NULL ? &nothing : memory;
    switch (attribute) {
    case 1: /* CU_POINTER_ATTRIBUTE_CONTEXT */
        *(struct context **)data = memory->context;
        return SUCCESS;
    case 2: /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
        *(int *)data = type;
        return SUCCESS;
    case 8: /* CU_POINTER_ATTRIBUTE_IS_MANAGED */
        *(int *)data = memory->kind == MANAGED;
        return SUCCESS;
    case 9: /* CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
        *(int *)data = memory->device;
        return SUCCESS;
    }
    return ERROR_INVALID_VALUE;
}

DRIVER(cuPointerGetAttribute, 0, (void *data, int attribute, CUdeviceptr address), (data, attribute, address), "%d, %s",
       attribute, memory_name(address))
{
    const struct memory *memory = find_memory(address);
    return memory == NULL ? ERROR_INVALID_VALUE : attribute_of(memory, attribute, data);
}

DRIVER(cuPointerGetAttributes, 0, (unsigned count, int *attributes, void **data, CUdeviceptr address),
       (count, attributes, data, address), "%s", memory_name(address))
{
    for (unsigned i = 0; i < count; i++) {
        TRY(attribute_of(find_memory(address), attributes[i], data[i]));
    }
    return SUCCESS;
}

static CUresult allocate_here(CUdeviceptr *address, size_t size, int kind)
{
    TRY(check_safe());
    return allocate(address, size, kind, stack[depth - 1], stack[depth - 1]->device);
}

DRIVER(cuMemAlloc_v2, IN_CONTEXT, (CUdeviceptr * address, size_t size), (address, size), "%zu", size)
{
    return allocate_here(address, size, PLAIN);
}

DRIVER(cuMemAllocManaged, IN_CONTEXT, (CUdeviceptr * address, size_t size, unsigned flags), (address, size, flags),
       "%zu, %u", size, flags)
{
    return allocate_here(address, size, MANAGED);
}

DRIVER(cuMemHostAlloc, IN_CONTEXT, (CUdeviceptr * address, size_t size, unsigned flags), (address, size, flags),
       "%zu, %u", size, flags)
{
    return allocate_here(address, size, HOST);
}

DRIVER(cuMemHostRegister_v2, IN_CONTEXT, (void *pointer, size_t size, unsigned flags), (pointer, size, flags),
       "%zu, %u", size, flags)
{
    struct memory *memory = calloc(1, sizeof *memory);
    *memory = (struct memory){
        .address = (uintptr_t)pointer,
        .bytes = pointer,
        .size = size,
        .kind = REGISTERED,
        .device = stack[depth - 1]->device,
        .context = stack[depth - 1],
        .next = memories,
    };
    memories = memory;
    return SUCCESS;
}

/* Allocates from the device's pool: no context owns that memory. */
DRIVER(cuMemAllocAsync, IN_CONTEXT, (CUdeviceptr * address, size_t size, void *handle), (address, size, handle),
       "%zu, %s", size, name_of(handle))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    return allocate(address, size, POOL, NULL, stream->object.context->device);
}

/* Frees memory of a device when that is idle, and memory of its pool at once. */
DRIVER(cuMemFree_v2, IN_CONTEXT | FAILS_LATE, (CUdeviceptr address), (address), "%s", memory_name(address))
{
    struct memory *memory = find_memory(address);
    if (memory == NULL || memory->address != address || memory->kind == REGISTERED || memory->kind == HOST) {
        return ERROR_INVALID_VALUE;
    }
    TRY(check_safe());
    if (memory->kind != POOL) {
        complete(NULL, memory->device);
    }
    release(memory);
    return SUCCESS;
}

DRIVER(cuMemGetInfo_v2, IN_CONTEXT, (size_t *available, size_t *total), (available, total), "")
{
    *total = total_memory;
    *available = total_memory - used[stack[depth - 1]->device];
    return SUCCESS;
}

/* Copies. */

DRIVER(cuMemcpyDtoHAsync_v2, IN_CONTEXT, (void *to, CUdeviceptr from, size_t size, void *stream),
       (to, from, size, stream), "%s, %s, %zu, %s", memory_name((uintptr_t)to), memory_name(from), size,
       name_of(stream))
{
    return copy(stream, host_bytes(to), device_bytes(from, size, stream_device(stream)), size);
}

DRIVER(cuMemcpyHtoDAsync_v2, IN_CONTEXT, (CUdeviceptr to, const void *from, size_t size, void *stream),
       (to, from, size, stream), "%s, %s, %zu, %s", memory_name(to), memory_name((uintptr_t)from), size,
       name_of(stream))
{
    return copy(stream, device_bytes(to, size, stream_device(stream)), host_bytes(from), size);
}

DRIVER(cuMemcpyDtoDAsync_v2, IN_CONTEXT, (CUdeviceptr to, CUdeviceptr from, size_t size, void *stream),
       (to, from, size, stream), "%s, %s, %zu, %s", memory_name(to), memory_name(from), size, name_of(stream))
{
    int device = stream_device(stream);
    return copy(stream, device_bytes(to, size, device), device_bytes(from, size, device), size);
}

static bool belongs(CUdeviceptr address, const struct context *context)
{
    const struct memory *memory = find_memory(address);
    return memory != NULL && (memory->context == NULL || memory->context == context);
}

DRIVER(cuMemcpyPeerAsync, IN_CONTEXT,
       (CUdeviceptr to, struct context *to_context, CUdeviceptr from, struct context *from_context, size_t size,
        void *stream),
       (to, to_context, from, from_context, size, stream), "%s, %s, %s, %s, %zu, %s", memory_name(to),
       name_of(to_context), memory_name(from), name_of(from_context), size, name_of(stream))
{
    TRY(check_object(to_context, CONTEXT));
    TRY(check_object(from_context, CONTEXT));
    if (!belongs(to, to_context) || !belongs(from, from_context)) {
        return ERROR_INVALID_VALUE;
    }
    return copy(stream, device_bytes(to, size, to_context->device), device_bytes(from, size, from_context->device),
                size);
}

/* Returns the first byte of one side of a block; NULL if it breaks the documented rules. */
static uint8_t *block_bytes(int type, const void *host, CUdeviceptr address, size_t x, size_t y, size_t z, size_t pitch,
                            size_t height, const CUDA_MEMCPY3D *block, int device)
{
    if (((block->Height > 1 || block->Depth > 1) && pitch < x + block->WidthInBytes) ||
        (block->Depth > 1 && height < y + block->Height)) {
        return NULL;
    }
    size_t begin = (z * height + y) * pitch + x;
    size_t size = ((block->Depth - 1) * height + block->Height - 1) * pitch + block->WidthInBytes;
    switch (type) {
    case MEMORY_TYPE_HOST:
        return host_bytes((const char *)host + begin);
    case MEMORY_TYPE_DEVICE:
    case MEMORY_TYPE_UNIFIED:
        return device_bytes(address + begin, size, device);
    }
    return NULL;
}

DRIVER(cuMemcpy3DAsync_v2, IN_CONTEXT, (const CUDA_MEMCPY3D *block, void *handle), (block, handle),
       "%s, %s, %zux%zux%zu, %s",
       memory_name(block->dstMemoryType == MEMORY_TYPE_HOST ? (uintptr_t)block->dstHost : block->dstDevice),
       memory_name(block->srcMemoryType == MEMORY_TYPE_HOST ? (uintptr_t)block->srcHost : block->srcDevice),
       block->Depth, block->Height, block->WidthInBytes, name_of(handle))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    int device = stream->object.context->device;
    struct work work = {
        .to = block_bytes(block->dstMemoryType, block->dstHost, block->dstDevice, block->dstXInBytes, block->dstY,
                          block->dstZ, block->dstPitch, block->dstHeight, block, device),
        .from = block_bytes(block->srcMemoryType, block->srcHost, block->srcDevice, block->srcXInBytes, block->srcY,
                            block->srcZ, block->srcPitch, block->srcHeight, block, device),
        .width = block->WidthInBytes,
        .height = block->Height,
        .depth = block->Depth,
        .to_pitch = block->dstPitch,
        .to_slice = block->dstPitch * block->dstHeight,
        .from_pitch = block->srcPitch,
        .from_slice = block->srcPitch * block->srcHeight,
    };
    bool good = work.to != NULL && work.from != NULL && block->WidthInBytes > 0 && block->Height > 0 &&
                block->Depth > 0 && block->reserved0 == NULL && block->reserved1 == NULL &&
                block->srcPitch <= MAX_PITCH && block->dstPitch <= MAX_PITCH && block->srcLOD == 0 &&
                block->dstLOD == 0;
    return good ? enqueue(stream, work, NULL) : ERROR_INVALID_VALUE;
}

/* Streams and events. */

DRIVER(cuStreamCreate, IN_CONTEXT, (struct stream * *created, unsigned flags), (created, flags), "%u", flags)
{
    static int last;
    *created = new_object(STREAM, sizeof **created, stack[depth - 1], ++last);
    (*created)->nonblocking = flags & 1;
    return flags > 1 ? ERROR_INVALID_VALUE : SUCCESS;
}

DRIVER(cuStreamDestroy_v2, IN_CONTEXT | FAILS_LATE, (struct stream * stream), (stream), "%s", name_of(stream))
{
    TRY(check_object(stream, STREAM));
    kill_object(&stream->object);
    return SUCCESS;
}

DRIVER(cuStreamGetCtx, 0, (void *handle, struct context **context), (handle, context), "%s", name_of(handle))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    *context = stream->object.context;
    return SUCCESS;
}

DRIVER(cuStreamSynchronize, IN_CONTEXT | FAILS_LATE, (void *handle), (handle), "%s", name_of(handle))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    TRY(check_use(stream));
    if (stream->capture != NULL) {
        invalidate(stream->capture);
        return ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    TRY(check_safe());
    complete(stream, -1);
    return SUCCESS;
}

/* Nothing is done by itself: also what waits for nothing is not ready before something has waited for it. */
DRIVER(cuStreamQuery, IN_CONTEXT, (void *handle), (handle), "%s", name_of(handle))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    for (const struct work *work = queue; work != NULL; work = work->next) {
        if (work->stream == stream) {
            return ERROR_NOT_READY;
        }
    }
    return SUCCESS;
}

DRIVER(cuStreamWaitEvent, IN_CONTEXT, (void *handle, struct event *event, unsigned flags), (handle, event, flags),
       "%s, %s", name_of(handle), name_of(event))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    TRY(check_object(event, EVENT));
    TRY(check_use(stream));
    if (flags != 0) {
        return ERROR_INVALID_VALUE;
    }
    if (event->capture == NULL) {
        if (stream->capture != NULL) {
            invalidate(stream->capture);
            return ERROR_STREAM_CAPTURE_ISOLATION;
        }
        return enqueue(stream, (struct work){.waits_for = event->recorded}, NULL);
    }
    if (event->capture->ended) {
        return ERROR_CAPTURED_EVENT;
    }
    if (event->capture->status == CAPTURE_INVALIDATED) {
        return ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (stream->role == LEGACY) {
        invalidate(event->capture);
        return ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture != NULL && stream->capture != event->capture) {
        invalidate(stream->capture);
        invalidate(event->capture);
        return ERROR_STREAM_CAPTURE_MERGE;
    }
    stream->capture = event->capture;
    if (event->stream != stream && event->captured == event->stream->captured) {
        event->stream->joined = true;
    }
    return enqueue(stream, (struct work){0}, NULL);
}

DRIVER(cuEventCreate, IN_CONTEXT, (struct event * *created, unsigned flags), (created, flags), "%u", flags)
{
    static int last;
    *created = new_object(EVENT, sizeof **created, stack[depth - 1], ++last);
    return SUCCESS;
}

DRIVER(cuEventRecord, IN_CONTEXT, (struct event * event, void *handle), (event, handle), "%s, %s", name_of(event),
       name_of(handle))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    TRY(check_object(event, EVENT));
    if (stream->object.context != event->object.context) {
        return ERROR_INVALID_HANDLE;
    }
    TRY(enqueue(stream, (struct work){0}, &event->recorded));
    event->capture = stream->capture;
    event->stream = stream;
    event->captured = stream->captured;
    return SUCCESS;
}

DRIVER(cuEventDestroy_v2, IN_CONTEXT | FAILS_LATE, (struct event * event), (event), "%s", name_of(event))
{
    TRY(check_object(event, EVENT));
    kill_object(&event->object);
    return SUCCESS;
}

/* Captures. */

DRIVER(cuThreadExchangeStreamCaptureMode, *exchanged == MODE_RELAXED ? 0 : FAILS_LATE, (int *exchanged), (exchanged),
       "%d", *exchanged)
{
    int before = mode;
    mode = *exchanged;
    *exchanged = before;
    return mode < MODE_GLOBAL || mode > MODE_RELAXED ? ERROR_INVALID_VALUE : SUCCESS;
}

DRIVER(cuStreamBeginCapture_v2, IN_CONTEXT, (void *handle, int capture_mode), (handle, capture_mode), "%s, %d",
       name_of(handle), capture_mode)
{
    static unsigned long long last;
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    stream->capture = calloc(1, sizeof *stream->capture);
    *stream->capture = (struct capture){
        .id = ++last,
        .mode = capture_mode,
        .status = CAPTURE_ACTIVE,
        .thread = this_thread(),
    };
    return SUCCESS;
}

DRIVER(cuStreamEndCapture, IN_CONTEXT, (void *handle, void **graph), (handle, graph), "%s", name_of(handle))
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    struct capture *capture = stream->capture;
    CUresult result = capture->status == CAPTURE_INVALIDATED ? ERROR_STREAM_CAPTURE_INVALIDATED : SUCCESS;
    capture->ended = true;
    for (struct object *object = objects; object != NULL; object = object->next) {
        struct stream *other = (struct stream *)object;
        if (object->kind == STREAM && other->capture == capture) {
            if (result == SUCCESS && other != stream && !other->joined) {
                result = ERROR_STREAM_CAPTURE_UNJOINED;
            }
            other->capture = NULL;
        }
    }
    *graph = result == SUCCESS ? capture : NULL;
    return result;
}

static CUresult look_at_capture(void *handle, int *status, unsigned long long *id)
{
    struct stream *stream;
    TRY(find_stream(handle, &stream));
    if (implicit_capture(stream) != NULL) {
        return ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    *status = stream->capture == NULL ? CAPTURE_NONE : stream->capture->status;
    if (id != NULL && *status == CAPTURE_ACTIVE) {
        *id = stream->capture->id;
    }
    return SUCCESS;
}

DRIVER(cuStreamIsCapturing, IN_CONTEXT, (void *handle, int *status), (handle, status), "%s", name_of(handle))
{
    return look_at_capture(handle, status, NULL);
}

DRIVER(cuStreamGetCaptureInfo_v2, IN_CONTEXT,
       (void *handle, int *status, unsigned long long *id, void **graph, const void **dependencies, size_t *count),
       (handle, status, id, graph, dependencies, count), "%s", name_of(handle))
{
    if (graph != NULL || dependencies != NULL || count != NULL) {
        return ERROR_NOT_SUPPORTED; /* by this driver */
    }
    return look_at_capture(handle, status, id);
}

/* The tests' own functions. */

/* Kernels: one fills, one copies. */
CUresult fake_launch(void *handle, CUdeviceptr to, int value, size_t size)
{
    pthread_mutex_lock(&mutex);
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result == SUCCESS) {
        struct work work = {.to = device_bytes(to, size, -1), .value = value, .width = size, .height = 1, .depth = 1};
        result = work.to == NULL ? ERROR_ILLEGAL_ADDRESS : enqueue(stream, work, NULL);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult fake_launch_copy(void *handle, CUdeviceptr to, CUdeviceptr from, size_t size)
{
    pthread_mutex_lock(&mutex);
    CUresult result = copy(handle, device_bytes(to, size, -1), device_bytes(from, size, -1), size);
    pthread_mutex_unlock(&mutex);
    return result;
}

/* Returns the bytes of a device's memory, without waiting for queued work. */
void *fake_bytes(CUdeviceptr address)
{
    pthread_mutex_lock(&mutex);
    void *bytes = device_bytes(address, 1, -1);
    pthread_mutex_unlock(&mutex);
    return bytes;
}

/* A line a call, in the order of their ends, since fake_clear. It is valid until the next call. */
const char *fake_log(void)
{
    return text_length == 0 ? "" : text;
}

void fake_clear(void)
{
    pthread_mutex_lock(&mutex);
    text_length = 0;
    pthread_mutex_unlock(&mutex);
}

/* Also writes the log to a file from now on. */
void fake_copy_log(int descriptor)
{
    text_copy = descriptor;
}

/* The nth next call of a function (NULL: of any) fails, and those after it up to this count. */
void fake_fail(const char *name, int nth, int count, CUresult result)
{
    pthread_mutex_lock(&mutex);
    free((char *)failure.name);
    failure.name = name == NULL ? NULL : strdup(name);
    failure.nth = nth;
    failure.count = count;
    failure.result = result;
    pthread_mutex_unlock(&mutex);
}

/* How many of them are still to come. */
int fake_failures_left(void)
{
    return failure.count;
}

/* The next call of a function waits for fake_resume, and returns CUDA_ERROR_TIMEOUT if that does not come. */
void fake_pause(const char *name)
{
    sem_init(&pause_at.reached, 0, 0);
    sem_init(&pause_at.resumed, 0, 0);
    __atomic_store_n(&pause_at.name, strdup(name), __ATOMIC_RELEASE);
}

void fake_wait_paused(void)
{
    while (sem_wait(&pause_at.reached) != 0) {
    }
}

void fake_resume(void)
{
    sem_post(&pause_at.resumed);
}

struct live {
    int allocations, events, streams, retained; /* of the process */
    int orphans;                                /* copies on streams that are gone */
    int pushed, mode;                           /* of this thread */
};

void fake_live(struct live *live)
{
    pthread_mutex_lock(&mutex);
    *live = (struct live){.pushed = depth, .mode = mode};
    for (const struct memory *memory = memories; memory != NULL; memory = memory->next) {
        live->allocations++;
    }
    for (const struct object *object = objects; object != NULL; object = object->next) {
        live->events += object->kind == EVENT;
        live->streams += object->kind == STREAM && ((const struct stream *)object)->role == CREATED;
    }
    for (const struct work *work = queue; work != NULL; work = work->next) {
        live->orphans += work->depth > 0 && work->stream->object.dead;
    }
    for (int i = 0; i < DEVICES; i++) {
        live->retained += primary[i] == NULL ? 0 : primary[i]->retained;
    }
    pthread_mutex_unlock(&mutex);
}

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void keep_forks_whole(void)
{
    pthread_atfork(lock, unlock, unlock);
}
