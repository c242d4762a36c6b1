/* Runs statements, each for many rows, with one release of Python's lock: see statements.py.

   SQLite itself is the one that apsw brings: its functions come as the table that it gives to its
   extensions (https://sqlite.org/loadext.html), see c_functions.py. Values are read from Python's objects first; then SQLite runs without Python; then the
   objects are let go. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PREPARE_PERSISTENT 1
#define IS_UTF8 1
#define DONE 101
#define HAS_ROW 100
#define MESSAGE_SIZE 512
/* Parameters of a statement; one with more is for apsw. */
#define WIDEST 32

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef struct sqlite3_mutex sqlite3_mutex;
typedef void (*Function)(void);

/* Where SQLite's functions are among those that it hands over: places are never changed. */
enum place {
    BIND_DOUBLE = 3,
    BIND_INT64 = 5,
    BIND_NULL = 6,
    PARAMETER_COUNT = 7,
    ERRMSG = 53,
    FINALIZE = 57,
    RESET = 77,
    STEP = 94,
    CLEAR_BINDINGS = 118,
    MUTEX_LEAVE = 133,
    MUTEX_TRY = 134,
    DB_MUTEX = 164,
    EXTENDED_ERRCODE = 166,
    WAL_HOOK = 175,
    BIND_BLOB64 = 193,
    BIND_TEXT64 = 194,
    PREPARE_V3 = 217,
};

static struct {
    int (*bind_double)(sqlite3_stmt *, int, double);
    int (*bind_int64)(sqlite3_stmt *, int, int64_t);
    int (*bind_null)(sqlite3_stmt *, int);
    int (*parameter_count)(sqlite3_stmt *);
    const char *(*errmsg)(sqlite3 *);
    int (*finalize)(sqlite3_stmt *);
    int (*reset)(sqlite3_stmt *);
    int (*step)(sqlite3_stmt *);
    int (*clear_bindings)(sqlite3_stmt *);
    void (*mutex_leave)(sqlite3_mutex *);
    int (*mutex_try)(sqlite3_mutex *);
    sqlite3_mutex *(*db_mutex)(sqlite3 *);
    int (*extended_errcode)(sqlite3 *);
    void *(*wal_hook)(sqlite3 *, int (*)(void *, sqlite3 *, const char *, int), void *);
    int (*bind_blob64)(sqlite3_stmt *, int, const void *, uint64_t, void (*)(void *));
    int (*bind_text64)(sqlite3_stmt *, int, const char *, uint64_t, void (*)(void *), unsigned char);
    int (*prepare_v3)(sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **);
} lite;

/* Keep where SQLite's functions are. */
static void take_functions(const Function *given) {
#define TAKE(name, place) memcpy(&lite.name, given + place, sizeof(Function))
    TAKE(bind_double, BIND_DOUBLE);
    TAKE(bind_int64, BIND_INT64);
    TAKE(bind_null, BIND_NULL);
    TAKE(parameter_count, PARAMETER_COUNT);
    TAKE(errmsg, ERRMSG);
    TAKE(finalize, FINALIZE);
    TAKE(reset, RESET);
    TAKE(step, STEP);
    TAKE(clear_bindings, CLEAR_BINDINGS);
    TAKE(mutex_leave, MUTEX_LEAVE);
    TAKE(mutex_try, MUTEX_TRY);
    TAKE(db_mutex, DB_MUTEX);
    TAKE(extended_errcode, EXTENDED_ERRCODE);
    TAKE(wal_hook, WAL_HOOK);
    TAKE(bind_blob64, BIND_BLOB64);
    TAKE(bind_text64, BIND_TEXT64);
    TAKE(prepare_v3, PREPARE_V3);
#undef TAKE
}

/* A value to bind: a number, or where text or bytes are. */
typedef struct {
    enum { EMPTY, WHOLE, REAL, TEXT, BYTES } kind;
    union {
        int64_t whole;
        double real;
        const char *at;
    } is;
    uint64_t size;
} Value;

/* One statement, and for how many rows it is to run. Its values are those that all rows share, and
   then those of each row. */
typedef struct {
    sqlite3_stmt *statement;
    Py_ssize_t rows;
    int width;
    int shared;
    unsigned char places[WIDEST]; /* of the shared parameters, and of the others */
} Part;

/* The statements of one connection, by their text. */
typedef struct {
    sqlite3 *db; /* NULL: finished */
    PyObject *statements;
    int taken;
    int pages; /* of the write-ahead log, after the last commit */
} Prepared;

static const char prepared_name[] = "alveus.statements";

