"""The commands that serve a memory (serve, ui and mcp), and that manage their tokens (token)."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from alveus.cli import options, output
from alveus.cli.options import argument, option
from alveus.cli.session import Session
from alveus.errors import InvalidInput, Unsupported
from alveus.llm import ChatModel
from alveus.memory.memory import Memory
from alveus.server.tokens import LEVELS, Access, TokenFile
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name

if TYPE_CHECKING:
    from alveus.server.middleware import TrustedProxies
    from alveus.telemetry import OpenTelemetry

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

MEGABYTE = 1_000_000

ONLY_READS = "The server was started with --read-only; its operator can start it without."


@dataclass(frozen=True, slots=True)
class Listening:
    """The address of a server, and the clients it accepts: the options of all servers."""

    host: str
    port: int
    tokens: Path | None
    proxies: tuple[str, ...]
    origins: tuple[str, ...] = ()

    def checked_tokens(self) -> TokenFile | None:
        """Return the tokens of the file that the options name, or None.

        Raises:
            InvalidInput: The tokens are unreadable, or the options name no file of tokens although
                the server is open to other machines.
        """
        if self.tokens is None:
            if self.host not in LOOPBACK:
                raise InvalidInput(
                    f"{self.host} is open to other machines, so the server needs tokens; create "
                    "one with alveus token new NAME --tokens FILE, and pass that file as "
                    "--tokens"
                )
            return None
        found = TokenFile(self.tokens)
        found.tokens()  # fail now, not at the first request
        return found

    def trusted_proxies(self) -> TrustedProxies:
        """Return the trusted proxies. Raise `InvalidInput` for a wrong address."""
        from alveus.server.middleware import TrustedProxies

        return TrustedProxies.parse(self.proxies)

    def listen(
        self,
        app: Any,  # noqa: ANN401 - an application of ASGI
        session: Session,
        *,
        says: str,
        path: str = "",
        stops: Callable[[], object],
        ready: Callable[[str], object] = lambda _url: None,
    ) -> None:
        """Serve *app* until a signal. Print *says* and the URL once the server listens."""
        from alveus.server.listening import listen

        def announce(url: str) -> None:
            session.done(f"{says} {url}{path}", {"url": f"{url}{path}"})
            ready(f"{url}{path}")

        proxies = self.trusted_proxies()
        listen(app, self.host, self.port, announce=announce, stops=stops, proxies=proxies)


_TOKENS = option(
    "--tokens FILE",
    "The file of tokens, which is read again whenever it changes.",
    type=click.Path(path_type=Path, dir_okay=False),
)


def _listening(port: int, *, where: str = "Where to listen.", origins: bool = True) -> Any:  # noqa: ANN401 - the default of a parameter
    """Return the options of `Listening`. *port* is the default."""
    found: dict[str, options.Declared] = {
        "host": option("--host ADDRESS", where, default="127.0.0.1"),
        "port": option("--port NUMBER", where, type=options.Whole(0, 65_535), default=port),
        "tokens": _TOKENS,
        "proxies": option(
            "--trusted-proxy ADDRESS",
            "Whose X-Forwarded headers are believed: an address or a network; may be repeated.",
            multiple=True,
        ),
    }
    if origins:
        found["origins"] = option(
            "--cors-origin ORIGIN",
            "Pages of this origin may ask, such as https://app.example; may be repeated.",
            multiple=True,
        )
    return options.OptionGroup(found, Listening)


@contextmanager
def _installed(what: str, hint: str) -> Generator[None]:
    """Raise `Unsupported`, which names the package to install, if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"{what} needs the package {error.name}, which is not installed; run: {hint}"
        ) from error


def _opener(
    session: Session, *, mode: Literal["rw", "ro"] = "rw", telemetry: OpenTelemetry | None = None
) -> Callable[[str], Memory]:
    location = session.server or session.file
    embedder, zone = session.embedder, session.zone.info
    return lambda space: Memory.open(
        location, space=space, embedder=embedder, timezone=zone, mode=mode, telemetry=telemetry
    )


