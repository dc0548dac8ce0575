"""Calls of everything public with arguments that nobody would give.

    python -m tests.fuzz.hostile --cases 1000000 --seed 7 --jobs 2

Three cases in four are calls that work (calls.py) with one to three arguments replaced: they get deepest. The fourth is a
call of any public name with arguments made from its signature. The result is printed and differentiated. What may come
of it is a result or an ordinary exception with a sane text: no crash, no hang, no gigabytes.
"""

from __future__ import annotations

import pickle
import random
import re
import sys
from pathlib import Path

import facula

from . import call_texts, calls, package_calls, preamble, runner, sparse_texts

INTS = [
    "0", "1", "-1", "2", "-2", "3", "5", "7", "64", "1000", "2**15", "2**16", "2**31 - 1", "2**31", "-2**31", "2**31 + 1", "2**32", "2**32 + 1",
    "2**61", "2**62", "2**62 + 1", "-2**62", "2**63 - 1", "2**63 - 2", "-2**63", "2**63", "2**64", "2**64 - 1", "-2**63 - 1", "2**100", "True",
]  # fmt: skip
FLOATS = ["0.0", "-0.0", "0.5", "-1.5", "1.0", "2.0", "nan", "inf", "-inf", "1e300", "-1e300", "1e-320", "3.5e38", "1e39", "1e19", "-1e19", "2.0**62", "2.0**63"]  # fmt: skip
COMPLEX = ["1j", "complex(nan, inf)", "1e300j", "-2 + 0j"]
STRINGS = ["''", "'none'", "'mean'", "'sum'", "'constant'", "'reflect'", "'bilinear'", "'same'", "'fro'", "'nuc'", "'x' * 1000", "'\\x00'", "'\\ud800'", "'é'"]
DTYPES = [f"facula.{d}" for d in ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16",
                                  "float32", "float64", "complex32", "complex64", "complex128")]  # fmt: skip
DEVICES = ["'cpu'", "'meta'", "facula.device('meta')", "'cuda'", "'cpu:1'", "'nonsense'", "0", "-1", "2**62"]
STRANGE = [
    "None", "object()", "{}", "[]", "()", "[None]", "['a']", "b'x'", "...", "slice(1)", "slice(None, None, -1)", "range(3)", "facula", "int", "nn.Linear",
    "lambda *a: None", "np.ones(3)", "np.float64('nan')", "np.array('a')", "np.array([object()])", "np.ones((2, 3))[:, ::-1]", "Huge()", "Huge(-2**63)", "Huge(2**70)", "Huge(nan)",
    "Sequence()", "Sequence(2**62)", "Sequence(-1)", "Sequence(3, None)", "Sequence(0)", "Raising()", "Shrinking(1, 2)", "Shrinking(1, 2, 3, 4)", "endless()",
    "deep(100)", "deep(100000)", "Override()", "Answering()", "facula.Generator()", "facula.strided", "facula.channels_last", "facula.contiguous_format",
    "facula.preserve_format", "facula.device('cpu')", "nn.Parameter(x(3, 4))", "nn.parameter.UninitializedParameter()", "facula.Size([2, 3])",
    "frozenset([1])", "iter([1, 2])", "memoryview(b'abc')", "type('S', (), {'shape': (3,)})()", "facula.finfo(facula.float32)", "NotImplemented",
]  # fmt: skip
SHAPES = ["", "0", "1", "3", "5", "2, 3", "3, 4", "0, 3", "3, 0", "1, 1", "3, 3", "2, 3, 4", "2, 0, 4", "1, 3, 6, 6", "2, 3, 1, 1", "1, 2, 4, 5, 6", "2, 1, 2, 1, 2, 1", ", ".join(["1"] * 30), ", ".join(["1"] * 70)]  # fmt: skip
LARGE = [
    "facula.zeros(1).expand(2**62)", "facula.zeros(1).expand(2**31, 2**31)", "facula.zeros(1, 1).expand(3, 2**61)",
    "facula.zeros(1, dtype=facula.int8).expand(2**62)", "facula.zeros(1, dtype=facula.bool).expand(2**62)", "facula.zeros(1, dtype=facula.int64).expand(2**60)",
    "facula.zeros(1, 0).expand(2**62, 0)", "facula.zeros(1, 1, 0).expand(2**62, 2**62, 0)", "facula.empty(0, 2**31, 2**31)", "facula.zeros(0, 2**62)", "facula.empty(2**62, device='meta')",
    "facula.empty(2**31, 2**31, device='meta')", "facula.empty(2**31 + 1, device='meta', dtype=facula.int8)", "facula.zeros(1, 1, 1, 1).expand(2**20, 3, 2**20, 2**20)",
    "facula.zeros(1).requires_grad_().expand(2**62)", "facula.zeros(16, dtype=facula.uint8).as_strided((5,), (2**62,))",
    "facula.zeros(1, 4).expand(2**61, 4)", "facula.zeros(4, 1).expand(4, 2**60)",
]  # fmt: skip
INDEX_TENSORS = [
    "facula.tensor([-2**63])", "facula.tensor([2**63 - 1, -1])", "facula.tensor([2**62] * 4)", "facula.tensor([-1, 0, 2**31])", "facula.tensor([3, 4, 5])", "facula.tensor(2**62)",
    "facula.tensor([2**31], dtype=facula.int64)", "facula.tensor([-2**31, 2**31 - 1], dtype=facula.int32)", "facula.tensor([255], dtype=facula.uint8)", "facula.tensor([[0, 2**40], [1, -2]])",
    "facula.tensor([True, False, True])", "facula.tensor([2**64 - 1], dtype=facula.uint64)", "facula.empty(0, dtype=facula.int64)", "facula.full((3, 4), -2**63)", "facula.full((3, 4), 2**62)",
]  # fmt: skip
FLOAT_TENSORS = ["facula.tensor([nan, inf, -inf, -0.0])", "facula.tensor([1e300, -1e300, 1e-320], dtype=facula.float64)", "facula.full((3, 4), nan)", "facula.full((3, 4), inf)",
                 "facula.full((3, 4), -1e30)", "facula.tensor([complex(nan, inf), 1j])"]  # fmt: skip
