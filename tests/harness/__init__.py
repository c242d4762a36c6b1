"""Laws and random machines that several test modules share, and that no wheel contains."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("harness.runner", "harness.store")
