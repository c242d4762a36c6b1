"""A server of the memory, and its tokens: alveus serve, alveus token."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from alveus.cli import options, output
from alveus.cli.session import Session
from alveus.errors import InvalidInput, Unsupported
from alveus.llm import OpenAIChat
from alveus.memory.memory import Memory
from alveus.server.tokens import LEVELS, Access, Token, TokenFile
from alveus.values.storable import checked_name

if TYPE_CHECKING:
    from alveus.telemetry import OpenTelemetry

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

MEGABYTE = 1_000_000

tokens_option = options.option(
    "--tokens FILE",
    "The file of tokens, which is read again whenever it changes.",
    type=click.Path(path_type=Path, dir_okay=False),
)


proxy_option = options.option(
    "--trusted-proxy proxies ADDRESS",
    "Whose X-Forwarded headers are believed: an address or a network; may be repeated.",
    multiple=True,
)

origin_option = options.option(
    "--cors-origin origins ORIGIN",
    "Pages of this origin may ask, such as https://app.example; may be repeated.",
    multiple=True,
)


def checked_tokens(host: str, tokens: Path | None) -> TokenFile | None:
    """Return the tokens of a server that is to listen at *host*.

    Raises:
        InvalidInput: Other machines reach it, and there are none; or they cannot be read.
    """
    if tokens is None and host not in LOOPBACK:
        raise InvalidInput(
            f"{host} is open to other machines, and there are no tokens; make one with alveus "
            "token new NAME --tokens FILE, and name that file with --tokens"
        )
    found = None if tokens is None else TokenFile(tokens)
    if found is not None:
        found.tokens()  # now, not at the first request
    return found


@contextmanager
def server_installed() -> Generator[None]:
    """Say what to install where an import of the server fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"the server needs {error.name}, which is not installed: pip install 'alveus[server]'"
        ) from error


class ServeOptions(TypedDict):
    """How the memory is served."""

    host: str
    port: int
    tokens: Path | None
    proxies: tuple[str, ...]
    origins: tuple[str, ...]
    max_body: float
    rate: float | None
    telemetry: bool
    model: str | None
    base_url: str | None


@options.command("serve")
@options.option("--host ADDRESS", "Where to listen.", default="127.0.0.1")
@options.option("--port NUMBER", "Where to listen.", type=options.Whole(0, 65_535), default=8080)
@tokens_option
@proxy_option
@origin_option
@options.option(
    "--max-body MB",
    "Largest request, in megabytes.",
    type=options.FiniteRange(0.001, 1_000),
    default=10.0,
)
@options.option(
    "--rate NUMBER", "Requests a second of one token, or address.", type=options.FiniteRange(0.1)
)
@options.option(
    "--telemetry", "Emit traces and metrics by OpenTelemetry, as its variables say.", is_flag=True
)
@options.model_options
def serve_command(session: Session, **given: Unpack[ServeOptions]) -> None:
    """Serve the memory over HTTP, until it is stopped.

    Needs alveus[server]. Without --tokens it listens on this machine alone, and serves no page of
    a browser but its own: /ui shows what is remembered. What it can do is in /openapi.json. With
    --json a line when it listens: {"url": …}.

    Example: alveus serve --tokens tokens.json --host 0.0.0.0
    """
    found, host, port = checked_tokens(given["host"], given["tokens"]), given["host"], given["port"]
    with server_installed():
        from alveus.server.addresses import TrustedProxies
        from alveus.server.app import ServerLimits, create_app
        from alveus.server.cross_origin import origins_of
        from alveus.server.inspector import add_inspector
        from alveus.server.listening import listen
    proxies, origins = TrustedProxies.parse(given["proxies"]), origins_of(given["origins"])
    session.open(make=Memory.stats).close()  # what is wrong is said before it listens
    place, name = session.server or session.file, given["model"]
    telemetry = _telemetry() if given["telemetry"] else None

    def open_space(space: str) -> Memory:
        return Memory.open(
            place,
            space=space,
            embedder=session.embedder,
            timezone=session.zone.info,
            telemetry=telemetry,
        )

    app = create_app(
        open_space,
        tokens=found,
        limits=ServerLimits(round(given["max_body"] * MEGABYTE), given["rate"]),
        model=None if name is None else OpenAIChat(name, base_url=given["base_url"]),
        telemetry=telemetry,
        origins=origins,
    )
    add_inspector(app, space=session.space, writes=False)

    def told(url: str) -> None:
        session.done(f"listening on {url}", {"url": url})

    listen(app, host, port, told=told, stops=app.state.ends.set, proxies=proxies)


def _telemetry() -> OpenTelemetry:
    """Return what emits by the process's providers, as `opentelemetry-instrument` sets them."""
    from alveus.telemetry.open_telemetry import OpenTelemetry

    return OpenTelemetry()


# --- tokens -----------------------------------------------------------------------------------


@click.group("token", no_args_is_help=False, params=options.shared(hidden=True))
def token_command() -> None:
    """Make, list, rotate and revoke the tokens of a server.

    Their file holds hashes, never a token; a server reads it again whenever it changes.
    """


_file = options.option(
    "--tokens FILE",
    "The file of tokens.",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
)
_name = click.argument("name")


@options.command("new")
@_name
@_file
@options.option(
    "--access WORD",
    "What it may: read; write, and forget; admin: runs, export and receipts too.",
    type=click.Choice(LEVELS),
    default="write",
)
@options.option("--of-space NAME", "The one space that it may use.  [default: all]")
@options.option(
    "--keys BEGINNING",
    "Only keys that begin so.  [default: all]",
    read=lambda text: checked_name(text, "the beginning of keys"),
)
def new_token(
    session: Session,
    *,
    name: str,
    tokens: Path,
    access: Access,
    of_space: str | None,
    keys: str | None,
) -> None:
    """Make a token, and print it: nobody can read it again.

    With --json: {"name": …, "token": …}.

    Example: alveus token new shop --tokens tokens.json --keys shop-
    """
    secret = TokenFile(tokens).add(name, access=access, space=of_space, keys=keys or "")
    session.answer(secret, {"name": name, "token": secret})


@options.command("rotate")
@_name
@_file
def rotate_token(session: Session, *, name: str, tokens: Path) -> None:
    """Replace a token by another one of the same name, and print it.

    With --json: {"name": …, "token": …}.

    Example: alveus token rotate shop --tokens tokens.json
    """
    secret = TokenFile(tokens).rotate(name)
    session.answer(secret, {"name": name, "token": secret})


@options.command("revoke")
@_name
@_file
def revoke_token(session: Session, *, name: str, tokens: Path) -> None:
    """Make a token of no use, from the next request on.

    With --json: {"revoked": …}.

    Example: alveus token revoke shop --tokens tokens.json
    """
    TokenFile(tokens).revoke(name)
    session.done(f"token {name!r} is revoked", {"revoked": name})


@options.command("list")
@_file
def list_tokens(session: Session, *, tokens: Path) -> None:
    """List the tokens, but for their secrets.

    With --json a line per token: {"name": …, "access": …, "space": …, "keys": …, "created": …}.

    Example: alveus token list --tokens tokens.json
    """
    columns = ("name", "access", "space", "keys", "created")
    session.listing(columns, TokenFile(tokens).tokens(), row=_row, fields=_fields)


def _row(token: Token) -> tuple[str, ...]:
    space = "all" if token.space is None else token.space
    return token.name, token.access, space, token.keys or "all", token.created


def _fields(token: Token) -> output.Json:
    return output.attributes(token, "name access space keys created")


for _command in (new_token, rotate_token, revoke_token, list_tokens):
    token_command.add_command(_command)
