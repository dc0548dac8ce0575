"""Prints a list of pyproject.toml (`requires`, or an extra such as `lint`), to be installed without the package itself.

    python .ci/requirements.py lint

Python 3.10 has no reader of TOML; the lists are written as Python writes them.
"""

import ast
import re
import sys
from pathlib import Path


def read(name: str) -> list[str]:
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    match = re.search(rf"^{re.escape(name)} = (\[.*?\])$", text, re.M | re.S)
    if not match:
        raise SystemExit(f"pyproject.toml: no list '{name}'")
    return ast.literal_eval(match.group(1))


if __name__ == "__main__":
    print(*read(sys.argv[1]))
