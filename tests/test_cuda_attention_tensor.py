"""Attention on tensor cores, on the emulated CUDA device: against its definition in double, with the kernels' own mistakes planted."""

import os
import stat
import sys

import cuda_kernels
import pytest
from cuda_environment import run_emulated

BEGIN = """
import itertools, math, random
import facula as t, facula.nn.functional as F
from facula.nn.attention import SDPBackend as B, sdpa_kernel
from cuda_stand_in import stand_in
t.manual_seed(1)
chance = random.Random(1)
attend, raw = F.scaled_dot_product_attention, t._C._ops
HALVES = t.float16, t.bfloat16
TOLERANCE = {t.float16: 4e-3, t.bfloat16: 3e-2, t.float32: 4e-6}

def draw(*sizes, dtype=t.float16):
    return t.randn(*sizes).to(dtype)

def reference(q, k, v, mask=None, is_causal=False, scale=None, kept=1.0):
    # in double, as it is defined; rows that see nothing are zero
    scores = (q * (q.size(-1) ** -0.5 if scale is None else scale)) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == t.bool else scores + mask.double()
    if is_causal:
        scores = scores.masked_fill(t.ones(scores.shape[-2:], dtype=t.bool).triu(1), -math.inf)
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    return (scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0) * kept) @ v

def near(got, want, dtype):
    assert got.shape == want.shape and got.dtype == dtype
    error = (got.detach().double().cpu() - want.detach()).abs().max().item() if want.numel() else 0
    assert error <= TOLERANCE[dtype] * max(want.abs().max().item() if want.numel() else 0, 0.3), error

def check(q, k, v, mask=None, lie=lambda x: x, **options):
    # `lie` gives a tensor of the device another layout
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    given = [lie(x.to("cuda")).detach().requires_grad_() for x in (q, k, v)]
    want = reference(*wide, mask, **options)
    with sdpa_kernel(B.FLASH_ATTENTION):
        got = attend(*given, None if mask is None else mask.to("cuda"), **options)
    grad = draw(*want.shape, dtype=q.dtype)
    want.backward(grad.double())
    got.backward(lie(grad.to("cuda")))
    for a, b in zip((got, *(x.grad for x in given)), (want, *(x.grad for x in wide))):
        near(a, b, q.dtype)
    assert stand_in.facula_emulated_bank_conflicts() == 0
"""

