"""Anthropic's memory tool: the files of a model, each an item of a set.

So the files are searched, dated, versioned and forgotten like any other item. A folder exists while
it contains a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from alveus.errors import DuplicateItem, InvalidInput, LimitReached, Rejected, Unavailable
from alveus.errors.short_repr import short_repr
from alveus.integrations.opened import Deleting, OpenedMemory
from alveus.memory.async_calls import awaited
from alveus.memory.keys import KeyBatch
from alveus.memory.memory import Memory
from alveus.sets import MemorySet
from alveus.store.items import Item
from alveus.values.storable import replaced_note, valid_text

ROOT = "/memories"
"""The first part of every path."""

MAX_LINES = 999_999
"""The most lines of a file that `view` shows. Source: the documentation of the tool."""

_NUMBER_WIDTH = 6

_DEPTH = 2
"""Levels of folders that `view` shows. Source: the documentation of the tool."""


class MemoryFiles(OpenedMemory):
    """The commands of the tool, on the set *name* of a key. Each command is one commit.

    Commands of several threads and processes do not undo each other: a file that has changed since
    the read is read again.

    Every command returns a text for the model. A command that fails raises `ToolError`, with a text
    for the model.
    """

    def __init__(
        self, memory: Memory | str | Path, *, key: str, name: str, deleting: Deleting
    ) -> None:
        OpenedMemory.__init__(self, memory, deleting=deleting)
        self._key, self._name = self.memory.key(key), name
        self._files = self._key.set(name)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the lines of a file, numbered, or the files of a folder."""
        _check_texts(command, "path")
        path = _checked(command.path)
        item = None if path == ROOT else self._files.get(path)
        if item is not None:
            return _numbered_view(command, _content(item))
        contents = _contents_below(self._files, path)
        if not contents and path != ROOT:
            _missing(command.path)
        return _listing(path, contents)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Add a new file."""
        _check_texts(command, "path", "file_text")
        path = _checked(command.path)
        taken = f"File {command.path} already exists"
        content, replaced = valid_text(command.file_text)

        def change(batch: KeyBatch) -> None:
            files = batch.set(self._name)
            if path == ROOT or _paths_at(files, path):
                raise ToolError(taken)
            _check_parents(files, path)
            _add(files, path, content)

        self._commit(change, taken=taken)
        return _noted(f"File created successfully at: {command.path}", replaced)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file. Return the lines around the change."""
        _check_texts(command, "path", "old_str", "new_str")
        old, (new, replaced) = valid_text(command.old_str).value, valid_text(command.new_str)

        def change(batch: KeyBatch) -> str:
            files = batch.set(self._name)
            item = _file(files, command.path)
            content = _content(item)
            at = _only_position(command.path, old, content)
            changed = content[:at] + new + content[at + len(old) :]
            _update(files, item, changed)
            line = content.count("\n", 0, at)
            return _numbered(changed.split("\n"), max(0, line - 2), line + 3)

        edited = (
            "The memory file has been edited. Here is the snippet showing the change "
            f"(with line numbers):\n{self._commit(change)}"
        )
        return _noted(edited, replaced)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after the line `insert_line` of a file, or at the beginning for 0."""
        _check_texts(command, "path", "insert_text")
        if not isinstance(command.insert_line, int):  # pyright: ignore[reportUnnecessaryIsInstance] - as a model sends it
            _refuse(command, "insert_line", "a number")
        text, replaced = valid_text(command.insert_text)

        def change(batch: KeyBatch) -> None:
            files = batch.set(self._name)
            item = _file(files, command.path)
            content = _content(item)
            lines = content.removesuffix("\n").split("\n") if content else []
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, text.rstrip("\n"))
            _update(files, item, "\n".join(lines).removesuffix("\n") + "\n")

        self._commit(change)
        return _noted(f"The file {command.path} has been edited.", replaced)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with all its files."""
        _check_texts(command, "path")
        path = _checked(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        paths = _paths_at(self._files, path)
        if not paths:
            raise ToolError(f"The path {command.path} does not exist")
        if self._deleting == "forget":
            self._files.forget(paths)
        else:
            self._files.delete(paths)
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a folder to another path, in one commit."""
        _check_texts(command, "old_path", "new_path")
        old, new = _checked(command.old_path), _checked(command.new_path)
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        taken = f"The destination {command.new_path} already exists"

        def change(batch: KeyBatch) -> None:
            files = batch.set(self._name)
            if new == ROOT or _paths_at(files, new):
                raise ToolError(taken)
            paths = _paths_at(files, old)
            if not paths:
                raise ToolError(f"The path {command.old_path} does not exist")
            if new.startswith(f"{old}/"):
                raise ToolError(f"Cannot move {command.old_path} into itself")
            _check_parents(files, new)
            for path in paths:
                files.delete(path)  # the commit is refused if the file changed since the read
                item = self._files.get(path)
                if item is not None:
                    _add(files, new + path[len(old) :], _content(item))

        self._commit(change, taken=taken)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        """Remove every file."""
        if self._deleting == "forget":
            self._files.forget(where={})
        else:
            self._files.clear()
        return "All memory cleared"

    def _commit(self, change: Callable[[KeyBatch], Any], *, taken: str = "") -> Any:  # noqa: ANN401 - what *change* returns
        try:
            return self._key.commit(change)
        except DuplicateItem as error:  # another call was first
            raise ToolError(taken) from error
        except (InvalidInput, LimitReached, Rejected, Unavailable) as error:
            raise ToolError(str(error)) from error


class AlveusMemoryTool(MemoryFiles, BetaAbstractMemoryTool):
    """The memory tool for ``client.beta.messages.tool_runner(tools=[…])``.

    Args:
        memory: A memory; or a path or a URL, which the tool opens, and `close` closes.
        key: The owner of the memory, such as a user.
        name: The set of the key for the files.
        deleting: How files are deleted: "retire" keeps the history of a file for as long as the
            memory keeps it; "forget" erases it, and leaves a receipt.
        cache_control: The cache control of the tool, as Anthropic's API takes it.
    """

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        key: str,
        name: str = "memories",
        deleting: Deleting = "retire",
        cache_control: Any = None,  # noqa: ANN401 - Anthropic's
    ) -> None:
        BetaAbstractMemoryTool.__init__(self, cache_control=cache_control)
        MemoryFiles.__init__(self, memory, key=key, name=name, deleting=deleting)


class AlveusAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for ``AsyncAnthropic``, with the arguments of `AlveusMemoryTool`.

    A cancelled task waits until its commit has ended.
    """

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        key: str,
        name: str = "memories",
        deleting: Deleting = "retire",
        cache_control: Any = None,  # noqa: ANN401 - Anthropic's
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.sync = MemoryFiles(memory, key=key, name=name, deleting=deleting)
        self.loop = self.sync.loop

    def close(self) -> None:
        """Close the memory, if the tool opened it. Later calls raise `StoreClosed`."""
        self.sync.close()

    # Any: the types are those of the base class
    view: Any = awaited(MemoryFiles.view)
    create: Any = awaited(MemoryFiles.create)
    str_replace: Any = awaited(MemoryFiles.str_replace)
    insert: Any = awaited(MemoryFiles.insert)
    delete: Any = awaited(MemoryFiles.delete)
    rename: Any = awaited(MemoryFiles.rename)
    clear_all_memory: Any = awaited(MemoryFiles.clear_all_memory)


def _check_texts(command: object, *names: str) -> None:
    """Raise `ToolError` if one of *names* is not a text in the command: a model may omit it."""
    for name in names:
        if not isinstance(getattr(command, name, None), str):
            _refuse(command, name, "a string")


def _refuse(command: object, name: str, kind: str) -> NoReturn:
    given = getattr(command, name, None)
    said = "It is missing" if given is None else f"It is {short_repr(given)}"
    raise ToolError(f"Invalid `{name}` parameter. {said}. It should be {kind}.")


def _checked(path: str) -> str:
    """Return a path without empty and "." parts: ``/memories``, ``/memories/a/b``.

    Raises:
        ToolError: The path is not below `ROOT`, or has ".." in it.
    """
    names = [name for name in path.split("/") if name not in ("", ".")]
    if not path.startswith("/") or not names or f"/{names[0]}" != ROOT:
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    if ".." in names:
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    return "/" + "/".join(names)


def _missing(path: str) -> NoReturn:
    raise ToolError(f"The path {path} does not exist. Please provide a valid path.")


def _file(files: MemorySet, path: str) -> Item:
    checked = _checked(path)
    item = None if checked == ROOT else files.get(checked)
    if item is None:
        if checked == ROOT or _paths_at(files, checked):
            raise ToolError(f"The path {path} is not a file.")
        _missing(path)
    return item


def _content(item: Item) -> str:
    return cast("str", item.value)


def _contents_below(files: MemorySet, folder: str) -> dict[str, str]:
    """Return the files in a folder, by path. An empty folder does not exist."""
    return {
        item.id: _content(item)
        for item in files.list()
        if item.id is not None and item.id.startswith(f"{folder}/")
    }


def _paths_at(files: MemorySet, path: str) -> list[str]:
    """Return the path of a file, or the paths of all files in a folder.

    The list is empty if neither exists.
    """
    return [path] if path != ROOT and path in files else [*_contents_below(files, path)]


def _check_parents(files: MemorySet, path: str) -> None:
    """Raise `ToolError` if a parent of *path* is a file."""
    names = path.split("/")
    for end in range(3, len(names)):
        parent = "/".join(names[:end])
        if parent in files:
            raise ToolError(f"The path {parent} is a file, not a directory")


def _add(files: MemorySet, path: str, content: str) -> None:
    files.add(content, id=path, text=_text(path, content))


def _update(files: MemorySet, item: Item, content: str) -> None:
    path = cast("str", item.id)
    files.update(path, content, text=_text(path, content), if_version=item.version)


def _noted(answer: str, replaced: int) -> str:
    """Return an answer, with a note if characters of the command were replaced."""
    return "\n".join(filter(None, [answer, replaced_note(replaced)]))


def _text(path: str, content: str) -> str:
    """Return the text of a file for search: its content, or the path of a blank file."""
    return content if content.strip() else path


def _only_position(path: str, old: str, content: str) -> int:
    """Return the position of *old* in *content*. Raise `ToolError` unless it occurs once."""
    found: list[int] = []
    at = content.find(old) if old else -1
    while at >= 0:
        found.append(at)
        at = content.find(old, at + 1)
    if not found:
        raise ToolError(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
        )
    if len(found) > 1:
        lines = ", ".join(str(content.count("\n", 0, each) + 1) for each in found)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{lines}. Please ensure it is unique"
        )
    return found[0]


