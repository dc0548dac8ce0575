"""List which of libtorch's public names in C++ Facula's headers have, by compiling.

    python -m benchmarks.cxx_names --libtorch DIR --include DIR ... [--json FILE]

DIR is where the `include` of libtorch is; `--include` names the folders of Facula's headers. The names are what
libtorch's own headers (`torch/csrc/api/include/torch`) declare in namespaces, after the preprocessor, without those
that begin with an underscore or are in namespaces `detail` or `impl`; of options also the members without arguments.
Each is asked of Facula's headers by a using-declaration, or a call.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

API = "torch/csrc/api/include"
SECTIONS = {  # by the folder or the file of the header
    "modules": "nn/modules",
    "containers": "nn/module.h nn/cloneable.h nn/pimpl.h ordered_dict.h expanding_array.h",
    "options": "nn/options",
    "functional": "nn/functional",
    "init": "nn/init.h",
    "utils": "nn/utils",
    "optim": "optim",
    "data": "data",
    "serialize": "serialize",
    "autograd": "autograd.h",
    "fft, linalg, special": "fft.h linalg.h special.h",
}
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\[\[[^\]]*\]\]|alignas\(\w+\)")
TOKEN = re.compile(r"[A-Za-z_]\w*|::|\[\[|\]\]|\S")


def preprocessed(libtorch):
    """Return (header, text) of what libtorch's own headers are after the preprocessor."""
    root = libtorch / "include"
    source = "#include <torch/torch.h>\n"
    command = ["g++", "-std=c++20", "-E", "-x", "c++", "-", f"-I{root}", f"-I{root / API}"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    where, parts = None, {}
    for line in text.splitlines():
        mark = re.match(r'# \d+ "([^"]+)"', line)
        if mark:
            name = mark[1].partition(f"{API}/torch/")[2]
            where = name or None
        elif where:
            parts.setdefault(where, []).append(line)
    return {name: ATTRIBUTE.sub("", "\n".join(lines)) for name, lines in parts.items()}


def scope_of(head):
    """Return what a brace opens: a namespace's path, a class's name, or neither."""
    words = [w for w in head if w not in ("inline", "export")]
    if "namespace" in words:
        return "namespace", "".join(words[words.index("namespace") + 1 :])
    words = [w for w in words if w != "final"]
    depth, kept = 0, []
    for word in words:  # without what template<...> lists
        depth += (word == "<") - (word == ">")
        if depth == 0 and word != ">":
            kept.append(word)
    for kind in ("class", "struct", "enum", "union"):
        if kind in kept and "(" not in kept[: kept.index(kind)]:
            rest = [w for w in kept[kept.index(kind) + 1 :] if re.match(r"[A-Za-z_]", w) and w not in ("class", "struct")]
            return "class", rest[0] if rest else ""
    return "body", ""


def declared(text):
    """Return (namespace, name) of what a header declares in namespaces, and (namespace::class, name) of members without
    arguments."""
    names, members, stack, head = {}, {}, [], []
    for token in TOKEN.findall(text):
        spaces = [name for kind, name in stack if kind == "namespace"]
        outside = all(kind == "namespace" for kind, _ in stack)
        if token == "{":
            kind, name = scope_of(head) if outside or stack[-1][0] == "class" else ("body", "")
            if outside and kind == "class" and name:
                names["::".join([*spaces, name])] = "<2>" if "template" in head else ""
            if outside and kind == "body":
                note(spaces, head, names)
            if kind == "body" and stack and stack[-1][0] == "class" and len(stack) == len(spaces) + 1:
                note_member("::".join([*spaces, stack[-1][1]]), head, members)
            stack.append((kind, name))
            head = []
        elif token == "}":
            if stack:
                stack.pop()
            head = []
        elif token == ";":
            if outside:
                note(spaces, head, names)
            head = []
        else:
            head.append(token)
    return names, members


def note(spaces, head, names):
    """Note a function, an alias or a constant of a namespace."""
    words = [w for w in head if re.match(r"\w|::|[(<>:=,]", w)]
    if not words or words[0] in ("extern", "friend", "static_assert", "namespace") or "operator" in words:
        return
    if words[0] == "using":
        name = words[1] if len(words) > 2 and words[2] == "=" else words[-1]
        if words[1] != "namespace":
            names["::".join([*spaces, name])] = None
        return
    depth = 0
    for i, word in enumerate(words):
        depth += (word == "<") - (word == ">")
        if word == "(" and depth == 0 and i and re.match(r"[A-Za-z_]\w*$", words[i - 1]):
            if i > 1 and words[i - 2] != "::":
                names["::".join([*spaces, words[i - 1]])] = None
            return


def note_member(owner, head, members):
    for i in range(1, len(head) - 1):
        if head[i] == "(" and head[i + 1] == ")" and re.match(r"[a-z]\w*$", head[i - 1]):
            members.setdefault(owner, {})[head[i - 1]] = None
            return


def section_of(header):
    for section, places in SECTIONS.items():
        if any(header == place or header.startswith(place + "/") or header == place + ".h" for place in places.split()):
            return section
    return None


def public(name):
    parts = name.split("::")
    return parts[0] == "torch" and not any(p.startswith("_") or p in ("detail", "impl", "functions") for p in parts)


def compiled(lines, includes):
    """Return which of the lines compile behind Facula's headers."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        start = "#include <torch/torch.h>\nnamespace at_home {\n"
        numbered = [f'#line {i + 1} "probe"\n{line}\n' for i, line in enumerate(lines)]
        source.write_text(start + "".join(numbered) + "}\n")
        command = ["g++", "-std=c++20", "-fsyntax-only", "-w", "-fmax-errors=0", *[f"-I{i}" for i in includes], str(source)]
        errors = subprocess.run(command, capture_output=True, text=True, check=False).stderr
        bad = {int(n) for n in re.findall(r"^probe:(\d+):.*error", errors, re.M)}
        other = [line for line in errors.splitlines() if " error: " in line and not line.startswith("probe:")]
        if other:
            raise SystemExit("\n".join(other[:5]))
    return [i + 1 not in bad for i in range(len(lines))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libtorch", type=Path, required=True)
    parser.add_argument("--include", action="append", required=True)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    asked, done = [], set()  # section, name, line
    for header, text in preprocessed(options.libtorch).items():
        section = section_of(header)
        if not section:
            continue
        names, members = declared(text)
        for name in names:
            if public(name) and name not in done:
                done.add(name)
                asked.append((section, name, f"namespace n{len(asked)} {{ using ::{name}; }}"))
        for owner, list_of in members.items():
            for member in list_of if section == "options" and public(owner) else ():
                probe = f"void f{len(asked)}(::{owner}{names.get(owner) or ''}& x) {{ (void)x.{member}(); }}"
                if f"{owner}.{member}" not in done:
                    done.add(f"{owner}.{member}")
                    asked.append(("members of options", f"{owner}.{member}", probe))
    there = compiled([line for _, _, line in asked], options.include)
    result = {}
    for (section, name, _), yes in zip(asked, there, strict=True):
        entry = result.setdefault(section, {"there": 0, "of": 0, "missing": []})
        entry["of"] += 1
        entry["there"] += yes
        if not yes:
            entry["missing"].append(name.removeprefix("torch::"))
    for section, entry in result.items():
        print(f"{section}: {entry['there']} of {entry['of']}; missing: {' '.join(entry['missing']) or 'none'}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
