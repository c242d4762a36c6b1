"""Import and export: a memory as JSON lines and back, and chats as memory.

docs/import-export.md describes the formats. An import first reads its whole file and writes only
if every line can be used; it adds nothing twice, however often it is repeated.
"""

from fornix.transfer.export import (
    LAST,
    Selection,
    export_lines,
    exported_items,
    item_fields,
    stamp,
    walk_tree,
)
from fornix.transfer.lines import Layout, Source, Target, entries, read_time
from fornix.transfer.load import CHUNK, Load, Loaded, check

__all__ = [
    "CHUNK",
    "LAST",
    "Layout",
    "Load",
    "Loaded",
    "Selection",
    "Source",
    "Target",
    "check",
    "entries",
    "export_lines",
    "exported_items",
    "item_fields",
    "read_time",
    "stamp",
    "walk_tree",
]
