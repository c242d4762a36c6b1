/* Makes objects of dataclasses with slots: see lazy_dataclass.py.

   A class has a slot for the function by which Python makes its objects (PEP 590). A class that is
   written in Python leaves it empty. The function here puts the arguments into the slots of the
   fields, as the `__init__` that is compiled from the fields. Calls that do not fit, such as with
   an unknown or a missing name, are left to that `__init__`, which raises the error of Python.
   Subclasses of such a class have the slot empty again. */

#define OF_TEXT 4 /* kinds of tuples that hold text alone */
#define FARTHEST 512 /* bytes of a class of Python that are searched */
#define MOST 32 /* fields of a class, whose objects else are made by its `__init__` */

typedef PyObject *(*Constructor)(PyObject *, PyObject *const *, size_t, PyObject *);

/* In the limited interface since Python 3.12, and in 3.11 the same. */
#if Py_LIMITED_API < 0x030C0000
extern Constructor PyVectorcall_Function(PyObject *);
#endif

typedef struct {
    PyObject *name;  /* interned */
    PyObject *given; /* its default, or what makes it; NULL: it has to be passed */
    Py_ssize_t offset; /* of its slot, in bytes */
    int is_made;
} Field;

typedef struct {
    PyObject *made, *capsule; /* the class, and what it keeps of this */
    PyObject *kept; /* the names and defaults */
    Py_ssize_t count, by_position;
    int then_checks, may_be_untracked, acyclic;
    Field fields[];
} Fields;

static ternaryfunc call_of_a_class;
static Py_ssize_t constructor_offset; /* in a class, in bytes */
static PyObject *post_init;
static PyTypeObject *of_text[OF_TEXT];
static int of_text_count;

static inline PyObject **slot_of(PyObject *one, Py_ssize_t offset) {
    return (PyObject **)(void *)((char *)one + offset);
}

static inline Constructor *constructor_of(PyObject *made) {
    return (Constructor *)(void *)((char *)made + constructor_offset);
}

/* --- what is known of classes: a table by their addresses, half of it empty --- */

static struct {
    Fields **rows;
    size_t size, count;
} classes;

static inline size_t row_of_class(const PyObject *made) {
    size_t at = ((uintptr_t)made >> 4) * 0x9E3779B97F4A7C15u >> 20 & (classes.size - 1);
    while (classes.rows[at] != NULL && classes.rows[at]->made != made) at = (at + 1) & (classes.size - 1);
    return at;
}

static int has_room(void) {
    size_t size = classes.size == 0 ? 1024 : 2 * classes.size;
    if (2 * (classes.count + 1) <= classes.size) return 1;
    Fields **before = classes.rows, **rows = PyMem_Calloc(size, sizeof(Fields *));
    if (rows == NULL) return 0;
    size_t count = classes.size;
    classes.rows = rows;
    classes.size = size;
    for (size_t i = 0; i < count; i++)
        if (before[i] != NULL) classes.rows[row_of_class(before[i]->made)] = before[i];
    PyMem_Free(before);
    return 1;
}

static void take_out(const Fields *all) {
    size_t at = row_of_class(all->made);
    classes.rows[at] = NULL;
    classes.count--;
    for (at = (at + 1) & (classes.size - 1); classes.rows[at] != NULL; at = (at + 1) & (classes.size - 1)) {
        Fields *moved = classes.rows[at]; /* it may have stood here for what went */
        classes.rows[at] = NULL;
        classes.rows[row_of_class(moved->made)] = moved;
    }
}

/* Whether another object may be reached by way of *value*, as by no text, number or None; now, or
   once a dict that is empty is filled. */
static inline int leads_on(PyObject *value, int later) {
    if (value == Py_None) return 0;
    for (int i = 0; i < of_text_count; i++)
        if (Py_TYPE(value) == of_text[i]) return 0;
    return PyObject_GC_IsTracked(value) || (later && PyDict_CheckExact(value));
}

