"""Command-line options whose defaults come from the environment: PET_<OPTION>."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["check_env", "env"]


class env(argparse.Action):
    """An option with a value, from PET_<its name> when it is not given."""

    def __init__(self, dest: Any, default: Any = None, required: bool = False, **kwargs: Any) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and default is None, **kwargs)

    def __call__(self, parser: Any, namespace: str, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, values)


class check_env(argparse.Action):
    """A switch, on when given or when PET_<its name> is 1."""

    def __init__(self, dest: Any, default: Any = False, **kwargs: Any) -> None:
        given = os.environ.get(f"PET_{dest.upper()}", "1" if default else "0")
        super().__init__(dest=dest, const=True, default=given.lower() in ("1", "true"), nargs=0, **kwargs)

    def __call__(self, parser: Any, namespace: str, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, self.const)
