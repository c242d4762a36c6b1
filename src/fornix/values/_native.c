/* What takes most of the time of an add, for texts of ASCII letters, and of a search among very
   many: see native.py.

Each function does what a few lines of Python beside it do, to the last bit: tests/test_native.py
compares them. Where a text needs more than is done here, the answer is None, and Python does it.
Nothing is kept between calls but the words that were met. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_stems.h"

#define CUT_WORDS 133     /* words.PASSAGE_WORDS + words.LAST_WORDS */
#define MAX_COUNT 255     /* words.MAX_COUNT */
#define QUESTION_WORDS 60 /* words.QUESTION_WORDS */
#define SHORT_WORDS 25    /* words.SHORT_QUESTION_WORDS */
#define ON_STACK 256
#define ROWS_AT_ONCE 1024

static int is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static int is_letter(unsigned char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

static int is_space(unsigned char c) {
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
}

/* Return the bytes of a str of ASCII; NULL without an error: it holds others. */
static const char *ascii_of(PyObject *text, Py_ssize_t *length) {
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text must be a str");
        return NULL;
    }
    Py_ssize_t characters = PyUnicode_GetLength(text);
    const char *bytes = PyUnicode_AsUTF8AndSize(text, length);
    if (bytes == NULL) {
        PyErr_Clear(); /* a lone surrogate */
        return NULL;
    }
    return *length == characters ? bytes : NULL;
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
    Word *words;
    PyObject *stop, *temporal;
} Known;

static const char known_name[] = "fornix.known_words";

static void forget_words(PyObject *capsule) {
    Known *known = PyCapsule_GetPointer(capsule, known_name);
    free(known->words);
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
    Word *words = calloc(WORDS_MET, sizeof(Word));
    PyObject *capsule = known && words ? PyCapsule_New(known, known_name, forget_words) : NULL;
    if (capsule == NULL) {
        free(words);
        PyMem_Free(known);
        return PyErr_NoMemory();
    }
    *known = (Known){words, Py_NewRef(given[0]), Py_NewRef(given[1])};
    return capsule;
}

/* Find out about a word that was not met before; return 0, or -1 with an error. */
static int meet(const Known *known, const char *text, Py_ssize_t size, Word *word) {
    PyObject *token = PyUnicode_FromStringAndSize(text, size);
    if (token == NULL)
        return -1;
    int stops = PySet_Contains(known->stop, token), is_temporal = PySet_Contains(known->temporal, token);
    Py_DECREF(token);
    if (stops < 0 || is_temporal < 0)
        return -1;
    word->term = stops ? 0 : term_of(text, size);
    word->is_temporal = (unsigned char)is_temporal;
    return 0;
}

/* Read a word of a text that `known` may have met, into *once* if it is too long to be kept there;
   NULL: an error. */
