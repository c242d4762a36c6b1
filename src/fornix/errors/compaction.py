"""What goes wrong with compactions."""

from __future__ import annotations

from fornix.errors.root import Conflict, FornixError, InvalidInput, Unavailable


class InvalidPlan(InvalidInput):
    """A plan of compaction cannot be carried out; the set is as it was."""

    def __init__(self, set_name: str, problem: str) -> None:
        self.set_name = set_name
        super().__init__(f"the plan for set {set_name!r} {problem}; the set is as it was")


class CompactionChanged(Conflict):
    """A compaction cannot be undone: what it made or retired is not as it was left.

    Attributes:
        compaction: Its id.
    """

    def __init__(self, compaction: int, problem: str) -> None:
        self.compaction = compaction
        super().__init__(f"compaction {compaction} cannot be undone: {problem}")


class StrategyFailed(FornixError):
    """A strategy of compaction raised, or cannot be found in this process; the set is as it was."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"the strategy {name!r} {problem}; the set is as it was")


class SetBusy(Unavailable):
    """Somebody else compacts a set now: another process, or another thread."""

    def __init__(self, set_name: str) -> None:
        self.set_name = set_name
        super().__init__(f"set {set_name!r} is being compacted by somebody else; try again")
