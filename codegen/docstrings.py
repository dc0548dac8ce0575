"""List public names without a complete docstring: `python -m codegen.docstrings [namespace ...]` prints what is
missing.

A docstring is complete when its text names every parameter (of the signature that `inspect` sees, else of the first lines),
and when it shows an example. What counts as a name:

- functions and classes that a public module shows, once, in the first namespace that has them (of one object with two names
  the second is an alias), and the public methods that a class has on its own, where no base has them;
- not constants, dtypes, modules, aliases of types, named tuples of results, and what raises NotImplementedError by
  facula/compat/not_here.py.

Exceptions and properties need no example, and of a method the example of its class is enough where it calls the method.
Parameters of classes of `nn` that are the same everywhere (`LEGACY`) need no text.
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import inspect
import keyword
import pkgutil
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass

import facula

#: Namespaces of their own below the first word.
SPLIT = ("nn.functional", "nn.init", "nn.utils", "optim.lr_scheduler", "utils.data")
#: Modules that hold what others show.
LEFT_OUT = ("functions", "nn.functions", "compat", "return_types", "utils.tensorboard.summary", "utils.tensorboard.writer")
#: Modules that need a package: they are looked at where it is there.
NEEDS = {"utils.tensorboard": "tensorboard"}
LEGACY = {"self", "cls", "size_average", "reduce"}  # flags that `reduction` replaced
EVERYWHERE = {"device", "dtype"}  # what every layer takes
METHODS = (types.FunctionType, classmethod, staticmethod, types.MethodDescriptorType, types.BuiltinFunctionType,
           types.ClassMethodDescriptorType)  # fmt: skip
PROPERTIES = (property, types.GetSetDescriptorType)


@dataclass(frozen=True)
class Name:
    """Describe a public name: its namespace, its name below `facula`, its value, and the class whose method it is."""

    namespace: str
    path: str
    value: object
    owner: type | None = None

    @property
    def text(self) -> str:
        return text_of(self.value)

    @property
    def is_property(self) -> bool:
        return isinstance(self.value, PROPERTIES)


def text_of(thing: object) -> str:
    """Return the docstring; of a class its own or that of a base of ours, not of Enum or Exception."""
    if not inspect.isclass(thing):
        return inspect.getdoc(thing) or ""
    texts = (vars(base).get("__doc__") for base in thing.__mro__ if _is_ours(base))
    return inspect.cleandoc(next((text for text in texts if text), ""))


def modules() -> Iterator[tuple[str, types.ModuleType]]:
    """Yield public modules by their names below `facula`, those nearest to the top first."""
    names = [found.name.partition(".")[2] for found in pkgutil.walk_packages(facula.__path__, "facula.")]
    yield "", facula
    for name in sorted(names, key=lambda n: (n.count("."), n)):
        private = any(part.startswith("_") for part in name.split("."))
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            continue
        if not private and not any(name == left or name.startswith(f"{left}.") for left in LEFT_OUT):
            yield name, importlib.import_module(f"facula.{name}")


def namespace_of(module: str) -> str:
    """Return the row of the table that a module's names belong to."""
    for split in SPLIT:
        if module == split or module.startswith(f"{split}."):
            return split
    return module.partition(".")[0] or "torch"


def _is_ours(thing: object) -> bool:
    home = getattr(thing, "__module__", None)
    if isinstance(thing, types.BuiltinFunctionType):
        return not isinstance(thing.__self__, type) and str(home).split(".")[0] == "facula"
    return (inspect.isclass(thing) or inspect.isroutine(thing)) and str(home).split(".")[0] in ("facula", "torch")


def names() -> list[Name]:
    """Return every public name, in the order of the modules."""
    found: list[Name] = []
    seen = {id(facula.Tensor)}
    for path, module in modules():
        shown = getattr(module, "__all__", None) if path else None
        for name in shown or sorted(dir(module)):
            left_out = name.startswith("_") or f"{path}.{name}" in LEFT_OUT
            thing = None if left_out else getattr(module, name, None)
            if thing is None or id(thing) in seen or not _is_ours(thing) or hasattr(thing, "_facula_missing"):
                continue
            seen.add(id(thing))
            full, space = f"{path}.{name}".lstrip("."), namespace_of(path)
            found.append(Name(space, full, thing))
            if inspect.isclass(thing):
                found += _members(space, full, thing, seen)
    tensor = _members("torch.Tensor", "Tensor", facula.Tensor, seen, whole=True)  # now, as some modules give it methods
    return tensor + found