static const Word *word_of(const Known *known, const char *text, Py_ssize_t size, uint32_t hash,
                           Word *once) {
    if (size > LONGEST_MET)
        return meet(known, text, size, once) < 0 ? NULL : once;
    Word *word = place_of(known->words, text, (int)size, hash);
    if (!is_there(word, text, (int)size, hash)) {
        word->size = 0; /* until all of it is known */
        if (meet(known, text, size, word) < 0)
            return NULL;
        memcpy(word->text, text, size);
        word->hash = hash;
        word->size = (unsigned char)size;
    }
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
        Word once;
        const Word *word = word_of(known, lower, size, hash, &once);
        if (word == NULL) {
            count = -1;
            break;
        }
        *times += word->is_temporal;
        *years += is_year(lower, size);
        if (word->term)
            terms[count++] = word->term;
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

/* Stretch a row until its largest number is 127; return 0 if a number is not finite. */
static int quantise_row(const float *row, Py_ssize_t width, signed char *to) {
    /* Added and taken away again, it rounds as numpy.rint does: to the nearest, ties to even. */
    const double rounding = 6755399441055744.0;
    float largest = 0;
    int finite = 1;
    for (Py_ssize_t at = 0; at < width; at++) {
        float size = fabsf(row[at]);
        finite &= size <= FLT_MAX;
        largest = size > largest ? size : largest;
    }
    if (!finite)
        return 0;
    double scale = 127.0 / (double)(largest == 0 ? 1 : largest);
    for (Py_ssize_t at = 0; at < width; at++)
        to[at] = (signed char)(int)(((double)row[at] * scale + rounding) - rounding);
    return 1;
}

PyDoc_STRVAR(quantise_doc, "quantise(rows, width) -> bytes or None\n\n"
                           "See `fornix.embed.vectors.quantise`; None: a number is not finite.");

static PyObject *quantise(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    Py_buffer rows;
    Py_ssize_t width = count == 2 ? PyLong_AsSsize_t(given[1]) : 0;
    if (width < 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "quantise takes rows and their width");
        return NULL;
    }
    if (PyObject_GetBuffer(given[0], &rows, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    Py_ssize_t numbers = rows.len / (Py_ssize_t)sizeof(float);
    PyObject *answer = PyBytes_FromStringAndSize(NULL, numbers);
    if (answer != NULL) {
        signed char *to = (signed char *)PyBytes_AsString(answer);
        int finite = 1;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; finite && at + width <= numbers; at += width)
            finite = quantise_row((const float *)rows.buf + at, width, to + at);
        Py_END_ALLOW_THREADS
        if (!finite) {
            Py_DECREF(answer);
            answer = Py_NewRef(Py_None);
        }
    }
    PyBuffer_Release(&rows);
    return answer;
}


/* What `gather` fills: a row of numbers per piece, and by how much each row counts. */
typedef struct {
    PyObject *chunks, *others;
    Py_buffer rows, scales;
    Py_ssize_t width, first, count, room;
    PyObject *numbers, *weights; /* bytearrays with room for so many rows */
} Gathered;

/* Have room for so many rows; return 0, or -1 with an error. */
static int make_room(Gathered *to, Py_ssize_t room) {
    Py_ssize_t size = room * (Py_ssize_t)sizeof(float);
    to->room = room;
    return PyByteArray_Resize(to->numbers, size * to->width) < 0 ||
                   PyByteArray_Resize(to->weights, size) < 0
               ? -1
               : 0;
}

/* Add the row of a piece, of row 0 if it is none of text; return 0, or -1 with an error. */
static int add_row(Gathered *to, PyObject *piece) {
    Py_ssize_t place = PyLong_AsSsize_t(piece);
    if (place == -1 && PyErr_Occurred())
        return -1;
    place = place > to->first ? place - to->first : 0;
    if ((place + 1) * to->width > to->rows.len) {
        PyErr_SetString(PyExc_IndexError, "there is no such row");
        return -1;
    }
    if (to->count == to->room && make_room(to, to->room * 2 + 64) < 0)
        return -1;
    const signed char *row = (const signed char *)to->rows.buf + place * to->width;
    float *numbers = (float *)PyByteArray_AsString(to->numbers) + to->count * to->width;
    for (Py_ssize_t at = 0; at < to->width; at++)
        numbers[at] = (float)row[at];
    /* A table may be read into memory at an odd address. */
    memcpy((float *)PyByteArray_AsString(to->weights) + to->count++,
           (const char *)to->scales.buf + place * sizeof(float), sizeof(float));
    return 0;
}

/* Add the rows of all pieces in a tuple or list, which is given up; return 0, or -1. */
static int add_rows(Gathered *to, PyObject *pieces) {
    if (pieces == NULL)
        return -1;
    int failed = 0;
    Py_ssize_t count = PySequence_Size(pieces);
    for (Py_ssize_t at = 0; !failed && at < count; at++) {
        PyObject *piece = PySequence_GetItem(pieces, at);
        failed = piece == NULL || add_row(to, piece) < 0;
        Py_XDECREF(piece);
    }
    Py_DECREF(pieces);
    return failed || count < 0 ? -1 : 0;
}

/* Tell whether a text has characters that are removed, where others separate. */
static int has_removed(const char *text, Py_ssize_t length) {
    for (Py_ssize_t at = 0; at < length; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c == 11 || c == 12 || (c >= 28 && c <= 31))
            return 1;
    }
    return 0;
}

