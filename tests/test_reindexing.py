"""Another embedder for a space: everything serves meanwhile, and stopped, it goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alveus import Memory
from alveus.embed import quantise
from alveus.errors import Conflict, EmbedderConflict, InvalidInput, NotAStore, StoreBusy
from alveus.memory.maintenance import BATCH, STAGING, embedder_notes, reindex
from alveus.store import Scope
from alveus.store.sqlite import SqliteStore
from doors import Letters
from waiting import LIMIT_S

MANY = 3 * BATCH + 7


class Backwards(Letters):
    """An embedder whose vectors are those of `Letters`, back to front."""

    def __init__(self, name: str = "backwards") -> None:
        super().__init__(instant=False, name=name)

    def embed(self, texts):
        return super().embed(texts)[:, ::-1]


class Stop(Exception):
    """Ends a reindex in the middle, as a kill would."""


def stop_after(batches: int):
    """Return a progress that stops after so many batches."""
    calls = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total))
        if len(calls) == batches:
            raise Stop

    return progress


def filled(path: Path, embedder: Letters | str) -> None:
    with Memory.open(path, embedder=embedder) as memory:
        memory.key("ada").add_many([f"item {i} abc" for i in range(MANY)])
        memory.key("bob").set("notes").add("bob knows xyz")
        memory.knowledge.set("facts").add("bees dance")
        memory.settle()


def check_vectors(path: Path, embedder: Letters) -> None:
    """Assert that every version of the space has the vectors of *embedder*."""
    with Memory.open(path, embedder=embedder) as memory:
        memory.settle()
        store = memory.store
        keys = list(memory.keys())
        for scope in (Scope("default", None), *(Scope("default", key) for key in keys)):
            for info in store.set_infos(scope):
                features = {f.row: f for f in store.features(info.number)}
                for stored in store.items_by_row(list(features)):
                    vectors = features[stored.row].vectors
                    assert vectors is not None
                    text = stored.record.text or ""
                    expected = quantise(embedder.embed([text])) if text else b""
                    assert vectors == expected, text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


def test_every_version_gets_new_vectors(path: Path) -> None:
    """Live ones and earlier ones, of keys and of knowledge; progress tells how far it is."""
    filled(path, Letters())
    with Memory.open(path, embedder=Letters()) as memory:
        item = memory.key("bob").set("notes").list()[0]
        memory.key("bob").set("notes").update(str(item.id), "bob knows more")
        then = memory.stats().store.commits - 1
    steps: list[tuple[int, int]] = []
    done = Memory.reindex(path, embedder=Backwards(), progress=lambda *step: steps.append(step))
    assert done == MANY + 3
    assert steps[-1] == (MANY + 3, MANY + 3)
    assert steps == sorted(steps)
    check_vectors(path, Backwards())
    with Memory.open(path, embedder=Backwards()) as memory:
        assert memory.stats().pending == 0
        hits = memory.key("bob").search("xyz", as_of=then)
        assert [h.item.text for h in hits] == ["bob knows xyz"]
        assert not hits.partial
        assert memory.store.note(STAGING) is None
    with pytest.raises(EmbedderConflict):
        Memory.open(path, embedder=Letters())


def test_a_blank_text_has_no_vectors_by_any_way(path: Path) -> None:
    """Added, or given another embedder: what Python calls blank is blank, in every script."""
    blank = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    with Memory.open(path, embedder=Letters()) as memory:
        memory.key("ada").add_many([*blank, "".join(blank)])
        memory.key("ada").add("word")
    assert Memory.reindex(path, embedder=Backwards()) == 1
    with Memory.open(path, embedder=Backwards()) as memory:
        assert memory.stats().pending == 0
        found = {f.vectors for f in memory.store.features(1)}
        assert found == {b"", quantise(Backwards().embed(["word"]))}


def test_a_second_memory_adds_and_searches_meanwhile(path: Path) -> None:
    """It goes on with the old embedder until the end; what it added is embedded anew too."""
    filled(path, Letters())
    with Memory.open(path, embedder=Letters()) as memory:
        added: list[str] = []

        def progress(done: int, total: int) -> None:
            number = len(added)
            if number < 5:
                added.append(memory.key("ada").add(f"meanwhile {number}"))
                memory.key(f"new {number}").add("a new key")
                found = memory.key("ada").search(f"meanwhile {number}", limit=1)
                assert found[0].item.id == added[-1]
                if number == 2:
                    memory.key("ada").delete(added[-1])

        assert Memory.reindex(path, embedder=Backwards(), progress=progress) == MANY + 2 + 10
        with pytest.raises(EmbedderConflict):
            memory.key("ada").search("meanwhile")
    check_vectors(path, Backwards())
    with Memory.open(path, embedder=Backwards()) as memory:
        items = memory.key("ada").get(added)
        assert [item is not None for item in items] == [True, True, False, True, True]


def test_interrupted_it_goes_on_where_it_was(path: Path) -> None:
    """What was embedded before is not embedded again; until the end the old embedder serves."""
    filled(path, Letters())
    with pytest.raises(Stop):
        Memory.reindex(path, embedder=Backwards(), progress=stop_after(2))
    with Memory.open(path, embedder=Letters()) as memory:
        assert len(memory.key("ada").search("item", limit=1000)) == MANY
    again = Backwards()
    assert Memory.reindex(path, embedder=again) == MANY + 2 - 2 * BATCH
    assert len(again.asked) == MANY + 2 - 2 * BATCH
    check_vectors(path, Backwards())


HALTING = """
import sys
from pathlib import Path
from alveus import Memory
from test_reindexing import Backwards

