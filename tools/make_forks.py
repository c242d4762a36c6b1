"""The generated part of docs/safety.md: what was tried of forks, threads and processes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from forks_tried import TRIED

BEGIN, END = "<!-- forks: written by tools/make_forks.py -->", "<!-- end of forks -->"


def safety_page(there: str) -> str:
    """Return docs/safety.md with the table that the tests go by."""
    before, _, rest = there.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = "\n".join(f"| {row.what} | {row.trials} | {row.found} |" for row in TRIED)
    table = f"| tried | trials in CI | found |\n|---|---|---|\n{rows}"
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
