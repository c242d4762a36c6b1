"""Unexpected errors: logged with a reference, which the response contains."""

from __future__ import annotations

import logging
from uuid import uuid4

from alveus.errors import AlveusError

_LOG = logging.getLogger(__name__)


class InternalError(AlveusError):
    """A request raised an error that is not an alveus error.

    Attributes:
        reference: Identifies the line with the traceback in the server's log.
    """

    def __init__(self, reference: str) -> None:
        self.reference = reference
        super().__init__(
            f"the server failed unexpectedly; its log has the cause under {reference}. A write "
            "may have taken effect: repeat it with the same idempotency key, or read the data"
        )


def noted(asked: str) -> InternalError:
    """Log the current error with its traceback, and return the error for the client.

    The client does not see the original error: its message may hold data of the memory.

    Args:
        asked: A description of the request for the log, without names from the memory.
    """
    reference = uuid4().hex[:12]
    _LOG.exception("%s failed unexpectedly: %s", asked, reference, extra={"reference": reference})
    return InternalError(reference)
