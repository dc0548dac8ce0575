"""Read the op schema: `load(folder)` reads and checks every entry.

Errors are `SchemaError` and say file, line and key.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from .op import Argument, Location, Op, SchemaError
from .schema_words import (
    AUTOCAST,
    AUTOCAST_DEVICES,
    CHECKS,
    CPP_TYPES,
    DEFAULT_VARIANTS,
    DTYPE_SETS,
    ELEMENTWISE,
    FACTORY_KEYWORDS,
    INPUTS,
    KEYS,
    LOOPS,
    NAMED_DTYPES,
    NATIVE,
    NUMBER_TYPES,
    RESULTS,
    RETURN_TYPES,
    ROLES,
    SPARSE,
    VARIANTS,
)

OTHER_EFFECTS = ("draws", "aliases", "unordered")  # besides the names of arguments that are written to


def load(folder: Path) -> list[Op]:
    """Return every op of every topic, in the order of the files; README.md beside them must describe the keys that there are."""
    check_documentation(folder / "README.md")
    ops = []
    for path in sorted(folder.glob("*.yaml")):
        ops += load_file(path)
    seen: dict[str, Op] = {}
    for op in ops:
        if op.id in seen:
            raise op.location.error("op", f"'{op.id}' is already stated at {seen[op.id].location}")
        seen[op.id] = op
    return ops


def check_documentation(path: Path) -> None:
    """Check that the table under "## Keys" and KEYS name the same keys; `op` has a section of its own."""
    if not path.exists():
        return
    section = path.read_text().partition("\n## Keys\n")[2].partition("\n## ")[0]
    documented = {"op", *re.findall(r"^\| `(\w+)` \|", section, re.M)}
    if documented != set(KEYS):
        raise SchemaError(
            f"{path.name}:1: the keys that are documented and those that are read differ in "
            f"{', '.join(sorted(documented ^ set(KEYS)))}"
        )


def load_file(path: Path) -> list[Op]:
    try:
        root = yaml.compose(path.read_text(), Loader=yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise SchemaError(f"{path.name}:{line}: not valid YAML: {getattr(error, 'problem', error)}") from None
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise SchemaError(f"{path.name}:1: a list of entries is expected")
    constructor = yaml.SafeLoader("")
    return [_entry(node, path, constructor) for node in root.value]


def _entry(node, path: Path, constructor) -> Op:
    location = Location(path.name, node.start_mark.line + 1)
    if not isinstance(node, yaml.MappingNode):
        raise location.error("entry", "a mapping is expected")
    entry = {}
    lines = {}
    for key_node, value_node in node.value:
        key = key_node.value
        lines[key] = Location(path.name, key_node.start_mark.line + 1)
        if key not in KEYS:
            raise lines[key].error(key, f"unknown key; known keys are {', '.join(sorted(KEYS))}")
        if key in entry:
            raise lines[key].error(key, "stated twice")
        entry[key] = constructor.construct_object(value_node, deep=True)
    if "op" not in entry:
        raise location.error("op", "missing")
    return _Builder(entry, lines, location, path.stem).build()


class _Builder:
    """Check one entry key by key, and build an Op from it."""

    def __init__(self, entry: dict, lines: dict, location: Location, topic: str):
        self.entry, self.lines, self.location, self.topic = entry, lines, location, topic

    def fail(self, key: str, text: str):
        raise self.lines.get(key, self.location).error(key, text)

    def build(self) -> Op:
        entry = self.entry
        name, overload, args, returns, return_names = self.signature(entry["op"])
        kind = entry.get("kind")
        python_only = ()
        if kind in ("factory", "random") and not name.endswith("_"):
            known = {a.name for a in args}
            args += tuple(Argument(t, n, d, True) for t, n, d in FACTORY_KEYWORDS if n not in known)
            python_only = ("layout", "pin_memory", "requires_grad")
        if kind not in DEFAULT_VARIANTS:
            self.fail("kind", f"expected one of {', '.join(sorted(DEFAULT_VARIANTS))}, got {kind!r}")
        if not entry.get("doc"):
            self.fail("doc", f"'{name}' needs a sentence of documentation")
        scalar = entry.get("scalar")
        if kind in ELEMENTWISE:
            self.check_elementwise(name, kind, args, scalar)
        elif scalar:
            self.fail("scalar", f"only element-wise kinds have a scalar function, got kind {kind}")
        result = entry.get("result", "same")
        if result not in RESULTS:
            self.fail("result", f"expected one of {', '.join(RESULTS)}, got {result!r}")
        variants = tuple(entry.get("variants", DEFAULT_VARIANTS[kind]))
        if entry.get("names") == [] and name.startswith("_"):  # a part of other ops, and no method of tensors
            variants = tuple(v for v in variants if v != "method")
        for variant in variants:
            if variant not in VARIANTS:
                self.fail("variants", f"expected some of {', '.join(VARIANTS)}, got {variant!r}")
        way, known = entry.get("inplace"), "inplace" in variants
        if way is not None and not (known and (way == "direct" and kind in (*NATIVE, "composite") or way == "result" and kind in ELEMENTWISE)):
            self.fail("inplace", "'direct' on a native or composite op, or 'result' on an element-wise one, with the in-place variant is expected")
        if "batch" in entry and kind == "composite":
            self.fail("batch", "a composite is written with ops and needs no rule")
        no_gradient = tuple(entry.get("no_gradient", ()))
        differentiable = return_names[: len(return_names) - len(no_gradient)]
        if no_gradient and return_names != differentiable + no_gradient:
            self.fail("no_gradient", f"the last results are expected, got {', '.join(no_gradient)}")
        autocast = entry.get("autocast", {})
        if isinstance(autocast, str):
            autocast = dict.fromkeys(AUTOCAST_DEVICES, autocast)
        for device, policy in autocast.items():
            if device not in AUTOCAST_DEVICES or policy not in AUTOCAST:
                self.fail("autocast", f"expected one of {', '.join(AUTOCAST)}, for {' or '.join(AUTOCAST_DEVICES)}, got {device}: {policy!r}")
        names = entry.get("names", [name])
        if not isinstance(names, list):
            self.fail("names", f"a list is expected, got {names!r}")
        return Op(
            name=name, overload=overload, args=args, returns=returns, return_names=return_names, kind=kind,
            topic=self.topic, location=self.location, dtypes=self.dtypes(), result=result, scalar=scalar,
            loop=self.word("loop", LOOPS, kind), roles=self.roles(kind, args), quick=tuple(entry.get("quick", ())), names=tuple(names), variants=variants, grad=self.grad(args),
            grad_together=self.grads_together(args),
            reference=entry.get("reference"), doc=" ".join(str(entry["doc"]).split()), samples=entry.get("samples"),
            argument_docs=self.argument_docs(args), returned=self.returned_text(), errors=" ".join(str(entry.get("errors", "")).split()), example=self.example(),
            signature=entry["op"], autocast=autocast, batch=str(entry["batch"]) if "batch" in entry else None,
            checks=self.checks(kind, args), no_gradient=no_gradient, direct_inplace=way == "direct",
            inplace_keeps_result=way == "result",
            out_casts=self.out_casts(kind, variants), python_only=python_only, keeps_layout=self.keeps_layout(kind),
            aten=self.aten(name, overload, args),
            draws=kind == "random" or self.topic == "random" or any(a.type == "Generator?" for a in args) or "draws" in entry.get("effects", []),
            writes=self.writes(name, args), aliases=kind in ("view", "composite") or "aliases" in entry.get("effects", []), unordered="unordered" in entry.get("effects", []),
            sparse=self.sparse(kind),
        )  # fmt: skip

    def check_elementwise(self, name, kind, args, scalar):
        if not scalar:
            self.fail("scalar", f"'{name}' of kind {kind} needs a scalar function")
        quick = self.entry.get("quick")
        if quick and (kind != "binary" or len(quick) != 2):
            self.fail("quick", f"expected [function, test] of a binary op, got {quick} of kind {kind}")
        count = sum(a.is_tensor for a in args)
        if count != INPUTS[kind]:
            self.fail("op", f"kind {kind} takes {INPUTS[kind]} tensor operands, got {count}")
        for a in args:
            if not a.is_tensor and a.type not in NUMBER_TYPES:
                self.fail("op", f"an element-wise op takes tensors and numbers, got {a.type} {a.name}")

    def word(self, key, words, kind) -> str:
        """Return the word of a key that element-wise ops may have; "" where there is none."""
        value = self.entry.get(key, "")
        if value and (value not in words or kind not in ELEMENTWISE):
            self.fail(key, f"expected one of {', '.join(words)}, of an element-wise op, got {value!r}")
        return value

    def roles(self, kind, args) -> tuple[str, ...]:
        roles = tuple(self.entry.get("roles", ()))
        numbers = [a for a in args if not a.is_tensor]
        if any(role not in ROLES for role in roles) or (roles and kind not in ELEMENTWISE) or ("factor" in roles and not numbers):
            self.fail("roles", f"expected some of {', '.join(ROLES)}, of an element-wise op, got {roles}")
        return roles

    def keeps_layout(self, kind) -> bool:
        if self.entry.get("layout", "keep") != "keep" or ("layout" in self.entry and kind in ELEMENTWISE):
            self.fail("layout", "'keep', on an op that is not element-wise (these keep layouts anyway), is the only choice")
        return kind in ELEMENTWISE or "layout" in self.entry

    def aten(self, name, overload, args) -> str:
        """Return the names in aten: by default the op's own name and overload; parts of other ops have none."""
        value = self.entry.get("aten")
        own = f"{name}.{overload or 'default'}"
        if value is None:
            return "-" if name.startswith(("_", "functional_")) else own
        if value == "none":
            return "-"
        if isinstance(value, str) and re.fullmatch(r"\w+\.\w+", value):
            return value
        operands = sum(a.type == "Operand" for a in args)
        if not isinstance(value, dict) or any(not re.fullmatch(f"[TS]{{{operands}}}", k) for k in value):
            self.fail("aten", f"a name with its overload, none, or names by {operands} operands (T or S) are expected, got {value!r}")
        return " ".join(f"{pattern}:{one}" for pattern, one in value.items())

    def writes(self, name, args) -> tuple[str, ...]:
        own = (args[0].name,) if name.endswith("_") and not name.endswith("__") else ()
        words = self.entry.get("effects", [])
        for word in words:
            if word not in OTHER_EFFECTS and word not in {a.name for a in args if a.is_tensor}:
                self.fail("effects", f"one of {', '.join(OTHER_EFFECTS)} or a tensor argument that is written to is expected, got {word!r}")
        return own + tuple(w for w in words if w not in OTHER_EFFECTS)

    def sparse(self, kind) -> tuple[str, ...]:
        """Return whether sparse tensors are taken: the ops of the topic take them themselves; composites take what the ops take
        that they are made of."""
        if kind == "composite":
            if "sparse" in self.entry:
                self.fail("sparse", "a composite is written with ops, which say it")
            return ()
        value = self.entry.get("sparse", "own" if self.topic == "sparse" else [])
        words = tuple(value) if isinstance(value, list) else (value,)
        if any(not re.fullmatch(r"\w+", word) for word in words) or any(word not in SPARSE for word in words[1:]):
            self.fail("sparse", f"one of {', '.join(SPARSE)}, or the name of an op, is expected, got {value!r}")
        return words

    def out_casts(self, kind, variants) -> bool:
        """Return whether `out=` may have another dtype that the result can be cast to."""
        value = self.entry.get("out", "cast" if kind in (*ELEMENTWISE, "factory", "random") else "exact")
        if value not in ("cast", "exact") or ("out" in self.entry and "out" not in variants):
            self.fail("out", f"'cast' or 'exact', for an op with the out variant, is expected, got {value!r}")
        return value == "cast"

    def checks(self, kind, args) -> tuple[str, ...]:
        value = self.entry.get("checks", [])
        native = kind in NATIVE
        for word in value:
            if word not in CHECKS or kind not in (*ELEMENTWISE, *NATIVE) or native != (word in ("any_device", "shared_places", "apart")):
                self.fail("checks", f"expected some of {', '.join(CHECKS)}, of an op with such a check, got {word!r} of kind {kind}")
            if word == "tensor" and any(a.type != "Operand" for a in args if a.is_tensor):
                self.fail("checks", "'tensor' is said of ops that could be called with numbers only")
        return tuple(value)

    def dtypes(self) -> tuple[str, ...]:
        value = self.entry.get("dtypes", "all")
        chosen: list[str] = []
        for word in value if isinstance(value, list) else [value]:
            if word in DTYPE_SETS:
                chosen += DTYPE_SETS[word]
            elif word in NAMED_DTYPES:
                chosen.append(NAMED_DTYPES[word])
            else:
                self.fail("dtypes", f"expected {', '.join(DTYPE_SETS)} or dtype names, got {word!r}")
        return tuple(dict.fromkeys(chosen))

    def grad(self, args) -> dict[str, str] | None:
        value = self.entry.get("grad")
        if value is None or value == "none":
            return {} if value == "none" else None
        if not isinstance(value, dict):
            self.fail("grad", f"a mapping from argument to formula, or none, is expected, got {value!r}")
        known = {a.name: a for a in args}
        formulas = {}
        for key, text in value.items():
            for name in self.together(key):
                if name not in known:
                    self.fail("grad", f"'{name}' is not an argument")
                if not known[name].is_tensor:
                    self.fail("grad", f"'{name}' is not a tensor")
                formulas[name] = str(text)
        return formulas

    def grads_together(self, args) -> tuple[tuple[str, ...], ...]:
        value = self.entry.get("grad")
        keys = [self.together(key) for key in value] if isinstance(value, dict) else []
        order = [a.name for a in args if any(a.name in key for key in keys)]
        for names in (key for key in keys if len(key) > 1):
            first = order.index(names[0])
            if tuple(order[first:first + len(names)]) != names:
                self.fail("grad", f"arguments that follow each other are expected, got {', '.join(names)}")
            if any(a.type == "Tensor[]" for a in args if a.name in order):
                self.fail("grad", "one formula for several arguments does not go with lists of tensors")
        return tuple(key for key in keys if len(key) > 1)

    @staticmethod
    def together(key: str) -> tuple[str, ...]:
        """Return the arguments whose gradients one formula gives."""
        return tuple(name.strip() for name in key.split(","))

    def argument_docs(self, args: tuple[Argument, ...]) -> dict[str, str]:
        texts = self.entry.get("arguments", {})
        names = [arg.name for arg in args]
        if not isinstance(texts, dict) or not set(texts) <= set(names):
            self.fail("arguments", f"a map from some of {', '.join(names)} to sentences is expected, got {texts!r}")
        return {name: " ".join(str(text).split()) for name, text in texts.items()}

    def returned_text(self) -> str:
        text = self.entry.get("returns", "")
        if text and not (isinstance(text, str) and text.rstrip().endswith(".")):
            self.fail("returns", f"words that go on after 'Returns:' and end with a full stop are expected, got {text!r}")
        return " ".join(str(text).split())

    def example(self) -> str:
        text = self.entry.get("example", "")
        if text and not (isinstance(text, str) and text.startswith(">>> ")):
            self.fail("example", f"lines that begin with '>>> ' and what they print are expected, got {text!r}")
        return text.rstrip()

    def signature(self, text: str):
        match = re.fullmatch(r"\s*(\w+)(?:\.(\w+))?\((.*)\)\s*->\s*(.+?)\s*", text)
        if not match:
            self.fail("op", f"expected 'name.overload(type name=default, ...) -> returns', got {text!r}")
        name, overload, inside, result = match.groups()
        args = self.arguments(inside)
        returns, return_names = self.returned(result)
        return name, overload or "", args, returns, return_names

    def arguments(self, text: str) -> tuple[Argument, ...]:
        args = []
        keyword_only = False
        for part in _split_commas(text):
            if part == "*":
                keyword_only = True
                continue
            match = re.fullmatch(r"(\w+(?:\[\d*\])?\??)\s+(\w+)(?:\s*=\s*(.+))?", part)
            if not match:
                self.fail("op", f"cannot read the argument {part!r}")
            kind, name, default = match.groups()
            size = re.search(r"\[(\d+)\]", kind)
            kind = re.sub(r"\[\d+\]", "[]", kind)
            if kind not in CPP_TYPES:
                self.fail("op", f"unknown type {kind!r} of argument '{name}'")
            args.append(Argument(kind, name, default, keyword_only, int(size.group(1)) if size else 0))
        return tuple(args)

    def returned(self, text: str):
        if not text.startswith("("):
            kinds, names = [text], []
        else:
            pairs = [part.split() for part in _split_commas(text[1:-1])]
            kinds = [pair[0] for pair in pairs]
            names = [pair[1] if len(pair) > 1 else f"result{i}" for i, pair in enumerate(pairs)]
        for kind in kinds:
            if kind not in RETURN_TYPES:
                self.fail("op", f"unknown return type {kind!r}")
        return tuple(kinds), tuple(names)


def _split_commas(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        parts.append(current.strip())
    return parts


def group_by_name(ops: list[Op]) -> dict[str, list[Op]]:
    """Return the overloads by op name, in file order."""
    groups: dict[str, list[Op]] = {}
    for op in ops:
        groups.setdefault(op.name, []).append(op)
    return groups
