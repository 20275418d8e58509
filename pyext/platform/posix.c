/* posix.c: code that Linux and macOS share.
 *
 * It is C because it must run before there is a Go runtime. */
#define _GNU_SOURCE
#include "platform/platform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __APPLE__
#include <xlocale.h>
#define SOCK_CLOEXEC 0 /* macOS lacks it; fcntl marks the socket */
#endif

enum { SIGNAL_STACK = 256 << 10 };

static pthread_key_t go_key; /* Go's key for what it binds to a thread; valid if go_key_known */
static bool go_key_known;
static pthread_key_t stack_key; /* holds the signal stack made here; MAP_FAILED: the thread has another one, or none */
static bool has_stack_key;
static char **environment; /* the process's first environment block, which Go reads */

static void drop_signal_stack(void *memory)
{
    stack_t stack;
    if (sigaltstack(NULL, &stack) == 0 && stack.ss_sp == memory) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, NULL);
    }
    munmap(memory, SIGNAL_STACK); /* fails harmlessly for MAP_FAILED */
}

/* The loader passes main's arguments to constructors; environ may have moved since. */
__attribute__((constructor)) static void prepare(int argc, char **argv)
{
    environment = argv + argc + 1;
    has_stack_key = pthread_key_create(&stack_key, drop_signal_stack) == 0;
}

/* Libraries. */

void *find_in_process(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

bool path_beside(const char *library, char *path, size_t size)
{
    Dl_info here;
    const char *name = dladdr((void *)path_beside, &here) == 0 ? NULL : strrchr(here.dli_fname, '/');
    /* cx_Freeze puts "dlpack." before both names if it packs modules into a zip file. */
    name = name == NULL ? NULL : strstr(name, "_dlpack");
    return name != NULL &&
           snprintf(path, size, "%.*s%s.so", (int)(name - here.dli_fname), here.dli_fname, library) < (int)size;
}

/* dlerror() in English: glibc translates it, and dlpack._start looks for words in it. */
static const char *loader_error(void)
{
    locale_t english = newlocale(LC_ALL_MASK, "C", NULL), before = uselocale(english);
    const char *text = dlerror();
    uselocale(before);
    if (english != NULL) {
        freelocale(english);
    }
    return text;
}

/* Changes that a Go runtime makes to a thread and to the process. */

enum { FAULTS = 2 };
static const int taken_signals[FAULTS] = {SIGSEGV, SIGBUS};
static struct sigaction programs_handlers[FAULTS], gos_handlers[FAULTS];

/* Takes the default action. A fault then recurs, and ends the process at the faulting instruction. */
static void end_by_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    signal(number, SIG_DFL);
    if (info->si_code <= 0) { /* sent by a program */
        raise(number);
    }
}

/* Installs end_by_signal for each of these signals if the program has no handler. Go passes a fault in C that it called
 * to the handler from before its start; without one it prints a report and, after up to 10 s, ends the process by
 * another signal. */
static void handle_faults_below_go(void)
{
    struct sigaction ours = {.sa_sigaction = end_by_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (int i = 0; i < FAULTS; i++) {
        sigaction(taken_signals[i], NULL, &programs_handlers[i]);
        if (programs_handlers[i].sa_handler == SIG_DFL) {
            sigaction(taken_signals[i], &ours, NULL);
        }
    }
}

/* Finds the key under which Go binds a calling thread. Go makes it in its first call: it has the number of a key that
 * was made and deleted just before, or a higher one if other threads have made keys meanwhile. */
static void call_entry(dlpack_core_function *entry, struct core *core)
{
    pthread_key_t first = PTHREAD_KEYS_MAX;
    bool had[PTHREAD_KEYS_MAX];
    if (pthread_key_create(&first, NULL) == 0) {
        pthread_key_delete(first);
    }
    for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
        had[key] = pthread_getspecific(key) != NULL;
    }
    entry(core);
    go_key_known = false;
    for (pthread_key_t key = first; key < PTHREAD_KEYS_MAX && !go_key_known; key++) {
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

/* Without this, a thread's first call into Go would give it a signal stack of 32 KiB, directly above other memory of
 * Go's. */
void prepare_thread(void)
{
    stack_t stack;
    sigset_t mask;
    void *memory = MAP_FAILED;
    if (!has_stack_key || pthread_getspecific(stack_key) != NULL) {
        return;
    }
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    this_thread()->blocks_fault_signals = sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGBUS);
    if (sigaltstack(NULL, &stack) == 0 && stack.ss_flags & SS_DISABLE) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        memory = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    }
    if (pthread_setspecific(stack_key, memory) != 0) {
        munmap(memory, SIGNAL_STACK);
    }
    else if (memory != MAP_FAILED) {
        mprotect(memory, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE); /* guard page: overflow faults */
        stack = (stack_t){.ss_sp = memory, .ss_size = SIGNAL_STACK};
        sigaltstack(&stack, NULL);
    }
}

