"""Writes dispatched_calls.txt: run with PyTorch for what it shows, then with Facula for the lines that say `here`.

    python tests/data/make_dispatched_calls.py pytorch CALLS   # a file of calls, one a line
    python tests/data/make_dispatched_calls.py here            # where PyTorch is not there
"""

import importlib
import sys
import warnings
from pathlib import Path

FILE = Path(__file__).parent / "dispatched_calls.txt"
HEAD = """\
# What __torch_dispatch__ sees of a call in PyTorch 2.13: "call | operators", then "| mode ..." where a mode sees others than a class,
# and "| here ..." for what Facula shows a class where it is made of other operators. See test_dispatch_calls.py.
"""


def as_facula(name):
    """PyTorch under the name that the test imports."""
    for part in ("", ".nn", ".utils", ".utils._pytree", ".utils._python_dispatch"):
        sys.modules[f"facula{part}"] = importlib.import_module(f"{name}{part}")


def seen(test, call):
    """(what a class sees, what a mode sees)."""
    values = test._values(test.Wrapper)
    test.Wrapper.calls.clear()
    eval(call, values)
    by_class, values = "; ".join(test.Wrapper.calls), test._values(lambda t: t)
    with test.Log() as log:
        eval(call, values)
    return by_class, "; ".join(log.calls)


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
        line = f"{call} | {test.ROWS[call]}".split(" | here ")[0]
        row = line.split(" | ", 1)[1]
        same = (by_class, by_mode) == (row.split(" | mode ")[0], row.split(" | mode ")[-1])
        lines.append(line if same else f"{line} | here {by_class}")
    FILE.write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
