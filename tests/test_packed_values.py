"""Values that contain bytes: what a file takes for them, and that they come back as they were."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alveus import Memory
from alveus.errors import StoreDamaged
from alveus.store import Batch, Begin, DurableCall, Scope, StatusChange, Step, Store
from alveus.store.packed_values import MIN_PACKED_BYTES, bytes_alone, packed, packed_bytes, restored
from alveus.store.runs import QueuedInput
from alveus.store.sqlite import SqliteStore, checking
from alveus.store.sqlite.connection import connect
from alveus.transfer import Load, Source, export_lines, history_lines, layout_of
from alveus.values import wire
from alveus.values.storable import Value
from file_scan import scan
from scale import COUNTS

MB = 1 << 20

PACKED = b'\1\0\0\0\x0f{"$bytes":"99"}' + b"x" * 99
"""99 bytes as they are kept: what is in files stays readable."""

LAST = 1 << 62
"""A time after all commits."""

ANY = {
    "journal": ["result"],
    "node": ["value"],
    "item": ["value"],
    "run": ["event"],
    "output": ["event"],
    "step": ["sent", "sensory"],
    "durable_call": ["outcome"],
}
"""The columns that hold values which may be packed."""

BYTES = st.one_of(
    st.binary(max_size=70),
    st.builds(
        lambda size, seed: Random(seed).randbytes(size), st.integers(60, 5_000), st.integers()
    ),
)
NAMES = st.one_of(st.text(max_size=5), st.sampled_from(["$bytes", "$$bytes", '{"$bytes":"']))


def values(*, nan: bool) -> st.SearchStrategy[Any]:
    """Make up values; only exact memory takes NaN."""
    return st.recursive(
        st.one_of(BYTES, NAMES, st.none(), st.floats(allow_nan=nan), st.integers()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)
        ),
        max_leaves=8,
    )


def filed(path: Path) -> int:
    """Return the bytes of a closed file."""
    assert not Path(f"{path}-wal").exists()
    return path.stat().st_size


def item_value(memory: Memory, name: str, *, as_of: int | None = None) -> Any:
    """Return the value of an item of key ada."""
    item = memory.key("ada").set("default").get(name, as_of=as_of)
    assert item is not None
    return item.value


def text_of(value: Any) -> str:
    """Return what tells a value from all others."""
    return wire.encode(value)


# --- the form -----------------------------------------------------------------------------------


@settings(max_examples=COUNTS.fuzz_examples * 2)
@given(values(nan=True))
def test_wire_text_comes_back(value: Any) -> None:
    """The same text, in as many bytes as it contains and those of the rest."""
    text = wire.encode(value)
    kept = packed(text)
    assert restored(kept) == text
    assert packed(text) == kept
    assert len(kept) <= len(text.encode())


@given(
    st.lists(
        st.one_of(
            st.sampled_from(['{"$bytes":"', '"', '"}', "QUJD" * 40, "QQ=", "123", "é"]), st.text()
        )
    ).map("".join)
)
@example('{"$bytes":"' + "QUJD" * 40)
@example('{"$bytes":"' + "QUJD" * 40 + 'QR=="}')
@example('{"$bytes":"' + "QUJD" * 40 + '\n"}')
@example('{"$bytes":"160"}' + '{"$bytes":"' + "QUJD" * 40 + '"}')
def test_any_text_comes_back(text: str) -> None:
    """Also one that `wire.encode` never makes."""
    assert restored(packed(text)) == text


def test_few_bytes_stay_text() -> None:
    """So does a value without any; from 64 bytes on it is packed."""
    assert packed(None) is None
    assert packed('"x"') == '"x"'
    assert isinstance(packed(wire.encode([b"x" * 63])), str)
    assert type(packed(wire.encode([b"x" * 60, b"y" * 4]))) is bytes
    assert packed(wire.encode(b"x" * 99)) == PACKED


@given(st.binary(min_size=MIN_PACKED_BYTES, max_size=300))
def test_bytes_alone_are_packed_and_read_without_their_text(raw: bytes) -> None:
    """Into the same form; any other form is not taken for one of bytes alone."""
    form = packed_bytes(raw)
    assert form == packed(wire.encode(raw))
    assert bytes_alone(form) == raw
    for other in (form[:-1], form + b"x", packed(wire.encode([raw])), packed('"x"'), None):
        assert bytes_alone(other) is None


# --- what a file takes --------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["item", "tree", "input"])
def test_a_file_grows_by_the_bytes_it_holds(tmp_path: Path, where: str) -> None:
    """A value of 1 MB takes less than 1.1 MB, wherever it is kept."""
    path = tmp_path / "app.db"
    value = {"picture": Random(1).randbytes(MB), "name": "lake"}
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("first")
        memory.key("ada").short_term.set("a", 1)
    before = filed(path)
    with Memory.open(path, embedder="words") as memory:
        if where == "item":
            memory.key("ada").add(value, text="a lake", id="i")
        elif where == "tree":
            memory.key("ada").short_term.set("picture", value)
        else:
            memory.store.accept(
                "agent", [QueuedInput(Scope("default", "ada"), wire.encode(value), 1)]
            )
    assert filed(path) - before < 1.1 * MB
    with Memory.open(path, embedder="words") as memory:
        if where == "item":
            assert item_value(memory, "i") == value
        elif where == "tree":
            assert memory.key("ada").short_term.get("picture") == value
        else:
            (run,) = memory.store.queued_runs("agent", Scope("default", "ada"), limit=9)
            assert wire.decode(run.event) == value


# --- everywhere in a file -----------------------------------------------------------------------


@contextmanager
def folder() -> Iterator[Path]:
    """Give a folder that goes with the block: hypothesis calls a test many times."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def said(memory: Memory) -> list[str]:
    """Return all values of key ada, now and in the past, by their wire form."""
    ada = memory.key("ada")
    found = [text_of(item_value(memory, "i")), text_of(ada.short_term.get("a"))]
    found += [text_of(version.value) for version in ada.set("default").history("i")]
    return found


