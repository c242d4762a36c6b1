"""Which parts of a long text a model reads that reads only so much at once."""

from __future__ import annotations

WINDOW = 256
"""Word pieces in a window, its two marks included. Source: all-MiniLM-L6-v2's `max_seq_length`."""

READ = WINDOW - 2
"""Word pieces of the text itself in a window."""

STRIDE = 192
"""From the start of a window to the start of the next, at most, in a text of up to 32 windows."""

MOST_WINDOWS = 32
"""Windows a text may have."""


def window_starts(pieces: int) -> list[int]:
    """Return where the windows of a text of so many pieces start: 1 to 32 of them.

    The first starts at the beginning, the last ends at the end, the others are spread evenly.
    Neighbours share at least 62 pieces up to 6,206 pieces (about 4,500 English words). In a longer
    text the 32 windows move apart: up to 8,128 pieces every piece is still in a window; beyond
    that the pieces between two windows are in none, and meaning does not read them (words do).
    """
    rest = pieces - READ
    if rest <= 0:
        return [0]
    steps = min(-(-rest // STRIDE), MOST_WINDOWS - 1)
    return [at * rest // steps for at in range(steps + 1)]
