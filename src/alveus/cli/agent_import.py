"""Agents on the command line: ``my_agent.py:Shop`` and ``package.module:Shop``, imported."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import click

from alveus.errors import AlveusError, InvalidInput, NotFound
from alveus.runs import agent
from alveus.runs.agent import Agent, DispatchTable
from alveus.runs.durable_calls import message_of

AGENT = click.argument("agent", metavar="AGENT")


def load(named: str, *, name: str | None) -> DispatchTable:
    """Return the plan of the agent that ``FILE.py:NAME`` or ``MODULE:NAME`` names.

    Args:
        name: What its runner will be called, if not like the agent.

    Raises:
        click.UsageError: A name is missing, or empty.
        NotFound: There is no such file or module, or it has no such agent.
        InvalidInput: Importing it raised; the message says where. Or it is no agent, or one
            without actions.
    """
    if name == "":
        raise click.UsageError("--name is empty; leave it out (a shell variable may not be set)")
    place, colon, attribute = named.rpartition(":")
    if not colon or not place or not attribute:
        problem = (
            f"{named!r} does not name an agent; write my_agent.py:Shop, or package.module:Shop"
        )
        raise click.UsageError(problem)
    module = _file(place) if place.endswith(".py") or os.sep in place else _module(place)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise NotFound(f"{place} has no {attribute!r}; {_offer(module)}")
    try:
        return DispatchTable.of(found, name=name)
    except AlveusError as error:
        raise InvalidInput(f"{place}: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a user's __init__: told with its place
        _refuse(f"{place}: {attribute}", error, "made")


def _offer(module: ModuleType) -> str:
    agents = [name for name, value in vars(module).items() if _is_agent(value)]
    return f"its agents: {', '.join(agents)}" if agents else "no Agent is in it"


def _is_agent(value: object) -> bool:
    if isinstance(value, type):
        return issubclass(value, Agent) and value is not Agent
    return isinstance(value, Agent)


def _file(place: str) -> ModuleType:
    """Return the module in a file; what lies beside it can be imported by it."""
    path = Path(place)
    if not path.is_file():
        raise NotFound(f"{place}: there is no such file")
    name = path.stem if path.stem not in sys.modules else f"alveus_agent_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{place} is not a Python file; name one that ends with .py")
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader

    def run() -> None:
        sys.modules[name] = module  # dataclasses and durable calls look it up
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise

    _import(place, path.absolute().parent, run)
    return module


def _module(place: str) -> ModuleType:
    """Return the module of that name, from the working directory or the installed ones."""
    try:
        return _import(place, Path.cwd(), lambda: importlib.import_module(place))
    except ModuleNotFoundError as error:
        hint = "run it where that can be imported, or name a file: my_agent.py:Shop"
        raise NotFound(f"there is no module {error.name!r}; {hint}") from None


def _import(place: str, folder: Path, run: Callable[[], Any]) -> Any:  # noqa: ANN401 - what run returns
    """Import something; an error of its own names the line where it was raised."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return run()
    except ModuleNotFoundError as error:
        if error.name is not None and f"{place}.".startswith(f"{error.name}."):
            raise
        _refuse(place, error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a user's module: told with its place
        _refuse(place, error)


def _refuse(place: str, error: BaseException, done: str = "imported") -> NoReturn:
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f for f in frames if not _is_machinery(f.filename)] or frames
        where = f"{theirs[-1].filename}:{theirs[-1].lineno}"
    said = message_of(error) if not isinstance(error, SyntaxError) else error.msg
    raise InvalidInput(
        f"{place} cannot be {done}: {where} raised {type(error).__name__}: {said}"
    ) from error


def _is_machinery(file: str) -> bool:
    return file.startswith("<frozen") or file in {__file__, agent.__file__}
