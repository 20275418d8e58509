/* deleters.c: a library that makes tensors and counts the calls of their deleters, and that calls the deleters it was
 * given on threads of the operating system, which Python does not know, also while and after Python finalises. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <dlpack/dlpack.h>

enum { MOST = 100000 };

struct counted {
    DLManagedTensorVersioned managed;
    atomic_int deleted;
    int64_t length;
    char item;
};

static struct counted *made[MOST];
static DLManagedTensorVersioned *taken[MOST];
static int made_count, taken_count;
static atomic_int next, left;

static void count_deleted(DLManagedTensorVersioned *managed)
{
    atomic_fetch_add(&((struct counted *)managed)->deleted, 1);
}

/* A tensor of one item, which lives as long as the process. */
DLManagedTensorVersioned *make(void)
{
    struct counted *counted = calloc(1, sizeof *counted);
    counted->length = 1;
    counted->managed = (DLManagedTensorVersioned){.version = {1, 3}, .deleter = count_deleted};
    counted->managed.dl_tensor = (DLTensor){.data = &counted->item,
                                            .device = {kDLCPU, 0},
                                            .ndim = 1,
                                            .dtype = {1, 8, 1},
                                            .shape = &counted->length,
                                            .strides = &counted->length};
    made[made_count++] = counted;
    return &counted->managed;
}

/* How many were deleted at least so often. */
int deleted(int often)
{
    int count = 0;
    for (int i = 0; i < made_count; i++) {
        count += atomic_load(&made[i]->deleted) >= often;
    }
    return count;
}

/* How many were taken by a thread. */
int entered(void)
{
    return atomic_load(&next);
}

void take(DLManagedTensorVersioned *managed)
{
    taken[taken_count++] = managed;
}

static void *delete_all(void *ignored)
{
    for (int i; (i = atomic_fetch_add(&next, 1)) < taken_count;) {
        taken[i]->deleter(taken[i]);
        atomic_fetch_add(&left, 1);
    }
    return ignored;
}

static void start_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, delete_all, NULL) != 0) {
        abort();
    }
    pthread_detach(thread);
}

void start(int threads)
{
    for (int i = 0; i < threads; i++) {
        start_thread();
    }
}

/* Waits until each deleter has returned. */
void wait_for_all(void)
{
    while (atomic_load(&left) < taken_count) {
        sched_yield();
    }
}

/* Python is gone: this thread and a new one run the deleters that no thread has begun. */
static void delete_rest(void)
{
    start_thread();
    delete_all(NULL);
    wait_for_all();
    printf("%d %d\n", deleted(1), deleted(2));
    fflush(stdout);
}

void delete_at_exit(void)
{
    atexit(delete_rest);
}

/* With the GIL held: a thread begins to delete, and for a while can't go on. Returns how many it did meanwhile. */
int hold_off(void)
{
    int before = atomic_load(&left);
    start_thread();
    while (atomic_load(&next) == 0) {
        sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        sched_yield();
    }
    return atomic_load(&left) - before;
}
