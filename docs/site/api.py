"""Pages of the API, from the names and docstrings of the package and the op schema: `write(folder, Site().build())`.

A page is a JSON file, `<name>.api`, that `pages.py` shows: one for each function and class, for each method of Tensor
(with its in-place form), for each module, and an index. Only files whose content changes are written, so Sphinx makes
the rest from its cache.
"""

from __future__ import annotations

import enum
import inspect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import blocks
import parameters
import pictures

import facula

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from codegen import batching, docstrings, emit_docs, schema, schema_words  # noqa: E402  (beside the package, not in it)

#: What a reader meets first; the other namespaces follow by name.
FIRST = ("torch", "torch.Tensor", "nn", "nn.functional", "optim", "utils.data", "autograd")
#: Where a name is looked for that its own module does not have.
KNOWN = ("", "nn", "nn.functional", "Tensor", "optim", "utils.data", "autograd", "distributions")
#: Layers whose names are not those of their functions.
LAYERS = {
    "binary_cross_entropy": "BCELoss", "binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "interpolate": "Upsample",
    "multi_head_attention_forward": "MultiheadAttention", "batch_norm": "BatchNorm2d", "instance_norm": "InstanceNorm2d",
}  # fmt: skip
#: What is said of parameters of which their docstrings say nothing.
COMMON = {
    word: f"{text[0].upper()}{text[1:]}"
    for word, text in emit_docs.COMMON.items()
    if word in ("device", "dtype", "generator", "layout", "memory_format", "pin_memory", "requires_grad")
} | dict.fromkeys(("size_average", "reduce"), "A flag that `reduction` has replaced.")
DTYPES = {
    "bool": ("Bool",), "integers": schema_words.INTEGERS, "float16, bfloat16": ("Float16", "BFloat16"),
    "float32, float64": ("Float32", "Float64"), "complex": schema_words.COMPLEX,
}  # fmt: skip


def public(path: str) -> str:
    """Return the name as programs write it after `import facula as torch`."""
    return f"torch.{path}" if path else "torch"


def page_of(path: str) -> str:
    return f"api/{public(path)}"


