/* Values as compact JSON: see wire.py. What is rare is for Python: names that begin with a dollar
   sign, control characters, lone surrogates, numbers of over 64 bits, NaN. */

#define MOST_LEVELS 32
#define SMALL_JSON 1024 /* bytes that are written to the stack */
#define LONGEST_QUOTED 65536 /* characters; Python writes longer texts as quickly, in less room */

typedef struct {
    char *bytes;
    size_t size, room;
    int strict; /* tuples are for Python, too, which refuses them */
    char small[SMALL_JSON];
} Json;

/* Return where so many bytes more are to be written; NULL: there is no memory for them. */
static char *more_json(Json *to, size_t count) {
    if (to->size + count > to->room) {
        size_t room = 2 * to->room + count;
        char *bytes = to->bytes == to->small ? NULL : to->bytes;
        bytes = PyMem_Realloc(bytes, room);
        if (bytes == NULL)
            return NULL;
        if (to->bytes == to->small)
            memcpy(bytes, to->small, to->size);
        to->bytes = bytes;
        to->room = room;
    }
    to->size += count;
    return to->bytes + to->size - count;
}

static enum outcome put_bytes(Json *to, const char *from, size_t count) {
    char *at = more_json(to, count);
    if (at == NULL)
        return FAILED;
    memcpy(at, from, count);
    return READ;
}

/* Return the letter that stands behind a backslash for a byte; 0: the byte stands for itself, or for
   Python to write. */
static char escape_of(char byte) {
    switch (byte) {
    case '"': return '"';
    case '\\': return '\\';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
    }
}

static enum outcome put_quoted(Json *to, const char *bytes, size_t size) {
    char *start = more_json(to, 2 * size + 2), *at = start;
    if (at == NULL)
        return FAILED;
    *at++ = '"';
    for (size_t each = 0; each < size; each++) {
        char byte = bytes[each], escape = escape_of(byte);
        if (escape != 0)
            *at++ = '\\';
        else if ((unsigned char)byte < 32)
            return FOR_PYTHON;
        *at++ = escape ? escape : byte;
    }
    *at++ = '"';
    to->size -= 2 * size + 2 - (size_t)(at - start);
    return READ;
}

/* A name that begins with a dollar sign is escaped by Python. */
static enum outcome put_string(Json *to, PyObject *text) {
    Py_ssize_t length = PyUnicode_GetLength(text);
    if (length > LONGEST_QUOTED)
        return FOR_PYTHON;
    if (length < 2) {
        /* Python 3.13 has one object for all bytes of this length, and gives it without counting
           it up; compiled for 3.11 this would count it down until it is freed. */
        const char *few = PyUnicode_AsUTF8AndSize(text, &length);
        if (few == NULL) {
            PyErr_Clear();
            return FOR_PYTHON;
        }
        return *few == '$' ? FOR_PYTHON : put_quoted(to, few, (size_t)length);
    }
    PyObject *encoded = PyUnicode_AsUTF8String(text); /* not kept with the text, as other bytes are */
    if (encoded == NULL) {
        PyErr_Clear(); /* a lone surrogate is in it */
        return FOR_PYTHON;
    }
    const char *bytes = PyBytes_AsString(encoded);
    enum outcome was = *bytes == '$' ? FOR_PYTHON
                                     : put_quoted(to, bytes, (size_t)PyBytes_Size(encoded));
    Py_DECREF(encoded);
    return was;
}

static enum outcome put_float(Json *to, PyObject *number) {
    double value = PyFloat_AsDouble(number);
    char *digits = isfinite(value) ? PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL)
                                   : NULL;
    if (digits == NULL) {
        PyErr_Clear();
        return FOR_PYTHON;
    }
    enum outcome was = put_bytes(to, digits, strlen(digits));
    PyMem_Free(digits);
    return was;
}

static enum outcome put_number_of(Json *to, PyObject *number) {
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    char digits[24], *at = digits + sizeof digits;
    if (overflow)
        return FOR_PYTHON;
    unsigned long long rest = value < 0 ? -(unsigned long long)value : (unsigned long long)value;
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (value < 0)
        *--at = '-';
    return put_bytes(to, at, (size_t)(digits + sizeof digits - at));
}

static enum outcome put_value(Json *to, PyObject *value, int level);

static enum outcome put_object(Json *to, PyObject *fields, int level) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    const char *before = "{";
    while (PyDict_Next(fields, &position, &name, &value)) {
        if (Py_TYPE(name) != &PyUnicode_Type)
            return FOR_PYTHON;
        enum outcome was = put_bytes(to, before, 1);
        if (was == READ)
            was = put_string(to, name);
        if (was == READ)
            was = put_bytes(to, ":", 1);
        if (was == READ)
            was = put_value(to, value, level);
        if (was != READ)
            return was;
        before = ",";
    }
    return *before == '{' ? put_bytes(to, "{}", 2) : put_bytes(to, "}", 1);
}

static enum outcome put_array(Json *to, PyObject *values, int level) {
    int is_list = Py_TYPE(values) == &PyList_Type;
    Py_ssize_t count = is_list ? PyList_Size(values) : PyTuple_Size(values);
    enum outcome was = put_bytes(to, "[", 1);
    for (Py_ssize_t at = 0; at < count && was == READ; at++) {
        PyObject *value = is_list ? PyList_GetItem(values, at) : PyTuple_GetItem(values, at);
        if (at > 0)
            was = put_bytes(to, ",", 1);
        if (was == READ)
            was = put_value(to, value, level);
    }
    return was == READ ? put_bytes(to, "]", 1) : was;
}

static enum outcome put_value(Json *to, PyObject *value, int level) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyUnicode_Type)
        return put_string(to, value);
    if (type == &PyLong_Type)
        return put_number_of(to, value);
    if (type == &PyFloat_Type)
        return put_float(to, value);
    if (value == Py_None)
        return put_bytes(to, "null", 4);
    if (value == Py_True)
        return put_bytes(to, "true", 4);
    if (value == Py_False)
        return put_bytes(to, "false", 5);
    if (level == MOST_LEVELS)
        return FOR_PYTHON;
    if (type == &PyDict_Type)
        return put_object(to, value, level + 1);
    if (type == &PyList_Type || (type == &PyTuple_Type && !to->strict))
        return put_array(to, value, level + 1);
    return FOR_PYTHON;
}

/* Return a value as JSON, None where it is for Python; NULL with an error. */
static PyObject *json_of(PyObject *value, int strict) {
    Json to = {.room = SMALL_JSON, .strict = strict};
    to.bytes = to.small;
    enum outcome was = put_value(&to, value, 0);
    PyObject *answer = NULL;
    if (was == FOR_PYTHON)
        answer = Py_NewRef(Py_None);
    else if (was == READ)
        answer = PyUnicode_FromStringAndSize(to.bytes, (Py_ssize_t)to.size);
    else
        PyErr_NoMemory();
    if (to.bytes != to.small)
        PyMem_Free(to.bytes);
    return answer;
}

PyDoc_STRVAR(compact_doc, "compact(value) -> str or None\n\n"
                          "See `alveus.values.wire.encode`.");

static PyObject *compact(PyObject *module, PyObject *value) {
    (void)module;
    return json_of(value, 0);
}
