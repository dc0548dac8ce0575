"""Emit nodes of public C++ functions: the saved values, the formulas of a backward pass, and the code that records them."""

from __future__ import annotations

from . import formula
from .emit_ops import cpp_args
from .op import Op


def _members(op: Op, formulas) -> tuple[list[str], list[str]]:
    """Return the saved argument and result names, and saved descriptions, in a fixed order."""
    used = set().union(*(f.uses for f in formulas)) if formulas else set()
    values = [a.name for a in op.args if a.name in used] + [r for r in formula.result_names(op) if r in used]
    infos = sorted(u for u in used if u.endswith("_info"))
    return values, infos


def node_name(op: Op) -> str:
    base = "".join(word[:1].upper() + word[1:] for word in op.name.strip("_").split("_"))
    suffix = "".join(w[:1].upper() + w[1:] for w in op.overload.split("_")) if op.overload else ""
    return f"{base}{suffix}Backward"


def _info_type(info: str, by_name) -> str:
    arg = by_name.get(info[: -len("_info")])
    return "std::vector<TensorInfo>" if arg is not None and arg.type == "Tensor[]" else "TensorInfo"


# how a node gives a saved argument to a formula, by schema type; what stands in none of these is read as it is
UNPACKED = {
    **dict.fromkeys(("Tensor", "Tensor?"), "const Tensor {0} = {0}_.unpack(*this);"),
    "Operand": "const auto {0} = {0}_.unpack(*this);",
    "Tensor[]": "const std::vector<Tensor> {0} = unpack_list({0}_, *this);",
    "int[]?": "const std::optional<IntList> {0} = {0}_ ? std::optional<IntList>(IntList(*{0}_)) : std::nullopt;",
    "int[]": "const IntList {0} = {0}_;",
    "str?": "const std::optional<std::string_view> {0} = {0}_ ? std::optional<std::string_view>(*{0}_) : std::nullopt;",
}
RELEASED = {**dict.fromkeys(("Tensor", "Tensor?", "Operand"), "{0}_.reset();"), "Tensor[]": "{0}_.clear();"}


def _node(op: Op) -> str:
    """Return the class of the op's node and the function that makes one; nothing where the op has no formulas."""
    formulas = formula.read(op)
    if not formulas:
        return ""
    values, infos = _members(op, formulas)
    by_name = {a.name: a for a in op.args}
    types = {v: by_name[v].type if v in by_name else "Tensor" for v in values}  # results are tensors
    info_types = {info: _info_type(info, by_name) for info in infos}
    name = node_name(op)
    lines = [f"namespace {{\nclass {name} final : public Node {{\n public:"]
    lines.append(f'  std::string name() const override {{ return "{name}0"; }}')
    lines += _apply(op, formulas, types, info_types)
    if released := "".join(" " + RELEASED[kind].format(v) for v, kind in types.items() if kind in RELEASED):
        lines.append(f"  void release_saved() override {{{released} }}")
    if visited := "".join(f' visit("{v}", {v}_);' for v in [*values, *infos]):
        lines.append(f"  void visit_saved(SavedVisitor& visit) const override {{{visited} }}")
    lines += [f"  {formula.stored_type(by_name[v]) if v in by_name else 'SavedTensor'} {v}_{{}};" for v in values]
    lines += [f"  {kind} {info}_;" for info, kind in info_types.items()]
    if _edges_are_dynamic(formulas):
        lines += [f"  size_t first_{f.arg.name}_ = 0, count_{f.arg.name}_ = 1;" for f in formulas]
    lines.append("};\n")
    lines += _recorder(op, formulas)
    lines.append("}  // namespace\n")
    return "\n".join(lines)


def _edges_are_dynamic(formulas) -> bool:
    """Return whether an argument is a list, so that the number of an edge is known when the node is made."""
    return any(f.arg.type == "Tensor[]" for f in formulas)


