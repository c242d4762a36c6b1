"""all-MiniLM-L6-v2 run by ONNX Runtime on the bundled weights; needs ``alveus[minilm-onnx]``.

The graph is built from `minilm.npz` once and kept in a cache folder. It computes in float32, like
the NumPy embedder: the vectors of the two agree to a cosine of 0.99999 and better, so they share
the name ``minilm``. One store may contain both, and a space may change between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from alveus.embed.encoder import DIMENSIONS, HEADS, SMALLEST_VARIANCE
from alveus.embed.minilm import WEIGHTS, MiniLm
from alveus.embed.vectors import Vectors
from alveus.embed.weights import checksums, read_arrays
from alveus.errors import EmbedderFailed, EmbedderMissing
from alveus.values.forks import FreshLock
from alveus.values.keywords import suggest_names

GRAPH = 1
"""Version of the graph's form. A new version gets a new file in the cache."""

OPSET = 20
"""Version of the ONNX operators: the first with `Gelu`."""


class MiniLmOnnx(MiniLm):
    """MiniLM on ONNX Runtime: the same vectors, from another engine.

    Args:
        cache: Folder for the graph, 23 MB; by default ``alveus`` in ``$XDG_CACHE_HOME``, or in
            ``~/.cache``. The file is written whole or not at all, readable by its owner only.

    Raises:
        EmbedderMissing: ``onnx`` or ``onnxruntime`` is not installed.
    """

    @suggest_names
    def __init__(self, *, cache: Path | str | None = None) -> None:
        super().__init__()
        for package in ("onnx", "onnxruntime"):
            if find_spec(package) is None:
                raise EmbedderMissing(
                    f"embedder 'minilm-onnx' needs the package {package}, which is not "
                    "installed; run: pip install 'alveus[minilm-onnx]'"
                )
        self._graph = graph_path(Path(cache) if cache is not None else default_cache())
        self._session: _Session | None = None
        self._session_lock = FreshLock()

    def _run(self, marked: Sequence[Sequence[int]]) -> Vectors:
        session = self._opened()
        rows: list[Vectors] = []
        for length, texts in groupby(marked, len):
            inputs = {
                "pieces": np.array(list(texts), dtype=np.int64),
                "places": np.arange(length, dtype=np.int64),
            }
            rows.append(session.run(["rows"], inputs)[0])
        return np.concatenate(rows)

    def _opened(self) -> _Session:
        with self._session_lock:
            if self._session is None:
                if not self._graph.exists():
                    _write_whole(self._graph, build_graph(read_arrays(WEIGHTS)))
                self._session = _open_session(self._graph)
            return self._session


class _Session(Protocol):
    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, NDArray[np.int64]]
    ) -> list[Vectors]: ...


def default_cache() -> Path:
    """Return the folder in which the graph is kept unless another one is named."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "alveus"


def graph_path(cache: Path) -> Path:
    """Return the path of the graph. The file's name identifies the weights and the graph's form."""
    weights = checksums(WEIGHTS)["heads"][:12]
    return cache / f"minilm-{weights}-{GRAPH}.onnx"


def _open_session(graph: Path) -> _Session:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # Waiting threads sleep; otherwise they would take the processor from the agent.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = runtime.InferenceSession(
            str(graph), sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime's errors have no common class but this
        raise EmbedderFailed(
            f"ONNX Runtime cannot load {graph} ({error}); delete that file, and alveus creates "
            "it again"
        ) from error
    return cast("_Session", session)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: it exists whole or not at all."""
    partial = path.with_name(f"{path.name}.{token_hex(8)}.partial")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise EmbedderFailed(
            f"the graph of 'minilm-onnx' cannot be written to {path} ({error}); make room on "
            "the disk, or pass another folder: MiniLmOnnx(cache=…)"
        ) from error


