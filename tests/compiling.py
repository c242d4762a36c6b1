"""Compiled parts of alveus, made of their sources as they are now."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

from pages import ROOT

hatch_build = SimpleNamespace(**runpy.run_path(str(ROOT / "hatch_build.py")))


def compiled_of(source: str, folder: Path) -> ModuleType | None:
    """Return the module of a source, made in *folder*.

    Without a compiler there is none to be compared, and whoever runs the tests is told so.
    """
    command = hatch_build.compiler()
    if command is None:
        print("No C compiler with Python's headers: Python alone is tested.", file=sys.__stderr__)
        return None
    module = folder / Path(hatch_build.module_of(source)).name
    hatch_build.compile_native([*command, "-Wall", "-Wextra", "-Werror"], ROOT / source, module)
    spec = importlib.util.spec_from_file_location(Path(source).stem, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
