"""LangGraph's checkpointer: the state of a thread is exact memory of a separate key.

The tree of the key contains, below ``langgraph``::

    checkpoints  namespace  checkpoint  the checkpoint, its metadata, its parent
    values       namespace  channel     version: a value, stored once
    writes       namespace  checkpoint  task and number: a write of a task
    pieces       digest                 a part of a large value

A checkpoint and its new values are one commit. These commits never conflict, with one exception: a
commit with pieces also stores the missing pieces, and is repeated if another commit stored one of
them first. `prune` removes unused pieces, which a killed client of a server may leave.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from alveus.errors import InvalidInput, NotAnObject, StoreDamaged
from alveus.integrations.langgraph.pieces import (
    PIECES,
    PieceMissing,
    Stored,
    ValueWriter,
    joined,
    piece_names,
)
from alveus.integrations.opened import Connected, Deleting
from alveus.memory.async_calls import awaited
from alveus.memory.keys import KeyBatch, KeyMemory
from alveus.memory.memory import Memory, RemoteMemory
from alveus.state import MemoryObject
from alveus.values.ids import identity_key
from alveus.values.storable import choice

ROOT = "langgraph"
"""The checkpointer's object in a key's tree."""

PAGE = 64
"""How many ids of checkpoints are read at once."""

NO_VALUE = "empty"
"""The stored type of a version of a channel that has no value."""


class AlveusSaver(Connected, BaseCheckpointSaver[str]):
    """A checkpointer for LangGraph, sync and async in one object, safe between threads.

    Each thread is a separate key, ``langgraph.thread:ID``. The checkpointer implements all of
    `BaseCheckpointSaver`, also deletion for runs, copies of threads, pruning of threads, and the
    history of delta channels.

    Args:
        serde: Converts values to bytes. None means LangGraph's default, which uses MessagePack.
        deleting: How `delete_thread` deletes: "retire" deletes the thread's state, and keeps its
            history for as long as the memory keeps it; "forget" erases the key of the thread, and
            leaves a receipt.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        serde: SerializerProtocol | None = None,
        deleting: Deleting = "retire",
    ) -> None:
        Connected.__init__(self, memory, deleting=deleting)
        BaseCheckpointSaver.__init__(self, serde=serde)  # pyright: ignore[reportUnknownMemberType] - of no type argument

    # --- reading ---

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the last one if the config names none.

        Return None if there is no such checkpoint.
        """
        thread, namespace = _thread_and_namespace(config)
        tree = self._tree(thread)
        asked = get_checkpoint_id(config)
        if asked is None:
            last = _names(tree, "checkpoints", namespace, limit=1, newest_first=True)
            if not last:
                return None
            asked = last[0]
        return self._tuple(tree, thread, namespace, asked)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of the config's thread, or of all threads if *config* is None.

        The newest checkpoint of each namespace is first.
        """
        wanted = (filter or {}).items()
        found = (
            one
            for one in self._listed(config, None if before is None else get_checkpoint_id(before))
            if all(cast("dict[str, Any]", one.metadata).get(n) == value for n, value in wanted)
        )
        yield from islice(found, None if limit is None else max(limit, 0))

    def _listed(
        self, config: RunnableConfig | None, before: str | None
    ) -> Iterator[CheckpointTuple]:
        threads = self._threads() if config is None else [_thread_and_namespace(config)[0]]
        configurable = {} if config is None else config.get("configurable", {})
        asked = configurable.get("checkpoint_ns")
        only = configurable.get("checkpoint_id")
        for thread in threads:
            tree = self._tree(thread)
            for name in _names(tree, "checkpoints"):
                namespace = name[1:]
                if asked is not None and namespace != asked:
                    continue
                for checkpoint_id in _ids(tree, namespace, before, only):
                    found = self._tuple(tree, thread, namespace, checkpoint_id)
                    if found is not None:
                        yield found

    def _tuple(
        self, tree: MemoryObject, thread: str, namespace: str, checkpoint_id: str
    ) -> CheckpointTuple | None:
        path = _path("checkpoints", namespace, checkpoint_id)
        record = tree.get(path)
        if record is None:
            return None
        try:
            stored: dict[str, Any] = self._loaded(tree, record["checkpoint"])
            values: dict[str, Any] = {}
            for channel, version in stored["channel_versions"].items():
                value = tree.get(_path("values", namespace, channel, str(version)))
                if value is not None and value[0] != NO_VALUE:
                    values[channel] = self._loaded(tree, value)
            parent = record["parent"]
            return CheckpointTuple(
                config=_config(thread, namespace, checkpoint_id),
                checkpoint=cast("Checkpoint", {**stored, "channel_values": values}),
                metadata=self._loaded(tree, record["metadata"]),
                parent_config=_config(thread, namespace, parent) if parent else None,
                pending_writes=self._writes(tree, namespace, checkpoint_id),
            )
        except PieceMissing:
            if path in tree:
                raise StoreDamaged(None, f"checkpoint {checkpoint_id} lacks a piece") from None
            return None  # deleted meanwhile

    def _writes(self, tree: MemoryObject, namespace: str, checkpoint_id: str) -> list[PendingWrite]:
        found = [
            tree.get(_path("writes", namespace, checkpoint_id, name))
            for name in _names(tree, "writes", namespace, checkpoint_id)
        ]
        present = [write for write in found if write is not None]
        present.sort(key=lambda write: writes_sort_key(write[3], write[0], write[1]))
        return [
            (task, channel, self._loaded(tree, value)) for task, _, channel, _, value in present
        ]

    # --- writing ---

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with its new values, in one commit."""
        thread, namespace = _thread_and_namespace(config)
        key = self._key(thread)
        writer = self._writer(key)
        stored: dict[str, Any] = {**checkpoint}
        values = stored.pop("channel_values")
        new: dict[tuple[str, ...], Any] = {
            _path("values", namespace, channel, str(version)): (
                writer.stored(values[channel]) if channel in values else [NO_VALUE, b""]
            )
            for channel, version in new_versions.items()
        }
        new[_path("checkpoints", namespace, checkpoint["id"])] = {
            "checkpoint": writer.stored(stored),
            "metadata": writer.stored(get_checkpoint_metadata(config, metadata)),
            "parent": get_checkpoint_id(config),
        }
        self._commit(key, new, writer)
        return _config(thread, namespace, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task, in one commit. Writes that are stored already stay as is."""
        thread, namespace = _thread_and_namespace(config)
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id is None:
            raise InvalidInput("put_writes needs a checkpoint_id in config['configurable']")
        key = self._key(thread)
        writer = self._writer(key)
        known = set(_names(key.short_term, "writes", namespace, checkpoint_id))
        new: dict[tuple[str, ...], Any] = {}
        for position, (channel, value) in enumerate(writes):
            number = WRITES_IDX_MAP.get(channel, position)
            name = f"{task_id} {number}"
            if number < 0 or name not in known:
                made = [task_id, number, channel, task_path, writer.stored(value)]
                new[_path("writes", namespace, checkpoint_id, name)] = made
        self._commit(key, new, writer)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread; see the argument *deleting* of the class."""
        key = self._key(str(thread_id))
        if self._deleting == "forget":
            key.forget()
        else:
            key.short_term.delete(ROOT)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, in every thread."""
        runs = set(run_ids)

        def chosen(tree: MemoryObject) -> set[tuple[str, str]]:
            return {
                (namespace, checkpoint_id)
                for namespace, checkpoint_id, record in _records(tree)
                if self._loaded(tree, record["metadata"]).get("run_id") in runs
            }

        for thread in self._threads():
            if ROOT in self._key(thread).short_term:
                self._remove(thread, chosen)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its checkpoints and writes, in one commit."""
        source = self._tree(str(source_thread_id)).get(ROOT)
        if not isinstance(source, MemoryObject):
            return

        def copy(batch: KeyBatch) -> None:
            batch.short_term.delete(ROOT)
            batch.short_term.set(ROOT, source)

        self._key(str(target_thread_id)).commit(copy)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete checkpoints of threads.

        The strategy "delete" deletes all of them. "keep_latest" keeps the last checkpoint of each
        namespace, and the earlier checkpoints that its delta channels need.
        """
        choice(strategy, "strategy", "keep_latest", "delete")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
            elif ROOT in self._tree(thread):
                self._remove(thread, self._outdated)

    def _outdated(self, tree: MemoryObject) -> set[tuple[str, str]]:
        """Return all checkpoints that are neither the last of a namespace nor needed by it."""
        records = {(namespace, name): record for namespace, name, record in _records(tree)}
        outdated = set(records)
        for namespace in {namespace for namespace, _ in records}:
            last = max(name for of, name in records if of == namespace)
            outdated.discard((namespace, last))
            metadata = self._loaded(tree, records[namespace, last]["metadata"])
            missing = set(metadata.get("counters_since_delta_snapshot", ()))
            at: str | None = last
            while missing and at is not None and (namespace, at) in records:
                outdated.discard((namespace, at))
                missing -= self._stored_channels(tree, namespace, records[namespace, at])
                at = records[namespace, at]["parent"]
        return outdated

    def _stored_channels(
        self, tree: MemoryObject, namespace: str, record: dict[str, Any]
    ) -> set[str]:
        versions = self._loaded(tree, record["checkpoint"])["channel_versions"]
        found = {
            channel: tree.get(_path("values", namespace, channel, str(version)))
            for channel, version in versions.items()
        }
        return {channel for channel, value in found.items() if value and value[0] != NO_VALUE}

    def _remove(self, thread: str, chosen: Callable[[MemoryObject], set[tuple[str, str]]]) -> None:
        """Delete checkpoints with their writes, and values that no other checkpoint uses."""

        def remove(batch: KeyBatch) -> None:
            tree = batch.short_term
            gone = chosen(tree)
            for namespace, checkpoint_id in gone:
                tree.delete(_path("checkpoints", namespace, checkpoint_id))
                tree.delete(_path("writes", namespace, checkpoint_id))
            for namespace in {namespace for namespace, _ in gone}:
                self._remove_unused(tree, namespace)
            if pieces := set(_names(tree, PIECES)):
                for name in pieces - _used_pieces(tree):
                    tree.delete((ROOT, PIECES, name))

        self._key(thread).commit(remove)

    def _remove_unused(self, tree: MemoryObject, namespace: str) -> None:
        used = {
            (channel, str(version))
            for of, _, record in _records(tree)
            if of == namespace
            for channel, version in self._loaded(tree, record["checkpoint"])[
                "channel_versions"
            ].items()
        }
        for channel in _names(tree, "values", namespace):
            for version in _names(tree, "values", namespace, channel):
                if (channel, version) not in used:
                    tree.delete(_path("values", namespace, channel, version))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version after *current*. Two forks of a thread never get the same version."""
        del channel
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{secrets.token_hex(8)}"

    # --- the same, awaited ---

    if not TYPE_CHECKING:  # type checkers read the declarations of the base class
        aget_tuple = awaited(get_tuple)
        aput = awaited(put)
        aput_writes = awaited(put_writes)
        adelete_thread = awaited(delete_thread)
        adelete_for_runs = awaited(delete_for_runs)
        acopy_thread = awaited(copy_thread)
        aprune = awaited(prune)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await self.awaited(lambda: next(found, None))) is not None:
            yield one

    # --- inside ---

    def _key(self, thread: str) -> KeyMemory:
        return self.memory.key(identity_key("langgraph.thread", thread))

    def _threads(self) -> Iterator[str]:
        prefix = identity_key("langgraph.thread", "")
        return (key.removeprefix(prefix) for key in self.memory.keys(prefix=prefix))

    def _tree(self, thread: str) -> MemoryObject:
        return self._key(thread).short_term

    def _commit(
        self, key: KeyMemory, new: Mapping[tuple[str, ...], Any], writer: ValueWriter
    ) -> None:
        """Store values and their missing pieces, in one commit.

        On a server, the pieces are stored before the commit, one by one: a batch is limited to the
        size of a request, and each call in the batch sends the whole batch again.
        """

        def change(batch: KeyBatch) -> None:
            tree = batch.short_term
            if writer.has_pieces:
                _put_pieces(tree, writer)
            for path, value in new.items():
                tree.set(path, value)

        if writer.has_pieces and isinstance(self.memory, RemoteMemory):
            _put_pieces(key.short_term, writer)
        key.commit(change)

    def _writer(self, key: KeyMemory) -> ValueWriter:
        return ValueWriter(self.serde.dumps_typed, expires=key.short_term_ttl is not None)

    def _loaded(self, tree: MemoryObject, stored: Stored) -> Any:  # noqa: ANN401 - whatever the graph holds
        return self.serde.loads_typed(joined(tree, (ROOT, PIECES), stored))


def _thread_and_namespace(config: RunnableConfig) -> tuple[str, str]:
    configurable = config.get("configurable", {})
    if "thread_id" not in configurable:
        raise InvalidInput("a checkpointer needs config['configurable']['thread_id']")
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def _config(thread: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


def _path(part: str, namespace: str, *names: str) -> tuple[str, ...]:
    """Return the path of *names* in a namespace, below *part*.

    A namespace may be empty, but a name in a path may not, so the namespace gets a prefix.
    """
    return (ROOT, part, f"/{namespace}", *names)


def _put_pieces(tree: MemoryObject, writer: ValueWriter) -> None:
    for name, piece in writer.missing(_names(tree, PIECES)):
        tree.set((ROOT, PIECES, name), piece)


def _names(
    tree: MemoryObject,
    part: str,
    namespace: str | None = None,
    *names: str,
    after: str | None = None,
    limit: int | None = None,
    newest_first: bool = False,
) -> list[str]:
    """Return the names below a path. The list is empty if nothing is stored there."""
    path = (ROOT, part) if namespace is None else _path(part, namespace, *names)
    found = tree.get(path)
    if isinstance(found, MemoryObject):
        with suppress(NotAnObject):  # deleted since
            return found.names(after=after, limit=limit, newest_first=newest_first)
    return []


def _ids(tree: MemoryObject, namespace: str, before: str | None, only: str | None) -> Iterator[str]:
    if only is not None:
        if before is None or only < before:
            yield only
        return
    last = before
    while page := _names(tree, "checkpoints", namespace, after=last, limit=PAGE, newest_first=True):
        yield from page
        last = page[-1]


def _records(tree: MemoryObject) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield all checkpoints: namespace, id and record."""
    for name in _names(tree, "checkpoints"):
        for checkpoint_id in _names(tree, "checkpoints", name[1:]):
            record = tree.get(_path("checkpoints", name[1:], checkpoint_id))
            if record is not None:
                yield name[1:], checkpoint_id, record


def _used_pieces(tree: MemoryObject) -> set[str]:
    """Return the names of the pieces of all values, writes and checkpoints of a tree."""
    used: set[str] = set()
    for _, _, record in _records(tree):
        used.update(piece_names(record["checkpoint"]), piece_names(record["metadata"]))
    for part in ("values", "writes"):
        for of in _names(tree, part):
            for name in _names(tree, part, of[1:]):
                for last in _names(tree, part, of[1:], name):
                    stored = tree.get(_path(part, of[1:], name, last))
                    used.update(piece_names(stored if part == "values" else stored[4]))
    return used
