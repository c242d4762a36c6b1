"""Laws and random machines that several test modules use, and that no wheel holds."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("harness.runner", "harness.store")
