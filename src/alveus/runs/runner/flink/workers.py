"""How the workers of a cluster come by the agent."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from pathlib import Path
from typing import Any

import alveus
from alveus.errors import InvalidInput, NotFound
from alveus.errors.short_repr import short_repr
from alveus.runs.agent import Agent, DispatchTable
from alveus.runs.runner.flink.subtask import FlinkJob


def reference_to(agent: Agent | type[Agent]) -> str:
    """Return ``module:name`` of an agent, by which workers import it.

    Raises:
        InvalidInput: No module has it under a name.
    """
    for wanted in (agent, type(agent)) if _is_as_its_class_makes_it(agent) else (agent,):
        for module_name in _modules_of(agent):
            module = sys.modules.get(module_name)
            for name, value in vars(module).items() if module else ():
                if value is wanted:
                    return f"{_imported_as(module_name)}:{name}"
    raise InvalidInput(
        f"workers of Flink import the agent by its name in a module, and {short_repr(agent)} has "
        "none: put it into a variable of a module, SHOP = Agent(…) or class Shop(Agent), not into "
        "a function"
    )


def _is_as_its_class_makes_it(agent: Agent | type[Agent]) -> bool:
    """Return whether workers may make the agent themselves, of its class."""
    if isinstance(agent, type) or type(agent) is Agent:
        return False
    try:
        return vars(type(agent)()) == vars(agent)
    except TypeError:  # it needs arguments
        return False


def _imported_as(module_name: str) -> str:
    """Return the name under which workers import a module: of a script, that of its file."""
    file = getattr(sys.modules[module_name], "__file__", None)
    return Path(file).stem if module_name == "__main__" and file else module_name


def files_of(agent: Agent | type[Agent]) -> list[str]:
    """Return the files of an agent that workers of a cluster are sent.

    They are modules by themselves; what is in a package is to be installed where the workers run.
    """
    return [str(path) for path in _sources(agent) if path.is_file()]


def folders_of(agent: Agent | type[Agent]) -> list[str]:
    """Return where workers on this machine import an agent from, as this process did."""
    return list(dict.fromkeys(str(path.parent) for path in _sources(agent)))


def _sources(agent: Agent | type[Agent]) -> list[Path]:
    """Return the files and the packages that hold an agent and its actions, but installed ones."""
    found: list[Path] = []
    for module_name in _modules_of(agent):
        top = sys.modules.get(module_name.partition(".")[0])
        folders = list(getattr(top, "__path__", ()))
        place = folders[0] if folders else getattr(top, "__file__", None)
        if place is not None and top is not alveus:
            path = Path(place).absolute()
            if not path.is_relative_to(sysconfig.get_path("purelib")):
                found.append(path)
    return found


def _modules_of(agent: Agent | type[Agent]) -> list[str]:
    """Return the names of the modules where an agent and its actions are defined."""
    owner = agent if isinstance(agent, type) else type(agent)
    functions = [action.call for action in DispatchTable.of(agent).actions.values()]
    names = [owner.__module__, *(getattr(f, "__module__", None) for f in functions)]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def agent_of(job: FlinkJob) -> Agent | type[Agent]:
    """Return the agent of a job, in a worker.

    Raises:
        NotFound: The worker cannot import it.
    """
    module_name, _, name = job.agent.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise NotFound(
            f"a worker of Flink has no module {error.name!r}, where agent {job.agent} is to be; "
            "add it to the job (add_python_file) or install it where the workers run"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, Agent) or (isinstance(found, type) and issubclass(found, Agent))):
        raise InvalidInput(f"{job.agent} is no agent")
    return found
