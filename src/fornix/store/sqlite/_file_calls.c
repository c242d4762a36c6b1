/* What each commit asks of the system about files: see file_calls.py.

   None of it waits for others, so Python's lock is kept: whoever lets go of it among many threads
   may have to wait for it five milliseconds. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

PyDoc_STRVAR(identity_doc, "identity(path) -> (device, number) or None\n\n"
                           "See `fornix.store.sqlite.file_calls.identity`.");

static PyObject *identity(PyObject *module, PyObject *given) {
    (void)module;
    PyObject *path = PyOS_FSPath(given), *encoded = NULL, *answer = NULL;
    struct stat found;
    if (path == NULL || !PyUnicode_FSConverter(path, &encoded)) {
        Py_XDECREF(path);
        return NULL;
    }
    if (stat(PyBytes_AsString(encoded), &found) == 0)
        answer = Py_BuildValue("LK", (long long)found.st_dev, (unsigned long long)found.st_ino);
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
                               "See `fornix.store.sqlite.file_calls.take_at_once`.");

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
