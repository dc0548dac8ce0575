"""Describe the distribution `torch` to importlib.metadata while Facula has that name.

This is a file of its own because a caller has importlib.metadata loaded already, and other programs need not load it.
"""

from __future__ import annotations

import importlib.metadata
import pathlib

from facula.torch_version import __version__

_METADATA = f"""Metadata-Version: 2.1
Name: torch
Version: {__version__}
Summary: Facula, standing in for PyTorch
"""


class Distribution(importlib.metadata.Distribution):
    """Describe the distribution `torch`."""

    def read_text(self, filename):
        return {"METADATA": _METADATA, "top_level.txt": "torch\n"}.get(filename)

    def locate_file(self, path):
        return pathlib.Path(__file__).parent.parent / path