/* Make an object as any class does: by `__new__` and `__init__`. */
static PyObject *as_any_class(PyObject *made, PyObject *const *values, Py_ssize_t placed,
                              PyObject *names) {
    PyObject *one = NULL, *by_name = NULL, *by_position = PyTuple_New(placed);
    if (by_position == NULL) return NULL;
    for (Py_ssize_t i = 0; i < placed; i++) {
        Py_INCREF(values[i]);
        PyTuple_SetItem(by_position, i, values[i]);
    }
    if (names != NULL) {
        by_name = PyDict_New();
        if (by_name == NULL) goto end;
        Py_ssize_t named = PyTuple_Size(names);
        for (Py_ssize_t i = 0; i < named; i++)
            if (PyDict_SetItem(by_name, PyTuple_GetItem(names, i), values[placed + i]) < 0)
                goto end;
    }
    one = call_of_a_class(made, by_position, by_name);
end:
    Py_DECREF(by_position);
    Py_XDECREF(by_name);
    return one;
}

/* Fill *values* with those that were passed; 0: they do not fit. */
static int take_arguments(const Fields *all, PyObject **values, PyObject *const *passed, Py_ssize_t placed,
                PyObject *names) {
    if (placed > all->by_position) return 0;
    for (Py_ssize_t i = 0; i < placed; i++) values[i] = passed[i];
    for (Py_ssize_t i = placed; i < all->count; i++) values[i] = NULL;
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names), next = placed;
    for (Py_ssize_t k = 0; k < named; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        Py_ssize_t i = next;
        while (i < all->count && all->fields[i].name != name) i++;
        if (i == all->count)
            for (i = placed; i < next && all->fields[i].name != name; i++);
        if (i == all->count || all->fields[i].name != name) return 0;
        values[i] = passed[placed + k];
        next = i + 1;
    }
    for (Py_ssize_t i = placed; i < all->count; i++)
        if (values[i] == NULL && all->fields[i].given == NULL) return 0;
    return 1;
}

/* Return what *make* makes; most are empty containers, made in half the time by their names. */
static PyObject *made_by(PyObject *make) {
    if (make == (PyObject *)&PyList_Type) return PyList_New(0);
    if (make == (PyObject *)&PyDict_Type) return PyDict_New();
    if (make == (PyObject *)&PySet_Type) return PySet_New(NULL);
    return PyObject_CallNoArgs(make);
}

static PyObject *construct(PyObject *made, PyObject *const *passed, size_t flagged,
                           PyObject *names) {
    Py_ssize_t placed = (Py_ssize_t)(flagged & ~((size_t)1 << (8 * sizeof(size_t) - 1)));
    const Fields *all = classes.rows[row_of_class(made)];
    PyObject *values[MOST];
    if (all == NULL || !take_arguments(all, values, passed, placed, names))
        return as_any_class(made, passed, placed, names);

    PyObject *one = PyType_GenericAlloc((PyTypeObject *)(void *)made, 0), *capsule = all->capsule;
    if (one == NULL) return NULL;
    Py_INCREF(capsule); /* what is called below may do anything */
    int tracked = !all->may_be_untracked;
    for (Py_ssize_t i = 0; i < all->count; i++) {
        const Field *field = &all->fields[i];
        PyObject *value = values[i];
        if (value == NULL && field->is_made) {
            value = made_by(field->given);
            if (value == NULL) goto failed;
        } else {
            if (value == NULL) value = field->given;
            Py_INCREF(value);
        }
        *slot_of(one, field->offset) = value;
        tracked = tracked || leads_on(value, !all->acyclic);
    }
    if (!tracked) PyObject_GC_UnTrack(one);
    if (all->then_checks) {
        PyObject *none = PyObject_CallMethodObjArgs(one, post_init, NULL);
        if (none == NULL) goto failed;
        Py_DECREF(none);
    }
    Py_DECREF(capsule);
    return one;
failed:
    Py_DECREF(capsule);
    Py_DECREF(one);
    return NULL;
}

