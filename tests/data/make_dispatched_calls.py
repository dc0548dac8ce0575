"""Writes dispatched_calls.txt: run with PyTorch for what it shows, then with Facula for the lines that say `here`.

Needs PyTorch for the first of the two:

    python tests/data/make_dispatched_calls.py pytorch CALLS   # a file of calls, one a line
    python tests/data/make_dispatched_calls.py here            # where PyTorch is not there
"""

import importlib
import sys
import warnings
from pathlib import Path

FILE = Path(__file__).parent / "dispatched_calls.txt"
HEAD = """\
# What __torch_dispatch__ sees of a call in PyTorch 2.13: "call | operators", then "| mode ..." where a mode sees others than a class;
# and "| here ...", "| mode here ..." for what Facula shows a class, and a mode, where that differs. See test_dispatch_calls.py.
"""


def as_facula(name):
    """PyTorch under the name that the test imports."""
    for part in ("", ".nn", ".utils", ".utils._pytree", ".utils._python_dispatch"):
        sys.modules[f"facula{part}"] = importlib.import_module(f"{name}{part}")


def seen(test, call):
    """(what a class sees, what a mode sees)."""
    by_class = test.seen_by_class(call)
    return by_class, test.seen_by_mode(call)


def main():
    warnings.simplefilter("ignore")
    if sys.argv[1] == "pytorch":
        FILE.touch()
        as_facula("torch")
    sys.path.insert(0, str(FILE.parents[1]))
    test = importlib.import_module("test_dispatch_calls")
    lines = []
    for call in Path(sys.argv[2]).read_text().splitlines() if sys.argv[1] == "pytorch" else test.ROWS:
        by_class, by_mode = seen(test, call)
        if sys.argv[1] == "pytorch":
            lines.append(f"{call} | {by_class}" + (f" | mode {by_mode}" if by_mode != by_class else ""))
            continue
        parts = test.ROWS[call]
        here = f" | here {by_class}" * (by_class != parts["class"])
        mode = f" | mode {parts['mode']}" * (parts["mode"] != parts["class"])
        lines.append(f"{call} | {parts['class']}{mode}{here}" + f" | mode here {by_mode}" * (by_mode != parts["mode"]))
    FILE.write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
