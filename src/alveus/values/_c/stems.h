/* The terms of English words, without Python.

   A word is of ASCII letters in lower case and of digits. Its stem is by Porter's algorithm ("An
   algorithm for suffix stripping", Program 14(3), 1980), as SQLite's `porter` has it; its term is
   the checksum of the stem: see words.py. */

#include <stdint.h>
#include <string.h>

#define FIRST_TERM 16      /* words.FIRST_TERM */
#define SHORTEST_STEMMED 3 /* of `porter` */
#define LONGEST_STEMMED 64 /* words._LONGEST_STEMMED */

/* Return the CRC-32 of ISO 3309, a byte at a time, of which each half has a table. */
static uint32_t checksum(const char *text, size_t size) {
    static const uint32_t of_low_bits[16] = {
        0x00000000, 0x77073096, 0xee0e612c, 0x990951ba, 0x076dc419, 0x706af48f,
        0xe963a535, 0x9e6495a3, 0x0edb8832, 0x79dcb8a4, 0xe0d5e91e, 0x97d2d988,
        0x09b64c2b, 0x7eb17cbd, 0xe7b82d07, 0x90bf1d91,
    };
    static const uint32_t of_high_bits[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t sum = 0xffffffff;
    for (size_t at = 0; at < size; at++) {
        unsigned byte = (sum ^ (unsigned char)text[at]) & 255;
        sum = of_low_bits[byte & 15] ^ of_high_bits[byte >> 4] ^ sum >> 8;
    }
    return ~sum;
}

/* Tell whether a letter is a vowel; `y` is one where a consonant is before it. */
static int is_vowel(char letter, int after_consonant) {
    static const uint32_t vowels = 1 | 1 << ('e' - 'a') | 1 << ('i' - 'a') | 1 << ('o' - 'a') |
                                   1 << ('u' - 'a');
    return letter == 'y' ? after_consonant : letter >= 'a' && vowels >> (letter - 'a') & 1;
}

/* What is known of the beginning of a word: how often vowels are followed by consonants in it,
   whether it has a vowel, and whether it ends in consonant, vowel, consonant, the last of which is
   no w, x or y. */
typedef struct {
    int measure, has_vowel, ends_short;
} Form;

static Form form_of(const char *word, int size) {
    Form form = {0, 0, 0};
    int consonants = 0, consonant = 0; /* of the last letters, a bit each; of the last one */
    for (int at = 0; at < size; at++) {
        int before = consonant;
        consonant = !is_vowel(word[at], before);
        form.measure += at > 0 && consonant && !before;
        form.has_vowel |= is_vowel(word[at], at > 0);
        consonants = (consonants << 1 | consonant) & 7;
    }
    form.ends_short = consonants == 5 && memchr("wxy", word[size - 1], 3) == NULL;
    return form;
}

/* An ending, and what takes its slot; and how long both are. */
typedef struct {
    const char *ending, *instead;
    int size, new_size;
} Rule;

#define RULE(ending, instead) {ending, instead, sizeof ending - 1, sizeof instead - 1}
#define NO_MORE {NULL, NULL, 0, 0}

/* Return how long a word is without an ending; 0: it has another, or nothing before it. */
static int without(const char *word, int size, const Rule *rule) {
    int rest = size - rule->size;
    /* Nearly all have another last letter. */
    return rest > 0 && word[size - 1] == rule->ending[rule->size - 1] &&
                   memcmp(word + rest, rule->ending, (size_t)rule->size) == 0
               ? rest
               : 0;
}

/* Of the rules the first whose ending a word has: replace it where enough is before it. */
static int replaced(char *word, int size, const Rule *rules, int least) {
    for (; rules->ending != NULL; rules++) {
        int rest = without(word, size, rules);
        if (rest == 0)
            continue;
        if (form_of(word, rest).measure < least)
            return size;
        memcpy(word + rest, rules->instead, (size_t)rules->new_size);
        return rest + rules->new_size;
    }
    return size;
}

static const Rule plurals[] = {
    RULE("sses", "ss"), RULE("ies", "i"),   RULE("ss", "ss"),   RULE("s", ""),
    NO_MORE,
};

static const Rule after_past[] = {RULE("at", "ate"), RULE("bl", "ble"), RULE("iz", "ize"), NO_MORE};

static const Rule double_suffixes[] = {
    RULE("ational", "ate"), RULE("tional", "tion"), RULE("enci", "ence"),   RULE("anci", "ance"),
    RULE("izer", "ize"),    RULE("logi", "log"),    RULE("bli", "ble"),     RULE("alli", "al"),
    RULE("entli", "ent"),   RULE("eli", "e"),       RULE("ousli", "ous"),   RULE("ization", "ize"),
    RULE("ation", "ate"),   RULE("ator", "ate"),    RULE("alism", "al"),    RULE("iveness", "ive"),
    RULE("fulness", "ful"), RULE("ousness", "ous"), RULE("aliti", "al"),    RULE("iviti", "ive"),
    RULE("biliti", "ble"),  NO_MORE,
};

static const Rule single_suffixes[] = {
    RULE("icate", "ic"), RULE("ative", ""),   RULE("alize", "al"), RULE("iciti", "ic"),
    RULE("ical", "ic"),  RULE("ful", ""),     RULE("ness", ""),    NO_MORE,
};

static const Rule last_suffixes[] = {
    RULE("al", ""),    RULE("ance", ""),  RULE("ence", ""),  RULE("er", ""),    RULE("ic", ""),
    RULE("able", ""),  RULE("ible", ""),  RULE("ant", ""),   RULE("ement", ""), RULE("ment", ""),
    RULE("ent", ""),   RULE("ou", ""),    RULE("ism", ""),   RULE("ate", ""),   RULE("iti", ""),
    RULE("ous", ""),   RULE("ive", ""),   RULE("ize", ""),   NO_MORE,
};

/* Take the ending of a past or of a participle off, and mend what is left. */
static int without_past(char *word, int size) {
    static const Rule eed = RULE("eed", ""), ed = RULE("ed", ""), ing = RULE("ing", "");
    int rest = without(word, size, &eed);
    if (rest > 0)
        return form_of(word, rest).measure > 0 ? rest + 2 : size;
    rest = without(word, size, &ed);
    if (rest == 0)
        rest = without(word, size, &ing);
    if (rest == 0 || !form_of(word, rest).has_vowel)
        return size;
    int mended = replaced(word, rest, after_past, 0);
    if (mended != rest)
        return mended;
    char last = word[rest - 1];
    Form form = form_of(word, rest);
    if (rest > 1 && last == word[rest - 2] && !is_vowel(last, 0) && memchr("lsz", last, 3) == NULL)
        return rest - 1;
    if (form.measure == 1 && form.ends_short)
        word[rest++] = 'e';
    return rest;
}

/* Take the last suffix off; `ion` goes after s and t alone. */
static int without_last_suffix(char *word, int size) {
    static const Rule ion = RULE("ion", "");
    int rest = without(word, size, &ion);
    if (rest > 0 && memchr("st", word[rest - 1], 2) != NULL)
        return form_of(word, rest).measure > 1 ? rest : size;
    return replaced(word, size, last_suffixes, 2);
}

/* Replace a word by its stem, which is no longer; return its size. */
static int stem(char *word, int size) {
    if (size < SHORTEST_STEMMED || size > LONGEST_STEMMED)
        return size;
    size = replaced(word, size, plurals, 0);
    size = without_past(word, size);
    if (word[size - 1] == 'y' && form_of(word, size - 1).has_vowel)
        word[size - 1] = 'i';
    size = replaced(word, size, double_suffixes, 1);
    size = replaced(word, size, single_suffixes, 1);
    size = without_last_suffix(word, size);
    if (word[size - 1] == 'e') {
        Form form = form_of(word, size - 1);
        size -= form.measure > 1 || (form.measure == 1 && !form.ends_short);
    }
    if (size > 1 && word[size - 1] == 'l' && word[size - 2] == 'l')
        size -= form_of(word, size - 1).measure > 1;
    return size;
}

/* Return the term of a word. */
static uint32_t term_of(const char *word, size_t size) {
    char stemmed[LONGEST_STEMMED];
    if (size <= LONGEST_STEMMED) {
        memcpy(stemmed, word, size);
        size = (size_t)stem(stemmed, (int)size);
        word = stemmed;
    }
    uint32_t term = checksum(word, size);
    return term < FIRST_TERM ? FIRST_TERM : term;
}
