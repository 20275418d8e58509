/* answers.c: the answers that C remembers, so that a kind of memory met again costs a look-up and no call into Go.
 *
 * It is C because calling Go costs more than what it saves. */
#include "ask/ask.h"

#include <stdatomic.h>
#include <string.h>

enum {
    REMEMBERED_NDIM = 8,
    /* Most kinds hold for any shape and strides: a program has one or two for each data type and number of dimensions. Of
     * packed items, each shape is a kind, and each offset is one: a program may have more of these than there are places,
     * and asks Go for the rest, at 0.3 us each. A place takes 0.5 KiB, from its first use on. */
    WIDE_KINDS = 512,
    OTHER_KINDS = 4096,
    ATTEMPTS = 8, /* places that a kind may have */
    KEY_HEAD_WORDS = offsetof(struct request, dims) / 8,
    ANSWER_HEAD = offsetof(struct answer, dims) - offsetof(struct answer, ndim),
};

_Static_assert(offsetof(struct request, dims) % 8 == 0, "keys are compared in words");

enum state { FREE, BEING_FILLED, PUBLISHED };

/* Filled once, then published, and never changed or freed: a reader needs no lock, and a forked child finds an entry
 * whole or not at all. */
struct entry {
    atomic_int state;
    uint64_t hash;
    uint64_t key[KEY_HEAD_WORDS + 2 * REMEMBERED_NDIM];
    char head[ANSWER_HEAD];
    int64_t dims[2 * REMEMBERED_NDIM];
};

static struct entry wide_kinds[WIDE_KINDS], other_kinds[OTHER_KINDS];

/* frombuffer without a shape: one dimension, as long as there is memory. */
static bool is_open(const struct request *request)
{
    return request->protocol == PROTOCOL_MEMORY && request->ndim == 1 && request->dims[0] == -1 &&
           (request->facts & FACT_SPAN) != 0;
}

/* Whether the request is of memory with items, so that it may be known by its kind alone: its shape and strides are then
 * no part of its key. */
static bool any_layout(const struct request *request)
{
    bool strided = (request->facts & FACT_STRIDES) != 0;
    bool any = request->ndim > 0 && request->ndim <= MAX_NDIM && (request->facts & FACT_NO_SHAPE) == 0 &&
               request->stride_count == (strided ? request->ndim : 0);
    for (int32_t i = 0; any && i < request->ndim; i++) {
        any = request->dims[i] > 0 || (!strided && is_open(request));
    }
    return any;
}

/* What a request is looked up by: the words up to dims, and where its shape matters those of dims in use. */
struct key {
    int count;
    uint64_t hash;
};

static uint64_t word_at(const void *words, int i)
{
    uint64_t word;
    memcpy(&word, (const char *)words + 8 * i, 8);
    return word;
}

static inline uint64_t hash_of_words(const struct request *request, int first, int end)
{
    static const uint64_t golden = 0x9E3779B97F4A7C15u; /* 2**64 over the golden ratio, odd */
    uint64_t hash = 0;
    for (int i = first; i < end; i++) { /* a sum of products: no step waits for the one before */
        hash += word_at(request, i) * (golden * (2 * (uint64_t)i + 1));
    }
    return hash;
}

/* false: such a request is not remembered. */
HOT static bool make_key(const struct request *request, bool any, struct key *key)
{
    key->count = KEY_HEAD_WORDS;
    if (request->format_length >= FORMAT_SIZE) {
        return false;
    }
    if (!any) {
        bool is_whole = (request->facts & FACT_NO_SHAPE) == 0 && request->stride_count == request->ndim;
        if (!is_whole || request->ndim < 0 || request->ndim > REMEMBERED_NDIM) {
            return false;
        }
        key->count += 2 * request->ndim;
    }
    /* In two parts: the compiler unrolls the first, whose length it knows. And with the count: else a key with dims of 0
     * would match an entry without dims, whose unused words are 0. */
    key->hash = hash_of_words(request, 0, KEY_HEAD_WORDS) + hash_of_words(request, KEY_HEAD_WORDS, key->count) +
                (uint64_t)key->count;
    return true;
}

/* The place to try at this attempt. Kinds of any layout have a table of their own, except those with an offset, which are
 * many. */
static struct entry *place_of(const struct request *request, const struct key *key, uint64_t attempt)
{
    uint64_t place = (key->hash >> 48) + attempt; /* the highest bits, which depend on all bits of the key */
    bool is_wide = key->count == KEY_HEAD_WORDS && request->offset == 0;
    return is_wide ? &wide_kinds[place % WIDE_KINDS] : &other_kinds[place % OTHER_KINDS];
}

static bool is_of(const struct entry *entry, const struct request *request, const struct key *key)
{
    bool same = entry->hash == key->hash;
    for (int i = 0; i < key->count && same; i++) {
        same = entry->key[i] == word_at(request, i);
    }
    return same;
}

/* The entry with this key; NULL: there is none. */
static inline const struct entry *find(const struct request *request, const struct key *key)
{
    int state = PUBLISHED;
    for (uint64_t attempt = 0; attempt < ATTEMPTS && state != FREE; attempt++) {
        const struct entry *entry = place_of(request, key, attempt);
        state = atomic_load_explicit(&entry->state, memory_order_acquire);
        if (state == PUBLISHED && is_of(entry, request, key)) {
            return entry;
        }
    }
    return NULL;
}

