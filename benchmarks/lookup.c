/* lookup.c: prints what it takes to describe memory by Go's table, in ns, for 0 to 4 dimensions without and with strides.
 *
 * It is C because the look-up is never called alone, and shorter than any call from Python. */
#include "ask/table.c"

#include <stdio.h>
#include <time.h>

enum { ROUNDS = 200, CALLS = 20000 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static struct request matrix(int32_t ndim, bool strides)
{
    struct request request = {.protocol = PROTOCOL_BUFFER,
                              .ndim = ndim,
                              .itemsize = 4,
                              .format_length = 1,
                              .data = 1 << 20};
    request.device.device_type = kDLCPU;
    request.format[0] = 'f';
    request.facts = FACT_SPAN | (strides ? FACT_STRIDES : 0);
    request.span = 1 << 20;
    request.stride_count = strides ? ndim : 0;
    for (int32_t i = 0; i < ndim; i++) {
        request.dims[i] = 3 + i;
        request.dims[ndim + i] = strides ? 64 << (ndim - i) : 0;
    }
    return request;
}

int main(void)
{
    for (int32_t ndim = 0; ndim <= 4; ndim++) {
        for (int strides = 0; strides <= (ndim > 0); strides++) {
            struct request request = matrix(ndim, strides);
            double least = 1e9;
            for (int round = 0; round < ROUNDS; round++) {
                double start = now();
                for (int i = 0; i < CALLS; i++) {
                    struct answer found;
                    if (!look_up(&request, &found)) {
                        return 1;
                    }
                    __asm__ volatile("" : : "r"(&found) : "memory");
                }
                double time = (now() - start) / CALLS;
                least = time < least ? time : least;
            }
            printf("%d %d %.1f\n", ndim, strides, least);
        }
    }
}