CASES = {
    "sizes": """
for (lq, lk), (size, wide) in zip(((1, 1), (7, 130), (33, 64), (65, 63), (130, 7), (129, 129)),
                                  ((64, 64), (128, 128), (8, 96), (40, 16), (128, 80), (96, 96))):
    for dtype in HALVES:
        for is_causal in (False, True):
            check(draw(2, 2, lq, size, dtype=dtype), draw(2, 2, lk, size, dtype=dtype), draw(2, 2, lk, wide, dtype=dtype),
                  is_causal=is_causal, scale=chance.choice((None, 0.3)))
""",
    "float32": """
def checks():
    for (lq, lk), (size, wide) in zip(((1, 7), (70, 33), (40, 70), (70, 70)), ((4, 8), (64, 60), (128, 128), (96, 32))):
        given = draw(2, 2, lq, size, dtype=t.float32), draw(2, 2, lk, size, dtype=t.float32), draw(2, 2, lk, wide, dtype=t.float32)
        check(*given, is_causal=True)
        check(*given, t.randn(lq, lk), scale=0.3)
checks()
t.backends.cuda.matmul.allow_tf32 = True
try:
    checks()
    raise SystemExit("factors were not rounded")
except AssertionError:
    TOLERANCE[t.float32] = 4e-3
checks()
t.backends.cuda.matmul.allow_tf32 = False
# an infinite score is no other than one of products: nothing is seen of such a key, and much of no other
q, k, v = (draw(1, 1, 40, 64, dtype=t.float32).abs() for _ in range(3))
k[..., 5, 3] = -math.inf
q[..., 7, 3] = 0  # NaN
with sdpa_kernel(B.FLASH_ATTENTION):
    got = attend(q.to("cuda"), k.to("cuda"), v.to("cuda")).cpu()
want = reference(q.double(), k.double(), v.double())
assert want.isnan().any(-1).flatten().tolist() == got.isnan().any(-1).flatten().tolist() == [row == 7 for row in range(40)]
assert (want - got.double()).nan_to_num().abs().max().item() < 1e-5
""",
    "masks": """
for kind, size in itertools.product(("truth", "own", "float32"), (64, 128)):
    for lq, lk in ((33, 70), (130, 65)):
        dtype = chance.choice(HALVES)
        for sizes in ((lq, lk), (2, 1, 1, lk), (1, 3, lq, 1)):
            mask = t.rand(sizes) > 0.3 if kind == "truth" else t.randn(sizes).to(dtype if kind == "own" else t.float32)
            if sizes[-2] == lq:
                mask[..., 3, :] = False if kind == "truth" else -math.inf
            check(draw(2, 3, lq, size, dtype=dtype), draw(2, 3, lk, size, dtype=dtype), draw(2, 3, lk, size, dtype=dtype), mask)
        check(draw(1, 1, lq, size), draw(1, 1, lk, size), draw(1, 1, lk, size), (t.rand(lk, lq) > 0.3).t())
# what a mask of truth hides may be NaN, but for the values
q, k, v = (draw(1, 1, 40, 64) for _ in range(3))
mask = t.ones(40, 40, dtype=t.bool)
mask[:, 5] = False
with sdpa_kernel(B.FLASH_ATTENTION):
    want = attend(q.to("cuda"), k.to("cuda"), v.to("cuda"), mask.to("cuda"))
    k[..., 5, :] = math.nan
    assert t.equal(attend(q.to("cuda"), k.to("cuda"), v.to("cuda"), mask.to("cuda")), want)
    q[..., 7, 3] = math.inf  # a row of what is not a number, and no other
    rows = attend(q.to("cuda"), k.to("cuda"), v.to("cuda"), mask.to("cuda")).isnan().all(-1).flatten().tolist()
assert rows == [row == 7 for row in range(40)]
""",
    "layouts": """
given = lambda: [draw(2, 3, 70, 64) for _ in range(3)]
turned = lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)
inside = lambda x: t.cat([x, x], -1)[..., 64:]
shifted = lambda x: t.cat([x, x], -1)[..., 3:67].copy_(x)  # rows at odd places
across = lambda x: x.transpose(-2, -1).contiguous().transpose(-2, -1)
for lie in (turned, inside, shifted, across):
    check(*given(), is_causal=True, lie=lie)
check(*(draw(70, 64) for _ in range(3)))
check(*(draw(1, 2, 2, 1, 3, 33, 64) for _ in range(3)))
q, k, v = given()
check(q, k[:1].expand(2, 3, 70, 64), v[:, :1].expand(2, 3, 70, 64))
with sdpa_kernel(B.FLASH_ATTENTION):
    x = q.to("cuda").requires_grad_()
    attend(x, k.to("cuda"), v.to("cuda")).sum().backward()  # a gradient without strides
    y = q.to("cuda").requires_grad_()
    attend(y, k.to("cuda"), v.to("cuda")).backward(t.ones(2, 3, 70, 64, device="cuda", dtype=t.float16))
    assert t.equal(x.grad, y.grad)
    out = attend(q.to("cuda"), k.to("cuda"), v.to("cuda"))
    assert out.transpose(1, 2).is_contiguous()
# longer than a block of each kind, many heads: more rows for a warp
check(draw(1, 5, 200, 128), draw(1, 5, 150, 128), draw(1, 5, 150, 128), is_causal=True)
""",
    "grouped": """
for heads, shared, size in ((6, 2, 64), (4, 4, 64), (3, 1, 128)):
    for mask in (None, t.rand(2, 1, 33, 65) > 0.3, t.rand(33, 65) > 0.3, t.randn(1, heads, 33, 65)):
        q, k, v = draw(2, heads, 33, size), draw(2, shared, 65, size), draw(2, shared, 65, size)
        wide = [x.double().requires_grad_() for x in (q, k, v)]
        given = [x.to("cuda").requires_grad_() for x in (q, k, v)]
        want = reference(wide[0], *(x.repeat_interleave(heads // shared, 1) for x in wide[1:]), mask)
        with sdpa_kernel(B.FLASH_ATTENTION):
            got = attend(*given, None if mask is None else mask.to("cuda"), enable_gqa=True)
        assert got.transpose(1, 2).is_contiguous()
        want.sum().backward()
        got.sum().backward()
        for a, b in zip((got, *(x.grad for x in given)), (want, *(x.grad for x in wide))):
            near(a, b, t.float16)
""",
    "few queries": """
for dtype, size, wide in ((t.float16, 64, 64), (t.bfloat16, 128, 128), (t.float32, 64, 40), (t.float16, 40, 96), (t.float32, 128, 128)):
    for lq, lk in ((1, 700), (5, 130), (16, 1025), (23, 333)):
        given = draw(1, 1, lq, size, dtype=dtype), draw(1, 1, lk, size, dtype=dtype), draw(1, 1, lk, wide, dtype=dtype)
        truth = t.rand(lq, lk) > 0.3
        truth[0] = False  # a row that sees nothing
        truth[-1, :600] = lk <= 600  # parts of the keys of which a row sees nothing
        mask = chance.choice((None, truth, t.randn(lq, lk), t.randn(lk).to(dtype)))
        check(*given, mask, scale=chance.choice((None, 0.3)))
# keys that blocks divide, which the small emulated device only does where a head has few columns
for dtype, size in ((t.float16, 32), (t.bfloat16, 32), (t.float32, 16)):
    for lq in (1, 9, 23):
        truth = t.rand(lq, 2000) > 0.3
        truth[-1, :1500] = False
        for mask in (None, truth):
            check(*(draw(1, 1, length, size, dtype=dtype) for length in (lq, 2000, 2000)), mask)
# many heads, whose keys are not divided
check(draw(2, 3, 3, 64), draw(2, 3, 200, 64), draw(2, 3, 200, 64))
turned = lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)
check(draw(1, 2, 3, 64), draw(1, 2, 500, 64), draw(1, 2, 500, 64), t.rand(1, 2, 1, 500) > 0.5, lie=turned)
# what a mask of truth hides may be NaN, but for the values, and rows of what is not a number are alone
for dtype in (t.float16, t.float32):
    q, k, v = draw(1, 1, 9, 64, dtype=dtype), draw(1, 1, 400, 64, dtype=dtype), draw(1, 1, 400, 64, dtype=dtype)
    mask = t.ones(9, 400, dtype=t.bool)
    mask[:, 205] = False
    with sdpa_kernel(B.FLASH_ATTENTION):
        want = attend(q.to("cuda"), k.to("cuda"), v.to("cuda"), mask.to("cuda"))
        k[..., 205, :] = math.nan
        assert t.equal(attend(q.to("cuda"), k.to("cuda"), v.to("cuda"), mask.to("cuda")), want)
        q[..., 7, 3] = math.inf
        rows = attend(q.to("cuda"), k.to("cuda"), v.to("cuda"), mask.to("cuda")).isnan().all(-1).flatten().tolist()
    assert rows == [row == 7 for row in range(9)]
""",
    "few queries of many heads": """
# heads that share keys and values become rows of one
for heads, shared, lq, dtype in ((8, 2, 1, t.bfloat16), (6, 2, 3, t.float16), (4, 1, 5, t.float32), (12, 2, 4, t.float16)):
    truth = t.rand(2, 1, lq, 300) > 0.3
    for mask in (None, truth, truth[:1, :, :1], t.randn(1, heads, lq, 300), t.randn(2, heads, 1, 300).to(dtype)):
        for turn in (False, True):
            q, k, v = draw(2, heads, lq, 64, dtype=dtype), draw(2, shared, 300, 64, dtype=dtype), draw(2, shared, 300, 64, dtype=dtype)
            wide = [x.double().requires_grad_() for x in (q, k, v)]
            there = [x.to("cuda") for x in (q, k, v)]
            if turn:
                there = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in there]
            there = [x.requires_grad_() for x in there]
            want = reference(wide[0], *(x.repeat_interleave(heads // shared, 1) for x in wide[1:]), mask)
            with sdpa_kernel(B.FLASH_ATTENTION):
                got = attend(*there, None if mask is None else mask.to("cuda"), enable_gqa=True)
            want.sum().backward()
            got.sum().backward()
            for a, b in zip((got, *(x.grad for x in there)), (want, *(x.grad for x in wide))):
                near(a, b, dtype)
""",
    "dropout": """
for dtype, (lq, lk), size, mask in ((t.float16, (33, 70), 64, None), (t.bfloat16, (130, 65), 128, None),
                                    (t.float16, (65, 64), 96, t.rand(65, 64) > 0.3)):
    q, k, v = (draw(2, 2, length, size, dtype=dtype) for length in (lq, lk, lk))
    seed = t.tensor([7])
    kept = raw._attention_kept(t.empty(2, 2, lq, lk), seed, 0.3).double()  # on the CPU
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    want = reference(*wide, mask, kept=kept)
    given = [x.to("cuda") for x in (q, k, v)]
    options = None if mask is None else mask.to("cuda"), seed.to("cuda")
    out, sums = raw._attention(*given, *options, 0.3, False, size**-0.5)
    near(out, want, dtype)
    grad = draw(*out.shape, dtype=dtype)
    want.backward(grad.double())
    found = raw._attention_backward(grad.to("cuda"), *given, *options, out, sums, 0.3, False, size**-0.5)
    for a, b in zip(found, wide):
        near(a, b.grad, dtype)
""",
    "sums": """
q, k, v = draw(2, 70, 64), draw(2, 50, 64), draw(2, 50, 64)
scores = q.double() @ k.double().transpose(-2, -1) / 8
_, sums = raw._attention(q.to("cuda"), k.to("cuda"), v.to("cuda"), None, None, 0.0, False, 0.125)
assert sums.dtype == t.float32 and (sums.cpu().double() - scores.logsumexp(-1)).abs().max().item() < 1e-5
mask = t.randn(70, 50)
mask[4] = -math.inf
_, sums = raw._attention(q.to("cuda"), k.to("cuda"), v.to("cuda"), mask.to("cuda"), None, 0.0, False, 0.125)
want = (scores + mask.double()).logsumexp(-1)
want[:, 4] = math.inf  # weights of a row that sees nothing are zero
assert t.allclose(sums.cpu().double(), want, atol=1e-5)
""",
}


