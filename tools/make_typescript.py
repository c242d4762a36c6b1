"""The TypeScript client: a method for each operation that the server describes, and its types.

How a server is asked is written by hand, in clients/typescript/connection.js.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from alveus.memory.memory import Memory
from alveus.server.app import create_app

Schema = Mapping[str, Any]

NOTE = "// Written by tools/make_typescript.py from the description of the server: `make docs`.\n"

SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}

STREAMS = {"text/event-stream": "_events", "application/jsonl": "_lines", "text/plain": "_text"}
"""How an answer is read that is no JSON document."""

MEM0 = "mem0"
"""The tag of calls of another client, whose schemas begin with this name."""

WHOSE = {"key", "space"}
"""Parameters that say whose memory is meant."""

TYPES = {
    "_events": "AsyncGenerator<ServerEvent<{}>, never>",
    "_lines": "AsyncGenerator<{}, void>",
    "_text": "Promise<string>",
}


class Operation(NamedTuple):
    """An operation, as the client has it."""

    name: str
    method: str
    path: str
    described: Schema

    @property
    def is_write(self) -> bool:
        """Whether it changes something, once under a name."""
        return "Idempotency-Key" in self.headers

    @property
    def headers(self) -> set[str]:
        """The headers that it takes."""
        return {each["name"] for each in self.parameters if each["in"] == "header"}

    @property
    def parameters(self) -> list[Schema]:
        """What is asked beside the body."""
        return list(self.described.get("parameters", []))

    @property
    def query(self) -> list[Schema]:
        """The parameters in its address."""
        return [each for each in self.parameters if each["in"] == "query"]

    @property
    def body(self) -> Schema | None:
        """The schema of its body."""
        body = self.described.get("requestBody")
        return None if body is None else body["content"]["application/json"]["schema"]

    @property
    def contents(self) -> Schema:
        """The schemas of its answer, by media type."""
        responses = self.described["responses"]
        return responses.get("200", responses.get("201"))["content"]

    @property
    def reader(self) -> str:
        """The method of a connection that reads the answer."""
        return next((way for kind, way in STREAMS.items() if kind in self.contents), "_json")


@cache
def document() -> Schema:
    """Return the description of the server."""
    return create_app(lambda space: Memory.open(":memory:", space=space)).openapi()


def operations() -> list[Operation]:
    """Return the operations of the server, by name."""
    found = [
        Operation(_camel(each["operationId"]), method.upper(), path, each)
        for path, at in document()["paths"].items()
        for method, each in at.items()
        if MEM0 not in each.get("tags", ())
    ]
    return sorted(found, key=lambda each: each.name)


def client_page() -> str:
    """Return index.js."""
    return "".join(_client())


def types_page() -> str:
    """Return index.d.ts."""
    return "".join(_types())


def _client() -> Iterator[str]:
    yield f'{NOTE}\nimport {{ Connection }} from "./connection.js";\n\n'
    yield 'export { AlveusError, ServerUnreachable, etagOf } from "./connection.js";\n\n'
    yield "export class Alveus extends Connection {\n"
    for each in operations():
        asked = json.dumps([each.method, each.path, each.is_write])
        if each.reader != "_json":
            yield f"  {each.name}(query, options) {{ "
            yield f"return this.{each.reader}({asked}, query, options); }}\n"
        elif each.body is None:
            yield f"  {each.name}(query, options) {{ "
            yield f"return this._json({asked}, query, undefined, options); }}\n"
        else:
            yield f"  {each.name}(query, body, options) {{ "
            yield f"return this._json({asked}, query, body, options); }}\n"
    yield "}\n"


def _types() -> Iterator[str]:
    names = "CallOptions, Connection, GuardedWriteOptions, ServerEvent, WriteOptions"
    yield f'{NOTE}\nimport {{ {names} }} from "./connection.js";\n\n'
    yield 'export * from "./connection.js";\n'
    for name, schema in sorted(document()["components"]["schemas"].items()):
        if name.startswith(MEM0.capitalize()):
            continue
        yield f"\n{_comment(schema.get('description'), '')}export "
        if "properties" in schema:
            yield f"interface {name} {_fields(schema, '')}\n"
        else:
            yield f"type {name} = {_type(schema, '')};\n"
    yield "\n/** A server of alveus. */\nexport class Alveus extends Connection {\n"
    for each in operations():
        yield _comment(each.described.get("description"), "  ")
        yield f"  {each.name}({', '.join(_arguments(each))}): {_answer(each)};\n"
    yield "}\n"


def _arguments(each: Operation) -> Iterator[str]:
    names = {query["name"] for query in each.query if query.get("required")}
    fields = {
        "properties": {
            query["name"]: {**_given(query), "description": query.get("description")}
            for query in each.query
        },
        "required": [*names],
    }
    yield f"query{'' if names or each.body else '?'}: {_fields(fields, '  ')}"
    if each.body is not None:
        yield f"body: {_type(each.body, '  ')}"
    kind = "WriteOptions" if each.is_write else "CallOptions"
    yield f"options?: {'GuardedWriteOptions' if 'if-match' in each.headers else kind}"


def _given(query: Schema) -> Schema:
    """Return the schema of a parameter; the client refuses null where all would be meant."""
    schema = query["schema"]
    if query["name"] not in WHOSE:
        return schema
    return next((kind for kind in schema.get("anyOf", ()) if kind["type"] != "null"), schema)


def _answer(each: Operation) -> str:
    if each.reader != "_json":
        schemas = [content["schema"] for content in each.contents.values()]
        parts = [_type(schema.get("contentSchema", {}), "") for schema in schemas]
        return TYPES[each.reader].format(next((part for part in parts if part != "any"), "any"))
    return f"Promise<{_type(each.contents['application/json']['schema'], '  ')}>"


def _type(schema: Schema, indent: str) -> str:
    """Return the type that a schema is."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "anyOf" in schema or "oneOf" in schema:
        kinds = schema.get("anyOf") or schema["oneOf"]
        return " | ".join(dict.fromkeys(_type(each, indent) for each in kinds))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(json.dumps(value) for value in values)
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{_type(schema['items'], indent)}>"
    if kind == "object":
        return _object(schema, indent)
    return "null" if kind == "null" else SIMPLE.get(str(kind), "any")


def _object(schema: Schema, indent: str) -> str:
    if "properties" in schema:
        return _fields(schema, indent)
    values = schema.get("additionalProperties")
    return f"Record<string, {_type(values, indent) if isinstance(values, Mapping) else 'any'}>"


def _fields(schema: Schema, indent: str) -> str:
    if not schema["properties"]:
        return "{}"
    inner, required = f"{indent}  ", schema.get("required", [])
    lines = [
        f"{_comment(field.get('description'), inner)}"
        f"{inner}{name}{'' if name in required else '?'}: {_type(field, inner)};\n"
        for name, field in schema["properties"].items()
    ]
    return f"{{\n{''.join(lines)}{indent}}}"


def _comment(text: str | None, indent: str) -> str:
    if not text:
        return ""
    lines = text.strip().splitlines()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return "".join(
        [
            f"{indent}/**\n",
            *(f"{indent} * {line}".rstrip() + "\n" for line in lines),
            f"{indent} */\n",
        ]
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
