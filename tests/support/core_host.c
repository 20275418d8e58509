/* core_host.c: calls the Go core from many threads, as the extension does, but without Python: the race detector's
 * runtime can't be in a library that a process opens. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { THREADS = 16, ROWS = 2500, COLUMNS = 1000 };

dlpack_core_function dlpack_core;

static struct core core;
static int32_t values[ROWS][COLUMNS]; /* shared; a copy of all takes two workers */
static int rounds;

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static int32_t swapped(int32_t value)
{
    return (int32_t)__builtin_bswap32((uint32_t)value);
}

/* A matrix of ROWS rows in memory of that many bytes an item: of this typestr, and reversed. */
static void ask(const char *typestr, enum copy copy, int64_t columns, bool reversed, struct answer *answer)
{
    struct request request = {
        .protocol = PROTOCOL_ARRAY_INTERFACE,
        .version = 3,
        .facts = FACT_STRIDES,
        .ndim = 2,
        .stride_count = 2,
        .device = {kDLCPU, 0},
        .format_length = (uint32_t)strlen(typestr),
        .data = (uint64_t)(uintptr_t)values + (reversed ? (ROWS - 1) * sizeof *values : 0),
        .terms.copy = (uint8_t)copy,
        .dims = {ROWS, columns, reversed ? -(int64_t)sizeof *values : (int64_t)sizeof *values, sizeof **values},
    };
    memcpy(request.format, typestr, strlen(typestr));
    memset(answer, 0, sizeof *answer);
    core.describe(&request, answer);
}

static void *work(void *argument)
{
    int number = (int)(intptr_t)argument;
    for (int i = 0; i < rounds; i++) {
        struct answer answer;
        ask("<i4", COPY_NEVER, 1 + (number + i) % COLUMNS, false, &answer);
        check(answer.status == STATUS_OK && answer.ndim == 2, "a description");
        ask("|O8", COPY_NEVER, COLUMNS, false, &answer);
        check(answer.status == STATUS_BUFFER_ERROR && answer.message[0] != '\0', "a refusal");
        if (i % 50 == 0) {
            ask(">i4", COPY_IF_NEEDED, COLUMNS, true, &answer);
            check(answer.status == STATUS_OK, "a copy");
            const int32_t *copy = answer.memory;
            for (int row = 0; row < ROWS; row += 7) {
                int column = (row + number) % COLUMNS;
                check(copy[row * COLUMNS + column] == swapped(values[ROWS - 1 - row][column]), "the items of a copy");
            }
            free(answer.memory);
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    rounds = count > 1 ? atoi(arguments[1]) : 1;
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            values[row][column] = row * COLUMNS + column;
        }
    }
    dlpack_core(&core);
    check(core.describe != NULL, "an answer");
    for (intptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "a thread");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d\n", THREADS * rounds);
    return 0;
}
