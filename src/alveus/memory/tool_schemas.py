"""What a model is told of a tool, in the shape that its server takes, and its arguments checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values.lazy_dataclass import dataclass

_KINDS = {"string": "a text", "integer": "a whole number"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of a tool.

    Attributes:
        least, most: Of a text its characters, of a number itself; None: no bound.
        among: The only texts that are taken; none: any.
    """

    kind: Literal["string", "integer"]
    description: str
    required: bool = False
    least: int | None = None
    most: int | None = None
    among: Sequence[str] = ()

    def schema(self) -> dict[str, object]:
        """Return it as JSON Schema."""
        low, high = ("minLength", "maxLength") if self.kind == "string" else ("minimum", "maximum")
        found: dict[str, object] = {"type": self.kind, "description": self.description}
        found |= {n: v for n, v in ((low, self.least), (high, self.most)) if v is not None}
        return found | ({"enum": list(self.among)} if self.among else {})

    def problem(self, value: object) -> str | None:
        """Return why a value is none that it takes; None: it is one."""
        right = str if self.kind == "string" else int
        if not isinstance(value, right) or isinstance(value, bool):
            return f"must be {_KINDS[self.kind]}, not {short_repr(value)}"
        size, unit = (len(value), " characters") if isinstance(value, str) else (value, "")
        if self.least is not None and size < self.least:
            return f"must be at least {self.least:,}{unit}"
        if self.most is not None and size > self.most:
            given = short_repr(value) if isinstance(value, int) else f"{size:,}"
            return f"must be at most {self.most:,}{unit}, not {given}"
        if self.among and value not in self.among:
            return f"must be one of {', '.join(self.among)}, not {short_repr(value)}"
        return None


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: Mapping[str, Parameter]

    def __str__(self) -> str:
        """Return it as a line of a prompt, for a model that has no place for schemas."""
        parts = [
            f"{name}{'' if p.required else ' (optional)'}: {p.description}"
            for name, p in self.parameters.items()
        ]
        return f"{self.name}: {self.description} Arguments: {' '.join(parts)}"

    def input_schema(self) -> dict[str, object]:
        """Return its arguments as JSON Schema."""
        return {
            "type": "object",
            "properties": {name: p.schema() for name, p in self.parameters.items()},
            "required": [name for name, p in self.parameters.items() if p.required],
            "additionalProperties": False,
        }

    def openai(self) -> dict[str, object]:
        """Return it for ``tools=`` of OpenAI's chat completions, and servers of their protocol."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.input_schema(),
        }
        return {"type": "function", "function": function}

    def anthropic(self) -> dict[str, object]:
        """Return it for ``tools=`` of Anthropic's messages."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema(),
        }

    def mcp(self) -> dict[str, object]:
        """Return it as an entry of MCP's ``tools/list``."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema(),
        }

    def checked(self, arguments: object) -> dict[str, object]:
        """Return arguments, given by name or as the JSON text of that.

        Raises:
            InvalidInput: They are not what the schema says; the message is for the model.
        """
        if isinstance(arguments, str | bytes):
            try:
                arguments = json.loads(arguments or "{}")
            except ValueError as error:
                raise InvalidInput(f"{self.name}: the arguments are no JSON ({error})") from None
        if not isinstance(arguments, Mapping):
            raise InvalidInput(
                f"{self.name}: arguments must be an object of names, not {short_repr(arguments)}"
            )
        given = {
            str(name): value
            for name, value in cast("Mapping[object, object]", arguments).items()
            if value is not None  # what servers send for an argument that was left out
        }
        if unknown := given.keys() - self.parameters.keys():
            raise InvalidInput(
                f"{self.name}: there is no argument {short_repr(min(unknown))}; it takes "
                f"{', '.join(self.parameters)}"
            )
        for name, parameter in self.parameters.items():
            if name not in given:
                if parameter.required:
                    raise InvalidInput(f"{self.name}: argument {name!r} is missing")
            elif problem := parameter.problem(given[name]):
                raise InvalidInput(f"{self.name}: {name!r} {problem}")
        return given
