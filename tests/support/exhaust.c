/* Takes all memory that malloc still gives, and gives it back. */
#include <stdlib.h>

static void **taken;

void take_all(void)
{
    for (size_t bytes = 1 << 24; bytes >= 24; bytes = bytes > 24 && bytes / 4 < 24 ? 24 : bytes / 4) {
        for (void **memory; (memory = malloc(bytes)) != NULL; taken = memory) {
            *memory = taken;
        }
    }
}

void give_all_back(void)
{
    while (taken != NULL) {
        void **next = *taken;
        free(taken);
        taken = next;
    }
}