@settings(max_examples=max(5, COUNTS.fuzz_examples // 8), deadline=None)
@given(values(nan=False), values(nan=False))
def test_values_make_every_trip(one: Any, two: Any) -> None:
    """Item, version, tree, the past, export, history export and backup give them back."""
    with folder() as place, Memory.open(place / "a.db", embedder="words") as memory:
        ada = memory.key("ada")
        ada.add(one, text="x", id="i")
        ada.short_term.set("a", one)
        first = memory.store.commit_at(LAST)
        ada.set("default").update("i", two, text="x")
        ada.short_term.set("a", two)
        expected = [text_of(v) for v in (two, two, one, two)]
        assert said(memory) == expected
        assert text_of(ada.short_term.at(first).get("a")) == text_of(one)
        assert text_of(item_value(memory, "i", as_of=first)) == text_of(one)
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems(deep=True) == []
        memory.backup(place / "backup.db")
        with Memory.open(place / "backup.db", embedder="words") as copy:
            assert said(copy) == expected
        for lines in (export_lines, history_lines):
            told = list(lines(memory))
            source = Source("told.jsonl", io.BytesIO("\n".join(told).encode()))
            with Memory.open(place / f"{lines.__name__}.db", embedder="words") as copy:
                Load(copy).run(source, layout_of(source))
                assert list(lines(copy)) == told


RESULT: Value = {"a": b"\xff\0" * 200}


def ran(store: Store, text: str) -> tuple[int, int]:
    """Have a run of key ada leave *text* in all places; return it, and the commit of its step."""
    ada = Scope("default", "ada")
    run = store.accept("agent", [QueuedInput(ada, text, 1)])[0].run
    lease = store.acquire_lease(ada, "worker")
    assert run is not None
    assert lease is not None
    step = Step(run, 0, "act", text, text, outputs=[text], begin=Begin(1, ("act",)))
    call = DurableCall(run, 1, 0, "ask", "digest", "returned", text)
    park = StatusChange(run, "waiting", "parked", "{}")
    done, *_ = [
        store.commit(Batch(scope=ada, time=1, epoch=lease.epoch, run=told, result=RESULT))
        for told in (step, call, park)
    ]
    again = store.commit(Batch(scope=ada, time=2, epoch=lease.epoch, run=step))
    assert (again.number, again.adopted, again.result) == (done.number, True, RESULT)
    return run, done.number


def test_runs_and_answers_give_back_bytes(tmp_path: Path) -> None:
    """Events, what steps leave, durable results and answers to a repetition; each is a blob."""
    path, text = tmp_path / "app.db", wire.encode(RESULT)
    with Memory.open(path, embedder="words") as memory:
        store = memory.store
        number, commit = ran(store, text)
        effects = store.effects(commit)
        assert effects is not None
        assert effects.commit.result == RESULT
        (step,) = store.steps(number)
        assert (step.sent, step.sensory) == (text, text)
        told = (*store.outputs("agent", "default"), *store.run_outputs(number))
        assert [output.event for output in told] == [text, text]
        assert [call.outcome for call in store.durable_calls(number, 1)] == [text]
        heir = store.retry_run(number, last=True, time=4)
        runs = (store.run(number), store.run(heir))
        assert [run.event for run in runs if run is not None] == [text, text]
        with closing(connect(path)) as db:
            for table, column in ((t, c) for t, cs in ANY.items() for c in cs):
                kinds = f"SELECT DISTINCT typeof({column}) FROM {table} WHERE {column} NOT NULL"  # noqa: S608 - ours
                assert {*db.execute(kinds)} <= {("blob",)}, (table, column)


# --- damage, and what is forgotten ----------------------------------------------------------------


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\1",
        b"\2" + PACKED[1:],
        PACKED[:-1],
        PACKED + b"x",
        PACKED.replace(b"99", b"98"),
        PACKED.replace(b'"99', b"\xff99"),
        PACKED.replace(b'"}', b'"]'),
        99,
    ],
)
def test_a_packed_value_that_cannot_be_read_is_damage(tmp_path: Path, damaged: bytes | int) -> None:
    """Told by whoever reads it, and by a deep examination; the rest is answered."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add(b"x" * 99, text="x", id="i")
        memory.key("ada").add(b"y" * 99, text="x", id="j")
        memory.key("ada").short_term.set("a", b"x" * 99)
    with closing(connect(path)) as db:
        db.execute("UPDATE item SET value = ? WHERE id = 'i'", (damaged,))
        db.execute("UPDATE node SET value = ?", (damaged,))
    with Memory.open(path, embedder="words") as memory:
        ada = memory.key("ada")
        for read in (lambda: item_value(memory, "i"), lambda: ada.short_term.get("a")):
            with pytest.raises(StoreDamaged, match="value"):
                read()
        assert item_value(memory, "j") == b"y" * 99
        with closing(connect(path)) as db:
            found = list(checking.unreadable(db))
        assert [line.split()[2] for line in found] == ["node", "item"]


def test_forgotten_bytes_are_in_no_file(tmp_path: Path) -> None:
    """Marks inside of bytes, in an item, its versions and the tree, which were there before."""
    folder = tmp_path / "store"
    folder.mkdir()
    marks = [f"canary-{Random(n).getrandbits(96):024x}" for n in range(3)]
    with Memory.open(folder / "app.db", embedder="words") as memory:
        ada = memory.key("ada")
        values = [b"\xff" * 5_000 + mark.encode() + b"\0" * 5_000 for mark in marks]
        ada.add([values[0]], text="x", id="i")
        ada.set("default").update("i", [values[1]], text="x")
        ada.short_term.set("a", values[2])
        assert scan(marks, folder).keys() == set(marks)
        assert memory.forget("ada").state == "scrubbed"
        assert scan(marks, folder) == {}
    assert scan(marks, folder) == {}
