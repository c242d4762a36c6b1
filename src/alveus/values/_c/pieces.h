/* The word pieces of texts, as rows of a table: see wordpiece.py and static.py. */

#define LONGEST_WORD 100 /* wordpiece.LONGEST_WORD */
#define UNKNOWN 100      /* wordpiece.UNKNOWN */
#define CHUNKS_AT_ONCE 32
#define ROWS_AHEAD 4     /* are fetched before they are read */

/* A piece by its letters of ASCII, which are somewhere among those of all. */
typedef struct {
    uint32_t hash, piece, at;
    int size; /* 0: there is none */
} Piece;

/* Pieces of one kind, at slots by their hashes: at least half of these are empty. */
typedef struct {
    Piece *slots;
    char *letters;
    uint32_t room; /* a power of two */
} Pieces;

/* The pieces that begin a word, and those that go on with one; and the chunks between two spaces that
   were met. */
typedef struct {
    Met *met;
    Pieces firsts, inner;
    Py_ssize_t longest;
} Vocabulary;

static const char vocabulary_name[] = "alveus.vocabulary";

static void forget_pieces(Pieces *of) {
    free(of->slots);
    free(of->letters);
}

static void forget_vocabulary(PyObject *capsule) {
    Vocabulary *of = PyCapsule_GetPointer(capsule, vocabulary_name);
    free(of->met);
    forget_pieces(&of->firsts);
    forget_pieces(&of->inner);
    PyMem_Free(of);
}

/* Return where a piece is, or would be; its letters have a margin. */
static Piece *slot_of_piece(const Pieces *among, const char *letters, int size, uint32_t hash) {
    uint32_t at = hash & (among->room - 1);
    for (const Piece *one; (one = among->slots + at)->size != 0; at = (at + 1) & (among->room - 1))
        if (one->hash == hash && one->size == size &&
            same_bytes(among->letters + one->at, letters, size))
            break;
    return among->slots + at;
}

/* Return how many bytes of ASCII a text has; 0: it has others, or none. */
static Py_ssize_t ascii_in(PyObject *text, const char **bytes) {
    Py_ssize_t size = 0;
    *bytes = PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    PyErr_Clear(); /* a lone surrogate is in it */
    return *bytes != NULL && size == PyUnicode_GetLength(text) ? size : 0;
}

/* Take the pieces of a dict; return 0, or -1 with an error. */
static int take_pieces(Pieces *to, PyObject *given) {
    PyObject *text, *number;
    Py_ssize_t at = 0, letters = 0;
    const char *bytes;
    for (to->room = 16; to->room < 2 * (size_t)PyDict_Size(given); to->room *= 2)
        ;
    while (PyDict_Next(given, &at, &text, &number))
        letters += ascii_in(text, &bytes);
    to->slots = calloc(to->room, sizeof(Piece));
    to->letters = calloc((size_t)letters + MARGIN, 1);
    if (to->slots == NULL || to->letters == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    at = letters = 0;
    while (PyDict_Next(given, &at, &text, &number)) {
        Py_ssize_t size = ascii_in(text, &bytes), piece = PyLong_AsSsize_t(number);
        if (PyErr_Occurred())
            return -1;
        if (piece < 0 || piece > INT32_MAX || letters + size > INT32_MAX) {
            PyErr_SetString(PyExc_ValueError, "a piece is a slot in a vocabulary");
            return -1;
        }
        if (size == 0)
            continue;
        memcpy(to->letters + letters, bytes, (size_t)size);
        uint32_t hash = hash_of(to->letters + letters, (int)size);
        *slot_of_piece(to, to->letters + letters, (int)size, hash) =
            (Piece){hash, (uint32_t)piece, (uint32_t)letters, (int)size};
        letters += size;
    }
    return 0;
}

PyDoc_STRVAR(vocabulary_doc, "vocabulary(firsts, inner, longest)\n--\n\n"
                             "Return what `add_pieces` knows of pieces: their slots by their letters,\n"
                             "two dicts; and in time the pieces of what it meets.");

static PyObject *vocabulary(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    Py_ssize_t longest = count == 3 ? PyLong_AsSsize_t(given[2]) : -1;
    if (longest < 1 || !PyDict_Check(given[0]) || !PyDict_Check(given[1])) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "vocabulary takes two dicts and a length");
        return NULL;
    }
    Vocabulary *of = PyMem_Calloc(1, sizeof(Vocabulary));
    PyObject *capsule = of ? PyCapsule_New(of, vocabulary_name, forget_vocabulary) : NULL;
    if (capsule == NULL) {
        PyMem_Free(of);
        return PyErr_NoMemory();
    }
    of->longest = longest;
    of->met = calloc(SLOTS, sizeof(Met));
    if (of->met == NULL)
        PyErr_NoMemory();
    if (of->met == NULL || take_pieces(&of->firsts, given[0]) < 0 ||
        take_pieces(&of->inner, given[1]) < 0)
        Py_CLEAR(capsule);
    return capsule;
}

