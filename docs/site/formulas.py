"""Formulas of docstrings as MathML, which browsers draw by themselves: `mathml("y = x / (1 + exp(-x))")`.

A formula is written as Python, so that it can be read in a terminal and evaluated by a test; `ast` reads it, and nothing
else is needed. What stands for what:

    a / b, a // b          a fraction; one in floor brackets
    x ** 2, x[t], beta1    a power; an index below, also that of `beta1` and `C_out`
    sqrt, abs, norm, inv, comb, factorial, sum(f(i) for i in n), prod(...)
                           what mathematics has signs for; other functions keep their names, or get Greek ones
    a if c else b          cases
    p -= lr * g            p becomes p - lr g
    x_hat, x_bar           an accent
    k.T                    a transposed matrix
    y = f(x)  # words      words beside the formula
"""

from __future__ import annotations

import ast
from html import escape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "eta": "η", "theta": "θ", "kappa": "κ", "lambd": "λ",
    "mu": "μ", "nu": "ν", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Gamma": "Γ",
    "Phi": "Φ", "Sigma": "Σ", "inf": "∞",
}  # fmt: skip
ACCENTS = {"hat": "^", "bar": "¯", "tilde": "~"}
COMPARED = {
    ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥", ast.Eq: "=", ast.NotEq: "≠", ast.In: "∈", ast.NotIn: "∉", ast.Is: "=",
    ast.IsNot: "≠",
}  # fmt: skip
BRACKETS = {"abs": "||", "floor": "⌊⌋", "ceil": "⌈⌉"}
# How tightly what an expression becomes holds together; what is looser than its place gets parentheses.
CASES, LOGIC, COMPARISON, SUM, PRODUCT, SIGN, POWER, ATOM = range(8)


class FormulaError(ValueError):
    """A formula that is no Python, or has something for which there is no mathematical form."""


def mathml(text: str) -> str:
    """Return a `<math>` element for one line."""
    source, _, words = text.partition("#")
    try:
        (statement,) = ast.parse(source.strip()).body
    except (SyntaxError, ValueError):
        raise FormulaError(f"no formula: {text}") from None
    beside = f'<mspace width="1.5em"/><mtext>{escape(words.strip())}</mtext>' if words else ""
    alternative = escape(source.strip(), quote=True)
    return f'<math displaystyle="true" alttext="{alternative}"><mrow>{_statement(statement)}{beside}</mrow></math>'


def _statement(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign):
        return _operator("=").join(_at(part, CASES) for part in (*node.targets, node.value))
    if isinstance(node, ast.AugAssign):
        whole = ast.BinOp(node.target, node.op, node.value)
        return _at(node.target, ATOM) + _operator("←") + _at(whole, CASES)
    if isinstance(node, ast.Expr):
        return _at(node.value, CASES)
    raise FormulaError(f"a formula is an expression or an assignment, not {type(node).__name__}")


def _operator(text: str, space: str = "") -> str:
    return f"<mo{space}>{escape(text)}</mo>"


def _fenced(inside: str, left: str = "(", right: str = ")") -> str:
    return f'<mrow><mo fence="true">{left}</mo>{inside}<mo fence="true">{right}</mo></mrow>'


def _at(node: ast.expr, least: int) -> str:
    text, level = _expression(node)
    return text if level >= least else _fenced(text)


def _commas(parts: list[ast.expr]) -> str:
    return "<mo>,</mo>".join(_at(part, CASES) for part in parts)


def _expression(node: ast.expr) -> tuple[str, int]:
    """Return the MathML of an expression, and how tightly it holds together."""
    method = globals().get(f"_of_{type(node).__name__}")
    if method is None:
        raise FormulaError(f"there is no mathematical form of {type(node).__name__}")
    return method(node)


