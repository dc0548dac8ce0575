"""Provide `facula._tensor.pickled` under the name that pickles of dtypes, devices and sizes contain since Facula 0.1."""

import sys

from facula._tensor import pickled

sys.modules[__name__] = pickled
