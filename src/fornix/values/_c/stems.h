/* The terms of English words, without Python.

   A word is of ASCII letters in lower case and of digits. Its stem is by Porter's algorithm ("An
   algorithm for suffix stripping", Program 14(3), 1980), as SQLite's `porter` has it; its term is
   the checksum of the stem: see words.py. */

#include <stdint.h>
#include <string.h>

#define FIRST_TERM 16      /* words.FIRST_TERM */
#define SHORTEST_STEMMED 3 /* of `porter` */
#define LONGEST_STEMMED 64 /* words._LONGEST_STEMMED */

/* Return the CRC-32 of ISO 3309, four bits at a time. */
static uint32_t checksum(const char *text, size_t size) {
    static const uint32_t of_four_bits[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t sum = 0xffffffff;
    for (size_t at = 0; at < size; at++) {
        sum ^= (unsigned char)text[at];
        sum = of_four_bits[sum & 15] ^ sum >> 4;
        sum = of_four_bits[sum & 15] ^ sum >> 4;
    }
    return ~sum;
}

/* Tell whether a letter is a vowel; `y` is one where a consonant is before it. */
static int is_vowel(char letter, int after_consonant) {
    return memchr("aeiou", letter, 5) != NULL || (letter == 'y' && after_consonant);
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

/* Return how long a word is without an ending; 0: it has another, or nothing before it. */
static int without(const char *word, int size, const char *ending) {
    int rest = size - (int)strlen(ending);
    return rest > 0 && memcmp(word + rest, ending, size - rest) == 0 ? rest : 0;
}

/* An ending, and what takes its place. */
typedef struct {
    const char *ending, *instead;
} Rule;

/* Of the rules the first whose ending a word has: replace it where enough is before it. */
static int replaced(char *word, int size, const Rule *rules, int least) {
    for (; rules->ending != NULL; rules++) {
        int rest = without(word, size, rules->ending);
        if (rest == 0)
            continue;
        if (form_of(word, rest).measure < least)
            return size;
        memcpy(word + rest, rules->instead, strlen(rules->instead));
        return rest + (int)strlen(rules->instead);
    }
    return size;
}

static const Rule plurals[] = {{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}, {NULL, NULL}};

static const Rule after_past[] = {{"at", "ate"}, {"bl", "ble"}, {"iz", "ize"}, {NULL, NULL}};

static const Rule double_suffixes[] = {
    {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
    {"izer", "ize"},    {"logi", "log"},    {"bli", "ble"},     {"alli", "al"},
    {"entli", "ent"},   {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"},
    {"ation", "ate"},   {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"},
    {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},
    {"biliti", "ble"},  {NULL, NULL},
};

static const Rule single_suffixes[] = {
    {"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
    {"ical", "ic"},  {"ful", ""},   {"ness", ""},    {NULL, NULL},
};

static const Rule last_suffixes[] = {
    {"al", ""},   {"ance", ""}, {"ence", ""}, {"er", ""},  {"ic", ""},  {"able", ""},  {"ible", ""},
    {"ant", ""}, {"ement", ""}, {"ment", ""}, {"ent", ""}, {"ou", ""}, {"ism", ""}, {"ate", ""},
    {"iti", ""}, {"ous", ""}, {"ive", ""}, {"ize", ""}, {NULL, NULL},
};

/* Take the ending of a past or of a participle off, and mend what is left. */
static int without_past(char *word, int size) {
    int rest = without(word, size, "eed");
    if (rest > 0)
        return form_of(word, rest).measure > 0 ? rest + 2 : size;
    rest = without(word, size, "ed");
    if (rest == 0)
        rest = without(word, size, "ing");
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
    int rest = without(word, size, "ion");
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
