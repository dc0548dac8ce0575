"""Run the older launcher, which works as `facula.distributed.run` but passes each process its rank by an argument
`--local-rank`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .run import get_args_parser, run
from .run import main as run_main

if TYPE_CHECKING:
    from typing import Any

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: Any) -> Any:
    """Return the options of a command line, which has `--use-env` beside those of `facula.distributed.run`.

    Args:
        args: a list of texts; None for those of this program.

    >>> from torch.distributed.launch import parse_args
    >>> parse_args(["--use-env", "train.py"]).use_env
    True
    """
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true", help="tell the rank by LOCAL_RANK only")
    return parser.parse_args(args)


def launch(args: Any) -> None:
    """Launch what the options say, and wait. ChildFailedError when processes failed.

    Args:
        args: options of a command line. ValueError for --no-python without --use-env.

    >>> import tempfile
    >>> from torch.distributed.launch import launch, parse_args
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     launch(parse_args(["--standalone", "--log-dir", logs, "--use-env", "--no-python", "true"]))
    """
    if args.no_python and not args.use_env:
        raise ValueError("launch: --no-python needs --use-env, got --no-python alone")
    run(args)


def main(args: Any = None) -> int:
    """Run the command; return 0, or 1 after a summary of what failed.

    Args:
        args: a list of texts; None for those of this program.

    >>> import tempfile
    >>> from torch.distributed.launch import main
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     main(["--standalone", "--log-dir", logs, "--use-env", "--no-python", "true"])
    0
    """
    return run_main(args, parse_args)


if __name__ == "__main__":
    sys.exit(main())
