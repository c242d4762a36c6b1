"""What goes wrong with compactions."""

from __future__ import annotations

from fornix.errors.root import Conflict, FornixError, InvalidInput, Unavailable


class InvalidPlan(InvalidInput):
    """A plan of compaction cannot be carried out; the set is as it was.

    Attributes:
        strategy: Whose plan it is: ``module:qualname``, or the name of a built-in one.
    """

    def __init__(self, set_name: str, problem: str, *, strategy: str) -> None:
        self.set_name, self.strategy = set_name, strategy
        super().__init__(
            f"the plan of strategy {strategy!r} for set {set_name!r} {problem}; the set is as it "
            "was; correct the strategy, or redefine() the set with another compaction"
        )


class CompactionChanged(Conflict):
    """A compaction cannot be undone: what it made or retired is not as it was left.

    Attributes:
        compaction: Its id.
    """

    def __init__(self, compaction: int, problem: str) -> None:
        self.compaction = compaction
        super().__init__(f"compaction {compaction} cannot be undone: {problem}")


class StrategyFailed(FornixError):
    """A strategy of compaction raised, or cannot be found in this process; the set is as it was.

    Attributes:
        set_name: The set that it was asked about; "" where it was only looked for.
    """

    def __init__(self, name: str, problem: str, *, set_name: str = "") -> None:
        self.name, self.set_name = name, set_name
        of = f" of set {set_name!r}" if set_name else ""
        super().__init__(
            f"the strategy {name!r}{of} {problem}; the set is as it was; correct the strategy, or "
            "redefine() the set with another compaction"
        )


class SetBusy(Unavailable):
    """Somebody else compacts a set now: another process, or another thread."""

    def __init__(self, set_name: str) -> None:
        self.set_name = set_name
        super().__init__(f"set {set_name!r} is being compacted by somebody else; try again")
