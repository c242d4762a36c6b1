"""Compile the part of alveus that may be compiled, where a C compiler is; else leave it out.

`ALVEUS_NATIVE_BUILD` says what is asked: ``auto`` (the default), ``require`` (without it the build
fails) or ``off`` (a wheel for every machine). See `src/alveus/values/native.py`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

SOURCE = "src/alveus/values/_native.c"
"""With the headers in `_c` beside it."""

MODULE = "src/alveus/values/_native.abi3.so"
"""What is compiled of it."""

ABI = "cp311-abi3"
"""CPython from 3.11 on, by its limited interface: a wheel that one of them makes serves all."""

# Products must not be fused with sums: they would be rounded once, and in Python twice. No name but
# what Python calls is seen by other libraries of a process, even if modules are loaded globally.
OPTIONS = ("-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden")


def compiler() -> list[str] | None:
    """Return the command that makes extension modules; None: it, or what it needs, is not here."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # such a Python has no limited interface
        return None
    command = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
    if named := os.environ.get("CC"):
        command[:1] = shlex.split(named)
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return command if shutil.which(command[0]) and headers.exists() else None


def compile_native(command: list[str], source: Path, module: Path) -> None:
    """Write an extension module; another process sees all of it, or the old one."""
    new = module.with_suffix(f".{os.getpid()}")
    include = f"-I{sysconfig.get_path('include')}"
    arguments = [*OPTIONS, include, str(source), "-o", str(new)]
    subprocess.run([*command, *arguments], check=True)  # noqa: S603 - the compiler that Python names
    new.replace(module)


class NativeBuild(BuildHookInterface[Any]):
    """Has a wheel hold the compiled modules."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See `BuildHookInterface`."""
        _ = version
        if self.target_name != "wheel":
            return
        asked = os.environ.get("ALVEUS_NATIVE_BUILD", "auto")
        if asked not in ("auto", "require", "off"):
            raise SystemExit(f"ALVEUS_NATIVE_BUILD is auto, require or off, not {asked!r}")
        root = Path(self.root)
        if asked == "off" or not self._compiled(root, required=asked == "require"):
            (root / MODULE).unlink(missing_ok=True)
            return
        platform = next(
            tag.platform
            for tag in sys_tags()
            if "manylinux" not in tag.platform and "musllinux" not in tag.platform
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"{ABI}-{platform}"
        build_data["artifacts"].append(f"/{MODULE}")

    def _compiled(self, root: Path, *, required: bool) -> bool:
        command, problem = compiler(), "no C compiler with Python's headers is here"
        if command is not None:
            try:
                compile_native(command, root / SOURCE, root / MODULE)
            except (OSError, subprocess.CalledProcessError) as error:
                problem = str(error)
            else:
                return True
        if required:
            raise SystemExit(f"ALVEUS_NATIVE_BUILD=require, but: {problem}")
        self.app.display_warning(f"alveus is built without its compiled part: {problem}")
        return False
