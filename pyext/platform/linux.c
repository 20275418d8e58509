/* linux.c: Linux with glibc.
 *
 * It is C because it must run before there is a Go runtime. */
#define _GNU_SOURCE
#include "platform/platform.h"

#include "core/limit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* What a Go runtime takes. Measured: 0.75 GB of addresses and 52 MB of private memory besides its threads; 22 to 24
     * threads with 6 processors. */
    ROOM_ADDRESSES = 928 << 20,
    ROOM_DATA = 96 << 20,
    ROOM_THREADS = 4,      /* besides up to four for each processor: three, and those that wake them */
    ROOM_ARENA = 64 << 20, /* addresses that malloc reserves for each thread, besides its stack */
    ROOM_MAPPINGS = 64,    /* besides two for each thread's stack and two for its arena; measured: 27 to 40 */
    SIGNAL_STACK = 256 << 10,
};

#define THREADS(processors) (ROOM_THREADS + 4 * (processors))

static pthread_key_t go_key; /* under which Go keeps what it binds to a thread; valid where go_key_known */
static bool go_key_known;
static pthread_key_t stack_key; /* holds the thread's signal stack, MAP_FAILED where it has another or none */
static bool has_stack_key;
static char **environment;              /* the process's first environment block, the one that Go reads */
static sigset_t signals[BLOCK_ALL + 1]; /* what each enum blocked names */

static void drop_signal_stack(void *room)
{
    stack_t stack;
    if (sigaltstack(NULL, &stack) == 0 && stack.ss_sp == room) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, NULL);
    }
    munmap(room, SIGNAL_STACK); /* not MAP_FAILED, which is no address of a page */
}

/* The loader passes main's arguments to constructors; os.environ and environ may have moved since. */
__attribute__((constructor)) static void prepare(int argc, char **argv, char **envp)
{
    static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    (void)envp;
    environment = argv + argc + 1;
    has_stack_key = pthread_key_create(&stack_key, drop_signal_stack) == 0;
    sigfillset(&signals[BLOCK_ALL]);
    sigfillset(&signals[BLOCK_ALL_BUT_FAULTS]);
    for (size_t i = 0; i < sizeof fault_signals / sizeof *fault_signals; i++) {
        sigdelset(&signals[BLOCK_ALL_BUT_FAULTS], fault_signals[i]);
    }
}

bool fail(struct failure *failure, int kind, const char *format, ...)
{
    va_list values;
    failure->kind = kind;
    size_t length = (size_t)snprintf(failure->text, sizeof failure->text, "the Go core can't start: ");
    va_start(values, format);
    vsnprintf(failure->text + length, sizeof failure->text - length, format, values);
    va_end(values);
    return false;
}

/* Libraries. */