@options.command("serve")
def serve_command(
    session: Session,
    *,
    listening: Listening = _listening(8080),
    max_body: float = option(
        "--max-body MB",
        "Largest request, in megabytes.",
        type=options.FiniteRange(0.001, 1_000),
        default=10.0,
    ),
    rate: float | None = option(
        "--rate NUMBER",
        "Requests a second of one token, or address.",
        type=options.FiniteRange(0.1),
    ),
    telemetry: bool = option(
        "--telemetry", "Emit traces and metrics by OpenTelemetry, as its variables say."
    ),
    model: ChatModel | None = options.MODEL,
) -> None:
    """Serve the memory over HTTP, until it is stopped.

    Needs alveus[server]. Without --tokens it listens on this machine alone, and refuses browser
    pages other than its inspector, /ui. Its calls are in /openapi.json. With --json a line when it
    listens: {"url": …}.

    Example: alveus serve --tokens tokens.json --host 0.0.0.0
    """
    tokens = listening.checked_tokens()
    with _installed("the server", "pip install 'alveus[server]'"):
        from alveus.server.app import ServerLimits, create_app
        from alveus.server.inspector import add_inspector
        from alveus.server.middleware import origins_of
    listening.trusted_proxies()
    origins = origins_of(listening.origins)
    session.open(make=Memory.stats).close()  # an error of opening is raised before listening
    emitted = None
    if telemetry:  # on the process's providers, which `opentelemetry-instrument` sets
        from alveus.telemetry.open_telemetry import OpenTelemetry

        emitted = OpenTelemetry()
    app = create_app(
        _opener(session, telemetry=emitted),
        tokens=tokens,
        limits=ServerLimits(round(max_body * MEGABYTE), rate),
        model=model,
        telemetry=emitted,
        origins=origins,
    )
    add_inspector(app, space=session.space, writes=False)
    listening.listen(app, session, says="listening on", stops=app.state.ends.set)


@options.command("ui")
def ui_command(
    session: Session,
    *,
    listening: Listening = _listening(8090, origins=False),
    write: bool = option("--write", "Let pages change the memory, too."),
    browser: bool = option("--browser", "Open it in a browser."),
) -> None:
    """Show the memory in a browser, until the command is stopped.

    Needs alveus[server]. It shows keys, items, searches, prompts and what every commit changed, and
    changes nothing unless --write is given. To be reached from other machines it needs --tokens, as
    serve does. With --json a line when it listens: {"url": …}.

    Example: alveus ui --db app.db --browser
    """
    tokens = listening.checked_tokens()
    with _installed("the server", "pip install 'alveus[server]'"):
        from alveus.server.app import create_app
        from alveus.server.inspector import add_inspector
    listening.trusted_proxies()
    mode = "rw" if write else "ro"
    session.open(mode=mode).close()  # an error of opening is raised before listening
    app = create_app(_opener(session, mode=mode), tokens=tokens)
    add_inspector(app, space=session.space, writes=write)
    listening.listen(
        app,
        session,
        says="the inspector is at",
        path="/ui/",
        stops=app.state.ends.set,
        ready=webbrowser.open if browser else lambda _url: None,
    )


