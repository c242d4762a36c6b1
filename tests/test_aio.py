"""The same memory for asyncio: every call of the sync one is there, and delegates."""
# ruff: noqa: PT012 - what raises is the end of a block, and what it serves is in it

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Collection, Coroutine
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar, cast

import pytest

from alveus import (
    AsyncMemory,
    Item,
    KeyBatch,
    KeyMemory,
    KnowledgeMemory,
    Memory,
    MemoryObject,
    MemorySet,
    Signals,
)
from alveus.conversation import ConversationMemory
from alveus.errors import (
    DuplicateItem,
    EmbedderConflict,
    IdempotencyConflict,
    StaleRun,
    StoreClosed,
    Unusable,
)
from alveus.memory.async_calls import THREADS, CallExecutor
from alveus.memory.async_objects import (
    AsyncBatch,
    AsyncConversation,
    AsyncKey,
    AsyncKnowledge,
    AsyncMemoryObject,
    AsyncMemorySet,
)
from alveus.store import Batch, Commit
from doors import Letters
from waiting import LIMIT_S

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


def wait_for_threads(before: Collection[threading.Thread]) -> None:
    """Wait, bounded, until no thread is left but those of other tests."""
    for thread in set(threading.enumerate()).difference(before):
        thread.join(LIMIT_S)
        assert not thread.is_alive(), thread.name


def public(kind: type) -> set[str]:
    """Return the names that users have; `inside` is for rooms of alveus."""
    return {name for name in dir(kind) if not name.startswith("_")} - {"inside"}


@pytest.mark.parametrize(
    ("sync", "other"),
    [
        (Memory, AsyncMemory),
        (KeyMemory, AsyncKey),
        (KeyBatch, AsyncBatch),
        (KnowledgeMemory, AsyncKnowledge),
        (MemorySet, AsyncMemorySet),
        (ConversationMemory, AsyncConversation),
        (MemoryObject, AsyncMemoryObject),
    ],
)
def test_every_public_name_is_there(sync: type, other: type) -> None:
    """What the sync class can, the async one can, under the same name."""
    assert public(sync) - public(other) == set()


def test_everything_goes_through(tmp_path: Path) -> None:
    """The calls of a key and of its sets: awaited, they do what the sync ones do."""

    async def work() -> None:
        async with await AsyncMemory.open(tmp_path / "app.db", embedder=Letters()) as memory:
            ada = await memory.key("ada")
            item_id = await ada.add("green tea", metadata={"n": 1})
            await ada.add_many(["a", Item("b", id="b")])
            hits = await ada.search("tea", limit=1)
            assert hits[0].item.id == item_id
            assert (await ada.update("b", "c")).version == 2
            assert len(await ada.history("b")) == 2
            assert await ada.delete("b") == 1
            assert len(await ada.list()) == 2
            assert (await ada.recent(1))[0].text == "a"
            item = await ada.get(item_id)
            assert isinstance(item, Item)
            notes = await ada.set("notes", capacity=2, compaction="trim", signals=Signals())
            await notes.add_many(["1", "2", "3"])
            assert (notes.name, await notes.size()) == ("notes", 2)
            assert (await notes.definition()).capacity == 2
            assert (await notes.redefine(capacity=9)).capacity == 9
            assert await notes.clear() == 2
            assert await (await ada.get_memory_set("notes")).size() == 0
            assert await ada.sets() == ["default", "notes"]
            assert ada.long_term_memory is ada

    run(work())


def test_calls_may_be_tasks() -> None:
    """A call is a coroutine for type checkers too; several ids are answered by several items."""

    async def work() -> None:
        async with await AsyncMemory.open(embedder=Letters()) as memory:
            ada = await memory.key("ada")
            adding = asyncio.create_task(ada.add("green tea", id="1"))
            one: str = await adding
            two: str | None = None
            for item in await ada.get([one]):
                assert item
                two = item.id
            counts: dict[str, int] = await ada.sets(counts=True)
            assert (one, two, counts) == ("1", "1", {"default": 1})

    run(work())


