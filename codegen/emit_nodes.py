"""Nodes of public C++ functions: what is saved, the formulas of a backward pass, and who records them."""

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


def _node(op: Op) -> str:
    formulas = formula.read(op)
    if not formulas:
        return ""
    values, infos = _members(op, formulas)
    by_name = {a.name: a for a in op.args}
    name = node_name(op)
    lines = [f"namespace {{\nclass {name} final : public Node {{\n public:"]
    lines.append(f'  std::string name() const override {{ return "{name}0"; }}')
    lines.append("  void apply(const Tensor* grads, Tensor* results) override {")
    lines.append("    const Tensor& grad = grads[0];\n    (void)grad;")
    if len(op.returns) == 1 and op.returns[0] == "Tensor":
        lines.append("    if (!grad.defined()) return;")
    for value in values:
        arg = by_name.get(value)
        if arg is None or arg.type in ("Tensor", "Tensor?"):
            lines.append(f"    const Tensor {value} = {value}_.unpack(*this);")
        elif arg.type == "Operand":
            lines.append(f"    const auto {value} = {value}_.unpack(*this);")
        elif arg.type == "Tensor[]":
            lines.append(f"    const std::vector<Tensor> {value} = unpack_list({value}_, *this);")
        elif arg.type == "int[]?":
            lines.append(f"    const std::optional<IntList> {value} = {value}_ ? std::optional<IntList>(IntList(*{value}_)) : std::nullopt;")
        elif arg.type == "int[]":
            lines.append(f"    const IntList {value} = {value}_;")
        elif arg.type == "str?":
            lines.append(f"    const std::optional<std::string_view> {value} = {value}_ ? std::optional<std::string_view>(*{value}_) : std::nullopt;")
        else:
            lines.append(f"    const auto& {value} = {value}_;")
    for info in infos:
        lines.append(f"    const {_info_type(info, by_name)}& {info} = {info}_;")
    edge = 0
    edges_dynamic = any(a.type == "Tensor[]" for a in op.args if op.grad and a.name in op.grad)
    for f in formulas:
        if f.together:
            lines += _together(f, edge)
        elif f.arg.type == "Tensor[]":
            lines.append(f"    store_list({f.text}, results + first_{f.arg.name}_, count_{f.arg.name}_);")
        elif edges_dynamic:
            lines.append(f"    if (wants(first_{f.arg.name}_)) results[first_{f.arg.name}_] = {f.text};")
        else:
            lines.append(f"    if (wants({edge})) results[{edge}] = {f.text};")
        edge += 1
    lines.append("  }")
    resets = "".join(
        f" {v}_.reset();" for v in values if v not in by_name or by_name[v].type in ("Tensor", "Tensor?", "Operand")
    ) + "".join(f" {v}_.clear();" for v in values if v in by_name and by_name[v].type == "Tensor[]")
    if resets:
        lines.append(f"  void release_saved() override {{{resets} }}")
    shown = "".join(f' visit("{v}", {v}_);' for v in values) + "".join(f' visit("{i}", {i}_);' for i in infos)
    if shown:
        lines.append(f"  void visit_saved(SavedVisitor& visit) const override {{{shown} }}")
    for value in values:
        arg = by_name.get(value)
        kind = "SavedTensor" if arg is None else formula.stored_type(arg)
        lines.append(f"  {kind} {value}_{{}};")
    for info in infos:
        lines.append(f"  {_info_type(info, by_name)} {info}_;")
    if edges_dynamic:
        for f in formulas:
            lines.append(f"  size_t first_{f.arg.name}_ = 0, count_{f.arg.name}_ = 1;")
    lines.append("};\n")
    lines += _recorder(op, formulas)
    lines.append("}  // namespace\n")
    return "\n".join(lines)


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
    dynamic = any(a.type == "Tensor[]" for a in wanted)
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


def _saves(op: Op, formulas, dynamic) -> list[str]:
    values, infos = _members(op, formulas)
    by_name = {a.name: a for a in op.args}
    lines = []
    for value in values:
        arg = by_name.get(value)
        if arg is None:
            continue
        when = _condition(formulas, value, dynamic)
        store = {
            "Tensor": f"SavedTensor({value}, false)", "Tensor?": f"SavedTensor({value}, false)",
            "Operand": f"SavedOperand({value})", "Tensor[]": f"save_list({value})", "int[]": f"Dims({value})",
            "int[]?": f"{value} ? std::optional<Dims>(Dims(*{value})) : std::nullopt", "str": f"std::string({value})",
            "str?": f"{value} ? std::optional<std::string>(std::string(*{value})) : std::nullopt",
            "float[]": f"{value}.vec()",
        }.get(arg.type, value)  # fmt: skip
        lines.append(f"  {when}node->{value}_ = {store};")
    for info in infos:
        source = info[: -len("_info")]
        if source in by_name:
            make = "info_of_list" if by_name[source].type == "Tensor[]" else "TensorInfo"
            lines.append(f"  node->{info}_ = {make}({source});")
    return lines
