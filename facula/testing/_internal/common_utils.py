"""The base class of test cases."""

import unittest

from facula.testing import assert_close


class TestCase(unittest.TestCase):
    """A test case whose `assertEqual` compares tensors, and lists of them, by value."""

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True, exact_device=False):
        """Equal: numbers, tensors and lists of them within the tolerances of `assert_close`, other objects by `==`."""
        if isinstance(x, (str, bytes, set, dict, type)) or x is None:
            super().assertEqual(x, y, msg)
            return
        try:
            assert_close(
                x, y, atol=atol, rtol=rtol, equal_nan=equal_nan, check_dtype=exact_dtype, check_device=exact_device, msg=msg
            )
        except TypeError:  # what is no number
            super().assertEqual(x, y, msg)


def run_tests(argv=None):
    """Runs the tests of the program."""
    unittest.main(argv=argv)