void *find_in_process(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

bool path_beside(const char *file, char *path, size_t size)
{
    Dl_info here;
    const char *slash;
    return dladdr((void *)path_beside, &here) != 0 && (slash = strrchr(here.dli_fname, '/')) != NULL &&
           snprintf(path, size, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname, file) < (int)size;
}

static bool can_read(const char *path, struct failure *failure)
{
    int original = open(path, O_RDONLY | O_CLOEXEC);
    if (original >= 0) {
        close(original);
        return true;
    }
    if (errno == EMFILE || errno == ENFILE) {
        return true; /* the file is not to blame */
    }
    return fail(failure, CANNOT_START,
                "%.960s: %s (the process has to read this file: put it back, make it readable, or call asdlpack before "
                "the process changes its root directory or its user, in a forked child again; an application has to "
                "bring it along beside the extension, and to keep it until its last process ends)",
                path, strerror(errno));
}

void *open_library(const char *path, struct failure *failure)
{
    if (!can_read(path, failure)) {
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fail(failure, CANNOT_START, "%s", dlerror());
    }
    return library;
}

void *find_function(void *library, const char *name, struct failure *failure)
{
    void *function = dlsym(library, name);
    if (function == NULL) {
        fail(failure, CANNOT_START, "%s", dlerror());
    }
    return function;
}

enum { CAUSES = 960 };

/* Adds why one way to a copy failed. Returns NULL. */
static void *add_cause(char *causes, const char *where, const char *why)
{
    size_t length = strlen(causes);
    snprintf(causes + length, CAUSES - length, "%s%.800s: %s", length > 0 ? "; " : "", where, why);
    return NULL;
}

/* Whether a file of this one's size may be written: beyond RLIMIT_FSIZE a write raises SIGXFSZ, which Python ignores
 * and which ends the process otherwise. */
static bool may_write_as_much(int file)
{
    struct stat facts;
    struct rlimit limit;
    return fstat(file, &facts) == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && (rlim_t)facts.st_size <= limit.rlim_cur;
}

/* Copies the library's file to the descriptor. Returns NULL, or why not. */
static const char *copy_file(const char *path, int to)
{
    int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0) {
        return strerror(errno);
    }
    if (!may_write_as_much(from)) {
        close(from);
        return "a copy is larger than ulimit -f allows";
    }
    ssize_t copied;
    do {
        copied = sendfile(to, from, NULL, INT_MAX);
    } while (copied > 0);
    const char *cause = copied == 0 ? NULL : strerror(errno);
    close(from);
    return cause;
}

/* Copies the library to the descriptor, and opens that under a path by which the loader knows none yet: it would hand
 * back the library that it knows. */
static void *open_copy(const char *original, int fd, const char *path, char *causes)
{
    const char *cause = copy_file(original, fd);
    if (cause != NULL) {
        return add_cause(causes, path, cause);
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL) {
        dlclose(library);
        return add_cause(causes, path, "the loader knows another library by this path");
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library == NULL ? add_cause(causes, "dlopen", dlerror()) : library;
}

static void *open_memfd_copy(const char *original, unsigned copies, char *causes)
{
    enum { EXECUTABLE = 0x10 /* MFD_EXEC, which kernels before 6.3 refuse */ };
    int fd = memfd_create("dlpack core", MFD_CLOEXEC | EXECUTABLE);
    if (fd < 0) {
        fd = memfd_create("dlpack core", MFD_CLOEXEC);
    }
    if (fd < 0) {
        return add_cause(causes, "memfd_create", strerror(errno));
    }
    /* A /proc that was mounted for another PID namespace does not have this process under its getpid(). No earlier copy
     * was opened by this path, since it spells their number: bit by bit, as "/." and "/". */
    char path[128] = "/proc/thread-self", name[32];
    for (unsigned bits = copies; bits != 0; bits >>= 1) {
        strcat(path, bits & 1 ? "/." : "/");
    }
    snprintf(name, sizeof name, "/fd/%d", fd);
    void *library = open_copy(original, fd, strcat(path, name), causes);
    close(fd);
    return library;
}

static void *open_file_copy(const char *original, char *causes)
{
    const char *folders[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && library == NULL; i++) {
        char path[4096];
        if (folders[i] == NULL ||
            snprintf(path, sizeof path, "%s/dlpack-core-XXXXXX", folders[i]) >= (int)sizeof path) {
            continue;
        }
        int fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0) {
            add_cause(causes, folders[i], strerror(errno));
            continue;
        }
        library = open_copy(original, fd, path, causes);
        unlink(path);
        close(fd);
    }
    return library;
}

void *open_library_copy(const char *path, unsigned copies, struct failure *failure)
{
    if (!can_read(path, failure)) {
        return NULL;
    }
    char causes[CAUSES] = "";
    void *library = open_memfd_copy(path, copies, causes);
    if (library == NULL) {
        library = open_file_copy(path, causes);
    }
    if (library == NULL) {
        fail(failure, CANNOT_START,
             "after a fork it needs a copy of its file, and neither a memfd nor a temporary file could be made and "
             "executed (set TMPDIR to a folder from which files may be executed, use the spawn or forkserver start "
             "method, or call asdlpack only in the parent): %s",
             causes);
    }
    return library;
}