@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("case", CASES)
def test_tensor_cores(case, order):
    run_emulated(BEGIN + CASES[case], FACULA_EMULATED_ORDER=order, FACULA_CUDA_DISABLE="cublas,cudnn")


def test_keys_are_divided_where_few_queries_meet_many():
    """Of few queries, of no causal ones and without dropout; queries of heads that share keys are counted together."""
    program = """
def ask(heads, shared, lq, lk, **options):
    attend(*(t.empty(1, h, l, 64, dtype=t.float16, device="cuda") for h, l in ((heads, lq), (shared, lk), (shared, lk))), **options)
"""
    calls = {
        "ask(2, 2, 1, 2000)": (True, 1), "ask(2, 2, 16, 2000)": (True, 1), "ask(2, 2, 17, 2000)": (True, 2),
        "ask(40, 2, 1, 2000, enable_gqa=True)": (True, 2), "ask(2, 2, 100, 2000)": (False, 2),
        "ask(2, 2, 1, 2000, is_causal=True)": (False, 1), "ask(2, 2, 1, 2000, dropout_p=0.5)": (False, 1),
    }  # fmt: skip
    for call, (is_divided, groups) in calls.items():
        found = cuda_kernels.listed([sys.executable, "-c", BEGIN + program + call], FACULA_CUDA_DISABLE="cublas,cudnn")
        names = [kernel[1] for kernel in found if "tensor_attention" in kernel[1]]
        wanted = f"tensor_attention{'_parts' * is_divided}<facula::cuda::Float16, 8, {groups}, 0"
        assert len(names) == 1 and names[0].startswith(f"facula::cuda::{wanted}"), (call, names)


