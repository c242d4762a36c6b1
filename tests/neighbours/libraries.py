"""Libraries with native parts that live in one process with alveus; each proves that it works.

A neighbour is a function that uses a library once, from its import on, and raises if an answer is
wrong. It is called any number of times, in any thread, and loads what it loads each time anew.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

VECTORS = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]

os.environ["ANONYMIZED_TELEMETRY"] = "False"  # chromadb sends nothing
os.environ["LANGSMITH_TRACING"] = "false"


def extensible() -> Any:
    """Return a module like `sqlite3` that may load extensions: not every Python's own may."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    import pysqlite3

    return pysqlite3


def nearest(db: Any) -> None:
    """Have a connection load sqlite-vec, and search by it."""
    import sqlite_vec

    db.enable_load_extension(True)
    sqlite_vec.load(db)
    db.enable_load_extension(False)
    db.execute("CREATE VIRTUAL TABLE near USING vec0(embedding float[4])")
    for number, vector in enumerate(VECTORS):
        db.execute("INSERT INTO near (rowid, embedding) VALUES (?, ?)", (number, str(vector)))
    query = "SELECT rowid FROM near WHERE embedding MATCH ? AND k = 2 ORDER BY distance"
    assert db.execute(query, (str(VECTORS[1]),)).fetchone() == (1,)


def sqlite_vec() -> None:
    """sqlite-vec, in whichever SQLite may load it."""
    with closing(extensible().connect(":memory:")) as db:
        nearest(db)


def standard_library() -> None:
    """`sqlite3` in files, in WAL mode, with full-text search, and extensions where it may."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.db")
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE VIRTUAL TABLE text USING fts5(body)")
            db.execute("INSERT INTO text VALUES ('green tea'), ('black coffee')")
            db.commit()
            found = db.execute("SELECT body FROM text WHERE text MATCH 'tea'").fetchall()
            assert found == [("green tea",)]
            if hasattr(db, "enable_load_extension"):
                nearest(db)
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("SELECT count(*) FROM text").fetchone() == (2,)


def pysqlite3() -> None:
    """pysqlite3-binary, which holds another SQLite, with sqlite-vec in it.

    Which does not bear to be in two of them: so `pysqlite3` is not among `TOGETHER`.
    """
    import pysqlite3

    with closing(pysqlite3.connect(":memory:")) as db:
        nearest(db)
        assert db.execute("SELECT json_extract('{\"a\": 7}', '$.a')").fetchone() == (7,)


def duckdb() -> None:
    """duckdb, with its own threads."""
    import duckdb

    with closing(duckdb.connect()) as db:
        db.execute("CREATE TABLE number AS SELECT * FROM range(100000)")
        assert db.execute("SELECT sum(range), count(*) FROM number").fetchone() == (
            4999950000,
            100000,
        )


def apsw() -> None:
    """The apsw that alveus uses, by the program itself: its best practice, a VFS of its own."""
    import apsw
    import apsw.bestpractice

    if not apsw.connection_hooks:
        apsw.bestpractice.apply(apsw.bestpractice.recommended)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(apsw.Connection(str(Path(folder, "a.db")))) as db,
    ):
        assert db.pragma("foreign_keys") == 1  # of its best practice
        db.execute("CREATE TABLE a (b)")
        with db:
            db.executemany("INSERT INTO a VALUES (?)", [(n,) for n in range(1000)])
        assert db.execute("SELECT sum(b) FROM a").get == 499500


def apsw_extensions() -> None:
    """The extensions that come with apsw, one of which is the checksum VFS that alveus uses."""
    import apsw
    import apsw.sqlite_extra

    with tempfile.TemporaryDirectory() as folder:
        with closing(apsw.Connection(":memory:")) as db:
            apsw.sqlite_extra.load(db, "cksumvfs")  # the default VFS from now on
            apsw.sqlite_extra.load(db, "vec1")
            apsw.sqlite_extra.load(db, "vfsstat")
        with closing(apsw.Connection(str(Path(folder, "a.db")))) as db:
            assert db.pragma("checksum_verification") is not None
            db.execute("CREATE TABLE a (b)")
            db.execute("INSERT INTO a VALUES (7)")
            assert db.execute("SELECT verify_checksum(zeroblob(512))").get is not None


def langgraph() -> None:
    """LangGraph's saver, and its store with an index, which is sqlite-vec's."""
    sys.modules["sqlite3"] = extensible()
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.store.sqlite import SqliteStore

    with tempfile.TemporaryDirectory() as folder:
        with SqliteSaver.from_conn_string(f"{folder}/saver.db") as saver:
            graph: Any = StateGraph(dict)
            graph.add_node("brew", lambda state: {"cups": state.get("cups", 0) + 1})
            graph.add_edge(START, "brew")
            graph.add_edge("brew", END)
            thread: Any = {"configurable": {"thread_id": "a"}}
            assert graph.compile(checkpointer=saver).invoke({"cups": 1}, thread) == {"cups": 2}
            assert saver.get(thread) is not None
        index: Any = {"dims": 4, "embed": lambda texts: [VECTORS[len(t) % 3] for t in texts]}
        with SqliteStore.from_conn_string(f"{folder}/store.db", index=index) as store:
            store.setup()
            store.put(("ada",), "t", {"text": "green tea"})
            assert [item.key for item in store.search(("ada",), query="tea")] == ["t"]


def chromadb() -> None:
    """chromadb, with a SQLite in Rust and an index in C++."""
    import chromadb

    with tempfile.TemporaryDirectory() as folder:
        client = chromadb.PersistentClient(folder)
        kept = client.create_collection("near")
        kept.add(ids=["x", "y", "z"], embeddings=VECTORS, documents=["x", "y", "z"])  # pyright: ignore[reportArgumentType] - lists do
        assert kept.query(query_embeddings=[VECTORS[1]], n_results=1)["ids"] == [["y"]]  # pyright: ignore[reportArgumentType] - lists do


def lancedb() -> None:
    """lancedb, in Rust, with threads of its own."""
    import lancedb

    with tempfile.TemporaryDirectory() as folder:
        db = lancedb.connect(folder)
        table = db.create_table("a", data=[{"vector": v, "n": n} for n, v in enumerate(VECTORS)])
        assert table.search(VECTORS[2]).limit(1).to_list()[0]["n"] == 2


def onnxruntime() -> None:
    """onnxruntime, with a pool of threads for each session."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    session = onnxruntime.InferenceSession(
        _squaring_model(), options, providers=["CPUExecutionProvider"]
    )
    given = np.arange(16, dtype=np.float32).reshape(4, 4)
    (found,) = session.run(None, {"x": given})
    assert np.array_equal(np.asarray(found), given @ given)


