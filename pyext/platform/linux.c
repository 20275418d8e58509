/* linux.c: Linux with glibc, besides posix.c.
 *
 * It is C because it must run before there is a Go runtime. */
#define _GNU_SOURCE
#include "platform/platform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* Needs of a Go runtime. Measured: 1.2 GB of addresses and 52 MB of private memory besides its threads; 5 threads
     * with one processor, 22 to 24 with 6. */
    GO_ADDRESSES = 1248 << 20,
    GO_DATA = 96 << 20,
    GROWTH_DATA = 8 << 20,
    GO_THREADS = 3,      /* plus four per processor: the three of main.go's useProcessors, and those that wake them */
    GO_ARENA = 64 << 20, /* addresses that malloc may reserve for each thread, besides its stack */
};

#define THREADS(processors) (GO_THREADS + 4 * (processors))

/* Libraries. */

/* The section headers are last in the file, so a truncated one lacks them. */
bool may_be_loaded(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts;
    ElfW(Ehdr) header;
    if (file < 0) {
        return true;
    }
    bool regular = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
    bool is_elf = regular && pread(file, &header, sizeof header, 0) == sizeof header &&
                  memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
    close(file);
    return regular && (!is_elf || header.e_shoff + header.e_shnum * sizeof(ElfW(Shdr)) <= (size_t)facts.st_size);
}

int create_memfd(void)
{
    enum { CLOEXEC = 1, EXECUTABLE = 0x10 /* MFD_EXEC, which kernels before 6.3 refuse */, HIGH = 63 };
    /* glibc before 2.27 lacks memfd_create. */
    int memfd = (int)syscall(SYS_memfd_create, "dlpack core", CLOEXEC | EXECUTABLE);
    memfd = memfd >= 0 ? memfd : (int)syscall(SYS_memfd_create, "dlpack core", CLOEXEC);
    /* Debuggers open the file by the loader's path for it: a high descriptor is not soon another file's. From 64 on the
     * kernel would enlarge the descriptor table, which takes 10 ms in a process with threads. */
    int high = memfd < 0 ? -1 : fcntl(memfd, F_DUPFD_CLOEXEC, HIGH);
    if (high >= 0) {
        close(memfd);
    }
    return high >= 0 ? high : memfd;
}

/* Limits. */

static void *map_memory(size_t bytes, int protection)
{
    return mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void *wait_for(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Starts `count` threads, all at once, and joins them. Returns 0, or pthread_create's error. */
static int try_threads(int count)
{
    pthread_t threads[THREADS(MOST_CPUS + SPARE_CPUS)];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int started = 0, error = 0;
    pthread_mutex_lock(&gate);
    while (started < count && (error = pthread_create(&threads[started], NULL, wait_for, &gate)) == 0) {
        started++;
    }
    pthread_mutex_unlock(&gate);
    while (started > 0) {
        pthread_join(threads[--started], NULL);
    }
    return error;
}

/* True if Go can open its two descriptors, and wait for one by the other; else errno says why not. */
static bool has_descriptors(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), event = eventfd(0, EFD_CLOEXEC);
    struct epoll_event wanted = {.events = EPOLLIN}, met;
    bool has = epoll >= 0 && event >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted) == 0 &&
               epoll_pwait(epoll, &met, 1, 0, NULL) == 0;
    int error = errno;
    close(epoll);
    close(event);
    errno = error;
    return has;
}

/* Go ends the process without memory or threads, so all that it needs is taken first, at once, and given back. */
static struct failure check_limits(size_t addresses, size_t data, int threads)
{
    struct failure failure = {0};
    int error;
    addresses += threads * (size_t)GO_ARENA;
    void *reserved = map_memory(addresses, PROT_NONE), *written = MAP_FAILED;
    if (reserved == MAP_FAILED) {
        failure = (struct failure){.name = "addresses", .number = addresses >> 20, .error = errno};
    }
    else if ((written = map_memory(data, PROT_READ | PROT_WRITE)) == MAP_FAILED) {
        failure = (struct failure){.name = "memory", .number = data >> 20, .error = errno};
    }
    else if ((error = try_threads(threads)) != 0) {
        failure = (struct failure){.name = "threads", .number = threads, .error = error};
    }
    munmap(reserved, addresses); /* fails harmlessly for MAP_FAILED */
    munmap(written, data);
    return failure;
}

struct failure check_start(void)
{
    if (!has_descriptors()) {
        return (struct failure){.name = "descriptors", .error = errno};
    }
    return check_limits(GO_ADDRESSES, GO_DATA, THREADS(FIRST_CPUS));
}

bool may_grow(int processors)
{
    return check_limits(0, GROWTH_DATA, THREADS(processors) - THREADS(FIRST_CPUS)).name == NULL;
}

/* The stack. */

/* Returns the size that the main thread's stack may grow to, in its current limit; 0 in other threads. In a child
 * forked by a thread, that thread counts as the main one. */
static rlim_t main_stack_limit(void)
{
    struct rlimit now = {0};
    if (syscall(SYS_gettid) == getpid()) { /* gettid: glibc 2.30 */
        getrlimit(RLIMIT_STACK, &now);
    }
    return now.rlim_cur;
}

bool measure_stack(size_t *used, size_t *size)
{
    struct thread *thread = this_thread();
    char *here = __builtin_frame_address(0), *end;
    pthread_attr_t attributes;
    rlim_t limit = main_stack_limit();
    /* For the main thread, glibc reads /proc/self/maps. */
    if ((thread->stack == NULL || limit != thread->stack_limit) &&
        pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &thread->stack, &thread->stack_size);
        pthread_attr_destroy(&attributes);
        thread->stack_limit = limit;
    }
    end = (char *)thread->stack + thread->stack_size;
    if (thread->stack == NULL || here < (char *)thread->stack || here >= end) {
        return false; /* no /proc, or a stack that a library made */
    }
    *used = end - here;
    *size = thread->stack_size;
    return true;
}