def _apply(op: Op, formulas, types: dict[str, str], info_types: dict[str, str]) -> list[str]:
    """Return the backward pass through the node: what it saved, then one statement for each wanted gradient."""
    lines = ["  void apply(const Tensor* grads, Tensor* results) override {", "    const Tensor& grad = grads[0];\n    (void)grad;"]
    if op.returns == ("Tensor",):
        lines.append("    if (!grad.defined()) return;")
    lines += ["    " + UNPACKED.get(kind, "const auto& {0} = {0}_;").format(value) for value, kind in types.items()]
    lines += [f"    const {kind}& {info} = {info}_;" for info, kind in info_types.items()]
    dynamic = _edges_are_dynamic(formulas)
    for edge, f in enumerate(formulas):
        if f.together:
            lines += _together(f, edge)
        elif f.arg.type == "Tensor[]":
            lines.append(f"    store_list({f.text}, results + first_{f.arg.name}_, count_{f.arg.name}_);")
        else:
            place = f"first_{f.arg.name}_" if dynamic else str(edge)
            lines.append(f"    if (wants({place})) results[{place}] = {f.text};")
    return [*lines, "  }"]


def _together(f: formula.Formula, edge: int) -> list[str]:
    """Return one formula for several gradients, at the first of them."""
    if f.arg.name != f.together[0]:
        return []
    edges = range(edge, edge + len(f.together))
    wanted, places = " || ".join(f"wants({e})" for e in edges), ", ".join(f"results[{e}]" for e in edges)
    return [f"    if ({wanted}) std::tie({places}) = {f.text};"]


def _recorder(op: Op, formulas) -> list[str]:
    """Return the function that makes a node from the arguments: edges, and what the formulas need of the inputs."""
    name = node_name(op)
    wanted = [f.arg for f in formulas]
    dynamic = _edges_are_dynamic(formulas)
    lines = [f"[[gnu::noinline]] Ref<{name}> {op.id}_node(uint32_t recorded_flags, {', '.join(_unused_ok(op))}) {{"]
    lines.append(f"  auto node = Ref<{name}>::adopt(new {name});\n  node->flags = recorded_flags;")
    for a in wanted:
        if dynamic:
            lines.append(f"  node->first_{a.name}_ = node->edge_count();")
        lines.append(f"  add_edges(*node, {a.name});")
        if dynamic:
            lines.append(f"  node->count_{a.name}_ = node->edge_count() - node->first_{a.name}_;")
    lines += _saves(op, formulas, dynamic)
    lines.append("  return node;\n}")
    return lines


def _unused_ok(op: Op) -> list[str]:
    return [f"[[maybe_unused]] {a.cpp_type} {a.name}" for a in cpp_args(op)]


def _condition(formulas, value: str, dynamic: bool) -> str:
    users = [i for i, f in enumerate(formulas) if value in f.uses]
    if dynamic or len(users) == len(formulas):
        return ""
    return "if (" + " || ".join(f"node->wants({i})" for i in users) + ") "


# how an argument is saved, by schema type; what stands in none of these is saved as it is
STORED = {
    **dict.fromkeys(("Tensor", "Tensor?"), "SavedTensor({0}, false)"), "Operand": "SavedOperand({0})", "Tensor[]": "save_list({0})",
    "int[]": "Dims({0})", "int[]?": "{0} ? std::optional<Dims>(Dims(*{0})) : std::nullopt", "str": "std::string({0})",
    "str?": "{0} ? std::optional<std::string>(std::string(*{0})) : std::nullopt", "float[]": "{0}.vec()",
}  # fmt: skip


def _saves(op: Op, formulas, dynamic) -> list[str]:
    values, infos = _members(op, formulas)
    by_name = {a.name: a for a in op.args}
    lines = []
    for value in values:
        arg = by_name.get(value)
        if arg is None:
            continue
        when = _condition(formulas, value, dynamic)
        store = STORED.get(arg.type, "{0}").format(value)
        lines.append(f"  {when}node->{value}_ = {store};")
    for info in infos:
        source = info[: -len("_info")]
        if source in by_name:
            make = "info_of_list" if by_name[source].type == "Tensor[]" else "TensorInfo"
            lines.append(f"  node->{info}_ = {make}({source});")
    return lines