def _squaring_model() -> bytes:
    """Return an ONNX model of one product of matrices, in the form of protocol buffers."""

    def field(number: int, value: bytes | int) -> bytes:
        if isinstance(value, int):
            return bytes([number << 3, value])
        return bytes([number << 3 | 2, len(value)]) + value

    def tensor(name: bytes) -> bytes:
        four = field(1, field(1, 4))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, four[2:] and four + four)))

    node = field(1, b"x") + field(1, b"x") + field(2, b"y") + field(4, b"MatMul")
    graph = field(1, node) + field(2, b"g") + field(11, tensor(b"x")) + field(12, tensor(b"y"))
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def torch() -> None:
    """torch, with its own OpenMP; no part of the environment, as it is large."""
    import torch

    given = torch.arange(250_000, dtype=torch.float64).reshape(500, 500)
    assert bool(((given @ torch.eye(500, dtype=torch.float64)) == given).all())


def uvloop() -> None:
    """uvloop, beside the memory for asyncio."""
    import uvloop

    from alveus import AsyncMemory

    async def use() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            ada = await memory.key("ada")
            await asyncio.gather(*(ada.add(f"tea {n}", id=str(n)) for n in range(20)))
            assert len(await ada.search("tea", limit=30)) == 20

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(use())


TOGETHER: tuple[Callable[[], None], ...] = (
    sqlite_vec,
    standard_library,
    duckdb,
    apsw,
    langgraph,
    chromadb,
    lancedb,
    onnxruntime,
    uvloop,
)
"""Those that get on with each other, all in one process."""

ALONE = [apsw_extensions]
"""Those that do not: their libraries bind to each other's symbols, with alveus or without."""

if sys.platform == "linux":  # where there is one
    ALONE.append(pysqlite3)

MODULES = {
    "sqlite_vec": ("sqlite_vec",),
    "pysqlite3": ("pysqlite3", "sqlite_vec"),
    "duckdb": ("duckdb",),
    "apsw": ("apsw.bestpractice",),
    "apsw_extensions": ("apsw.sqlite_extra",),
    "langgraph": ("langgraph.graph", "langgraph.checkpoint.sqlite", "langgraph.store.sqlite"),
    "chromadb": ("chromadb",),
    "lancedb": ("lancedb",),
    "onnxruntime": ("onnxruntime",),
    "uvloop": ("uvloop",),
    "alveus": ("alveus",),
}
"""What each imports: some cannot be imported by two threads at once, whatever else is there."""


def import_of(name: str) -> None:
    """Import what a neighbour needs, and use nothing of it yet."""
    if name == "langgraph":
        sys.modules["sqlite3"] = extensible()
    for module in MODULES.get(name, ()):
        importlib.import_module(module)
