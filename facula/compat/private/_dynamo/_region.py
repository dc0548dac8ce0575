"""The name by which the core asks for `facula.compiler._region`."""

import sys

from facula.compiler import _region

sys.modules[__name__] = _region
