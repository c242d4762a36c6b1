"""What compiled code writes is what apsw writes, row by row, and so is what is refused."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus.store.packed_values import packed
from alveus.store.sql.connection import ColumnRows
from alveus.store.sqlite import statements
from alveus.store.sqlite.connection import SqliteConnection
from compiling import compiled_of, hatch_build

SCHEMA = "CREATE TABLE pair (a, b UNIQUE)"
INSERT = "INSERT INTO pair VALUES (?, ?)"
MOVE = "UPDATE pair SET a = ?2 WHERE b = ?1"
ALL = "SELECT rowid, a, typeof(a), b, typeof(b) FROM pair ORDER BY rowid"


@pytest.fixture(scope="module", params=["compiled", "by apsw"])
def writer(request, tmp_path_factory):
    """How a connection writes; by apsw alone, where there is nothing that compiles."""
    if request.param == "by apsw":
        return None
    return compiled_of(hatch_build.SOURCES[1], tmp_path_factory.mktemp("statements"))


@pytest.fixture(autouse=True)
def chosen(writer, monkeypatch):
    """Have connections of a test write that way."""
    monkeypatch.setattr(statements, "COMPILED", writer)


def opened() -> SqliteConnection:
    db = SqliteConnection(":memory:")
    db.execute(SCHEMA)
    return db


class Name(str):
    """A str of a kind of its own."""

    __slots__ = ()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(),
    st.text().map(Name),
    st.text().map(packed),
    st.binary(),
    st.binary().map(bytearray),
    st.sampled_from(["a\0b", "\ud800", "😀" * 300, b"\0" * 5000, object(), (1,), apsw.zeroblob(3)]),
)
ROWS = st.lists(
    st.one_of(
        st.tuples(VALUES, VALUES),
        st.tuples(VALUES, VALUES).map(list),
        st.tuples(VALUES),
        st.tuples(VALUES, VALUES, VALUES),
    ),
    max_size=5,
)
STATEMENTS = (INSERT, INSERT, MOVE, f"{MOVE};", f"{INSERT};{MOVE}", "INSERT INTO none VALUES (?)")


@st.composite
def columns(draw: st.DrawFn) -> ColumnRows:
    """Two columns, one of which at least is a list."""
    count = draw(st.integers(0, 5))
    lists = st.lists(VALUES, min_size=count, max_size=count)
    pair = [draw(lists), draw(st.one_of(VALUES, lists))]
    return ColumnRows(tuple(draw(st.permutations(pair))), count=count)


WRITES = st.lists(st.tuples(st.sampled_from(STATEMENTS), st.one_of(ROWS, columns())), max_size=4)


@given(WRITES)
def test_it_writes_and_refuses_what_apsw_does(writes):
    """Whatever is bound: each statement for each of its rows, up to the first one refused."""
    db, plain = opened(), opened()
    refused = error_of(lambda: db.write(*writes))
    expected = error_of(lambda: [plain.executemany(sql, rows) for sql, rows in writes])
    assert repr(db.execute(ALL).fetchall()) == repr(plain.execute(ALL).fetchall())
    assert type(refused) is type(expected)
    if isinstance(expected, apsw.Error):
        assert getattr(refused, "extendedresult", 0) == getattr(expected, "extendedresult", 0)
        assert str(refused) == str(expected)
    db.close()
    plain.close()


def error_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except (apsw.Error, TypeError, ValueError, OverflowError) as error:
        return error
    return None


@pytest.mark.parametrize(
    "given",
    [
        SimpleNamespace(columns=([1, 2], [3])),
        SimpleNamespace(columns=(1, 2)),
        SimpleNamespace(columns=([1], 2, 3)),
        SimpleNamespace(columns=[[1], 2]),
        SimpleNamespace(columns=None),
        7,
    ],
)
def test_what_are_no_columns_is_left_to_apsw(writer, given):
    """Nothing of it is written; apsw refuses it as what it is."""
    if writer is None:
        return
    db = opened()
    of = statements.statements_of(db)
    assert of is not None
    assert of.run([(INSERT, [(1, 2)]), (INSERT, given)]) is False
    assert db.execute(ALL).fetchall() == []
    of.close()
    db.close()


def test_a_statement_goes_on_after_a_row_was_refused():
    """It is prepared once, and as good as new."""
    db = opened()
    db.write((INSERT, [(1, "x"), (2, "y")]))
    for _ in range(3):
        with pytest.raises(db.taken, match=r"UNIQUE constraint failed: pair\.b") as error:
            db.write((INSERT, [(3, "z"), (4, "x"), (5, "w")]), (MOVE, [("y", 9)]))
        assert getattr(error.value, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_UNIQUE
        db.write(("DELETE FROM pair WHERE b = ?", [("z",)]))
    assert db.execute(ALL).fetchall()[-1][1] == 2
    db.execute("ALTER TABLE pair RENAME TO couple")
    db.execute(SCHEMA)  # another table than the statement was prepared for
    db.write((INSERT, [(1, "x")]))
    assert db.execute("SELECT count(*) FROM pair").get == 1


def test_what_a_function_of_python_raises_is_raised():
    """SQLite calls it in the midst of a statement."""
    db = opened()

    def half(*values: Any) -> int:
        if values[0] % 2:
            raise ArithmeticError(values[0])
        return values[0] // 2

    db.create_scalar_function("half", half, 1)
    insert = "INSERT INTO pair VALUES (half(?), ?)"
    with pytest.raises(ArithmeticError, match="7"):
        db.write((insert, [(6, "x"), (7, "y"), (8, "z")]))
    db.write((insert, [(8, "z")]))
    assert [row[1] for row in db.execute(ALL)] == [3, 4]


def test_a_message_of_any_length_is_told():
    """It comes from SQLite, and may be cut within a letter."""
    db = opened()
    db.write(("CREATE TABLE " + "漢" * 400 + " (a UNIQUE)", [()]))
    with pytest.raises(db.taken, match=r"UNIQUE constraint failed: 漢{100}"):
        db.write(("INSERT INTO " + "漢" * 400 + " VALUES (?)", [(1,), (1,)]))


def test_a_connection_that_is_closed_writes_nothing():
    """It says so, and is closed though it had prepared something; twice is fine."""
    db = opened()
    db.write((INSERT, [(1, "x")]))
    db.close()
    db.close()
    with pytest.raises(apsw.ConnectionClosedError):
        db.write((INSERT, [(2, "y")]))


def test_a_connection_may_be_collected(monkeypatch):
    """What it prepared goes before it, so that SQLite does not refuse to close it."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    db = opened()
    db.write((INSERT, [(1, "x")]))
    del db
    gc.collect()
    assert not unraisable


