"""The inspector in a browser: alveus ui."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TypedDict, Unpack

from alveus.cli import options
from alveus.cli.serve import checked_tokens, proxy_option, server_installed, tokens_option
from alveus.cli.session import Session
from alveus.memory.memory import Memory


class UiOptions(TypedDict):
    """How the inspector is shown."""

    host: str
    port: int
    tokens: Path | None
    proxies: tuple[str, ...]
    write: bool
    browser: bool


@options.command("ui")
@options.option("--host ADDRESS", "Where to listen.", default="127.0.0.1")
@options.option("--port NUMBER", "Where to listen.", type=options.Whole(0, 65_535), default=8090)
@tokens_option
@proxy_option
@options.option("--write", "Let pages change the memory, too.")
@options.option("--browser", "Open it in a browser.")
def ui_command(session: Session, **given: Unpack[UiOptions]) -> None:
    """Look into the memory with a browser, until it is stopped.

    Needs alveus[server]. It shows keys, items, searches, prompts and what every commit changed, and
    changes nothing unless --write is given. Beyond this machine it needs --tokens, as serve does.
    With --json a line when it listens: {"url": …}.

    Example: alveus ui --db app.db --browser
    """
    tokens = checked_tokens(given["host"], given["tokens"])
    with server_installed():
        from alveus.server.addresses import TrustedProxies
        from alveus.server.app import create_app
        from alveus.server.inspector import add_inspector
        from alveus.server.listening import listen
    proxies = TrustedProxies.parse(given["proxies"])
    mode = "rw" if given["write"] else "ro"
    session.open(mode=mode).close()  # what is wrong is said before it listens
    place = session.server or session.file

    def open_space(space: str) -> Memory:
        return Memory.open(
            place, space=space, embedder=session.embedder, timezone=session.zone.info, mode=mode
        )

    app = create_app(open_space, tokens=tokens)
    add_inspector(app, space=session.space, writes=given["write"])

    def told(url: str) -> None:
        session.done(f"the inspector is at {url}/ui/", {"url": f"{url}/ui/"})
        if given["browser"]:
            webbrowser.open(f"{url}/ui/")

    stops = app.state.ends.set
    listen(app, given["host"], given["port"], told=told, stops=stops, proxies=proxies)
