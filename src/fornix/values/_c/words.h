/* The words of a text, as terms: see words.py. */

#define CUT_WORDS 133     /* words.PASSAGE_WORDS + words.LAST_WORDS */
#define MAX_COUNT 255     /* words.MAX_COUNT */
#define QUESTION_WORDS 60 /* words.QUESTION_WORDS */
#define SHORT_WORDS 25    /* words.SHORT_QUESTION_WORDS */

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

static int ends_in_question(const char *text, Py_ssize_t length) {
    while (length > 0 && text[length - 1] && strchr(" \t\n\r\"')]}*_", text[length - 1]))
        length--;
    return length > 0 && text[length - 1] == '?';
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
    for (size_t each = 0; each < sizeof firsts / sizeof *firsts; each++)
        if (strcmp(word, firsts[each]) == 0)
            return 1;
    return 0;
}

/* Tell whether a date in numbers may be in it. */
static int may_hold_date(const char *text, Py_ssize_t length) {
    for (Py_ssize_t at = 1; at + 1 < length; at++)
        if ((text[at] == '-' || text[at] == '.') && is_digit(text[at - 1]) && is_digit(text[at + 1]))
            return 1;
    return 0;
}

static int by_number(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static void sort(uint32_t *terms, Py_ssize_t count) {
    if (count > 64) {
        qsort(terms, count, sizeof *terms, by_number);
        return;
    }
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

/* Return `words.pack` of terms; they are sorted in place. */
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

/* The words that were met, and those that mean something by themselves. */
typedef struct {
    Met *met;
    PyObject *stop, *temporal;
} Known;

static const char known_name[] = "fornix.known_words";

static void forget_words(PyObject *capsule) {
    Known *known = PyCapsule_GetPointer(capsule, known_name);
    free(known->met);
    Py_DECREF(known->stop);
    Py_DECREF(known->temporal);
    PyMem_Free(known);
}

PyDoc_STRVAR(known_words_doc, "known_words(stop, temporal)\n--\n\n"
                              "Return what `analyse` knows of words: two frozen sets, and in time\n"
                              "the terms of those that it meets.");

static PyObject *known_words(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyFrozenSet_Check(given[0]) || !PyFrozenSet_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "known_words takes two frozen sets");
        return NULL;
    }
    Known *known = PyMem_Calloc(1, sizeof(Known));
    Met *met = calloc(PLACES, sizeof(Met));
    PyObject *capsule = known && met ? PyCapsule_New(known, known_name, forget_words) : NULL;
    if (capsule == NULL) {
        free(met);
        PyMem_Free(known);
        return PyErr_NoMemory();
    }
    *known = (Known){met, Py_NewRef(given[0]), Py_NewRef(given[1])};
    return capsule;
}

/* Find out about a word; return 0, or -1 with an error. */
static int learn(const Known *known, const char *text, Py_ssize_t size, Met *word) {
    PyObject *token = PyUnicode_FromStringAndSize(text, size);
    if (token == NULL)
        return -1;
    int stops = PySet_Contains(known->stop, token);
    int is_temporal = stops < 0 ? -1 : PySet_Contains(known->temporal, token);
    Py_DECREF(token);
    if (is_temporal < 0)
        return -1;
    word->is.term = stops ? 0 : term_of(text, size);
    word->sign = (unsigned char)is_temporal;
    return 0;
}

/* Return what is known of a word, in *once* where it is too long to be kept; NULL: an error. */
static const Met *word_of(const Known *known, const char *text, Py_ssize_t size, uint32_t hash,
                          Met *once) {
    if (size > LONGEST_MET)
        return learn(known, text, size, once) < 0 ? NULL : once;
    Met *word = place_of(known->met, text, (int)size, hash);
    if (is_there(word, text, (int)size, hash))
        return word;
    word->size = 0; /* until all of it is known */
    if (learn(known, text, size, word) < 0)
        return NULL;
    put(word, text, (int)size, hash);
    return word;
}

static int is_year(const char *text, Py_ssize_t size) {
    return size == 4 && is_digit(text[0]) && is_digit(text[1]) && is_digit(text[2]) &&
           is_digit(text[3]);
}

/* Put the terms of a text behind those that are there; return how many they are then, or -1. */
static Py_ssize_t read_terms(const char *text, Py_ssize_t length, const Known *known,
                             uint32_t *terms, Py_ssize_t count, Py_ssize_t *times,
                             Py_ssize_t *years) {
    char small[ON_STACK];
    char *lower = length <= ON_STACK ? small : PyMem_Malloc(length);
    if (lower == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t at = 0; at < length && count >= 0; at++) {
        Py_ssize_t size = 0;
        uint32_t hash = NO_HASH;
        for (; at < length; at++) {
            unsigned char c = (unsigned char)text[at];
            if (is_letter(c))
                c |= 32;
            else if (!is_digit(c))
                break;
            lower[size++] = (char)c;
            hash = hashed(hash, (char)c);
        }
        if (size == 0)
            continue;
        Met once;
        const Met *word = word_of(known, lower, size, hash, &once);
        if (word == NULL) {
            count = -1;
            break;
        }
        *times += word->sign;
        *years += is_year(lower, size);
        if (word->is.term)
            terms[count++] = word->is.term;
    }
    if (lower != small)
        PyMem_Free(lower);
    return count;
}

static PyObject *analysed(const char *text, Py_ssize_t length, PyObject *context,
                          const Known *known, uint32_t *terms) {
    Py_ssize_t count = PyList_Size(context), times = 0, years = 0;
    for (Py_ssize_t at = 0; at < count; at++)
        terms[at] = (uint32_t)PyLong_AsUnsignedLong(PyList_GetItem(context, at));
    if (PyErr_Occurred())
        return NULL;
    count = read_terms(text, length, known, terms, count, &times, &years);
    if (count < 0)
        return NULL;
    if (years && may_hold_date(text, length))
        Py_RETURN_NONE;
    uint32_t marks[2];
    int marked = 0;
    if (ends_in_question(text, length)) {
        Py_ssize_t words = words_in(text, length);
        if (words <= QUESTION_WORDS)
            marks[marked++] = 1;
        if (words <= SHORT_WORDS)
            marks[marked++] = 2;
    }
    PyObject *bytes = packed(terms, count, marks, marked);
    if (bytes == NULL)
        return NULL;
    times += years;
    return Py_BuildValue("Nnn", bytes, count, times < MAX_COUNT ? times : (Py_ssize_t)MAX_COUNT);
}

PyDoc_STRVAR(analyse_doc,
             "analyse(text, context_terms, known_words) -> (packed, tokens, temporal) or None\n\n"
             "See `fornix.values.words.analyse`.");

static PyObject *analyse(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 3 || !PyList_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "analyse takes a text, a list of terms, known words");
        return NULL;
    }
    const Known *known = PyCapsule_GetPointer(given[2], known_name);
    Py_ssize_t length;
    const char *text = known == NULL ? NULL : ascii_of(given[0], &length);
    if (text == NULL) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    if ((length >= 2 * CUT_WORDS - 1 && words_in(text, length) >= CUT_WORDS) ||
        may_instruct(text, length))
        Py_RETURN_NONE;
    Py_ssize_t most = length / 2 + 1 + PyList_Size(given[1]);
    uint32_t small[ON_STACK];
    uint32_t *terms = most <= ON_STACK ? small : PyMem_Malloc(most * sizeof *terms);
    if (terms == NULL)
        return PyErr_NoMemory();
    PyObject *answer = analysed(text, length, given[1], known, terms);
    if (terms != small)
        PyMem_Free(terms);
    return answer;
}