/* Add the rows of a text; return 0, or -1 with an error. */
static int add_text(Gathered *to, PyObject *given) {
    Py_ssize_t length, start;
    const char *text = ascii_of(given, &length);
    if (text == NULL && PyErr_Occurred())
        return -1;
    if (text == NULL || has_removed(text, length))
        return add_rows(to, PyObject_CallFunctionObjArgs(to->others, given, NULL));
    for (Py_ssize_t at = 0; at < length; at++) {
        for (start = at; at < length && !is_space((unsigned char)text[at]); at++) {
        }
        if (at == start)
            continue;
        PyObject *chunk = PyUnicode_FromStringAndSize(text + start, at - start);
        PyObject *found = chunk == NULL ? NULL : PyObject_GetItem(to->chunks, chunk);
        Py_XDECREF(chunk);
        if (add_rows(to, found) < 0)
            return -1;
    }
    return 0;
}

static PyObject *gathered(Gathered *to, PyObject *texts) {
    Py_ssize_t count = PyList_Size(texts);
    PyObject *ends = PyList_New(0);
    for (Py_ssize_t at = 0; ends != NULL && at < count && at < PyList_Size(texts); at++) {
        PyObject *end = add_text(to, PyList_GetItem(texts, at)) < 0
                            ? NULL
                            : PyLong_FromSsize_t(to->count);
        if (end == NULL || PyList_Append(ends, end) < 0)
            Py_CLEAR(ends);
        Py_XDECREF(end);
    }
    if (ends == NULL)
        return NULL;
    if (make_room(to, to->count) < 0) {
        Py_DECREF(ends);
        return NULL;
    }
    return Py_BuildValue("OON", to->numbers, to->weights, ends);
}

PyDoc_STRVAR(gather_doc,
             "gather(texts, chunks, others, rows, scales, first) -> (numbers, scales, ends)\n\n"
             "Of the pieces of texts, a list, the rows of a table as float32, one after the other;\n"
             "the scales of these rows; and where each text ends. *chunks* are the pieces of what\n"
             "stands between spaces, *others* returns those of a text that is not of ASCII; a\n"
             "piece of text *first* + 1 has row 1.");