def _numbered(lines: list[str], start: int, end: int) -> str:
    """Return ``lines[start:end]`` as text, each line with its number. The first line has 1."""
    return "\n".join(
        f"{number:>{_NUMBER_WIDTH}}\t{line}"
        for number, line in enumerate(lines[start:end], start + 1)
    )


def _numbered_view(command: BetaMemoryTool20250818ViewCommand, content: str) -> str:
    lines = content.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {command.path} exceeds maximum line limit of {MAX_LINES:,} lines.")
    start, end = 1, -1
    if command.view_range and len(command.view_range) == 2:  # noqa: PLR2004 - first and last
        start, end = command.view_range
    shown = _numbered(lines, max(1, start) - 1, len(lines) if end == -1 else max(0, end))
    return f"Here's the content of {command.path} with line numbers:\n{shown}"


def _listing(folder: str, contents: Mapping[str, str]) -> str:
    """Return the contents of a folder, two levels deep, with the sizes of files and folders."""
    sizes: dict[str, int] = {}
    total = 0
    for path, content in contents.items():
        size = len(content.encode())
        total += size
        names = path[len(folder) + 1 :].split("/")
        for depth in range(1, min(_DEPTH, len(names)) + 1):
            if names[depth - 1].startswith("."):
                break
            shown = "/".join(names[:depth]) + ("/" if depth < len(names) else "")
            sizes[shown] = sizes.get(shown, 0) + size
    paths = sorted(sizes, key=lambda path: path.removesuffix("/").split("/"))  # folders first
    rows = [f"{_size(total)}\t{folder}"]
    rows += [f"{_size(sizes[path])}\t{folder}/{path}" for path in paths]
    return (
        f"Here're the files and directories up to 2 levels deep in {folder}, excluding hidden "
        "items:\n" + "\n".join(rows)
    )


def _size(size: int) -> str:
    """Return a size for people: 12B, 1.5K, 3M."""
    number, unit = float(size), "B"
    for larger in "KMG":
        if number < 1024:  # noqa: PLR2004 - bytes of the next unit
            break
        number, unit = number / 1024, larger
    return f"{number:.0f}{unit}" if number == int(number) else f"{number:.1f}{unit}"
