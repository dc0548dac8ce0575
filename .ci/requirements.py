"""Prints lists of pyproject.toml (`requires`, `dependencies`, an extra such as `lint`), for pip, without the package itself.

    pip install $(python .ci/requirements.py lint)
    python .ci/requirements.py requires dependencies test | pip install -r /dev/stdin    # conditions have spaces

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
    print(*[entry for name in sys.argv[1:] for entry in read(name)], sep="\n")
