/* What takes most of the time of an add, and of a search among very many: see native.py; how objects
   are made: lazy_dataclass.py; how a transaction is written: store/sqlite/checksums.py.

Each function does what a few lines of Python beside it do, to the last bit: tests/test_native.py
compares them. Where a text needs more than is done here, the answer is None, and Python does it.
Nothing is kept between calls but what was met in texts. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ON_STACK 1024

/* What works on many numbers is compiled twice, and the processor chooses: with AVX2 it works on twice
   as many at once. It comes to the same bits, as no sum is made in another order. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

#include "_c/met.h"
#include "_c/stems.h"
#include "_c/text.h"

#include "_c/codes.h"
#include "_c/pieces.h"
#include "_c/languages.h"
#include "_c/words.h"
#include "_c/json.h"
#include "_c/plain.h"
#include "_c/records.h"
#include "_c/log.h"

static PyMethodDef functions[] = {
    {"known_words", (PyCFunction)(void (*)(void))known_words, METH_FASTCALL, known_words_doc},
    {"analyse", (PyCFunction)(void (*)(void))analyse, METH_FASTCALL, analyse_doc},
    {"listed_words", listed_words, METH_O, listed_words_doc},
    {"guess_language", (PyCFunction)(void (*)(void))guess_language, METH_FASTCALL, guess_language_doc},
    {"vocabulary", (PyCFunction)(void (*)(void))vocabulary, METH_FASTCALL, vocabulary_doc},
    {"pieces", (PyCFunction)(void (*)(void))pieces, METH_FASTCALL, pieces_doc},
    {"add_pieces", (PyCFunction)(void (*)(void))add_pieces, METH_FASTCALL, add_pieces_doc},
    {"quantise", (PyCFunction)(void (*)(void))quantise, METH_FASTCALL, quantise_doc},
    {"differing", (PyCFunction)(void (*)(void))differing, METH_FASTCALL, differing_doc},
    {"compact", compact, METH_O, compact_doc},
    {"read_texts", (PyCFunction)(void (*)(void))read_texts, METH_FASTCALL, read_texts_doc},
    {"columns", columns, METH_VARARGS, columns_doc},
    {"holds_text", holds_text, METH_O, holds_text_doc},
    {"learn", learn, METH_VARARGS, learn_doc},
    {"gathering", (PyCFunction)(void (*)(void))gathering, METH_FASTCALL, gathering_doc},
    {"drop_undone", (PyCFunction)(void (*)(void))drop_undone, METH_FASTCALL, drop_undone_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin_records}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