/* Find the slot of a field, by putting something in it; 0: there is none in the object. */
static Py_ssize_t offset_of_slot(PyObject *one, PyObject *descriptor, Py_ssize_t size) {
    Py_ssize_t offset = 0;
    PyObject *put = PyList_New(0), *none;
    if (put == NULL) return 0;
    none = PyObject_CallMethod(descriptor, "__set__", "OO", one, put);
    for (Py_ssize_t at = (Py_ssize_t)sizeof(PyObject);
         none != NULL && at + (Py_ssize_t)sizeof(PyObject *) <= size;
         at += (Py_ssize_t)sizeof(PyObject *))
        if (*slot_of(one, at) == put) offset = at;
    Py_XDECREF(none);
    Py_DECREF(put);
    return offset;
}

static int read_field(Field *field, PyObject *made, PyObject *one, Py_ssize_t size,
                      PyObject *described) {
    PyObject *name, *given;
    if (!PyArg_ParseTuple(described, "UO|p", &name, &given, &field->is_made)) return 0;
    field->name = name;
    field->given = given == Py_Ellipsis ? NULL : given;
    PyObject *descriptor = PyObject_GetAttr(made, name);
    if (descriptor != NULL) field->offset = offset_of_slot(one, descriptor, size);
    Py_XDECREF(descriptor);
    PyErr_Clear();
    return field->offset != 0;
}

static void forget(PyObject *capsule) {
    Fields *all = PyCapsule_GetPointer(capsule, NULL);
    if (all == NULL) return;
    take_out(all); /* its class may still be called, as it goes */
    Py_DECREF(all->kept);
    PyMem_Free(all);
}

PyDoc_STRVAR(learn_doc,
             "learn(made, fields, by_position, then_checks, frozen, acyclic, /)\n--\n\n"
             "Have objects of a class made here from now on; return what it has to keep for that.\n"
             "\n"
             "*fields* has a tuple per field: its interned name, its default or `...`, and whether\n"
             "that is a function that makes it. None: the class is not of a kind for that.");

static PyObject *learn(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *made, *described, *basic, *one = NULL, *capsule = NULL;
    Py_ssize_t by_position;
    int then_checks, frozen, acyclic;
    if (!PyArg_ParseTuple(arguments, "OO!nppp", &made, &PyTuple_Type, &described, &by_position,
                          &then_checks, &frozen, &acyclic))
        return NULL;
    Py_ssize_t count = PyTuple_Size(described);
    if (constructor_offset == 0 || Py_TYPE(made) != &PyType_Type || count > MOST ||
        PyVectorcall_Function(made) != NULL)
        return Py_NewRef(Py_None);
    basic = PyObject_GetAttrString(made, "__basicsize__");
    if (basic == NULL) return NULL;
    Py_ssize_t size = PyLong_AsSsize_t(basic);
    Py_DECREF(basic);
    Fields *all = PyMem_Malloc(sizeof(Fields) + (size_t)count * sizeof(Field));
    if (all == NULL) return PyErr_NoMemory();
    *all = (Fields){.made = made, .kept = described, .count = count, .by_position = by_position,
                    .then_checks = then_checks, .acyclic = acyclic,
                    .may_be_untracked = acyclic || (frozen && !then_checks)};
    one = PyType_GenericAlloc((PyTypeObject *)(void *)made, 0);
    for (Py_ssize_t i = 0; one != NULL && i < count; i++) {
        all->fields[i] = (Field){0};
        if (!read_field(&all->fields[i], made, one, size, PyTuple_GetItem(described, i))) {
            Py_CLEAR(one);
        }
    }
    if (one != NULL && has_room()) capsule = PyCapsule_New(all, NULL, forget);
    Py_XDECREF(one);
    if (capsule == NULL) {
        PyMem_Free(all);
        if (PyErr_Occurred()) return NULL;
        return Py_NewRef(Py_None);
    }
    Py_INCREF(described);
    all->capsule = capsule;
    classes.rows[row_of_class(made)] = all;
    classes.count++;
    *constructor_of(made) = construct;
    return capsule;
}

