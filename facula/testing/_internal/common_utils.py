"""Define the base class of test cases."""

import unittest

from facula.testing import assert_close


class TestCase(unittest.TestCase):
    """Compare tensors by value in `assertEqual`, in lists and dicts, too."""

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True, exact_device=False):
        """Compare numbers and tensors within the tolerances of `assert_close`, lists and dicts by parts, the rest by `==`."""
        rest = {
            "msg": msg, "atol": atol, "rtol": rtol, "equal_nan": equal_nan, "exact_dtype": exact_dtype,
            "exact_device": exact_device,
        }  # fmt: skip
        if isinstance(x, dict) and isinstance(y, dict):
            super().assertEqual(set(x), set(y), msg)
            for key in x:
                self.assertEqual(x[key], y[key], **rest)
            return
        if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            super().assertEqual(len(x), len(y), msg)
            for part, other in zip(x, y):
                self.assertEqual(part, other, **rest)
            return
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
    """Run the tests of the program."""
    unittest.main(argv=argv)
