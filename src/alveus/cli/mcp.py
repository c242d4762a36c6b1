"""A server of the Model Context Protocol: alveus mcp."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from alveus.cli import options
from alveus.cli.serve import origin_option, proxy_option
from alveus.cli.session import Session
from alveus.errors import InvalidInput, Unsupported
from alveus.memory.memory import Memory
from alveus.server.tokens import TokenFile

if TYPE_CHECKING:
    from alveus.server.mcp.served_key import Asker, ServedKey

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_OPTIONS = {"tokens": "--tokens", "proxies": "--trusted-proxy", "origins": "--cors-origin"}

ONLY_READS = "The server was started with --read-only; whoever runs it can start it without."


class McpOptions(TypedDict):
    """How a key is served."""

    key: str
    set_name: str
    read_only: bool
    erase: bool
    http: bool
    host: str
    port: int
    tokens: Path | None
    proxies: tuple[str, ...]
    origins: tuple[str, ...]


@options.command("mcp")
@options.required_key_option
@options.set_option
@options.option("--read-only", "Give the tools that read, and open the memory to read.")
@options.option("--erase", "Have forget leave nothing of a memory, not even its history.")
@options.option("--http", "Serve over HTTP, in place of stdin and stdout.")
@options.option("--host ADDRESS", "Where to listen, with --http.", default="127.0.0.1")
@options.option(
    "--port NUMBER",
    "Where to listen, with --http.",
    type=options.Whole(0, 65_535),
    default=8000,
)
@options.option(
    "--tokens FILE",
    "With --http: who may ask; alveus token makes the file.",
    type=click.Path(path_type=Path, dir_okay=False),
)
@proxy_option
@origin_option
def mcp_command(session: Session, **given: Unpack[McpOptions]) -> None:
    """Serve the memory of a key to clients of MCP, until it is stopped.

    Claude Desktop, Cursor, VS Code and other clients of the Model Context Protocol start it, and
    talk over stdin and stdout. With --http it listens for them, at /mcp; without --tokens on this
    machine alone. Needs alveus[mcp].
    With --http and --json a line when it listens: {"url": …}.

    Example: alveus mcp --key ada --db memory.db
    """
    tokens, host = given["tokens"], given["host"]
    for name in ("tokens", "proxies", "origins"):
        if not given["http"] and given[name]:
            raise InvalidInput(
                f"{_OPTIONS[name]} is for --http; over stdin and stdout nobody else can ask"
            )
    if given["http"] and tokens is None and host not in LOOPBACK:
        raise InvalidInput(
            f"{host} is open to other machines, and there are no tokens; make one with alveus "
            "token new NAME --tokens FILE, and name that file with --tokens"
        )
    found = None if tokens is None else TokenFile(tokens)
    if found is not None:
        found.tokens()  # now, not at the first request
    try:
        from alveus.server.mcp.served_key import Asker, ServedKey
        from alveus.server.mcp.stdio import serve_stdio
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"MCP needs {error.name}, which is not installed: pip install 'alveus[mcp]'"
        ) from error
    reads = given["read_only"]
    asker = Asker(ONLY_READS if reads else None)
    opened = session.open(mode="ro") if reads else session.open(make=Memory.stats)
    with opened as memory:
        served = ServedKey(
            memory.key(given["key"]),
            set=given["set_name"],
            forget="erase" if given["erase"] else "delete",
        )
        if not given["http"]:
            if sys.stdin.isatty():
                session.note("alveus: waiting for a client of MCP on stdin; Ctrl-C ends it")
            serve_stdio(served, asker)
            return
        _listen(session, served, asker, found, given)


def _listen(
    session: Session, served: ServedKey, asker: Asker, tokens: TokenFile | None, given: McpOptions
) -> None:
    from alveus.server.addresses import TrustedProxies
    from alveus.server.cross_origin import origins_of
    from alveus.server.listening import listen
    from alveus.server.mcp.http import PATH, create_mcp_app, let_calls_end

    def told(url: str) -> None:
        session.done(f"listening on {url}{PATH}", {"url": f"{url}{PATH}"})

    proxies, origins = TrustedProxies.parse(given["proxies"]), origins_of(given["origins"])
    app = create_mcp_app(served, tokens=tokens, asker=asker, origins=origins)
    let_calls_end()
    listen(app, given["host"], given["port"], told=told, stops=app.stop, proxies=proxies)
