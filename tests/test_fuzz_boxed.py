"""Ops of the boxed table with arguments that do not belong together: a round of tests/fuzz/boxed.py, and what it found.

The long round is a command, see there.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from test_fuzz_hostile import CASES, TESTS, run_round

import facula


def run(program):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")]))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=TESTS)


@pytest.mark.slow
def test_a_round_of_calls_by_name():
    result = run_round("boxed", CASES, 1)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-3000:]


def test_nearly_every_op_has_a_call_that_works():
    program = "import json\nfrom fuzz import boxed\nf = boxed.Boxed(0)\nprint(json.dumps([k for k in f.table if k not in f.by_key]))"
    result = run(program)
    missing = result.stdout.strip().strip("[]").split(", ")
    assert result.returncode == 0 and len(missing) < 50, result.stdout + result.stderr


PAGES = """
import ctypes, facula
facula._C._guard_pages(True)
t = facula.ones(5)
facula._C._guard_pages(False)
assert t.add(1).tolist() == [2] * 5
{}
print("went on")
"""


@pytest.mark.parametrize(
    ("access", "status"),
    [
        ("ctypes.string_at(t.data_ptr() + 19, 1)", 0),
        ("ctypes.string_at(t.data_ptr() + 20, 1)", -11),
        ("ctypes.string_at(t.data_ptr() - 4096, 1)", -11),
        ("p = t.data_ptr(); del t; ctypes.string_at(p, 1)", -11),
        ("ctypes.memset(t.data_ptr() - 1, 0, 1); del t", -6),
    ],
)
def test_guard_pages_end_a_process_that_leaves_its_tensors(access, status):
    result = run(PAGES.format(access))
    assert result.returncode == status, result.stderr
    assert (result.stdout == "went on\n") == (status == 0)


#: what crashed, or wrote where it must not
FOUND = """
embedding_dense_backward.default(x(2, 3), k(4), 5, -1, False)
embedding_dense_backward.default(x(), k(1), 5, -1, False)
_nll_backward.default(x(3), [3, 4, 1], k(3, 1) + 2**31, None, x(), 0, -100)
_cross_entropy_backward.default(x(3), x(3, 4, 1), k(3, 1) + 2**31, None, x(), x(3, 1), 0, -100, 0.0)
_cross_entropy_backward.default(x(3), x(3, 4, 1), k(3, 1) - 5, None, x(), x(3, 1), 0, -100, 0.0)
_class_weights.default(k(3, 1, 1), None, 4, -100, 0.0, facula.float32)
_class_weights.default(k(3, 1).int(), None, 4, -100, 0.0, facula.float32)
_class_weights.default(k(3, 1), x(2), 4, -100, 0.0, facula.float32)
_ctc.default(x(6, 2), k(2, 3) + 1, [6, 5], [3, 2], 0, False)
_ctc.default(x(6, 2, 4), k(), [6, 5], [3, 2], 0, False)
_ctc_backward.default(x(1), x(6, 2, 4), k(2, 3) + 1, [6, 5], [3, 2], x(2), x(2, 6, 7), 0, False)
_ctc_backward.default(x(2), x(6, 2, 4), k(2, 3) + 1, [6, 5], [3, 2], x(2), x(2, 6, 3), 0, False)
_ctc_backward.default(x(2), x(6, 2, 4), k(2, 3) + 1, [6, 5], [3, 2], x(2).double(), x(2, 6, 7), 0, False)
_cross.default(x(3, 4), x(3), 0)
_cross.default(x(4, 4), x(4, 4), 0)
_cross.default(x(), x(), 0)
_lu_permutation.default(k(1, dtype=facula.uint8), 3, facula.float32)
_lu_permutation.default(k(), 3, facula.float32)
_channel_norm_backward.default(x(3, 4), x(4, 3), None, x(3), x(3), True, True, True, True)
_channel_norm.default(x(4, 3), None, None, x(3, 1), x(3, 1), True, 0.1, 1e-5)
_attention_kept.default(x(2, 3, 4).bfloat16(), facula.tensor([3]), 0.5)
_fft_real.default(x(4, 0), [1], 1.0, True)
_nonzero_pattern.default(x(4, 6), facula.sparse_bsr, [], 2, 0)
int_floordiv.default(-2**63, -1)
int_floordiv.default(0, 0)
slice_copy.Tensor(x(*[1] * 9).to_sparse_bsr((1, 1)), -10, None, 7, 4)
""".strip().splitlines()
CALLS = """
import sys
from fuzz.preamble import *
class Op:
    def __init__(self, name):
        self.name = name
    def __getattr__(self, overload):
        return lambda *values: facula._C._boxed_call(f"{self.name}.{overload}", values)
facula._C._guard_pages(True)
for line in sys.stdin.read().splitlines():
    name = line.split(".")[0]
    print(line, flush=True)
    try:
        eval(line, {**globals(), name: Op(name)})
    except Exception as error:
        print("   ", type(error).__name__, error, flush=True)
    else:
        sys.exit("nothing was raised")