def build_graph(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Return the ONNX model of the arrays of `minilm.npz`, its matrices still int8.

    Inputs: ``pieces``, int64 (texts, length), and ``places``, int64 (length): 0, 1, 2 and so on.
    Output: ``rows``, float32 (texts, 384), unit rows.
    """
    return _Graph(import_module("onnx"), arrays).model()


class _Graph:
    """Builds the graph node by node. Methods take and return names of values in the graph."""

    def __init__(self, onnx: ModuleType, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._onnx = onnx
        self._arrays = arrays
        self._nodes: list[object] = []
        self._constants: dict[str, NDArray[np.generic]] = {}

    def model(self) -> bytes:
        rows = self._normalise(self._embedded(), "norm", self._float("norm"))
        for at in range(len(self._arrays["heads"])):
            rows = self._layer(rows, at)
        mean = self._node("ReduceMean", rows, self._constant("one", np.array([1])), keepdims=0)
        self._node("LpNormalization", mean, out="rows", axis=-1, p=2)
        return self._serialised()

    def _embedded(self) -> str:
        """Return the scaled rows of the pieces, plus the rows of their positions."""
        words = self._constant("words", self._arrays["words"])
        scales = self._constant("words.scale", self._float("words.scale")[:, None])
        positions = self._constant("positions", self._float("positions"))
        rows = self._as_float(self._node("Gather", words, "pieces"))
        rows = self._node("Mul", rows, self._node("Gather", scales, "pieces"))
        return self._node("Add", rows, self._node("Gather", positions, "places"))

    def _layer(self, rows: str, at: int) -> str:
        mixed = self._dense(self._attended(self._dense(rows, "heads", at)), "mixed", at)
        norm = self._float("mixed.norm")[at]
        rows = self._normalise(self._node("Add", mixed, rows), f"mixed.norm{at}", norm)
        wide = self._node("Gelu", self._dense(rows, "wide", at))
        doubled = self._node("Mul", wide, self._constant("two", np.float32(2)))
        narrow = self._dense(doubled, "narrow", at)
        norm = self._float("narrow.norm")[at]
        return self._normalise(self._node("Add", narrow, rows), f"narrow.norm{at}", norm)

    def _attended(self, heads: str) -> str:
        size = DIMENSIONS // HEADS
        split = self._constant("split", np.array([0, 0, 3 * HEADS, size]))
        joined = self._constant("joined", np.array([0, 0, DIMENSIONS]))
        parts = self._node("Transpose", self._node("Reshape", heads, split), perm=[0, 2, 1, 3])
        queries, keys, values = (self._heads(parts, at) for at in range(3))
        keys = self._node("Transpose", keys, perm=[0, 1, 3, 2])
        weights = self._node("Softmax", self._node("MatMul", queries, keys), axis=-1)
        seen = self._node("MatMul", weights, values)
        return self._node("Reshape", self._node("Transpose", seen, perm=[0, 2, 1, 3]), joined)

    def _heads(self, parts: str, at: int) -> str:
        bounds = [np.array([number]) for number in (at * HEADS, (at + 1) * HEADS, 1)]
        names = ("from", "to", "axis")
        inputs = [self._constant(f"{n}{b[0]}", b) for n, b in zip(names, bounds, strict=True)]
        return self._node("Slice", parts, *inputs)

    def _dense(self, rows: str, name: str, at: int) -> str:
        """Return *rows* times a matrix, plus its bias. ONNX Runtime unpacks the int8 matrix."""
        inputs = self._constant(f"{name}.in{at}", self._float(f"{name}.in")[at][:, None])
        outputs = self._constant(f"{name}.out{at}", self._float(f"{name}.out")[at])
        bias = self._constant(f"{name}.bias{at}", self._float(f"{name}.bias")[at])
        matrix = self._as_float(self._constant(f"{name}{at}", self._arrays[name][at]))
        matrix = self._node("Mul", self._node("Mul", matrix, inputs), outputs)
        return self._node("Add", self._node("MatMul", rows, matrix), bias)

    def _normalise(self, rows: str, name: str, norm: Vectors) -> str:
        scale, shift = (self._constant(f"{name}.{at}", part) for at, part in enumerate(norm))
        return self._node("LayerNormalization", rows, scale, shift, epsilon=SMALLEST_VARIANCE)

    def _as_float(self, value: str) -> str:
        return self._node("Cast", value, to=self._onnx.TensorProto.FLOAT)

    def _float(self, name: str) -> Vectors:
        return self._arrays[name].astype(np.float32)

    def _constant(self, name: str, value: NDArray[np.generic] | np.generic) -> str:
        self._constants[name] = np.asarray(value)
        return name

    def _node(
        self, kind: str, *inputs: str, out: str | None = None, **attributes: float | list[int]
    ) -> str:
        name = out if out is not None else f"value{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _serialised(self) -> bytes:
        helper, types = self._onnx.helper, self._onnx.TensorProto
        graph = helper.make_graph(
            self._nodes,
            "minilm",
            inputs=[
                helper.make_tensor_value_info("pieces", types.INT64, ["texts", "length"]),
                helper.make_tensor_value_info("places", types.INT64, ["length"]),
            ],
            outputs=[helper.make_tensor_value_info("rows", types.FLOAT, ["texts", DIMENSIONS])],
            initializer=list(self._initialisers()),
        )
        opset = helper.make_operatorsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()

    def _initialisers(self) -> Iterator[object]:
        for name, value in self._constants.items():
            yield self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
