"""Programs as pages: a tutorial is a Python program whose text stands in comments (the percent format of editors and
Jupytext).

    python docs/site/tutorial.py docs/tutorials/tour.py                     runs it and prints what it gives as Markdown
    python docs/site/tutorial.py docs/tutorials/tour.py --folder out        writes the page and its pictures there
    python docs/site/tutorial.py docs/tutorials/tour.py --notebook FILE     writes it as a notebook, without running it

`# %% [markdown]` begins a cell of text, each line a comment; `# %%` begins a cell of code. Cells run in order, as in a
notebook: what one prints is shown below it, then the value of its last line (of a tuple, each part), then what
Matplotlib drew, then SVG files that the cell wrote where it runs. A program that fails stops the build of the site.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cells(text: str) -> list[tuple[str, str]]:
    """Return ("markdown" or "code", text) of each cell."""
    found = []
    for part in re.split(r"(?m)^# %%", text)[1:]:
        head, _, body = part.partition("\n")
        kind = "markdown" if head.strip() == "[markdown]" else "code"
        if kind == "markdown":
            body = "\n".join(re.sub(r"^# ?", "", line) for line in body.splitlines())
        found.append((kind, body.strip("\n")))
    return found


def notebook(text: str) -> str:
    """Return the program as a notebook (format 4.5) without results."""
    listed = []
    for at, (kind, body) in enumerate(cells(text)):
        cell = {"cell_type": kind, "id": f"cell-{at}", "metadata": {}, "source": body.splitlines(keepends=True)}
        listed.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": listed,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


@contextmanager
def captured() -> Iterator[list[str]]:
    """Capture what this process and its children write, on both streams."""
    found: list[str] = []
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(1), os.dup(2)]
        sys.stdout.flush()
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield found
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, descriptor in zip((1, 2), kept):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            file.seek(0)
            found.append(file.read().decode(errors="replace"))


def run(path: Path, folder: Path | None = None) -> str:
    """Return the page: text, code, and what came of it."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "facula"
    from matplotlib import pyplot

    scope: dict = {"__name__": "__main__", "__file__": str(path)}
    lines = []
    for at, (kind, body) in enumerate(cells(path.read_text())):
        if kind == "markdown":
            lines += [body, ""]
            continue
        lines += ["```python", body, "```", ""]
        files = set(Path.cwd().glob("*.svg"))
        tree = ast.parse(body, str(path))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with captured() as printed:
            try:
                exec(compile(tree, f"{path.name}, cell {at}", "exec"), scope)
                for part in _parts(last):
                    value = eval(compile(ast.Expression(part), f"{path.name}, cell {at}", "eval"), scope)
                    if value is not None and not _of_matplotlib(value):
                        print(repr(value))
            except BaseException as error:
                error.add_note(f"{path.name}, cell {at}:\n{body}") if hasattr(error, "add_note") else None
                raise
        if text := "\n".join(map(_folded, printed[0].rstrip().splitlines())):
            lines += ["````text", text, "````", ""]
        names = [f"{path.stem}-{at}-{number}.svg" for number in pyplot.get_fignums()]
        written = {f"{path.stem}-{at}-{file.name}": file for file in sorted(set(Path.cwd().glob("*.svg")) - files)}
        if folder is not None:
            for number, name in zip(pyplot.get_fignums(), names):
                pyplot.figure(number).savefig(folder / name, metadata={"Date": None}, facecolor="white", bbox_inches="tight")
            for name, file in written.items():
                shutil.copyfile(file, folder / name)
            lines += [line for name in [*names, *written] for line in (f"![What the program drew]({name})", "")]
        pyplot.close("all")
    return "\n".join(lines)


def _parts(last: ast.Expr | None) -> list[ast.expr]:
    """Return the expressions of a cell's last line; those of a tuple are shown one below the other."""
    if last is None:
        return []
    return last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]


def _folded(line: str) -> str:
    """Return a sentence that is too long for the page on several lines; tables stay as they are."""
    return textwrap.fill(line, 110) if len(line) > 110 and "  " not in line else line


def _of_matplotlib(value: object) -> bool:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return type(first).__module__.startswith("matplotlib") or hasattr(first, "figure")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("program", type=Path)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--folder", type=Path, help="where the page and its pictures go")
    how.add_argument("--notebook", type=Path, help="the file of the notebook")
    options = parser.parse_args(arguments)
    if options.notebook:
        options.notebook.write_text(notebook(options.program.read_text()))
        return 0
    program, folder = options.program.resolve(), options.folder and options.folder.resolve()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part
    )
    with tempfile.TemporaryDirectory() as scratch:  # where a program's own files go
        os.chdir(scratch)
        page = run(program, folder)
        os.chdir(ROOT)
    if folder:
        (folder / f"{program.stem}.md").write_text(page)
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