static PyObject *gather(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 6 || !PyList_Check(given[0])) {
        PyErr_SetString(PyExc_TypeError, "gather takes a list of texts, and five more");
        return NULL;
    }
    Gathered to = {.chunks = given[1], .others = given[2]};
    to.first = PyLong_AsSsize_t(given[5]);
    if (to.first == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(given[3], &to.rows, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    if (PyObject_GetBuffer(given[4], &to.scales, PyBUF_C_CONTIGUOUS) < 0) {
        PyBuffer_Release(&to.rows);
        return NULL;
    }
    PyObject *answer = NULL;
    Py_ssize_t rows = to.scales.len / (Py_ssize_t)sizeof(float);
    if (rows < 1 || to.rows.len % rows)
        PyErr_SetString(PyExc_ValueError, "each row has a scale");
    else {
        to.width = to.rows.len / rows;
        to.numbers = PyByteArray_FromStringAndSize(NULL, 0);
        to.weights = PyByteArray_FromStringAndSize(NULL, 0);
        if (to.numbers != NULL && to.weights != NULL)
            answer = gathered(&to, given[0]);
    }
    Py_XDECREF(to.numbers);
    Py_XDECREF(to.weights);
    PyBuffer_Release(&to.rows);
    PyBuffer_Release(&to.scales);
    return answer;
}

/* Counting bits pays where the machine has an instruction for it; NumPy is faster than doing without.
 */
#if defined(__x86_64__) && !defined(__POPCNT__) && defined(__GNUC__)
#define COUNTING __attribute__((target("popcnt")))
#define CAN_COUNT __builtin_cpu_supports("popcnt")
#elif defined(__GNUC__) && (defined(__POPCNT__) || defined(__aarch64__))
#define COUNTING
#define CAN_COUNT 1
#endif

#ifdef CAN_COUNT
/* Add for *size* rows in how many bits some words of theirs, *width* numbers apart, differ from
   those of a code. The arrays may begin at odd addresses. */
static inline COUNTING __attribute__((always_inline)) void
count_words(const char *rows, Py_ssize_t width, const char *code, int words, Py_ssize_t size,
            char *out) {
    for (Py_ssize_t at = 0; at < size; at++) {
        uint16_t count;
        memcpy(&count, out + at * 2, 2);
        for (int word = 0; word < words; word++) {
            uint64_t one, other;
            memcpy(&one, rows + (word * width + at) * 8, 8);
            memcpy(&other, code + word * 8, 8);
            count += (uint16_t)__builtin_popcountll(one ^ other);
        }
        memcpy(out + at * 2, &count, 2);
    }
}

/* The same for all words of rows in blocks of *width*; few rows at a time, which stay in a cache. */
static COUNTING void count_bits(const char *codes, Py_ssize_t width, const char *code,
                                Py_ssize_t words, Py_ssize_t size, char *out) {
    memset(out, 0, size * 2);
    for (Py_ssize_t at = 0, part; at < size; at += part) {
        Py_ssize_t inside = at % width;
        part = size - at < ROWS_AT_ONCE ? size - at : ROWS_AT_ONCE;
        part = width - inside < part ? width - inside : part;
        const char *rows = codes + ((at - inside) * words + inside) * 8;
        for (Py_ssize_t word = 0, taken; word < words; word += taken) {
            const char *from = rows + word * width * 8, *other = code + word * 8;
            Py_ssize_t left = words - word;
            taken = left == 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            if (taken == 6)
                count_words(from, width, other, 6, part, out + at * 2);
            else if (taken == 4)
                count_words(from, width, other, 4, part, out + at * 2);
            else if (taken == 2)
                count_words(from, width, other, 2, part, out + at * 2);
            else
                count_words(from, width, other, 1, part, out + at * 2);
        }
    }
}
#endif

PyDoc_STRVAR(differing_doc,
             "differing(codes, width, code, out) -> bool\n\n"
             "See `fornix.search.index.bit_codes.Bits.distances`; False: nothing was done, since\n"
             "this machine has no instruction that counts bits.");

static PyObject *differing(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
#ifdef CAN_COUNT
    Py_buffer codes, code, out;
    Py_ssize_t width = count == 4 ? PyLong_AsSsize_t(given[1]) : 0;
    if (width < 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "differing takes codes, a width, a code, an array");
        return NULL;
    }
    if (PyObject_GetBuffer(given[0], &codes, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    if (PyObject_GetBuffer(given[2], &code, PyBUF_C_CONTIGUOUS) < 0) {
        PyBuffer_Release(&codes);
        return NULL;
    }
    if (PyObject_GetBuffer(given[3], &out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&codes);
        PyBuffer_Release(&code);
        return NULL;
    }
    Py_ssize_t words = code.len / 8, size = out.len / 2;
    Py_ssize_t blocks = size / width + (size % width > 0);
    PyObject *answer = NULL;
    if (words < 1 || words > 1023 || codes.len / 8 / words / width < blocks)
        PyErr_SetString(PyExc_ValueError, "there is a code for each number to be written");
    else {
        int able = CAN_COUNT;
        if (able) {
            Py_BEGIN_ALLOW_THREADS
            count_bits(codes.buf, width, code.buf, words, size, out.buf);
            Py_END_ALLOW_THREADS
        }
        answer = PyBool_FromLong(able);
    }
    PyBuffer_Release(&codes);
    PyBuffer_Release(&code);
    PyBuffer_Release(&out);
    return answer;
#else
    (void)given;
    (void)count;
    Py_RETURN_FALSE;
#endif
}

static PyMethodDef functions[] = {
    {"known_words", (PyCFunction)(void (*)(void))known_words, METH_FASTCALL, known_words_doc},
    {"analyse", (PyCFunction)(void (*)(void))analyse, METH_FASTCALL, analyse_doc},
    {"quantise", (PyCFunction)(void (*)(void))quantise, METH_FASTCALL, quantise_doc},
    {"gather", (PyCFunction)(void (*)(void))gather, METH_FASTCALL, gather_doc},
    {"differing", (PyCFunction)(void (*)(void))differing, METH_FASTCALL, differing_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
