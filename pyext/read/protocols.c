/* protocols.c: reads an object by the first protocol other than __dlpack__ that it speaks. */
#include "read/read.h"

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

/* In the order in which they are tried. A reader gets the value of the attribute; without one it looks itself. */
static const struct {
    const char *name;
    PyObject *const *attribute;
    int (*read)(struct reading *, PyObject *value);
    enum protocol protocol;
} protocols[] = {
    {"__array_interface__", &names.array_interface, read_interface, PROTOCOL_ARRAY_INTERFACE},
    {"__array_struct__", &names.array_struct, read_array_struct, PROTOCOL_ARRAY_STRUCT},
    {"__cuda_array_interface__", &names.cuda_array_interface, read_interface, PROTOCOL_CUDA_ARRAY_INTERFACE},
    {.name = "buffer", .read = read_buffer},
    /* The host's methods may copy from a device. */
    {"__arrow_c_device_array__", &names.arrow_c_device_array, read_arrow, PROTOCOL_ARROW_DEVICE_ARRAY},
    {"__arrow_c_device_stream__", &names.arrow_c_device_stream, read_arrow, PROTOCOL_ARROW_DEVICE_STREAM},
    {"__arrow_c_array__", &names.arrow_c_array, read_arrow, PROTOCOL_ARROW_ARRAY},
    {.name = "__arrow_c_stream__", .read = read_frame},
    {"__arrow_c_stream__", &names.arrow_c_stream, read_arrow, PROTOCOL_ARROW_STREAM},
    {.name = "to_dlpack", .read = read_to_dlpack},
};

/* Reads obj by the first of the protocols, or of Arrow's alone, that it speaks. */
static int read_by(struct reading *reading, bool arrow_alone)
{
    int found = 0, *calls = begin_producer_call(false);
    if (calls == NULL) {
        return -1;
    }
    for (int i = 0; i < COUNT_OF(protocols) && found == 0; i++) {
        PyObject *value = NULL;
        if (arrow_alone && protocols[i].read != read_arrow && protocols[i].read != read_frame) {
            continue;
        }
        reading->protocol = protocols[i].name;
        if (protocols[i].attribute != NULL) {
            found = optional_attribute(reading->obj, *protocols[i].attribute, &value);
            if (found <= 0) {
                continue;
            }
            request_init(&reading->request, protocols[i].protocol);
        }
        found = protocols[i].read(reading, value);
        drop_foreign(value);
    }
    --*calls;
    return found;
}

int read_by_protocols(struct reading *reading)
{
    return read_by(reading, false);
}

int read_fixed_size_binary(struct reading *reading)
{
    int read = read_by(reading, true);
    reading->request.facts |= read > 0 ? FACT_BYTES : 0;
    return read;
}