def test_opening_has_the_arguments_of_open() -> None:
    """Shells and type checkers see what `AsyncMemory.open` takes."""
    assert inspect.signature(AsyncMemory.open).parameters == (
        inspect.signature(Memory.open).parameters
    )


def test_conversations_go_through(tmp_path: Path) -> None:
    """The calls of a conversation: awaited, they do what the sync ones do."""

    async def work() -> None:
        async with await AsyncMemory.open(tmp_path / "app.db", embedder="words") as memory:
            talk = (await memory.key("ada")).conversation("talk")
            ids = await talk.add([{"role": "user", "content": f"number {n}"} for n in range(4)])
            assert (talk.name, await talk.size()) == ("talk", 4)
            assert await talk.update_messages_mark("todo", msg_ids=ids[:1]) == 1
            assert [m["id"] for m in await talk.get_memory("todo")] == ids[:1]
            assert (await talk.search("number 3", limit=1))[0].item.id == ids[3]
            assert (await talk.compress(keep_recent=1)).messages == 3
            assert "number 0" in await talk.summary()
            assert len(await talk.messages()) == 2
            assert await talk.uncompress() == 3
            state = await talk.state_dict()
            assert await talk.delete_by_mark("todo") == await talk.delete(ids[3]) == 1
            await talk.update_compressed_summary("SUM")
            assert await talk.clear() == 2
            await talk.load_state_dict(state)
            await talk.forget(ids[0])
            assert await talk.size() == 3

    run(work())


def test_care_and_knowledge_go_through(tmp_path: Path) -> None:
    """Figures, settling, sweeping, backups, restoring, another embedder, knowledge."""

    async def work() -> None:
        async with await AsyncMemory.open(tmp_path / "app.db", embedder=Letters()) as memory:
            ada = await memory.key("ada")
            await ada.add("x")
            facts = await memory.knowledge.set("facts")
            await facts.add("bees dance")
            assert len(await ada.knowledge.search("bees")) == 1
            assert await memory.knowledge.sets() == ["facts"]
            assert await memory.keys() == ["ada"]
            assert await memory.settle()
            assert (await memory.stats()).store.items == 2
            assert await memory.sweep() == 0
            await memory.backup(tmp_path / "copy.db")
            names = (memory.space, memory.knowledge.name, ada.key, memory.embedder.name)
            assert names == ("default", "default", "ada", "letters")
            assert memory.store.location == str(tmp_path / "app.db")
        await memory.close()
        await AsyncMemory.restore(tmp_path / "app.db", tmp_path / "copy.db")
        assert await AsyncMemory.reindex(tmp_path / "app.db", embedder="words") == 2

    run(work())


def test_objects_of_the_tree_are_awaited_too() -> None:
    """What get, get_object, get_fields and new_object give is async as well."""

    async def work() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            root = (await memory.key("ada")).short_term
            await root.set("a.b", 1)
            made = await root.new_object("o")
            assert isinstance(made, AsyncMemoryObject)
            await made.append("list", 1)
            assert await made.increment("n", 2) == 2
            await made.update("n", 3, expected=2)
            a = await root.get("a")
            assert isinstance(a, AsyncMemoryObject)
            assert (a.path, str(a.kind), a.ref.path) == ("a", str(root.kind), "a")
            assert await (await root.get_object("a")).to_dict() == {"b": 1}
            fields = await root.get_fields()
            assert isinstance(fields["o"], AsyncMemoryObject)
            await root.set("copy", a)
            assert await root.walk() == [("a.b", 1), ("o.list", [1]), ("o.n", 3), ("copy.b", 1)]
            assert await root.get_field_names() == ["a", "o", "copy"]
            assert await root.is_exist("copy.b")
            assert await root.delete("copy")
            for _ in range(2):
                assert await (await root.once("k")).increment("once") == 1
            assert await root.get("none", 7) == 7
            await root.clear()
            assert await (await memory.key("ada")).short_term_memory.to_dict() == {}

    run(work())


