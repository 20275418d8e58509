/* protocols.c: describes an object by the first protocol other than __dlpack__ that it speaks. */
#include "read/read.h"

#include <string.h>

struct protocol_in {
    const char *name;
    int (*read)(DLPackObject *, struct request *);
};

HOT static int describe_by(DLPackObject *self, const struct protocol_in *protocol)
{
    struct request request;
    self->protocol = protocol->name;
    int found = protocol->read(self, &request);
    if (found > 0 && object_describe(self, &request) < 0) {
        return -1;
    }
    return found;
}

HOT int describe_by_buffer(DLPackObject *self)
{
    struct request request;
    self->protocol = "buffer";
    if (lock_buffer(self, &request) < 0 || object_describe(self, &request) < 0) {
        explain_refusal(self);
        return -1;
    }
    return 1;
}

void explain_refusal(DLPackObject *self)
{
    check_in_python(python.explain, Py_BuildValue("(OsN)", self->obj, self->protocol, take_exception()));
}

void explain_read_stream(DLPackObject *self)
{
    if (self->protocol != NULL && strcmp(self->protocol, "__arrow_c_stream__") == 0) {
        check_in_python(python.stream_failed, Py_BuildValue("(ON)", self->obj, take_exception()));
    }
}

int describe_by_protocols(DLPackObject *self)
{
    static const struct protocol_in protocols[] = {
        {"__array_interface__", read_array_interface},
        {"__array_struct__", read_array_struct},
        {"__cuda_array_interface__", read_cuda_array_interface},
        {"buffer", read_buffer},
        {"__arrow_c_array__", read_arrow_array},
        {"__arrow_c_stream__", read_arrow_stream},
        {"to_dlpack", read_to_dlpack},
    };
    int found = 0, *calls = begin_producer_call(false);
    if (calls == NULL) {
        return -1;
    }
    for (int i = 0; i < COUNT_OF(protocols) && found == 0; i++) {
        found = describe_by(self, &protocols[i]);
    }
    --*calls;
    if (found < 0) {
        explain_refusal(self);
    }
    return found;
}
