"""A process that ends with something of Facula's still open or alive ends like any other."""

import subprocess
import sys

import pytest

# what is begun in the main thread and never ended
OPEN = {
    "nothing": "",
    "tensor": "kept = facula.ones(3).requires_grad_()",
    "graph": "kept = (facula.ones(3).requires_grad_() * 2).sum(); kept.register_hook(print)",
    "function": """
class F(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.self = ctx
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g
kept = F.apply(facula.ones(3).requires_grad_())
""",
    "storage": "kept = facula.ones(3).untyped_storage(); kept.cycle = kept",
    "array": "kept = facula.ones(3).numpy(); facula.kept = kept",
    "borrowed": "import numpy; facula.kept = facula.from_numpy(numpy.ones(3))",
    "dlpack": "kept = facula.utils.dlpack.to_dlpack(facula.ones(3))",
    "observer": "facula._C._add_observer(Observer(), True)",
    "observer of a thread": "facula._C._add_observer(Observer(), False)",
    "observer removed by itself": "facula._C._add_observer(Leaves(), False); facula.ones(3) + 1",
    "saved tensors": "facula.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()",
    "saved tensors disabled": "facula.autograd.graph.disable_saved_tensors_hooks('no').__enter__()",
    "function mode": "facula.overrides.TorchFunctionMode().__enter__()",
    "dispatch mode": "facula.utils._python_dispatch.TorchDispatchMode().__enter__()",
    "recording": "facula._C._record_begin({}, print, 'package')",
    "autocast": "facula.autocast('cpu').__enter__(); facula.ones(3, 3) @ facula.ones(3, 3)",
    "forward mode": "facula.autograd.forward_ad.dual_level().__enter__()",
    "inference": "facula.inference_mode().__enter__()",
    "profiler": "facula.profiler.profile().__enter__(); facula.ones(3) + 1",
    "generator": "facula.kept = facula.Generator(); facula.randn(3, generator=facula.kept)",
    "library": "facula.kept = facula.library.Library('end', 'DEF'); facula.kept.define('f(Tensor x) -> Tensor')",
    "threads in kernels": """
x = facula.ones(3_000_000)
def work():
    while True:
        x.sum()
for _ in range(3):
    begin(work)
""",
    "thread in modules": """
model = facula.nn.Sequential(facula.nn.Linear(3, 3), facula.nn.ReLU())
def work():
    while True:
        model(facula.ones(2, 3)).sum().backward()
begin(work)
""",
    "thread in saved tensors": """
def work():
    with facula.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        while True:
            facula.ones(9).requires_grad_().exp()
begin(work)
""",
    "thread that records": """
def work():
    facula._C._record_begin({}, print, 'package')
    while True:
        facula.ones(9)
begin(work)
""",
}
BEGIN = """
import threading, time
import facula
import facula.utils._python_dispatch, facula.utils.dlpack, facula.library
class Observer:
    def op_begins(self, *call): pass
    def op_ends(self, *call): pass
class Leaves(Observer):
    def op_ends(self, *call): facula._C._remove_observer(self)
def begin(work):  # on a thread that Python leaves behind
    running = threading.Event()
    threading.Thread(target=lambda: running.set() or work(), daemon=True).start()
    running.wait()
    time.sleep(0.05)
"""


@pytest.mark.parametrize("what", OPEN)
def test_a_process_ends(what):
    program = BEGIN + OPEN[what] + "\nprint('ok')"
    ended = subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "ok\n"), ended
    assert "Fatal" not in ended.stderr, ended.stderr
