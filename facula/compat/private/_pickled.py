"""The name that pickles of dtypes, devices and sizes have carried since Facula 0.1: `facula._tensor.pickled`."""

import sys

from facula._tensor import pickled

sys.modules[__name__] = pickled
