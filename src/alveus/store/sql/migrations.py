"""Scripts that bring a store from an earlier schema to the newest one.

A store's `schema.sql` makes the newest schema at once. A change of it raises the number `SCHEMA` of
the store by one and adds a script `migrations/NNNN_name.sql` beside `schema.sql`, which leads from
the schema before to number NNNN. Schema 1 is the first, so no store has a script yet.
"""

from __future__ import annotations

from pathlib import Path


def migrations(folder: Path, *, after: int) -> dict[int, str]:
    """Return the scripts in *folder* that lead past schema *after*, in order, by their numbers."""
    numbered = {int(file.name.split("_", 1)[0]): file for file in sorted(folder.glob("*.sql"))}
    return {n: file.read_text(encoding="utf-8") for n, file in numbered.items() if n > after}