class Site:
    """Every page, by its name without the suffix."""

    def __init__(self) -> None:
        self.pages: dict[str, dict] = {}
        self.modules = dict(docstrings.modules())
        names = docstrings.names()
        self.tops = [name for name in names if name.owner is None]
        self.by_id = {id(name.value): name.path for name in self.tops}
        self.by_path = {name.path: name for name in self.tops}
        self.methods: dict[str, list[docstrings.Name]] = defaultdict(list)
        for name in names:
            if name.owner is not None:
                self.methods[name.path.rpartition(".")[0]].append(name)
        self.ops: dict[str, list[schema.Op]] = defaultdict(list)
        for op in schema.load(ROOT / "ops"):
            for path in op.names:
                self.ops[path].append(op)
            if "method" in op.variants and op.names:
                self.ops[f"Tensor.{op.names[0].rpartition('.')[2]}"].append(op)
        self.stubs = parameters.stubs(Path(facula.__file__).parent / "_C")
        self.targets = self._targets()
        self.aliases = self._aliases()
        self.twins = self._twins()
        self.shown = self._shown()
        for path in self.modules.keys() - self.shown - {name.path for name in self.tops}:
            self.targets.pop(path, None)
        self.classes = self._classes()

    def _targets(self) -> dict[str, str]:
        found = {path: page_of(path) for path in self.modules if path}
        found |= {name.path: page_of(name.path) for name in self.tops}
        found["Tensor"] = page_of("Tensor")
        for owner, members in self.methods.items():
            for name in members:
                whole = owner == "Tensor"
                found[name.path] = page_of(_plain(name.path)) if whole else f"{page_of(owner)}#{public(name.path)}"
        return found

    def _classes(self) -> dict[str, str]:
        """Return the pages of classes by the last word of their names, where it names only one."""
        found: dict[str, set[str]] = defaultdict(set)
        for name in self.tops:
            if inspect.isclass(name.value):
                found[name.path.rpartition(".")[2]].add(self.targets[name.path])
        return {word: next(iter(pages)) for word, pages in found.items() if len(pages) == 1}

    def _aliases(self) -> dict[str, list[str]]:
        """Return second names of what has a page, by the first; not those that a module merely uses."""
        found: dict[str, list[str]] = defaultdict(list)
        for path, module in self.modules.items():
            for name in getattr(module, "__all__", None) or (dir(module) if not path else ()):
                first = self.by_id.get(id(getattr(module, name, None)))
                full = f"{path}.{name}".lstrip(".")
                if first and full != first and full not in self.targets and not name.startswith("_"):
                    found[first].append(full)
        return found

    def _shown(self) -> set[str]:
        """Return the modules that have a page: those with names, and those above them."""
        found = {path.rpartition(".")[0] for path in (*(name.path for name in self.tops), *sum(self.aliases.values(), []))}
        for path in list(found):
            while path := path.rpartition(".")[0]:
                found.add(path)
        return found | {""}

    def link(self, module: str, page: str = "", owner: str = "", own: Iterable[str] = ()) -> blocks.Link:
        """Return what finds the page of a name in the docstring of `page`: as its module, its class and what is well known see
        it. `own` are the parameters, which name no other thing."""
        places = [owner, module, *(module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1)), *KNOWN]
        own = set(own)

        def target(code: str, named: bool = False) -> str | None:
            name = re.sub(r"^(torch|facula)\.", "", code.removesuffix("()"))
            name = re.sub(r"^F\.", "nn.functional.", name)
            plain = "." not in name and not code.endswith("()")
            if (plain and not named and not name[:1].isupper()) or name in own or not name.replace(".", "").isidentifier():
                return None
            found = next((f for place in places if (f := self.targets.get(f"{place}.{name}".lstrip(".")))), None)
            found = found or self.classes.get(name)
            return None if found == page else found

        return target

    def build(self) -> dict[str, dict]:
        for name in self.tops:
            self.pages[page_of(name.path)] = self.page(name)
        self.tensor_pages()
        self.module_pages()
        self.index()
        return self.pages

    # one name

    def parts(self, name: docstrings.Name) -> tuple[list[str], str]:
        """Return the signatures and the rest of the docstring, as the page shows them."""
        text = name.text
        stated, rest = "Stated in ops/" in text, text
        lines = []
        while match := re.match(r"\w+(?=\()", rest):
            end = docstrings._balanced(rest, match.end())
            line, _, after = rest[end:].partition("\n")
            if line.strip() and not line.startswith((" -> ", ":")):
                break
            lines.append(rest[match.end() : end] + (line.partition(":")[0] if stated is False else line))
            words = line.partition(":")[2] if not stated and ":" in line else ""
            rest = f"{words}\n{after}".lstrip("\n ")
        if stated and len(lines) > 1:  # a sentence for each signature
            first, blank, more = rest.partition("\n\n")
            rest = first.replace("\n", "\n\n") + blank + more
        return lines or signature(name), re.sub(r"\n*Stated in ops/\w+\.yaml\.\s*$", "", rest)

    def object(self, name: docstrings.Name, kind: str, more: Iterable[list] = ()) -> list:
        """Return a function, class or method: its signatures, and its docstring with `more` behind what it does."""
        texts, text = self.parts(name)
        owner = name.path.rpartition(".")[0] if name.owner is not None else ""
        module = (owner or name.path).rpartition(".")[0]
        signatures = [parameters.read(line) for line in texts]
        if kind == "class":
            signatures = [replace(found, returns="") for found in signatures]
        own = parameters.merged(signatures)
        link = self.link(module, self.targets[name.path], owner or name.path, own)
        shown = blocks.parse(text, link)
        place = next((at + 1 for at, block in enumerate(shown) if block[0] == "formula"), min(1, len(shown)))
        shown = [*shown[:place], *more, *shown[place:]]
        texts = {word: blocks.parse(text, link) for word, text in COMMON.items()} | self.of_methods(name, link)
        shown = parameters.described(signatures, shown, link, self.stubs.get(name.path, {}), texts)
        return ["object", {
            "kind": kind, "name": public(name.path), "signatures": [s.data() for s in signatures] or [None],
            "blocks": shown, "property": name.is_property,
        }]  # fmt: skip

    def of_methods(self, name: docstrings.Name, link: blocks.Link) -> dict[str, list]:
        """Return what the class of a method, or a base, says of arguments that its methods share."""
        found: dict[str, list] = {}
        for base in reversed(name.owner.__mro__ if name.owner else ()):
            for block in blocks.parse(inspect.cleandoc(vars(base).get("__doc__") or ""), link):
                for row in block[2] if block[:2] == ["fields", parameters.OF_METHODS] else ():
                    found |= {word: parameters.capital(body) for word in parameters.names_of(row) for body in row[1:]}
        return found

    def page(self, name: docstrings.Name) -> dict:
        module = name.path.rpartition(".")[0]
        is_class = inspect.isclass(name.value)
        others = self.aliases.get(name.path, ())
        body = [up(module), self.object(name, "class" if is_class else "function", self.explained(name, others))]
        if twin := self.twins.get(name.path):
            body[0][1] += [["t", "; as a function " if is_class else "; as a layer "], ["a", public(twin), page_of(twin)]]
        if is_class:
            body[0][1] += self.bases(name.value)
            members = self.methods.get(name.path, ())
            for title, chosen in (
                ("Methods", [m for m in members if not m.is_property]),
                ("Properties", [m for m in members if m.is_property]),
            ):
                if chosen:
                    body.append(
                        [
                            "section",
                            title,
                            title.lower(),
                            [self.object(m, "property" if m.is_property else "method") for m in chosen],
                        ]
                    )
        body += self.facts(self.ops.get(name.path, ()))
        if others:
            body.append(["p", [["t", "Also as "], *_joined([["c", public(other)] for other in others]), ["t", "."]]])
        return {"title": public(name.path), "also": [public(other) for other in others], "blocks": body}

    def explained(self, name: docstrings.Name, others: Iterable[str]) -> list[list]:
        """Return the formula that the layer of a function states, and pictures."""
        found: list[list] = []
        twin = self.twins.get(name.path)
        if twin and not inspect.isclass(name.value):
            known = blocks.parse(docstrings.text_of(self.by_path[twin].value), lambda code, named: None)
            found += [block for block in known if block[0] == "formula"]
        shown = dict.fromkeys(picture for path in (name.path, *others) for picture in pictures.of(path))
        return found + [["picture", *picture] for picture in shown]

    def _twins(self) -> dict[str, str]:
        """Return, of functions of nn.functional and of layers of nn, the other one, by the paths of their pages."""
        layers = {
            name.path.removeprefix("nn.").lower(): name.path
            for name in self.tops
            if re.fullmatch(r"nn\.[A-Z]\w*", name.path) and inspect.isclass(name.value)
        }
        found = {}
        for name in self.tops:
            paths = [path for path in (name.path, *self.aliases.get(name.path, ())) if path.startswith("nn.functional.")]
            for word in (path.removeprefix("nn.functional.") for path in paths):
                plain = LAYERS.get(word, word).replace("_", "").lower()
                layer = layers.get(plain) or layers.get(f"{plain}loss")
                if layer and not inspect.isclass(name.value):
                    found[name.path] = layer
                    found.setdefault(layer, name.path)
        return found

    def bases(self, value: type) -> list[list]:
        found = [base for base in value.__bases__ if base is not object and not base.__name__.startswith("_")]
        parts = []
        for base in found:
            path = "Tensor" if base is facula.Tensor else self.by_id.get(id(base))
            parts.append(["a", public(path), page_of(path)] if path else ["c", base.__name__])
        return [["t", "; a kind of "], *_joined(parts)] if parts else []

    def facts(self, ops: Iterable[schema.Op], form: emit_docs.Form = emit_docs.FUNCTION) -> list[list]:
        """Return what the schema says of an op: a table for each overload."""
        ops = list(ops)
        if not ops:
            return []
        found = []
        for op in ops:
            rows = [["Dtypes", [["t", dtypes(op)]]]] if op.elementwise or len(op.dtypes) < len(schema.DTYPE_SETS["all"]) else []
            if op.result in emit_docs.RESULTS:
                rows.append(["Result", [["t", op.result]]])
            for arg, formula in (op.grad or {}).items():
                rows.append([f"Derivative, {form.words(op, arg)}", [["c", formula]]])
            if op.grad == {} or (op.grad is None and not op.composite):
                rows.append(["Derivative", [["t", "none"]]])
            if op.composite:
                rows.append(["Derivative", [["t", "those of the ops that it is written with"]]])
            if not op.composite and batching.has_rule(op):
                rows.append(["Inside vmap", [["c", batching.rule(op)]]])
            for device, what in op.autocast.items():
                rows.append([f"Under autocast, {device}", [["t", what]]])
            head = [["c", f"{op.names[0]}({emit_docs.python_signature(op, form)})"]] if len(ops) > 1 else [["t", ""]]
            found.append(["table", [head, [["t", ""]]] if len(ops) > 1 else [], [[[["t", row]], text] for row, text in rows]])
        link = [
            ["t", "Stated in "],
            ["c", f"ops/{ops[0].topic}.yaml"],
            ["t", "; what the words mean: "],
            ["a", "the op schema", "internals/ops"],
            ["t", "."],
        ]
        return [["section", "From the schema", "schema", [*found, ["p", link]]]]

    # Tensor

    def tensor_pages(self) -> None:
        groups: dict[str, list[docstrings.Name]] = defaultdict(list)
        for name in self.methods["Tensor"]:
            groups[_plain(name.path)].append(name)
        rows: dict[str, list] = defaultdict(list)
        for path, members in sorted(groups.items()):
            members.sort(key=lambda m: len(m.path))
            body = [["p", [["t", "Of "], ["a", "torch.Tensor", page_of("Tensor")]]]]
            body += [self.object(m, "property" if m.is_property else "method") for m in members]
            ops = self.ops.get(path, ())
            body += self.facts(ops, emit_docs.Form(method=True))
            self.pages[page_of(path)] = {"title": public(path), "also": [], "blocks": body}
            topic = ops[0].topic if ops else ("properties" if members[0].is_property else "others")
            rows[topic].append(self.row(members[0], members[1:]))
        text = docstrings.text_of(facula.Tensor)
        body = [up(""), *blocks.parse(text, self.link("")), *_by_topic(rows)]
        self.pages[page_of("Tensor")] = {"title": "torch.Tensor", "also": [], "blocks": body, "sidebar": True, "kind": "class"}

    def row(self, name: docstrings.Name, more: Iterable[docstrings.Name] = ()) -> list:
        shown = [["a", n.path.rpartition(".")[2], self.targets[n.path]] for n in (name, *more)]
        return [_joined(shown), self.sentence(name)]

    def sentence(self, name: docstrings.Name) -> list:
        return blocks.inline(blocks.first_sentence(self.parts(name)[1]), self.link(name.path.rpartition(".")[0]))

    # modules

    def module_pages(self) -> None:
        members: dict[str, list[docstrings.Name]] = defaultdict(list)
        for name in self.tops:
            members[name.path.rpartition(".")[0]].append(name)
        second: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for first, others in self.aliases.items():
            for other in others:
                second[other.rpartition(".")[0]].append((other, first))
        below: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.shown - {""}):
            below[path.rpartition(".")[0]].append(path)
        for path in sorted(self.shown):
            body = [up(path.rpartition(".")[0])] if path else [["p", [["a", "All namespaces", "api/index"]]]]
            body += blocks.parse(inspect.getdoc(self.modules[path]) or "", self.link(path)) if path in self.modules else []
            rows: dict[str, list] = defaultdict(list)
            for name in members[path]:
                ops = self.ops.get(name.path)
                home = getattr(name.value, "__module__", None) or ""
                topic = (
                    ops[0].topic
                    if ops
                    else home.rpartition(".")[2]
                    if home.startswith(("facula.functions.", "facula.nn."))
                    else "others"
                )
                rows["classes" if inspect.isclass(name.value) and not path else topic].append(self.row(name))
            split = path in ("", "nn", "nn.functional")
            body += _by_topic(rows) if split else _table([row for group in rows.values() for row in group])
            if second[path]:
                same = [self.second_row(other, first) for other, first in second[path]]
                body.append(["section", "Also here", "also-here", _table(same)])
            if path and below[path]:
                body.append(["section", "Modules below", "modules", _table([self.module_row(p) for p in below[path]])])
            page = {
                "title": public(path),
                "also": [],
                "blocks": body,
                "kind": "module",
                "sidebar": "." not in path or path in docstrings.SPLIT,
            }
            self.pages[page_of(path)] = page

    def second_row(self, other: str, first: str) -> list:
        """Return the row of a second name of something: it has the page of the first one."""
        said = [*self.sentence(self.by_path[first]), ["t", ". The same as "], ["c", public(first)]]
        return [[["a", other.rpartition(".")[2], page_of(first)]], said]

    def module_row(self, path: str) -> list:
        text = blocks.first_sentence(inspect.getdoc(self.modules.get(path)) or "") if path in self.modules else ""
        return [[["a", public(path), page_of(path)]], blocks.inline(text, self.link(path))]

    def index(self) -> None:
        listed = [path for path in self.pages if self.pages[path].get("sidebar")]
        first = [page_of("" if name == "torch" else name.removeprefix("torch.")) for name in FIRST]
        order = first + sorted(set(listed) - set(first))
        rows = []
        for page in order:
            path = page.removeprefix("api/torch").lstrip(".")
            rows.append(
                [
                    [["a", public(path), page]],
                    self.module_row(path)[1] if path != "Tensor" else [["t", "Methods and properties of tensors"]],
                ]
            )
        functions = sum(page.get("kind") is None for page in self.pages.values())
        counted = f"{functions} functions, methods and classes, each with a page. Names are written as after "
        text = [["t", counted], ["c", "import facula as torch"]]
        body = [
            ["p", [*text, ["t", "; for what is missing see "], ["a", "what is supported", "supported"], ["t", "."]]],
            *_table(rows),
        ]  # fmt: skip
        self.pages["api/index"] = {
            "title": "API",
            "also": [],
            "blocks": body,
            "kind": "module",
            "sidebar": True,
            "toctree": order,
        }


