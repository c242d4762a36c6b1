/* The language of a text of ASCII: see languages.py. */

#define READ_CHARACTERS 400 /* languages.READ */
#define READ_WORDS 40       /* languages.READ_WORDS */
#define VOTE 2              /* languages._VOTE */
#define FEW 4               /* languages._FEW */
#define MOST_IN_TOKEN 3     /* words: their votes are at most languages._MOST */
#define LISTED 4096         /* slots for the listed words: less than half of them are taken */
#define LONGEST_LISTED 18
#define LONGEST_OF_KIND 4

/* A word, and the languages that list it: a bit for each, the first one for English. */
typedef struct {
    uint64_t languages;
    uint32_t hash;
    unsigned char size, kind;
    char text[LONGEST_LISTED];
} Listed;

enum { IS_NAME = 1, IS_SURE = 2 }; /* kinds of words, by their letters as they are written */

static uint32_t listed_hash(const char *word, Py_ssize_t size) {
    uint32_t hash = 2166136261u;
    for (Py_ssize_t at = 0; at < size; at++)
        hash = (hash ^ (unsigned char)word[at]) * 16777619u;
    return hash ^ hash >> 15;
}

/* Return where a word is, or would be; it is not longer than a listed one. */
static Listed *listed_slot(Listed *table, const char *word, Py_ssize_t size) {
    uint32_t hash = listed_hash(word, size), at = hash % LISTED;
    while (table[at].size != 0 &&
           (table[at].hash != hash || table[at].size != size || memcmp(table[at].text, word, size)))
        at = (at + 1) % LISTED;
    return table + at;
}

static const char languages_name[] = "alveus.known_languages";

static void forget_languages(PyObject *capsule) {
    free(PyCapsule_GetPointer(capsule, languages_name));
}

PyDoc_STRVAR(listed_words_doc,
             "listed_words(words)\n--\n\n"
             "Return what `guess_language` knows of words. *words* is a list of tuples: a word of\n"
             "ASCII, a bit for each language that lists it, and its kind.");

static PyObject *listed_words(PyObject *module, PyObject *words) {
    (void)module;
    if (!PyList_Check(words) || PyList_Size(words) > LISTED / 2) {
        PyErr_SetString(PyExc_TypeError, "listed_words takes a list of few words");
        return NULL;
    }
    Listed *table = calloc(LISTED, sizeof(Listed));
    PyObject *capsule = table ? PyCapsule_New(table, languages_name, forget_languages) : NULL;
    if (capsule == NULL) {
        free(table);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t at = 0; at < PyList_Size(words); at++) {
        const char *word;
        Py_ssize_t size;
        unsigned long long languages;
        unsigned char kind;
        PyObject *each = PyList_GetItem(words, at);
        if (!PyTuple_Check(each) ||
            !PyArg_ParseTuple(each, "sKb", &word, &languages, &kind) ||
            (size = (Py_ssize_t)strlen(word)) == 0 || size > (kind ? LONGEST_OF_KIND : LONGEST_LISTED)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a listed word is a short text with two numbers");
            Py_DECREF(capsule);
            return NULL;
        }
        Listed *listed = listed_slot(table, word, size);
        memcpy(listed->text, word, (size_t)size);
        listed->hash = listed_hash(word, size);
        listed->size = (unsigned char)size;
        listed->languages |= languages;
        listed->kind |= kind;
    }
    return capsule;
}

/* Tell whether a token is of an address, a code or a name of a file: languages._NO_PROSE. */
static int is_no_prose(const char *token, Py_ssize_t size) {
    static const char signs[128] = {
        ['/'] = 1, ['@'] = 1, ['\\'] = 1, ['_'] = 1, ['='] = 1, ['<'] = 1, ['>'] = 1, ['{'] = 1,
        ['}'] = 1, ['['] = 1, [']'] = 1,  ['#'] = 1, ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1,
        ['4'] = 1, ['5'] = 1, ['6'] = 1,  ['7'] = 1, ['8'] = 1, ['9'] = 1,
    };
    for (Py_ssize_t at = 0; at < size; at++) {
        if (signs[(unsigned char)token[at]])
            return 1;
        if ((token[at] == '.' || token[at] == ':') && at > 0 && at + 1 < size &&
            is_letter((unsigned char)token[at - 1]) && is_letter((unsigned char)token[at + 1]))
            return 1;
    }
    return 0;
}

