"""Compiled parts of alveus, made of their sources as they are now."""

from __future__ import annotations

import importlib.util
import runpy
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

from pages import ROOT

hatch_build = SimpleNamespace(**runpy.run_path(str(ROOT / "hatch_build.py")))


def compiled_in(folder: Path) -> ModuleType | None:
    """Return the compiled module, made in *folder*.

    Without a compiler there is none to be compared, and whoever runs the tests is told so.
    """
    command = hatch_build.compiler()
    if command is None:
        print("No C compiler with Python's headers: Python alone is tested.", file=sys.__stderr__)
        return None
    module = folder / Path(hatch_build.MODULE).name
    hatch_build.compile_native(
        [*command, "-Wall", "-Wextra", "-Werror"], ROOT / hatch_build.SOURCE, module
    )
    spec = importlib.util.spec_from_file_location("_native", module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


_DYNAMIC_SYMBOLS = 11
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")


def exported(file: Path) -> set[str]:
    """Return the names that a shared object gives to other libraries, as ``nm -D`` lists them."""
    data = file.read_bytes()
    if sys.platform == "darwin":
        words = ["nm", "-gUj", str(file)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return {name.removeprefix("_") for name in told.split()}
    assert data[:6] == b"\x7fELF\x02\x01", f"{file} is not ELF of 64 bits, little-endian"
    (first,) = struct.unpack_from("<Q", data, 0x28)
    (count,) = struct.unpack_from("<H", data, 0x3C)
    sections = [_SECTION.unpack_from(data, first + _SECTION.size * n) for n in range(count)]
    names = set[str]()
    for section in sections:
        if section[1] != _DYNAMIC_SYMBOLS:
            continue
        begin, size, strings = section[4], section[5], sections[section[6]][4]
        for at in range(begin, begin + size, _SYMBOL.size):
            name, info, visibility, defined, _value, _size = _SYMBOL.unpack_from(data, at)
            if (
                defined and info >> 4 in (1, 2) and visibility & 3 in (0, 3)
            ):  # not hidden, not local
                start = strings + name
                names.add(data[start : data.index(b"\0", start)].decode())
    return names
