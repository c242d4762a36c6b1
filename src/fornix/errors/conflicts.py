"""What somebody else did first."""

from __future__ import annotations

from fornix.errors.root import Conflict


class StaleRun(Conflict):
    """The exact tree of a key moved on since it was read, its lease was taken over, or its run.

    Attributes:
        expected, found: Numbers of commits or epochs; of a run that moved on, its status.
    """

    def __init__(
        self, key: str, *, expected: int | str, found: int | str, what: str = "commit"
    ) -> None:
        self.key, self.expected, self.found = key, expected, found
        super().__init__(
            f"key {key!r}: this work started from {what} {expected}, "
            f"but {what} {found} is now the latest; read again and repeat it"
            if isinstance(found, int)
            else f"key {key!r}: {what} is {found}, not {expected}; look at it again"
        )


class StaleItem(Conflict):
    """An item changed, or was deleted, since the version that a change was based on."""

    def __init__(self, item_id: str, *, expected: int, found: int | None) -> None:
        self.item_id, self.expected, self.found = item_id, expected, found
        now = "it is gone" if found is None else f"version {found} is now the latest"
        super().__init__(
            f"item {item_id!r}: the change was based on version {expected}, but {now}; "
            "get it again and repeat the change"
        )


class DuplicateItem(Conflict):
    """An id is already in the set."""

    def __init__(self, item_id: str, *, set_name: str) -> None:
        self.item_id, self.set_name = item_id, set_name
        super().__init__(
            f"set {set_name!r} already has an item {item_id!r}; "
            "pass on_existing='keep' or 'update', or another id"
        )


class IdempotencyConflict(Conflict):
    """An idempotency key, or an event id, was used before, for a different request."""

    def __init__(self, idempotency_key: str, *, what: str = "idempotency key") -> None:
        self.idempotency_key = idempotency_key
        super().__init__(
            f"{what} {idempotency_key!r} was used before with other arguments; "
            "repeat the request exactly, or use a new one"
        )


class SetDefinitionConflict(Conflict):
    """A set exists with a definition other than the one asked for."""

    def __init__(self, set_name: str, *, asked: object, found: object) -> None:
        self.set_name, self.asked, self.found = set_name, asked, found
        super().__init__(
            f"set {set_name!r} exists with {found}, not {asked}; "
            "open it without these arguments, or change it with redefine()"
        )


class SetMoved(Conflict):
    """A set got other items or other rules of admission since what is added to it was checked."""

    def __init__(self, set_name: str, *, what: str = "other items") -> None:
        self.set_name = set_name
        super().__init__(
            f"set {set_name!r} got {what} since what is to be added to it was checked; repeat it"
        )


class EmbedderConflict(Conflict):
    """A space, or a knowledge, remembers another embedder than the one that is used.

    Attributes:
        note: The note that remembers it: ``embedder of`` a space or knowledge, and its name.
    """

    def __init__(self, note: str, *, asked: str, found: str) -> None:
        self.note, self.asked, self.found = note, asked, found
        kind, _, name = note.removeprefix("embedder of ").partition(" ")
        super().__init__(
            f"{kind} {name!r} holds vectors of the embedder {found!r}, not {asked!r}; open it with "
            f"embedder={found!r}, or re-embed it: fornix reindex --embedder {asked}"
        )


class CompareFailed(Conflict):
    """Compare-and-set found another value than the expected one."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path!r} does not hold the expected value; read it again and repeat")
