"""Import and export: a memory as JSON lines, and the memories of other systems as items.

docs/import-export.md describes the formats. An import first reads its whole file, and writes only
if every record can be used. A repeated import adds nothing twice.
"""

from alveus.transfer.export import LAST, Selection, export_lines, exported_items, walk_tree
from alveus.transfer.foreign_formats import Target
from alveus.transfer.history import history_lines
from alveus.transfer.import_formats import LAYOUTS, OWN_TARGETS, Layout, entries, layout_of
from alveus.transfer.import_source import Source
from alveus.transfer.importing import (
    CHUNK,
    Imported,
    Load,
    Loaded,
    OnInvalid,
    Survey,
    import_file,
    opened,
    survey,
    survey_file,
)
from alveus.transfer.lines import ItemLine, SetLine
from alveus.transfer.migration import migrate

__all__ = [
    "CHUNK",
    "LAST",
    "LAYOUTS",
    "OWN_TARGETS",
    "Imported",
    "ItemLine",
    "Layout",
    "Load",
    "Loaded",
    "OnInvalid",
    "Selection",
    "SetLine",
    "Source",
    "Survey",
    "Target",
    "entries",
    "export_lines",
    "exported_items",
    "history_lines",
    "import_file",
    "layout_of",
    "migrate",
    "opened",
    "survey",
    "survey_file",
    "walk_tree",
]
