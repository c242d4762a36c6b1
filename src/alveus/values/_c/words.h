/* The words of a text, as terms: see words.py. */

#define CUT_WORDS 133     /* words.PASSAGE_WORDS + words.LAST_WORDS */
#define MAX_COUNT 255     /* words.MAX_COUNT */
#define QUESTION_WORDS 60 /* words.QUESTION_WORDS */
#define SHORT_WORDS 25    /* words.SHORT_QUESTION_WORDS */
#define WORDS_AT_ONCE 32

/* Count characters that may be spaces, and others: quickly. */
static Py_ssize_t spaces_in(const char *text, Py_ssize_t length) {
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; at < length; at++)
        count += (unsigned char)text[at] <= ' ';
    return count;
}

/* Count words between spaces. */
static Py_ssize_t words_in(const char *text, Py_ssize_t length) {
    Py_ssize_t count = 0;
    int inside = 0;
    for (Py_ssize_t at = 0; at < length; at++) {
        int space = is_space((unsigned char)text[at]);
        count += !space && !inside;
        inside = !space;
    }
    return count;
}

/* Return how long a text is without what it ends in, of several; its length: it ends in none. */
static Py_ssize_t without_end(const char *text, Py_ssize_t length, const char *const *ends) {
    for (; *ends != NULL; ends++) {
        Py_ssize_t rest = length - (Py_ssize_t)strlen(*ends);
        if (rest >= 0 && memcmp(text + rest, *ends, (size_t)(length - rest)) == 0)
            return rest;
    }
    return length;
}

static int ends_in_question(const char *text, Py_ssize_t length) {
    static const char *const closing[] = {
        " ", "\t", "\n", "\r", "\"", "'", ")", "]", "}", "*", "_", /* words._CLOSING */
        "\xe2\x80\x99", "\xe2\x80\x9d", "\xc2\xbb", "\xe3\x80\x8d", NULL,
    };
    static const char *const marks[] = {"?", "\xef\xbc\x9f", "\xd8\x9f", "\xcd\xbe", NULL};
    for (Py_ssize_t rest; (rest = without_end(text, length, closing)) < length;)
        length = rest;
    return without_end(text, length, marks) < length;
}

/* Tell whether a text goes on with a letter that is s or k where case is ignored: U+017F, U+212A. */
static int is_odd_letter(const char *text, Py_ssize_t length) {
    return (length >= 2 && memcmp(text, "\xc5\xbf", 2) == 0) ||
           (length >= 3 && memcmp(text, "\xe2\x84\xaa", 3) == 0);
}

/* Tell whether the first word is one with which an instruction may begin. */
static int may_instruct(const char *text, Py_ssize_t length) {
    static const char *const firsts[] = {"please", "always", "never", "from", "whenever", "make"};
    char word[9];
    Py_ssize_t at = 0, size = 0;
    while (at < length && !is_letter(text[at]) && !is_digit(text[at]) && text[at] != '_')
        at++;
    for (; at < length && (is_letter(text[at]) || is_digit(text[at]) || text[at] == '_'); at++) {
        if (size == 8)
            return 0;
        word[size++] = is_letter(text[at]) ? (char)(text[at] | 32) : text[at];
    }
    word[size] = 0;
    if (is_odd_letter(text + at, length - at))
        return 1;
    for (size_t each = 0; each < sizeof firsts / sizeof *firsts; each++)
        if (strcmp(word, firsts[each]) == 0)
            return 1;
    return 0;
}

/* Tell whether a date in numbers may be in it. */
static int may_hold_date(const char *text, Py_ssize_t length) {
    for (Py_ssize_t at = 1; at + 1 < length; at++)
        if ((text[at] == '-' || text[at] == '.') && is_digit(text[at - 1]) &&
            is_digit(text[at + 1]))
            return 1;
    return 0;
}

