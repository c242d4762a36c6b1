"""The benchmark of stores is a program too: what nobody runs for a month is found broken."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.server
def test_the_benchmark_of_stores_measures_both_engines():
    """Every row has a figure, and neither engine fails; its peers are not installed here."""
    systems = ("alveus-sqlite", "alveus-postgres")
    with tempfile.TemporaryDirectory() as work:  # pytest's own are closed to the server's user
        command = ["bench/stores.py", "--quick", "--systems", ",".join(systems), "--work", work]
        ran = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert ran.returncode == 0, ran.stderr
    rows = [line for line in ran.stdout.splitlines() if any(each in line for each in systems)]
    assert len(rows) == len(systems) * 15
    assert "failed" not in ran.stdout
    assert all("-" not in row.split("│")[4].split() for row in rows)
