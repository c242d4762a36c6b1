"""Build the packages of a release, look into them, and cut the changelog.

    python tools/release.py            build and check; changes no file
    python tools/release.py --cut      also turn [Unreleased] into this version, dated today

The version is the one in pyproject.toml. `make release` runs the first form.
"""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
OPEN = "## [Unreleased]"

WANTED = (
    "LICENSE",
    "NOTICE",
    "py.typed",
    "schema.sql",
    "minilm.npz",
    "static.npz",
    "vocabulary.txt",
    "index.html",
)
"""Files without which an installed alveus would not be whole."""

ALLOWED = {".py", ".sql", ".html", ".js", ".css", ".npz", ".txt", ".jsonl", ".typed", ".so", ""}
"""Endings of what a wheel holds below `alveus/`."""


def version() -> str:
    """Return the version that pyproject.toml names; it must be that of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = project["version"]
    if f'__version__ = "{named}"' not in (ROOT / "src/alveus/__init__.py").read_text("utf-8"):
        raise SystemExit(f"pyproject.toml says {named}, and src/alveus/__init__.py another version")
    return named


def build(folder: Path) -> tuple[Path, Path]:
    """Make the source distribution and, from it, the wheel; return both."""
    for old in folder.glob("alveus-*"):
        old.unlink()
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (source,), (wheel,) = folder.glob("alveus-*.tar.gz"), folder.glob("alveus-*.whl")
    return source, wheel


def problems(source: Path, wheel: Path) -> list[str]:
    """Return what is wrong with the packages: files that are missing or have no place there."""
    with tarfile.open(source) as archive:
        sources = [PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()]
    with zipfile.ZipFile(wheel) as archive:
        installed = [PurePosixPath(name) for name in archive.namelist()]
    found = [
        f"{package.name} lacks {name}"
        for package, names in ((source, sources), (wheel, installed))
        for name in WANTED
        if not any(path.name == name for path in names)
    ]
    found += [
        f"{wheel.name} holds {path}"
        for path in installed
        if path.parts[0] == "alveus" and path.suffix not in ALLOWED
    ]
    found += [
        f"{source.name} lacks {path}"
        for path in ("README.md", "CHANGELOG.md", "pyproject.toml")
        if PurePosixPath(path) not in sources
    ]
    modules = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    return found + [f"{wheel.name} lacks {p}" for p in sorted(modules - set(map(Path, installed)))]


def cut(text: str, *, named: str, day: dt.date) -> str:
    """Return the changelog with what was unreleased as version *named* of *day*."""
    head, found, rest = text.partition(OPEN)
    if not found or not rest.split("\n## [", 1)[0].strip():
        raise SystemExit(f"CHANGELOG.md has nothing under {OPEN}")
    return f"{head}{OPEN}\n\n## [{named}] - {day.isoformat()}{rest}"


def main() -> None:
    """Build, check, and cut if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cut", action="store_true", help="write the version into CHANGELOG.md")
    parser.add_argument("--outdir", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    named = version()
    arguments.outdir.mkdir(exist_ok=True)
    source, wheel = build(arguments.outdir)
    if found := problems(source, wheel):
        raise SystemExit("\n".join(found))
    if arguments.cut:
        day = dt.datetime.now(dt.UTC).date()
        changed = cut(CHANGELOG.read_text(encoding="utf-8"), named=named, day=day)
        CHANGELOG.write_text(changed, encoding="utf-8")
    for package in (source, wheel):
        print(f"{package.name}  {package.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
