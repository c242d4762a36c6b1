"""What holds for every test: how examples are made up, and that nobody uses the network."""

from __future__ import annotations

import ipaddress
import os
import sys

from hypothesis import HealthCheck, settings

from scale import COUNTS, SCALE

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

settings.register_profile(
    SCALE,
    max_examples=COUNTS.fuzz_examples,
    deadline=None,  # two shared cores say nothing about the code
    print_blob=True,  # a failure found elsewhere is repeated with @reproduce_failure
    # The everyday run and CI judge a change, so they try the same examples each time;
    # a full run on a developer's machine goes looking for new ones, and remembers what it found.
    derandomize=SCALE == "quick" or IN_CI,
    database=None if IN_CI or SCALE == "quick" else settings().database,
    suppress_health_check=[
        HealthCheck.too_slow,  # the same two cores
        HealthCheck.differing_executors,  # a contract is inherited by every backend, on purpose
    ],
)
settings.load_profile(SCALE)


def _is_here(host: object) -> bool:
    if host in {None, "", "localhost", b"localhost"}:
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if not _is_here(host):
        message = f"a test reached for the network: {event} {host!r}; fornix works without one"
        raise RuntimeError(message)


sys.addaudithook(_refuse_network)
