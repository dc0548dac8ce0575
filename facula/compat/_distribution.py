"""What importlib.metadata knows of the distribution `torch` while Facula goes by that name.

A file of its own, for who asks has importlib.metadata loaded, which others do not pay for.
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
    """The distribution."""

    def read_text(self, filename):
        return {"METADATA": _METADATA, "top_level.txt": "torch\n"}.get(filename)

    def locate_file(self, path):
        return pathlib.Path(__file__).parent.parent / path
