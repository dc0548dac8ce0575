"""The older launcher: as `facula.distributed.run`, but it tells each process its rank by an argument `--local-rank`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .run import get_args_parser, run
from .run import main as run_main

if TYPE_CHECKING:
    from typing import Any

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: Any) -> Any:
    """The options of a command line."""
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true", help="tell the rank by LOCAL_RANK only")
    return parser.parse_args(args)


def launch(args: Any) -> None:
    """Launches what the options say."""
    if args.no_python and not args.use_env:
        raise ValueError("launch: --no-python needs --use-env, got --no-python alone")
    run(args)


def main(args: Any = None) -> int:
    """The command."""
    return run_main(args, parse_args)


if __name__ == "__main__":
    sys.exit(main())