def _members(space: str, path: str, owner: type, seen: set[int], whole: bool = False) -> list[Name]:
    """Return the public methods and properties of a class that no public base has, those of private bases once; of Tensor
    all."""
    public = () if whole else [base for base in owner.__mro__[1:] if not base.__name__.startswith("_")]
    inherited = {name for base in public for name in dir(base)}
    found = []
    for name in sorted(dir(owner)):
        value = inspect.getattr_static(owner, name)
        missing = name.startswith("_") or hasattr(value, "_facula_missing")
        if not missing and name not in inherited and isinstance(value, METHODS + PROPERTIES):
            if not whole and name not in vars(owner):
                if id(value) in seen:
                    continue
                seen.add(id(value))
            bound = isinstance(value, (classmethod, staticmethod))
            found.append(Name(space, f"{path}.{name}", getattr(owner, name) if bound else value, owner))
    return found


def _balanced(text: str, start: int) -> int:
    """Return the index behind the parenthesis that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at + 1
    return len(text)


def split_text(name: Name) -> tuple[list[str], str]:
    """Return the signatures in the first lines of a docstring, `f(x, y=1) -> Tensor`, and the words without them and without
    examples."""
    signatures, words = [], name.text
    while match := re.match(r"\w+(?=\()", words):
        end = _balanced(words, match.end())
        signatures.append(words[match.end() + 1:end - 1])
        line = words[end:].partition("\n")
        words = (line[0].partition(":")[2] + "\n" if " -> " not in line[0] else "") + line[2]
        words = words.lstrip("\n")
    lines = re.sub(r"(?m)^\s*>>> .*(\n(?!\s*\n).*)*", "", words)
    return signatures, lines


def parameters(name: Name) -> list[str]:
    """Return the names of the parameters."""
    if name.is_property or (inspect.isclass(name.value) and issubclass(name.value, enum.Enum)):
        return []
    try:
        found = list(inspect.signature(name.value).parameters)
    except (TypeError, ValueError):
        found = [part for text in split_text(name)[0] for part in re.findall(r"(?:^|, )\*{0,2}(\w+)", text)]
    found = [p[:-1] if p.endswith("_") and keyword.iskeyword(p[:-1]) else p for p in found]  # documented as `from`
    return [p for p in dict.fromkeys(found) if not p.startswith("_") and p not in LEGACY]


def faults(name: Name) -> list[str]:
    """Return what the docstring lacks; empty where it is complete."""
    if not name.text.strip():
        return ["docstring"]
    text, shown = split_text(name)[1], name.text
    if name.owner not in (None, facula.Tensor):
        around = text_of(name.owner)
        text += around
        method = name.path.rpartition(".")[2]
        shown += around if re.search(rf"(>>>|\.\.\.) .*\b{method}\b", around) else ""
    left_out = EVERYWHERE if name.namespace == "nn" else set()
    missing = [f"`{p}`" for p in parameters(name) if p not in left_out and not re.search(rf"\b{p}\b", text)]
    exception = inspect.isclass(name.value) and issubclass(name.value, BaseException)
    if not (exception or name.is_property or ">>> " in shown):
        missing.append("example")
    return missing


def table() -> dict[str, tuple[int, int, dict[str, list[str]]]]:
    """Return, per namespace, complete docstrings, all names, and what is missing by name."""
    rows: dict[str, tuple[int, int, dict[str, list[str]]]] = {}
    for name in names():
        complete, total, missing = rows.get(name.namespace, (0, 0, {}))
        lacks = faults(name)
        if lacks:
            missing[name.path] = lacks
        rows[name.namespace] = (complete + (not lacks), total + 1, missing)
    return rows


def main(wanted: list[str]) -> int:
    rows = table()
    if unknown := set(wanted) - set(rows):
        print(f"namespaces are {', '.join(sorted(rows))}, got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    for space in wanted:
        for path, lacks in rows[space][2].items():
            print(f"{path}: {', '.join(lacks)}")
    for space in wanted or sorted(rows):
        complete, total, _ = rows[space]
        print(f"{space:<18} {complete:5} of {total:5} {100 * complete // total:4} %")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
