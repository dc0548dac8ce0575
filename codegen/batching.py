"""Write the rule of an op inside vmap, which its `batch:` states or its kind implies, as C++ text.

A rule is a word (see ops/README.md) or a C++ expression. An expression is written for examples, as a composite would
be. Where it says `batch.`, it is written for the batches that hold them (src/autograd/batching.h).
"""

from __future__ import annotations

import re

from .op import Op

BY_KIND = {
    **dict.fromkeys(("unary", "binary", "ternary"), "elementwise"),
    **dict.fromkeys(("reduce", "scan", "view"), "dims"),
}
WORDS = ("elementwise", "dims", "leading", "fold", "value", "random", "loop", "refuse")
DIM_NAMES = {"dim", "dims", "dim0", "dim1", "dim2", "dimension"}


def rule(op: Op) -> str:
    """Return the text of `batch:`, or the word that the kind implies; "loop" where nothing is known."""
    if op.batch:
        return op.batch
    if op.kind in ("factory", "random"):
        return "elementwise" if op.kind == "factory" else "random"
    return BY_KIND.get(op.kind, "loop")


def has_rule(op: Op) -> bool:
    return rule(op).split()[0] != "loop"


def words(op: Op) -> set[str]:
    """Return the names an expression uses."""
    text = rule(op)
    if text.split()[0] in WORDS:
        text = text.partition(" else ")[2]
    return set(re.findall(r"[A-Za-z_]\w*", text))


def body(op: Op, args) -> str:
    """Return the statements that run the op on wrappers; `args` are those of the C++ function."""
    tensors = [a.name for a in args if a.is_tensor]
    declared = f'Batch batch("{op.names[0] if op.names else op.name}", {", ".join(tensors)});'
    if not any(r.startswith("Tensor") for r in op.returns):
        return _refuse(op, args, "")
    word, *rest = rule(op).split(None, 1)
    if word in WORDS:
        return f"{declared} {_BY_WORD[word](op, args, rest[0] if rest else '')}"
    text = rule(op)
    return f"{declared} return {text};" if "batch." in text else f"return {text};"


def _call(op: Op, values) -> str:
    return f"{op.name}({', '.join(values)})"


def _elementwise(op, args, rest):
    return f"return batch.wrap({_call(op, [f'batch.aligned({a.name})' if a.is_tensor else a.name for a in args])});"


def _dim(op, a):
    if a.name not in DIM_NAMES or not a.type.startswith("int"):
        return a.name
    if a.type in ("int", "int?"):
        return f"batch.dim({a.name})"
    return f"batch.{'dims_or_all' if op.kind == 'reduce' else 'dims'}({a.name})"


def _shared(names: str, text: str, loop: str) -> str:
    """Return `text` where the tensors `names` are shared by all examples, else one by one."""
    conditions = " || ".join(f"batch.has({n})" for n in names.split())
    return f"if ({conditions}) {{ {loop} }} {text}" if names else text


def _dims(op, args, rest):
    names, _, otherwise = rest.partition(" else ")
    shared = names.split()
    values = [f"batch.full({a.name})" if a.is_tensor and a.name not in shared else _dim(op, a) for a in args]
    return _shared(names, f"return batch.wrap_full({_call(op, values)});", f"return {otherwise};" if otherwise else _loop(op, args, ""))


def _leading(op, args, rest):
    tensors = [a.name for a in args if a.is_tensor]
    values = [f"batch.spread({a.name})" if a.is_tensor else a.name for a in args]
    text = f"return batch.wrap({_call(op, values)});"
    return f"if (!batch.same_rank({', '.join(tensors)})) {{ {_loop(op, args, '')} }} {text}" if len(tensors) > 1 else text


def _fold(op, args, rest):
    rank = rest or "-1"
    values = [f"batch.folded({a.name}, {rank})" if a.is_tensor else a.name for a in args]
    return f"return batch.unfolded({_call(op, values)}, {rank});"


def _value(op, args, rest):
    values = [f"batch.value({a.name})" if a.is_tensor else a.name for a in args]
    return _shared(rest, f"return batch.wrap({_call(op, values)});", _loop(op, args, ""))


def _loop(op, args, rest, before="", warn=True):
    values = [f"example({a.name})" if a.is_tensor else a.name for a in args]
    last = "" if warn else ", false"
    return f"return batch.loop([&](const Batch::Example& example) {{ {before}return {_call(op, values)}; }}{last});"


def _refuse(op, args, rest):
    return " ".join(f'check_not_batched({a.name}, "{op.name}");' for a in args if a.is_tensor)


def _random(op, args, rest):
    """Return the rule for random numbers: `rest` is the rule for numbers of each example's own; the same numbers are drawn
    again for each."""
    generator = next((a.name for a in args if a.type == "Generator?"), "nullptr")
    own = _loop(op, args, "", warn=False) if rest == "loop" else _BY_WORD[rest or "elementwise"](op, args, "")
    same = _loop(op, args, "", "same.again(); ", warn=False)
    return f"if (batch.randomness() == Randomness::Different) {{ {own} }} SameDraws same({generator}, batch.device()); {same}"


_BY_WORD = {
    "elementwise": _elementwise, "dims": _dims, "leading": _leading, "fold": _fold, "value": _value, "random": _random,
    "loop": _loop, "refuse": _refuse,
}  # fmt: skip


def mutating(op: Op, args) -> str:
    """Return the statement that runs an op which writes to its first argument on a wrapper."""
    me, *others = args
    values = ", ".join([f"batch_behind({me.name})", *(a.name for a in others)])
    if op.kind == "random":
        draws = [a for a in others if a.is_tensor]
        one = ", ".join(["one", *(a.name for a in others)])
        check = "".join(f'check_not_batched({a.name}, "{op.name}"); ' for a in draws)
        return (
            f'{check}Batch batch("{op.name}", {me.name}); '
            f"if (batch.randomness() == Randomness::Different) {op.name}({values}); "
            f"else {{ const Tensor one = empty_like(select(batch_behind({me.name}), 0, 0), {me.name}.dtype()); {op.name}({one}); "
            f'write_batched({me.name}, one, "{op.name}", true); }}'
        )
    if rule(op) == "value":
        return f"{op.name}({values});"
    if rule(op) == "refuse":
        return f'check_not_batched({me.name}, "{op.name}");'
    assert rule(op) == "loop", f"{op.location}: batch: value, refuse or loop is expected of an op that writes to its argument"
    rest = ", ".join(a.name for a in others)
    return (
        f"const Tensor values = batch_behind({me.name}); "
        f"for (int64_t i = 0; i < values.size(0); ++i) {op.name}(select(values, 0, i), {rest});"
    )
