"""Power is lost: what a disk may hold then is made from what it was told, opened and compared."""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from alveus.errors import NotAStore, StoreDamaged, StoreReadOnly
from alveus.search.index import segment, set_loader
from alveus.store.sqlite import SqliteStore, database_file, maintenance
from disk_laws import Laws
from disk_log import DiskLog, Write, recording
from disk_scenarios import SCENARIOS, Work
from disk_states import kept_all
from made_up_step import add_step
from scale import COUNTS

RAM = Path("/dev/shm")  # noqa: S108 - a folder of one's own is made in it

NORMAL = ["changes", "runs", "forgetting", "searches", "copies", "checkpoints"]

SABOTAGED_STATES = 400


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in RAM, where there is one: thousands of states are written there."""
    with tempfile.TemporaryDirectory(dir=RAM if RAM.is_dir() else tmp_path) as place:
        yield Path(place)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have little enough fill a log or an index, and a migration be there to make."""
    add_step(monkeypatch, tmp_path)
    monkeypatch.setattr(database_file, "CHECKPOINT_PAGES", 60)
    monkeypatch.setattr(set_loader, "LARGE", 20)


def recorded(folder: Path, scenario: str, steps: int = COUNTS.power_steps, **settings: Any) -> Work:
    """Go through a scenario on a recorded disk."""
    root = folder / "recorded"
    root.mkdir()
    with recording(root) as log:
        work = Work(log, random.Random(scenario), steps, **settings)
        SCENARIOS[scenario](work)
    return work


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_power_loss_takes_nothing_that_was_acknowledged(folder, scenario) -> None:
    """Whatever the disk kept of what was not synced: the file is sound, and as of no earlier
    moment than the last acknowledged one; copies are whole; what is scrubbed stays gone."""
    work = recorded(folder, scenario)
    tried = Laws(work, folder / "state").try_states(COUNTS.power_states, seed=scenario)
    assert tried == COUNTS.power_states


@pytest.mark.parametrize("scenario", NORMAL)
def test_power_loss_takes_only_the_last_commits_of_a_normal_store(folder, scenario) -> None:
    """The file is sound, and as it was at some moment; what is scrubbed stays gone all the same."""
    work = recorded(folder, scenario, durability="normal")
    tried = Laws(work, folder / "state").try_states(COUNTS.power_states, seed=f"normal {scenario}")
    assert tried == COUNTS.power_states


def test_a_restore_that_is_cut_short_is_undone_at_the_next_opening(folder) -> None:
    """Killed anywhere in it: who only reads is told what to do, who may write opens the store."""
    work = recorded(folder, "copies", steps=4)
    laws, told = Laws(work, folder / "state"), 0
    cuts = [n for n, op in enumerate(work.log.ops) if isinstance(op, Write)]
    for cut in random.Random("restore").sample(cuts, min(len(cuts), COUNTS.power_states * 3)):
        files = kept_all(work.log, cut)
        if "app.db-journal" in files:
            path = laws.write(files)
            try:
                SqliteStore.open(path, read_only=True).close()
            except (
                StoreReadOnly,
                NotAStore,
                StoreDamaged,
            ) as error:  # the second: it was being made
                told += "was interrupted; open the store once without mode='ro'" in str(error)
            with closing(SqliteStore.open(path)) as store:
                assert store.problems() == []
    assert told


# --- these tests see what they are for ----------------------------------------------------------


class Unsynced:
    """`os` whose fsync does nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        """Do nothing."""


def broken(work: Work, folder: Path) -> str:
    """Return what the laws say is wrong."""
    with pytest.raises(AssertionError) as caught:
        Laws(work, folder / "state").try_states(SABOTAGED_STATES, seed="sabotage")
    return str(caught.value)


def test_a_log_that_is_not_synced_is_seen(folder) -> None:
    """A store that calls itself durable and is not."""
    work = recorded(folder, "changes", 4, durability="normal")
    work.durability = "full"
    said = broken(work, folder)
    assert "seed 'sabotage': power was lost before op" in said
    assert "of what was not synced they hold" in said


def test_a_store_that_never_syncs_is_seen(folder, monkeypatch) -> None:
    """Not even an earlier moment is left of it."""
    monkeypatch.setattr(DiskLog, "sync", lambda _log, _node: None)
    work = recorded(folder, "checkpoints", 4, durability="normal")
    assert "power was lost" in broken(work, folder)


@pytest.mark.parametrize(
    ("module", "name", "scenario", "expected"),
    [
        (segment, "os", "forgetting", "Damaged"),
        (maintenance, "sync_folder", "copies", "copy0.db is lost"),
        (maintenance, "sync_folder", "forgetting", "was forgotten and is in app.db.alveus/index"),
        (SqliteStore, "sync", "searches", "a side file is ahead of the store"),
    ],
)
def test_a_sync_that_is_left_out_is_seen(
    folder, monkeypatch, module, name, scenario, expected
) -> None:
    """Of a side file, of the folder of a backup, of the folder that an index was removed from; of
    what an index was made of."""
    monkeypatch.setattr(module, name, Unsynced() if name == "os" else lambda _place: None)
    steps = 40 if scenario == "searches" else 4  # of few indexes, each may find its log synced
    assert expected in broken(recorded(folder, scenario, steps, durability="normal"), folder)


def test_a_receipt_before_the_checkpoint_is_seen(folder, monkeypatch) -> None:
    """What is "scrubbed" is in the log, or may come back from it."""
    monkeypatch.setattr(maintenance, "empty_log", lambda *_given: [])
    seen = broken(recorded(folder, "forgetting", 4), folder)
    assert re.search(r"was forgotten and is in app\.db(-wal)?\n", seen), seen
