"""Pictures of values by matplotlib (extra ``alveus[plot]``).

No window is opened, and matplotlib's `pyplot` is not used. Text and background follow matplotlib's
style, so ``dark_background`` makes dark figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeAlias, cast
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from alveus.errors import Unsupported
from alveus.values.html import MANY_COLOURS, OTHER, one_line, part_colours

try:
    from matplotlib import dates, font_manager, rcParams
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
except ImportError as error:
    raise Unsupported(
        f"pictures need the package {error.name}, which is not installed; run: "
        "pip install 'alveus[plot]'"
    ) from None

Untyped: TypeAlias = Any
"""Objects of matplotlib, whose types are mostly unknown."""

_DATES, _FONTS = cast("Untyped", dates), cast("Untyped", font_manager)

DPI = 144
"""Resolution of a picture in a notebook. It is shown at half size, so that it is sharp."""

LABEL_CHARACTERS = 48
"""Most characters of a text beside a bar, or of a name in a legend."""

MISSING = "□"
"""Replaces a character that no font has."""

BOXES = "Last Resort"
"""A font of matplotlib that shows a box for every character."""


class Picture(Figure):
    """A figure that any notebook shows, even without matplotlib's setup for notebooks."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file, figure = BytesIO(), cast("Untyped", self)
        figure.savefig(file, format="png", dpi=DPI)
        width, height = self.get_size_inches()
        return file.getvalue(), {"width": round(width * DPI / 2), "height": round(height * DPI / 2)}


def score_bars(scores: Sequence[tuple[str, Mapping[str, float]]]) -> Picture:
    """Return a picture with a bar for each text, made of the parts of its score.

    The bar of the first text is at the top.
    """
    figure, axes = _empty_picture(height=1.2 + 0.4 * len(scores))
    if not scores:
        return _saying(figure, axes, "no hits")
    colours = part_colours(parts for _, parts in scores)
    heights = np.arange(len(scores))
    above, below = np.zeros(len(scores)), np.zeros(len(scores))
    for name, colour in colours.items():
        parts = np.array([parts.get(name, 0.0) for _, parts in scores])
        starts = np.where(parts < 0, below, above)
        axes.barh(heights, parts, left=starts, height=0.6, color=colour)
        above, below = above + parts.clip(min=0), below + parts.clip(max=0)
    for height, (_, parts) in enumerate(scores):
        axes.text(above[height], height, f" {sum(parts.values()):.2f}", va="center")
    labels, fonts = _lettering([text for text, _ in scores])
    axes.set_yticks(heights, labels, parse_math=False, fontfamily=fonts)
    axes.invert_yaxis()
    axes.set_xlim(1.05 * below.min(), 1.15 * above.max() or 1.0)
    axes.set_xlabel("score, by what it is made of")
    _add_legend(axes, [*colours.items()])
    return figure


def map_by_time(
    x: NDArray[np.float64], y: NDArray[np.float64], times: NDArray[np.datetime64], *, says: str
) -> Picture:
    """Return a picture of points, coloured by their times, with the text *says* below."""
    figure, axes = _plane(len(x), says=says)
    if len(x):
        drawn = axes.scatter(x, y, c=_DATES.date2num(times), **_dots(len(x)))
        locator = _DATES.AutoDateLocator(minticks=3, maxticks=7)
        scale = axes.figure.colorbar(
            drawn, ticks=locator, format=_DATES.ConciseDateFormatter(locator)
        )
        scale.solids.set_alpha(1)
    return figure


def map_by_name(
    x: NDArray[np.float64], y: NDArray[np.float64], names: Sequence[str | None], *, says: str
) -> Picture:
    """Return a picture of points with the text *says* below, coloured by their names.

    The most frequent names have a colour each, and all other names share one.
    """
    figure, axes = _plane(len(x), says=says)
    counts = Counter(name for name in names if name is not None)
    coloured = [name for name, _ in counts.most_common(len(MANY_COLOURS))]
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(coloured)}
    groups = [numbers.get(name, len(coloured)) for name in names]
    rest = "others" if len(counts) > len(coloured) else "unnamed"
    entries = [*zip(coloured, MANY_COLOURS, strict=False), (rest, OTHER)]
    shown = sorted(set(groups))
    for group in shown:
        chosen, is_rest = np.array(groups) == group, group == len(coloured)
        style = _dots(len(x)) | {"color": entries[group][1], "zorder": 1 if is_rest else 2}
        axes.scatter(x[chosen], y[chosen], **style)
    if shown:
        _add_legend(axes, [entries[group] for group in shown])
    return figure


def _plane(size: int, *, says: str) -> tuple[Picture, Untyped]:
    """Return an empty picture for *size* points and its axes, which both have the same scale."""
    figure, axes = _empty_picture(height=5.5)
    if not size:
        return _saying(figure, axes, "no items to show"), axes
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(says)
    return figure, axes


def _dots(size: int) -> dict[str, Any]:
    """Return the style of *size* points: the more points, the smaller."""
    area = min(max(12_000 / size, 3.0), 40.0)
    # Rasterized: as lines, tens of thousands of points would make a drawing slow to open.
    return {"s": area, "linewidths": 0, "alpha": 0.8, "rasterized": True}


def _add_legend(axes: Untyped, entries: Sequence[tuple[str, str]]) -> None:
    """Add names and their colours, beside the picture."""
    names, fonts = _lettering(name for name, _ in entries)
    squares = [Patch(color=colour) for _, colour in entries]
    legend = axes.legend(squares, names, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    for text in legend.get_texts():
        text.set(parse_math=False, fontfamily=fonts)


def _lettering(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return texts as labels, and the fonts that have their characters.

    Characters that matplotlib's default fonts lack are looked up in all installed fonts.
    """
    labels = [one_line(text, most=LABEL_CHARACTERS) for text in texts]
    families = [*rcParams["font.family"]]
    missing = {ord(character) for label in labels for character in label}
    for family in families:
        missing -= _characters(_FONTS.findfont(_FONTS.FontProperties(family=[family])), missing)
    for font in _FONTS.fontManager.ttflist if missing else ():
        found = _characters(font.fname, missing)
        if found and BOXES not in font.name:
            families.append(font.name)
            missing -= found
    stand_ins = {code: "" if category(chr(code)) in _UNSEEN else MISSING for code in missing}
    return [label.translate(stand_ins) for label in labels], families


_UNSEEN = {"Cf", "Mn", "Me"}
"""Categories of characters without a width."""


def _characters(path: str, codes: set[int]) -> set[int]:
    """Return the given characters that a font has."""
    font = _FONTS.get_font(path)
    return {code for code in codes if font.get_char_index(code)}


def _empty_picture(*, height: float) -> tuple[Picture, Untyped]:
    figure = Picture(figsize=(9, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _saying(figure: Picture, axes: Untyped, text: str) -> Picture:
    """Return an empty picture with a text."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
    return figure