static int by_number(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

/* Sort terms, which are spread evenly: into 64 parts by their first bits, and then these. */
static void sort(uint32_t *terms, Py_ssize_t count) {
    uint32_t before[64];
    unsigned char ends[65] = {0};
    if (count > 64) {
        qsort(terms, count, sizeof *terms, by_number);
        return;
    }
    memcpy(before, terms, (size_t)count * sizeof *terms);
    for (Py_ssize_t at = 0; at < count; at++)
        ends[(before[at] >> 26) + 1]++;
    for (int part = 0; part < 64; part++)
        ends[part + 1] += ends[part];
    for (Py_ssize_t at = 0; at < count; at++)
        terms[ends[before[at] >> 26]++] = before[at];
    for (Py_ssize_t at = 1; at < count; at++) {
        uint32_t term = terms[at];
        Py_ssize_t to = at;
        for (; to > 0 && terms[to - 1] > term; to--)
            terms[to] = terms[to - 1];
        terms[to] = term;
    }
}

static void put_number(unsigned char *to, uint32_t number) {
    for (int at = 0; at < 4; at++)
        to[at] = (unsigned char)(number >> 8 * at);
}

/* Return `words.pack` of terms; they are sorted in slot. */
static PyObject *packed(uint32_t *terms, Py_ssize_t count, const uint32_t *marks, int marked) {
    sort(terms, count);
    Py_ssize_t distinct = 0;
    for (Py_ssize_t at = 0; at < count; at++)
        distinct += at == 0 || terms[at] != terms[at - 1];
    Py_ssize_t all = marked + distinct;
    PyObject *answer = PyBytes_FromStringAndSize(NULL, all * 5);
    if (answer == NULL)
        return NULL;
    unsigned char *numbers = (unsigned char *)PyBytes_AsString(answer), *counts = numbers + all * 4;
    for (int at = 0; at < marked; at++) {
        put_number(numbers + at * 4, marks[at]);
        counts[at] = 1;
    }
    Py_ssize_t last = marked - 1;
    for (Py_ssize_t at = 0; at < count; at++) {
        if (at > 0 && terms[at] == terms[at - 1]) {
            counts[last] += counts[last] < MAX_COUNT;
            continue;
        }
        put_number(numbers + ++last * 4, terms[at]);
        counts[last] = 1;
    }
    return answer;
}

#define KINDS 512 /* slots for the words that have a kind, half of them empty */
#define STOPS 1   /* kinds of words */
#define TELLS_TIME 2

/* The words that were met; those that mean something by themselves, of which `count` is the kind; and
   what reads others. */
typedef struct {
    Met *met, *kinds;
    Listed *listed;
    PyObject *languages, *others, *has_endings;
} Known;

/* Return where a word that has a kind is, or would be. */
static Met *kind_of(Met *kinds, const char *word, int size, uint32_t hash) {
    uint32_t at = hash % KINDS;
    while (kinds[at].size != 0 && !is_there(kinds + at, word, size, hash))
        at = (at + 1) % KINDS;
    return kinds + at;
}

/* Take words for ones of a kind; return how many there are then, or -1 with an error. */
static int take_kind(Met *kinds, PyObject *words, unsigned char kind, int known) {
    PyObject *each, *all = PyObject_GetIter(words);
    while (all != NULL && (each = PyIter_Next(all)) != NULL) {
        char padded[LONGEST_MET + MARGIN];
        Py_ssize_t size = 0;
        const char *word = PyUnicode_Check(each) ? PyUnicode_AsUTF8AndSize(each, &size) : NULL;
        if (word == NULL || size == 0 || size > LONGEST_MET || known == KINDS / 2) {
            PyErr_SetString(PyExc_TypeError, "a word that has a kind is a short text");
            known = -1;
        } else {
            memcpy(padded, word, (size_t)size);
            uint32_t hash = hash_of(padded, (int)size);
            Met *met = kind_of(kinds, padded, (int)size, hash);
            known += met->size == 0;
            put(met, padded, (int)size, hash);
            met->count |= kind;
        }
        Py_DECREF(each);
        if (known < 0)
            break;
    }
    Py_XDECREF(all);
    return PyErr_Occurred() ? -1 : known;
}

static const char known_name[] = "alveus.known_words";

static void forget_words(PyObject *capsule) {
    Known *known = PyCapsule_GetPointer(capsule, known_name);
    free(known->met);
    free(known->kinds);
    Py_XDECREF(known->languages);
    Py_XDECREF(known->others);
    Py_XDECREF(known->has_endings);
    PyMem_Free(known);
}

PyDoc_STRVAR(known_words_doc,
             "known_words(stop, temporal, languages, others, has_endings)\n--\n\n"
             "Return what `analyse` knows of words: two frozen sets, and in time the terms of what\n"
             "it meets. *others* returns the terms of what stands between two spaces and is not of\n"
             "ASCII, a list, how many of its words are temporal, and how many of these are years;\n"
             "None: it may hold a date in numbers. *has_endings* tells whether the words of a text\n"
             "are cut, unless the known languages tell that it is English or of none.");

static PyObject *known_words(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 5 || !PyFrozenSet_Check(given[0]) || !PyFrozenSet_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError,
                        "known_words takes two frozen sets, known languages and two functions");
        return NULL;
    }
    Listed *listed = PyCapsule_GetPointer(given[2], languages_name);
    if (listed == NULL)
        return NULL;
    Known *known = PyMem_Calloc(1, sizeof(Known));
    PyObject *capsule = known ? PyCapsule_New(known, known_name, forget_words) : NULL;
    if (capsule == NULL) {
        PyMem_Free(known);
        return PyErr_NoMemory();
    }
    *known = (Known){.met = calloc(SLOTS, sizeof(Met)),
                     .kinds = calloc(KINDS, sizeof(Met)),
                     .listed = listed,
                     .languages = Py_NewRef(given[2]),
                     .others = Py_NewRef(given[3]),
                     .has_endings = Py_NewRef(given[4])};
    if (known->met == NULL || known->kinds == NULL)
        PyErr_NoMemory();
    int count_of_kinds = PyErr_Occurred() ? -1 : take_kind(known->kinds, given[0], STOPS, 0);
    if (count_of_kinds >= 0)
        count_of_kinds = take_kind(known->kinds, given[1], TELLS_TIME, count_of_kinds);
    if (count_of_kinds < 0)
        Py_CLEAR(capsule);
    return capsule;
}

