"""The generated part of docs/integrations.md: what the runs of frameworks' own tests said."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from frameworks_tried import FRAMEWORKS

BEGIN, END = "<!-- frameworks: written by tools/make_integrations.py -->", "<!-- end of them -->"
HEAD = "| framework | what alveus is to it | extra | what its tests say |\n|---|---|---|---|"


def integrations_page(there: str) -> str:
    """Return docs/integrations.md with the table of what was counted."""
    before, _, rest = there.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = "\n".join(framework.row() for framework in FRAMEWORKS)
    return f"{before}{BEGIN}\n{HEAD}\n{rows}\n{END}{after}"
