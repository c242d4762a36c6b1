"""Print the figures of the house: rooms, floors, arrows, circles, lines, names.

    python tools/house.py             the package of this checkout
    python tools/house.py OTHER/src   that of another one
    python tools/house.py --json

A room is a package or a module right below `alveus`; `__main__` is none. An arrow is a pair of
rooms of which one imports the other. A floor holds the rooms that import only rooms of lower
floors. A circle is a group of modules that import each other, at run time or for types alone. The
imports are those that import-linter reads (grimp).
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent


def room_of(module: str) -> str:
    """Return the room of a module; "" for `alveus` itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def floors_of(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms by floor, the lowest first; rooms in a circle are left out."""
    left, floors = dict(arrows), list[list[str]]()
    while free := sorted(room for room, below in left.items() if not below & left.keys()):
        floors.append(free)
        for room in free:
            del left[room]
    return floors


def circles_of(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return the groups of modules that reach each other."""
    reach = {module: graph.find_upstream_modules(module) for module in graph.modules}
    groups = {
        frozenset(other for other in reach[module] if module in reach[other]) | {module}
        for module in graph.modules
    }
    return sorted(sorted(group) for group in groups if len(group) > 1)


def graph_of(source: Path) -> grimp.ImportGraph:
    """Return the imports of the package below *source*."""
    sys.path.insert(0, str(source))
    return grimp.build_graph("alveus", cache_dir=None)


def arrows_of(graph: grimp.ImportGraph) -> dict[str, set[str]]:
    """Return the rooms, each with the rooms that it imports."""
    children = graph.find_children("alveus") - {"alveus.__main__"}
    rooms = {child.removeprefix("alveus.") for child in children}
    arrows: dict[str, set[str]] = {room: set() for room in rooms}
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            above, below = room_of(module), room_of(other)
            if above in rooms and below in rooms and above != below:
                arrows[above].add(below)
    return arrows


def figures(source: Path) -> tuple[dict[str, int], list[list[str]], list[list[str]]]:
    """Return the counts of the package below *source*, its floors, and its circles."""
    graph = graph_of(source)
    arrows = arrows_of(graph)
    children = graph.find_children("alveus") - {"alveus.__main__"}
    files = sorted((source / "alveus").rglob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in files]
    classes = Counter(
        node.name
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    )
    floors, circles = floors_of(arrows), circles_of(graph)
    counts = {
        "rooms": len(arrows),
        "floors": len(floors),
        "arrows": sum(map(len, arrows.values())),
        "rooms in a circle": len(arrows) - sum(map(len, floors)),
        "circles among modules": len(circles),
        "modules flat in the package": sum(not graph.find_children(child) for child in children),
        "files": len(files),
        "lines": sum(text.count("\n") for text in texts),
        "class names that stand twice": sum(1 for count in classes.values() if count > 1),
    }
    return counts, floors, circles


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Print the figures of the house.")
    parser.add_argument("source", type=Path, nargs="?", default=ROOT / "src")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not (options.source / "alveus" / "__init__.py").is_file():
        parser.error(f"{options.source} holds no package alveus; name the folder above it")
    counts, floors, circles = figures(options.source.resolve())
    if options.json:
        print(json.dumps({**counts, "floor by floor": floors, "circles": circles}, indent=2))
        return
    for name, count in counts.items():
        print(f"{count:8,}  {name}")
    for number, rooms in enumerate(floors):
        print(f"floor {number:2}  {' '.join(rooms)}")
    for circle in circles:
        print(f"circle    {' '.join(circle)}")


if __name__ == "__main__":
    main()
