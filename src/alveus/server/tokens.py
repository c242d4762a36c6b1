"""Tokens: the rights of callers over HTTP.

A file stores each token's name, its rights, and the SHA-256 of its secret, never the secret. The
server reads the file again when it changes, so a token is added or revoked without a restart.
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
"""The access levels, lowest first. Each level includes the lower levels."""

SECRET_BYTES = 32

WRITE_WAIT_S = 30.0
"""How long a change of the file waits for other writers."""

_DIGEST = re.compile("[0-9a-f]{64}")

PREFIX = "alveus_"
"""The prefix of every secret, so that scanners for leaked secrets recognize it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token: the digest of a secret, and the rights of a caller who sends the secret.

    Attributes:
        name: A name for people, and for `revoke`.
        digest: The SHA-256 of the secret, in hexadecimal.
        access: "read"; "write", which also allows to change and forget; or "admin", which also
            allows to export, and to read the runs and receipts of all keys.
        space: The only space that the token may use. If it is None, the token may use all spaces.
        keys: The prefix of the keys that the token may use. A token with a prefix may read
            knowledge but not write it, and may not make calls on all keys.
        created: The time of creation, in ISO 8601.
    """

    name: str
    digest: str
    access: Access
    space: str | None
    keys: str
    created: str

    def may(self, access: Access) -> bool:
        """Return whether the token allows *access*."""
        return LEVELS.index(self.access) >= LEVELS.index(access)

    def check(self, access: Access) -> None:
        """Raise unless the token allows *access*.

        Raises:
            AccessDenied: The token has a lower level than *access*.
        """
        if not self.may(access):
            raise AccessDenied(
                f"token {self.name!r} has the access {self.access!r}, but this request needs "
                f"{access!r}"
            )

    def check_space(self, space: str) -> None:
        """Raise unless the token may use the space.

        Raises:
            AccessDenied: The token is limited to another space.
        """
        if self.space is not None and self.space != space:
            raise AccessDenied(f"token {self.name!r} allows only space {self.space!r}")

    def check_key(self, key: str) -> None:
        """Raise unless the token may use the key.

        Raises:
            AccessDenied: The token is limited to other keys.
        """
        if not key.startswith(self.keys):
            raise AccessDenied(
                f"token {self.name!r} allows only keys that begin with {self.keys!r}"
            )

    def may_see(self, scope: Scope, *, knowledge: str) -> bool:
        """Return whether the token may see items of *scope* as sources of other items.

        Args:
            knowledge: The name of the knowledge that belongs to the requested space.
        """
        if scope.key is None and scope.space == knowledge:
            return True
        is_allowed_key = scope.key is None or scope.key.startswith(self.keys)
        return is_allowed_key and self.space in (None, scope.space)


ANYBODY = Token("local", "", "admin", None, "", "")
"""The token of every caller of a server without tokens, which answers only its machine."""


class TokenFile:
    """The tokens of a server, in a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read_at: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens of the present file.

        Raises:
            NotFound: The file does not exist.
            InvalidInput: The file is not a file of tokens.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            raise NotFound(
                f"there is no file of tokens {self._path}; create it with alveus token new --tokens"
            ) from None
        state = found.st_mtime_ns, found.st_size, found.st_ino
        with self._lock:
            if state != self._read_at:
                self._tokens, self._read_at = self._read(), state
            return self._tokens

    def _read(self) -> tuple[Token, ...]:
        try:
            answer = cast(
                "list[dict[str, Any]]", json.loads(self._path.read_text("utf-8"))["tokens"]
            )
            found = tuple(Token(**fields) for fields in answer)
            for token in found:
                _check(token)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"{self._path} is not a file of tokens ({error})") from error
        return found

    def find(self, secret: str) -> Token | None:
        """Return the token that has this secret, or None if no token has it.

        The call takes the same time for every secret, valid or not.
        """
        digest = _digest(secret)
        found = None
        for token in self.tokens():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def add(self, name: str, *, access: Access, space: str | None, keys: str) -> str:
        """Add a token and return its secret, which cannot be read again later.

        Raises:
            InvalidInput: The name is in use, or an argument is invalid.
            StoreBusy: Other processes were changing the file for `WRITE_WAIT_S`.
        """
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        token = Token(checked_name(name, "a token"), _digest(secret), access, space, keys, now)
        _check(token)

        def added() -> Sequence[Token]:
            kept = self.tokens() if self._path.exists() else ()
            if any(each.name == name for each in kept):
                raise InvalidInput(f"there is already a token {name!r}; revoke it, or rotate it")
            return (*kept, token)

        self._replace(added)
        return secret

    def rotate(self, name: str) -> str:
        """Give a token a new secret and return the secret. The old secret is no longer valid."""
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
        """Delete a token. Its secret is no longer valid."""
        self._replace(lambda: [each for each in self._with(name) if each.name != name])

    def _with(self, name: str) -> tuple[Token, ...]:
        """Return all tokens. Raise `NotFound` if none of them has this name."""
        kept = self.tokens()
        if all(each.name != name for each in kept):
            raise NotFound(f"{self._path} has no token {name!r}")
        return kept

    def _replace(self, changed: Callable[[], Sequence[Token]]) -> None:
        """Replace the file atomically, readable only by its owner.

        Args:
            changed: Reads the present file and returns the new tokens. It is called twice: first
                without the lock against other processes, then under this lock.
        """
        changed()  # a refused change creates no file
        target = Path(os.path.realpath(self._path))  # keep a symbolic link in use
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
        raise InvalidInput(f"token {token.name!r} has a field that is not a text")
    if not _DIGEST.fullmatch(token.digest):
        raise InvalidInput(f"token {token.name!r} has a digest that is not a hexadecimal SHA-256")
    if token.access not in LEVELS:
        raise InvalidInput(f"access must be one of {', '.join(LEVELS)}, not {token.access!r}")
    if token.space is not None:
        checked_name(token.space, "a space")


def _digest(secret: str) -> str:
    """Return the stored digest of a secret. Secrets are random and need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
