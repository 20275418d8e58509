/* ask.c: answers a request from Go's table, or by one call into Go.
 *
 * It is C because the table needs no Go. */
#include "ask/ask.h"

enum { WIDEST_ITEM = 16 }; /* bytes; for items whose size only Go knows */

static bool may_copy_much(const struct request *request)
{
    if (request->array_count > 0) {
        return request->terms.copy != COPY_NEVER; /* only Go knows how many items Arrow's arrays have */
    }
    if (request->terms.copy == COPY_NEVER || request->ndim < 0 || request->ndim > MAX_NDIM ||
        request->facts & FACT_NO_SHAPE) {
        return false;
    }
    /* Upper bound of an item's bytes: one of the three terms gives them. */
    double bytes = WIDEST_ITEM + request->itemsize + request->dtype.bits * request->dtype.lanes / 8;
    for (int32_t i = 0; i < request->ndim; i++) {
        bytes *= request->dims[i] == -1 ? request->span : request->dims[i];
    }
    return bytes >= LARGE_BYTES;
}

/* True if Go may call a driver, which may wait for the device, or for threads that wait for the GIL. */
static bool may_need_driver(const struct request *request)
{
    return request->device.device_type != kDLCPU ||
           (request->terms.has_target && request->terms.target.device_type != kDLCPU);
}

HOT int ask(struct request *request, struct answer *answer)
{
    enum copy copy = request->terms.copy;
    if (!request->terms.has_stream && !request->terms.has_target && look_up(request, answer)) {
        bool shares = copy != COPY_ALWAYS && answer->swap == 0;
        int copied = shares || copy == COPY_NEVER ? 0 : copy_known(request, answer);
        if (shares || copied != 0) {
            return copied < 0 ? -1 : 0;
        }
    }
    if (call_core(request, answer, may_copy_much(request) || may_need_driver(request)) < 0) {
        return -1;
    }
    return answer->status == STATUS_OK ? 0 : raise_answer(answer);
}
