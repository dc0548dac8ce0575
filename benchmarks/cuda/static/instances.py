"""Calls of ops, each of which launches one kernel whose machine code is looked at, and what an element of it costs of memory.

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
"""


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
    """Of operands that lie in their own ways: `loads` are the bytes of each load of a thread, which makes so many elements;
    what is left over of a vector is another way through the kernel."""
    hints = Hints("none", want=(loads, per_turn * write))
    return Instance(name, call, read, write, kernel="pointwise_strided", hints=hints, per_turn=per_turn, **more)


def transpose(name: str, call: str, bytes: int, per_turn: int, **more) -> Instance:
    hints = Hints("none")
    return Instance(name, call, bytes, bytes, kernel="transpose", hints=hints, per_turn=per_turn, **more)


def whole(loop: str = "outer", **more) -> Hints:
    return Hints(loop, **more)


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
    Instance("cumsum of rows f32", "f(4096, 1024).cumsum(1)", 4, 4, kernel="scan<", hints=whole(trips=(8,)), per_turn=32),
    # rows
    Instance("softmax f32 n=1024", "F.softmax(f(4096, 1024), 1)", 4, 4, hints=whole("each"), goal=(14, 64),
             measured="bandwidth/softmax float32"),
    Instance("softmax bf16 n=1024", "F.softmax(b(4096, 1024), 1)", 2, 2, hints=whole("each"), goal=(14, 32),
             measured="bandwidth/softmax bfloat16"),
    Instance("softmax bf16 n=512", "F.softmax(b(4096, 512), 1)", 2, 2, hints=whole(), per_turn=16, goal=(14, 32)),
    Instance("layer_norm f32 n=512", "F.layer_norm(f(4096, 512), (512,), f(512), f(512))", 4, 4, hints=whole(),
             per_turn=16, asked=12, goal=(18, 64)),
    Instance("layer_norm bf16 n=4096", "F.layer_norm(b(4096, 4096), (4096,), b(4096), b(4096))", 2, 2, kernel="norm",
             hints=whole(), per_turn=16, asked=10, goal=(18, 32)),
    Instance("layer_norm backward f32 n=512",
             "x = f(4096, 512).requires_grad_(); F.layer_norm(x, (512,), f(512), f(512)).backward(f(4096, 512))", 8, 4,
             kernel="row_norm_backward", hints=whole(), per_turn=16, goal=(25, 64)),
    Instance("batch_norm moments f32", "F.batch_norm(f(64, 64, 56, 56), None, None, f(64), f(64), True)", 4, 0,
             kernel="ChannelMoments", asked=4, goal=(10, 64)),
    Instance("batch_norm apply f32", "F.batch_norm(f(64, 64, 56, 56), None, None, f(64), f(64), True)", 4, 4,
             kernel="channel_factors", asked=12, goal=(8, 64)),
    Instance("batch_norm backward f32",
             "x = f(64, 64, 56, 56).requires_grad_(); F.batch_norm(x, None, None, f(64), f(64), True).backward(x.detach())",
             8, 4, kernel="channel_factors<1", goal=(10, 64)),
    Instance("cross_entropy f32 n=512", "F.cross_entropy(f(4096, 512), i(4096))", 4, 0, kernel="cross_entropy", hints=whole(),
             per_turn=16, goal=(20, 64)),
    Instance("cross_entropy backward f32", "F.cross_entropy(f(4096, 512).requires_grad_(), i(4096)).backward()", 4, 4,
             kernel="cross_entropy_backward", asked=12, goal=(16, 32)),
    # places
    Instance("embedding f32", "F.embedding(i(4096), f(1000, 1024))", 16, 16, kernel="gather", hints=whole()),
    Instance("gather f32", "f(4096, 1024).gather(1, i(4096, 1024))", 12, 4, kernel="gather", hints=whole(), goal=(12, 32)),
    Instance("embedding backward f32", "F.embedding(i(4096), f(1000, 1024).requires_grad_()).backward(f(4096, 1024))", 4, 4,
             kernel="scatter_combine", hints=whole(), goal=(12, 64)),
    Instance("max_pool f32", "F.max_pool2d(f(64, 64, 56, 56), 3, 2, 1)", 16, 12, kernel="max_pool",
             hints=whole(trips=(3, 9, 9)), per_turn=1, goal=(151, 24)),
    Instance("cat f32", "t.cat([f(1024, 1024), f(1024, 1024)])", 16, 16, kernel="join"),
    # optimizers
    Instance("adam f32", "p = t.nn.Parameter(f(1024, 1024)); p.grad = f(1024, 1024); t.optim.Adam([p]).step()", 16, 12,
             kernel="optim_pass"),
    # products
    Instance("matmul f32", "f(1024, 1024) @ f(1024, 1024)", 4, 0, hints=Hints(trips=(4,)), product=1,
             measured="matmul/4096 float32"),
    Instance("matmul bf16", "b(1024, 1024) @ b(1024, 1024)", 2, 0, hints=Hints(trips=(4,)), product=1, tensor=True,
             measured="matmul/4096 bfloat16"),
    Instance("attention f32 d=128", "F.scaled_dot_product_attention(*[f(4, 16, 2048, 128)] * 3)", 4, 0, kernel="attention",
             product=1),
    Instance("attention bf16 d=128", "F.scaled_dot_product_attention(*[b(4, 16, 2048, 128)] * 3)", 2, 0, kernel="attention",
             product=1, tensor=True, measured="attention/4x16x2048x128 bfloat16"),
]  # fmt: skip