@options.command("mcp")
def mcp_command(
    session: Session,
    *,
    key: str = options.KEY,
    set_name: str = options.SET,
    read_only: bool = option(
        "--read-only", "Give the tools that read, and open the memory to read."
    ),
    erase: bool = option("--erase", "Have forget leave nothing of a memory, not even its history."),
    http: bool = option("--http", "Serve over HTTP, not over stdin and stdout."),
    listening: Listening = _listening(8000, where="Where to listen, with --http."),
) -> None:
    """Serve the memory of a key to clients of MCP, until it is stopped.

    Claude Desktop, Cursor, VS Code and other clients of the Model Context Protocol start it, and
    talk over stdin and stdout. With --http it listens for them, at /mcp. Without --tokens, it
    listens on this machine alone. Needs alveus[mcp].
    With --http and --json a line when it listens: {"url": …}.

    Example: alveus mcp --key ada --db memory.db
    """
    given = {
        "--tokens": listening.tokens,
        "--trusted-proxy": listening.proxies,
        "--cors-origin": listening.origins,
    }
    for name, value in given.items():
        if value and not http:
            raise InvalidInput(f"{name} needs --http; add --http, or leave out {name}")
    tokens = listening.checked_tokens() if http else None
    with _installed("MCP", "pip install 'alveus[mcp]'"):
        from alveus.server.mcp.served_key import Asker, ServedKey
        from alveus.server.mcp.stdio import serve_stdio
    asker = Asker(ONLY_READS if read_only else None)
    opened = session.open(mode="ro") if read_only else session.open(make=Memory.stats)
    with opened as memory:
        forget: Literal["erase", "delete"] = "erase" if erase else "delete"
        served = ServedKey(memory.key(key), set=set_name, forget=forget)
        if not http:
            if sys.stdin.isatty():
                session.note("alveus: waiting for a client of MCP on stdin; Ctrl-C ends it")
            serve_stdio(served, asker)
            return
        from alveus.server.mcp.http import PATH, create_mcp_app, let_calls_end
        from alveus.server.middleware import origins_of

        origins = origins_of(listening.origins)
        app = create_mcp_app(served, tokens=tokens, asker=asker, origins=origins)
        let_calls_end()
        listening.listen(app, session, says="listening on", path=PATH, stops=app.stop)


# --- tokens -----------------------------------------------------------------------------------


token_command = options.group(
    "token",
    "Make, list, rotate and revoke the tokens of a server.\n\n"
    "Their file holds hashes, never a token; a server reads it again whenever it changes.",
)

_NAME = argument()
_FILE = option(
    "--tokens FILE",
    "The file of tokens.",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
)


@options.command("new", token_command)
def new_token(
    session: Session,
    *,
    name: str = _NAME,
    tokens: Path = _FILE,
    access: Access = option(
        "--access WORD",
        "What it may: read; write, and forget; admin: runs, export and receipts too.",
        type=click.Choice(LEVELS),
        default="write",
    ),
    of_space: str | None = option(
        "--of-space NAME", "The one space that it may use.  [default: all]"
    ),
    keys: str | None = option(
        "--keys BEGINNING",
        "Only keys that begin so.  [default: all]",
        read=lambda text: checked_name(text, "the beginning of keys"),
    ),
) -> None:
    """Make a token, and print it: nobody can read it again.

    With --json: {"name": …, "token": …}.

    Example: alveus token new shop --tokens tokens.json --keys shop-
    """
    secret = TokenFile(tokens).add(name, access=access, space=of_space, keys=keys or "")
    session.answer(secret, {"name": name, "token": secret})


@options.command("rotate", token_command)
def rotate_token(session: Session, *, name: str = _NAME, tokens: Path = _FILE) -> None:
    """Replace a token by another one of the same name, and print it.

    With --json: {"name": …, "token": …}.

    Example: alveus token rotate shop --tokens tokens.json
    """
    secret = TokenFile(tokens).rotate(name)
    session.answer(secret, {"name": name, "token": secret})


@options.command("revoke", token_command)
def revoke_token(session: Session, *, name: str = _NAME, tokens: Path = _FILE) -> None:
    """Revoke a token, from the next request on.

    With --json: {"revoked": …}.

    Example: alveus token revoke shop --tokens tokens.json
    """
    TokenFile(tokens).revoke(name)
    session.done(f"token {name!r} is revoked", {"revoked": name})


@options.command("list", token_command)
def list_tokens(session: Session, *, tokens: Path = _FILE) -> None:
    """List the tokens, without their secrets.

    With --json a line per token: {"name": …, "access": …, "space": …, "keys": …, "created": …}.

    Example: alveus token list --tokens tokens.json
    """
    columns = ("name", "access", "space", "keys", "created")
    session.listing(
        columns,
        TokenFile(tokens).tokens(),
        lambda token: (
            *(token.name, token.access, token.space or "all", token.keys or "all"),
            token.created,
        ),
        lambda token: output.attributes(token, " ".join(columns)),
    )