# What a tensor argument that works is made into.
WRAPPINGS = [
    "{}[..., :0]", "{}[:0]", "{}[None]", "{}[..., None]", "{}[0]", "{}.mT", "{}.flatten()", "{}.reshape(-1, 1)", "{}.sum()", "{}[::-1]", "{}[..., ::-1]", "{}[..., ::2]",
    "{}.to('meta')", "{}.contiguous().as_strided({}.shape, (0,) * {}.dim())", "{}.contiguous().as_strided({}.shape, (1,) * {}.dim())", "{}.conj()",
    "({} * nan)", "({} * inf)", "({} * 1e30)", "({} * 0)", "(-{})", "({} + 2**62)", "({} - 2**62)", "({} * 0 + 2**63 - 1)", "({} * 0 - 2**63)", "({} * 0 - 1)", "({} + 1)",
    "{}.requires_grad_()", "{}.double().requires_grad_()", "{}.to(facula.complex64).conj()", "{}.to(facula.complex128).requires_grad_()", "{}.to(facula.float16)",
    "{}.expand(2**62, *{}.shape)", "{}.reshape(-1)[:1].expand(2**62)", "{}[..., :1].expand(*{}.shape[:-1], 2**60)", "{}.broadcast_to(2, *{}.shape)",
    "{}.contiguous(memory_format=facula.channels_last)", "nn.Parameter({})", "{}.as_subclass(Override)",
    *sparse_texts.WRAPPINGS, "{}.repeat(3, *[1] * {}.dim())", "facula.cat([{}, {}])", "facula.cat([{}, {}], -1)", "{}.as_strided((3,), (1,), 1)", "{}.view(-1)[1:]", "{}.mul(3).clone()[None].expand(2, *{}.shape)[0]",
]  # fmt: skip
OTHER_WRAPPINGS = ["{}.detach().numpy()", "{}.tolist()", "[{}]", "[{}] * 3", "({}, {})"]
OUTS = [
    "facula.empty(0)", "facula.empty(0, dtype=facula.int64)", "facula.empty(3, 4)", "facula.empty(3, 4).mT", "facula.empty(1).expand(3, 4)", "facula.empty(0, device='meta')", "x(3, 4).requires_grad_()",
    "facula.empty(0, dtype=facula.bool)", "facula.empty(0, dtype=facula.complex64)", "facula.empty(2**62, device='meta')", "facula.zeros(1).expand(2**62)", "facula.empty(6, 8)[::2, ::2]", "x(12)[::-1]",
    "None", "()", "(facula.empty(0), facula.empty(0))", "[facula.empty(0)]", "3", "facula.empty(0, dtype=facula.float64)", "x(3, 4)[1]", "nn.Parameter(x(3, 4))", "x(2, 2).as_strided((3, 4), (0, 0))",
    "facula.from_numpy(np.ones(2))", "x(3, 4).numpy()", "facula.empty(5, dtype=facula.int32)", "x(3, 4).requires_grad_().mul(1)[0]", "facula.from_numpy(np.frombuffer(b'12345678', dtype=np.float32))",
]  # fmt: skip
OUT_PAIRS = [
    "(facula.empty(0), facula.empty(0, dtype=facula.int64))", "(facula.empty(0), facula.empty(0))", "(facula.empty(0),) * 2", "(facula.empty(0),)", "(facula.empty(0), None)", "[facula.empty(0)] * 3",
    "(facula.empty(0, device='meta'), facula.empty(0))", "(facula.zeros(1).expand(2**62), facula.empty(0, dtype=facula.int64))", "facula.empty(0)", "()", "(x(2, 2).requires_grad_(), facula.empty(0))",
    "((a := facula.empty(20))[:10], a[5:])",
]  # fmt: skip

