"""Tools: functions that a model calls by a JSON text in its answer."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from alveus.errors import InvalidInput, InvalidValue, PromptAborted
from alveus.llm import Unfit, read_json_alone
from alveus.memory.memory_tools import MemoryTools
from alveus.runs.durable_calls import Reconcile, message_of, options_of
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked, checked_kind, checked_name, counted

_LOG = logging.getLogger(__name__)

Tool: TypeAlias = Callable[..., Any]

GivenTools: TypeAlias = Iterable[Tool | MemoryTools] | Mapping[str, Tool]
"""The accepted forms of tools: functions, and results of `alveus.memory.memory_tools`."""

MOST_SHOWN = 32_000
"""By default, the most characters of a tool's result that the model sees."""

HOW_TO_CALL = """\
You have tools. To call one, answer with nothing but JSON: {"tool": "its name", "arguments": {…}}, \
or a list of such objects to call several. You then see what they returned. Once you know \
enough, answer in plain text.
"""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asks for.

    Attributes:
        tool: The name of the tool in the answer. There may be no tool with this name.
        arguments: The arguments, by name.
    """

    tool: str
    arguments: dict[str, Value]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call.

    Attributes:
        text: The text for the model.
        aborted: Why the tool aborted the prompt, or None if it did not.
    """

    text: str
    aborted: str | None = None


class Tools:
    """The functions that a model may call, by name.

    Args:
        given: Plain functions. A tool has the name of its function, or in a dict the name there.
            In a list, a result of `memory_tools` adds all of its tools.
        most: The most characters of a result that the model sees. None means all.

    Raises:
        InvalidInput: A tool is not a plain function or has no name, or two tools have one name.
    """

    def __init__(self, given: GivenTools, *, most: int | None = MOST_SHOWN) -> None:
        self._most = None if most is None else counted(most, "tool_chars")
        checked_kind(
            given, Iterable, "tools must be a list of functions, or a dict of names and functions"
        )
        named = cast("Mapping[str, Tool]", given) if isinstance(given, Mapping) else None
        listed = [] if named is not None else [*cast("Iterable[Tool | MemoryTools]", given)]
        self._memory = {
            name: one for one in listed if isinstance(one, MemoryTools) for name in one.names
        }
        functions = [one for one in listed if not isinstance(one, MemoryTools)]
        pairs = [(_name(f), f) for f in functions] if named is None else [*named.items()]
        self._tools: dict[str, Tool] = {}
        for name, function in pairs:
            if checked_name(name, "a tool's name") in self._tools or name in self._memory:
                raise InvalidInput(
                    f"two tools are named {name!r}; pass the tools as a dict with different names"
                )
            if not callable(function) or inspect.iscoroutinefunction(function):
                raise InvalidInput(f"tool {name!r} must be a plain function, not {function!r}")
            self._tools[name] = function

    @property
    def instructions(self) -> str:
        """The text for the model: the form of a call, and each tool with its first sentence."""
        if not self.names:
            return ""
        schemas = [s for one in dict.fromkeys(self._memory.values()) for s in one.schemas]
        shown = [*(_shown(n, f) for n, f in self._tools.items()), *map(str, schemas)]
        return HOW_TO_CALL + "\n".join(f"- {one}" for one in shown)

    @property
    def names(self) -> list[str]:
        """The names of all tools."""
        return [*self._tools, *self._memory]

    def memory(self, tool: str) -> MemoryTools | None:
        """Return the `MemoryTools` that have a tool, or None for a function or an unknown tool."""
        return self._memory.get(tool)

    def calls(self, answer: str) -> tuple[ToolCall, ...]:
        """Return the calls in a model's answer, or an empty tuple if it is an answer to the user.

        An answer with any text besides the calls counts as an answer to the user, so calls that a
        model only quotes are not made.
        """
        if not self.names:
            return ()
        try:
            found = read_json_alone(answer)
        except Unfit:
            return ()
        listed = cast("list[object]", found) if isinstance(found, list) else [found]
        read = [_call(one) for one in listed]
        return () if None in read else tuple(cast("list[ToolCall]", read))

    def reconciler(self, call: ToolCall) -> Reconcile | None:
        """Return the function that finds an interrupted call's result, or None; see `durable`."""
        found = options_of(self._tools.get(call.tool)).reconcile
        return None if found is None else lambda: self._answered(call.tool, found())

    def use_memory(
        self,
        tool: str,
        arguments: dict[str, Value],
        call_id: str,
        inside: MemoryTools | None = None,
    ) -> str:
        """Call a memory tool, and return the JSON for the model.

        Args:
            inside: The same tools for the action that makes the call, or None without an action.
        """
        memory = self._memory[tool] if inside is None else inside
        answer = memory.call(tool, arguments, call_id=call_id)
        if answer.is_error:
            return _failed(tool, answer.text)
        return self._answered(tool, answer.text)

    def call(self, tool: str, arguments: dict[str, Value]) -> str:
        """Call a tool, and return the JSON for the model.

        The JSON reports an error of the tool, or an impossible call, so that the model can react. A
        long result is cut, and marked as cut.

        Raises:
            InvalidValue: The result of the tool is not JSON.
        """
        function = self._tools.get(tool)
        if function is None:
            return _failed(tool, f"there is no such tool; the tools are {', '.join(self.names)}")
        if problem := _misfit(function, arguments):
            return _failed(tool, problem)
        try:
            value = function(**arguments)
        except PromptAborted as error:
            return json.dumps({"tool": tool, "aborted": message_of(error)}, ensure_ascii=False)
        except Exception as error:  # noqa: BLE001 - the edge to a user's tool: the model gets the error
            _LOG.warning("a tool raised", extra={"tool": tool, "error": type(error).__name__})
            problem = f"{type(error).__name__}: {message_of(error)}"
            return _failed(tool, problem if self._most is None else problem[: self._most])
        return self._answered(tool, value)

    def _answered(self, tool: str, value: object) -> str:
        plain = checked(value, where=f"the result of tool {tool!r}")
        try:
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            hint = "return a text or a value that JSON can hold"
            raise InvalidValue(f"the result of tool {tool!r}", str(error), hint=hint) from None
        said: dict[str, object] = {"tool": tool, "answer": plain}
        whole = plain if isinstance(plain, str) else text
        if self._most is not None and len(whole) > self._most:
            said["answer"] = whole[: self._most]
            said["cut"] = f"this is the beginning: {self._most:,} of {len(whole):,} characters"
        return json.dumps(said, ensure_ascii=False)


