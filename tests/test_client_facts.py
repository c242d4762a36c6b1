"""Facts over HTTP: the tests of entities, word for word, and learning at the server."""

from __future__ import annotations

import pytest

import test_entities
from test_client_contract import contract, memory, served
from test_entities import ada, moved

globals().update(contract(test_entities, {"ada", "memory", "moved"}))


@pytest.fixture
def embedder() -> str:
    """Return that of the tests of entities."""
    return "words"


FIXTURES = ada, memory, moved, served
"""Fixtures of others that the tests here use."""
