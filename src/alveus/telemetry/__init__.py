"""Traces and metrics of a memory for OpenTelemetry: `Memory.open(…, telemetry=OpenTelemetry())`.

Nothing of OpenTelemetry is imported before `OpenTelemetry` is.
"""

from typing import TYPE_CHECKING

from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.telemetry.open_telemetry import OpenTelemetry

__all__ = ["OpenTelemetry"]

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__)
