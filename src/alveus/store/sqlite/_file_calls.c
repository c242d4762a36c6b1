/* What each commit asks of the system about files: see file_calls.py.

   None of it waits for others, so Python's lock is kept: whoever lets go of it among many threads
   may have to wait for it five milliseconds. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#endif

/* Ask what tells a file; return 0, or -1 with `errno`.

   Not for its times: once asked for, Linux 6.13 and later writes down a new one at each write, and
   a sync may take half as long again. */
static int look(const char *path, long long *device, unsigned long long *number) {
#ifdef STATX_INO
    struct statx few;
    if (statx(AT_FDCWD, path, 0, STATX_INO, &few) == 0) {
        *device = (long long)makedev(few.stx_dev_major, few.stx_dev_minor);
        *number = few.stx_ino;
        return 0;
    }
    if (errno == ENOENT)
        return -1;
    /* It may be refused where `stat` is not, as by old sandboxes. */
#endif
    struct stat found;
    if (stat(path, &found) != 0)
        return -1;
    *device = (long long)found.st_dev;
    *number = found.st_ino;
    return 0;
}

PyDoc_STRVAR(identity_doc, "identity(path) -> (device, number) or None\n\n"
                           "See `alveus.store.sqlite.file_calls.identity`.");

static PyObject *identity(PyObject *module, PyObject *given) {
    (void)module;
    PyObject *path = PyOS_FSPath(given), *encoded = NULL, *answer = NULL;
    long long device;
    unsigned long long number;
    if (path == NULL || !PyUnicode_FSConverter(path, &encoded)) {
        Py_XDECREF(path);
        return NULL;
    }
    if (look(PyBytes_AsString(encoded), &device, &number) == 0)
        answer = Py_BuildValue("LK", device, number);
    else if (errno == ENOENT)
        answer = Py_NewRef(Py_None);
    else
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    Py_DECREF(encoded);
    Py_DECREF(path);
    return answer;
}

/* Take a file's lock; return 1, 0 if another process has it, -1 with an error. */
static int take(int descriptor) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        return 1;
    if (errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

PyDoc_STRVAR(take_at_once_doc, "take_at_once(turn, lock, name) -> bool\n\n"
                               "See `alveus.store.sqlite.file_calls.take_at_once`.");

static PyObject *take_at_once(PyObject *module, PyObject *given) {
    (void)module;
    int turn, lock;
    PyObject *name; /* "y#" means one thing to headers of 3.13, and another to Python 3.11 */
    if (!PyArg_ParseTuple(given, "iiO!", &turn, &lock, &PyBytes_Type, &name))
        return NULL;
    int taken = take(turn);
    if (taken > 0) {
        taken = take(lock);
        if (flock(turn, LOCK_UN) != 0 && taken >= 0) {
            PyErr_SetFromErrno(PyExc_OSError);
            return NULL;
        }
    }
    if (taken > 0 && pwrite(lock, PyBytes_AsString(name), (size_t)PyBytes_Size(name), 0) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return NULL;
    }
    return taken < 0 ? NULL : PyBool_FromLong(taken);
}

static PyMethodDef functions[] = {
    {"identity", identity, METH_O, identity_doc},
    {"take_at_once", take_at_once, METH_VARARGS, take_at_once_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_file_calls", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__file_calls(void);

PyMODINIT_FUNC PyInit__file_calls(void) { return PyModuleDef_Init(&definition); }