def _plain(path: str) -> str:
    """Return the name without the underscore: `add_` stands on the page of `add`, where there is one."""
    short = path[:-1]
    return short if path.endswith("_") and hasattr(facula.Tensor, short.rpartition(".")[2]) else path


def up(module: str) -> list:
    return ["p", [["t", "In "], ["a", public(module), page_of(module)]]]


def _joined(parts: list) -> list:
    return [piece for part in parts for piece in (["t", ", "], part)][1:]


def _table(rows: list) -> list[list]:
    return [["table", [], rows]] if rows else []


def _by_topic(rows: dict[str, list]) -> list[list]:
    last = ("others", "properties", "classes")
    order = sorted(rows, key=lambda topic: (topic in last, topic))
    return [["section", topic.replace("_", " "), f"topic-{topic}", _table(rows[topic])] for topic in order]


def dtypes(op: schema.Op) -> str:
    known = {word: name for name, word in schema.NAMED_DTYPES.items()} | {"Bool": "bool"}
    parts = []
    for label, members in DTYPES.items():
        taken = [member for member in members if member in op.dtypes]
        if taken:
            parts.append(label if len(taken) == len(members) else ", ".join(known[member] for member in taken))
    return ", ".join(parts)


def signature(name: docstrings.Name) -> list[str]:
    """Return what `inspect` sees, readable."""
    if name.is_property or (inspect.isclass(name.value) and issubclass(name.value, enum.Enum)):
        return []
    try:
        found = inspect.signature(name.value)
    except (TypeError, ValueError):
        return []
    parameters = list(found.parameters.values())
    if name.owner is not None and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    text = str(found.replace(parameters=parameters))
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    text = re.sub(r"<(?:class|function) '?([\w.]+)'?(?: at 0x[0-9a-f]+)?>", r"\1", text)
    text = re.sub(r"<function \S+ at 0x[0-9a-f]+>|<[^<>]* object at 0x[0-9a-f]+>", "...", text)
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    return [re.sub(r"\bfacula\._C\.|\bfacula\.", "torch.", text).replace("(/, ", "(").replace("(/)", "()")]