/* Return how long a word is: letters, also with apostrophes between them. */
static Py_ssize_t letters_in(const char *word, Py_ssize_t length) {
    Py_ssize_t size = 0;
    while (size < length && (is_letter((unsigned char)word[size]) ||
                             (word[size] == '\'' && size > 0 && size + 1 < length &&
                              is_letter((unsigned char)word[size - 1]) &&
                              is_letter((unsigned char)word[size + 1]))))
        size++;
    return size;
}

/* Count the languages of the words of a token; return 0 where the words may be too many. A word
   with a capital is English or a name, unless capitals do not count. */
static int count_token(Listed *table, const char *token, Py_ssize_t length, int no_capitals,
                       unsigned char *counts) {
    int words = 0;
    for (Py_ssize_t at = 0, size; at < length; at += size + !size) {
        char lower[LONGEST_LISTED];
        size = letters_in(token + at, length - at);
        if (size == 0 || size > LONGEST_LISTED)
            continue;
        int small = 1;
        for (Py_ssize_t letter = 0; letter < size; letter++) {
            char c = token[at + letter];
            small &= c < 'A' || c > 'Z';
            lower[letter] = (char)(c == '\'' ? c : c | 32);
        }
        uint64_t languages = listed_slot(table, lower, size)->languages;
        if (!small && !no_capitals)
            languages &= 1;
        words += languages != 0;
        for (unsigned char *count = counts; languages != 0; count++, languages >>= 1)
            *count += (unsigned char)(VOTE * (languages & 1));
    }
    return words <= MOST_IN_TOKEN;
}

enum { UNKNOWN_LANGUAGE = -1, FOR_PYTHON_TO_GUESS = -2 };

/* Return the bit of the language of a text of ASCII, or one of the above. */
static int language_in(Listed *table, const char *text, Py_ssize_t length) {
    int whole = length <= READ_CHARACTERS, no_capitals = 1, rare = 0, most = 1;
    unsigned char counts[64] = {0};
    length = whole ? length : READ_CHARACTERS;
    for (Py_ssize_t at = 0; at < length; at++)
        no_capitals &= text[at] < 'a' || text[at] > 'z';
    for (Py_ssize_t at = 0, size, token = 0; at < length; at += size + 1) {
        int is_ascii;
        size = chunk_in(text + at, length - at, &is_ascii);
        if (size == 0)
            continue;
        unsigned kind = size > LONGEST_OF_KIND ? 0 : listed_slot(table, text + at, size)->kind;
        if (kind & IS_SURE && whole && at > 0 && at + size < length && text[at - 1] == ' ' &&
            text[at + size] == ' ')
            return 0;
        if (token < READ_WORDS && !(kind & IS_NAME && token == 0) && !is_no_prose(text + at, size))
            rare |= !count_token(table, text + at, size, no_capitals || token == 0, counts);
        token++;
    }
    for (int language = 2; language < 64; language++)
        most = counts[language] > counts[most] ? language : most;
    if (counts[most] <= counts[0])
        most = counts[0] ? 0 : UNKNOWN_LANGUAGE;
    else
        rare |= counts[most] - counts[0] <= FEW; /* may be names */
    return rare ? FOR_PYTHON_TO_GUESS : most;
}

PyDoc_STRVAR(guess_language_doc,
             "guess_language(text, known_languages) -> int or None\n\n"
             "See `alveus.values.languages.language_of`. The number is the language's bit, -1 for no\n"
             "known language.");

static PyObject *guess_language(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "guess_language takes a text and known languages");
        return NULL;
    }
    Listed *table = PyCapsule_GetPointer(given[1], languages_name);
    if (table == NULL)
        return NULL;
    Py_ssize_t length, more;
    const char *text = bytes_of(given[0], &length, &more);
    if (text == NULL && PyErr_Occurred())
        return NULL;
    int found = text == NULL || more ? FOR_PYTHON_TO_GUESS : language_in(table, text, length);
    return found == FOR_PYTHON_TO_GUESS ? Py_NewRef(Py_None) : PyLong_FromLong(found);
}
