/* protocols.c: reads an object by the first protocol other than __dlpack__ that it speaks. */
#include "read/read.h"

#include <string.h>

HOT void reading_init(struct reading *reading, PyObject *obj, enum copy copy, const DLDevice *device, struct hold *hold)
{
    reading->obj = obj;
    reading->protocol = NULL;
    reading->hold = hold;
    reading->terms = (struct terms){.copy = copy, .has_target = device != NULL};
    if (device != NULL) {
        reading->terms.target = *device;
    }
    reading->stream = STREAM_LEGACY; /* the consumer of a managed tensor names no stream */
    reading->version = (DLPackVersion){0};
    reading->readonly = reading->lent = reading->exports = reading->hides_obj = false;
    hold->holding = HOLDS_NOTHING;
}

void explain_refusal(const struct reading *reading)
{
    check_in_python(python.explain, Py_BuildValue("(OsN)", reading->obj, reading->protocol, take_exception()));
}

void explain_read_stream(const struct reading *reading)
{
    if (reading->protocol != NULL && strstr(reading->protocol, "stream") != NULL) {
        check_in_python(python.stream_failed, Py_BuildValue("(ON)", reading->obj, take_exception()));
    }
}

/* In the order in which they are tried. */
static const struct {
    const char *name;
    int (*read)(struct reading *);
} protocols[] = {
    {"__array_interface__", read_array_interface},
    {"__array_struct__", read_array_struct},
    {"__cuda_array_interface__", read_cuda_array_interface},
    {"buffer", read_buffer},
    {"__arrow_c_device_array__", read_arrow_device_array}, /* the host's methods may copy from a device */
    {"__arrow_c_device_stream__", read_arrow_device_stream},
    {"__arrow_c_array__", read_arrow_array},
    {"__arrow_c_stream__", read_arrow_stream},
    {"to_dlpack", read_to_dlpack},
};
enum { FIRST_OF_ARROW = 4, BEHIND_ARROW = 8 };

/* Reads obj by the first of the protocols from `first` to before `end` that it speaks. */
static int read_by(struct reading *reading, int first, int end)
{
    int found = 0, *calls = begin_producer_call(false);
    if (calls == NULL) {
        return -1;
    }
    for (int i = first; i < end && found == 0; i++) {
        reading->protocol = protocols[i].name;
        found = protocols[i].read(reading);
    }
    --*calls;
    return found;
}

int read_by_protocols(struct reading *reading)
{
    return read_by(reading, 0, COUNT_OF(protocols));
}

int read_fixed_size_binary(struct reading *reading)
{
    int read = read_by(reading, FIRST_OF_ARROW, BEHIND_ARROW);
    reading->request.facts |= read > 0 ? FACT_BYTES : 0;
    return read;
}