def test_a_batch_is_one_commit(tmp_path: Path) -> None:
    """In an async with block; not if it raises; repeated under a key it changes nothing."""

    async def work() -> None:
        async with await AsyncMemory.open(tmp_path / "app.db", embedder=Letters()) as memory:
            ada = await memory.key("ada")
            for adopted in (False, True):
                async with ada.batch(idempotency_key="k") as b:
                    await asyncio.gather(b.add("x", id="x"), b.short_term.set("a", 1))
                    await (await b.knowledge.set("facts")).add("y", id="y")
                    assert len(await b.list()) == 1
                    assert b.committed is None
                assert b.committed is not None
                assert b.committed.adopted is adopted
            assert (await memory.stats()).store.commits == 1
            with pytest.raises(ZeroDivisionError):
                async with ada.batch() as b:
                    await b.add("z")
                    _ = 1 / 0
            with pytest.raises(IdempotencyConflict):
                async with ada.batch(idempotency_key="k") as b:
                    await b.add("z")
            with pytest.raises(StaleRun):
                async with ada.batch() as b:
                    await b.short_term.increment("a")
                    await ada.short_term.increment("a")
            with pytest.raises(Unusable, match="one block"):
                async with b:
                    pass
            with pytest.raises(Unusable):
                await b.add("late")
            assert [item.text for item in await ada.list()] == ["x"]

    run(work())


def test_calls_of_one_batch_take_turns() -> None:
    """Tasks may share a batch: their calls go one after the other, none is lost."""

    async def work() -> None:
        async with await AsyncMemory.open(embedder=Letters()) as memory:
            ada = await memory.key("ada")
            async with ada.batch() as b:
                await asyncio.gather(
                    *(b.short_term.increment("n") for _ in range(50)),
                    *(b.add(f"n{i}") for i in range(50)),
                )
            assert await ada.short_term.get("n") == 50
            assert len(await ada.list()) == 50

    run(work())


