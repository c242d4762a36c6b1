"""The page of spans and metrics: its tables, from the catalogue that the code exports by.

What stands before the first table is written by hand, in docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from alveus.telemetry.catalogue import ATTRIBUTES, DURABLE_CALL, EVENT_ATTRIBUTES, METRICS, SPANS

MARK = "<!-- From here on written by tools/make_metrics.py. Change alveus/telemetry/catalogue.toml: `make docs`. -->"  # noqa: E501 - a line of the page


def metrics_page(page: str) -> str:
    """Return the page, with the text of *page* and tables of today."""
    return page.partition(MARK)[0] + MARK + "\n\n" + "\n".join(_tables()) + "\n"


def _tables() -> Iterator[str]:
    yield from ("## Spans", "", "| span | what it is | attributes |", "|---|---|---|")
    for span in SPANS:
        yield f"| `{span.name}` | {span.meaning} | {_names(span.attributes)} |"
    meaning = "A durable call returned, raised, or was replayed; on the span of its action"
    yield from ("", "## Events", "", "| event | what it is | attributes |", "|---|---|---|")
    yield f"| `{DURABLE_CALL}` | {meaning} | {_names(EVENT_ATTRIBUTES)} |"
    yield from ("", "## Metrics", "")
    yield from ("| metric | kind | unit | what it is | attributes |", "|---|---|---|---|---|")
    for one in METRICS:
        unit, names = f"`{one.unit}`", _names(one.attributes)
        yield f"| `{one.name}` | {one.kind} | {unit} | {one.meaning} | {names} |"
    yield from ("", "## Attributes", "")
    yield "Attributes marked as content are exported only with `content=True`, and only on spans."
    yield from ("", "| attribute | type | what it is | content |", "|---|---|---|---|")
    for each in ATTRIBUTES:
        content = "yes" if each.content else ""
        yield f"| `{each.name}` | {each.type} | {each.meaning} | {content} |"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