ALLOWED = (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError, NotImplementedError, AssertionError, OverflowError,
           ZeroDivisionError, ArithmeticError, ImportError, BufferError, StopIteration, LookupError, pickle.PickleError)  # fmt: skip
#: What Python says of values without an end, and of pickles that have one too soon.
PYTHONS_OWN = ((RecursionError, re.compile(r"deep\(|endless\(")), (EOFError, re.compile(r"pickle\.loads\(")))
REFUSED = (SystemError, RecursionError, UnboundLocalError)
STRANGE_TEXT = re.compile(
    r"std::|_M_|basic_string|__gnu|bad_alloc|bad_cast|bad_variant|bad_optional|facula::|terminate called|<class 'std|internal error|INTERNAL"
    r"|vector<|shared_ptr|returned NULL|returned a result with an|bad argument to internal"
)
OFFENDERS = re.compile(r"name '(\w+)' is not defined")


class Values:
    """Argument texts, drawn by type."""

    def __init__(self, rng: random.Random):
        self.rng = rng

    def tensor(self, depth=0) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.0005:
            return "facula.zeros(1).expand(2**31)"  # takes seconds
        if kind < 0.12:
            return rng.choice(LARGE)
        if kind < 0.3:
            return rng.choice(INDEX_TENSORS)
        if kind < 0.38:
            return rng.choice(FLOAT_TENSORS)
        if kind < 0.44:
            return rng.choice(sparse_texts.TENSORS)
        shape = rng.choice(SHAPES)
        dtype = rng.choice(DTYPES) if rng.random() < 0.5 else rng.choice(("facula.float32", "facula.float64", "facula.int64"))
        text = f"x({shape}{', ' if shape else ''}dtype={dtype})"
        return self.wrapped(text) if rng.random() < 0.35 else text

    def wrapped(self, text: str, stays_tensor=True) -> str:
        wrapping = self.rng.choice(WRAPPINGS if stays_tensor or self.rng.random() < 0.9 else OTHER_WRAPPINGS)
        if wrapping.count("{}") == 1:
            return wrapping.format(text)
        first, *rest = wrapping.split("{}")
        return f"{first}(w := {text})" + "w".join(rest)

    def tensors(self) -> str:
        rng = self.rng
        if rng.random() < 0.3:
            return rng.choice(["[]", "()", "[x(2, 3)] * 3", "[x(2, 3), None]", "[x(3), 2]", "x(3, 3)", "Sequence(3, x(2))", "[x(2, 3)] * 1000", "[x(1)] * 70000"])
        return "[" + ", ".join(self.tensor() for _ in range(rng.randrange(1, 4))) + "]"

    def ints(self) -> str:
        rng = self.rng
        if rng.random() < 0.15:
            return self.int()
        count = rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 70))
        small = rng.random() < 0.4
        items = [rng.choice(("0", "1", "-1", "2", "3")) if small or rng.random() < 0.4 else self.int() for _ in range(count)]
        return rng.choice(("[{}]", "({}{})")).format(", ".join(items), "," if count == 1 else "")

    def int(self) -> str:
        return self.rng.choice(INTS) if self.rng.random() < 0.9 else self.rng.choice(("nan", "1.5", "1.0", "facula.tensor(2)", "facula.tensor(2**62)", "'a'", "None", "np.int64(3)"))

    def float(self) -> str:
        return self.rng.choice(FLOATS if self.rng.random() < 0.7 else INTS)

    def number(self) -> str:
        kind = self.rng.random()
        return self.rng.choice(FLOATS if kind < 0.5 else INTS if kind < 0.85 else COMPLEX)

    def strange(self) -> str:
        return self.rng.choice(STRANGE)

    def index(self) -> str:
        rng = self.rng
        items = [
            rng.choice((self.int, self.tensor, self.strange, lambda: "...", lambda: "None", self.slice, self.slice))() for _ in range(rng.choice((1, 1, 2, 2, 3, 5)))
        ]
        return items[0] if len(items) == 1 else f"({', '.join(items)})"

    def slice(self) -> str:
        ends = [self.rng.choice(("None", self.int())) for _ in range(3)]
        return f"slice({', '.join(ends)})"

    def of(self, kind: str) -> str:
        """A value for an argument of a type of the schema; one in twelve is of no type at all."""
        rng = self.rng
        if rng.random() < 0.08:
            return rng.choice((self.strange, self.strange, self.tensor, self.number, lambda: rng.choice(STRINGS)))()
        if kind == "Tensor":
            return self.tensor()
        if kind == "Operand":
            return self.tensor() if rng.random() < 0.6 else self.number()
        if kind in ("int[]", "int"):
            return self.ints() if kind == "int[]" else self.int()
        if kind == "float[]":
            return "[" + ", ".join(self.float() for _ in range(rng.randrange(5))) + "]"
        simple = {"float": self.float, "Scalar": self.number, "Tensor[]": self.tensors, "index": self.index}
        if kind in simple:
            return simple[kind]()
        pools = {"str": STRINGS, "dtype": DTYPES, "device": DEVICES, "bool": ("True", "False", "None", "2", "1.5"), "out": OUTS, "out[]": OUT_PAIRS,
                 "layout": sparse_texts.LAYOUTS, "Generator": ("facula.Generator()", "None", "3"),
                 "memory_format": ("facula.channels_last", "facula.channels_last_3d", "facula.contiguous_format", "facula.preserve_format")}  # fmt: skip
        if kind in pools:
            return rng.choice(pools[kind])
        return rng.choice((self.strange, self.int, self.float, self.ints, self.tensor))()