/* Read a value; return 1, or 0 where it is for apsw to bind, or to refuse. */
static int read_value(PyObject *given, Value *to) {
    to->size = 0;
    if (given == Py_None) {
        to->kind = EMPTY;
        return 1;
    }
    if (PyUnicode_Check(given)) {
        Py_ssize_t size;
        to->is.at = PyUnicode_AsUTF8AndSize(given, &size);
        to->kind = TEXT;
        to->size = (uint64_t)size;
        return to->is.at != NULL;
    }
    if (PyLong_Check(given)) {
        int over = 0;
        to->is.whole = PyLong_AsLongLongAndOverflow(given, &over);
        to->kind = WHOLE;
        return !over;
    }
    if (PyBytes_Check(given)) {
        to->is.at = PyBytes_AsString(given);
        to->kind = BYTES;
        to->size = (uint64_t)PyBytes_Size(given);
        return 1;
    }
    if (PyFloat_Check(given)) {
        to->is.real = PyFloat_AsDouble(given);
        to->kind = REAL;
        return 1;
    }
    return 0;
}

static int bind(sqlite3_stmt *statement, int place, const Value *value) {
    switch (value->kind) {
    case WHOLE:
        return lite.bind_int64(statement, place, value->is.whole);
    case REAL:
        return lite.bind_double(statement, place, value->is.real);
    case TEXT:
        return lite.bind_text64(statement, place, value->is.at, value->size, NULL, IS_UTF8);
    case BYTES:
        return lite.bind_blob64(statement, place, value->is.at, value->size, NULL);
    default:
        return lite.bind_null(statement, place);
    }
}

/* Run one statement for its rows; return what SQLite answers. Python is not touched. */
static int run_part(const Part *part, const Value *values) {
    int code = 0;
    for (int i = 0; i < part->shared && code == 0; i++)
        code = bind(part->statement, part->places[i], values++);
    for (Py_ssize_t row = 0; row < part->rows && code == 0; row++) {
        for (int i = part->shared; i < part->width && code == 0; i++)
            code = bind(part->statement, part->places[i], values++);
        if (code == 0) {
            do
                code = lite.step(part->statement);
            while (code == HAS_ROW);
            code = lite.reset(part->statement);
        }
    }
    return code;
}

static PyObject *wrong(const char *message) {
    PyErr_SetString(PyExc_TypeError, message);
    return NULL;
}

/* Have the connection for this thread alone; return 0 where another has it. Nobody waits: that one
   may wait for Python's lock, which this one holds. */
static int take(Prepared *of) {
    if (of->taken || lite.mutex_try(lite.db_mutex(of->db)) != 0)
        return 0;
    of->taken = 1;
    return 1;
}

static void leave(Prepared *of) {
    of->taken = 0;
    lite.mutex_leave(lite.db_mutex(of->db));
}

/* Return what `prepare` returned, for this thread alone until `leave`; NULL with an error. */
static Prepared *taken(PyObject *given) {
    Prepared *of = PyCapsule_GetPointer(given, prepared_name);
    if (of == NULL)
        return NULL;
    if (of->db != NULL && take(of))
        return of;
    const char *problem = of->db != NULL ? "the connection is being used" : "finished";
    PyErr_SetString(PyExc_RuntimeError, problem);
    return NULL;
}

/* Return the statement of a text, prepared once; NULL: it cannot be, or there are several. */
static sqlite3_stmt *prepared(Prepared *of, PyObject *text) {
    PyObject *found = PyDict_GetItemWithError(of->statements, text);
    if (found != NULL)
        return PyLong_AsVoidPtr(found);
    sqlite3_stmt *statement = NULL;
    Py_ssize_t size;
    const char *sql = PyErr_Occurred() ? NULL : PyUnicode_AsUTF8AndSize(text, &size), *rest;
    if (sql == NULL ||
        lite.prepare_v3(of->db, sql, (int)size, PREPARE_PERSISTENT, &statement, &rest) != 0)
        return NULL;
    PyObject *address = rest == sql + size ? PyLong_FromVoidPtr(statement) : NULL;
    if (address == NULL || PyDict_SetItem(of->statements, text, address) < 0) {
        lite.finalize(statement);
        statement = NULL;
    }
    Py_XDECREF(address);
    return statement;
}

/* What the values of all parts are read into. */
typedef struct {
    Value *at;
    size_t count;
    size_t room;
} Values;

/* Have room for so many more. */
static int have_room(Values *values, size_t more) {
    if (values->count + more <= values->room)
        return 1;
    size_t wanted = (values->count + more) * 2;
    Value *larger = PyMem_Realloc(values->at, wanted * sizeof(Value));
    if (larger == NULL)
        return 0;
    values->at = larger;
    values->room = wanted;
    return 1;
}