/* Limits. */

/* Go ends the process where it gets no memory or no thread; so what it needs is taken, all at once, and given back. */
static void *take_room(size_t bytes, int protection)
{
    return mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void give_back(void *room, size_t bytes)
{
    if (room != MAP_FAILED) {
        munmap(room, bytes);
    }
}

static void *wait_for_unlock(void *mutex)
{
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* Returns 0, or pthread_create's error. */
static int try_threads(int count)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS(MOST_CPUS + SPARE_CPUS)];
    int started = 0, error = 0;
    pthread_mutex_lock(&gate);
    while (started < count && (error = pthread_create(&threads[started], NULL, wait_for_unlock, &gate)) == 0) {
        started++;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return error;
}

static const char *threads_forbidden_by(int error)
{
    switch (error) {
    case EINVAL:
        return "after unshare(CLONE_NEWPID) a process can't start any: fork first";
    case EPERM:
        return "a filter of system calls forbids that";
    default:
        return "a limit forbids that, or their stacks (ulimit -u, -s, -d, -v; pids of the cgroup; "
               "vm.overcommit_memory; SCHED_DEADLINE)";
    }
}

int usable_cpus(void)
{
    cpu_set_t cpus;
    int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : MOST_CPUS;
    return count < MOST_CPUS ? count : MOST_CPUS;
}

/* All at once; but the mappings of the threads' stacks are given back for the threads that are started to try. */
bool have_room(int processors, struct failure *failure)
{
    int threads = THREADS(processors), stacks = 2 * threads, mappings = ROOM_MAPPINGS + 2 * threads + stacks;
    size_t reserved = ROOM_ADDRESSES + threads * (size_t)ROOM_ARENA, page = (size_t)sysconf(_SC_PAGESIZE);
    void *addresses = take_room(reserved, PROT_NONE), *data = MAP_FAILED;
    bool have = true;
    int error = 0;
    if (addresses == MAP_FAILED) {
        have = fail(failure, NO_MEMORY, "it reserves %zu MiB of address space, and a limit forbids that (%s)",
                    reserved >> 20, limit_met(errno));
    }
    else if ((data = take_room(ROOM_DATA, PROT_READ | PROT_WRITE)) == MAP_FAILED) {
        have = fail(failure, NO_MEMORY, "it maps %d MiB of private memory, and a limit forbids that (%s)",
                    ROOM_DATA >> 20, limit_met(errno));
    }
    else if (!split_mapping(addresses, page, mappings, PROT_READ)) {
        have = fail(failure, NO_MEMORY, "it makes up to %d mappings, and a limit forbids that (vm.max_map_count)",
                    mappings);
    }
    else if (mprotect(addresses, stacks * page, PROT_NONE) != 0 || (error = try_threads(threads)) != 0) {
        have = fail(failure, NO_THREADS, "it starts up to %d threads, and %s", threads, threads_forbidden_by(error));
    }
    give_back(addresses, reserved);
    give_back(data, ROOM_DATA);
    return have;
}

/* The stack. */

/* Of the main thread, glibc reads them from /proc/self/maps. */
static bool find_stack(char **start, size_t *size)
{
    pthread_attr_t attributes;
    void *found;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return false;
    }
    pthread_attr_getstack(&attributes, &found, size);
    pthread_attr_destroy(&attributes);
    *start = found;
    return true;
}