/* Cut a word, which has a margin, into the longest pieces that fit, from the left, or into the one that
   is unknown; return how many they are. */
static int cut_word(const Vocabulary *of, const char *word, Py_ssize_t size, Py_ssize_t *pieces) {
    int count = 0;
    const Pieces *among = size > LONGEST_WORD ? NULL : &of->firsts;
    for (Py_ssize_t start = 0, length; among != NULL && start < size; start += length) {
        const Piece *found = NULL;
        for (length = size - start < of->longest ? size - start : of->longest; length > 0; length--) {
            uint32_t hash = hash_of(word + start, (int)length);
            found = slot_of_piece(among, word + start, (int)length, hash);
            if (found->size != 0)
                break;
        }
        if (length > 0)
            pieces[count++] = (Py_ssize_t)found->piece;
        among = length > 0 ? &of->inner : NULL;
    }
    if (among != NULL)
        return count;
    pieces[0] = UNKNOWN;
    return 1;
}

/* The pieces of a text. */
typedef struct {
    const Vocabulary *vocabulary;
    PyObject *others;
    Py_ssize_t *pieces, count, room;
} Cut;

/* Add a piece; return 0, or -1 with an error. */
static int add_piece(Cut *to, Py_ssize_t piece) {
    if (to->count == to->room) {
        Py_ssize_t room = to->room * 2 + 64;
        Py_ssize_t *larger = PyMem_Realloc(to->pieces, (size_t)room * sizeof *larger);
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        to->pieces = larger;
        to->room = room;
    }
    to->pieces[to->count++] = piece;
    return 0;
}

/* Put a piece down, unless there are too many. */
static void keep_piece(Met *met, Py_ssize_t piece) {
    if (met->count < PIECES_MET && piece >= 0 && piece <= UINT16_MAX)
        met->is.pieces[met->count++] = (uint16_t)piece;
    else
        met->count = PIECES_MET + 1;
}

/* Have Python find the pieces of a text, add them, and put them down. */
static int add_by_python(Cut *to, PyObject *text, Met *met) {
    PyObject *pieces = text ? PyObject_CallFunctionObjArgs(to->others, text, NULL) : NULL;
    Py_ssize_t count = pieces == NULL ? -1 : PySequence_Size(pieces);
    int failed = count < 0;
    for (Py_ssize_t at = 0; !failed && at < count; at++) {
        PyObject *each = PySequence_GetItem(pieces, at);
        Py_ssize_t piece = each == NULL ? -1 : PyLong_AsSsize_t(each);
        Py_XDECREF(each);
        failed = (piece == -1 && PyErr_Occurred()) || add_piece(to, piece) < 0;
        keep_piece(met, piece);
    }
    Py_XDECREF(pieces);
    return failed ? -1 : 0;
}

/* Return how long the first word of a chunk is: letters and digits, or one other sign. */
static Py_ssize_t first_word(const char *chunk, Py_ssize_t size) {
    Py_ssize_t end = 0;
    while (end < size && (is_letter(chunk[end]) || is_digit(chunk[end])))
        end++;
    return end > 0 ? end : 1;
}

/* Find the pieces of a chunk of ASCII in lower case, which has a margin, add them, and put them down. */
static int add_words(Cut *to, const char *chunk, Py_ssize_t size, Met *met) {
    for (Py_ssize_t start = 0, length; start < size; start += length) {
        Py_ssize_t pieces[LONGEST_WORD];
        length = first_word(chunk + start, size - start);
        int count = cut_word(to->vocabulary, chunk + start, length, pieces);
        for (int at = 0; at < count; at++) {
            if (add_piece(to, pieces[at]) < 0)
                return -1;
            keep_piece(met, pieces[at]);
        }
    }
    return 0;
}

/* What stands between two spaces, in lower case if it is of ASCII, with a margin; and by what it is
   looked up, if it is short. */
typedef struct {
    const char *letters;
    Py_ssize_t size;
    uint32_t hash;
    int is_ascii;
} Chunk;