/* Read the rows of a part behind the values that are there; return 1, or 0: it is for apsw. */
static int read_rows(PyObject *rows, Part *part, Values *values) {
    part->rows = PyTuple_Size(rows);
    part->shared = 0;
    for (int i = 0; i < part->width; i++)
        part->places[i] = (unsigned char)(i + 1);
    if (!have_room(values, (size_t)part->rows * (size_t)part->width))
        return 0;
    for (Py_ssize_t i = 0; i < part->rows; i++) {
        PyObject *row = PyTuple_GetItem(rows, i);
        if (row == NULL || !PyTuple_CheckExact(row) || PyTuple_Size(row) != part->width)
            return 0;
        for (int place = 0; place < part->width; place++)
            if (!read_value(PyTuple_GetItem(row, place), values->at + values->count++))
                return 0;
    }
    return 1;
}

/* Do so for columns: each is a list, or what all rows share. */
static int read_columns(PyObject *columns, Part *part, Values *values) {
    PyObject *lists[WIDEST];
    int of_rows = 0;
    part->rows = -1;
    part->shared = 0;
    if (!PyTuple_CheckExact(columns) || PyTuple_Size(columns) != part->width ||
        !have_room(values, (size_t)part->width))
        return 0;
    for (int place = 0; place < part->width; place++) {
        PyObject *column = PyTuple_GetItem(columns, place);
        if (PyList_CheckExact(column)) {
            if (part->rows >= 0 && PyList_Size(column) != part->rows)
                return 0;
            part->rows = PyList_Size(column);
            lists[of_rows++] = column;
        } else {
            part->places[part->shared++] = (unsigned char)(place + 1);
            if (!read_value(column, values->at + values->count++))
                return 0;
        }
    }
    for (int place = 0, i = part->shared; place < part->width; place++)
        if (PyList_CheckExact(PyTuple_GetItem(columns, place)))
            part->places[i++] = (unsigned char)(place + 1);
    if (part->rows < 0 || !have_room(values, (size_t)part->rows * (size_t)of_rows))
        return 0;
    for (Py_ssize_t row = 0; row < part->rows; row++)
        for (int i = 0; i < of_rows; i++)
            if (!read_value(PyList_GetItem(lists[i], row), values->at + values->count++))
                return 0;
    return 1;
}

/* Read what one statement is to be run for; return what holds its values, or NULL: it is for apsw. */
static PyObject *read_part(PyObject *given, Part *part, Values *values) {
    PyObject *columns = NULL, *held;
    part->width = lite.parameter_count(part->statement);
    if (part->width > WIDEST)
        return NULL;
    if (!PyList_CheckExact(given)) {
        columns = PyObject_GetAttrString(given, "columns");
        PyErr_Clear();
    }
    held = columns != NULL ? columns : PySequence_Tuple(given);
    int can = held != NULL && (columns != NULL ? read_columns(held, part, values)
                                               : read_rows(held, part, values));
    if (!can)
        Py_CLEAR(held);
    return held;
}

PyDoc_STRVAR(prepare_doc, "prepare_with(table, db)\n--\n\nReturn where the statements of a connection are kept.");

PyDoc_STRVAR(run_doc, "run(prepared, parts)\n--\n\n"
                      "Run each statement for each of its rows, which may be given as columns;\n"
                      "nobody changes those meanwhile.\n\n"
                      "True: it is done. False: nothing was, it is for apsw. Else the code and the\n"
                      "message of what SQLite refused.");

static PyObject *run(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 2)
        return wrong("run takes two arguments");
    PyObject *held = PySequence_Tuple(given[1]);
    Prepared *of = held != NULL ? taken(given[0]) : NULL;
    if (of == NULL) {
        Py_XDECREF(held);
        return NULL;
    }
    Py_ssize_t parts = PyTuple_Size(held), ready = 0;
    PyObject *rows = PyTuple_New(parts), *answer = NULL;
    Part *part = PyMem_Calloc((size_t)parts + 1, sizeof(Part));
    Values values = {NULL, 0, 0};
    char message[MESSAGE_SIZE];
    int code = 0;
    if (rows == NULL || part == NULL)
        goto end;
    for (; ready < parts; ready++) {
        PyObject *pair = PyTuple_GetItem(held, ready), *bound;
        if (!PyTuple_CheckExact(pair) || PyTuple_Size(pair) != 2)
            break;
        part[ready].statement = prepared(of, PyTuple_GetItem(pair, 0));
        if (part[ready].statement == NULL)
            break;
        bound = read_part(PyTuple_GetItem(pair, 1), part + ready, &values);
        if (bound == NULL || PyTuple_SetItem(rows, ready, bound) < 0)
            break;
    }
    if (ready < parts) {
        PyErr_Clear();
        answer = Py_NewRef(Py_False);
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS;
    const Value *next = values.at;
    for (Py_ssize_t i = 0; i < parts && code == 0; i++) {
        code = run_part(part + i, next);
        next += part[i].shared + part[i].rows * (part[i].width - part[i].shared);
        if (code != 0) {
            code = lite.extended_errcode(of->db);
            snprintf(message, sizeof message, "%s", lite.errmsg(of->db));
        }
    }
    for (Py_ssize_t i = 0; i < parts; i++)
        lite.clear_bindings(part[i].statement); /* what is bound is let go below */
    Py_END_ALLOW_THREADS;
    if (!PyErr_Occurred() && code == 0) {
        answer = Py_NewRef(Py_True);
    } else if (!PyErr_Occurred()) {
        /* A message is of any length, and cut anywhere. */
        PyObject *told = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
        answer = told != NULL ? Py_BuildValue("iN", code, told) : NULL;
    }
end:
    leave(of);
    PyMem_Free(values.at);
    PyMem_Free(part);
    Py_XDECREF(rows);
    Py_DECREF(held);
    if (answer == NULL && !PyErr_Occurred())
        PyErr_NoMemory();
    return answer;
}

