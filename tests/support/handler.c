/* Signal handlers and system calls of C, as Python's own don't show them. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile long handled, overflowed;
volatile long needed = 48 << 10; /* bytes of stack: more than the 32 KiB that Go's own signal stacks have */

static void handler(int number)
{
    stack_t stack;
    sigaltstack(NULL, &stack);
    volatile char room[needed]; /* from here on the kernel may see no alternate stack any more */
    (void)number;
    overflowed += stack.ss_flags & SS_ONSTACK && (char *)room < (char *)stack.ss_sp;
    memset((char *)room, 0x5a, sizeof room);
    handled++;
}

void handle(int number, bool on_stack)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | (on_stack ? SA_ONSTACK : 0)};
    sigaction(number, &action, NULL);
}

static void fork_once(int number)
{
    (void)number;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
    handled++;
}

void fork_at(int number)
{
    struct sigaction action = {.sa_handler = fork_once, .sa_flags = SA_RESTART};
    sigaction(number, &action, NULL);
}

int flags_of(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 ? action.sa_flags : -1;
}

/* Which of the calls that SA_RESTART does not begin again was interrupted, NULL for none. */
const char *wait_a_while(int reading)
{
    struct timespec little = {0, 300000};
    struct timeval as_little = {0, 300};
    struct pollfd file = {reading, POLLIN, 0};
    fd_set files;
    sigset_t none;
    FD_ZERO(&files);
    FD_SET(reading, &files);
    sigemptyset(&none);
    if (nanosleep(&little, NULL) != 0) {
        return "nanosleep";
    }
    if (poll(&file, 1, 1) < 0) {
        return "poll";
    }
    if (select(reading + 1, &files, NULL, NULL, &as_little) < 0) {
        return "select";
    }
    if (sigtimedwait(&none, NULL, &little) < 0 && errno == EINTR) {
        return "sigtimedwait";
    }
    return NULL;
}
