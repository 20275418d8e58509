/* answers.c: the answers that C remembers, so that a kind of memory met again costs a look-up and no call into Go.
 *
 * It is C because calling Go costs more than what it saves. A fixed table without locks: each slot is written under a
 * sequence number that is odd meanwhile, and a reader who saw it change takes nothing. */
#include "extension.h"

#include <stdatomic.h>
#include <string.h>

enum {
    REMEMBERED_NDIM = 8,
    SETS = 64, /* a power of two */
    WAYS = 4,
    KEY_HEAD = offsetof(struct request, dims),
    KEY_WORDS = KEY_HEAD / 8 + 2 * REMEMBERED_NDIM,
    ANSWER_HEAD = offsetof(struct answer, dims) - offsetof(struct answer, ndim),
    ANSWER_WORDS = ANSWER_HEAD / 8 + 2 * REMEMBERED_NDIM,
};

_Static_assert(KEY_HEAD % 8 == 0 && ANSWER_HEAD % 8 == 0 && offsetof(struct answer, ndim) % 8 == 0,
               "keys and answers are compared and copied in words");

typedef _Atomic(uint64_t) atomic_word;

static struct slot {
    atomic_uint sequence; /* 0: empty; odd: being written */
    atomic_word hash;
    atomic_word key[KEY_WORDS];
    atomic_word answer[ANSWER_WORDS];
} slots[SETS][WAYS];

static atomic_uint next_way;

static bool is_compact_1d(const struct request *request)
{
    return request->ndim == 1 && (request->facts & (FACT_NO_SHAPE | FACT_STRIDES)) == 0;
}

bool any_length(const struct request *request)
{
    return is_compact_1d(request) && request->dims[0] > 0;
}

static bool rememberable(const struct request *request)
{
    if (is_compact_1d(request) && !any_length(request)) {
        return false;
    }
    return request->ndim >= 0 && request->ndim <= REMEMBERED_NDIM && request->format_length < FORMAT_SIZE &&
           (request->stride_count == 0 || request->stride_count == request->ndim) &&
           (request->facts & FACT_NO_SHAPE) == 0;
}

static size_t key_words(const struct request *request)
{
    return KEY_HEAD / 8 + (size_t)(request->ndim + request->stride_count);
}

static uint64_t word_at(const void *words, size_t i)
{
    uint64_t word;
    memcpy(&word, (const char *)words + 8 * i, 8);
    return word;
}

/* A word of the key; 0 stands for the length that is no part of it, since no memory without items is remembered. */
static uint64_t key_word(const struct request *request, size_t i, bool without_length)
{
    return without_length && i == KEY_HEAD / 8 ? 0 : word_at(request, i);
}

static uint64_t hash_of(const struct request *request, size_t words, bool without_length)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < words; i++) {
        hash = (hash ^ key_word(request, i, without_length)) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool key_equals(struct slot *slot, const struct request *request, size_t words, bool without_length)
{
    for (size_t i = 0; i < words; i++) {
        if (atomic_load_explicit(&slot->key[i], memory_order_relaxed) != key_word(request, i, without_length)) {
            return false;
        }
    }
    return true;
}

bool recall(const struct request *request, struct answer *answer)
{
    if (!rememberable(request)) {
        return false;
    }
    bool without_length = any_length(request);
    size_t words = key_words(request);
    uint64_t hash = hash_of(request, words, without_length);
    for (int way = 0; way < WAYS; way++) {
        struct slot *slot = &slots[hash % SETS][way];
        unsigned sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
        if (sequence == 0 || sequence % 2 != 0 || atomic_load_explicit(&slot->hash, memory_order_relaxed) != hash ||
            !key_equals(slot, request, words, without_length)) {
            continue;
        }
        char *kept = (char *)&answer->ndim;
        size_t count = ANSWER_HEAD / 8;
        for (size_t i = 0; i < count; i++) {
            uint64_t word = atomic_load_explicit(&slot->answer[i], memory_order_relaxed);
            memcpy(kept + 8 * i, &word, 8);
            if (i + 1 == ANSWER_HEAD / 8) {
                count += 2 * (size_t)answer->ndim;
            }
        }
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
    bool without_length = any_length(request);
    if (!answer->remember || !rememberable(request) || answer->ndim > REMEMBERED_NDIM ||
        (without_length && answer->max_count == 0)) {
        return;
    }
    size_t words = key_words(request);
    uint64_t hash = hash_of(request, words, without_length);
    struct slot *set = slots[hash % SETS], *slot = &set[atomic_fetch_add(&next_way, 1) % WAYS];
    for (int way = 0; way < WAYS; way++) {
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
    for (size_t i = 0; i < words; i++) {
        atomic_store_explicit(&slot->key[i], key_word(request, i, without_length), memory_order_relaxed);
    }
    for (size_t i = 0; i < ANSWER_HEAD / 8 + 2 * (size_t)answer->ndim; i++) {
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
