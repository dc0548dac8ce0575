"""Several devices in one process: copies between them, collectives by NCCL, DataParallel. Its stand-in runs here; no machine
with several GPUs has run this.
"""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment

import facula

pytestmark = pytest.mark.skipif(facula.cuda.is_available(), reason="needs devices of its own")

HEAD = """
import pytest
import facula
from facula import cuda, nn
from facula.cuda import comm, nccl
from facula.nn import parallel
def values(*shape, seed=0):
    return facula.randn(*shape, generator=facula.Generator().manual_seed(seed))
def spread(tensors):
    return [t.to(f"cuda:{i}") for i, t in enumerate(tensors)]
def close(found, expected, *what):
    assert facula.allclose(found.cpu(), expected, atol=1e-5), (what, found, expected)
"""


def run(program, devices=3, **more):
    source = HEAD + textwrap.dedent(program) + "\nprint('ok')\n"
    variables = environment(FACULA_EMULATED_DEVICES=str(devices), **more)
    done = subprocess.run([sys.executable, "-c", source], env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ok\n"


def test_collectives():
    run(
        """
        whole = [values(6, seed=i) for i in range(3)]
        stacked = facula.stack(whole)
        for op, expected in enumerate((stacked.sum(0), stacked.prod(0), stacked.amax(0), stacked.amin(0), stacked.mean(0))):
            x = spread(whole)
            nccl.all_reduce(x, op=op)
            y = spread(facula.zeros(3, 6).unbind(0))
            nccl.all_reduce(spread(whole), y, op)
            for t in (*x, *y):
                close(t, expected, op)
            x, out = spread(whole), facula.zeros(6, device="cuda:1")
            nccl.reduce(x, out, 1, op)
            close(out, expected, op)
            nccl.reduce(x, root=2, op=op)
            for t, w in zip(x, (whole[0], whole[1], expected)):
                close(t, w, op)
            parts = spread(facula.zeros(3, 2).unbind(0))
            nccl.reduce_scatter(spread(whole), parts, op)
            for i, t in enumerate(parts):
                close(t, expected[2 * i : 2 * i + 2], op)
        x = spread(whole)
        nccl.broadcast(x, 2)
        assert all(facula.equal(t.cpu(), whole[2]) for t in x)
        gathered = spread(facula.zeros(3, 18).unbind(0))
        nccl.all_gather(spread(whole), gathered)
        assert all(facula.equal(t.cpu(), stacked.flatten()) for t in gathered)
        for dtype in (facula.float16, facula.bfloat16, facula.int64, facula.complex64, facula.bool, facula.uint8):
            t = (facula.arange(4) % 3).to(dtype)
            x = spread([t, t])
            nccl.all_reduce(x)
            assert all(facula.equal(y.cpu(), t + t if dtype != facula.bool else t) for y in x), dtype
        streams = [cuda.Stream(f"cuda:{i}") for i in range(3)]
        for _ in range(20):  # behind what streams do, and before what they do next
            x = []
            for i, stream in enumerate(streams):
                with cuda.stream(stream):
                    x.append(facula.full((5000,), float(i), device=f"cuda:{i}").add_(1).mul_(2))
            nccl.all_reduce(x, streams=streams)
            for stream, t in zip(streams, x):
                with cuda.stream(stream):
                    assert t.sub(12).abs().sum().item() == 0
        assert nccl.is_available(spread(whole)) and not nccl.is_available([whole[0]])
        assert nccl.version() == (2, 28, 9) and len(nccl.unique_id()) == 128
        """,
        FACULA_EMULATED_JITTER="200",
    )


def test_what_is_refused():
    run(
        """
        x = spread([values(6), values(6)])
        for call, error, text in (
            (lambda: nccl.all_reduce(x[0]), TypeError, "a tensor on each device, in a sequence"),
            (lambda: nccl.all_reduce([]), ValueError, "got none"),
            (lambda: nccl.all_reduce([x[0], x[0]]), ValueError, "on different devices"),
            (lambda: nccl.all_reduce([values(6), values(6)]), TypeError, "CUDA devices"),
            (lambda: nccl.all_reduce([x[0], x[1].double()]), TypeError, "one dtype"),
            (lambda: nccl.all_reduce([x[0], x[1][:3]]), ValueError, "one number of elements"),
            (lambda: nccl.all_reduce([x[0].view(2, 3).t(), x[1]]), TypeError, "contiguous"),
            (lambda: nccl.all_reduce(x, x[:1]), ValueError, "an output for each of 2 inputs, got 1"),
            (lambda: nccl.all_reduce(x, op=5), ValueError, "from 0 .SUM. to 4"),
            (lambda: nccl.all_reduce([t.short() for t in x]), TypeError, "not reduced"),
            (lambda: nccl.all_gather(x, x), ValueError, "does not fit"),
            (lambda: nccl.reduce_scatter(x, x), ValueError, "does not fit"),
            (lambda: nccl.reduce(x, x[0], root=1), ValueError, "on the device of its input"),
            (lambda: nccl.reduce(x, root=2), ValueError, "got root 2"),
            (lambda: nccl.broadcast(x, -1), ValueError, "got root -1"),
            (lambda: nccl.broadcast(x, comms=[None, None]), NotImplementedError, "comms"),
            (lambda: nccl.broadcast(x, streams=[None]), ValueError, "for each of 2 tensors, got 1"),
        ):
            with pytest.raises(error, match=text):
                call()
        nccl.all_reduce(x)  # and all is well
        close(x[1], 2 * values(6))
        """
    )


@pytest.mark.parametrize("mode", ["async", "lazy"])
def test_copies(mode):
    run(
        """
        x = values(7, 4)
        parts = comm.scatter(x.cuda(0), [0, 1, 2])
        assert [tuple(p.shape) for p in parts] == [(3, 4), (3, 4), (1, 4)] and [p.device.index for p in parts] == [0, 1, 2]
        close(comm.gather(parts, destination=1), x)
        close(comm.gather(comm.scatter(x.cuda(2), ["cuda:0", "cuda:1"], [1, 6])), x)
        for i, t in enumerate(comm.broadcast(x.cuda(1), [0, 1, 2])):
            assert t.device.index == i
            close(t, x)
        summed = comm.reduce_add(spread([x, x, x]), 2)
        assert summed.device.index == 2
        close(summed, 3 * x)
        for i, tensors in enumerate(comm.broadcast_coalesced([x.cuda(), x.cuda() + 1], [0, 2])):
            assert {t.device.index for t in tensors} == {2 * i}
            close(tensors[1], x + 1)
        sums = comm.reduce_add_coalesced([[t, t + 1] for t in spread([x, x])], 1)
        close(sums[1], 2 * x + 2)
        out = [facula.empty(3, 4, device="cuda:2"), facula.empty(4, 4, device="cuda:0")]
        comm.scatter(x.cuda(), out=out)
        close(out[1], x[3:])
        """,
        FACULA_EMULATED_MODE=mode,
    )


@pytest.mark.parametrize("mode", ["async", "lazy"])
def test_data_parallel(mode):
    run(
        """
        def network():
            facula.manual_seed(0)
            return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        one, module = network(), network().cuda(0)
        many = nn.DataParallel(module)
        assert many.device_ids == [0, 1, 2]
        a, b = (facula.optim.SGD(m.parameters(), lr=0.1) for m in (one, many))
        for step in range(3):
            x = values(8, 4, seed=step)
            losses = []
            for m, o, t in ((one, a, x), (many, b, x.cuda())):
                o.zero_grad()
                y = m(t)
                loss = y.square().mean()
                loss.backward()
                o.step()
                losses.append(loss.item())
            assert y.device.index == 0 and abs(losses[0] - losses[1]) < 1e-6
            for p, q in zip(one.parameters(), module.parameters()):
                close(q.grad, p.grad)
        x = values(5, 4)
        close(parallel.data_parallel(module, x.cuda(), [0, 2], 1), one(x))
        replicas = parallel.replicate(module, [0, 1])
        inputs = parallel.scatter((x.cuda(), {"k": 1}), [0, 1])
        assert [i[1] for i in inputs] == [{"k": 1}] * 2
        outputs = parallel.parallel_apply(replicas, [(i[0],) for i in inputs])
        assert [o.device.index for o in outputs] == [0, 1]
        gathered = parallel.gather(outputs, 1)
        assert gathered.device.index == 1
        close(gathered, one(x))
        (g,) = facula.autograd.grad(gathered.sum(), module[2].bias)
        assert g.device.index == 0 and g.tolist() == [5.0] * 3
        class Named(nn.Module):
            def forward(self, x, scale=1.0):
                return {"y": x * scale, "where": [x.sum()]}
        made = nn.DataParallel(Named())(x.cuda(), scale=2.0)
        close(made["y"], 2 * x)
        assert made["where"][0].shape == (3,)
        """,
        FACULA_EMULATED_MODE=mode,
    )


CONTEXTS = """
import ctypes
driver = ctypes.CDLL(cuda.libraries()["driver"])
def current():
    now = ctypes.c_void_p()
    assert driver.cuCtxGetCurrent(ctypes.byref(now)) == 0
    return now.value
def set_current(context):
    assert driver.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0
x = facula.arange(6.0, device="cuda:0").requires_grad_()
ours = current()
"""


def test_another_library_may_change_the_current_device():
    """As cudaSetDevice does it, of which nobody is told; what it chose is there again after each call."""
    run(
        CONTEXTS
        + """
set_current(ours + 1)  # the stand-in's contexts are numbers
y = x + 1
assert current() == ours + 1, (current(), ours)
close(y.detach(), facula.arange(6.0) + 1)
far = facula.ones(6, device="cuda:1")
assert current() == ours + 1
(x.to("cuda:1") * far).sum().backward()
close(x.grad, facula.ones(6))
cuda.synchronize(0)
cuda.Event().record(cuda.current_stream(0))
assert current() == ours + 1
cuda.set_device(0)  # but who asks for a device by name gets it
assert current() == ours
z = far + 1  # and keeps it while others work
assert current() == ours
"""
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_another_library_may_have_a_context_of_its_own(devices):
    """As cuCtxPushCurrent does it: nothing of ours works there."""
    run(
        CONTEXTS
        + """
foreign = 0xF0
set_current(foreign)
assert driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_void_p()), 16) == 201  # so the stand-in is one
y = (x * 2 + 1).sum()
assert current() == foreign
y.backward()
big = facula.ones(1 << 22, device="cuda")  # memory of the driver's
big.copy_(facula.zeros(1 << 22))
stream = cuda.Stream()
with cuda.stream(stream):  # asks for a device by name
    set_current(foreign)
    z = big + 1
    assert current() == foreign
set_current(foreign)
stream.synchronize()
assert current() == foreign
graph = cuda.CUDAGraph()
with cuda.graph(graph):
    z = big + 2
set_current(foreign)
graph.replay()
assert current() == foreign
close(x.grad, facula.full((6,), 2.0))
close(z[:3], facula.full((3,), 2.0))
del big, z, graph
cuda.empty_cache()
assert current() == foreign
""",
        devices=devices,
    )
