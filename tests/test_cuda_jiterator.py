"""Kernels around functions that programs bring as text."""

import subprocess
import sys
import textwrap

from cuda_environment import environment

BEGIN = """
import facula as t
from facula.cuda import jiterator
def close(got, wanted):
    assert got.device.type == "cuda" and got.dtype == wanted.dtype and got.shape == wanted.shape, (got, wanted)
    assert t.allclose(got.cpu(), wanted, rtol=1e-5, atol=1e-6), (got, wanted)
def refused(f, *args, **kwargs):
    try:
        f(*args, **kwargs)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
t.manual_seed(1)
"""


def run(program):
    command = [sys.executable, "-c", BEGIN + textwrap.dedent(program)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_functions_of_tensors_and_numbers():
    run(
        """
        axpy = jiterator._create_jit_fn("template <typename T> T axpy(T x, T y, T alpha) { return -x + alpha * y; }", alpha=1.0)
        assert axpy.kernel_name == "axpy"
        for shape_a, shape_b in (((3,), (3,)), ((2, 1, 5), (4, 1)), ((), (7,)), ((0, 3), (3,)), ((1000, 33), (1000, 33))):
            a, b = t.rand(shape_a), t.rand(shape_b)
            close(axpy(a.cuda(), b.cuda()), -a + b)
            close(axpy(a.cuda(), b.cuda(), alpha=3.5), -a + 3.5 * b)
        a, b = t.rand(6, 8), t.rand(8, 6)
        close(axpy(a.cuda().t()[1:, ::2], b.cuda()[1:, 1::2]), -a.t()[1:, ::2] + b[1:, 1::2])
        for da, db in ((t.float64, t.float32), (t.int32, t.float32), (t.int64, t.uint8), (t.float16, t.float16),
                       (t.bfloat16, t.int8), (t.complex64, t.float32)):
            a, b = (t.rand(5) * 9).to(da), (t.rand(5) * 9).to(db)
            wanted = -a.to(t.promote_types(da, db)) + b
            got = axpy(a.cuda(), b.cuda())
            assert got.dtype == wanted.dtype and t.allclose(got.cpu(), wanted, rtol=1e-2), (da, db)
        whole, single = t.rand(4, dtype=t.float32), t.tensor(2.0, dtype=t.float64)
        close(axpy(whole.cuda(), single.cuda()), -whole + single)  # promoted as in any op
        z = t.rand(3, dtype=t.complex64)
        close(axpy(z.cuda().conj(), z.cuda()), -z.conj() + z)
        assert not axpy(t.rand(3, device="cuda", requires_grad=True), t.rand(3, device="cuda")).requires_grad
        """
    )


def test_helpers_math_and_results_by_reference():
    run(
        """
        code = "template <typename T> T util(T x, T y) { return ::sin(x) + ::cos(y); }"
        code += "template <typename T> T entry(T x, T y, T val) { return ::min(val, util(x, y)); }"
        f = jiterator._create_jit_fn(code, val=0.0)
        a, b = t.rand(9), t.rand(9)
        close(f(a.cuda(), b.cuda()), t.clamp(a.sin() + b.cos(), max=0))
        close(f(a.cuda(), b.cuda(), val=0.9), t.clamp(a.sin() + b.cos(), max=0.9))
        gelu = jiterator._create_jit_fn("template <typename T> T gelu(T a) { return a > 0 ? a : 0; }")
        close(gelu((a - 0.5).cuda()), t.relu(a - 0.5))
        three = jiterator._create_multi_output_jit_fn(
            "template <typename T> void three(T x, T y, T k, T& s, T& d, T& p) { s = x + y; d = x - y; p = k * x * y; }",
            num_outputs=3, k=2)
        for got, wanted in zip(three(a.cuda(), b.cuda()), (a + b, a - b, 2 * a * b)):
            close(got, wanted)
        many = jiterator._create_jit_fn(
            "template <typename T> T many(T a, T b, T c, T d, T e, T f, T g, T h) { return a+b+c+d+e+f+g+h; }")
        parts = [t.rand(3, 2) for _ in range(8)]
        close(many(*(p.cuda() for p in parts)), sum(parts))
        with t.profiler.profile() as p:
            many(*(p.cuda() for p in parts))
        assert any("jiterate" in e.name for e in p.events() if e.kind == "device")
        """
    )


def test_errors():
    lines = run(
        """
        f = jiterator._create_jit_fn("template <typename T> T f(T x, T k) { return x * k; }", k=1)
        x = t.rand(3, device="cuda")
        refused(jiterator._create_jit_fn, "float f(float x) { return x; }")
        refused(f)
        refused(f, x, q=2)
        refused(f, x.cpu())
        refused(f, x, x)
        refused(f, *[x] * 9)
        refused(jiterator._create_multi_output_jit_fn, "template <typename T> void f(T x, T& y) { y = x; }", 9)
        wrong = jiterator._create_jit_fn("template <typename T> T wrong(T x) { return nothing(x); }")
        refused(wrong, x)
        close(f(x, k=2), x.cpu() * 2)
        """
    )
    starts = [
        "Exception jiterator: Couldn't parse code", "AssertionError jiterator: at most 8 tensors are possible",
        "KeyError 'jiterator: q is not declared", "RuntimeError jiterator: expected tensors of a CUDA device, got one of cpu",
        "RuntimeError", "AssertionError jiterator: at most 8", "ValueError jiterator: 1 to 8 outputs", "RuntimeError",
    ]  # fmt: skip
    assert len(lines) == len(starts) and all(line.startswith(start) for line, start in zip(lines, starts)), lines