bool stack_has_room(int nested)
{
    enum { FEW = 50, MOST_FOR_MANY = 4 << 20 };
    static _Thread_local char *start;
    static _Thread_local size_t size;
    char *here = __builtin_frame_address(0);
    struct rlimit now;
    if ((start == NULL && !find_stack(&start, &size)) || here < start || here >= start + size) {
        return nested < FEW; /* no /proc, or a stack that a library made */
    }
    size_t used = start + size - here, most = size;
    if (gettid() == getpid() && getrlimit(RLIMIT_STACK, &now) == 0 && now.rlim_cur < most) {
        most = now.rlim_cur; /* it holds for the main thread as soon as it is set */
    }
    return used < most / 2 && (nested < FEW || used < MOST_FOR_MANY);
}

/* What a Go runtime does to a thread and to the process. */

enum { FAULTS = 2 };
static const int faults[FAULTS] = {SIGSEGV, SIGBUS};
static struct sigaction handlers[2][FAULTS]; /* before the core's start, and after */

void keep_fault_handlers(bool started)
{
    for (int i = 0; i < FAULTS; i++) {
        sigaction(faults[i], NULL, &handlers[started][i]);
    }
}

void restore_fault_handlers(void)
{
    struct sigaction now;
    for (int i = 0; i < FAULTS; i++) {
        if (sigaction(faults[i], NULL, &now) == 0 && now.sa_handler == handlers[true][i].sa_handler) {
            sigaction(faults[i], &handlers[false][i], NULL);
        }
    }
}

/* Calls the entry, and finds out under which key Go binds a thread that calls it: the one that gets a value. */
void call_entry(dlpack_core_function *entry, struct core *core)
{
    bool had[PTHREAD_KEYS_MAX];
    for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
        had[key] = pthread_getspecific(key) != NULL;
    }
    entry(core);
    go_key_known = false;
    for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX && !go_key_known; key++) {
        if (!had[key] && pthread_getspecific(key) != NULL) {
            go_key = key;
            go_key_known = true;
        }
    }
}

bool is_bound(void)
{
    return go_key_known && pthread_getspecific(go_key) != NULL;
}

void unbind_thread(void)
{
    if (go_key_known) {
        pthread_setspecific(go_key, NULL);
        go_key_known = false;
    }
}

/* Before its first call into Go, since Go gives a thread that has none a stack of 32 KiB, with memory of Go's below. */
void give_signal_stack(void)
{
    stack_t stack;
    void *room = MAP_FAILED;
    if (!has_stack_key || pthread_getspecific(stack_key) != NULL) {
        return;
    }
    if (sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_DISABLE) {
        room = take_room(SIGNAL_STACK, PROT_READ | PROT_WRITE);
    }
    if (pthread_setspecific(stack_key, room) != 0) {
        give_back(room, SIGNAL_STACK);
    }
    else if (room != MAP_FAILED) {
        mprotect(room, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE); /* what needs more faults */
        stack = (stack_t){.ss_sp = room, .ss_size = SIGNAL_STACK};
        sigaltstack(&stack, NULL);
    }
}

void block_signals(enum blocked which, sigset_t *before)
{
    pthread_sigmask(SIG_BLOCK, &signals[which], before);
}

void restore_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static char hidden[] = "_=";

static bool is_of_go(const char *variable)
{
    return strncmp(variable, "GO", 2) == 0;
}

/* Puts `hidden` in the place of each GO* variable. Gives these, in their order, for show_settings; NULL: no memory. */
char **hide_settings(void)
{
    size_t count = 0;
    for (char **variable = environment; *variable != NULL; variable++) {
        count += is_of_go(*variable);
    }
    char **settings = malloc((count + 1) * sizeof *settings);
    count = 0;
    for (char **variable = environment; settings != NULL && *variable != NULL; variable++) {
        if (is_of_go(*variable)) {
            settings[count++] = *variable;
            *variable = hidden;
        }
    }
    return settings;
}

void show_settings(char **settings)
{
    size_t count = 0;
    for (char **variable = environment; *variable != NULL; variable++) {
        if (*variable == hidden) {
            *variable = settings[count++];
        }
    }
    free(settings);
}