def test_every_loop_is_served(tmp_path: Path) -> None:
    """One after another, two at once in threads, and for closing."""
    kept: list[Any] = []

    async def opening() -> None:
        memory = await AsyncMemory.open(tmp_path / "app.db", embedder="words")
        kept.extend([memory, await memory.key("ada")])

    async def elsewhere(name: str) -> None:
        ada = kept[1]
        await asyncio.gather(*(ada.add(f"{name} {step}") for step in range(20)))
        async with ada.batch() as batch:
            await asyncio.gather(*(batch.short_term.set(f"{name}.{n}", n) for n in range(20)))

    async def closing() -> None:
        assert len(await kept[1].list()) == 60
        two = await kept[1].short_term.get_object("two")
        assert len(await two.names()) == 20
        await kept[0].close()

    run(opening())
    run(elsewhere("one"))
    threads = [Thread(target=run, args=(elsewhere(name),)) for name in ("two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(closing())


def test_who_is_cancelled_learns_it_when_the_call_has_ended() -> None:
    """However often he is, and however it ended."""
    begun, may_end = Event(), Event()

    def change(batch: KeyBatch) -> None:
        batch.add("x")
        begun.set()
        may_end.wait()

    def refused(_: KeyBatch) -> None:
        begun.set()
        may_end.wait()
        raise ZeroDivisionError

    async def work() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            ada = await memory.key("ada")
            for call, items in ((change, 1), (refused, 1)):
                begun.clear()
                may_end.clear()
                task = asyncio.create_task(ada.commit(call))
                await asyncio.to_thread(begun.wait)
                for _ in range(3):
                    task.cancel()
                    await asyncio.sleep(0)
                    assert not task.done()
                may_end.set()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert len(ada.sync.list()) == items

    run(work())


def test_a_call_that_no_thread_has_begun_is_never_made() -> None:
    """All threads are at work, and who waits for one is cancelled."""
    may_end = Event()

    async def work() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            ada = await memory.key("ada")
            waiting = [asyncio.create_task(ada.loop.run(may_end.wait)) for _ in range(THREADS)]
            late = asyncio.ensure_future(ada.add("never"))
            await asyncio.sleep(0)
            late.cancel()
            with pytest.raises(asyncio.CancelledError):
                await late
            may_end.set()
            await asyncio.gather(*waiting)
            assert await ada.list() == []

    run(work())


async def all_threads_at_work(memory: AsyncMemory, until: Event) -> list[asyncio.Task[bool]]:
    """Return calls that take every thread of a memory."""
    begun = threading.Barrier(THREADS + 1)

    def wait() -> bool:
        begun.wait(LIMIT_S)
        return until.wait()

    calls = [asyncio.create_task(memory.loop.run(wait)) for _ in range(THREADS)]
    await asyncio.to_thread(begun.wait, LIMIT_S)
    return calls


def test_a_block_whose_end_is_cancelled_has_ended() -> None:
    """Without a commit, if no thread had begun it: what comes later would be lost in silence."""
    may_end = Event()

    async def work() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            ada, at_end = await memory.key("ada"), asyncio.Event()
            batch = ada.batch()

            async def block() -> None:
                async with batch:
                    await batch.add("x")
                    calls.extend(await all_threads_at_work(memory, may_end))
                    at_end.set()

            calls: list[asyncio.Task[bool]] = []
            task = asyncio.create_task(block())
            await at_end.wait()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            may_end.set()
            await asyncio.gather(*calls)
            with pytest.raises(Unusable, match="inside its with block"):
                await batch.add("late")
            assert batch.committed is None
            assert await ada.list() == []

    run(work())


def test_a_block_whose_commit_is_cancelled_has_committed() -> None:
    """The thread that commits has begun: all of the block is there, and it has ended."""

    async def work() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            ada, begun, may_end = await memory.key("ada"), Event(), Event()
            batch, commit = ada.batch(), memory.store.commit

            def slowly(changes: Batch) -> Commit:
                begun.set()
                may_end.wait(LIMIT_S)
                return commit(changes)

            async def block() -> None:
                async with batch:
                    await batch.add("x")
                    await batch.short_term.set("a", 1)

            vars(memory.store)["commit"] = slowly
            task = asyncio.create_task(block())
            await asyncio.to_thread(begun.wait, LIMIT_S)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert batch.committed is not None
            assert len(await ada.list()) == await ada.short_term.get("a") == 1
            with pytest.raises(Unusable, match="inside its with block"):
                await batch.add("late")

    run(work())


def test_a_batch_that_was_not_entered_says_so() -> None:
    """As the sync one does."""

    async def work() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            batch = (await memory.key("ada")).batch()
            with pytest.raises(Unusable, match="async with"):
                await batch.add("x")

    run(work())


def test_a_memory_is_closed_by_who_is_cancelled() -> None:
    """Also while every thread is at work; nobody else would close it."""
    may_end = Event()

    async def work() -> None:
        memory = await AsyncMemory.open(embedder="words")
        calls = await all_threads_at_work(memory, may_end)
        closing = asyncio.create_task(memory.close())
        for _ in range(3):
            await asyncio.sleep(0)
            closing.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.gather(*calls)
        with pytest.raises(StoreClosed):
            memory.sync.stats()
        with pytest.raises(StoreClosed):
            await memory.stats()
        await memory.close()

    run(work())


class ClosesMeanwhile(CallExecutor):
    """Another thread closes it after a call has found it open."""

    looked = False

    @property
    def closed(self) -> bool:
        """Whether it is closed: not yet, when it is asked first."""
        if not self.looked:
            self.looked = True
            self._threads.shutdown()
            return False
        return True

    @closed.setter
    def closed(self, _closed: bool) -> None: ...


def test_a_memory_that_is_closed_meanwhile_says_so() -> None:
    """By another event loop, at whatever moment: it is not the executor that says so."""

    async def work() -> None:
        with pytest.raises(StoreClosed):
            await ClosesMeanwhile().run(list[int])

    run(work())


def test_an_opening_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    """The file can be had alone afterwards."""
    path = tmp_path / "app.db"

    async def work() -> None:
        task = asyncio.create_task(AsyncMemory.open(path, embedder="words"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())
    assert not [each for each in Path("/proc/self/fd").iterdir() if path.name in link(each)]


def link(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""


def test_closed_it_says_so() -> None:
    """Every call raises; closing twice is fine; its threads end."""

    async def work() -> None:
        memory = await AsyncMemory.open(embedder="words")
        ada = await memory.key("ada")
        await ada.add("x")
        await memory.close()
        await memory.close()
        for call in (
            lambda: ada.add("x"),
            lambda: ada.short_term.get("a"),
            memory.stats,
            lambda: memory.key("bob"),
            lambda: ada.batch().__aenter__(),
        ):
            with pytest.raises(StoreClosed, match="closed"):
                await call()

    before = threading.enumerate()
    run(work())
    wait_for_threads(before)


def test_what_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    """Errors of the sync calls come through as they are."""

    async def work() -> None:
        for _ in range(5):
            with pytest.raises(EmbedderConflict):
                await AsyncMemory.open(tmp_path / "app.db", embedder="words")

    Memory.open(tmp_path / "app.db", embedder=Letters()).close()
    before = threading.enumerate()
    run(work())
    wait_for_threads(before)


def test_many_tasks_at_once(tmp_path: Path) -> None:
    """More tasks than threads: each call is there in the end, and one error is one task's."""

    async def work() -> None:
        async with await AsyncMemory.open(tmp_path / "app.db", embedder=Letters()) as memory:
            keys = [await memory.key(f"k{i}") for i in range(5)]

            async def one(n: int) -> str:
                key = keys[n % 5]
                item_id = await key.add(f"text {n}", id=f"id {n // 10 if n % 10 == 9 else n}")
                assert await key.get(item_id) is not None
                await key.short_term.increment("n")
                return item_id

            done = await asyncio.gather(*(one(n) for n in range(200)), return_exceptions=True)
            failed = [answer for answer in done if isinstance(answer, BaseException)]
            assert all(isinstance(answer, DuplicateItem) for answer in failed)
            total = sum([len(await key.list()) for key in keys])
            assert total == len(done) - len(failed)
            counts = [await key.short_term.get("n") for key in keys]
            assert sum(counts) == total

    run(work())


def test_what_a_key_has_is_told_of_a_memory() -> None:
    """A name that a key has is answered with how it is awaited; a set has no such hint."""

    async def ask() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            with pytest.raises(AttributeError) as told:
                _ = cast("Any", memory).add
            assert str(told.value).endswith('; a key has it: (await memory.key("…")).add(…)')
            with pytest.raises(AttributeError, match=r"no attribute 'ad'$"):
                _ = cast("Any", memory).ad
            with pytest.raises(AttributeError) as told:
                _ = cast("Any", memory.knowledge).add
            assert str(told.value).endswith('; a set has it: (await knowledge.set("…")).add(…)')
            with pytest.raises(AttributeError, match="; a key learns"):
                _ = cast("Any", (await memory.key("ada")).facts).learn

    run(ask())


def test_what_is_awaited_shows_what_it_is() -> None:
    """As what it stands for shows itself, and a batch before its block too."""

    async def look() -> None:
        async with await AsyncMemory.open(embedder="words") as memory:
            ada = await memory.key("ada")
            batch = ada.batch()
            assert repr(batch) == "<AsyncBatch before its block>"
            async with batch:
                assert repr(batch) == "<AsyncBatch of <batch of key 'ada'>>"
            notes, talk = await ada.set("notes"), ada.conversation("chat")
            parts = (ada.facts, ada.blocks, ada.short_term, notes.quarantine, memory.knowledge)
            for each in (memory, ada, notes, talk, *parts):
                assert repr(each) == f"<{type(each).__name__} of {each.sync!r}>"
                assert " at 0x" not in repr(each)

    run(look())
