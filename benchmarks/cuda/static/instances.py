"""Define calls of ops, each of which launches one kernel whose machine code is analyzed, and the memory traffic of one
element.

`read` and `write` are bytes of DRAM for an element; `asked` bytes that the loop loads for it, with those that caches give.
What the code does not show stands in `hints`, `sectors` (the share of what DRAM moves that is used) and `conflicts` (of
banks). `goal` is the most instructions of an element and the least bytes in flight of a thread on sm_90 that the kernel is
meant to reach.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .sass import Hints

PROLOGUE = """
import facula as t
import facula.nn.functional as F
B, H = t.bfloat16, t.float16
def f(*shape, dtype=t.float32): return t.empty(*shape, dtype=dtype, device="cuda")
def b(*shape): return f(*shape, dtype=B)
def h(*shape): return f(*shape, dtype=H)
def i(*shape): return t.zeros(*shape, dtype=t.int64, device="cuda")
def with_tf32(call):
    t.backends.cuda.matmul.allow_tf32 = True
    call()
    t.backends.cuda.matmul.allow_tf32 = False
def without_tf32(call):
    t.backends.cudnn.allow_tf32 = False
    call()
    t.backends.cudnn.allow_tf32 = True
"""

LAST = "b(64, 64, 56, 56).contiguous(memory_format=t.channels_last)"


@dataclass
class Instance:
    name: str
    call: str
    read: float
    write: float
    kernel: str = ""  # a part of the kernel's name, where the call launches others too
    hints: Hints = field(default_factory=Hints)
    per_turn: float = 0  # elements of a turn of a thread; 0: by what it stores, or loads
    asked: float = 0
    sectors: float = 1.0
    conflicts: float = 1.0
    shared: int = 0  # dynamic, bytes of a block
    product: float = 0  # useful products for each that the code has, where arithmetic is the limit
    tensor: bool = False  # the share is that of the tensor cores also where none is used
    tf32: bool = False
    goal: tuple[float, float] | None = None
    measured: str = ""  # part and row of benchmarks/cuda/everything.py


def flat(name: str, call: str, read: float, write: float, **more) -> Instance:
    return Instance(name, call, read, write, kernel="pointwise", **more)


def laid(name: str, call: str, read: float, write: int, loads: list[int], per_turn: int, **more) -> Instance:
    """Describe operands that lie in their own ways: `loads` are the bytes of each load of a thread, which makes so many
    elements; what is left over of a vector is another way through the kernel."""
    hints = Hints("none", want=(loads, per_turn * write))
    return Instance(name, call, read, write, kernel="pointwise_strided", hints=hints, per_turn=per_turn, **more)


def transpose(name: str, call: str, bytes: int, per_turn: int, **more) -> Instance:
    hints = Hints("none")
    return Instance(name, call, bytes, bytes, kernel="transpose", hints=hints, per_turn=per_turn, **more)


def tensor_product(name: str, call: str, bytes: float = 4, product: float = 1, size: int = 8,
                   kernel: str = "product_by_tensor_cores", **more) -> Instance:  # fmt: skip
    shared = 512 * (16 * size + 8)
    return Instance(name, call, bytes, 0, kernel, product=product, tensor=True, tf32=bytes == 4, shared=shared, **more)


def whole(loop: str = "outer", **more) -> Hints:
    return Hints(loop, **more)


def attention(dtype: str, make: str) -> list[Instance]:
    """Describe attention on tensor cores; backwards a pass for the query, and one for key and value."""
    names = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
    forward = "F.scaled_dot_product_attention(*[{make}(4, 16, 2048, {size}) for _ in range(3)])"
    backward = ("x = [{make}(4, 16, 2048, {size}).requires_grad_() for _ in range(3)]; "
                "F.scaled_dot_product_attention(*x).backward({make}(4, 16, 2048, {size}))")  # fmt: skip
    rows = [
        (64, "", forward, "tensor_attention<", 49152, (12.5, 128)),
        (128, "", forward, "tensor_attention<", 65536, (12.5, 128)),
        (64, " backward query", backward, "8, 2, 0, 0, 0, 0>", 50176, (15, 64)),
        (64, " backward key", backward, "8, 2, 1, 0, 0, 0>", 50176, (16, 64)),
        (128, " backward query", backward, "16, 2, 0, 0, 0, 0>", 82432, (15, 64)),
        (128, " backward key", backward, "16, 1, 1, 0, 0, 0>", 66560, (9.5, 128)),
    ]
    more = {"product": 1.0, "tensor": True}
    if dtype == "f32":  # each product is three
        rows = [
            (64, "", forward, "tensor_attention<", 49152, (46, 128)),
            (128, "", forward, "tensor_attention<", 65536, (50, 128)),
            (64, " backward query", backward, "8, 1, 0, 0, 0, 1>", 66560, (62, 128)),
            (64, " backward key", backward, "8, 1, 1, 0, 0, 1>", 66560, (78, 128)),
        ]
        more = {"product": 1 / 3, "tensor": True, "tf32": True}
    return [Instance(f"attention{what} {dtype} d={size}", call.format(make=make, size=size), 4 if dtype == "f32" else 2, 0,
                     kernel=kernel, shared=shared, goal=goal,
                     measured="" if what else f"attention/4x16x2048x{size} {names[dtype]}", **more)
            for size, what, call, kernel, shared, goal in rows]  # fmt: skip


def few_queries(name: str, dtype: str, size: int, queries: str, heads: int, bytes: int) -> Instance:
    """Describe attention of few queries: what counts is how fast keys and values are read, of which an element is one."""
    keys = f"{dtype}(1, {heads}, 4096, {size})"
    call = f"F.scaled_dot_product_attention({dtype}({queries}, {size}), {keys}, {keys}, enable_gqa=True)"
    return Instance(name, call, bytes, 0, kernel="tensor_attention_parts<", shared=288 * size * bytes, asked=bytes)


INSTANCES = [
    # element-wise
    flat("add f32", "f(1024, 1024) + f(1024, 1024)", 8, 4, measured="bandwidth/add float32"),
    flat("add bf16", "b(1024, 1024) + b(1024, 1024)", 4, 2, goal=(9, 32), measured="bandwidth/add bfloat16"),
    flat("add f16", "h(1024, 1024) + h(1024, 1024)", 4, 2, hints=Hints(dearest=True), goal=(8, 32)),
    flat("relu f32", "t.relu(f(1024, 1024))", 4, 4, measured="bandwidth/relu float32"),
    flat("exp f32", "t.exp(f(1024, 1024))", 4, 4, measured="bandwidth/exp float32"),
    flat("exp bf16", "t.exp(b(1024, 1024))", 2, 2, goal=(13, 16), measured="bandwidth/exp bfloat16"),
    flat("gelu f32", "F.gelu(f(1024, 1024))", 4, 4, measured="bandwidth/gelu float32"),
    flat("gelu bf16", "F.gelu(b(1024, 1024))", 2, 2, goal=(28, 16), measured="bandwidth/gelu bfloat16"),
    flat("tanh bf16", "t.tanh(b(1024, 1024))", 2, 2, goal=(20, 16)),
    flat("sigmoid bf16", "t.sigmoid(b(1024, 1024))", 2, 2, goal=(20, 16)),
    flat("cast f32 to bf16", "f(1024, 1024).to(B)", 4, 2, goal=(9, 32)),
    flat("cast f32 to f16", "f(1024, 1024).to(H)", 4, 2, hints=Hints(dearest=True), goal=(9, 32)),
    flat("cast f16 to f32", "h(1024, 1024).float()", 2, 4, goal=(9, 16)),
    laid("add row f32", "f(1024, 1024) + f(1024)", 4, 4, [16] * 4, 8, goal=(9, 32), measured="bandwidth/add row float32"),
    laid("add row bf16", "b(1024, 1024) + b(1024)", 2, 2, [16] * 4, 16, goal=(9, 32), measured="bandwidth/add row bfloat16"),
    laid("add row f32, odd", "f(1024, 1023) + f(1023)", 4, 4, [4] * 8, 4, goal=(30, 32)),
    laid("add column f32", "f(1024, 1024) + f(1024, 1)", 4, 4, [16, 16, 4, 4], 8, goal=(9, 32)),
    laid("add column bf16", "b(1024, 1024) + b(1024, 1)", 2, 2, [16, 16, 2, 2], 16, goal=(9, 32)),
    laid("add channel f32", "f(64, 64, 56, 56) + f(64, 1, 1)", 4, 4, [16, 16, 4, 4], 8, goal=(12, 32)),
    laid("mixed f32 + bf16", "f(1024, 1024) + b(1024, 1024)", 6, 4, [16] * 3, 8, goal=(9, 32)),
    laid("where f32", "t.where(f(1024, 1024) > 0, f(1024, 1024), f(1024, 1024))", 9, 4, [16] * 4 + [8], 8, goal=(9, 32)),
    laid("part of rows bf16", "b(1024, 2048)[:, :1024].contiguous()", 2, 2, [16, 16], 16, goal=(9, 32)),
    laid("any strides f32", "f(8, 32, 64, 64)[..., ::2, ::2] + f(32, 8, 64, 64).transpose(0, 1)[..., ::2, ::2]", 8, 4, [4] * 8,
         4, goal=(60, 32)),
    transpose("transpose f32", "f(1024, 1024).t().contiguous()", 4, 16, goal=(14, 32),
              measured="bandwidth/transpose float32"),
    transpose("transpose bf16", "b(1024, 1024).t().contiguous()", 2, 16, goal=(10, 32),
              measured="bandwidth/transpose bfloat16"),
    transpose("transpose u8", "t.empty(1024, 1024, dtype=t.uint8, device='cuda').t().contiguous()", 1, 64, goal=(10, 32)),
    transpose("transpose f64", "f(1024, 1024, dtype=t.float64).t().contiguous()", 8, 4, goal=(24, 32)),
    transpose("transpose c128", "f(1024, 1024, dtype=t.complex128).t().contiguous()", 16, 4, goal=(28, 32)),
    transpose("transpose f32, odd", "f(1023, 1023).t().contiguous()", 4, 16, goal=(14, 32)),
    # folds
    Instance("sum of all f32", "f(4096, 1024).sum()", 4, 0, asked=4, goal=(6, 64), measured="bandwidth/sum float32"),
    Instance("sum of all bf16", "b(4096, 1024).sum()", 2, 0, asked=2, goal=(6, 64), measured="bandwidth/sum bfloat16"),
    Instance("sum of rows f32", "f(4096, 1024).sum(1)", 4, 0, asked=4, goal=(6, 64), measured="bandwidth/sum of rows float32"),
    Instance("sum of columns f32", "f(4096, 1024).sum(0)", 4, 0, asked=4, goal=(6, 32),
             measured="bandwidth/sum of columns float32"),
    Instance("sum of columns bf16", "b(4096, 1024).sum(0)", 2, 0, asked=2, goal=(6, 32)),
    Instance("sum of images f32", "f(64, 64, 56, 56).sum((0, 2, 3))", 4, 0, asked=4, goal=(6, 64)),
    Instance("sum of rows at odd addresses f32", "f(4096, 1025)[:, 1:].sum(1)", 4, 0, asked=4, goal=(6, 64)),
    Instance("sum i8", "f(4096, 1024).to(t.int8).sum()", 1, 0, kernel="fold", asked=1, goal=(6, 64)),
    Instance("amax f32", "f(4096, 1024).amax(1)", 4, 0, asked=4, goal=(6, 64)),
    Instance("argmax of rows f32", "f(4096, 1024).argmax(1)", 4, 0, asked=4, goal=(8, 64)),
    Instance("argmax of rows bf16", "b(4096, 1024).argmax(1)", 2, 0, asked=2, goal=(8, 64)),
    Instance("variance of all f32", "f(4096, 1024).var()", 4, 0, asked=4, goal=(6, 64)),
    Instance("variance of rows f32", "f(4096, 1024).var(1)", 4, 0, asked=4, goal=(8, 64)),
    Instance("variance of rows bf16", "b(4096, 1024).std(1)", 2, 0, asked=2, goal=(8, 64)),
    Instance("variance of columns f32", "f(4096, 1024).var(0)", 4, 0, asked=4, goal=(8, 32)),
    Instance("cumsum of rows f32", "f(4096, 1024).cumsum(1)", 4, 4, kernel="scan<", asked=4, goal=(14, 64)),
    Instance("cumsum of rows bf16", "b(4096, 1024).cumsum(1)", 2, 2, kernel="scan<", asked=2, goal=(14, 32)),
    Instance("cumsum of columns f32", "f(4096, 1024).cumsum(0)", 4, 4, kernel="scan<", asked=4, goal=(14, 32)),
    Instance("cumsum of one line f32", "f(1 << 22).cumsum(0)", 4, 4, kernel="scan<", asked=4, goal=(14, 64)),
    Instance("totals of one line f32", "f(1 << 22).cumsum(0)", 4, 0, kernel="scan_totals<", asked=4, goal=(6, 64)),
    Instance("cummax of rows f32", "f(4096, 1024).cummax(1)", 4, 12, kernel="scan<", asked=4, goal=(66, 32)),
    Instance("logcumsumexp of rows f32", "f(4096, 1024).logcumsumexp(1)", 4, 4, kernel="scan<", asked=4),
    Instance("histc f32", "f(1 << 22).histc(100, 0, 1)", 4, 0, kernel="histc", asked=4, goal=(30, 64)),
    Instance("bincount", "t.bincount(i(1 << 22), minlength=100)", 8, 0, kernel="count_integers", asked=8, goal=(20, 64)),
    # rows
    Instance("softmax f32 n=1024", "F.softmax(f(4096, 1024), 1)", 4, 4, hints=whole(), per_turn=32, goal=(14, 64),
             measured="bandwidth/softmax float32"),
    Instance("softmax bf16 n=1024", "F.softmax(b(4096, 1024), 1)", 2, 2, hints=whole(), per_turn=32, goal=(14, 32),
             measured="bandwidth/softmax bfloat16"),
    Instance("softmax bf16 n=512", "F.softmax(b(4096, 512), 1)", 2, 2, hints=whole(), per_turn=16, goal=(14, 32)),
    Instance("softmax f32 n=8192", "F.softmax(f(4096, 8192), 1)", 4, 4, hints=whole(), per_turn=32, goal=(14, 64)),
    Instance("softmax backward f32 n=1024", "F.softmax(f(4096, 1024).requires_grad_(), 1).backward(f(4096, 1024))", 8, 4,
             kernel="softmax_rows_backward", hints=whole(), per_turn=32, goal=(14, 64)),
    Instance("log_softmax backward bf16 n=1024", "F.log_softmax(b(4096, 1024).requires_grad_(), 1).backward(b(4096, 1024))",
             4, 2, kernel="softmax_rows_backward", hints=whole(), per_turn=32, goal=(14, 64)),
    Instance("layer_norm f32 n=512", "F.layer_norm(f(4096, 512), (512,), f(512), f(512))", 4, 4, hints=whole(),
             per_turn=16, asked=12, goal=(18, 64)),
    Instance("layer_norm bf16 n=4096", "F.layer_norm(b(4096, 4096), (4096,), b(4096), b(4096))", 2, 2, kernel="norm",
             hints=whole(), per_turn=16, asked=10, goal=(18, 32)),
    Instance("rms_norm bf16 n=4096", "F.rms_norm(b(4096, 4096), (4096,), b(4096))", 2, 2, kernel="norm", hints=whole(),
             per_turn=16, asked=6, goal=(18, 32)),
    Instance("group_norm f32 n=6272", "F.group_norm(f(64, 64, 28, 28), 8, f(64), f(64))", 4, 4, kernel="norm", hints=whole(),
             per_turn=28, asked=4, goal=(18, 64)),
    Instance("layer_norm backward f32 n=512",
             "x = f(4096, 512).requires_grad_(); F.layer_norm(x, (512,), f(512), f(512)).backward(f(4096, 512))", 8, 4,
             kernel="row_norm_backward", hints=whole(), per_turn=16, goal=(25, 64)),
    Instance("layer_norm backward of factors f32",
             "w = f(512).requires_grad_(); F.layer_norm(f(4096, 512), (512,), w, w).backward(f(4096, 512))", 8, 0,
             kernel="row_sums", per_turn=16, goal=(12, 64)),
    Instance("group_norm backward of factors f32",
             "w = f(64).requires_grad_(); F.group_norm(f(64, 64, 28, 28), 8, w, w).backward(f(64, 64, 28, 28))", 8, 0,
             kernel="row_sums", per_turn=8, goal=(12, 64)),
    Instance("batch_norm moments f32", "F.batch_norm(f(64, 64, 56, 56), None, None, f(64), f(64), True)", 4, 0,
             kernel="plane_folds<0", asked=4, goal=(10, 64)),
    Instance("batch_norm apply f32", "F.batch_norm(f(64, 64, 56, 56), None, None, f(64), f(64), True)", 4, 4,
             kernel="plane_factors<0", hints=whole("none"), goal=(8, 64)),
    Instance("batch_norm sums f32",
             "x = f(64, 64, 56, 56).requires_grad_(); F.batch_norm(x, None, None, f(64), f(64), True).backward(x.detach())",
             8, 0, kernel="plane_folds<1", asked=8, goal=(10, 64)),
    Instance("batch_norm backward f32",
             "x = f(64, 64, 56, 56).requires_grad_(); F.batch_norm(x, None, None, f(64), f(64), True).backward(x.detach())",
             8, 4, kernel="plane_factors<1", hints=whole("none"), goal=(10, 64)),
    Instance("batch_norm moments 7 x 7 f32", "F.batch_norm(f(64, 64, 7, 7), None, None, f(64), f(64), True)", 4, 0,
             kernel="plane_folds<0", asked=4),
    Instance("batch_norm moments channels last bf16", f"F.batch_norm({LAST}, None, None, f(64), f(64), True)", 2, 0,
             kernel="column_folds<0", asked=2, goal=(10, 64)),
    Instance("batch_norm apply channels last bf16", f"F.batch_norm({LAST}, None, None, f(64), f(64), True)", 2, 2,
             kernel="column_factors<0", hints=whole("none"), goal=(8, 64)),
    Instance("batch_norm backward channels last bf16",
             f"x = {LAST}.requires_grad_(); F.batch_norm(x, None, None, f(64), f(64), True).backward(x.detach())", 4, 2,
             kernel="column_factors<1", hints=whole("none"), goal=(11, 64)),
    Instance("cross_entropy f32 n=512", "F.cross_entropy(f(4096, 512), i(4096))", 4, 0, kernel="cross_entropy", hints=whole(),
             per_turn=16, goal=(20, 64)),
    Instance("cross_entropy, smoothed, f32 n=512", "F.cross_entropy(f(4096, 512), i(4096), label_smoothing=0.1)", 4, 0,
             kernel="cross_entropy", hints=whole(), per_turn=16, goal=(20, 64)),
    Instance("cross_entropy f32 n=8192", "F.cross_entropy(f(4096, 8192), i(4096))", 4, 0, kernel="cross_entropy",
             hints=whole(), per_turn=32, goal=(20, 64)),
    Instance("cross_entropy bf16 n=8192", "F.cross_entropy(b(4096, 8192), i(4096))", 2, 0, kernel="cross_entropy",
             hints=whole(), per_turn=32, goal=(20, 32)),
    Instance("cross_entropy f32 n=50257", "F.cross_entropy(f(512, 50257), i(512))", 4, 0, kernel="cross_entropy",
             per_turn=16, goal=(20, 64)),
    Instance("cross_entropy bf16 n=50257", "F.cross_entropy(b(512, 50257), i(512))", 2, 0, kernel="cross_entropy",
             per_turn=32, goal=(20, 32)),
    Instance("cross_entropy backward f32", "F.cross_entropy(f(4096, 512).requires_grad_(), i(4096)).backward()", 4, 4,
             kernel="cross_entropy_rows_backward", hints=whole(), per_turn=16, goal=(16, 32)),
    Instance("cross_entropy backward f32 n=50257", "F.cross_entropy(f(512, 50257).requires_grad_(), i(512)).backward()", 4, 4,
             kernel="cross_entropy_long_backward", per_turn=16, goal=(16, 32)),
    Instance("cross_entropy backward bf16 n=50257", "F.cross_entropy(b(512, 50257).requires_grad_(), i(512)).backward()", 2, 2,
             kernel="cross_entropy_long_backward", per_turn=32, goal=(16, 32)),
    # places
    Instance("embedding f32", "F.embedding(i(4096), f(1000, 1024))", 16, 16, kernel="move_places",
             hints=whole("none", want=([8, 16], 16)), per_turn=1),
    Instance("gather f32", "f(4096, 1024).gather(1, i(4096, 1024))", 12, 4, kernel="move_places",
             hints=whole("none", want=([16] * 4 + [4] * 8, 32)), goal=(12, 32)),
    Instance("gather bf16", "b(4096, 1024).gather(1, i(4096, 1024))", 10, 2, kernel="move_places",
             hints=whole("none", want=([16] * 4 + [2] * 8, 16)), goal=(12, 32)),
    Instance("scatter f32", "f(4096, 1024).scatter(1, i(4096, 1024), f(4096, 1024))", 12, 4, kernel="move_places",
             hints=whole("none", want=([16] * 6, 32)), goal=(13, 32)),
    Instance("embedding backward f32", "F.embedding(i(4096), f(1000, 1024).requires_grad_()).backward(f(4096, 1024))", 4, 4,
             kernel="combine_segments", goal=(12, 64)),
    Instance("embedding backward bf16", "F.embedding(i(4096), b(1000, 1024).requires_grad_()).backward(b(4096, 1024))", 2, 2,
             kernel="combine_segments", goal=(12, 64)),
    Instance("scatter_add f32", "f(1 << 20).scatter_add(0, i(1 << 20), f(1 << 20))", 12, 4, kernel="combine_segments",
             asked=12),
    Instance("max_pool f32", "F.max_pool2d(f(16, 64, 112, 112), 3, 2, 1, return_indices=True)", 16, 12, kernel="max_pool",
             hints=whole("none"), per_turn=4, goal=(100, 48)),
    Instance("max_pool bf16", "F.max_pool2d(b(16, 64, 112, 112), 3, 2, 1, return_indices=True)", 8, 10, kernel="max_pool",
             hints=whole("none"), per_turn=4, goal=(100, 24)),
    Instance("max_pool channels last bf16", f"F.max_pool2d({LAST}, 3, 2, 1, return_indices=True)", 8, 10,
             kernel="max_pool", hints=whole("none"), per_turn=8, goal=(100, 64)),
    Instance("avg_pool f32", "F.avg_pool2d(f(16, 64, 112, 112), 2)", 16, 4, kernel="avg_pool", hints=whole("none"),
             per_turn=4, goal=(100, 32)),
    Instance("avg_pool backward f32", "F.avg_pool2d(f(16, 64, 112, 112).requires_grad_(), 2).sum().backward()", 1, 4,
             kernel="avg_pool_windows_transpose", hints=whole("none"), per_turn=16, goal=(30, 16)),
    Instance("nearest f32", 'F.interpolate(f(16, 64, 56, 56), scale_factor=2, mode="nearest")', 4, 4, kernel="resample",
             hints=whole("none"), goal=(16, 32)),
    Instance("bilinear f32", 'F.interpolate(f(16, 64, 56, 56), scale_factor=2, mode="bilinear")', 4, 4, kernel="resample",
             hints=whole("none", trips=(2,)), goal=(34, 24)),
    Instance("grid_sample f32", "F.grid_sample(f(16, 64, 56, 56), f(16, 56, 56, 2))", 16, 4, kernel="grid_sample"),
    Instance("im2col f32", "F.unfold(f(16, 64, 56, 56), 3, padding=1)", 4, 4, kernel="im2col", hints=whole("none"),
             goal=(26, 32)),
    Instance("cat f32", "t.cat([f(1024, 1024), f(1024, 1024)])", 16, 16, kernel="join"),
    # optimizers, random numbers
    Instance("adam f32", "p = t.nn.Parameter(f(1024, 1024)); p.grad = f(1024, 1024); t.optim.Adam([p]).step()", 16, 12,
             kernel="optim_pass", goal=(62, 64)),
    Instance("adam bf16", "p = t.nn.Parameter(b(1024, 1024)); p.grad = b(1024, 1024); t.optim.Adam([p]).step()", 8, 6,
             kernel="optim_pass", goal=(62, 64)),
    Instance("sgd bf16", "p = t.nn.Parameter(b(1024, 1024)); p.grad = b(1024, 1024); t.optim.SGD([p], momentum=0.9).step()",
             6, 4, kernel="optim_pass", goal=(14, 48)),
    Instance("unscale f32", "t._amp_foreach_non_finite_check_and_unscale_([f(1024, 1024)], f(1), f(1))", 4, 4,
             kernel="unscale", goal=(6, 32)),
    Instance("unscale f16", "t._amp_foreach_non_finite_check_and_unscale_([h(1024, 1024)], f(1), f(1))", 2, 2,
             kernel="unscale", hints=Hints(dearest=True), goal=(6, 32)),
    Instance("uniform f32", "t.rand(1024, 1024, device='cuda')", 0, 4, kernel="random_real", goal=(24, 0)),
    Instance("uniform bf16", "t.rand(1024, 1024, device='cuda', dtype=B)", 0, 2, kernel="random_real", goal=(26, 0)),
    Instance("normal f32", "t.randn(1024, 1024, device='cuda')", 0, 4, kernel="random_real", goal=(44, 0)),
    Instance("normal bf16", "t.randn(1024, 1024, device='cuda', dtype=B)", 0, 2, kernel="random_real", goal=(44, 0)),
    # products
    tensor_product("matmul f32", "f(1024, 1024) @ f(1024, 1024)", product=1 / 3, goal=(36, 128),
                   measured="matmul/4096 float32"),
    tensor_product("matmul f32 turned", "f(1024, 1024).t() @ f(1024, 1024)", product=1 / 3, goal=(36, 128)),
    tensor_product("linear f32", "F.linear(f(1024, 1024), f(1024, 1024), f(1024))", product=1 / 3, goal=(36, 128)),
    tensor_product("linear tf32", "with_tf32(lambda: F.linear(f(1024, 1024), f(1024, 1024)))", goal=(16, 128)),
    tensor_product("matmul bf16", "b(1024, 1024) @ b(1024, 1024)", 2, goal=(5, 128), measured="matmul/4096 bfloat16"),
    tensor_product("matmul bf16 turned", "b(1024, 1024).t() @ b(1024, 1024)", 2, goal=(5, 128)),
    tensor_product("linear bf16", "F.linear(b(1024, 1024), b(1024, 1024), b(1024))", 2, goal=(5, 128)),
    tensor_product("linear f16", "F.linear(h(1024, 1024), h(1024, 1024))", 2, goal=(5, 128)),
    tensor_product("matmul bf16 in parts", "b(64, 4096) @ b(4096, 64)", 2, size=4, goal=(4, 128)),
    tensor_product("conv bf16", "F.conv2d(b(8, 64, 56, 56), b(128, 64, 3, 3), padding=1)", 2, kernel="windows_by",
                   goal=(7, 128), hints=Hints(dearest=True)),
    tensor_product("conv tf32", "F.conv2d(f(8, 64, 56, 56), f(128, 64, 3, 3), padding=1)", kernel="windows_by",
                   goal=(20, 128), hints=Hints(dearest=True)),
    tensor_product("conv f32", "without_tf32(lambda: F.conv2d(f(8, 64, 56, 56), f(128, 64, 3, 3), padding=1))",
                   kernel="windows_by", product=1 / 3, goal=(40, 128), hints=Hints(dearest=True)),
    tensor_product("conv backward weight bf16", "F.conv2d(b(8, 64, 56, 56), b(128, 64, 3, 3).requires_grad_(), padding=1)"
                   ".backward(b(8, 128, 56, 56))", 2, kernel="windows_by_tensor_cores<facula::cuda::BFloat16, 0, 0",
                   goal=(7, 128), hints=Hints(dearest=True)),
    few_queries("attention of one query bf16 d=64", "b", 64, "1, 16, 1", 16, 2),
    few_queries("attention of one query bf16 d=128", "b", 128, "1, 16, 1", 16, 2),
    few_queries("attention of 8 heads a key bf16 d=128", "b", 128, "1, 32, 4", 4, 2),
    few_queries("attention of one query f32 d=64", "f", 64, "1, 16, 1", 16, 4),
    *attention("f32", "f"),
    *attention("bf16", "b"),
    *attention("f16", "h"),
]  # fmt: skip
