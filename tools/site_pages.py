"""A hook of MkDocs: the files outside docs/ that pages link to become pages of the site.

In the repository a link such as `../bench/LOG.md` leads to the file. The site holds a copy of each
such file below `repository/`: Markdown as it is, a program as a page that shows its code, and a
folder as a list of its files. Their own links are followed too, so no link leads out of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
COPIES = "repository/"
ALWAYS = ("CHANGELOG.md", "SECURITY.md")
"""In the navigation, whether or not a page links to them."""

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_LINK = re.compile(r"`[^`]*`|(?P<before>\]\()(?P<path>[^()\s:#]+)(?P<anchor>#[^()\s]*)?(?=\))")
_LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "sh", ".yml": "yaml", ".sql": "sql"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside docs/ that a page of the site leads to."""
    left = [f"docs/{file.src_uri}" for file in files.documentation_pages()] + list(ALWAYS)
    seen = set(left)
    while left:
        path = left.pop()
        if not path.startswith("docs/"):
            content = _content(path)
            inclusion = InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, _site(path), content=content, inclusion=inclusion))
        found = _linked(path) - seen
        seen |= found
        left += sorted(found)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its links leading to the pages of the site."""
    path = _source(page.file.src_uri)
    return _rewrite(markdown, path) if path.endswith(".md") else markdown


def _linked(path: str) -> set[str]:
    """The files and folders of the repository, outside docs/, that a Markdown file links to."""
    if not path.endswith(".md"):
        return set()
    lines = _prose((ROOT / path).read_text(encoding="utf-8"))
    links = [link for _, line in lines if line for link in _LINK.finditer(line) if link["path"]]
    targets = {_resolve(path, link["path"]) for link in links}
    return {one for one in targets if not one.startswith("docs/") and (ROOT / one).exists()}


def _rewrite(markdown: str, path: str) -> str:
    folder = posixpath.dirname(_site(path))

    def lead(link: re.Match[str]) -> str:
        target = _resolve(path, link["path"]) if link["path"] else None
        if target is None or not (ROOT / target).exists():
            return link[0]  # code, or a broken link, which MkDocs reports
        there = posixpath.relpath(_site(target), folder or ".")
        return f"{link['before']}{there}{link['anchor'] or ''}"

    return "".join(raw if line is None else _LINK.sub(lead, line) for raw, line in _prose(markdown))


def _prose(markdown: str) -> list[tuple[str, str | None]]:
    """Each line of a page as it is, and again, or None for a line of a fenced block."""
    lines: list[tuple[str, str | None]] = []
    fence = ""
    for line in markdown.splitlines(keepends=True):
        marks = _FENCE.match(line)
        if fence:
            lines.append((line, None))
            if marks and marks[1].startswith(fence):
                fence = ""
        else:
            fence = marks[1] if marks else ""
            lines.append((line, None if fence else line))
    return lines


def _resolve(path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _site(path: str) -> str:
    """Where the site has the page of a file or folder of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        return f"{COPIES}{path}/index.md"
    return COPIES + (path if path.endswith(".md") else f"{path}.md")


def _source(site: str) -> str:
    """The file of the repository that a page of the site was made from."""
    if not site.startswith(COPIES):
        return f"docs/{site}"
    path = site.removeprefix(COPIES)
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def _content(path: str) -> str:
    file = ROOT / path
    if path.endswith(".md"):
        return file.read_text(encoding="utf-8")
    head = f"---\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n"
    if file.is_dir():
        return head + "".join(f"- `{one.name}`\n" for one in sorted(file.iterdir()))
    language = _LANGUAGES.get(file.suffix, "text")
    return f"{head}~~~~~ {language}\n{file.read_text(encoding='utf-8')}~~~~~\n"
