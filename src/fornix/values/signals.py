"""Signals that ask a process to end: who handles them, for how long."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ends_handled(handler: Callable[[int, FrameType | None], object]) -> Generator[None]:
    """Call *handler* on SIGTERM, Ctrl-C and SIGHUP, as long as a block takes.

    SIGHUP, of a closed terminal, is left to whoever has it ignored, as `nohup` does.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    before = [(number, signal.signal(number, handler)) for number in signals]
    try:
        yield
    finally:
        for number, handled in before:
            signal.signal(number, handled)
