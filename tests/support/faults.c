/* faults.c: counts the calls that can fail, in the extension and in the core, and lets one of them fail. Both libraries
 * find it in the process, into which it is loaded first. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static atomic_long left;        /* calls up to the one that fails; 0 and less: none does */
static atomic_long points_left; /* the same of Go functions that are entered */
static atomic_long live;        /* what is not freed */
static atomic_bool interrupts, forgets;
static atomic_int panic;

/* From here on the n-th call fails. */
void faults_arm(long n, bool with_interrupt)
{
    interrupts = with_interrupt;
    left = n;
}

/* From here on the n-th Go function panics. */
void faults_arm_panic(long n, int kind)
{
    panic = kind;
    points_left = n;
}

/* Whether it has. */
bool faults_disarm(void)
{
    bool struck = atomic_exchange(&left, 0) < 0;
    return atomic_exchange(&points_left, 0) < 0 || struck;
}

void faults_forget(bool on)
{
    forgets = on;
}

long faults_live(void)
{
    return live;
}

static bool strikes(atomic_long *counter)
{
    long before = *counter;
    while (before > 0) {
        long after = before == 1 ? -1 : before - 1;
        if (atomic_compare_exchange_weak(counter, &before, after)) {
            return after < 0;
        }
    }
    return false;
}

bool faults_strike(void)
{
    return strikes(&left);
}

int faults_panic(void)
{
    return strikes(&points_left) ? panic : 0;
}

bool faults_forgets(void)
{
    return forgets;
}

bool faults_interrupts(void)
{
    return interrupts;
}

static void *count(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *faults_malloc(size_t bytes)
{
    return faults_strike() ? NULL : count(malloc(bytes));
}

void *faults_calloc(size_t items, size_t bytes)
{
    return faults_strike() ? NULL : count(calloc(items, bytes));
}

void *faults_realloc(void *memory, size_t bytes)
{
    void *moved = faults_strike() ? NULL : realloc(memory, bytes);
    live += memory == NULL && moved != NULL;
    return moved;
}

void faults_free(void *memory)
{
    live -= memory != NULL;
    free(memory);
}