def read_result(text: str) -> ToolResult:
    """Return the result of `Tools.call`, parsed."""
    return ToolResult(text, cast("dict[str, str | None]", json.loads(text)).get("aborted"))


def _name(function: object) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise InvalidInput(
            f"tool {function!r} has no name; pass the tools as a dict of names and functions"
        )
    return name


def _shown(name: str, function: Tool) -> str:
    text = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
    takes = _signature(function) or "(…)"
    return f"{name}{takes}: {text}" if text else f"{name}{takes}"


class _AsWritten:
    """An annotation that was not evaluated, shown without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _signature(function: Tool) -> str:
    """Return the signature of a function, or "" for a C function without a signature."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return ""

    def plain(annotation: object) -> object:
        return _AsWritten(annotation) if isinstance(annotation, str) else annotation

    taken = [p.replace(annotation=plain(p.annotation)) for p in found.parameters.values()]
    returned = plain(found.return_annotation)
    return str(found.replace(parameters=taken, return_annotation=returned))


def _call(found: object) -> ToolCall | None:
    if not isinstance(found, dict):
        return None
    given = cast("dict[str, Value]", found)
    tool, arguments = given.get("tool"), given.get("arguments", {})
    if not (isinstance(tool, str) and tool and isinstance(arguments, dict)):
        return None
    if not given.keys() <= {"tool", "arguments"}:
        return None
    try:
        checked(cast("object", found))
    except InvalidInput:  # a lone surrogate or deep nesting is no tool value
        return None
    return ToolCall(tool, arguments)


def _misfit(function: Tool, arguments: dict[str, Value]) -> str:
    """Return why a function cannot take the arguments, or "" if it can."""
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        return f"its signature is {_signature(function)}: {error}"
    except ValueError:
        return ""  # a C function without a signature
    return ""


def _failed(tool: str, problem: str) -> str:
    return json.dumps({"tool": tool, "error": problem}, ensure_ascii=False)
