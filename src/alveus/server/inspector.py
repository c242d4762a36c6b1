"""The inspector: its routes (changes, lineage, growth, quarantine), and its pages.

The pages are static files of the package, with a strict content policy. They load nothing from
other hosts and contain no data: they request it from the public API with the user's token.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from itertools import accumulate, islice
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from alveus import __version__
from alveus.errors import NotFound
from alveus.memory.memory import Memory
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server import schemas
from alveus.server.answers import StrictRoute
from alveus.server.calls import make
from alveus.server.middleware import has_last_slash
from alveus.server.routes import (
    RESPONSES,
    Asking,
    Document,
    InKey,
    InOwner,
    InSet,
    RequestedSet,
    run_of,
)
from alveus.server.traces import Trace, readings, relatives
from alveus.sets.forgetting import ForgottenKeys, is_bare
from alveus.store.scope import Scope, SetRef
from alveus.store.times import FOREVER
from alveus.values.storable import moment
from alveus.values.times import format_time

GROWTH_POINTS = 48
"""Moments between the first and the last commit for which the growth is reported."""

MOST_COMMITS = 50
"""The most commits of one response, each with its changes."""

COMMITS_LOOKED_THROUGH = 500
"""The most commits read for one response, including commits of other spaces."""

MOST_SHOWN = 200
"""The most items on each side of a compaction in one response."""

KEYS_LOOKED_THROUGH = 500
"""The most keys whose quarantine one response lists."""

MOST_POINTS = 100_000
"""The most points of a map in one response. Of more items, an even sample is returned."""

MAP_DIGITS = 4
"""Digits of coordinates, which are between -1 and 1. A screen cannot show more digits."""

MOST_MOMENTS = 2_000
"""The most commits of a key's exact memory in one response: the last ones."""

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=RESPONSES)

CommitNumber = Annotated[int, Query(ge=0, lt=1 << 62)]


@router.get("/journal", tags=["history"], **schemas.answers(schemas.CommitPage))
def list_commits(
    caller: Asking,
    space: asked.Space = asked.DEFAULT,
    before: Annotated[int | None, Query(ge=1, lt=1 << 62)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_COMMITS)] = 20,
) -> Document:
    """Return the changes of a space's last commits. For the next page, send `next` as `before`.

    Commits of other spaces are omitted. If there are many, a page may have fewer than `limit`.
    """
    memory = caller.whole(space)
    last = memory.store.commit_at(FOREVER) + 1
    start = last if before is None else min(before, last)
    spaces = {True: memory.knowledge.name, False: memory.space}
    forgotten = ForgottenKeys(memory.store, after=max(0, start - COMMITS_LOOKED_THROUGH - 1))
    shown: list[Document] = []
    number = start
    while number > 1 and len(shown) < limit and start - number < COMMITS_LOOKED_THROUGH:
        number -= 1
        done = memory.store.effects(number)
        if (
            done is not None
            and done.scope.space == spaces[done.scope.key is None]
            and not (is_bare(done) and forgotten.cover(number, done.scope))
        ):
            shown.append(forms.commit_fields(done))
    return {"commits": shown, "next": number if number > 1 else None}