PyDoc_STRVAR(holds_text_doc, "holds_text(kind, /)\n--\n\n"
                             "Take a kind of tuples for one that never holds anything but text.");

static PyObject *holds_text(PyObject *module, PyObject *kind) {
    (void)module;
    if (PyType_Check(kind) && of_text_count < OF_TEXT) {
        Py_INCREF(kind);
        of_text[of_text_count++] = (PyTypeObject *)(void *)kind;
    }
    return Py_NewRef(Py_None);
}

/* Put what is in the fields that are open to the lists of columns; 0: one is not like that one. */
static int take_row(const Fields *all, PyObject *one, PyObject *like, PyObject *columns) {
    Py_ssize_t column = 0;
    if (Py_TYPE(one) != Py_TYPE(like)) return 0;
    for (Py_ssize_t i = 0; i < all->count; i++) {
        PyObject *value = *slot_of(one, all->fields[i].offset);
        PyObject *expected = *slot_of(like, all->fields[i].offset);
        if (value == NULL || (expected != Py_Ellipsis && value != expected)) return 0;
        if (expected == Py_Ellipsis &&
            PyList_Append(PyTuple_GetItem(columns, column++), value) < 0)
            return -1;
    }
    return 1;
}

PyDoc_STRVAR(columns_doc, "columns(objects, like, /)\n--\n\n"
                          "Return a list for each field in which *like* has an Ellipsis.\n\n"
                          "None: one of the objects has something else in another field.");

static PyObject *columns(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *objects, *like, *answer;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyList_Type, &objects, &like)) return NULL;
    const Fields *all = classes.size == 0 ? NULL : classes.rows[row_of_class((PyObject *)Py_TYPE(like))];
    if (all == NULL) return Py_NewRef(Py_None);
    Py_ssize_t open = 0;
    for (Py_ssize_t i = 0; i < all->count; i++)
        open += *slot_of(like, all->fields[i].offset) == Py_Ellipsis;
    answer = PyTuple_New(open);
    for (Py_ssize_t i = 0; answer != NULL && i < open; i++) {
        PyObject *column = PyList_New(0);
        if (column == NULL || PyTuple_SetItem(answer, i, column) < 0) Py_CLEAR(answer);
    }
    int fits = answer != NULL;
    for (Py_ssize_t at = 0; fits > 0 && at < PyList_Size(objects); at++) {
        PyObject *one = Py_NewRef(PyList_GetItem(objects, at));
        fits = take_row(all, one, like, answer);
        Py_DECREF(one);
    }
    if (fits > 0) return answer;
    Py_XDECREF(answer);
    if (PyErr_Occurred()) return NULL;
    return Py_NewRef(Py_None);
}

/* Return where classes have the function that makes their objects; 0: they have it elsewhere.

   The limited interface tells what the function of a class is, and not where. So it is looked for
   in classes of Python itself that have one, and has to be in the same offset in all of them. */
static Py_ssize_t found_offset(void) {
    PyTypeObject *kinds[] = {&PyTuple_Type, &PyList_Type,  &PyDict_Type,
                             &PySet_Type,   &PyFloat_Type, &PyRange_Type};
    Py_ssize_t offset = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        const char *kind = (const char *)kinds[i];
        Constructor sought = PyVectorcall_Function((PyObject *)(void *)kinds[i]);
        Py_ssize_t at = (Py_ssize_t)sizeof(PyObject);
        if (sought == NULL) return 0;
        while (at < FARTHEST && memcmp(kind + at, &sought, sizeof(sought)) != 0)
            at += (Py_ssize_t)sizeof(sought);
        if (at >= FARTHEST || (offset != 0 && at != offset)) return 0;
        offset = at;
    }
    return offset;
}

static int begin_records(PyObject *module) {
    (void)module;
    if (post_init == NULL)
        post_init = PyUnicode_InternFromString("__post_init__");
    call_of_a_class = (ternaryfunc)PyType_GetSlot(&PyType_Type, Py_tp_call);
    constructor_offset = found_offset();
    return post_init == NULL ? -1 : 0;
}
