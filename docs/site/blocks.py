"""Docstrings as blocks: what pages of the API are made of, as plain data that JSON can hold.

A block is a list that begins with its kind:

    ["p", inline]                      a paragraph
    ["code", language, text]           shown as it stands
    ["list", [blocks, ...]]            bullets
    ["fields", name, [[inline, blocks], ...]]   a section such as Args, entry by entry
    ["note", name, blocks]             a section such as Errors, as text
    ["formula", [text, ...]]           lines of the section Formula (formulas.py)
    ["table", head, rows]              of inline
    ["section", title, anchor, blocks]
    ["object", {...}]                  a function, class or method with its signatures (api.py)

Inline text is a list of `["t", text]`, `["c", code]`, `["a", code, target]` (a page) and `["u", address]`. Nothing here
can fail on a text: what has no known form is a paragraph or is shown as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent

#: Sections of docstrings: the word, something that belongs to it ("Shapes, with H = ..."), a colon.
SECTION = re.compile(
    r"(Arguments of methods|Args|Arguments|Keyword arguments|Formula|Shapes?|Errors|Raises|Returns|Yields|Attributes|Examples?"
    r"|Notes?|Context)\b"
    r"((?:,[^:\n]{0,120})?):(?:\s+|$)(.*)"
)
ENTRY = re.compile(r"(\*{0,2}[\w.]+(?:(?:, | and )\*{0,2}[\w.]+)*):(?:\s+|$)(.*)")
INLINE = re.compile(r"``(.+?)``|(?::\w+:)?`([^`\n]+)`|(https?://[^\s<>\"']*[\w/#])")

#: The page of what code names, or None; True for what stands in single backticks, which names something.
Link = Callable[[str, bool], "str | None"]


def inline(text: str, link: Link) -> list[list[str]]:
    """Return a text with `code`, ``code`` and addresses."""
    found: list[list[str]] = []
    end = 0
    for match in INLINE.finditer(text):
        if match.start() > end:
            found.append(["t", text[end : match.start()]])
        end = match.end()
        if match.group(3):
            found.append(["u", match.group(3)])
            continue
        code = match.group(1) or match.group(2)
        target = link(code, match.group(2) is not None)
        found.append(["a", code, target] if target else ["c", code])
    if text[end:]:
        found.append(["t", text[end:]])
    return found


def parse(text: str, link: Link) -> list[list]:
    """Return the blocks of a docstring or of a part of one."""
    return _Reader(text, link).blocks()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class _Reader:
    def __init__(self, text: str, link: Link):
        self.lines = dedent(text.expandtabs()).splitlines()
        self.link = link
        self.at = 0

    def peek(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def take_while(self, wanted: Callable[[str], bool]) -> list[str]:
        taken = []
        while (line := self.peek()) is not None and wanted(line):
            taken.append(line)
            self.at += 1
        return taken

    def blocks(self) -> list[list]:
        found: list[list] = []
        while (line := self.peek()) is not None:
            if not line.strip():
                self.at += 1
            elif line.lstrip().startswith(">>>"):
                code = dedent("\n".join(self.take_while(str.strip)))
                if found and found[-1][:2] == ["code", "pycon"]:
                    found[-1][2] += f"\n\n{code}"
                else:
                    found.append(["code", "pycon", code])
            elif match := SECTION.match(line):
                found.append(self.section(match))
            elif _indent(line) or line.startswith(("| ", "|-")):
                found.append(self.shown())
            elif re.match(r"[-*] ", line):
                found.append(self.bullets())
            else:
                found += self.paragraph()
        return found

    def paragraph(self) -> list[list]:
        """Return the lines up to a blank one; a colon at the end leaves the rest, if indented, to be shown as it stands."""
        taken = [self.lines[self.at]]
        self.at += 1
        while (line := self.peek()) is not None and line.strip():
            starts = line.lstrip().startswith(">>>") or SECTION.match(line) or re.match(r"[-*] \S|\|[ -]", line)
            if starts or (_indent(line) and taken[-1].rstrip().endswith(":")):
                break
            taken.append(line)
            self.at += 1
        text = re.sub(r"::$", ":", " ".join(" ".join(taken).split()))
        return [["p", inline(text, self.link)]]

    def shown(self) -> list:
        """Return indented lines, or a table, as they stand."""
        table = self.lines[self.at].startswith(("| ", "|-"))
        taken = self.take_while(lambda line: line.startswith(("| ", "|-")) if table else not line.strip() or _indent(line) > 0)
        text = dedent("\n".join(taken)).strip("\n")
        if ">>> " in text:
            return ["code", "pycon", text]
        try:
            compile(text, "", "exec")
        except (SyntaxError, ValueError):
            return ["code", "text", text]
        return ["code", "python", text]

    def bullets(self) -> list:
        items = []
        while (line := self.peek()) is not None and re.match(r"[-*] ", line):
            self.at += 1
            taken = [line[2:], *self.take_while(lambda text: text.strip() and _indent(text) > 0)]
            items.append([["p", inline(" ".join(" ".join(taken).split()), self.link)]])
        return ["list", items]

    def section(self, match: re.Match) -> list:
        self.at += 1
        name, more, rest = match.group(1), match.group(2), match.group(3)
        title = name + more
        if name == "Formula":
            lines = [rest, *self.take_while(lambda line: bool(line.strip()) and _indent(line) > 0)]
            return ["formula", [line.strip() for line in lines if line.strip()]]
        if not rest:
            body = dedent("\n".join(self.take_while(lambda line: not line.strip() or _indent(line) > 0)))
            entries = _entries(body)
            if entries and name not in ("Example", "Examples"):
                return ["fields", title, [[[["c", key]], parse(text, self.link)] for key, text in entries]]
            return ["note", title, parse(body, self.link)]
        taken = self.take_while(
            lambda line: bool(line.strip()) and not SECTION.match(line) and not line.lstrip().startswith(">>>")
        )
        return ["note", title, [["p", inline(" ".join(" ".join([rest, *taken]).split()), self.link)]]]


def _entries(body: str) -> list[tuple[str, str]]:
    """Return `name: text` with indented lines that go on; empty where a line does not fit."""
    found: list[list] = []
    body = re.sub(r"(?m)^((?:\*{0,2}\w+, )*\*{0,2}\w+,)\n +(?=\*{0,2}\w)", r"\1 ", body)  # names that go on in the next line
    for line in body.splitlines():
        if _indent(line) or not line.strip():
            if found:
                found[-1][1].append(line)
        elif match := ENTRY.fullmatch(line):
            found.append([match.group(1), [match.group(2)]])
        else:
            return []
    return [(key, "\n".join([lines[0], dedent("\n".join(lines[1:]))]).strip()) for key, lines in found]


def first_sentence(text: str) -> str:
    """Return what a table says of a name: the first sentence of its docstring, without sections and examples."""
    text = re.split(r"\n\s*\n|\n(?=\s*>>>)", text.strip(), maxsplit=1)[0]
    text = " ".join(text.split())
    match = re.match(r"(.+?[^.])[.:](?: (?=[A-Z`(])|$)", text)
    return (match.group(1) if match else text).rstrip(".:")