/* Add the pieces of a chunk; return 0, or -1 with an error. */
static int add_chunk(Cut *to, const Chunk *chunk) {
    Met *table = to->vocabulary->met, found = {.count = 0};
    int is_short = chunk->size <= LONGEST_MET, size = (int)chunk->size;
    if (is_short) {
        const Met *met = met_slot(table, chunk->letters, size, chunk->hash);
        if (is_there(met, chunk->letters, size, chunk->hash)) {
            for (int at = 0; at < met->count; at++)
                if (add_piece(to, met->is.pieces[at]) < 0)
                    return -1;
            return 0;
        }
    }
    if (chunk->is_ascii) {
        if (add_words(to, chunk->letters, chunk->size, &found) < 0)
            return -1;
    } else {
        PyObject *text = PyUnicode_FromStringAndSize(chunk->letters, chunk->size);
        int failed = add_by_python(to, text, &found);
        Py_XDECREF(text);
        if (failed)
            return -1;
    }
    if (is_short && found.count <= PIECES_MET) {
        put(&found, chunk->letters, size, chunk->hash);
        *met_slot(table, chunk->letters, size, chunk->hash) = found;
    }
    return 0;
}

/* Put a chunk of ASCII to *lower* in lower case, without characters that are dropped. */
static Py_ssize_t lowered(const char *chunk, Py_ssize_t size, char *lower) {
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; at < size; at++) {
        char c = chunk[at];
        if (c >= 32 && c < 127)
            lower[count++] = c >= 'A' && c <= 'Z' ? c | 32 : c;
    }
    return count;
}

/* Add the pieces of all chunks of a text, with room for these and a margin; return 0, or -1 with an
   error. Several at once, as what is known of each is far away in memory. */
