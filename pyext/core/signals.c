/* signals.c: keeps Go's threads from unblocking signals that are the program's.
 *
 * The core is started with all signals blocked, and its threads inherit that. But the runtime unblocks some in each
 * thread of its own, and in each thread that calls it for the first time: a signal that the program blocked and waits
 * for would be lost, and a handler without SA_ONSTACK would run on a goroutine's stack of a few KiB, and overflow it. No
 * setting of Go forbids that. Which signals these are stands in a table, runtime.sigtable; it is changed here before
 * the runtime starts. Where a later Go has another table nothing is changed, and test_signals.py fails.
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
enum { NOTIFY = 1, THROW = 4, SET_STACK = 64, UNBLOCK = 128, IGNORE = 256 };

/* The signals to leave blocked, as the table has them. Not faults, which Go must see, nor what glibc keeps for itself. */
static const struct {
    int number, flags;
    const char *name;
} kept[] = {
    {SIGSTKFLT, THROW | UNBLOCK, "SIGSTKFLT: stack fault"},
    {SIGCHLD, NOTIFY | UNBLOCK | IGNORE, "SIGCHLD: child status has changed"},
    {SIGPROF, NOTIFY | UNBLOCK, "SIGPROF: profiling alarm clock"},
    {34, SET_STACK | UNBLOCK, "signal 34"}, /* SIGRTMIN, of which musl makes another use than glibc */
};
enum { KEPT = sizeof kept / sizeof *kept, LAST = 34 };

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
    for (int i = 0; i < KEPT; i++) {
        const struct entry *entry = &table[kept[i].number];
        if (entry->flags != kept[i].flags || !is_named(entry, kept[i].name, first, end)) {
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

__attribute__((constructor(101))) static void keep_signals_blocked(void) /* Go's has no priority, so it runs later */
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
    for (int i = 0; i < KEPT && table != NULL; i++) {
        table[kept[i].number].flags &= ~UNBLOCK;
    }
}
