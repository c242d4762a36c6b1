/* Vectors, rounded; and how far codes are apart: see vectors.py. */

#define ROWS_AT_ONCE 1024

/* Stretch a row until its largest number is 127; return 0 if a number is not finite. */
WIDE static int quantise_row(const float *row, Py_ssize_t width, signed char *to) {
    /* Added and taken away again, it rounds as numpy.rint does: to the nearest, ties to even. */
    const double rounding = 6755399441055744.0;
    const int32_t infinite = 0x7f800000;
    int32_t most = 0; /* sizes are in the order of their bits, which are compared several at once */
    float largest;
    for (Py_ssize_t at = 0; at < width; at++) {
        int32_t bits;
        memcpy(&bits, row + at, sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    if (most >= infinite)
        return 0;
    memcpy(&largest, &most, sizeof largest);
    double scale = 127.0 / (double)(largest == 0 ? 1 : largest);
    for (Py_ssize_t at = 0; at < width; at++)
        to[at] = (signed char)(int)(((double)row[at] * scale + rounding) - rounding);
    return 1;
}

PyDoc_STRVAR(quantise_doc, "quantise(rows, width) -> bytes or None\n\n"
                           "See `alveus.embed.vectors.quantise`; None: a number is not finite.");

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
    if (numbers % width) {
        PyBuffer_Release(&rows);
        PyErr_SetString(PyExc_ValueError, "each row has as many numbers");
        return NULL;
    }
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
             "See `alveus.search.index.vectors.Bits.distances`; False: nothing was done, since\n"
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
    return Py_NewRef(Py_False);
#endif
}
