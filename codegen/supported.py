"""Write docs/supported.md from facula/compat/not_here.py, codegen/differences.py and the names of PyTorch:
`python -m codegen.supported`.

Only these files are read; Facula itself need not be built.
"""

import runpy
import sys
from pathlib import Path

from codegen import differences

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "supported.md"

_HEAD = """# What is supported

This page is made by `python -m codegen.supported` from `facula/compat/not_here.py`, the table of what is missing, and from the
public names of PyTorch {version} (`tests/data/pytorch_names.txt`). `tests/test_supported.py` checks that the page is current, that
every name works or is in the table, and that what is in the table does not work.

What is missing exists as a name: programs may import it, annotate with it, derive from it and ask `isinstance`. Using it raises
`NotImplementedError` with its name, the reason and what was received (for devices also an `AssertionError`, as in PyTorch).
A name counts once in each module that has it.

| namespace | names | here | not here |
|---|---|---|---|
"""


def table():
    """Return the variables of not_here.py."""
    return runpy.run_path(str(ROOT / "facula" / "compat" / "not_here.py"))


def names():
    """Return (version, {module: PyTorch's public names})."""
    first, *lines = (ROOT / "tests" / "data" / "pytorch_names.txt").read_text().splitlines()
    found = {module: rest.split() for module, _, rest in (line.partition(":") for line in lines)}
    return first.rpartition(" ")[2], found


def _namespace(module):
    return ".".join(module.split(".")[:2])


def _is_whole(module, public, missing):
    """Return whether this is a module that is missing with all its names."""
    return module in missing and set(public.get(module, ())) <= missing[module].keys()


def _overview(public, missing):
    rows = {}
    for module, listed in public.items():
        row = rows.setdefault(_namespace(module), [0, 0])
        row[0] += len(listed)
        row[1] += sum(name in missing.get(module, ()) or _is_whole(f"{module}.{name}", public, missing) for name in listed)
    total = [sum(row[i] for row in rows.values()) for i in range(2)]
    for name, (count, gone) in [*sorted(rows.items()), ("all", total)]:
        yield f"| `{name}` | {count} | {count - gone} | {gone or ''} |"


def _of_reason(modules, public):
    """Yield the lines that list the names of one reason, whole modules in one line."""
    whole = []
    for module, listed in modules.items():
        shown = [name for name in listed if name in public.get(module, ())]
        if shown and len(shown) == len(public[module]):
            whole.append(f"`{module}` ({len(shown)})")
        elif shown:
            yield f"- `{module}`: {', '.join(f'`{name}`' for name in shown)}"
    if whole:
        yield f"- whole modules, and how many names each has: {', '.join(whole)}"


def page():
    """Return the text of docs/supported.md."""
    found, (version, public) = table(), names()
    lines = [_HEAD.format(version=version) + "\n".join(_overview(public, found["MODULES"])), "", "## What is not here, and why"]
    for reason, (why, instead) in found["REASONS"].items():
        listed = list(_of_reason(found["NAMES"].get(reason, {}), public))
        if listed:
            use = f" Use {instead}." if instead else ""
            lines += ["", f"### {why[0].upper()}{why[1:]}", "", *([use.strip(), ""] if use else []), *listed]
    lines += ["", "### PyTorch has removed it", "", "| name | removed in | use |", "|---|---|---|"]
    lines += [f"| `{name}` | {since} | `{instead}` |" for name, (since, instead) in found["REMOVED"].items()]
    lines += ["", *_differences()]
    return "\n".join(lines) + "\n"


def _cell(program):
    return "`" + program.replace("\n", "; ") + "`"


def _differences():
    """Yield the lines of the two tables of codegen/differences.py."""
    yield "## What behaves otherwise on purpose"
    yield ""
    yield "PyTorch refuses these programs and Facula runs them; `tests/test_supported.py` does."
    yield ""
    yield "| program | why |"
    yield "|---|---|"
    for program, why in differences.ACCEPTED:
        yield f"| {_cell(program)} | {why} |"
    yield ""
    yield "| program | here | PyTorch | why |"
    yield "|---|---|---|---|"
    for program, ours, theirs, why in differences.GIVES:
        yield f"| {_cell(program)} | `{ours}` | {theirs} | {why} |"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE}\n")
