"""The contracts of sets, batches and exact memory, over HTTP: the same tests, word for word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import ModuleType
from typing import Any

import pytest

import test_admission
import test_batch
import test_dialogue
import test_exact_memory
import test_sets
from alveus import KeyMemory, Memory, MemoryObject
from alveus.conversation import ConversationMemory
from alveus.embed import Embedder
from alveus.server.callers import Memories
from test_server import ServedHere
from waiting import LIMIT_S

LEFT_OUT = {
    "test_the_past_can_be_read": "asks the store",
    "test_the_past_does_not_show_what_is_pending": "asks for figures of the store",
    "test_all_of_it_is_one_commit": "the same",
    "test_a_block_that_raises_changes_nothing": "the same",
    "test_a_batch_without_changes_is_no_commit": "the same",
    "test_a_batch_under_a_key_is_done_once": "the same",
    "test_sets_are_told_apart_and_compared": "shows the name of the class",
    "test_a_wrong_keyword_is_answered_with_the_nearest_one": "the same",
    "test_what_is_held_is_in_no_search_listing_or_export": "the same",
    "test_a_released_item_is_in_its_set_as_it_was_meant": "the same",
    "test_actions_are_checked_with_what_they_added_themselves": "runs where the store is",
    "test_an_action_begins_anew_if_others_added_the_same_meanwhile": "the same",
    "test_a_rule_that_fails_is_an_error_and_nothing_is_added": "has rules of its own",
    "test_a_full_set_with_rules_makes_room_and_takes_what_they_let_in": "has others add to a set "
    "that a batch makes room in, which refuses the batch",
    "test_a_batch_counts_what_it_lists_though_others_delete_what_it_changed": "has others change "
    "what a batch changed, which refuses the batch at its next read",
    "test_in_an_action": "runs where the store is",
    "test_no_commit_of_a_long_compression_parts_a_call_from_its_answer": "has its own summariser",
    "test_a_summariser_of_ones_own": "the same",
    "test_a_summariser_that_does_wrong_is_stood_in_for": "the same",
    "test_a_summary_and_what_it_is_not_of_are_read_at_one_moment": "the same",
    "test_contents_of_any_kind_and_urls_are_told": "has an agent's memory, which needs the store",
    "test_rules_of_admission_hold_for_a_memory_of_messages": "the same",
    "test_a_memory_of_messages_reads_a_conversation": "the same",
    "test_update_compares_and_sets": "takes a NaN for itself, and not for one that was sent",
}
"""Tests that cannot hold over HTTP, and why; `test_client` has what takes their places."""


def contract(module: ModuleType, fixtures: set[str]) -> Mapping[str, Callable[..., Any]]:
    """Return the tests of a module that use one of the fixtures that are here over HTTP."""
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_")
        and name not in LEFT_OUT
        and fixtures.intersection(test.__code__.co_varnames[: test.__code__.co_argcount])
    }


MODULES = (test_admission, test_sets, test_batch, test_exact_memory, test_dialogue)

globals().update(contract(test_sets, {"ada", "memory"}))
globals().update(contract(test_batch, {"ada", "memory"}))
globals().update(contract(test_exact_memory, {"m"}))
globals().update(contract(test_admission, {"memory"}))
globals().update(contract(test_dialogue, {"talk", "key"}))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    made = ServedHere(tmp_path_factory.mktemp("served"))
    yield made
    made.stop()


@pytest.fixture
def memory(
    served: ServedHere, clock: Callable[[], datetime], embedder: Embedder | str
) -> Iterator[Memory]:
    """Return the memory behind a server, which opened it with the clock of the test."""
    state, before = served.app.state, served.app.state.memories
    with Memory.open(embedder=embedder, clock=clock, wait_s=LIMIT_S) as inner:
        state.memories = Memories(lambda _: inner)
        with Memory.open(f"http://127.0.0.1:{served.port}") as memory:
            yield memory
        state.memories = before


@pytest.fixture
def ram(memory: Memory) -> Memory:
    return memory


@pytest.fixture
def m(ada: KeyMemory) -> MemoryObject:
    return ada.short_term


@pytest.fixture
def key(ada: KeyMemory) -> KeyMemory:
    return ada


@pytest.fixture
def talk(key: KeyMemory) -> ConversationMemory:
    return key.conversation("talk")


def test_what_is_left_out_is_there():
    """A name that no test has any more is taken off the list."""
    names = {name for module in MODULES for name in vars(module)}
    assert set(LEFT_OUT) <= names
