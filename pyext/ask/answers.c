/* answers.c: the answers that C remembers, so that a kind of memory met again costs a look-up and no call into Go.
 *
 * It is C because calling Go costs more than what it saves. A fixed table without locks: each slot is written under a
 * sequence number that is odd meanwhile, and a reader who saw it change takes nothing. */
#include "ask/ask.h"

#include <stdatomic.h>
#include <string.h>

enum {
    REMEMBERED_NDIM = 8,
    SETS = 64, /* a power of two */
    WAYS = 4,
    KEY_HEAD = offsetof(struct request, dims),
    KEY_HEAD_WORDS = KEY_HEAD / 8,
    ANSWER_HEAD = offsetof(struct answer, dims) - offsetof(struct answer, ndim),
    ANSWER_HEAD_WORDS = ANSWER_HEAD / 8,
};

_Static_assert(KEY_HEAD % 8 == 0 && ANSWER_HEAD % 8 == 0 && offsetof(struct answer, ndim) % 8 == 0,
               "keys and answers are compared and copied in words");

typedef _Atomic(uint64_t) atomic_word;

static struct slot {
    atomic_uint sequence; /* 0: empty; odd: being written */
    atomic_word hash;
    atomic_word key[KEY_HEAD_WORDS + 2 * REMEMBERED_NDIM];
    atomic_word answer[ANSWER_HEAD_WORDS + 2 * REMEMBERED_NDIM];
} slots[SETS][WAYS];

static atomic_uint next_way;

/* frombuffer without a shape: one dimension, as long as there is memory. */
static bool is_open(const struct request *request)
{
    return request->protocol == PROTOCOL_MEMORY && request->ndim == 1 && request->dims[0] == -1 &&
           (request->facts & FACT_SPAN) != 0;
}

bool any_shape(const struct request *request)
{
    bool any = request->ndim > 0 && request->ndim <= MAX_NDIM && request->stride_count == 0 &&
               (request->facts & (FACT_NO_SHAPE | FACT_STRIDES)) == 0;
    for (int32_t i = 0; any && i < request->ndim; i++) {
        any = request->dims[i] > 0 || is_open(request);
    }
    return any;
}

/* How many words of dims, which are behind its head, the key has: of memory in any shape none. -1: it is none that is
 * remembered. */
HOT static int key_tail(const struct request *request)
{
    if (request->format_length >= FORMAT_SIZE) {
        return -1;
    }
    if (any_shape(request)) {
        return 0;
    }
    bool has_room = request->ndim >= 0 && request->ndim <= REMEMBERED_NDIM;
    bool is_whole = (request->facts & FACT_NO_SHAPE) == 0 && request->stride_count == request->ndim;
    return has_room && is_whole ? 2 * request->ndim : -1;
}

static uint64_t word_at(const void *words, int i)
{
    uint64_t word;
    memcpy(&word, (const char *)words + 8 * i, 8);
    return word;
}

/* Sums of products: no step waits for the one before. */
static uint64_t hash_of(const struct request *request, int tail)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u; /* 2**64 over the golden ratio, odd */
    uint64_t hash = 0;
    _Pragma("GCC unroll 16") for (int i = 0; i < KEY_HEAD_WORDS; i++)
    {
        hash += word_at(request, i) * (golden * (2 * (uint64_t)i + 1));
    }
    for (int i = KEY_HEAD_WORDS; i < KEY_HEAD_WORDS + tail; i += 2) { /* shape and strides: an even number */
        hash += word_at(request, i) * (golden * (2 * (uint64_t)i + 1));
        hash += word_at(request, i + 1) * (golden * (2 * (uint64_t)i + 3));
    }
    return hash ^ hash >> 32;
}

static bool key_equals(struct slot *slot, const struct request *request, int tail)
{
    uint64_t differences = 0;
    _Pragma("GCC unroll 16") for (int i = 0; i < KEY_HEAD_WORDS; i++)
    {
        differences |= atomic_load_explicit(&slot->key[i], memory_order_relaxed) ^ word_at(request, i);
    }
    for (int i = KEY_HEAD_WORDS; i < KEY_HEAD_WORDS + tail; i += 2) {
        differences |= atomic_load_explicit(&slot->key[i], memory_order_relaxed) ^ word_at(request, i);
        differences |= atomic_load_explicit(&slot->key[i + 1], memory_order_relaxed) ^ word_at(request, i + 1);
    }
    return differences == 0;
}

static void copy_answer(struct slot *slot, int dims, struct answer *answer)
{
    char *kept = (char *)&answer->ndim;
    _Pragma("GCC unroll 32") for (int i = 0; i < ANSWER_HEAD_WORDS; i++)
    {
        uint64_t word = atomic_load_explicit(&slot->answer[i], memory_order_relaxed);
        memcpy(kept + 8 * i, &word, 8);
    }
    for (int i = ANSWER_HEAD_WORDS; i < ANSWER_HEAD_WORDS + dims; i++) {
        uint64_t word = atomic_load_explicit(&slot->answer[i], memory_order_relaxed);
        memcpy(kept + 8 * i, &word, 8);
    }
}

bool recall(const struct request *request, struct answer *answer)
{
    int tail = key_tail(request);
    if (tail < 0) {
        return false;
    }
    uint64_t hash = hash_of(request, tail);
    for (int way = 0; way < WAYS; way++) {
        struct slot *slot = &slots[hash % SETS][way];
        unsigned sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
        if (sequence == 0 || sequence % 2 != 0 || atomic_load_explicit(&slot->hash, memory_order_relaxed) != hash ||
            !key_equals(slot, request, tail)) {
            continue;
        }
        copy_answer(slot, tail, answer);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) == sequence) {
            answer->memory = NULL;
            answer->device_memory = NULL;
            return true;
        }
    }
    return false;
}

void remember(const struct request *request, const struct answer *answer)
{
    int tail = key_tail(request);
    if (!answer->remember || tail < 0 || answer->ndim != request->ndim ||
        (any_shape(request) && answer->max_count == 0)) {
        return;
    }
    uint64_t hash = hash_of(request, tail);
    int first = tail == 0 ? 0 : 1; /* one way of each set is for kinds whose shape is no part of them: these are few */
    struct slot *set = slots[hash % SETS], *slot = &set[first + atomic_fetch_add(&next_way, 1) % (WAYS - first)];
    for (int way = first; way < WAYS; way++) {
        if (atomic_load(&set[way].sequence) == 0) {
            slot = &set[way];
            break;
        }
    }
    unsigned sequence = atomic_load(&slot->sequence);
    if (sequence % 2 != 0 || !atomic_compare_exchange_strong(&slot->sequence, &sequence, sequence + 1)) {
        return; /* another thread writes here; this answer is asked for again */
    }
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&slot->hash, hash, memory_order_relaxed);
    for (int i = 0; i < KEY_HEAD_WORDS + tail; i++) {
        atomic_store_explicit(&slot->key[i], word_at(request, i), memory_order_relaxed);
    }
    for (int i = 0; i < ANSWER_HEAD_WORDS + tail; i++) {
        atomic_store_explicit(&slot->answer[i], word_at(&answer->ndim, i), memory_order_relaxed);
    }
    atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

/* A slot that another thread of the parent was writing stays half-written in the child: it is emptied. */
void mend_answers_after_fork(void)
{
    for (int i = 0; i < SETS * WAYS; i++) {
        struct slot *slot = &slots[i / WAYS][i % WAYS];
        if (atomic_load(&slot->sequence) % 2 != 0) {
            atomic_store(&slot->sequence, 0);
        }
    }
}
