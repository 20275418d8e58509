/* signals_linux.c: lets Go's runtime handle SIGSEGV and SIGBUS only, and pass on those that are not its own.
 *
 * By default Go also takes SIGURG, SIGPIPE and SIGFPE, adds SA_ONSTACK to each handler that is there, and unblocks
 * SIGCHLD, SIGPROF and others in each thread that it runs in. No setting forbids it. A signal that the program blocks
 * and waits for would be lost, and a handler without SA_ONSTACK would overflow a goroutine's stack of a few KiB. Go
 * does so to each signal with flags in its table, runtime.sigtable. This file clears the flags before the runtime
 * starts.
 *
 * The core does not need these signals: preemption by SIGURG is off (build.py), SIGPIPE is for programs that write, and
 * divisors are checked. If a later Go has another table, nothing changes and test_signals.py fails.
 *
 * It is C because it must run before the runtime, which a constructor of this library starts. */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An entry of runtime.sigtable; its index is the signal's number. */
struct entry {
    int32_t flags;
    const char *name;
    intptr_t name_length;
};

enum { LAST = 64 };

/* Flags of Go's runtime2.go. */
enum { NOTIFY = 1, KILL = 2, THROW = 4, PANIC = 8, UNBLOCK = 128 };

/* Flags of the first signals; is_table recognises the table by them. */
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

/* Start of this library: its ELF header, which leads to the program headers. */
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
            table[number].flags |= KILL; /* sent by a program while Go runs, it ends the process without a report */
        }
        else if (!is_of_glibc) {
            table[number].flags = 0;
        }
    }
}

/* These two run before Go's constructor, which has no priority. */

__attribute__((constructor(101))) static void leave_signals_alone(void)
{
    char *first = (char *)&__ehdr_start;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(first + __ehdr_start.e_phoff);
    uintptr_t constants_end = 0; /* end of RELRO, which only the loader writes; it comes first */
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

/* Takes the default action. A fault then recurs, and ends the process at the faulting instruction. */
static void end_by_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    signal(number, SIG_DFL);
    if (info->si_code <= 0) { /* sent by a program */
        raise(number);
    }
}

/* Installs end_by_signal before Go's handlers. Go passes a fault in C that it called to the earlier handler; without
 * one it prints a report and, after up to 10 s, ends the process by another signal. */
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