def write(folder: Path, pages: dict[str, dict]) -> int:
    """Write the pages below `folder`, take away those that are no longer, and say how many there are."""
    (folder / "api").mkdir(parents=True, exist_ok=True)
    for path, page in pages.items():
        file = folder / f"{path}.api"
        text = json.dumps(page, separators=(",", ":"))
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    for file in (folder / "api").glob("*.api"):
        if f"api/{file.name.removesuffix('.api')}" not in pages:
            file.unlink()
    return len(pages)


def parameters_of(site: Site) -> Iterable[tuple[str, str, list, list]]:
    """Yield every parameter of every page: the public name, its own, its type and its text."""

    def objects(found: list) -> Iterable[dict]:
        for block in found:
            if block[0] == "object":
                yield block[1]
            elif block[0] == "section":
                yield from objects(block[3])

    for page in site.pages.values():
        for what in objects(page["blocks"]):
            for block in what["blocks"]:
                if block[0] == "parameters":
                    yield from ((what["name"], name, kind, body) for heads, body in block[2] for name, kind, _ in heads)


def main() -> None:
    """Print the parameters that lack a type or a sentence, and how many do not."""
    site = Site()
    site.build()
    rows = list(parameters_of(site))
    lacking = [(name, word, kind, body) for name, word, kind, body in rows if not (kind and body)]
    for name, word, kind, body in lacking:
        print(f"{name}: {word}: {'' if kind else 'type '}{'' if body else 'sentence'}")
    print(f"{len(rows)} parameters, {len(rows) - len(lacking)} with a type and a sentence")


if __name__ == "__main__":
    main()
