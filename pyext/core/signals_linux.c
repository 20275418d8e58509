/* signals_linux.c: has Go's runtime take SIGSEGV and SIGBUS, pass on those that are not its own, and leave all other
 * signals alone.
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

/* An entry of runtime.sigtable, which the number of the signal is the index of. */
struct entry {
    int32_t flags;
    const char *name;
    intptr_t name_length;
};

enum { LAST = 64 };

/* runtime2.go's flags. */
enum { NOTIFY = 1, KILL = 2, THROW = 4, PANIC = 8, UNBLOCK = 128 };

/* Of the first signals: by these, at this distance, the table is known among the data. */
static const int32_t known[] = {
    0,
    [SIGHUP] = NOTIFY | KILL,
    [SIGINT] = NOTIFY | KILL,
    [SIGQUIT] = NOTIFY | THROW,
    [SIGILL] = THROW | UNBLOCK,
    [SIGTRAP] = THROW | UNBLOCK,
    [SIGABRT] = NOTIFY | THROW,
    [SIGBUS] = PANIC | UNBLOCK,
    [SIGFPE] = PANIC | UNBLOCK,
};

/* This library: the linker puts the ELF header, and the table of its parts, at the beginning. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool is_table(const struct entry *table)
{
    size_t number = 0;
    while (number < sizeof known / sizeof *known && table[number].flags == known[number]) {
        number++;
    }
    return number == sizeof known / sizeof *known && table[SIGSEGV].flags == (PANIC | UNBLOCK) &&
           table[LAST].flags == NOTIFY;
}

static void change_flags(struct entry *table)
{
    for (int number = 0; number <= LAST; number++) {
        bool is_of_glibc = number == 32 || number == 33;
        if (number == SIGBUS || number == SIGSEGV) {
            table[number].flags |= KILL; /* one that a program sends while Go works ends the process without a report */
        }
        else if (!is_of_glibc) {
            table[number].flags = 0;
        }
    }
}

/* Go's constructor has no priority, so it runs later than these two. */

__attribute__((constructor(101))) static void leave_signals_alone(void)
{
    char *first = (char *)&__ehdr_start;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(first + __ehdr_start.e_phoff);
    uintptr_t constants_end = 0; /* of what only the loader writes, which comes first */
    for (int i = 0; i < __ehdr_start.e_phnum; i++) {
        if (parts[i].p_type == PT_GNU_RELRO) {
            constants_end = (uintptr_t)first + parts[i].p_vaddr + parts[i].p_memsz;
        }
    }
    for (int i = 0; i < __ehdr_start.e_phnum; i++) {
        if (parts[i].p_type == PT_LOAD && parts[i].p_flags & PF_W) {
            uintptr_t data = (uintptr_t)first + parts[i].p_vaddr, end = data + parts[i].p_filesz;
            data = data < constants_end ? constants_end : data;
            for (data = (data + 7) & ~(uintptr_t)7; data + (LAST + 1) * sizeof(struct entry) <= end; data += 8) {
                if (is_table((struct entry *)data)) {
                    change_flags((struct entry *)data);
                    return;
                }
            }
        }
    }
}

/* Does what the default action does. A fault comes again, and then ends the process where it happened. */
static void end_by_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    signal(number, SIG_DFL);
    if (info->si_code <= 0) { /* sent by a program */
        raise(number);
    }
}

/* Go passes a fault in C that it called on to the handler that was there before its own. Where there was none it prints
 * a report, and ends the process by another signal after up to 10 s. */
__attribute__((constructor(101))) static void handle_faults_below_go(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS};
    struct sigaction now, ours = {.sa_sigaction = end_by_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (int i = 0; i < 2; i++) {
        if (sigaction(faults[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
            sigaction(faults[i], &ours, NULL);
        }
    }
}
