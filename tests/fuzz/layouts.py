"""The same values in other layouts of memory: every call has to give the same results, gradients included.

    python -m tests.fuzz.layouts --cases 1000000 --seed 7 --jobs 2

The calls are those of calls.py, in several dtypes, with some of their sizes replaced by 0, 1 and larger ones; as they
are, differentiated, in place, and into an `out=` that has holes. What lies around the tensors must stay as it was.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from pathlib import Path

import facula

from . import call_texts, calls, preamble, runner

HERE = Path(preamble.__file__).parent
SOURCES = (HERE / "preamble.py").read_text() + "".join((HERE / "relayout.py").read_text().partition("from .preamble")[2].partition("\n")[1:])
NAMES: dict = {}
exec(compile(SOURCES, "program", "exec"), NAMES)
LAYOUTS, WRITABLE = [*NAMES["LAYOUTS"], "shared"], NAMES["WRITABLE"]
# Calls whose result is about memory, or is whatever memory held.
ABOUT_MEMORY = re.compile(
    r"as_strided|\.numpy\(|\.view\(|_C\.view\(|view_as\(|view_copy|split_(with_sizes_)?copy|view_as_(real|complex)|\.stride|data_ptr|storage|is_contiguous|is_set_to|empty|set_\(|resize|contiguous|dlpack|squeeze_\(|transpose_\(|"
    r"unsqueeze_\(|\.t_\(|_C\.t_|swap\w+_\(|is_non_overlapping|dim_order|deepcopy|pickle|register_hook|is_same_tensor|_reshape_alias|_is_view|map_\(|apply_\(|requires_grad|"
    r"moveaxis_|_copy_\(|share_memory|Generator|\.unflatten|format_|__format__|nn\.Lazy|detach|_rng|_unique_runs|data\b|_sgd|_adam|lobpcg|lowrank"
)  # fmt: skip
WRITES = re.compile(r"_\(|^step\(|[bB]atch_?[nN]orm|_channel_norm\(|[iI]nstance_?[nN]orm|[eE]mbedding|out=|__setitem__")
RANDOM = re.compile(r"bernoulli|normal|uniform|rand|exponential|cauchy|geometric|poisson|multinomial|dropout|rrelu|RReLU|gumbel|_gamma|dirichlet|binomial|Dropout|init\.")
FREE_PHASE = re.compile(r"linalg_?\.?(svd|eig|qr)|_svd|eigh?\(|\.svd|\.qr|_qr|householder|geqrf|ormqr|orgqr")
DTYPES = ["float32"] * 5 + ["float64"] * 5 + ["float16", "bfloat16", "complex64", "complex128", "int64", "int32", "uint8", "int8", "bool"]
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 16, 17, 33)


class Template:
    """A call with its tensors taken out: `text` over t[0], t[1], ..., and the makers of the tensors."""

    def __init__(self, seed):
        spans = []
        for node in ast.walk(ast.parse(seed.text, mode="eval")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("x", "k") and not _has_star(node):
                spans.append((node.col_offset, node.end_col_offset, node))
        self.makers, text, at = [], "", 0
        for start, end, node in sorted(spans, key=lambda s: s[0]):
            text += f"{seed.text[at:start]}t[{len(self.makers)}]"
            shape = [a.value for a in node.args]
            options = ", ".join(f"{w.arg}={ast.unparse(w.value)}" for w in node.keywords if w.arg != "dtype")
            dtype = next((ast.unparse(w.value) for w in node.keywords if w.arg == "dtype"), None)
            self.makers.append((node.func.id, shape, options, dtype))
            at = end
        self.text = text + seed.text[at:]
        self.op = seed.op
        self.out = any(kind == "out" for _, kind in seed.keywords) and self.text.endswith(")")
        called = self.text.split("](")[0] if self.text.startswith("t[0].") else self.text
        self.inplace = bool(re.match(r"t\[0\]\.\w+_\(", called))
        self.writes = bool(WRITES.search(self.text))
        self.private = "_C._ops." in self.text
        self.elementwise = seed.op is not None and seed.op.elementwise


def _has_star(node):
    return any(not isinstance(a, ast.Constant) for a in node.args)


class Layouts:
    def __init__(self, seed: int, only: str | None = None):
        self.seed = seed
        seeds = calls.schema_seeds() + calls.table_seeds(call_texts.FUNCTIONAL, call_texts.MODULES, call_texts.OTHERS)
        kept = [s for s in seeds if not (ABOUT_MEMORY.search(s.text) or RANDOM.search(s.text)) and (only is None or re.search(only, s.text))]
        self.templates = [t for t in map(Template, kept) if t.makers]

    def begin(self, number: int):
        facula.set_num_threads(1 + number % 2)
        facula.cpu.set_memory_limit(1 << 30)

    def case(self, index: int) -> str:
        rng = random.Random((self.seed << 40) + index)
        template = rng.choice(self.templates)
        shapes = self.shapes(rng, template)
        dtype = self.dtype(rng, template)
        tensors = [self.maker(kind, shape, options, own, dtype) for (kind, _, options, own), shape in zip(template.makers, shapes)]
        layouts = [rng.choice(LAYOUTS)] * len(tensors) if rng.random() < 0.3 else [rng.choice(LAYOUTS[:-1]) for _ in tensors]
        given = f"[{', '.join(tensors)}], {layouts!r}"
        if template.writes:
            layouts = [rng.choice(WRITABLE) for _ in tensors]
            given = f"[{', '.join(tensors)}], {layouts!r}"
        if template.inplace:
            return f"same({template.text!r}, [{', '.join(tensors)}], {layouts!r}, 'inplace')"
        if template.out and rng.random() < 0.4:
            if layouts[0] == "shared":
                layouts = ["offset"] * len(tensors)
            out = [rng.choice(WRITABLE) for _ in range(2)]
            call = template.text[:-1] + (", " if template.text[-2] != "(" else "") + "out=out)"
            return f"same_out({call!r}, [{', '.join(tensors)}], {layouts!r}, {out!r})"
        if rng.random() < 0.5 and dtype in ("float32", "float64", "complex128", None) and not FREE_PHASE.search(template.text):
            return f"same({template.text!r}, {given}, 'grad', {rng.choice([None, None, *LAYOUTS[:-1]])!r})"
        return f"same({template.text!r}, {given})"

    def shapes(self, rng, template):
        shapes = [list(shape) for _, shape, _, _ in template.makers]
        kind = rng.random()
        if template.elementwise and kind < 0.5:
            shape = [rng.choice(SIZES) for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 5)))]
            if max(shape, default=1) ** 2 > 4000 or len(shape) > 3:
                shape = [min(n, 5) for n in shape]
            made = []
            for _ in shapes:
                own = [1 if rng.random() < 0.2 else n for n in shape]
                made.append(own[rng.choice((0, 0, 0, 1)) :])
            return [list(shape)] + made[1:] if template.inplace else made
        if kind < 0.75 and not template.private:
            # one size, wherever it stands, becomes another
            sizes = sorted({n for shape in shapes for n in shape})
            if sizes:
                old, new = rng.choice(sizes), rng.choice(SIZES)
                shapes = [[new if n == old else n for n in shape] for shape in shapes]
                if max((_count(shape) for shape in shapes), default=0) > 50_000:
                    return [list(shape) for _, shape, _, _ in template.makers]
        return shapes

    def dtype(self, rng, template):
        if rng.random() < 0.4:
            return None
        return rng.choice(DTYPES[:10] if template.private else DTYPES)

    def maker(self, kind, shape, options, own, dtype):
        chosen = own or (f"facula.{dtype}" if dtype and kind == "x" else None)
        parts = [str(n) for n in shape] + ([options] if options else []) + ([f"dtype={chosen}"] if chosen else [])
        text = f"{kind}({', '.join(parts)})"
        if chosen and chosen.startswith("facula.uint"):
            text = f"{kind}({', '.join(parts[:-1])}).abs().to({chosen})"
        return text

    def check(self, text: str) -> str | None:
        try:
            eval(compile(text, "case", "eval"), NAMES)
        except AssertionError as error:
            return f"AssertionError: {error}"
        except Exception as error:
            if text_of_relayout(error):
                return f"relaid raised {type(error).__name__}: {error}"
        finally:
            facula.set_grad_enabled(True)
        return None

    def program(self, text: str) -> str:
        return f"{SOURCES}\n\n{text}\n"


def text_of_relayout(error) -> bool:
    """Whether the error comes from the making of a layout and not from the making of the values."""
    frame, names = error.__traceback__, []
    while frame:
        names.append(frame.tb_frame.f_code.co_name)
        frame = frame.tb_next
    return bool({"relaid", "shared", "differ", "outside_of"} & set(names))


def _count(shape):
    total = 1
    for n in shape:
        total *= n
    return total


if __name__ == "__main__":

    def more(parser):
        parser.add_argument("--only", help="only the calls that this regular expression finds")

    sys.exit(runner.main(lambda options: Layouts(options.seed, options.only), __doc__, more))
