"""What becomes of an error that nobody expected: a line of the log, to which the answer refers."""

from __future__ import annotations

import logging
from uuid import uuid4

from alveus.errors import AlveusError

_LOG = logging.getLogger(__name__)


class InternalError(AlveusError):
    """What was asked for raised something that is no error of alveus.

    Attributes:
        reference: Stands in the line of the server's log that has the traceback.
    """

    def __init__(self, reference: str) -> None:
        self.reference = reference
        super().__init__(
            f"the server failed unexpectedly; its log has the cause under {reference}; a write may "
            "have taken effect: repeat it under the same idempotency key, or read what is there"
        )


def noted(asked: str) -> InternalError:
    """Log the error that is being handled, with its traceback; return what a client is told.

    The client is not told what error it is: its message may hold content of the memory.

    Args:
        asked: What was asked for, without any name of the memory.
    """
    reference = uuid4().hex[:12]
    _LOG.exception("%s failed unexpectedly: %s", asked, reference, extra={"reference": reference})
    return InternalError(reference)