def name(text: str) -> str:
    """Return a name: a letter, a Greek one, with an index or an accent; or a word, upright."""
    if len(text) == 1 or text in GREEK:
        upright = ' mathvariant="normal"' if GREEK.get(text, "a").isupper() else ""
        return f"<mi{upright}>{GREEK.get(text, text)}</mi>"
    head, _, tail = text.partition("_")
    letters = text.rstrip("0123456789")
    if tail in ACCENTS:
        return f'<mover accent="true">{name(head)}<mo stretchy="false">{ACCENTS[tail]}</mo></mover>'
    if tail and (len(head) == 1 or head in GREEK):
        return f"<msub>{name(head)}{name(tail)}</msub>"
    if letters != text and (len(letters) == 1 or letters in GREEK):
        return f"<msub>{name(letters)}<mn>{text[len(letters) :]}</mn></msub>"
    return f'<mi mathvariant="normal">{escape(text)}</mi>'


def _of_Name(node: ast.Name) -> tuple[str, int]:
    return name(node.id), ATOM


def _of_Constant(node: ast.Constant) -> tuple[str, int]:
    if isinstance(node.value, (str, bool)) or node.value is None or node.value is ...:
        text = "…" if node.value is ... else str(node.value)
        return f"<mtext>{escape(text)}</mtext>", ATOM
    return f"<mn>{ast.unparse(node)}</mn>", ATOM


def _of_Attribute(node: ast.Attribute) -> tuple[str, int]:
    if node.attr == "T":
        return f"<msup>{_at(node.value, ATOM)}<mi>T</mi></msup>", POWER
    raise FormulaError(f"there is no mathematical form of .{node.attr}")


def _of_Subscript(node: ast.Subscript) -> tuple[str, int]:
    inside = _commas(node.slice.elts) if isinstance(node.slice, ast.Tuple) else _at(node.slice, CASES)
    return f"<msub>{_at(node.value, ATOM)}<mrow>{inside}</mrow></msub>", ATOM


def _of_Tuple(node: ast.Tuple) -> tuple[str, int]:
    return _fenced(_commas(node.elts)), ATOM


def _of_UnaryOp(node: ast.UnaryOp) -> tuple[str, int]:
    if isinstance(node.op, ast.Not):
        return f"<mtext>not </mtext>{_at(node.operand, COMPARISON)}", COMPARISON
    sign = "−" if isinstance(node.op, ast.USub) else "+"
    return f"<mrow><mo>{sign}</mo>{_at(node.operand, PRODUCT)}</mrow>", SIGN if isinstance(node.operand, ast.Constant) else SUM


def _of_BinOp(node: ast.BinOp) -> tuple[str, int]:
    left, right = node.left, node.right
    if isinstance(node.op, (ast.Add, ast.Sub)):
        plus = isinstance(node.op, ast.Add)
        return _at(left, SUM) + _operator("+" if plus else "−") + _at(right, SUM if plus else PRODUCT), SUM
    if isinstance(node.op, (ast.Mult, ast.MatMult)):
        signed = _signed(left)
        return _at(left, SUM if signed else PRODUCT) + _times(left, right) + _at(right, PRODUCT), SUM if signed else PRODUCT
    if isinstance(node.op, ast.Div):
        return f"<mfrac><mrow>{_at(left, CASES)}</mrow><mrow>{_at(right, CASES)}</mrow></mfrac>", PRODUCT
    if isinstance(node.op, ast.FloorDiv):
        whole = f"<mfrac><mrow>{_at(left, CASES)}</mrow><mrow>{_at(right, CASES)}</mrow></mfrac>"
        return _fenced(whole, "⌊", "⌋"), ATOM
    if isinstance(node.op, ast.Mod):
        return _at(left, PRODUCT) + '<mspace width="0.3em"/><mtext>mod</mtext><mspace width="0.3em"/>' + _at(
            right, SIGN
        ), PRODUCT
    if isinstance(node.op, ast.Pow):
        power = right
        if isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id in ("norm", "abs"):
            return f"<msup>{_at(left, CASES)}<mrow>{_at(power, CASES)}</mrow></msup>", POWER
        return f"<msup>{_at(left, ATOM)}<mrow>{_at(power, CASES)}</mrow></msup>", POWER
    raise FormulaError(f"there is no mathematical form of {type(node.op).__name__}")