class Hostile:
    def __init__(self, seed: int, avoid: str | None = None, private: bool = False):
        self.seed, self.avoid = seed, avoid and re.compile(avoid)
        tables = (call_texts.FUNCTIONAL, call_texts.MODULES, call_texts.OTHERS, *package_calls.TABLES)
        self.seeds = calls.schema_seeds() + calls.table_seeds(*tables) + calls.harvested_seeds()
        self.signatures = calls.signatures()
        if not private:  # facula._C._ops holds what derivatives are made of; their callers check the arguments
            self.seeds = [s for s in self.seeds if "_C._ops." not in s.text]
            self.signatures = [s for s in self.signatures if "_C._ops." not in s[0]]
        self.namespace: dict = {}

    def begin(self, number: int):
        facula.set_num_threads(1 + number % 2)
        facula.cpu.set_memory_limit(1 << 30)
        self.names = {k: v for k, v in vars(preamble).items() if not k.startswith("__")}
        self.names["__name__"] = "fuzzed"

    def case(self, index: int) -> str:
        rng = random.Random((self.seed << 40) + index)
        values = Values(rng)
        text = self.mutated(rng, values) if rng.random() < 0.75 else self.made(rng, values)
        return f"look({text})" if rng.random() < 0.5 else text

    def mutated(self, rng, values) -> str:
        seed = rng.choice(self.seeds)
        text = seed.text
        changes = []
        for hole in rng.sample(seed.holes, min(len(seed.holes), rng.choice((1, 1, 1, 2, 2, 3)))):
            if any(hole.start < end and start < hole.end for start, end, _ in changes):
                continue
            given = text[hole.start : hole.end]
            if hole.type in ("Tensor", "Operand") and given != "None" and not given[0].isdigit() and rng.random() < 0.65:
                given = values.wrapped(f"({given})" if hole.compound else given, text[hole.end : hole.end + 1] == ".")
            else:
                given = values.of(hole.type)
            changes.append((hole.start, hole.end, given if text[hole.end : hole.end + 1] in (",", ")") else f"({given})"))
        if seed.insert >= 0 and rng.random() < (0.25 if seed.keywords else 0.03):
            name, kind = rng.choice(seed.keywords) if seed.keywords else ("out", "out")
            gap = "" if text[seed.insert - 1] == "(" else ", "
            given = f"{gap}{name}={values.of(kind)}"
            if f"{name}=" not in text:
                changes.append((seed.insert, seed.insert, given))
        for start, end, given in sorted(changes, reverse=True):
            text = text[:start] + given + text[end:]
        return text

    def made(self, rng, values) -> str:
        name, args, has_tensor = rng.choice(self.signatures)
        parts = []
        if args:
            positional = [a for a in args if not a[2]]
            count = min(len(positional), max(0, round(rng.gauss(len(positional) * 0.7, 1.0))))
            parts = [values.of(kind) for _, kind, _ in positional[:count]]
            rest = positional[count:] + [a for a in args if a[2]]
            if rest and rng.random() < 0.4:
                for keyword, kind, _ in rng.sample(rest, min(len(rest), rng.choice((1, 1, 2)))):
                    parts.append(f"{keyword}={values.of(kind)}")
        else:
            parts = [rng.choice((values.tensor, values.int, values.strange, values.float, values.ints, values.index))() for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        if has_tensor:
            return f"({values.tensor()}).{name}({', '.join(parts)})"
        text = f"{name}({', '.join(parts)})"
        if name.startswith("nn.") and name[3:4].isupper() and rng.random() < 0.6:
            text += f"({', '.join(values.tensor() for _ in range(rng.choice((1, 1, 2, 3))))})"
        return text

    def check(self, text: str) -> str | None:
        if self.avoid and self.avoid.search(text):
            return None
        try:
            result = eval(compile(text, "case", "eval"), self.names)
            del result
        except Exception as error:
            return None if any(isinstance(error, kind) and words.search(text) for kind, words in PYTHONS_OWN) else self.judge(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # not even SystemExit may come of a call
            return f"{type(error).__name__}: {error}"
        finally:
            self.names.pop("w", None)
            self.names.pop("a", None)
            facula.set_grad_enabled(True)
        return None

    def judge(self, error: Exception) -> str | None:
        kind = type(error)
        try:
            text = str(error)
        except Exception as inner:
            return f"{kind.__name__} whose text raises {type(inner).__name__}"
        shown = f"{kind.__module__}.{kind.__name__}: {text[:600]}"
        if isinstance(error, REFUSED) or isinstance(error, NameError) or not isinstance(error, ALLOWED + (MemoryError,)):
            return shown
        if text.startswith("look: repr"):
            return shown
        if not text and not isinstance(error, (StopIteration, AssertionError, MemoryError)):
            return f"{shown}(no text)"
        if STRANGE_TEXT.search(text):
            return shown
        if len(text) > 20_000:
            return f"{shown} ... ({len(text)} characters)"
        return None

    def program(self, text: str) -> str:
        return Path(preamble.__file__).read_text() + f"\n\n{text}\n"


if __name__ == "__main__":

    def more(parser):
        parser.add_argument("--avoid", help="leave out the calls that this regular expression finds")
        parser.add_argument("--private", action="store_true", help="also the ops without a public name")

    sys.exit(runner.main(lambda options: Hostile(options.seed, options.avoid, options.private), __doc__, more))
