/* table.c: describes ordinary CPU memory without Go, in any shape and with any strides, if its type is in the table
 * that Go wrote at development time (type_table.h). Go answers all else, and makes all refusals.
 *
 * It is C because a call into Go takes longer than all of this, and Go's start a thousand times as long. */
#include "ask/ask.h"

#include <string.h>

#ifndef DLPACK_USES_TABLE
#define DLPACK_USES_TABLE 1 /* 0: always ask Go; tests compare the answers */
#endif

struct known_type {
    DLDataType dtype;
    struct type_names names;
};

/* A protocol's spelling of a type, and what Go says of its items. A free place of the table is all zero. */
struct type_spelling {
    uint8_t protocol;
    uint8_t padded;          /* 1: DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED */
    uint8_t buffer_itemsize; /* PROTOCOL_BUFFER only */
    /* From here up to text: not part of the spelling. */
    uint8_t itemsize, alignment; /* bytes */
    uint8_t flags;               /* DLPACK_FLAG_BITMASK_* */
    bool versioned_only : 1;
    bool swapped : 1;       /* a copy reverses the bytes of each word of `alignment` bytes */
    uint8_t type;           /* index in known_types */
    char text[FORMAT_SIZE]; /* PROTOCOL_DLTENSOR: the DLDataType */
};

#include "ask/type_table.h"

const char *known_type_name(int i)
{
    return i < COUNT_OF(known_types) ? known_types[i].names.dtype : NULL;
}

enum { SPELLING_WORDS = sizeof(struct type_spelling) / 8 };

static inline uint64_t word_at(const void *words, int i)
{
    uint64_t word;
    memcpy(&word, (const char *)words + 8 * i, 8);
    return word;
}

/* A typestr means the same in PROTOCOL_MEMORY and in the array struct as in the array interface. */
static inline uint8_t spelling_protocol(const struct request *request)
{
    char first = request->format[0];
    bool is_typestr =
        request->protocol == PROTOCOL_ARRAY_STRUCT ||
        (request->protocol == PROTOCOL_MEMORY && (first == '<' || first == '>' || first == '|' || first == '='));
    return is_typestr ? PROTOCOL_ARRAY_INTERFACE : request->protocol;
}

/* NULL: not in the table. */
static inline const struct type_spelling *find_spelling(const struct request *request)
{
    uint64_t padded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, words[SPELLING_WORDS], hash = 0;
    uint32_t dtype;
    memcpy(&dtype, &request->dtype, sizeof dtype);
    words[0] = spelling_protocol(request) | (uint64_t)((request->flags & padded) != 0) << 8 |
               (uint64_t)request->itemsize << 16;
    words[1] = word_at(request->format, 0) | dtype; /* one of them is 0 */
    words[2] = word_at(request->format, 1);
    words[3] = word_at(request->format, 2);
    for (int i = 0; i < SPELLING_WORDS; i++) {
        hash += words[i] * type_factors[i];
    }
    const struct type_spelling *place = &type_spellings[(hash >> 32) * TYPE_PLACES >> 32];
    for (int tried = 0; tried < PLACES_BEHIND; tried++, place++) {
        bool same = (word_at(place, 0) & 0xFFFFFF) == words[0];
        for (int i = 1; i < SPELLING_WORDS; i++) {
            same = same && word_at(place, i) == words[i];
        }
        if (same) {
            return place;
        }
    }
    return NULL;
}

/* True if the request says only the type, layout and address of CPU memory. */
static inline bool is_ordinary(const struct request *request)
{
    bool strided = (request->facts & FACT_STRIDES) != 0, has_span = (request->facts & FACT_SPAN) != 0;
    return (request->facts & ~(FACT_STRIDES | FACT_SPAN)) == 0 && request->device.device_type == kDLCPU &&
           request->device.device_id == 0 && request->ndim >= 0 && request->ndim <= MAX_NDIM &&
           (!strided || request->stride_count == request->ndim) && request->format_length < FORMAT_SIZE &&
           request->itemsize >= 0 && request->itemsize <= UINT8_MAX &&
           (request->protocol != PROTOCOL_ARRAY_INTERFACE || request->version == 2 || request->version == 3) &&
           (request->offset == 0 || has_span || request->protocol == PROTOCOL_DLTENSOR);
}

