/* start.c: starts the Go core when it is first needed, and afresh in a forked child.
 *
 * It is C because it must run before there is a Go runtime, and where the one inherited through fork is dead. */
#define _GNU_SOURCE
#include "extension.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CORE_FILE "_core.so"

enum {
    /* What a Go runtime takes. Measured: 0.75 GB of addresses and 52 MB of private memory besides its threads; 22 to 24
     * threads with 6 processors. */
    ROOM_ADDRESSES = 832 << 20,
    ROOM_DATA = 96 << 20,
    ROOM_THREADS = 4,      /* besides up to four for each processor: three, and those that wake them */
    ROOM_ARENA = 64 << 20, /* addresses that malloc reserves for each thread, besides its stack */
    LEAST_PROCESSORS = 2,  /* where a limit forbids more */
};

#define THREADS(processors) (ROOM_THREADS + 4 * (processors))

static _Atomic(describe_function *) describe_in_go;          /* NULL: no core runs in this process */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* held through a start, and through a fork */
static bool opened;          /* a core was opened in this process or in one that it was forked from */
static pthread_key_t go_key; /* under which Go keeps what it binds to a thread; valid where go_key_known */
static bool go_key_known;
static char **environment;   /* the process's first environment block, the one that Go reads */
static char core_path[4096]; /* beside this library */

/* The loader passes main's arguments to constructors; os.environ and environ may have moved since. */
__attribute__((constructor)) static void find_environment(int argc, char **argv, char **envp)
{
    (void)envp;
    environment = argv + argc + 1;
}

/* Where a start went wrong: the exception to raise, and its text. */
struct failure {
    enum { CANNOT_START, NO_MEMORY, NO_THREADS } kind;
    char text[1024];
};

static bool fail(struct failure *failure, int kind, const char *text, const char *detail)
{
    failure->kind = kind;
    snprintf(failure->text, sizeof failure->text, "the Go core can't start: %.480s%s%.480s", text,
             *text != 0 && *detail != 0 ? ": " : "", detail);
    return false;
}

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

static bool can_start_threads(int count)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS(MOST_CPUS + SPARE_CPUS)];
    int started = 0;
    pthread_mutex_lock(&gate);
    while (started < count && pthread_create(&threads[started], NULL, wait_for_unlock, &gate) == 0) {
        started++;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return started == count;
}

static int usable_cpus(void)
{
    cpu_set_t cpus;
    int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : MOST_CPUS;
    return count < MOST_CPUS ? count : MOST_CPUS;
}

static bool have_room(int processors, struct failure *failure)
{
    int threads = THREADS(processors);
    size_t reserved = ROOM_ADDRESSES + threads * (size_t)ROOM_ARENA;
    void *addresses = take_room(reserved, PROT_NONE), *data = take_room(ROOM_DATA, PROT_READ | PROT_WRITE);
    bool have = false;
    char text[160];
    if (addresses == MAP_FAILED) {
        snprintf(text, sizeof text, "it reserves %zu MiB of address space, and a limit forbids that (ulimit -v)",
                 reserved >> 20);
        fail(failure, NO_MEMORY, text, "");
    }
    else if (data == MAP_FAILED) {
        fail(failure, NO_MEMORY, "it maps 96 MiB of private memory, and a limit forbids that (ulimit -d, -v)", "");
    }
    else if (!can_start_threads(threads)) {
        snprintf(
            text, sizeof text,
            "it starts up to %d threads, and a limit forbids that, or their stacks (ulimit -u, -s, -d, -v; or pids of "
            "the cgroup)",
            threads);
        fail(failure, NO_THREADS, text, "");
    }
    else {
        have = true;
    }
    give_back(addresses, reserved);
    give_back(data, ROOM_DATA);
    return have;
}

/* The core's file, where a copy of it may be written: beyond RLIMIT_FSIZE a write raises SIGXFSZ, which Python ignores
 * and which ends the process otherwise. */
static int open_original(void)
{
    struct stat file;
    struct rlimit limit;
    int original = open(core_path, O_RDONLY | O_CLOEXEC);
    if (original >= 0 && (fstat(original, &file) != 0 || getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
                          (rlim_t)file.st_size > limit.rlim_cur)) {
        close(original);
        return -1;
    }
    return original;
}

/* Copies the core's file to the descriptor. */
static bool copy_core(int to)
{
    int from = open_original();
    if (from < 0) {
        return false;
    }
    char bytes[4096];
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0) {
        for (ssize_t done = 0, put; done < got; done += put) {
            put = write(to, bytes + done, got - done);
            if (put < 0) {
                close(from);
                return false;
            }
        }
    }
    close(from);
    return got == 0;
}

/* Opens a library under a path by which the loader knows none yet: it would hand back the dead core. */
static void *open_new(const char *path)
{
    void *known = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (known != NULL) {
        dlclose(known);
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_memfd_copy(void)
{
    enum { EXECUTABLE = 0x10 /* MFD_EXEC, which kernels before 6.3 refuse */ };
    int fd = memfd_create("dlpack core", MFD_CLOEXEC | EXECUTABLE);
    if (fd < 0) {
        fd = memfd_create("dlpack core", MFD_CLOEXEC);
    }
    if (fd < 0) {
        return NULL;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/fd/%d", (int)getpid(), fd);
    void *library = copy_core(fd) ? open_new(path) : NULL;
    close(fd);
    return library;
}

static void *open_file_copy(void)
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
            continue;
        }
        library = copy_core(fd) ? open_new(path) : NULL;
        unlink(path);
        close(fd);
    }
    return library;
}

