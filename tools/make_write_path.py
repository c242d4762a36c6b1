"""The picture of the write path in docs/design.md: an `add` on a file, as a sequence diagram.

`MESSAGES` names the function behind each message. tests/test_house.py adds an item, and sees that
these functions run in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

PARTS = {
    "your code": "",
    "set": "sets/set_writes.py",
    "queue": "store/commit_queue.py",
    "embedder": "embed",
    "file": "store/sqlite/database_file.py",
    "transaction": "store/sql/transaction.py",
}
"""The columns, each with where it is."""


@dataclass(frozen=True)
class Message:
    """A call from one part to another one, or to itself.

    Attributes:
        runs: The file and the function that run; "" for an answer.
    """

    sender: str
    receiver: str
    text: str
    runs: str = ""


MESSAGES = (
    Message("your code", "set", "add(text)", "sets/set_writes.py add"),
    Message("set", "set", "make the item, check it", "sets/set_writes.py check_adding"),
    Message("set", "queue", "commit(plan)", "store/commit_queue.py commit"),
    Message("queue", "queue", "gather the plans of other threads", "store/commit_queue.py _lead"),
    Message("queue", "embedder", "vectors of all texts", "embed/__init__.py embed_quantised"),
    Message("queue", "file", "commit batches", "store/sqlite/database_file.py _commit_group"),
    Message("file", "file", "lock the file for writing", "store/sqlite/locks.py _take_all"),
    Message("file", "transaction", "begin", "store/sql/transaction.py begun"),
    Message("file", "transaction", "apply each batch", "store/sql/transaction.py apply"),
    Message("transaction", "transaction", "check versions, lease", "store/checks.py check_batch"),
    Message("transaction", "file", "rows of items, sets, journal", "store/sql/writer.py flush"),
    Message("file", "file", "write the log, fsync", "store/sqlite/connection.py settle"),
    Message("file", "queue", "commit 42"),
    Message("queue", "set", "commit 42"),
    Message("set", "your code", "the item"),
)

MARGIN, TOP, COLUMN, STEP = 90, 64, 158, 40
INK, LINE, PAPER, FILL = "#1f2430", "#59627a", "#ffffff", "#eef1f8"


def write_path_picture() -> str:
    """Return the picture as SVG."""
    width = 2 * MARGIN + COLUMN * (len(PARTS) - 1)
    height = TOP + STEP * (len(MESSAGES) + 1)
    columns = {part: MARGIN + COLUMN * number for number, part in enumerate(PARTS)}
    return "\n".join(
        (
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                'font-family="sans-serif" role="img">'
            ),
            "<title>An add, from the call to the disk</title>",
            (
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
                f'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>'
                "</defs>"
            ),
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
            *_parts(columns, height),
            *(line for n, each in enumerate(MESSAGES) for line in _message(each, n, columns)),
            "</svg>\n",
        )
    )


def _parts(columns: dict[str, int], height: int) -> Iterator[str]:
    for part, x in columns.items():
        yield f'<path d="M{x} {TOP}V{height - 12}" stroke="#c5cbd8" stroke-dasharray="3 3"/>'
        yield (
            f'<rect x="{x - 74}" y="14" width="148" height="46" rx="6" fill="{FILL}" '
            f'stroke="{LINE}"/>'
        )
        name = 35 if PARTS[part] else 42
        yield _text(x, name, part, 'font-size="14" font-weight="bold"')
        if path := PARTS[part]:
            short = path.removeprefix("store/sqlite/").removeprefix("store/")
            yield _text(x, 51, short, 'font-size="11"')


def _message(message: Message, number: int, columns: dict[str, int]) -> Iterator[str]:
    y = TOP + STEP * (number + 1)
    begin, end = columns[message.sender], columns[message.receiver]
    dashes = "" if message.runs else ' stroke-dasharray="6 4"'
    style = f'fill="none" stroke="{LINE}" stroke-width="1.4"{dashes} marker-end="url(#tip)"'
    if begin == end:
        side = -1 if message.sender == list(columns)[-1] else 1
        yield f'<path d="M{begin} {y - 12}h{26 * side}v14h{-24 * side}" {style}/>'
        anchor = "start" if side == 1 else "end"
        yield _text(begin + 32 * side, y - 1, message.text, 'font-size="12"', anchor=anchor)
    else:
        gap = 3 if end > begin else -3
        yield f'<path d="M{begin + gap} {y}H{end - gap}" {style}/>'
        yield _text((begin + end) / 2, y - 5, message.text, 'font-size="12"')


def _text(x: float, y: float, text: str, style: str, *, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.0f}" y="{y}" {style} fill="{INK}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