def _signed(node: ast.expr) -> bool:
    """Return whether a product begins with a sign, which needs no parentheses there."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.MatMult)):
        node = node.left
    return isinstance(node, ast.UnaryOp)


def _times(left: ast.expr, right: ast.expr) -> str:
    """Return what stands between factors: nothing that is seen beside a letter, a dot between words or before numbers."""

    def word(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and "mathvariant" in name(node.id)

    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
        left = left.right
    first = right
    while isinstance(first, ast.BinOp) and isinstance(first.op, (ast.Mult, ast.Pow)):
        first = first.left
    number = isinstance(first, ast.Constant)
    call = isinstance(left, ast.Call) or isinstance(first, ast.Call)
    if word(left) or word(first) or number or (call and not isinstance(left, ast.Constant)):
        return "<mo>⋅</mo>"
    return '<mo>&#x2062;</mo><mspace width="0.17em"/>'


def _of_Compare(node: ast.Compare) -> tuple[str, int]:
    found = _at(node.left, SUM)
    for op, part in zip(node.ops, node.comparators):
        found += _operator(COMPARED[type(op)]) + _at(part, SUM)
    return found, COMPARISON


def _of_BoolOp(node: ast.BoolOp) -> tuple[str, int]:
    word = "and" if isinstance(node.op, ast.And) else "or"
    return f'<mspace width="0.3em"/><mtext>{word}</mtext><mspace width="0.3em"/>'.join(
        _at(part, COMPARISON) for part in node.values
    ), LOGIC


def _of_IfExp(node: ast.IfExp) -> tuple[str, int]:
    rows = []
    last: ast.expr = node
    while isinstance(last, ast.IfExp):
        rows.append((last.body, f'<mtext>if</mtext><mspace width="0.3em"/>{_at(last.test, CASES)}'))
        last = last.orelse
    rows.append((last, "<mtext>otherwise</mtext>"))
    cells = "".join(f"<mtr><mtd>{_at(value, CASES)}</mtd><mtd>{when}</mtd></mtr>" for value, when in rows)
    return f'<mtable class="cases" displaystyle="true">{cells}</mtable>', CASES  # whose brace is a border: it needs no font


def _of_Call(node: ast.Call) -> tuple[str, int]:
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    if called == "sqrt":
        return f"<msqrt>{_commas(node.args)}</msqrt>", ATOM
    if called in BRACKETS:
        return _fenced(_commas(node.args), *BRACKETS[called]), ATOM
    if called == "norm":
        shown = _fenced(_at(node.args[0], CASES), "‖", "‖")
        return (f"<msub>{shown}<mrow>{_commas(node.args[1:])}</mrow></msub>" if node.args[1:] else shown), ATOM
    if called in ("sum", "prod", "mean", "max", "min") and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
        return _over(called, node.args[0])
    if called == "inv":
        return f"<msup>{_at(node.args[0], ATOM)}<mrow><mo>−</mo><mn>1</mn></mrow></msup>", POWER
    if called == "factorial":
        return f"<mrow>{_at(node.args[0], ATOM)}<mo>!</mo></mrow>", POWER
    if called == "comb":
        above, below = (f"<mrow>{_at(part, CASES)}</mrow>" for part in node.args)
        return _fenced(f'<mfrac linethickness="0">{above}{below}</mfrac>'), ATOM
    head = name(called) if called else _at(node.func, ATOM)
    return f"<mrow>{head}<mo>&#x2061;</mo>{_fenced(_commas(node.args))}</mrow>", ATOM


def _over(called: str, node: ast.GeneratorExp) -> tuple[str, int]:
    """Return a sum, product, maximum or mean over what a generator runs through."""
    below = []
    for part in node.generators:
        index = part.target
        if isinstance(part.iter, ast.Name) and part.iter.id == "all":
            below.append(_at(index, CASES))
        else:
            below.append(_at(index, CASES) + _operator("∈") + _at(part.iter, CASES))
        below += [_at(test, CASES) for test in part.ifs]
    sign = {"sum": "∑", "prod": "∏"}.get(called, called)
    shown = f'<mo movablelimits="false">{sign}</mo>'
    return f"<munder>{shown}<mrow>{'<mo>,</mo>'.join(below)}</mrow></munder>{_at(node.elt, PRODUCT)}", PRODUCT
