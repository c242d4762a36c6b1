"""Packages that warn while they are imported: that is done here, before a warning is an error."""

from __future__ import annotations

import os
import tempfile
import warnings

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["CREWAI_STORAGE_DIR"] = tempfile.mkdtemp(prefix="crewai-")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import crewai.memory.storage.lancedb_storage
    import crewai.memory.unified_memory  # noqa: F401 - for what it does to warnings
