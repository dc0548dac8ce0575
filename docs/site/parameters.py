"""Join what signatures and docstrings say of parameters: `described(signatures, blocks, link)`.

A page of the API names each parameter by itself, with its type, its default and a sentence, then what is returned and
what is raised. Types and defaults stand in signatures, sentences in the sections Args, Returns and Errors.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Link = Callable[[str], "str | None"]

ARGUMENTS = ("Args", "Arguments", "Keyword arguments")
#: A section of a class: what arguments mean wherever its methods have them.
OF_METHODS = "Arguments of methods"
#: Sections that come behind the parameters.
LATER = ("Returns", "Yields", "Shape", "Shapes", "Errors", "Raises", "Example", "Examples")
NAMED = r"(?:torch\.|facula\.)?[A-Z]\w*(?:Error|Exception|Interrupt|StopIteration|Warning)\b"
RAISED = re.compile(rf"{NAMED}(?:(?:, | or | and ){NAMED})*")


@dataclass
class Parameter:
    """A parameter of a signature: its name with its stars, its type and its default as they are written."""

    name: str
    type: str = ""
    default: str = ""


@dataclass
class Signature:
    """A signature in parts; `other` is text that is none, such as the type of a property."""

    parameters: list[Parameter]
    returns: str = ""
    other: str = ""

    def data(self) -> list:
        return [[[p.name, p.type, p.default] for p in self.parameters], self.returns, self.other]

    @property
    def named(self) -> list[Parameter]:
        return [
            p
            for p in self.parameters
            if p.name not in ("*", "/", "self", "$self", "cls") and not p.name.lstrip("*").startswith("_")
        ]


def split(text: str, at: str) -> list[str]:
    """Return the parts of a text between letters `at` that stand outside of brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            if letter == at and depth == 0:
                parts.append(text[start:place])
                start = place + 1
    return [*parts, text[start:]]


def read(text: str) -> Signature:
    """Return the parts of `(a: int, *, b=1) -> Tensor`."""
    if not text.startswith("("):
        return Signature([], "", text)
    depth, end = 0, len(text)
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0:
            end = at
            break
    found = []
    for part in filter(None, map(str.strip, split(text[1:end], ","))):
        head, *default = split(part, "=")
        name, *kind = split(head, ":")
        found.append(Parameter(name.strip(), ":".join(kind).strip(), "=".join(default).strip()))
    return Signature(found, text[end + 1 :].strip().removeprefix("->").strip().removesuffix(":"))


def merged(signatures: list[Signature]) -> dict[str, Parameter]:
    """Return the parameters of all signatures by name; types that differ are joined by `|`."""
    found: dict[str, Parameter] = {}
    for signature in signatures:
        for p in signature.named:
            name = p.name.lstrip("*")
            if name not in found:
                found[name] = Parameter(p.name, p.type, p.default)
                continue
            known = found[name]
            known.default = known.default or p.default
            kinds = [kind.strip() for kind in split(known.type, "|")]
            known.type = " | ".join(dict.fromkeys(filter(None, [*kinds, *(kind.strip() for kind in split(p.type, "|"))])))
    return found


def type_of(text: str, link: Link) -> list:
    """Return a type as inline text whose names are links."""
    parts: list[list[str]] = []
    for word in re.split(r"((?<![\w.'\"])[A-Za-z_][\w.]*)", text):
        if target := link(word) if re.match(r"[A-Za-z_]", word) else None:
            parts.append(["a", word, target])
        elif word:
            if parts and parts[-1][0] == "c":
                parts[-1][1] += word
            else:
                parts.append(["c", word])
    return parts


def stubs(folder: Path) -> dict[str, dict[str, str]]:
    """Return the types of the parameters of what the core has, by its public name, from the stubs."""
    found: dict[str, dict[str, str]] = {}

    def read_function(node: ast.FunctionDef, path: str) -> None:
        known = found.setdefault(path, {})
        for arg in [*node.args.args, *node.args.kwonlyargs, *filter(None, [node.args.vararg])]:
            if arg.annotation is not None:
                kind = re.sub(r"\b_(?=[A-Za-z])|\bbuiltins\.", "", ast.unparse(arg.annotation))
                known[arg.arg] = " | ".join(dict.fromkeys(filter(None, [known.get(arg.arg), kind])))

    for path in sorted(folder.glob("*.pyi")):
        module = path.stem.replace("nn_functional", "nn.functional").removeprefix("__init__")
        for node in ast.parse(path.read_text()).body:
            for part in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(part, ast.FunctionDef):
                    names = [module, node.name, part.name] if isinstance(node, ast.ClassDef) else [module, part.name]
                    read_function(part, ".".join(filter(None, names)))
    return found