"""


def test_what_was_found_raises():
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")]))
    result = subprocess.run([sys.executable, "-c", CALLS], input="\n".join(FOUND), capture_output=True, text=True, env=environment, cwd=TESTS)
    assert result.returncode == 0, result.stdout + result.stderr


#: sizes whose sums and products do not fit: the op says so, not the tensor that it makes of what is left of them
OVERFLOWING = [
    ("_row_norm_backward.default", lambda: (facula.ones(6, 4), facula.ones(6, 4), None, facula.ones(6), facula.ones(6), 2**63 - 1, 1, True, True, False, False), "rows of whole channels"),
    ("_upsample_bilinear2d_aa.default", lambda: (facula.ones(2, 3, 1, 1).expand(2, 3, 1, 2**58), [7, 6], False, None), "must fit in 64 bits|cannot get"),
    ("upsample_nearest2d.default", lambda: (facula.ones(1, 1, 3, 3), None, [1e300, 1.0]), "^upsample_nearest2d: an output size must fit in 64 bits"),
    ("linalg_vander.default", lambda: (facula.ones(3), 2**62), "must fit in 64 bits"),
    ("native_group_norm.default", lambda: (facula.ones(0), None, None, 2**62, 4, 1, 1, 1e-5), "^native_group_norm: expected an input of 4611686018427387904"),
    ("native_group_norm.default", lambda: (facula.ones(12), None, None, -3, -4, 1, 1, 1e-5), "^native_group_norm: expected an input of -3"),
    ("to_sparse_csr.default", lambda: (facula.ones(3, 4), 2**63 - 1), "^to_sparse_csr: dense_dim must leave two dimensions or more of 2"),
    ("histogram.default", lambda: (facula.ones(3), 2**63 - 1), "^histogram: the number of edges must fit in 64 bits"),
]


@pytest.mark.parametrize(("key", "arguments", "words"), OVERFLOWING)
def test_sizes_that_do_not_fit_are_refused_by_the_op(key, arguments, words):
    with pytest.raises(RuntimeError, match=words):
        facula._C._boxed_call(key, arguments())


POSITIONS = """
import itertools, facula
facula._C._guard_pages(True)
image = facula.arange(25).reshape(1, 1, 5, 5).to(facula.uint8)
for mode, scale, antialias in itertools.product(("nearest", "nearest-exact", "linear", "cubic"), (1e-320, 1e-30, 1e300), (False, True)):
    for op in ("resample", "resample_transpose") if not (antialias and "near" in mode) else ():
        facula._C._boxed_call(op + ".default", (image, [7, 6], mode, False, [scale] * 2, antialias))
"""


def test_positions_that_are_no_numbers_stay_within_the_input():
    result = run(POSITIONS)
    assert result.returncode == 0, result.stderr


def test_powers_of_nothing_are_not_counted_up_to():
    scores = facula.zeros(1, 1, 0).expand(2**62, 2**62, 0)
    loss = facula.nn.functional.cross_entropy(scores, facula.zeros(1, 0, dtype=facula.int64).expand(2**62, 0), reduction="sum")
    assert loss == 0
    assert facula.linalg.vander(facula.ones(2, 0), N=2**62).shape == (2, 0, 2**62)


def test_layouts_of_long_lists_are_not_all_told():
    with pytest.raises(NotImplementedError, match="got layouts torch.strided, .*[.][.][.]$") as raised:
        facula.ones(3).index_put_([facula.ones(1)] * 70000, facula.ones(2).to_sparse())
    assert len(str(raised.value)) < 1000


def test_differences_of_counts_that_do_not_fit():
    assert facula.cov(facula.arange(12.0).reshape(3, 4), correction=-(2**63)).isfinite().all()


#: (what is wrong with the call itself, status by its exception, words of its text)
LIES = [
    ("", "none", ""),
    ("kind", "ValueError", "no value has the kind"),
    ("null", "ValueError|TypeError", "NULL"),
    ("fewer", "TypeError", "is missing"),
    ("default", "TypeError", "is missing"),
    ("more", "TypeError", "takes 2 arguments, got 3"),
    ("room", "ValueError", "gives 1 results, got room for 2"),
    ("no_results", "ValueError", "gives 1 results, got room for 0"),
]
BY_C = """
import sys
from fuzz.preamble import *
from fuzz import by_c
calls = by_c.CCalls()
for lie in sys.argv[1:]:
    try:
        calls["mm.default", lie, True](lambda: (x(2, 3).requires_grad_(), x(3, 4)))
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("none")
"""


def test_calls_through_the_c_interface():
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-c", BY_C, *(lie for lie, _, _ in LIES)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS)
    assert result.returncode == 0, result.stderr
    for (lie, kinds, words), line in zip(LIES, result.stdout.splitlines(), strict=True):
        kind, _, text = line.partition(" ")
        assert kind in kinds.split("|") and words in text, (lie, line)


ZERO_DIMENSIONS = """
x.select(0, 0)
x.sum(0)
facula.sparse.sum(x, 0)
facula.cat([x, x])
x.index_select(0, facula.tensor([0]))
facula.sparse.softmax(x, 0)
facula.sparse.log_softmax(x, -1)
""".strip().splitlines()


@pytest.mark.parametrize("call", ZERO_DIMENSIONS)
def test_sparse_tensors_without_dimensions_have_no_dimension_0(call):
    program = f"import facula\nx = facula.tensor(2.0).to_sparse()\ntry:\n    {call}\nexcept IndexError as error:\n    print(error)\nelse:\n    raise SystemExit(1)"
    result = run(program)
    assert result.returncode == 0 and "dim" in result.stdout, result.stderr
