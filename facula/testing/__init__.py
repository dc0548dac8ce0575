"""Comparing results and making inputs in tests: `assert_close`, `make_tensor`."""

from facula.testing._close import assert_allclose, assert_close
from facula.testing._make import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