def described(
    signatures: list[Signature], found: list[list], link: Link, types: Mapping[str, str] = {}, texts: Mapping[str, list] = {}
) -> list[list]:
    """Return the blocks of a docstring with Args as parameters, and with what is returned and raised.

    `types` are those of parameters without annotation, `texts` blocks for those of which the docstring says nothing.
    """
    known = merged(signatures)
    for name, parameter in known.items():
        parameter.type = parameter.type or types.get(name, "")
    returns = list(dict.fromkeys(s.returns for s in signatures if s.returns not in ("", "None")))
    rows: list[list] = []
    kept: list[list] = []
    place = None
    for block in found:
        if block[0] == "fields" and block[1].startswith(ARGUMENTS) and block[1] != OF_METHODS:
            place = len(kept) if place is None else place
            rows += block[2]
        elif block[0] == "fields" and block[1] == "Attributes":  # those of a dataclass are its parameters
            given = [row for row in block[2] if set(names_of(row)) <= known.keys()]
            rows += given
            place = len(kept) if given and place is None else place
            if left := [row for row in block[2] if row not in given]:
                kept.append(["fields", "Attributes", left])
        elif block[0] in ("fields", "note") and block[1].startswith(("Errors", "Raises")):
            kept.append(raised(block))
        elif block[0] == "note" and block[1].startswith("Shape"):
            kept.append([*block[:2], capital(block[2])])
        else:
            kept.append(block)
    if place is None:
        later = (
            i
            for i, b in enumerate(kept)
            if (b[0] in ("note", "fields") and b[1].startswith(LATER)) or b[:2] == ["code", "pycon"]
        )
        place = next(later, len(kept))
    made = []
    if shown := parameter_rows(rows, known, link, texts):
        made.append(["parameters", "Parameters", shown])
    for i, block in enumerate(kept):
        if block[0] in ("note", "fields") and block[1].partition(",")[0] in ("Returns", "Yields"):
            if returns:
                kept[i] = [
                    "returns",
                    block[1],
                    type_of(" or ".join(returns), link),
                    *([block[2]] if block[0] == "note" else [[block]]),
                ]
            break
    else:
        if returns:
            made.append(["returns", "Returns", type_of(" or ".join(returns), link), []])
    return [*kept[:place], *made, *kept[place:]]


def names_of(row: list) -> list[str]:
    """Return the names of an entry of Args, without stars."""
    return [name.lstrip("*") for name in re.split(r", | and ", row[0][0][1])]


def parameter_rows(rows: list[list], known: dict[str, Parameter], link: Link, texts: Mapping[str, list]) -> list[list]:
    """Return `[[[name, type, default], ...], blocks]` for every entry of Args, in its order, then for what Args leaves out."""
    result, seen = [], set()
    for (key,), body in rows:
        heads = []
        for name in re.split(r", | and ", key[1]):
            plain = name.lstrip("*")
            p = known.get(plain) or known.get(plain + "_") or Parameter(name)
            seen |= {plain, plain + "_"}
            heads.append([p.name.rstrip("_") if p.name.endswith("_") else p.name, type_of(p.type, link), p.default])
        result.append([heads, capital(body)])
    for name, p in known.items():
        if name not in seen and name not in ("args", "kwargs"):
            result.append([[[p.name, type_of(p.type, link), p.default]], texts.get(name, [])])
    order = {name: at for at, name in enumerate(known)}
    return sorted(result, key=lambda row: order.get(row[0][0][0].lstrip("*"), len(order)))


def capital(found: list[list]) -> list[list]:
    """Return blocks that begin with a capital letter, as a text by itself does."""
    if found and found[0][0] == "p" and found[0][1][:1] and found[0][1][0][0] == "t":
        (_, text), *more = found[0][1]
        return [["p", [["t", text[:1].upper() + text[1:]], *more]], *found[1:]]
    return found


def raised(block: list) -> list:
    """Return a section of errors with a row for each kind of error, where its text names one at the start of each part."""
    whole = ["note" if block[0] == "note" else block[0], "Raises", block[2]]
    if block[0] != "note" or len(block[2]) != 1 or block[2][0][0] != "p":
        return whole
    parts: list[list[list[str]]] = [[]]
    for kind, text, *more in block[2][0][1]:
        pieces = re.split(rf"(?<=[;.,]) (?:and )?(?={NAMED})", text) if kind == "t" else [text]
        for i, piece in enumerate(pieces):
            parts += [[]] if i else []
            parts[-1] += [[kind, piece, *more]] if piece else []
    rows, before = [], ""
    for part in parts:
        match = RAISED.match(before + part[0][1]) if part and part[0][0] in ("t", "c", "a") else None
        if match is None:
            return whole
        text, more = (before + part[0][1])[match.end() :], part[1:]
        if not text.strip(" ,;") and not more:  # "IndexError, ValueError for ..."
            before = match.group(0) + ", "
            continue
        before = ""
        rest = [["t", text.lstrip(", ")], *more] if text.lstrip(", ") else more
        if rest[-1][0] == "t":
            rest[-1] = ["t", rest[-1][1].rstrip(".,; ") + "."]
        names = [["c" if at % 2 == 0 else "t", word] for at, word in enumerate(re.split(r"(, | or | and )", match.group(0)))]
        rows.append([names, capital([["p", rest]])])
    return ["fields", "Raises", rows] if rows and not before else whole
