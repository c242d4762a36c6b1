"""Tokens: who may do what over HTTP.

A file holds a token's name, what it may, and the SHA-256 of its secret, never the secret. It is
read again when it changes, so a token is added, or revoked, without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from alveus.errors import AccessDenied, InvalidInput, NotFound
from alveus.store.files import part_of, sync_folder
from alveus.store.scope import Scope
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name

Access: TypeAlias = Literal["read", "write", "admin"]

LEVELS: tuple[str, ...] = get_args(Access)
"""What a token may, the least first; each may what those before it may."""

SECRET_BYTES = 32

WRITE_WAIT_S = 30.0
"""How long a change of the file waits for others that are being written."""

_DIGEST = re.compile("[0-9a-f]{64}")

PREFIX = "alveus_"
"""With which every secret begins, so that scanners for leaked secrets know it."""


@dataclass(frozen=True, slots=True)
class Token:
    """What whoever has a secret may do.

    Attributes:
        name: For people, and for revoking it.
        digest: The SHA-256 of the secret, in hexadecimal.
        access: "read"; "write": change and forget as well; "admin": also export, and runs and
            receipts of all keys.
        space: The one space that it may use; None: all.
        keys: With what the keys have to begin that it may use; a token with such a beginning
            reads knowledge, and does not write it, and sees nothing that is about all keys.
        created: When, in ISO 8601.
    """

    name: str
    digest: str
    access: Access
    space: str | None
    keys: str
    created: str

    def may(self, access: Access) -> bool:
        """Return whether it reaches as far as *access*."""
        return LEVELS.index(self.access) >= LEVELS.index(access)

    def check(self, access: Access) -> None:
        """Refuse what it does not reach.

        Raises:
            AccessDenied: It may less than *access*.
        """
        if not self.may(access):
            raise AccessDenied(f"token {self.name!r} may {self.access}; this needs {access}")

    def check_space(self, space: str) -> None:
        """Refuse a space that it is not for.

        Raises:
            AccessDenied: It is for another one.
        """
        if self.space is not None and self.space != space:
            raise AccessDenied(f"token {self.name!r} is for space {self.space!r} alone")

    def check_key(self, key: str) -> None:
        """Refuse a key that it is not for.

        Raises:
            AccessDenied: It is for others.
        """
        if not key.startswith(self.keys):
            raise AccessDenied(f"token {self.name!r} is for keys that begin with {self.keys!r}")

    def may_see(self, scope: Scope, *, knowledge: str) -> bool:
        """Return whether items of *scope* may be shown to whoever reads the items made of them.

        Args:
            knowledge: The knowledge of the space that is asked.
        """
        if scope.key is None and scope.space == knowledge:
            return True
        is_own_key = scope.key is None or scope.key.startswith(self.keys)
        return is_own_key and self.space in (None, scope.space)


ANYBODY = Token("local", "", "admin", None, "", "")
"""Who asks a server that has no tokens, which serves its own machine alone."""


class TokenFile:
    """The tokens of a server, in a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read_at: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def tokens(self) -> tuple[Token, ...]:
        """Return all of them, as the file is now.

        Raises:
            NotFound: There is no such file.
            InvalidInput: It is not a file of tokens.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            raise NotFound(
                f"{self._path}: there is no file of tokens; alveus token new --tokens makes one"
            ) from None
        state = found.st_mtime_ns, found.st_size, found.st_ino
        with self._lock:
            if state != self._read_at:
                self._tokens, self._read_at = self._read(), state
            return self._tokens

    def _read(self) -> tuple[Token, ...]:
        try:
            told = cast("list[dict[str, Any]]", json.loads(self._path.read_text("utf-8"))["tokens"])
            found = tuple(Token(**fields) for fields in told)
            for token in found:
                _check(token)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"{self._path} is not a file of tokens: {error}") from error
        return found

    def find(self, secret: str) -> Token | None:
        """Return the token of a secret; None: there is none.

        Takes as long whichever it is, and whether it is one or not.
        """
        digest = _digest(secret)
        found = None
        for token in self.tokens():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def add(self, name: str, *, access: Access, space: str | None, keys: str) -> str:
        """Add a token, and return its secret, which nobody can read again.

        Raises:
            InvalidInput: There is one of that name, or it is to be what there is not.
            StoreBusy: Others were changing the file for `WRITE_WAIT_S`.
        """
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        token = Token(checked_name(name, "a token"), _digest(secret), access, space, keys, now)
        _check(token)

        def added() -> Sequence[Token]:
            kept = self.tokens() if self._path.exists() else ()
            if any(each.name == name for each in kept):
                raise InvalidInput(f"there is a token {name!r}; revoke it, or rotate it")
            return (*kept, token)

        self._replace(added)
        return secret

    def rotate(self, name: str) -> str:
        """Give a token another secret, and return it; the old one is of no use any more."""
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        digest = _digest(secret)
        self._replace(
            lambda: [
                replace(each, digest=digest) if each.name == name else each
                for each in self._with(name)
            ]
        )
        return secret

    def revoke(self, name: str) -> None:
        """Remove a token: it is of no use from now on."""
        self._replace(lambda: [each for each in self._with(name) if each.name != name])

    def _with(self, name: str) -> tuple[Token, ...]:
        """Return all tokens, of which one has that name."""
        kept = self.tokens()
        if all(each.name != name for each in kept):
            raise NotFound(f"{self._path} has no token {name!r}")
        return kept

    def _replace(self, changed: Callable[[], Sequence[Token]]) -> None:
        """Replace the file as a whole, readable for its owner alone.

        Args:
            changed: Returns the tokens as they are to be, from the file as it is now; called
                again once no other process can change it.
        """
        changed()  # what is refused makes no file
        target = Path(os.path.realpath(self._path))  # what a link leads to; others may read that
        with part_of(target, wait_s=WRITE_WAIT_S) as part:
            text = json.dumps({"tokens": [asdict(token) for token in changed()]}, indent=1)
            with part.open("w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        sync_folder(target.parent)


def _check(token: Token) -> None:
    texts = (token.name, token.digest, token.keys, token.created)
    if not all(isinstance(text, str) for text in texts):  # pyright: ignore[reportUnnecessaryIsInstance] - of a file
        raise InvalidInput(f"token {token.name!r} has a field that is no text")
    if not _DIGEST.fullmatch(token.digest):
        raise InvalidInput(f"token {token.name!r} has a digest that is no SHA-256 in hexadecimal")
    if token.access not in LEVELS:
        raise InvalidInput(f"access must be one of {', '.join(LEVELS)}, not {token.access!r}")
    if token.space is not None:
        checked_name(token.space, "a space")


def _digest(secret: str) -> str:
    """Return what is kept of a secret; it is random, so it needs no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
