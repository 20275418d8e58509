/* signals.c: has Go's runtime take SIGSEGV and SIGBUS, and leave all other signals alone.
 *
 * No setting of Go forbids it to take SIGURG, SIGPIPE and SIGFPE too, to add SA_ONSTACK to each handler that is there,
 * and to unblock SIGCHLD, SIGPROF and others in each thread that it runs in: a signal that the program blocked and waits
 * for would be lost, and a handler without SA_ONSTACK would run on a goroutine's stack of a few KiB, and overflow it. It
 * does so to the signals that have flags in a table, runtime.sigtable; they are cleared here before the runtime starts.
 * The core does without: Go preempts by SIGURG, which is turned off (build.py), its SIGPIPE is for programs that write,
 * and its divisors are checked. Where a later Go has another table nothing is changed, and test_signals.py fails.
 *
 * It is C because it must run before the runtime, which starts in a constructor of this library, too. */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* An entry of runtime.sigtable, which the number of the signal is the index of. */
struct entry {
    int32_t flags;
    struct {
        const char *text;
        intptr_t length;
    } name;
};

/* runtime2.go's flags. */
enum { NOTIFY = 1, PANIC = 8, SET_STACK = 64, UNBLOCK = 128 };

/* By these the table is known, from its first entry to its last. Signals 32 and 33 are glibc's own. */
static const struct {
    int number, flags;
    bool kept;
    const char *name;
} known[] = {
    {0, 0, true, "SIGNONE: no trap"},
    {SIGBUS, PANIC | UNBLOCK, true, "SIGBUS: bus error"},
    {SIGSEGV, PANIC | UNBLOCK, true, "SIGSEGV: segmentation violation"},
    {32, SET_STACK | UNBLOCK, true, "signal 32"},
    {33, SET_STACK | UNBLOCK, true, "signal 33"},
    {64, NOTIFY, false, "signal 64"},
};
enum { KNOWN = sizeof known / sizeof *known, LAST = 64 };

/* This library: the linker puts the ELF header, and the table of its parts, at the beginning. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool is_named(const struct entry *entry, const char *name, const char *first, const char *end)
{
    size_t length = strlen(name);
    const char *text = entry->name.text;
    return entry->name.length == (intptr_t)length && text >= first && text < end - length &&
           memcmp(text, name, length) == 0;
}

/* Whether the table begins here. Names are read only where they lie within this library. */
static bool is_table(const struct entry *table, const char *first, const char *end)
{
    for (int i = 0; i < KNOWN; i++) {
        const struct entry *entry = &table[known[i].number];
        if (entry->flags != known[i].flags || !is_named(entry, known[i].name, first, end)) {
            return false;
        }
    }
    return true;
}

/* The table in the bytes from data, which is aligned as pointers are, to data_end; NULL: it is not there. */
static struct entry *find_table(char *data, const char *data_end, const char *first, const char *end)
{
    for (; (size_t)(data_end - data) >= (LAST + 1) * sizeof(struct entry); data += sizeof(void *)) {
        if (is_table((struct entry *)data, first, end)) {
            return (struct entry *)data;
        }
    }
    return NULL;
}

__attribute__((constructor(101))) static void leave_signals_alone(void) /* Go's has no priority, so it runs later */
{
    char *first = (char *)&__ehdr_start, *end = first;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(first + __ehdr_start.e_phoff);
    for (int i = 0; i < __ehdr_start.e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD) { /* in the order of their addresses */
            end = first + parts[i].p_vaddr + parts[i].p_filesz;
        }
    }
    struct entry *table = NULL;
    for (int i = 0; i < __ehdr_start.e_phnum && table == NULL; i++) {
        if (parts[i].p_type == PT_LOAD && parts[i].p_flags & PF_W) {
            char *data = first + parts[i].p_vaddr, *data_end = data + parts[i].p_filesz;
            table = find_table((char *)(((uintptr_t)data + 7) & ~(uintptr_t)7), data_end, first, end);
        }
    }
    for (int number = 0; number <= LAST && table != NULL; number++) {
        table[number].flags = 0;
    }
    for (int i = 0; i < KNOWN && table != NULL; i++) {
        table[known[i].number].flags = known[i].kept ? known[i].flags : 0;
    }
}
