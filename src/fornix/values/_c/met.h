/* A table of the short texts that were met lately and of what they came to, without Python.

   It is of fixed size: a text that finds no free place takes that of another. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PLACES (1u << 16) /* of 64 bytes, as a line of the processor's cache: 4 MB in all */
#define LONGEST_MET 34    /* bytes of a text */
#define PIECES_MET 12     /* that a text came to, at most */
#define TERMS_MET 6
#define NO_HASH 2166136261u
#define TRIED 4 /* places where a text may be, one after the other */

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

/* Return by what a text is looked up, letter by letter from `NO_HASH` on: FNV-1a. */
static uint32_t hashed(uint32_t hash, char letter) {
    return (hash ^ (unsigned char)letter) * 16777619;
}

static int is_there(const Met *met, const char *text, int size, uint32_t hash) {
    return met->hash == hash && met->size == size && memcmp(met->text, text, (size_t)size) == 0;
}

static uint32_t first_place(uint32_t hash) { return (hash ^ hash >> 16) % PLACES; }

/* Have the processor fetch the first place of a text that is looked up soon. */
static void fetch(const Met *table, uint32_t hash) {
    fetch_bytes(table + first_place(hash), sizeof(Met));
}

/* Return where a text is, or is to be. */
static Met *place_of(Met *table, const char *text, int size, uint32_t hash) {
    uint32_t first = first_place(hash);
    for (uint32_t at = 0; at < TRIED; at++) {
        Met *met = table + (first + at) % PLACES;
        if (met->size == 0 || is_there(met, text, size, hash))
            return met;
    }
    return table + first;
}

/* Put a text to a place; what it came to is there already. */
static void put(Met *met, const char *text, int size, uint32_t hash) {
    memcpy(met->text, text, (size_t)size);
    met->hash = hash;
    met->size = (unsigned char)size;
}
