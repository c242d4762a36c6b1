"""Build the packages of a release, look into them, and cut the changelog.

    python tools/release.py            build and check; changes no file
    python tools/release.py --cut      also turn [Unreleased] into this version, dated today
    python tools/release.py --names    also ask the indexes of pip and npm whose our names are

The version is the one in pyproject.toml. `make release` runs the first form.
"""

from __future__ import annotations

import argparse
import datetime as dt
import email
import json
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

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
    "injection_english.toml",
    "injection_languages.toml",
    "secret_formats.toml",
)
"""Files without which an installed alveus would not be whole."""

ALLOWED = {
    ".py", ".sql", ".html", ".js", ".css", ".npz", ".txt", ".jsonl", ".typed", ".so", ".toml", "",
}  # fmt: skip
"""Endings of what a wheel holds below `alveus/`."""


def version() -> str:
    """Return the version that pyproject.toml names; it must be that of the package."""
    named = project()["version"]
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


def project() -> dict[str, Any]:
    """Return the table of the project in pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_problems() -> list[str]:
    """Return which of our names belong to somebody else on the indexes that pip and npm use.

    A name is free if its index answers and does not have it. It is ours if the newest package of
    that name has the author (Python) or the description (npm) that this repository gives.

    Raises:
        SystemExit: An index does not answer, so that nothing is known of a name.
    """
    client = json.loads((ROOT / "clients/typescript/package.json").read_text(encoding="utf-8"))
    ours = project()["name"], project()["authors"][0]["name"]
    found = [(*ours, python_author(ours[0]))]
    found += [(client["name"], client["description"], npm_description(client["name"]))]
    return [
        f"the name {name!r} is somebody else's: its package says {theirs!r}, ours {mine!r}"
        for name, mine, theirs in found
        if theirs not in (None, mine)
    ]


def python_author(name: str) -> str | None:
    """Return the author of the newest package of that name on pip's index; None: none has it."""
    with tempfile.TemporaryDirectory() as folder:
        fetched = _downloaded(name, folder)
        if fetched.returncode:
            if _downloaded("pip", folder).returncode:  # every index has that one
                raise SystemExit(f"pip cannot reach its index:\n{fetched.stderr.strip()}")
            return None
        (package,) = Path(folder).iterdir()
        message = email.message_from_string(_metadata(package))
        return message.get("Author") or message.get("Author-email") or ""


def _downloaded(name: str, folder: str) -> subprocess.CompletedProcess[str]:
    options = ["--quiet", "--no-deps", "--ignore-requires-python", "--pre", "--dest", folder]
    return _ran(sys.executable, "-m", "pip", "download", *options, name)


def _metadata(package: Path) -> str:
    """Return the metadata of a wheel or a source distribution."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
            return archive.read(name).decode()
    with tarfile.open(package) as archive:
        name = min((n for n in archive.getnames() if n.endswith("/PKG-INFO")), key=len)
        member = archive.extractfile(name)
        return member.read().decode() if member else ""


def npm_description(name: str) -> str | None:
    """Return the description of that name on npm's index; None: no package has it."""
    ran = _ran("npm", "view", name, "description", "--json")
    if ran.returncode and "E404" not in ran.stdout + ran.stderr:
        raise SystemExit(f"npm cannot tell whose {name!r} is:\n{ran.stderr.strip()}")
    return None if ran.returncode else json.loads(ran.stdout or '""')


def _ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


def main() -> None:
    """Build, check, and cut if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cut", action="store_true", help="write the version into CHANGELOG.md")
    parser.add_argument("--names", action="store_true", help="ask whose our names are")
    parser.add_argument("--outdir", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    named = version()
    arguments.outdir.mkdir(exist_ok=True)
    source, wheel = build(arguments.outdir)
    if found := problems(source, wheel):
        raise SystemExit("\n".join(found))
    if arguments.names and (taken := name_problems()):
        raise SystemExit("\n".join(taken))
    if arguments.cut:
        day = dt.datetime.now(dt.UTC).date()
        changed = cut(CHANGELOG.read_text(encoding="utf-8"), named=named, day=day)
        CHANGELOG.write_text(changed, encoding="utf-8")
    for package in (source, wheel):
        print(f"{package.name}  {package.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
