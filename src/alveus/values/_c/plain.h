/* Texts with metadata, many at once: see words.py. */

/* Return what words read of a text, asking *in_python* where that takes Python; NULL with an error. */
static PyObject *terms_of_text(PyObject *text, PyObject *context, const Known *known,
                               PyObject *in_python) {
    PyObject *found = analysis_of(text, context, known);
    if (found == Py_None) {
        Py_DECREF(found);
        found = PyObject_CallFunctionObjArgs(in_python, text, context, NULL);
    }
    if (found != NULL && (!PyTuple_Check(found) || PyTuple_Size(found) != 3)) {
        PyErr_SetString(PyExc_TypeError, "what reads a text in Python returns three values");
        Py_CLEAR(found);
    }
    return found;
}

/* Put what is read of a text and its metadata to the four lists of an answer. */
static enum outcome read_one(PyObject *text, PyObject *metadata, PyObject *context,
                             PyObject *const *given, const Known *known, PyObject *answer) {
    if (Py_TYPE(text) != &PyUnicode_Type || Py_TYPE(metadata) != &PyDict_Type)
        return FOR_PYTHON;
    int has_caption = PyDict_Contains(metadata, given[2]);
    PyObject *json = has_caption == 0 ? json_of(metadata, 1) : NULL;
    enum outcome was = has_caption > 0 || json == Py_None ? FOR_PYTHON : json == NULL ? FAILED : READ;
    PyObject *terms = was == READ ? terms_of_text(text, context, known, given[5]) : NULL;
    if (was == READ && (terms == NULL || PyList_Append(PyTuple_GetItem(answer, 0), json) < 0))
        was = FAILED;
    for (Py_ssize_t at = 0; was == READ && at < 3; at++)
        if (PyList_Append(PyTuple_GetItem(answer, at + 1), PyTuple_GetItem(terms, at)) < 0)
            was = FAILED;
    Py_XDECREF(terms);
    Py_XDECREF(json);
    return was;
}

PyDoc_STRVAR(read_texts_doc,
             "read_texts(texts, metadata, caption, context_terms, known_words, in_python)\n--\n\n"
             "Return lists of metadata, packed, tokens, temporal; None: they are for Python.\n\n"
             "*context_terms* has a list for each text.\n"
             "*in_python* reads a text that `analyse` leaves to it.");

static PyObject *read_texts(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 6 || !PyList_Check(given[0]) || !PyList_Check(given[1]) ||
        PyList_Size(given[0]) != PyList_Size(given[1]) || !PyUnicode_Check(given[2]) ||
        !PyList_Check(given[3]) || PyList_Size(given[3]) != PyList_Size(given[0])) {
        PyErr_SetString(PyExc_TypeError, "read_texts takes two lists that are as long, a name, "
                                         "another such list, known words and a function");
        return NULL;
    }
    const Known *known = PyCapsule_GetPointer(given[4], known_name);
    PyObject *answer = known ? Py_BuildValue("[][][][]") : NULL;
    enum outcome was = answer == NULL ? FAILED : READ;
    for (Py_ssize_t at = 0; was == READ && at < PyList_Size(given[0]); at++) {
        PyObject *text = PyList_GetItem(given[0], at), *metadata = PyList_GetItem(given[1], at);
        PyObject *context = PyList_GetItem(given[3], at);
        if (text == NULL || metadata == NULL || context == NULL || !PyList_Check(context)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "the terms of a text's context are a list");
            was = FAILED;
            continue;
        }
        Py_INCREF(text); /* Python that is called may do anything */
        Py_INCREF(metadata);
        Py_INCREF(context);
        was = read_one(text, metadata, context, given, known, answer);
        Py_DECREF(context);
        Py_DECREF(text);
        Py_DECREF(metadata);
    }
    if (was == READ)
        return answer;
    Py_XDECREF(answer);
    return was == FOR_PYTHON ? Py_NewRef(Py_None) : NULL;
}
