/* A table of the short texts that were met lately and of what they came to, without Python.

   It is of fixed size: a text that finds no free slot takes that of another. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (1u << 16) /* of 64 bytes, as a line of the processor's cache: 4 MB in all */
#define LONGEST_MET 34    /* bytes of a text, behind which what it came to is its margin */
#define PIECES_MET 12     /* that a text came to, at most */
#define TERMS_MET 6
#define TRIED 4 /* slots where a text may be, one after the other */

/* Have the processor fetch what is read soon and far away in memory. */
static void fetch_bytes(const void *from, ptrdiff_t size) {
#ifdef __GNUC__
    for (ptrdiff_t at = 0; at < size; at += 64)
        __builtin_prefetch((const char *)from + at);
#else
    (void)from;
    (void)size;
#endif
}

typedef struct {
    uint32_t hash;
    unsigned char size, count; /* no size: nothing was met; count: of what it came to */
    char text[LONGEST_MET];
    union {
        uint32_t terms[TERMS_MET];
        uint16_t pieces[PIECES_MET];
    } is;
} Met;

/* What is behind a text, so that eight of its bytes may be read at any slot. */
#define MARGIN 8

static uint64_t eight_bytes(const char *from) {
    uint64_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return bytes;
}

/* Return the first bytes of eight, and zeros for the others. */
static uint64_t first_bytes(uint64_t bytes, int size) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return size >= 8 ? bytes : bytes & ~(UINT64_MAX >> 8 * size);
#else
    return size >= 8 ? bytes : bytes & ~(UINT64_MAX << 8 * size);
#endif
}

/* Return by what a text, which has a margin, is looked up in this process. */
static uint32_t hash_of(const char *text, int size) {
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    uint64_t hash = (uint64_t)size;
    for (int at = 0; at < size; at += 8) {
        hash = (hash ^ first_bytes(eight_bytes(text + at), size - at)) * factor;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

/* Tell whether two texts with margins are the same. */
static int same_bytes(const char *one, const char *other, int size) {
    uint64_t differing = 0;
    for (int at = 0; at < size; at += 8)
        differing |= first_bytes(eight_bytes(one + at) ^ eight_bytes(other + at), size - at);
    return differing == 0;
}

static int is_there(const Met *met, const char *text, int size, uint32_t hash) {
    return met->hash == hash && met->size == size && same_bytes(met->text, text, size);
}

static uint32_t first_slot(uint32_t hash) { return (hash ^ hash >> 16) % SLOTS; }

/* Have the processor fetch the first slot of a text that is looked up soon. */
static void fetch(const Met *table, uint32_t hash) {
    fetch_bytes(table + first_slot(hash), sizeof(Met));
}

/* Return where a text is, or is to be. */
static Met *met_slot(Met *table, const char *text, int size, uint32_t hash) {
    uint32_t first = first_slot(hash);
    for (uint32_t at = 0; at < TRIED; at++) {
        Met *met = table + (first + at) % SLOTS;
        if (met->size == 0 || is_there(met, text, size, hash))
            return met;
    }
    return table + first;
}

/* Put a text to a slot; what it came to is there already. */
static void put(Met *met, const char *text, int size, uint32_t hash) {
    memcpy(met->text, text, (size_t)size);
    met->hash = hash;
    met->size = (unsigned char)size;
}
