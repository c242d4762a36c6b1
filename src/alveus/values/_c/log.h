/* Writes what a transaction adds to a write-ahead log in one call: see log_writes.py.

   A VFS (https://sqlite.org/vfs.html) between the checksum VFS and that of the system. It changes
   nothing but writes to the log: there SQLite writes a page as a frame, its head by one call and
   the page by another. Frames that follow one another are gathered, and written before the write
   that commits returns: a file holds the same bytes then, and errors come while SQLite still
   undoes the transaction. Nobody but the connection that writes reads frames before that. What is
   gathered of a transaction that is undone is dropped: others may write there.

   And a log that grows does so by many frames of zeros at once, which end it for SQLite: a sync
   has to write down no new length then, and takes half as long. */

#define OPEN_READWRITE 0x2
#define OPEN_WAL 0x80000
#define SAFE_BESIDE 0x1000 /* a write harms no bytes beside it: else frames are padded */
#define VERSION 3
#define JOURNAL_POINTER 28 /* the log of a connection */
#define HEAD 24
#define COMMITS_AT 4
/* The VFS of SQLite of Unix refuses a write of 128 KB. */
#define ROOM 0x1FFFF
/* As much as is there, up to this: more makes single commits slow. */
#define MOST_MORE 0x80000

typedef struct sqlite3 sqlite3;
typedef struct vfs vfs;
typedef struct file file;
typedef void (*Function)(void);

struct file {
    const struct methods *methods;
};

/* Version 1 of them, which is what a log needs. */
struct methods {
    int version;
    int (*close)(file *);
    int (*read)(file *, void *, int, int64_t);
    int (*write)(file *, const void *, int, int64_t);
    int (*truncate)(file *, int64_t);
    int (*sync)(file *, int);
    int (*size)(file *, int64_t *);
    int (*lock)(file *, int);
    int (*unlock)(file *, int);
    int (*is_reserved)(file *, int *);
    int (*control)(file *, int, void *);
    int (*sector_size)(file *);
    int (*characteristics)(file *);
};

struct vfs {
    int version;
    int file_size;
    int longest_path;
    vfs *next;
    const char *name;
    void *data;
    int (*open)(vfs *, const char *, file *, int, int *);
    Function others[15]; /* of version 3 */
};

/* Where SQLite's functions are among those that it hands over: positions are never changed. */
enum position { ROLLBACK_HOOK = 90, FILE_CONTROL = 127, VFS_REGISTER = 142 };

/* A log. The file of the system's VFS is behind it. */
typedef struct {
    file as_file;
    char *frames;      /* gathered; NULL: nothing is */
    int held;          /* bytes of them */
    int in_frame;      /* the page of the last head is to come */
    int is_last;       /* with it the transaction is committed */
    int64_t at;        /* where they begin in the file */
    int64_t end;       /* where the last write ended; -1: not known */
    int64_t length;    /* the file is at least as long, unless others cut it */
} Log;

static vfs *below;
static vfs ours;

static file *real(file *of) { return (file *)((Log *)of + 1); }

/* Write what is gathered. What fails is gone: SQLite undoes the transaction. */
static int flush(Log *log) {
    int size = log->held;
    log->held = 0;
    file *of = real(&log->as_file);
    return size > 0 ? of->methods->write(of, log->frames, size, log->at) : 0;
}

/* Put a part of a frame behind what is gathered; return what SQLite answers. */
static int gather(Log *log, const void *part, int size, int64_t at) {
    int code = log->held + size > ROOM ? flush(log) : 0;
    if (code == 0) {
        if (log->held == 0)
            log->at = at;
        memcpy(log->frames + log->held, part, (size_t)size);
        log->held += size;
        log->end = at + size;
    }
    return code;
}

static int write_log(file *of, const void *part, int size, int64_t at) {
    Log *log = (Log *)of;
    int follows = log->frames != NULL && at == log->end && size <= ROOM, code;
    if (follows && log->in_frame) {
        log->in_frame = 0;
        code = gather(log, part, size, at);
        return code == 0 && log->is_last ? flush(log) : code;
    }
    if (follows && size == HEAD) {
        static const char no[4];
        log->is_last = memcmp((const char *)part + COMMITS_AT, no, sizeof no) != 0;
        log->in_frame = 1;
        return gather(log, part, size, at);
    }
    /* The head of the log, a frame that is written again, or the first after those of others. */
    log->in_frame = 0;
    code = flush(log);
    if (code == 0)
        code = real(of)->methods->write(real(of), part, size, at);
    log->end = code == 0 ? at + size : -1;
    return code;
}

static int close_log(file *of) {
    free(((Log *)of)->frames); /* what is gathered was not committed */
    return real(of)->methods->close(real(of));
}

static int read_log(file *of, void *to, int size, int64_t at) {
    int code = flush((Log *)of);
    return code == 0 ? real(of)->methods->read(real(of), to, size, at) : code;
}

static int truncate_log(file *of, int64_t size) {
    int code = flush((Log *)of);
    ((Log *)of)->length = 0;
    return code == 0 ? real(of)->methods->truncate(real(of), size) : code;
}