def test_results_are_the_same_bits_each_time():
    program = """
import hashlib
q, k, v = (draw(2, 2, 150, 64).to("cuda").requires_grad_() for _ in range(3))
with sdpa_kernel(B.FLASH_ATTENTION):
    out = attend(q, k, v, is_causal=True)
    few = attend(q[:1, :1, :5], k[:, :1].reshape(1, 1, 300, 64), v[:, :1].reshape(1, 1, 300, 64))
out.backward(t.ones_like(out))
print(hashlib.sha256(b"".join(x.detach().cpu().numpy().tobytes() for x in (out, few, q.grad, k.grad, v.grad))).hexdigest())
"""
    found = {run_emulated(BEGIN + program, FACULA_EMULATED_ORDER=order).stdout for order in ("forward", "reverse", "random")}
    assert len(found) == 1


def test_what_has_no_tensor_cores():
    """Older devices, other sizes of heads, wider dtypes and factors that are not positive have the general kernel."""
    sizes = """
for dtype in (t.float16, t.float32):
    mask = t.randn(33, 40).to(dtype)
    check(draw(1, 2, 33, 64, dtype=dtype), draw(1, 2, 40, 64, dtype=dtype), draw(1, 2, 40, 64, dtype=dtype), mask)
"""
    run_emulated(BEGIN + sizes, FACULA_EMULATED_CAPABILITY="7.5", FACULA_CUDA_DISABLE="cublas,cudnn")
    program = """
TOLERANCE[t.float64] = 1e-12
for dtype, size, scale in ((t.float16, 20, None), (t.bfloat16, 136, None), (t.float32, 6, None), (t.float64, 64, None),
                           (t.float16, 64, -0.1), (t.float32, 64, 0.0)):
    mask = None if dtype == t.float64 else t.randn(2, 1, 33, 40).to(dtype)
    check(*(draw(2, 2, length, size, dtype=dtype) for length in (33, 40, 40)), mask, scale=scale)
"""
    run_emulated(BEGIN + program, FACULA_CUDA_DISABLE="cublas,cudnn")


