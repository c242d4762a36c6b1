"""Traces and metrics of a memory for OpenTelemetry: `Memory.open(…, telemetry=OpenTelemetry())`.

Nothing of OpenTelemetry is imported before `OpenTelemetry` is.
"""

from typing import TYPE_CHECKING

from fornix.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from fornix.telemetry.open_telemetry import OpenTelemetry

__all__ = ["OpenTelemetry"]

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__, {"fornix.telemetry.open_telemetry": ("OpenTelemetry",)})
