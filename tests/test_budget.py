"""Budgets: how many tokens there are, and what belongs together stays together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus.errors import BudgetTooSmall, InvalidInput
from alveus.text.budget import Budget, Unit, units
from alveus.text.messages import Message

CALLS = st.lists(st.sampled_from("abc"), max_size=2).map(tuple)
MESSAGES = st.builds(Message, st.text(max_size=5), calls=CALLS, answers=CALLS)
PARTS = st.lists(st.lists(MESSAGES, min_size=1, max_size=2), max_size=8)


def _said(content: str = "…", *, calls: str = "", answers: str = "") -> Message:
    return Message(content, calls=tuple(calls), answers=tuple(answers))


@given(PARTS)
def test_each_part_is_in_one_unit(parts: list[list[Message]]) -> None:
    """Units divide the parts: none is left out, none is there twice, and all are in order."""
    found = units(parts)
    places = [place for unit in found for place in unit.positions]
    assert sorted(places) == list(range(len(parts)))
    assert [unit.positions[0] for unit in found] == sorted(unit.positions[0] for unit in found)
    assert all(list(unit.positions) == sorted(unit.positions) for unit in found)


@given(PARTS)
def test_a_call_and_its_answers_are_one_unit(parts: list[list[Message]]) -> None:
    """What answers a call is in the unit of the part that asked for it last, or lacks it."""
    unit_of = {place: unit for unit in units(parts) for place in unit.positions}
    asked: dict[str, int] = {}
    for place, part in enumerate(parts):
        for message in part:
            for call in message.answers:
                if call in asked:
                    assert unit_of[asked[call]] is unit_of[place]
                else:
                    assert call in unit_of[place].lacks
            asked |= dict.fromkeys(message.calls, place)


def test_an_id_that_is_used_again_is_another_call() -> None:
    """Some models number their calls anew in each turn: that does not join the turns."""
    turn = [_said(calls="a")], [_said(answers="a")]
    assert units([*turn, *turn]) == [Unit((0, 1)), Unit((2, 3))]


def test_an_answer_without_its_call_says_so() -> None:
    """The call may be on an earlier page, or gone; what is to be done is for the caller."""
    assert units([[_said(answers="ab")], [_said()]]) == [Unit((0,), ("a", "b")), Unit((1,))]


def test_a_budget_says_what_is_left() -> None:
    """What is always there is taken off; where it alone is more, that is an error with figures."""
    budget = Budget(10, counter=len, message_tokens=1)
    assert budget.remaining([Message("abc")]) == 6
    assert Budget().remaining([Message("abc")]) is None
    assert Budget.of(budget) is budget
    assert Budget.of(7) == Budget(7)
    with pytest.raises(BudgetTooSmall, match="11"):
        budget.remaining([Message("0123456789")])


@pytest.mark.parametrize("counted", [-1, True, "3", 2.0, None])
def test_a_counter_that_does_not_count_is_refused(counted: object) -> None:
    """A counter is the user's own code: what it returns is checked."""
    with pytest.raises(InvalidInput, match="token counter"):
        Budget(10, counter=lambda _: counted).count("x")  # pyright: ignore[reportArgumentType] - wrong on purpose


@pytest.mark.parametrize("given", [0, -1, True, "9", 1.5])
def test_a_budget_that_is_none_is_refused(given: object) -> None:
    """A budget is a number of tokens from 1 on."""
    with pytest.raises(InvalidInput, match="budget_tokens"):
        Budget.of(given)  # pyright: ignore[reportArgumentType] - wrong on purpose
    with pytest.raises(InvalidInput, match="counter"):
        Budget(9, counter="words")  # pyright: ignore[reportArgumentType] - wrong on purpose
