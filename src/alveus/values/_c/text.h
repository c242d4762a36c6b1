/* Letters, and the bytes of texts. */

static int is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static int is_letter(unsigned char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

static int is_space(unsigned char c) {
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
}

/* Return the bytes of a text, and how many more they are than its characters: of a text of ASCII
   none. NULL without an error: a lone surrogate is in it, which has no bytes. */
static const char *bytes_of(PyObject *text, Py_ssize_t *length, Py_ssize_t *more) {
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a text must be a str");
        return NULL;
    }
    const char *bytes = PyUnicode_AsUTF8AndSize(text, length);
    if (bytes == NULL)
        PyErr_Clear();
    else
        *more = *length - PyUnicode_GetLength(text);
    return bytes;
}

/* Return how long what stands before the next space is, and whether it is of ASCII. */
static Py_ssize_t chunk_in(const char *text, Py_ssize_t length, int *is_ascii) {
    Py_ssize_t size = 0;
    unsigned char all = 0;
    for (; size < length && !is_space((unsigned char)text[size]); size++)
        all |= (unsigned char)text[size];
    *is_ascii = all < 128;
    return size;
}