/* Leave a connection that was taken, and let go of its statements: the last of them takes with it
   what is left of a connection that was closed before. */
static void drop(Prepared *of) {
    PyObject *text, *address;
    Py_ssize_t at = 0;
    lite.wal_hook(of->db, NULL, NULL);
    leave(of);
    of->db = NULL;
    while (PyDict_Next(of->statements, &at, &text, &address))
        lite.finalize(PyLong_AsVoidPtr(address));
}

static void forget(PyObject *capsule) {
    Prepared *of = PyCapsule_GetPointer(capsule, prepared_name);
    if (of->db != NULL && !take(of))
        return; /* a thread died with it, and it stays as it is */
    if (of->db != NULL)
        drop(of);
    Py_DECREF(of->statements);
    PyMem_Free(of);
}

static PyObject *prepare(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyLong_Check(given[0]) || !PyLong_Check(given[1]))
        return wrong("prepare_with takes the addresses of SQLite's functions and of a connection");
    const Function *table = PyLong_AsVoidPtr(given[0]);
    sqlite3 *db = PyLong_AsVoidPtr(given[1]);
    if (PyErr_Occurred())
        return NULL;
    if (table == NULL || db == NULL)
        return wrong("an address is not 0");
    if (lite.step == NULL)
        take_functions(table);
    Prepared *of = PyMem_Calloc(1, sizeof(Prepared));
    if (of == NULL)
        return PyErr_NoMemory();
    of->db = db;
    of->statements = PyDict_New();
    PyObject *capsule = of->statements ? PyCapsule_New(of, prepared_name, forget) : NULL;
    if (capsule == NULL) {
        Py_XDECREF(of->statements);
        PyMem_Free(of);
    }
    return capsule;
}

PyDoc_STRVAR(finish_doc, "finish(prepared)\n--\n\nLet go of the statements; their connection may be closed then.");

static PyObject *finish(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    if (count != 1)
        return wrong("finish takes one argument");
    Prepared *of = taken(given[0]);
    if (of == NULL)
        return NULL;
    drop(of);
    return Py_NewRef(Py_None);
}

/* SQLite calls this at each commit, without Python's lock. */
static int note_pages(void *of, sqlite3 *db, const char *name, int pages) {
    (void)db;
    (void)name;
    ((Prepared *)of)->pages = pages;
    return 0;
}

PyDoc_STRVAR(count_pages_doc, "count_pages(prepared)\n--\n\n"
                              "Have `pages` tell how long the write-ahead log is.");

static PyObject *count_pages(PyObject *module, PyObject *given) {
    (void)module;
    Prepared *of = taken(given);
    if (of == NULL)
        return NULL;
    lite.wal_hook(of->db, note_pages, of);
    leave(of);
    return Py_NewRef(Py_None);
}

PyDoc_STRVAR(pages_doc, "pages(prepared)\n--\n\n"
                        "Return the pages in the log after the last commit; 0: there was none since\n"
                        "it was asked.");

static PyObject *pages(PyObject *module, PyObject *given) {
    (void)module;
    Prepared *of = PyCapsule_GetPointer(given, prepared_name);
    if (of == NULL)
        return NULL;
    int found = of->pages;
    of->pages = 0;
    return PyLong_FromLong(found);
}

static PyMethodDef functions[] = {
    {"prepare_with", (PyCFunction)(void (*)(void))prepare, METH_FASTCALL, prepare_doc},
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, run_doc},
    {"finish", (PyCFunction)(void (*)(void))finish, METH_FASTCALL, finish_doc},
    {"count_pages", count_pages, METH_O, count_pages_doc},
    {"pages", pages, METH_O, pages_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_statements", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__statements(void);

PyMODINIT_FUNC PyInit__statements(void) { return PyModuleDef_Init(&definition); }