@router.get("/growth", tags=["history"])
def read_growth(caller: Asking, space: asked.Space = asked.DEFAULT) -> Document:
    """Return the growth of the store, at moments from its first to its last commit.

    `commits` counts all commits up to a moment. `items` counts the items that exist now and were
    created up to that moment. Both cover all spaces, so a token limited to one space is refused.
    """
    store = caller.all_spaces(space).store
    last = store.commit_at(FOREVER)
    if last == 0:
        return {"points": []}
    first, end = store.time_of_commit(1) or store.time_of_commit(last), store.time_of_commit(last)
    times = [first + (end - first) * part // GROWTH_POINTS for part in range(GROWTH_POINTS + 1)]
    added = store.live_items_by_commit()
    numbers, sums = [number for number, _ in added], [0, *accumulate(items for _, items in added)]
    points: list[Document] = []
    for time in sorted(set(times)):
        commits = store.commit_at(time)
        items = sums[bisect_right(numbers, commits)]
        points.append({"time": format_time(moment(time)), "commits": commits, "items": items})
    return {"points": points}


@router.get("/spaces", tags=["keys"])
def list_spaces(caller: Asking, space: asked.Space = asked.DEFAULT) -> Document:
    """List the spaces of the store that the caller may see."""
    if caller.token.space is not None:
        return {"spaces": [caller.token.space]}
    return {"spaces": sorted({*caller.whole(space).store.spaces(), space})}


@router.get("/facts/entities", tags=["facts"])
def list_entities(at: InKey) -> Document:
    """List the entities with facts in a key, with their number of facts."""
    return {"entities": at.open("read").facts.entities()}


@router.get("/exact/commits", tags=["history"])
def commits_of_tree(at: InKey) -> Document:
    """List the commits that changed the exact memory of a key, oldest first."""
    key = at.open("read")
    store = key.engine.store
    numbers = store.node_commits(Scope(key.space, key.key), ())
    return {
        "commits": [
            {"number": number, "time": format_time(moment(store.time_of_commit(number)))}
            for number in numbers[-MOST_MOMENTS:]
        ],
        "more": len(numbers) > MOST_MOMENTS,
    }


@router.get("/exact/changes", tags=["history"])
def changes_of_tree(
    at: InKey, since: CommitNumber, until: Annotated[CommitNumber | None, Query()] = None
) -> Document:
    """Return the changes in a key's exact memory between two commits, or until now."""
    return make("key.diff", at.open("read"), a=since, b=until, sets=[])


@router.get("/map", tags=["search"], **schemas.answers(schemas.ItemMap))
def map_of_items(
    at: InOwner,
    sets: Annotated[list[str] | None, Query(description="Their names; none: all.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_POINTS)] = MOST_POINTS,
) -> Response:
    """Return a map of items, similar ones close together, as columns of one length.

    `set` and `speaker` are indexes in `sets` and `speakers`; -1 means no speaker. `times` are in
    seconds.
    """
    points = at.open("read").points(sets=sets, limit=limit)
    set_names = sorted({*points.sets})
    speakers = sorted({name for name in points.speakers if name is not None})
    of_set = {name: number for number, name in enumerate(set_names)}
    of_speaker: dict[str | None, int] = {name: number for number, name in enumerate(speakers)}
    columns: Document = {
        "ids": [*points.ids],
        "x": points.x.round(MAP_DIGITS).tolist(),
        "y": points.y.round(MAP_DIGITS).tolist(),
        "times": points.times.astype("datetime64[s]").astype("int64").tolist(),
        "sets": set_names,
        "set": [of_set[name] for name in points.sets],
        "speakers": speakers,
        "speaker": [of_speaker.get(name, -1) for name in points.speakers],
        **forms.attributes(points, "share unplaced left_out"),
    }
    # Columns of a hundred thousand plain values: FastAPI would validate each one.
    return Response(json.dumps(columns, separators=(",", ":")), media_type="application/json")


@router.post("/items/get", tags=["items"])
def read_items(at: InSet, body: asked.ItemIds) -> Document:
    """Read items by their ids. The result has the order of the ids, with null for a missing item.

    The read does not count as a use of the items, because only a person sees them.
    """
    of = at.open("read")
    last = at.owner.caller.memories.of(at.owner.space).store.commit_at(FOREVER)
    return at.shown({"items": make("set.get", of, ids=body.ids, as_of=last)})


@router.get("/item/lineage", tags=["history"])
def read_lineage(at: InSet, id: asked.ItemId) -> Document:
    """Return an item's sources to any depth as a graph: nodes, and edges as pairs of indexes."""
    return forms.fields_of(at.open("read").inside.lineage(id, may_see=at.may_see))


@router.get("/item/relatives", tags=["history"])
def list_relatives(at: InSet, id: asked.ItemId) -> Document:
    """Return an item's sources and derived items as a graph: nodes, and edges as index pairs."""
    return relatives(*_within(at), id, may_see=at.may_see)


@router.get("/item/readings", tags=["history"])
def list_readings(at: InSet, id: asked.ItemId) -> Document:
    """List the steps of the key's last runs that read an item, with the queries that found it."""
    memory, ref = _within(at)
    return {"readings": [] if ref.scope.key is None else readings(memory.store, ref, id)}


def _within(at: RequestedSet) -> tuple[Memory, SetRef]:
    """Return the memory and the store's reference of the set, if the caller may read it."""
    at.open("read")
    memory, key = at.owner.caller.memories.of(at.owner.space), at.owner.key
    scope = Scope(memory.knowledge.name, None) if key is None else Scope(memory.space, key)
    return memory, SetRef(scope, at.name)


@router.get("/compaction", tags=["history"])
def read_compaction(
    at: InSet, id: Annotated[int, Query(description="The id of a compaction.", ge=1, lt=1 << 62)]
) -> Document:
    """Return the items that a compaction retired and added, up to `MOST_SHOWN` of each."""
    memory, ref = _within(at)
    store = memory.store
    done = store.compaction(id)
    if done is None or done.set != ref:
        raise NotFound(f"set {at.name!r} has no compaction {id}")
    before, after = (
        [
            {"id": stored.record.id, "version": stored.version, "text": stored.record.text}
            for stored in store.items_by_row(rows[:MOST_SHOWN])
        ]
        for rows in (done.retired, done.added)
    )
    more = sum(max(0, len(rows) - MOST_SHOWN) for rows in (done.retired, done.added))
    return {"before": before, "after": after, "more": more}


@router.get("/run", tags=["runs"])
def read_run(caller: Asking, run: asked.RunId, space: asked.Space = asked.DEFAULT) -> Document:
    """Return the trace of a run: each step with its reads, writes, calls and outputs."""
    memory = caller.whole(space)
    row = run_of(memory, run)
    fields = forms.run_fields(row) | {"error": forms.error_of(row)}
    return {**fields, **Trace(memory, row).document()}


@router.get("/quarantine", tags=["quarantine"], **schemas.answers(schemas.HeldList))
def list_quarantine(at: InOwner, limit: asked.Count = 100) -> Document:
    """List the quarantined items of a key, or of knowledge."""
    held = make("quarantine.list", at.open("read").quarantine, limit=limit)
    return at.shown({"held": held})


@router.get("/quarantine/all", tags=["quarantine"])
def list_all_quarantine(
    caller: Asking, space: asked.Space = asked.DEFAULT, after: str | None = None
) -> Document:
    """List the quarantined items of all keys and of knowledge, some keys at a time.

    For the next page, send `next` of the last response as `after`.
    """
    memory = caller.whole(space)
    keys = list(islice(memory.keys(after=after), KEYS_LOOKED_THROUGH))
    owners = [*([None] if after is None else []), *keys]
    held = [
        forms.fields_of(each) | {"key": key}
        for key in owners
        for each in (memory.knowledge if key is None else memory.key(key)).quarantine.list()
    ]
    return {"held": held, "next": keys[-1] if len(keys) == KEYS_LOOKED_THROUGH else None}


@router.post("/quarantine/release", tags=["quarantine"], **schemas.answers(schemas.HeldId))
def release_held(
    at: InOwner, id: asked.ItemId, idempotency_key: asked.Repeatable = None
) -> Document:
    """Move an item from quarantine to its set."""
    return {"id": at.open("write").quarantine.release(id, idempotency_key=idempotency_key)}


@router.post("/quarantine/discard", tags=["quarantine"], **schemas.answers(schemas.HeldId))
def discard_held(
    at: InOwner, id: asked.ItemId, idempotency_key: asked.Repeatable = None
) -> Document:
    """Discard an item in quarantine."""
    at.open("write").quarantine.discard(id, idempotency_key=idempotency_key)
    return {"id": id}


# --- pages ----------------------------------------------------------------------------------------

FILES = Path(__file__).with_name("ui")

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content policy of the pages: only the package's scripts run, and no text becomes markup."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def add_inspector(app: FastAPI, *, space: str, writes: bool) -> None:
    """Add the inspector to an app at ``/ui``.

    Args:
        space: The space to show.
        writes: Whether the pages offer to change the memory. The app and its tokens decide which
            changes are allowed.
    """
    files = {path.name: path.read_bytes() for path in FILES.iterdir() if path.suffix in KINDS}

    @app.get("/ui/settings", include_in_schema=False)
    def settings() -> dict[str, object]:
        return {
            "version": __version__,
            "space": space,
            "writes": writes,
            "needs_token": app.state.tokens is not None,
        }

    @app.get("/ui", include_in_schema=False)
    def first_page(request: Request) -> Response:
        # The redirect is relative, as are the names of files in the page, which need the slash.
        return page("index.html") if has_last_slash(request.scope) else RedirectResponse("ui/")

    @app.get("/ui/{name}", include_in_schema=False)
    def page(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "there is no such page")
        return Response(files[name], headers=HEADERS, media_type=KINDS[Path(name).suffix])

    for route in (first_page, settings, page):
        assert callable(route)  # noqa: S101 - they are used by name
