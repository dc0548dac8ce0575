"""Tests within a memory budget that is too small for them (FACULA_TEST_BUDGET, see docs/internals/sanitizers.md)."""

from __future__ import annotations

import contextlib
import traceback

import pytest


@contextlib.contextmanager
def within(limit: str):
    """Bound what a test may hold, and let every storage go; a test that ends with the budget's error is skipped."""
    import facula

    smallest = facula._C._budget_threshold(0)
    try:
        with facula.cpu.memory_budget(limit):
            yield
    except Exception as error:
        if not any("within the memory budget of" in str(one) for one in _causes(error)):
            raise
        for one in _causes(error):  # the test's tensors do not live as long as the report of what it was skipped for
            traceback.clear_frames(one.__traceback__)
        pytest.skip(f"does not fit into {limit}")
    finally:
        facula._C._budget_threshold(smallest)


def _causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
