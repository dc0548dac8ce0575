"""Define command-line options whose defaults come from the environment: PET_<OPTION>."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = ["check_env", "env"]


class env(argparse.Action):
    """Define an `argparse` action: an option with a value, which is read from PET_<its name> in the environment when it
    is not given.

    Args:
        dest: its name.
        default: its value where neither says one.
        required: whether that is an error.
        kwargs: further arguments of `argparse.Action`.

    >>> import argparse
    >>> from torch.distributed.argparse_util import env
    >>> parser = argparse.ArgumentParser()
    >>> action = parser.add_argument("--nnodes", action=env, type=str, default="1")
    >>> parser.parse_args([]), parser.parse_args(["--nnodes", "2"])
    (Namespace(nnodes='1'), Namespace(nnodes='2'))
    """

    def __init__(self, dest: Any, default: Any = None, required: bool = False, **kwargs: Any) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and default is None, **kwargs)

    def __call__(self, parser: Any, namespace: str, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, values)


class check_env(argparse.Action):
    """Define an `argparse` action: a switch, which is on when it is given or when PET_<its name> in the environment is
    1 or true.

    Args:
        dest: its name.
        default: whether it is on where neither says so.
        kwargs: further arguments of `argparse.Action`.

    >>> import argparse
    >>> from torch.distributed.argparse_util import check_env
    >>> parser = argparse.ArgumentParser()
    >>> action = parser.add_argument("--standalone", action=check_env)
    >>> parser.parse_args([]), parser.parse_args(["--standalone"])
    (Namespace(standalone=False), Namespace(standalone=True))
    """

    def __init__(self, dest: Any, default: Any = False, **kwargs: Any) -> None:
        given = os.environ.get(f"PET_{dest.upper()}", "1" if default else "0")
        super().__init__(dest=dest, const=True, default=given.lower() in ("1", "true"), nargs=0, **kwargs)

    def __call__(self, parser: Any, namespace: str, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, self.const)