/* Infers the length of frombuffer's dimension of -1 from the span. -1: only Go can answer. */
__attribute__((noinline)) static int64_t open_length(const struct request *request, int64_t itemsize, int32_t open)
{
    uint64_t span = (uint64_t)request->span, step = (uint64_t)itemsize;
    if (request->dims[open] != -1 || request->protocol != PROTOCOL_MEMORY || request->facts != FACT_SPAN ||
        request->span < 0 || request->offset > span) {
        return -1;
    }
    for (int32_t i = 0; i < request->ndim; i++) {
        if (i != open && (request->dims[i] <= 0 || __builtin_mul_overflow(step, (uint64_t)request->dims[i], &step))) {
            return -1;
        }
    }
    uint64_t left = span - request->offset;
    return left % step == 0 ? (int64_t)(left / step) : -1;
}

/* An empty dimension counts as 1, as in Go. */
inline bool lay_out(const struct request *request, struct answer *answer)
{
    int64_t count = 1, bytes;
    bool empty = false;
    for (int32_t i = request->ndim - 1; i >= 0; i--) {
        int64_t length = request->dims[i];
        if (length < 0 && (length = open_length(request, answer->itemsize, i)) < 0) {
            return false;
        }
        answer->dims[i] = length;
        answer->dims[request->ndim + i] = count;
        empty = empty || length == 0;
        if (__builtin_mul_overflow(count, length + (length == 0), &count)) {
            return false;
        }
    }
    if (__builtin_mul_overflow(count, answer->itemsize, &bytes)) {
        return false;
    }
    answer->below = 0;
    answer->above = empty ? 0 : (uint64_t)bytes;
    return true;
}

/* Gives the answer the request's strides, except in dimensions of one item. false: only Go can answer. */
__attribute__((noinline)) static bool stretch(const struct request *request, struct answer *answer)
{
    bool in_items = request->protocol == PROTOCOL_DLTENSOR || request->protocol == PROTOCOL_MEMORY;
    int64_t itemsize = answer->itemsize;
    uint64_t below = 0, above = (uint64_t)itemsize;
    for (int32_t i = 0; i < request->ndim; i++) {
        int64_t steps = answer->dims[i] - 1, stride = request->dims[request->ndim + i], step = stride, reach;
        if (steps == 0) {
            continue;
        }
        if (in_items) {
            if (__builtin_mul_overflow(stride, itemsize, &step)) {
                return false;
            }
        }
        else if (itemsize > 1) {
            stride = step / itemsize;
            if (stride * itemsize != step) {
                return false;
            }
        }
        if (__builtin_mul_overflow(steps, step, &reach) ||
            (reach < 0 ? __builtin_add_overflow(below, -(uint64_t)reach, &below)
                       : __builtin_add_overflow(above, (uint64_t)reach, &above))) {
            return false;
        }
        answer->dims[request->ndim + i] = stride;
    }
    answer->below = below;
    answer->above = above;
    return true;
}

/* True if the items lie at valid addresses, aligned, and within the span. */
static inline bool lies_well(const struct request *request, const struct answer *answer, uint64_t alignment)
{
    uint64_t first = request->data + request->offset;
    return request->data != 0 && first >= request->data && (first & (alignment - 1)) == 0 && answer->below <= first &&
           answer->above - 1 <= UINT64_MAX - first &&
           ((request->facts & FACT_SPAN) == 0 ||
            (answer->below <= request->offset && request->offset <= (uint64_t)request->span &&
             answer->above <= (uint64_t)request->span - request->offset));
}

HOT bool look_up(const struct request *request, struct answer *answer)
{
    const struct type_spelling *spelling = DLPACK_USES_TABLE && is_ordinary(request) ? find_spelling(request) : NULL;
    if (spelling == NULL) {
        return false;
    }
    const struct known_type *type = &known_types[spelling->type];
    answer->itemsize = spelling->itemsize;
    if (!lay_out(request, answer)) {
        return false;
    }
    bool empty = answer->above == 0;
    if (empty ? (request->facts & FACT_SPAN) != 0 && request->offset > (uint64_t)request->span
              : ((request->facts & FACT_STRIDES) != 0 && !stretch(request, answer)) ||
                    !lies_well(request, answer, spelling->alignment)) {
        return false;
    }
    answer->memory = NULL;
    answer->device_memory = NULL;
    answer->ndim = request->ndim;
    answer->dtype = type->dtype;
    answer->device = (DLDevice){kDLCPU, 0};
    answer->flags = spelling->flags | (request->flags & DLPACK_FLAG_BITMASK_IS_COPIED);
    answer->offset = empty ? -request->data : request->offset; /* without items, data is NULL */
    answer->byte_offset = 0;
    answer->stream = STREAM_UNKNOWN;
    answer->versioned_only = spelling->versioned_only;
    answer->on_cpu = 1;
    answer->swap = spelling->swapped ? spelling->alignment : 0;
    answer->names = type->names;
    return true;
}