/* What is read of a text: terms, with room for so many; how many words are temporal, and how many
   of these are years. */
typedef struct {
    const Known *known;
    uint32_t *terms;
    Py_ssize_t count, most, times, years;
} Reading;

enum outcome { FAILED = -1, READ, FOR_PYTHON };

/* Put down the terms of a word or chunk, how many of its words are temporal, and how many of these
   are years; return 0 where the terms are many. */
static int fill(Met *met, const uint32_t *terms, Py_ssize_t count, unsigned times, unsigned years) {
    if (count >= TERMS_MET)
        return 0;
    met->count = (unsigned char)count;
    met->is.terms[0] = times | years << 16;
    memcpy(met->is.terms + 1, terms, (size_t)count * sizeof *terms);
    return 1;
}

static enum outcome take_terms(Reading *to, const uint32_t *terms, Py_ssize_t count) {
    if (to->count + count > to->most)
        return FOR_PYTHON;
    if (count == 1)
        to->terms[to->count] = terms[0];
    else
        memcpy(to->terms + to->count, terms, (size_t)count * sizeof *terms);
    to->count += count;
    return READ;
}

static enum outcome take(Reading *to, const Met *met) {
    to->times += met->is.terms[0] & 0xffff;
    to->years += met->is.terms[0] >> 16;
    return take_terms(to, met->is.terms + 1, met->count);
}

/* Find out about a word of letters and digits: its term, but none of a stop word. */
static void learn_word(const Known *known, const char *text, Py_ssize_t size, uint32_t hash, Met *word) {
    unsigned kind = size > LONGEST_MET ? 0 : kind_of(known->kinds, text, (int)size, hash)->count;
    uint32_t term = kind & STOPS ? 0 : term_of(text, (size_t)size);
    unsigned is_year = size == 4 && is_digit(text[0]) && is_digit(text[1]) && is_digit(text[2]) &&
                       is_digit(text[3]);
    fill(word, &term, !(kind & STOPS), (kind & TELLS_TIME) / TELLS_TIME + is_year, is_year);
}

/* Read a word of letters and digits of ASCII in lower case, which has a margin. */
static enum outcome read_word(Reading *to, const char *text, Py_ssize_t size, uint32_t hash) {
    Met once, *word = size > LONGEST_MET ? &once : met_slot(to->known->met, text, (int)size, hash);
    if (word == &once || !is_there(word, text, (int)size, hash)) {
        learn_word(to->known, text, size, hash, word);
        if (word != &once)
            put(word, text, (int)size, hash);
    }
    return take(to, word);
}

/* Where a word of a text is, and by what it is looked up. */
typedef struct {
    Py_ssize_t start, size;
    uint32_t hash;
} Token;

/* Return how long the word is that begins in a text in lower case, in which zeros are between words
   and behind the last one. */
static Py_ssize_t word_size(const char *lower) {
    const uint64_t ones = 0x0101010101010101u, highest = 0x8080808080808080u;
    Py_ssize_t size = 0;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (;; size += 8) {
        uint64_t letters = eight_bytes(lower + size), zeros = (letters - ones) & ~letters & highest;
        if (zeros != 0)
            return size + __builtin_ctzll(zeros) / 8;
    }
#endif
    (void)ones;
    (void)highest;
    while (lower[size] != 0)
        size++;
    return size;
}