/* Have a log that a transaction made longer be longer than that. */
static void lengthen(Log *log) {
    static const char zeros[0x10000];
    file *of = real(&log->as_file);
    if (log->end <= log->length || of->methods->size(of, &log->length) != 0 ||
        log->end < log->length)
        return;
    int64_t to = log->end + (log->end < MOST_MORE ? log->end : MOST_MORE);
    int code = 0;
    for (int64_t at = log->end; at < to && code == 0; at += (int64_t)sizeof zeros) {
        int64_t left = to - at;
        int size = left < (int64_t)sizeof zeros ? (int)left : (int)sizeof zeros;
        code = of->methods->write(of, zeros, size, at);
    }
    if (code != 0)
        of->methods->truncate(of, log->end); /* the disk is full, or nearly so */
    log->length = code == 0 ? to : INT64_MAX;
}

static int sync_log(file *of, int flags) {
    Log *log = (Log *)of;
    int code = flush(log);
    if (code == 0 && log->frames != NULL)
        lengthen(log);
    return code == 0 ? real(of)->methods->sync(real(of), flags) : code;
}

static int size_log(file *of, int64_t *size) {
    int code = flush((Log *)of);
    return code == 0 ? real(of)->methods->size(real(of), size) : code;
}

static int lock_log(file *of, int level) { return real(of)->methods->lock(real(of), level); }

static int unlock_log(file *of, int level) { return real(of)->methods->unlock(real(of), level); }

static int is_reserved_log(file *of, int *is) {
    return real(of)->methods->is_reserved(real(of), is);
}

static int control_log(file *of, int what, void *data) {
    return real(of)->methods->control(real(of), what, data);
}

static int sector_size_log(file *of) { return real(of)->methods->sector_size(real(of)); }

static int characteristics_log(file *of) { return real(of)->methods->characteristics(real(of)); }

static const struct methods methods = {
    1,        close_log,  read_log,        write_log,   truncate_log,    sync_log,           size_log,
    lock_log, unlock_log, is_reserved_log, control_log, sector_size_log, characteristics_log,
};

/* Open a file; all but a log as if this VFS were not there. */
static int open_file(vfs *self, const char *name, file *of, int flags, int *given) {
    (void)self;
    if (!(flags & OPEN_WAL))
        return below->open(below, name, of, flags, given);
    Log *log = (Log *)of;
    memset(log, 0, sizeof *log);
    log->end = -1;
    int code = below->open(below, name, real(of), flags, given);
    if (real(of)->methods == NULL)
        return code;
    of->methods = &methods;
    if (flags & OPEN_READWRITE && characteristics_log(of) & SAFE_BESIDE)
        log->frames = malloc(ROOM);
    return code;
}

/* Return the address of SQLite's table of functions, the first of two numbers, and the second. */
static const Function *table_of(PyObject *const *given, Py_ssize_t count, void **other) {
    if (count != 2 || !PyLong_Check(given[0]) || !PyLong_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "it takes two addresses");
        return NULL;
    }
    const Function *table = PyLong_AsVoidPtr(given[0]);
    *other = PyLong_AsVoidPtr(given[1]);
    if ((table == NULL || *other == NULL) && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "an address is not 0");
    return PyErr_Occurred() ? NULL : table;
}

PyDoc_STRVAR(gathering_doc, "gathering(table, below) -> int\n\n"
                            "See `alveus.store.sqlite.checksums.CompiledLog.gathering`.");

static PyObject *gathering(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    void *found;
    const Function *table = table_of(given, count, &found);
    if (table == NULL)
        return NULL;
    int (*add)(vfs *, int);
    memcpy(&add, table + VFS_REGISTER, sizeof(Function));
    if (below == NULL) {
        if (((vfs *)found)->version < VERSION)
            return PyLong_FromVoidPtr(found);
        below = found;
        ours = *below;
        ours.version = VERSION;
        ours.name = "alveus-log";
        ours.file_size = (int)sizeof(Log) + below->file_size;
        ours.open = open_file;
    }
    return PyLong_FromVoidPtr(add(&ours, 0) == 0 ? &ours : found);
}

static int (*control)(sqlite3 *, const char *, int, void *);

/* A transaction of a connection was undone. */
static void drop(void *db) {
    file *of = NULL;
    if (control(db, "main", JOURNAL_POINTER, &of) == 0 && of != NULL && of->methods == &methods) {
        Log *log = (Log *)of;
        log->held = log->in_frame = 0;
        log->end = -1;
    }
}

PyDoc_STRVAR(drop_undone_doc, "drop_undone(table, db)\n\n"
                              "See `alveus.store.sqlite.checksums.drop_undone`.");

/* The connection has no other rollback hook. */
static PyObject *drop_undone(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    (void)module;
    void *db;
    const Function *table = table_of(given, count, &db);
    if (table == NULL)
        return NULL;
    void *(*hook)(sqlite3 *, void (*)(void *), void *);
    memcpy(&hook, table + ROLLBACK_HOOK, sizeof(Function));
    memcpy(&control, table + FILE_CONTROL, sizeof(Function));
    hook(db, drop, db);
    return Py_NewRef(Py_None);
}