static int add_chunks(Cut *to, const char *text, Py_ssize_t length, char *room) {
    Chunk chunks[CHUNKS_AT_ONCE];
    for (Py_ssize_t at = 0; at < length;) {
        int count = 0;
        while (count < CHUNKS_AT_ONCE && at < length) {
            Chunk *chunk = chunks + count;
            Py_ssize_t size = chunk_in(text + at, length - at, &chunk->is_ascii);
            chunk->letters = room;
            chunk->size = chunk->is_ascii ? lowered(text + at, size, room) : size;
            if (!chunk->is_ascii)
                memcpy(room, text + at, (size_t)size);
            room += chunk->size;
            memset(room, 0, MARGIN);
            if (chunk->size <= LONGEST_MET) {
                chunk->hash = hash_of(chunk->letters, (int)chunk->size);
                fetch(to->vocabulary->met, chunk->hash);
            }
            count += chunk->size > 0;
            at += size + 1;
        }
        for (int each = 0; each < count; each++)
            if (add_chunk(to, chunks + each) < 0)
                return -1;
    }
    return 0;
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

/* Add the pieces of a text; return 0, or -1 with an error. */
static int add_text(Cut *to, PyObject *given) {
    Py_ssize_t length, more;
    const char *text = bytes_of(given, &length, &more);
    if (text == NULL && PyErr_Occurred())
        return -1;
    if (text == NULL || has_removed(text, length)) {
        Met met = {.count = 0};
        return add_by_python(to, given, &met);
    }
    char small[ON_STACK];
    size_t size = (size_t)length + MARGIN;
    char *room = size <= ON_STACK ? small : PyMem_Malloc(size);
    if (room == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int failed = add_chunks(to, text, length, room);
    if (room != small)
        PyMem_Free(room);
    return failed;
}

/* A table of rows of numbers, and by how much each row counts. */
typedef struct {
    Py_buffer rows, scales;
    Py_ssize_t width, count, first;
} Table;

/* Return which row a piece has; row 0 if it is none of text; -1 with an error. */
static Py_ssize_t row_of(const Table *of, Py_ssize_t piece) {
    Py_ssize_t row = piece > of->first ? piece - of->first : 0;
    if (row >= 0 && row < of->count)
        return row;
    PyErr_SetString(PyExc_IndexError, "there is no such row");
    return -1;
}

/* A table may be read into memory at an odd address. */
static float scale_of(const Table *of, Py_ssize_t row) {
    float scale;
    memcpy(&scale, (const char *)of->scales.buf + row * (Py_ssize_t)sizeof scale, sizeof scale);
    return scale;
}

static const signed char *numbers_of(const Table *of, Py_ssize_t row) {
    return (const signed char *)of->rows.buf + row * of->width;
}

/* Add a row to a sum. */
WIDE static void add_row(const signed char *restrict row, float scale, Py_ssize_t width,
                         float *restrict sum) {
    for (Py_ssize_t at = 0; at < width; at++)
        sum[at] += scale * (float)row[at];
}

/* Add the rows of pieces to a sum, one after the other; return 0, or -1 with an error. */
static int add_rows(const Table *of, Py_ssize_t *pieces, Py_ssize_t count, float *sum) {
    for (Py_ssize_t each = 0; each < count; each++)
        if ((pieces[each] = row_of(of, pieces[each])) < 0)
            return -1;
    for (Py_ssize_t each = 0; each < count; each++) {
        if (each + ROWS_AHEAD < count)
            fetch_bytes(numbers_of(of, pieces[each + ROWS_AHEAD]), of->width);
        add_row(numbers_of(of, pieces[each]), scale_of(of, pieces[each]), of->width, sum);
    }
    return 0;
}

/* Add the rows of the pieces of so many texts to their sums; return 0, or -1 with an error. */
static int add_texts(const Table *of, Cut *cut, PyObject *texts, Py_ssize_t count, float *sums) {
    for (Py_ssize_t at = 0; at < count; at++, sums += of->width) {
        PyObject *text = PyList_GetItem(texts, at); /* gone, if others took it away */
        if (text == NULL)
            return -1;
        Py_INCREF(text);
        cut->count = 0;
        int failed = add_text(cut, text) < 0 || add_rows(of, cut->pieces, cut->count, sums) < 0;
        Py_DECREF(text);
        if (failed)
            return -1;
    }
    return 0;
}

PyDoc_STRVAR(add_pieces_doc,
             "add_pieces(texts, vocabulary, others, rows, scales, first, sums)\n--\n\n"
             "Add to the sum of each text the rows of its pieces, each times its scale, in their\n"
             "order. *others* returns the pieces of what is not of ASCII; a piece of text *first* + 1\n"
             "has row 1.");

static PyObject *add_pieces(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 7 || !PyList_Check(given[0])) {
        PyErr_SetString(PyExc_TypeError, "add_pieces takes a list of texts, and six more");
        return NULL;
    }
    Cut cut = {.vocabulary = PyCapsule_GetPointer(given[1], vocabulary_name), .others = given[2]};
    Table of = {.first = cut.vocabulary == NULL ? -1 : PyLong_AsSsize_t(given[5])};
    Py_buffer sums;
    if (of.first == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(given[3], &of.rows, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    if (PyObject_GetBuffer(given[4], &of.scales, PyBUF_C_CONTIGUOUS) < 0) {
        PyBuffer_Release(&of.rows);
        return NULL;
    }
    if (PyObject_GetBuffer(given[6], &sums, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&of.rows);
        PyBuffer_Release(&of.scales);
        return NULL;
    }
    int failed = 1;
    Py_ssize_t texts = PyList_Size(given[0]);
    of.count = of.scales.len / (Py_ssize_t)sizeof(float);
    of.width = of.count < 1 ? 0 : of.rows.len / of.count;
    if (of.width < 1 || of.rows.len % of.count)
        PyErr_SetString(PyExc_ValueError, "each row has a scale");
    else if (sums.len != texts * of.width * (Py_ssize_t)sizeof(float))
        PyErr_SetString(PyExc_ValueError, "each text has a sum");
    else
        failed = add_texts(&of, &cut, given[0], texts, sums.buf);
    PyMem_Free(cut.pieces);
    PyBuffer_Release(&of.rows);
    PyBuffer_Release(&of.scales);
    PyBuffer_Release(&sums);
    if (failed)
        return NULL;
    return Py_NewRef(Py_None);
}

PyDoc_STRVAR(pieces_doc,
             "pieces(text, vocabulary, others) -> list\n\n"
             "See `alveus.embed.wordpiece.WordPieces.ids`; *others* returns the pieces of what is\n"
             "not of ASCII.");

static PyObject *pieces(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "pieces takes a text, a vocabulary and a function");
        return NULL;
    }
    Cut cut = {.vocabulary = PyCapsule_GetPointer(given[1], vocabulary_name), .others = given[2]};
    PyObject *list = NULL;
    if (cut.vocabulary != NULL && add_text(&cut, given[0]) == 0)
        list = PyList_New(cut.count);
    for (Py_ssize_t at = 0; list != NULL && at < cut.count; at++) {
        PyObject *piece = PyLong_FromSsize_t(cut.pieces[at]);
        if (piece == NULL || PyList_SetItem(list, at, piece) < 0)
            Py_CLEAR(list);
    }
    PyMem_Free(cut.pieces);
    return list;
}
