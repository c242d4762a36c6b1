"""Signals that ask a process to end, and who handles them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


def handle_ends(handler: Callable[[int, FrameType | None], object]) -> Callable[[], None]:
    """Have *handler* called on SIGTERM, Ctrl-C and SIGHUP; return what takes that back.

    SIGHUP, of a closed terminal, is left to whoever has it ignored, as `nohup` does.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    before = [(number, signal.signal(number, handler)) for number in signals]

    def take_back() -> None:
        for number, handled in before:
            signal.signal(number, handled)

    return take_back
