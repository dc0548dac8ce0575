"""Define tests that begin and end without recordings."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING

from facula._dynamo import reset
from facula.compiler import _counters

if TYPE_CHECKING:
    from typing import Any

__all__ = ["TestCase", "run_tests"]


class TestCase(unittest.TestCase):
    """Reset recordings and counters before and after each test of programs that compile."""

    def setUp(self) -> None:
        super().setUp()
        reset()
        _counters.counters.clear()

    def tearDown(self) -> None:
        super().tearDown()
        reset()
        _counters.counters.clear()


def run_tests(needs: Any = ()) -> None:
    """Run the tests of the program, unless a package is missing.

    Args:
        needs: names of packages.
    """
    import importlib.util

    wanted = (needs,) if isinstance(needs, str) else needs
    if all(importlib.util.find_spec(name) for name in wanted):
        unittest.main()
