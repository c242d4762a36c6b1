/* Letters, and texts of ASCII alone. */

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