/* Put a text in lower case, with zeros for all that is in no word, and behind it. */
static void put_lower(const char *text, Py_ssize_t length, char *lower) {
    for (Py_ssize_t at = 0; at < length; at++) {
        unsigned char c = (unsigned char)text[at], low = c | 32;
        lower[at] = (char)((unsigned char)(low - 'a') < 26 ? low : (unsigned char)(c - '0') < 10 ? c : 0);
    }
    memset(lower + length, 0, MARGIN);
}

/* Read the words of a text of ASCII, with room for it in lower case and a margin: several at once, as
   what is known of each is far away in memory. */
static enum outcome read_words(Reading *to, const char *text, Py_ssize_t length, char *lower) {
    Token tokens[WORDS_AT_ONCE];
    put_lower(text, length, lower);
    for (Py_ssize_t at = 0; at < length;) {
        int count = 0;
        while (count < WORDS_AT_ONCE && at < length) {
            if (lower[at] == 0) {
                at++;
                continue;
            }
            Py_ssize_t size = word_size(lower + at);
            uint32_t hash = size <= LONGEST_MET ? hash_of(lower + at, (int)size) : 0;
            tokens[count++] = (Token){at, size, hash};
            fetch(to->known->met, hash);
            at += size + 1;
        }
        for (int each = 0; each < count; each++) {
            const Token *token = tokens + each;
            enum outcome was = read_word(to, lower + token->start, token->size, token->hash);
            if (was != READ)
                return was;
        }
    }
    return READ;
}

/* Have Python read a chunk, and keep what it came to. The chunk has a margin if it is short. */
static enum outcome learn_chunk(Reading *to, const char *chunk, Py_ssize_t size, uint32_t hash) {
    PyObject *text = PyUnicode_FromStringAndSize(chunk, size), *list;
    PyObject *found = text ? PyObject_CallFunctionObjArgs(to->known->others, text, NULL) : NULL;
    unsigned int times, years;
    enum outcome was = FAILED;
    Py_XDECREF(text);
    if (found == Py_None) {
        was = FOR_PYTHON;
    } else if (found != NULL && !PyTuple_Check(found)) {
        PyErr_SetString(PyExc_TypeError, "others returns a tuple, or None");
    } else if (found != NULL &&
               PyArg_ParseTuple(found, "O!II", &PyList_Type, &list, &times, &years)) {
        Py_ssize_t count = PyList_Size(list);
        uint32_t *terms = PyMem_Malloc((size_t)(count + 1) * sizeof *terms);
        for (Py_ssize_t at = 0; terms != NULL && at < count; at++)
            terms[at] = (uint32_t)PyLong_AsUnsignedLong(PyList_GetItem(list, at));
        if (terms == NULL)
            PyErr_NoMemory();
        else if (!PyErr_Occurred()) {
            Met met;
            if (size <= LONGEST_MET && fill(&met, terms, count, times, years)) {
                put(&met, chunk, (int)size, hash);
                *met_slot(to->known->met, chunk, (int)size, hash) = met;
            }
            to->times += times;
            to->years += years;
            was = take_terms(to, terms, count);
        }
        PyMem_Free(terms);
    }
    Py_XDECREF(found);
    return was;
}

/* Read what stands between two spaces and is not of ASCII. */
static enum outcome read_chunk(Reading *to, const char *chunk, Py_ssize_t size) {
    char padded[LONGEST_MET + MARGIN];
    if (size > LONGEST_MET)
        return learn_chunk(to, chunk, size, 0);
    memcpy(padded, chunk, (size_t)size);
    uint32_t hash = hash_of(padded, (int)size);
    const Met *met = met_slot(to->known->met, padded, (int)size, hash);
    return is_there(met, padded, (int)size, hash)
               ? take(to, met)
               : learn_chunk(to, padded, size, hash);
}

/* Read the words of a text, with room for it in lower case. */
static enum outcome read_text(Reading *to, const char *text, Py_ssize_t length, int is_ascii,
                              char *lower) {
    if (is_ascii)
        return read_words(to, text, length, lower);
    for (Py_ssize_t at = 0, size; at < length; at += size + 1) {
        size = chunk_in(text + at, length - at, &is_ascii);
        enum outcome was = is_ascii ? read_words(to, text + at, size, lower)
                                    : read_chunk(to, text + at, size);
        if (was != READ)
            return was;
    }
    return READ;
}