/* Calls the entry, and finds out under which key Go binds a thread that calls it: the one that gets a value. */
static void call_entry(dlpack_core_function *entry, struct core *core)
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

static bool enter_core(void *library, int processors, struct failure *failure)
{
    dlpack_core_function *entry = (dlpack_core_function *)dlsym(library, "dlpack_core");
    struct core core = {.processors = processors};
    if (entry == NULL) {
        return fail(failure, CANNOT_START, "", dlerror());
    }
    call_entry(entry, &core);
    if (core.describe == NULL) {
        return fail(failure, CANNOT_START, "bug in dlpack's core, please report it: a panic", "");
    }
    if (core.request_size != sizeof(struct request) || core.answer_size != sizeof(struct answer)) {
        return fail(failure, CANNOT_START, core_path, "it is of another version of this package; restart the process");
    }
    atomic_store(&describe_in_go, core.describe);
    return true;
}

static bool open_core(int processors, struct failure *failure)
{
    void *library;
    if (!opened) {
        library = dlopen(core_path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            return fail(failure, CANNOT_START, "", dlerror());
        }
    }
    else {
        library = open_memfd_copy();
        if (library == NULL) {
            library = open_file_copy();
        }
        if (library == NULL) {
            const char *error = dlerror();
            return fail(failure, CANNOT_START,
                        "after a fork it needs a copy of its file, and neither a memfd nor a temporary file can be "
                        "executed here (use the spawn or forkserver start method, or call asdlpack only in the parent)",
                        error == NULL ? "" : error);
        }
    }
    opened = true;
    return enter_core(library, processors, failure);
}

/* Signals that the runtime takes and the core does without: they stay what they are to the process. Go preempts by
 * SIGURG, which is turned off (build.py); its SIGPIPE is for programs that write; its divisors are checked. */
static const int kept_signals[] = {SIGURG, SIGPIPE, SIGFPE};
enum { KEPT_SIGNALS = sizeof kept_signals / sizeof *kept_signals };

static bool open_core_keeping_signals(int processors, struct failure *failure)
{
    struct sigaction actions[KEPT_SIGNALS];
    for (int i = 0; i < KEPT_SIGNALS; i++) {
        sigaction(kept_signals[i], NULL, &actions[i]);
    }
    bool opened_now = open_core(processors, failure);
    for (int i = 0; i < KEPT_SIGNALS; i++) {
        sigaction(kept_signals[i], &actions[i], NULL);
    }
    return opened_now;
}

static char hidden[] = "_=";

static bool is_of_go(const char *variable)
{
    return strncmp(variable, "GO", 2) == 0;
}

/* Puts `hidden` in the place of each GO* variable. Gives these, in their order, for show_settings; NULL: no memory. */
static char **hide_settings(void)
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

static void show_settings(char **settings)
{
    size_t count = 0;
    for (char **variable = environment; *variable != NULL; variable++) {
        if (*variable == hidden) {
            *variable = settings[count++];
        }
    }
    free(settings);
}

/* Go's threads inherit this thread's signal mask: a signal blocked in Python's threads must not be taken by one of
 * Go's. And a malformed GOMEMLIMIT would end the process, so the runtime sees none of the GO* variables. */
static bool start(struct failure *failure)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int processors = usable_cpus() + SPARE_CPUS;
    bool started = have_room(processors, failure);
    if (!started) {
        processors = LEAST_PROCESSORS;
        started = have_room(processors, failure);
    }
    char **settings = started ? hide_settings() : NULL;
    if (settings != NULL) {
        started = open_core_keeping_signals(processors, failure);
        show_settings(settings);
    }
    else if (started) {
        started = fail(failure, NO_MEMORY, "no memory", "");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

describe_function *running_core(void)
{
    describe_function *describe = atomic_load(&describe_in_go);
    if (describe != NULL) {
        return describe;
    }
    struct failure failure = {0};
    /* With the GIL, since os.putenv must not change the environment meanwhile. */
    pthread_mutex_lock(&starting);
    if (atomic_load(&describe_in_go) != NULL || start(&failure)) {
        describe = atomic_load(&describe_in_go);
    }
    pthread_mutex_unlock(&starting);
    if (describe == NULL) {
        PyObject *types[] = {
            [CANNOT_START] = PyExc_RuntimeError,
            [NO_MEMORY] = PyExc_MemoryError,
            [NO_THREADS] = PyExc_OSError,
        };
        PyErr_SetString(types[failure.kind], failure.text);
    }
    return describe;
}

/* The runtime that a forked child inherits has lost its threads (golang/go#15538): the child forgets it. What it
 * bound to this thread is forgotten too, since its destructor, at the thread's end, would enter that runtime. */
static void before_fork(void)
{
    pthread_mutex_lock(&starting);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&starting);
}

static void after_fork_in_child(void)
{
    atomic_store(&describe_in_go, NULL);
    if (go_key_known) {
        pthread_setspecific(go_key, NULL);
        go_key_known = false;
    }
    mend_answers_after_fork();
    python_after_fork();
    pthread_mutex_unlock(&starting);
}

int start_init(void)
{
    static bool done;
    if (done) {
        return 0;
    }
    Dl_info here;
    const char *slash;
    if (dladdr((void *)start_init, &here) == 0 || (slash = strrchr(here.dli_fname, '/')) == NULL ||
        snprintf(core_path, sizeof core_path, "%.*s/" CORE_FILE, (int)(slash - here.dli_fname), here.dli_fname) >=
            (int)sizeof core_path) {
        PyErr_SetString(PyExc_ImportError, "dlpack: the path of this extension can't be told, or is too long");
        return -1;
    }
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    done = true;
    return 0;
}