def progress(done, total):
    print(done, flush=True)
    if done >= int(sys.argv[2]):
        sys.stdin.read()  # until it is killed

Memory.reindex(Path(sys.argv[1]), embedder=Backwards(), progress=progress)
"""


def test_killed_it_goes_on_where_it_was(path: Path) -> None:
    """While it runs, and after SIGKILL, the old embedder serves; nothing is embedded twice."""
    filled(path, Letters())
    worker = subprocess.Popen(
        [sys.executable, "-c", HALTING, str(path), str(2 * BATCH)],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with worker:
        assert worker.stdout is not None
        assert [int(worker.stdout.readline()) for _ in range(2)] == [BATCH, 2 * BATCH]
        with Memory.open(path, embedder=Letters()) as memory:
            hits = memory.key("bob").search("xyz")
            assert (hits[0].item.text, hits.partial) == ("bob knows xyz", False)
            assert hits[0].parts["meaning"] > 0
            memory.key("bob").add("added meanwhile")
        worker.kill()
    with Memory.open(path, embedder=Letters()) as memory:
        assert len(memory.key("ada").search("item", limit=1000)) == MANY
    again = Backwards()
    assert Memory.reindex(path, embedder=again) == MANY + 3 - 2 * BATCH
    assert len(again.asked) == MANY + 3 - 2 * BATCH
    check_vectors(path, Backwards())


def test_resumed_with_another_target_it_begins_anew(path: Path) -> None:
    """Vectors of two embedders never get mixed: what was staged for the first is dropped."""
    filled(path, Letters())
    with pytest.raises(Stop):
        Memory.reindex(path, embedder=Backwards(), progress=stop_after(2))
    third = Letters(name="third", instant=False)
    assert Memory.reindex(path, embedder=third) == MANY + 2
    check_vectors(path, third)


def test_from_words_to_letters_and_back(path: Path) -> None:
    """An embedder without vectors is one too: going there drops them, coming back makes them."""
    filled(path, "words")
    with Memory.open(path) as memory:
        memory.key("ada").add({"text": "", "n": 1})
        assert memory.stats().pending == 0
    assert Memory.reindex(path, embedder=Letters()) == MANY + 2
    check_vectors(path, Letters())
    with Memory.open(path, embedder=Letters()) as memory:
        hits = memory.key("bob").search("zyx")
        assert [h.item.text for h in hits] == ["bob knows xyz"]
        assert hits[0].parts["meaning"] > 0
    assert Memory.reindex(path, embedder="words") == MANY + 2
    with Memory.open(path) as memory:
        assert memory.embedder.name == "words"
        assert memory.key("bob").search("zyx") == ()
        assert [h.item.text for h in memory.key("bob").search("xyz")] == ["bob knows xyz"]


def test_other_spaces_are_left_alone(path: Path) -> None:
    """A space is embedded anew with the knowledge that it names, and nothing else."""
    filled(path, Letters())
    with Memory.open(path, space="other", embedder=Letters()) as memory:
        memory.key("ada").add("other")
    assert Memory.reindex(path, space="other", embedder=Backwards()) == 1
    with Memory.open(path, embedder=Letters()) as memory:
        assert len(memory.key("ada").search("item", limit=1000)) == MANY
    with Memory.open(path, space="other", embedder=Backwards()) as memory:
        assert [h.item.text for h in memory.key("ada").search("other")] == ["other"]


def test_a_space_that_got_another_embedder_meanwhile_is_refused(path: Path) -> None:
    """Nothing is put in place over what somebody else made."""
    filled(path, Letters())
    notes = embedder_notes("default", "default")

    store = SqliteStore.open(path)
    other = SqliteStore.open(path)

    def meddle(done: int, total: int) -> None:
        other.put_note(notes[0], "somebody's", expected="letters")

    with pytest.raises(Conflict, match="meanwhile"):
        reindex(store, space="default", knowledge="default", embedder=Backwards(), progress=meddle)
    other.put_note(notes[0], "letters", expected="somebody's")
    other.close()
    store.close()
    check_vectors(path, Letters())


class CutOff(SqliteStore):
    """A store that gets a new set just before vectors are swapped, and ends just after."""

    def use_staged_vectors(self, set_numbers, *, notes, scopes=()):
        with Memory.open(self.location, embedder=Letters()) as memory:
            memory.key("late").add("abc")
        super().use_staged_vectors(set_numbers, notes=notes, scopes=scopes)
        raise Stop


def test_a_set_that_is_made_last_keeps_no_vectors_of_the_old_embedder(path: Path) -> None:
    """It waits for those of the new one, also where the process dies at the swap."""
    filled(path, Letters())
    store = CutOff.open(path)
    with pytest.raises(Stop):
        reindex(store, space="default", knowledge="default", embedder=Backwards())
    store.close()
    with Memory.open(path, embedder=Backwards()) as memory:
        assert memory.settle()
    check_vectors(path, Backwards())


def test_two_at_once_are_one_after_the_other(path: Path) -> None:
    """The second waits, bounded; then it is told who is at it. Vectors never get mixed."""
    filled(path, Letters())
    third = Letters(name="third", instant=False)
    told: list[str] = []

    def interrupt(done: int, total: int) -> None:
        with pytest.raises(StoreBusy, match=rf"process {os.getpid()} .*{path}.*ended") as caught:
            Memory.reindex(path, embedder=third, wait_s=0)
        told.append(str(caught.value))

    assert Memory.reindex(path, embedder=Backwards(), progress=interrupt) == MANY + 2
    assert len(told) == MANY // BATCH + 1
    check_vectors(path, Backwards())
    with ThreadPoolExecutor() as threads:
        fourth = Letters(name="fourth", instant=False)
        work = [
            threads.submit(Memory.reindex, path, embedder=e, wait_s=LIMIT_S)
            for e in (third, fourth)
        ]
        assert [w.result() for w in work] == [MANY + 2] * 2
    store = SqliteStore.open(path)
    last = store.note(embedder_notes("default", "default")[0])
    store.close()
    check_vectors(path, third if last == "third" else fourth)


def test_bad_requests_change_nothing(path: Path) -> None:
    """No such embedder, not a store."""
    filled(path, Letters())
    with pytest.raises(InvalidInput, match="nobody"):
        Memory.reindex(path, embedder="nobody")
    text = path.with_name("text")
    text.write_text("hello " * 1000)
    with pytest.raises(NotAStore):
        Memory.reindex(text, embedder="words")
    check_vectors(path, Letters())


def test_a_memory_in_ram_has_nothing_to_embed() -> None:
    """It is empty each time that it is opened."""
    assert Memory.reindex(":memory:", embedder="words") == 0