void block_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

void restore_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Makes a thread's first call into Go, with an empty request, which grows Go's stack for this thread. C signal handlers
 * without SA_ONSTACK run on that stack, which is small before. So signals wait until the call ends, except those that
 * the thread raises itself. Blocking them in every call would double its time. */
static void make_first_call(describe_function *describe, struct answer *answer)
{
    static const int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    static struct request nothing;
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof raised / sizeof *raised; i++) {
        sigdelset(&blocked, raised[i]);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    describe(&nothing, answer);
    restore_signals(&before);
}

void call_describe(describe_function *describe, struct request *request, struct answer *answer)
{
    bool blocked = this_thread()->blocks_fault_signals;
    sigset_t faults, before;
    if (!is_bound()) {
        make_first_call(describe, answer);
    }
    if (blocked) {
        sigemptyset(&faults);
        sigaddset(&faults, SIGSEGV);
        sigaddset(&faults, SIGBUS);
        pthread_sigmask(SIG_UNBLOCK, &faults, &before);
    }
    describe(request, answer);
    if (blocked) {
        restore_signals(&before);
    }
}

/* Moves the GO* variables of the environment to `settings`, in order, or back. Returns their number; only counts if
 * settings is NULL. */
static size_t move_settings(char **settings, bool back)
{
    static char hidden[] = "_=";
    size_t count = 0;
    for (char **variable = environment; *variable != NULL; variable++) {
        if (back ? *variable == hidden : strncmp(*variable, "GO", 2) == 0) {
            if (settings != NULL) {
                settings[count] = back ? settings[count] : *variable;
                *variable = back ? settings[count] : hidden;
            }
            count++;
        }
    }
    return count;
}

/* Opens the standard descriptors that the program has closed, and returns their number: Go must not get one as its own,
 * since the program may reopen them later. */
static int hold_standard_descriptors(int held[3])
{
    int count = 0, descriptor;
    while ((descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0) {
        if (descriptor > STDERR_FILENO) {
            close(descriptor);
            break;
        }
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        held[count++] = descriptor;
    }
    return count;
}

/* Hides all GO* variables from the runtime: a malformed GOMEMLIMIT would end the process. */
static struct failure load(const char *path, struct core *core)
{
    char **settings = malloc((move_settings(NULL, false) + 1) * sizeof *settings);
    if (settings == NULL) {
        return (struct failure){.name = "no memory"};
    }
    struct failure failure = {0};
    struct rlimit files;
    bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
    move_settings(settings, false);
    handle_faults_below_go();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL),
         *entry = library == NULL ? NULL : dlsym(library, "dlpack_core");
    if (entry == NULL) {
        failure = (struct failure){.name = "library", .text = loader_error()};
    }
    else {
        call_entry((dlpack_core_function *)entry, core);
        if (known) {
            setrlimit(RLIMIT_NOFILE, &files); /* Go raises it */
        }
    }
    for (int i = 0; i < FAULTS; i++) {
        sigaction(taken_signals[i], NULL, &gos_handlers[i]);
    }
    move_settings(settings, true);
    free(settings);
    return failure;
}

struct failure start_runtime(const char *path, const char *copy, struct core *core)
{
    static bool opened; /* in this process, or in one that it was forked from */
    if (!may_be_loaded(path)) {
        return (struct failure){.name = "file", .text = path};
    }
    int held[3], holds = hold_standard_descriptors(held);
    struct failure failure = check_start();               /* again for a copy, whose descriptor is open */
    if (failure.name == NULL && copy == NULL && opened) { /* the loader would return the library that it knows */
        int memfd = create_memfd();
        failure = (struct failure){.name = "copy", .number = memfd, .error = memfd < 0 ? errno : 0};
    }
    if (failure.name == NULL) {
        failure = load(copy == NULL ? path : copy, core);
        opened = opened || failure.name == NULL;
    }
    while (holds > 0) {
        close(held[--holds]);
    }
    return failure;
}

void forget_runtime(void)
{
    struct sigaction now;
    for (int i = 0; i < FAULTS; i++) {
        if (sigaction(taken_signals[i], NULL, &now) == 0 && now.sa_handler == gos_handlers[i].sa_handler) {
            sigaction(taken_signals[i], &programs_handlers[i], NULL);
        }
    }
    if (go_key_known) {
        pthread_setspecific(go_key, NULL);
        go_key_known = false;
    }
}