/* A free entry for this key, which from now on no other thread fills; NULL: there is none. */
static struct entry *claim(const struct request *request, const struct key *key)
{
    for (uint64_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct entry *entry = place_of(request, key, attempt);
        int state = FREE;
        if (atomic_compare_exchange_strong(&entry->state, &state, BEING_FILLED)) {
            return entry;
        }
    }
    return NULL;
}

/* The length of one dimension; of the open one, of the memory behind the offset, or 0 where that is no whole number. */
static int64_t length_of(const struct request *request, const struct answer *answer, int32_t dimension)
{
    int64_t length = request->dims[dimension];
    if (length != -1) {
        return length;
    }
    uint64_t span = (uint64_t)request->span, rest = span - answer->offset, itemsize = (uint64_t)answer->itemsize;
    bool whole = answer->offset <= span && rest % itemsize == 0;
    return whole ? (int64_t)(rest / itemsize) : 0;
}

/* Gives the answer the request's shape, without gaps. false: it does not hold for that. */
static inline bool lay_out(const struct request *request, struct answer *answer)
{
    int64_t count = 1;
    for (int32_t i = request->ndim - 1; i >= 0; i--) {
        int64_t length = length_of(request, answer, i);
        answer->dims[i] = length;
        answer->dims[answer->ndim + i] = count;
        if (length == 0 || __builtin_mul_overflow(count, length, &count) || count > answer->max_count) {
            return false;
        }
    }
    answer->above = (uint64_t)count * (uint64_t)answer->itemsize;
    return true;
}

/* Gives it the request's strides, too, where these lead to another item. */
__attribute__((noinline)) static bool stretch(const struct request *request, struct answer *answer)
{
    bool in_items = request->protocol == PROTOCOL_DLTENSOR || request->protocol == PROTOCOL_MEMORY;
    answer->below = 0;
    answer->above = (uint64_t)answer->itemsize;
    for (int32_t i = 0; i < request->ndim; i++) {
        int64_t steps = answer->dims[i] - 1, stride = request->dims[request->ndim + i], reach;
        if (steps == 0) {
            continue;
        }
        if (!in_items && stride % answer->itemsize != 0) {
            return false;
        }
        stride = in_items ? stride : stride / answer->itemsize;
        if (__builtin_mul_overflow(steps, stride, &reach) || __builtin_mul_overflow(reach, answer->itemsize, &reach)) {
            return false;
        }
        uint64_t *end = reach < 0 ? &answer->below : &answer->above,
                 bytes = reach < 0 ? -(uint64_t)reach : (uint64_t)reach;
        if (__builtin_add_overflow(*end, bytes, end)) {
            return false;
        }
        answer->dims[answer->ndim + i] = stride;
    }
    return true;
}

/* Whether a remembered answer holds for this request's data and span, and where it is one for any layout for its shape and
 * strides, which become the answer's. */
static bool fits(const struct request *request, bool any, struct answer *answer)
{
    uint64_t first = request->data + answer->offset;
    if (any && (!lay_out(request, answer) || (request->stride_count > 0 && !stretch(request, answer)))) {
        return false;
    }
    return first >= request->data && (first & (answer->alignment - 1)) == 0 && answer->below <= first &&
           answer->above - 1 <= UINT64_MAX - first &&
           ((request->facts & FACT_SPAN) == 0 ||
            (answer->below <= answer->offset && answer->offset <= (uint64_t)request->span &&
             answer->above <= (uint64_t)request->span - answer->offset));
}

/* Recalls an answer for any layout, or one whose key has the request's shape and strides. */
static inline bool recall_by(bool any, const struct request *request, struct answer *answer)
{
    struct key key;
    const struct entry *entry = make_key(request, any, &key) ? find(request, &key) : NULL;
    if (entry == NULL) {
        return false;
    }
    memcpy(&answer->ndim, entry->head, ANSWER_HEAD);
    memcpy(answer->dims, entry->dims, 8 * (size_t)(key.count - KEY_HEAD_WORDS));
    answer->memory = NULL;
    answer->device_memory = NULL;
    return fits(request, any, answer);
}

/* Apart, so that the way of most kinds stays short: packed items, and what has no dimensions, are known so. */
__attribute__((cold, noinline)) static bool recall_by_layout(const struct request *request, struct answer *answer)
{
    return recall_by(false, request, answer);
}

bool recall(const struct request *request, struct answer *answer)
{
    return (any_layout(request) && recall_by(true, request, answer)) || recall_by_layout(request, answer);
}

void remember(const struct request *request, const struct answer *answer)
{
    struct key key;
    bool any = answer->max_count > 0 && any_layout(request);
    if (!answer->remember || answer->ndim != request->ndim || !make_key(request, any, &key)) {
        return;
    }
    /* The key may have an entry already: another thread's answer, or one that does not hold for this address. */
    struct entry *entry = find(request, &key) != NULL ? NULL : claim(request, &key);
    if (entry != NULL) {
        entry->hash = key.hash;
        memcpy(entry->key, request, 8 * (size_t)key.count);
        memcpy(entry->head, &answer->ndim, ANSWER_HEAD);
        memcpy(entry->dims, answer->dims, 8 * (size_t)(key.count - KEY_HEAD_WORDS));
        atomic_store_explicit(&entry->state, PUBLISHED, memory_order_release);
    }
}