/* Put the marks of a text; return how many, or FAILED where it is for Python to count its words. */
static int marks_of(const char *text, Py_ssize_t length, int is_ascii, uint32_t *marks) {
    if (!ends_in_question(text, length))
        return 0;
    if (!is_ascii)
        return FAILED;
    Py_ssize_t words = words_in(text, length);
    int count = 0;
    if (words <= QUESTION_WORDS)
        marks[count++] = 1;
    if (words <= SHORT_WORDS)
        marks[count++] = 2;
    return count;
}

/* Return what is read of a text, None where it is for Python; NULL with an error. */
static PyObject *analysed(Reading *to, const char *text, Py_ssize_t length, int is_ascii,
                          PyObject *context, char *lower) {
    for (Py_ssize_t count = PyList_Size(context); to->count < count; to->count++)
        to->terms[to->count] =
            (uint32_t)PyLong_AsUnsignedLong(PyList_GetItem(context, to->count));
    if (PyErr_Occurred())
        return NULL;
    uint32_t marks[2];
    int marked = marks_of(text, length, is_ascii, marks);
    enum outcome was = marked < 0 ? FOR_PYTHON : read_text(to, text, length, is_ascii, lower);
    if (was == FAILED)
        return NULL;
    if (was == FOR_PYTHON || (to->years && may_hold_date(text, length)))
        return Py_NewRef(Py_None);
    PyObject *bytes = packed(to->terms, to->count, marks, marked);
    if (bytes == NULL)
        return NULL;
    Py_ssize_t times = to->times < MAX_COUNT ? to->times : MAX_COUNT;
    return Py_BuildValue("Nnn", bytes, to->count, times);
}

/* Tell whether the words of a text are cut; -1 with an error. */
static int is_cut(PyObject *text, const char *bytes, Py_ssize_t length, int is_ascii,
                  const Known *known) {
    int language = is_ascii ? language_in(known->listed, bytes, length) : FOR_PYTHON_TO_GUESS;
    if (language == 0 || language == UNKNOWN_LANGUAGE)
        return 0;
    PyObject *found = PyObject_CallFunctionObjArgs(known->has_endings, text, NULL);
    int cut = found == NULL ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    return cut;
}

/* Return `words.analyse_with` of a text, None where it is for Python; NULL with an error. */
static PyObject *analysis_of(PyObject *given, PyObject *context, const Known *known) {
    Py_ssize_t length, more;
    const char *text = bytes_of(given, &length, &more);
    if (text == NULL) {
        if (PyErr_Occurred())
            return NULL;
        return Py_NewRef(Py_None);
    }
    /* Each character that is not of ASCII may be a word by itself, or a space. */
    if ((length - more >= 2 * CUT_WORDS - 1 && spaces_in(text, length) + 1 + more >= CUT_WORDS &&
         words_in(text, length) + more >= CUT_WORDS) ||
        may_instruct(text, length))
        return Py_NewRef(Py_None);
    int cut = is_cut(given, text, length, more == 0, known);
    if (cut != 0)
        return cut < 0 ? NULL : Py_NewRef(Py_None);
    char small_lower[ON_STACK];
    uint32_t small_terms[ON_STACK];
    Reading to = {.known = known, .most = length + PyList_Size(context)};
    size_t room = (size_t)length + MARGIN;
    char *lower = room <= ON_STACK ? small_lower : PyMem_Malloc(room);
    to.terms = to.most <= ON_STACK ? small_terms : PyMem_Malloc((size_t)to.most * sizeof *to.terms);
    PyObject *answer = NULL;
    if (lower != NULL && to.terms != NULL)
        answer = analysed(&to, text, length, more == 0, context, lower);
    else
        PyErr_NoMemory();
    if (lower != small_lower)
        PyMem_Free(lower);
    if (to.terms != small_terms)
        PyMem_Free(to.terms);
    return answer;
}

PyDoc_STRVAR(analyse_doc,
             "analyse(text, context_terms, known_words) -> (packed, tokens, temporal) or None\n\n"
             "See `alveus.values.words.analyse_with`.");

static PyObject *analyse(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 3 || !PyList_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "analyse takes a text, a list of terms, known words");
        return NULL;
    }
    const Known *known = PyCapsule_GetPointer(given[2], known_name);
    return known == NULL ? NULL : analysis_of(given[0], given[1], known);
}