@pytest.mark.parametrize("by", ["write", "execute"])
def test_another_thread_is_refused_while_one_uses_the_connection(writer, by):
    """Who waits holds Python's lock, for which the other may wait; locks are for whoever writes."""
    if writer is None:
        return
    db, entered, leave = opened(), threading.Event(), threading.Event()

    def stay(*values: Any) -> int:
        entered.set()
        leave.wait(60)
        return values[0]

    db.create_scalar_function("stay", stay, 1)
    db.write((INSERT, [(1, "x")]))
    insert = "INSERT INTO pair VALUES (stay(?), ?)"
    if by == "write":
        thread = threading.Thread(target=db.write, args=[(insert, [(2, "y")])])
    else:
        thread = threading.Thread(target=db.execute, args=(insert, (2, "y")))
    thread.start()
    try:
        assert entered.wait(60)
        with pytest.raises(RuntimeError, match="the connection is being used"):
            db.write((INSERT, [(3, "z")]))
        with pytest.raises(RuntimeError, match="the connection is being used"):
            db.close()
    finally:
        leave.set()
        thread.join(60)
    assert [row[1] for row in db.execute(ALL)] == [1, 2]


def test_wrong_calls_are_python_errors(writer):
    """What calls it is ours, and still no argument brings a process down."""
    if writer is None:
        return
    db = opened()
    db.write((INSERT, [(1, "x")]))
    assert db._statements is not None
    prepared = db._statements._prepared
    for function, arguments, error in (
        (writer.prepare_with, (), TypeError),
        (writer.prepare_with, (1,), TypeError),
        (writer.prepare_with, ("x", 1), TypeError),
        (writer.prepare_with, (0, 1), TypeError),
        (writer.prepare_with, (1, 0), TypeError),
        (writer.run, (prepared,), TypeError),
        (writer.run, (1, []), ValueError),
        (writer.run, (prepared, 1), TypeError),
        (writer.finish, (), TypeError),
        (writer.finish, ("x",), ValueError),
    ):
        with pytest.raises(error):
            function(*arguments)
    for writes in ([1], [(INSERT,)], [(1, [])], [(INSERT, 1)], [(INSERT, [1])], [("", [()])]):
        assert writer.run(prepared, writes) is False
    db.close()
    for function, arguments in ((writer.run, (prepared, [])), (writer.finish, (prepared,))):
        with pytest.raises(RuntimeError, match="finished"):
            function(*arguments)


def test_a_connection_loads_no_extension(tmp_path):
    """SQLite would make its symbols global in the process; nor may SQL have it load one."""
    db = opened()
    db.write((INSERT, [(1, "x")]))
    with pytest.raises(apsw.SQLError, match="not authorized"):
        db.execute("SELECT load_extension(?)", (str(tmp_path / "any"),))
    with pytest.raises(apsw.ExtensionLoadingError, match="not authorized"):
        db.load_extension(str(tmp_path / "any"))


def test_apsw_writes_where_sqlite_gives_no_functions(monkeypatch):
    """As a build of apsw that cannot load extensions."""
    monkeypatch.setattr(statements, "function_table", lambda: None)
    db = opened()
    db.write((INSERT, [(1, "x")]))
    db.write((INSERT, [(2, "y")]))
    assert db._statements is None
    assert [row[1] for row in db.execute(ALL)] == [1, 2]
    db.close()