def test_the_faster_way_is_chosen():
    """Large heads have no tensor cores in one pass: ops are faster, where memory has room for their scores."""
    program = """
def ways(length, size, dtype, **options):
    q, k, v = (draw(1, 4, length, size, dtype=dtype).to("cuda").requires_grad_() for _ in range(3))
    return attend(q, k, v, **options).grad_fn.name().startswith("ScaledDotProductAttention")
print(ways(8, 256, t.float32), ways(256, 256, t.float32), ways(256, 64, t.float32), ways(256, 64, t.float16))
"""
    found = [run_emulated(BEGIN + program, FACULA_CUDA_DISABLE="cublas,cudnn", FACULA_EMULATED_MEMORY_MIB=memory).stdout.split()
             for memory in ("4096", "64")]  # fmt: skip
    assert found == [["True", "False", "True", "True"], ["True", "True", "True", "True"]]


#: what: (expression of sed, which parts are wrong)
MISTAKES = {
    "nothing": ("", ()),
    "a copy is not waited for": ("s/^    copies_wait<0>();$//", ("out", "query", "key", "value")),
    "the block does not meet": (r"s/__syncthreads();  \/\/ the tile is there.*//", ("out", "query", "key", "value")),
    "numbers of a tile are those of another": ("s/of_tiles.write(tile + 1, next)/of_tiles.write(tile, next)/", ("key", "value")),
    "a tile is fetched into the one in use": ("s/fetch(tile + 1)/fetch(tile + 2)/", ("out", "query", "key", "value")),
}
PLANTED = """
q, k, v = (draw(1, 2, 200, 64) for _ in range(3))
wide = [x.double().requires_grad_() for x in (q, k, v)]
given = [x.to("cuda").requires_grad_() for x in (q, k, v)]
want = reference(*wide)
with sdpa_kernel(B.FLASH_ATTENTION):
    got = attend(*given)
want.sum().backward()
got.sum().backward()
for what, a, b in zip(("out", "query", "key", "value"), (got, *(x.grad for x in given)), (want, *(x.grad for x in wide))):
    try:
        near(a, b, t.float16)
    except AssertionError:
        print(what)
"""


#: the same of keys in parts
MISTAKES_OF_PARTS = {
    "nothing": ("", ()),
    "a copy is not waited for": ("s/^    copies_wait<0>();$//", ("out",)),
    "the block does not meet": (r"s/__syncthreads();  \/\/ the tile is there.*//", ("out",)),
    "a tile is fetched into the one in use": ("s/fetch(tile + 1)/fetch(tile + 2)/", ("out",)),
    "the first block puts together what is not there": ("s/!is_last_block(p.tickets + at, UInt32(p.parts))/part != 0/", ("out",)),
    "parts are added up as if rows had the same base": ("s/= exp2_of(mine.k..largest - base_of(most));/= 1;/", ("out",)),
}
PLANTED_IN_PARTS = """
q, k, v = draw(1, 1, 9, 32), 3 * draw(1, 1, 2000, 32), draw(1, 1, 2000, 32)  # blocks divide the keys
with sdpa_kernel(B.FLASH_ATTENTION):
    got = attend(*(x.to("cuda") for x in (q, k, v)))
try:
    near(got, reference(q.double(), k.double(), v.double()), t.float16)
except AssertionError:
    print("out")
"""


@pytest.mark.parametrize(
    ("program", "change", "wrong"),
    [pytest.param(PLANTED, *rest, id=name) for name, rest in MISTAKES.items()]
    + [pytest.param(PLANTED_IN_PARTS, *rest, id=f"in parts, {name}") for name, rest in MISTAKES_OF_PARTS.items()],
)
def test_mistakes_in_the_kernels_are_found(program, change, wrong, tmp_path):
    """A compiler that changes the kernels before it compiles them."""
    compiler = tmp_path / "compiler"
    compiler.write_text(f"""#!/bin/sh
for each in "$@"; do
  case $each in -I*) sed -i -e '{change}' "${{each#-I}}"/attention_tensor*.cuh ;; esac
done
exec {os.environ.get("CXX", "c++")} "$@"
""")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    done = run_emulated(BEGIN + program, CXX=str(compiler), FACULA_CACHE_DIR=str(tmp_path))
    assert tuple(done.stdout.split()) == wrong
