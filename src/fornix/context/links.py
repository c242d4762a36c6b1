"""What is linked to what was found: so many hops away, worth less with each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


def expanded(
    hits: Mapping[str, float],
    neighbours: Callable[[str], Iterable[str]],
    *,
    hops: int,
    decay: float,
    cap: int,
) -> dict[str, float]:
    """Return *hits* with what is linked to them, and what each is worth, best first.

    What is linked is worth the best of the ways to it: what the hit at its beginning is worth,
    times *decay* for each hop. Of equals the later id comes first. Circles end where a way is no
    better than one before.

    Args:
        neighbours: Returns the ids that are linked to one.
        hops: How far away.
        cap: The most that are returned besides *hits*, the best.
    """
    found = dict(hits)
    edge = set(found)
    for _ in range(hops):
        reached: dict[str, float] = {}
        for one in edge:
            worth = found[one] * decay
            for other in neighbours(one):
                if worth > max(found.get(other, 0.0), reached.get(other, 0.0)):
                    reached[other] = worth
        found |= reached
        edge = set(reached)
    linked = _best_first({one: worth for one, worth in found.items() if one not in hits})
    return dict(_best_first({one: found[one] for one in hits} | dict(linked[:cap])))


def _best_first(worth: Mapping[str, float]) -> list[tuple[str, float]]:
    newest = sorted(worth.items(), reverse=True)
    return sorted(newest, key=lambda pair: -pair[1])
