"""What tests/test_defer.py runs in processes of their own, with and without FACULA_DEFER.

    python tests/deferred_cases.py values|doors|writes|threads
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import io
import json
import os
import pickle
import sys
import threading
import warnings
from pathlib import Path

import numpy as np

import facula
import facula.nn.functional as F
from facula import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))

from op_samples import call, samples  # noqa: E402

is_deferred = facula._C._is_deferred


def digest(value):
    """A short text that says everything about a value: bits, strides, dtype, flags, version."""
    if isinstance(value, facula.Tensor):
        shape = (tuple(value.shape), tuple(value.stride()), str(value.dtype), value.requires_grad, value._version, value.storage_offset())
        plain = value.detach().resolve_conj()
        raw = bytes(plain.contiguous().view(facula.uint8).numpy().tobytes()) if plain.numel() else b""
        return f"{shape} {hashlib.sha1(raw).hexdigest()[:12]}"
    if isinstance(value, (tuple, list)):
        return [digest(v) for v in value]
    return repr(value)


# ---- programs


def op_results():
    from test_ops import callable_ops, dtype_of, rng_for, tensors, undetermined

    for op in callable_ops():
        if undetermined(op) or op.topic == "sparse":
            continue
        for i, (args, kwargs) in enumerate(samples(op, dtype_of(op), rng_for(op))):
            def own(v):
                if isinstance(v, facula.Tensor):
                    made = v.clone()
                    return made.requires_grad_() if made.is_floating_point() else made
                return type(v)(own(x) for x in v) if isinstance(v, (list, tuple)) else v

            given, named = [own(a) for a in args], {k: own(v) for k, v in kwargs.items()}
            try:
                made = call(op, *given, **named)
                found = [digest(made)]
                wanted = [t for t in tensors(made) if t.requires_grad]
                leaves = [t for t in tensors(given) + tensors(list(named.values())) if t.requires_grad]
                if wanted and leaves:
                    total = sum((t.real if t.is_complex() else t).float().sum() for t in wanted)
                    found.append(digest([g for g in facula.autograd.grad(total, leaves, allow_unused=True)]))
            except Exception as error:  # errors are values, too
                found = [type(error).__name__, str(error)]
            yield f"{op.id}:{i}", found


def training():
    facula.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, 8), nn.BatchNorm1d(8))
    optimizer = facula.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        x = facula.randn(24, 16)
        loss = F.cross_entropy(model(x), facula.arange(24) % 8) + 1e-3 * sum((p * p).sum() for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, [digest(p) for p in model.parameters()], [digest(b) for b in model.buffers()]


def adam_by_hand():
    facula.manual_seed(1)
    p, m, v = facula.randn(300), facula.zeros(300), facula.zeros(300)
    for step in range(1, 6):
        g = facula.sin(p * step) + 0.1 * p
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.sub_(0.01 * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8))
    return [digest(t) for t in (p, m, v)]


def stencil():
    facula.manual_seed(2)
    u, before = facula.randn(20, 20), facula.zeros(20, 20)
    for _ in range(6):
        lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        after = 2 * u - before
        after[1:-1, 1:-1] += 0.1 * lap
        u, before = after, u
    return digest(u), digest(before)


def third_derivatives():
    facula.manual_seed(3)
    x = facula.randn(12, 1).requires_grad_()
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    y, found = net(x), []
    for _ in range(3):
        (y,) = facula.autograd.grad(y.sum(), x, create_graph=True)
        found.append(digest(y))
    y.square().mean().backward()
    return found, [digest(p.grad) for p in net.parameters()]


def transforms():
    facula.manual_seed(4)
    w, x = facula.randn(4, 4), facula.randn(6, 4)

    def f(v):
        return (facula.tanh(v @ w) ** 2).sum()

    hessian = facula.func.hessian(f)(x[0])
    each = facula.func.vmap(facula.func.grad(f))(x)
    with facula.autocast("cpu", dtype=facula.bfloat16):
        low = (x @ w).softmax(-1) * 2
    with facula.inference_mode():
        quiet = (x * 2).cumsum(0)
    return digest(hessian), digest(each), digest(low.float()), digest(quiet)


def views_in_place():
    facula.manual_seed(5)
    base = facula.randn(6, 6) * 2
    row, column, diagonal = base[1], base[:, 2], base.diagonal()
    row.mul_(3)
    column += row.sum()
    diagonal.zero_()
    later = base + 1
    base.t_()
    leaf = facula.randn(4, requires_grad=True)
    made = leaf * 2
    part = made[1:3]
    part.mul_(part)
    made.sum().backward()
    return [digest(t) for t in (base, row, column, diagonal, later, leaf.grad)]


def errors():
    found = []
    for attempt in (
        lambda: facula.ones(3) + facula.ones(4),
        lambda: facula.ones(2, 3) @ facula.ones(2, 3),
        lambda: facula.ones(4)[facula.tensor([1, 7]) * 1],
        lambda: facula.gather(facula.ones(3) * 2, 0, facula.tensor([5]) * 1),
        lambda: F.nll_loss(facula.ones(2, 3) * 1, facula.tensor([0, 9]) * 1),
        lambda: F.embedding(facula.tensor([9]) * 1, facula.ones(3, 2) * 1),
        lambda: facula.tensor([1, 2]) // (facula.tensor([1, 0]) * 1),
        lambda: facula.linalg.cholesky(-facula.eye(3) * 1),
        lambda: facula.linalg.inv(facula.zeros(2, 2) * 1),
        lambda: facula.ones(3) .add_(facula.ones(2, 3) * 1),
        lambda: facula.bincount(facula.tensor([-1, 2]) * 1),
        lambda: F.one_hot(facula.tensor([-1, 2]) * 1),
    ):
        try:
            attempt()
            found.append("none")
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


PROGRAMS = (training, adam_by_hand, stencil, third_derivatives, transforms, views_in_place, errors)


def values():
    """Prints digests of everything, as JSON."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for program in PROGRAMS:
            found[program.__name__] = program()
        found.update(op_results())
    found["deferrals"] = facula._C._deferrals()
    print(json.dumps(found))


# ---- doors: every way to look at a tensor


def waiting(kind="float"):
    """(a deferred tensor, the same with its bytes)."""
    start = {"float": facula.arange(12.0).reshape(3, 4), "int": facula.arange(12).reshape(3, 4), "one": facula.full((1,), 2.5),
             "vector": facula.arange(5.0)}[kind]
    start.sum().item()  # has its bytes
    made, twin = start * 3, start * 3
    twin.sum().item()
    twin.tolist()
    assert is_deferred(made) and not is_deferred(twin), "nothing is deferred here"
    return made, twin


def shown(value):
    """The same text for the same outcome."""
    if isinstance(value, facula.Tensor):
        return digest(value)
    if isinstance(value, np.ndarray):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    text = repr(value)
    return type(value).__name__ if " at 0x" in text or isinstance(value, int) and value > 1 << 32 else text


def outcome(f):
    try:
        return shown(f())
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


UNLIKE = {"__dir__", "__reduce__", "__sizeof__", "__hash__", "__init_subclass__", "__subclasshook__", "__class__", "__new__", "__init__",
          "__del__", "_backward_hooks", "data_ptr", "_cdata", "__dlpack__", "normal_", "uniform_", "random_", "exponential_", "geometric_",
          "cauchy_", "log_normal_", "bernoulli_", "bernoulli", "multinomial"}  # fmt: skip


def doors():
    """Every attribute and every method without arguments of a tensor, then those with arguments that show memory."""
    failures, met = [], 0
    warnings.simplefilter("ignore")
    for kind in ("float", "int", "one", "vector"):
        for name in dir(facula.Tensor):
            if name in UNLIKE:
                continue
            made, twin = waiting(kind)

            def look(t, name=name):
                value = getattr(t, name)
                return value() if callable(value) else value

            a, b = outcome(lambda: look(made)), outcome(lambda: look(twin))
            after = outcome(lambda: (made, twin.__class__))[0], outcome(lambda: (twin, twin.__class__))[0]
            met += 1
            if a != b or after[0] != after[1]:
                failures.append((kind, name, a, b, after))
    for kind in ("float", "int"):
        for name, look in LOOKS.items():
            made, twin = waiting(kind)
            met += 1
            a, b = outcome(lambda: look(made)), outcome(lambda: look(twin))
            if a != b:
                failures.append((kind, name, a, b))
    print(json.dumps({"met": met, "failures": failures}))


def through_pickle(t):
    return pickle.loads(pickle.dumps(t))


def through_save(t):
    file = io.BytesIO()
    facula.save({"t": t, "view": t[1:]}, file)
    file.seek(0)
    return facula.load(file)["view"]


def through_address(t):
    size = t.numel() * t.element_size()
    return ctypes.string_at(t.data_ptr(), size)


def through_set(t):
    other = facula.empty(0, dtype=t.dtype)
    other.set_(t)
    return other


def through_data(t):
    other = facula.zeros(2, dtype=t.dtype)
    other.data = t
    return other


def through_resize(t):
    t.resize_(2, 2)
    return t


def through_out(t):
    facula.add(facula.ones(3, 4, dtype=t.dtype), 1, out=t)
    return t


def through_fork(t):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, repr(t.tolist()).encode())
        os._exit(0)
    os.wait()
    return os.read(read, 10000)


def through_thread(t):
    found = []
    threads = [threading.Thread(target=lambda: found.append(t.tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def through_weak_reference(t):
    import weakref

    return weakref.ref(t)().sum()


LOOKS = {
    "pickle": through_pickle,
    "save": through_save,
    "address": through_address,
    "set_": through_set,
    "data": through_data,
    "resize_": through_resize,
    "out": through_out,
    "fork": through_fork,
    "thread": through_thread,
    "weak reference": through_weak_reference,
    "numpy": lambda t: t.numpy(),
    "numpy of a view": lambda t: t[1:].numpy(),
    "asarray": lambda t: np.asarray(t),
    "np function": lambda t: np.add(t, 1),
    "dlpack": lambda t: facula.from_dlpack(t),
    "numpy dlpack": lambda t: np.from_dlpack(t),
    "memoryview": lambda t: memoryview(t).tobytes(),
    "bytes": lambda t: bytes(t.untyped_storage()),
    "storage": lambda t: t.untyped_storage()[3],
    "typed storage": lambda t: list(t.storage())[:3],
    "storage of a view": lambda t: t[1].untyped_storage().nbytes(),
    "as_strided": lambda t: t.as_strided((2, 2), (1, 2), 1),
    "view dtype": lambda t: t.view(facula.uint8),
    "iteration": lambda t: [x for x in t],
    "index": lambda t: t[0, 1],
    "mask": lambda t: t[t > 3],
    "assignment": lambda t: (t.__setitem__(0, 5), t)[1],
    "float": lambda t: float(t[0, 1]),
    "bool": lambda t: bool(t[0, 1]),
    "format": lambda t: f"{t[0, 1]:.2f}",
    "repr": repr,
    "equal": lambda t: facula.equal(t, t * 1),
    "copy": lambda t: __import__("copy").copy(t),
    "deepcopy": lambda t: __import__("copy").deepcopy(t),
    "parameter": lambda t: nn.Parameter(t, requires_grad=False) * 2,
    "share_memory_": lambda t: t.share_memory_(),
    "tensor": lambda t: facula.tensor([t[0, 0], t[1, 1]]),
    "stack": lambda t: facula.stack([t, t]),
    "as_tensor": lambda t: facula.as_tensor(t, dtype=facula.float64),
    "swap": lambda t: (facula.utils.swap_tensors(t, facula.ones(2)), t)[1],
    "sparse": lambda t: t.to_sparse(),
    "csr": lambda t: t.to_sparse_csr().values(),
    "coo": lambda t: facula.sparse_coo_tensor(facula.tensor([[0, 1, 2]]) * 1, t).to_dense(),
    "sort out": lambda t: facula.sort(t, out=(t.clone(), facula.zeros(3, 4, dtype=facula.int64) * 1)),
    "generator": lambda t: facula.Generator().set_state(facula.Generator().get_state() * 1).initial_seed(),
    "module": lambda t: nn.Identity()(t),
    "foreach": lambda t: facula._foreach_add([t, t], 1),
    "foreach_": lambda t: (facula._foreach_mul_([t], 2), t)[1],
    "swapaxes of a view": lambda t: t[:, 1:].swapaxes(0, 1).contiguous(),
}


# ---- writes between the call of an op and its run


def ways_to_write():
    from test_writes import IN_PLACE, OUT, in_place_cases, out_cases

    for op in IN_PLACE:
        for i, (target, write) in enumerate(in_place_cases(op)):
            yield f"{op.id}_:{i}", target, write
    for op in OUT:
        for i, (targets, write) in enumerate(out_cases(op)):
            for k in range(len(targets)):
                def write_to(t, write=write, targets=targets, k=k):
                    write([*targets[:k], t, *targets[k + 1:]])

                yield f"{op.id}.out{k}:{i}", targets[k] + 1 if targets[k].dtype != facula.bool else targets[k].logical_not(), write_to


def memory(t):
    return t.detach().resolve_conj().contiguous().view(facula.uint8).numpy().tobytes() if t.numel() else b""


def writes():
    """Reads that wait must give what memory held at the call, however it is written afterwards."""
    failures, waited, cases = [], 0, 0
    warnings.simplefilter("ignore")
    facula.manual_seed(0)

    def check(name, target, write):
        nonlocal waited, cases
        owned = facula.empty_strided(target.shape, target.stride(), dtype=target.dtype).copy_(target.detach())
        before = memory(owned.clone())
        late, part = owned.clone(), owned.flatten()[:1].clone()
        waited += is_deferred(late)
        cases += 1
        write(owned)
        if memory(late) != before or memory(part) != before[:owned.element_size()]:
            failures.append(name)

    for name, target, write in ways_to_write():
        check(name, target, write)
    for name, write in WRITES.items():
        check(name, facula.arange(6.0).reshape(2, 3), write)
        check(name + " (of a deferred tensor)", facula.arange(6.0).reshape(2, 3) * 1, write)
    print(json.dumps({"cases": cases, "waited": waited, "failures": failures}))


def by_another_thread(t):
    thread = threading.Thread(target=lambda: t.mul_(2))
    thread.start()
    thread.join()


def by_backward(t):
    p = nn.Parameter(t)
    (p * 2).sum().backward()
    p.grad = facula.ones_like(p)
    facula.optim.SGD([p], lr=0.1).step()


def by_address(t):
    ctypes.memset(t.data_ptr(), 7, t.numel() * t.element_size())


def by_array(t):
    t.numpy()[...] = 9


def by_storage(t):
    t.untyped_storage().fill_(3)


def by_buffer(t):
    np.frombuffer(memoryview(t), np.float32)[...] = 4


def by_dlpack(t):
    facula.from_dlpack(t).fill_(4)


def by_running_statistics(t):
    F.batch_norm(facula.randn(5, 3), t[0], t[1], training=True)


def by_resize(t):
    t.untyped_storage().resize_(0)
    t.untyped_storage().resize_(64)


WRITES = {
    "view": lambda t: t.view(-1).mul_(2),
    "row": lambda t: t[0].fill_(9),
    "transposed": lambda t: t.t().add_(1),
    "alias": lambda t: t.detach().zero_(),
    "data": lambda t: t.data.zero_(),
    "setitem": lambda t: t.__setitem__((slice(None), 1), 5),
    "mask": lambda t: t.__setitem__(t > 1, 5),
    "index_put": lambda t: t.index_put_((facula.tensor([0]),), facula.tensor(3.0)),
    "copy_": lambda t: t.copy_(facula.ones(2, 3)),
    "out": lambda t: facula.mul(t, 2, out=t),
    "matmul out": lambda t: facula.mm(facula.ones(2, 2), facula.ones(2, 3), out=t),
    "set_data": lambda t: setattr(t, "data", facula.zeros(2, 3)),
    "set_": lambda t: t.set_(facula.zeros(2, 3)),
    "foreach": lambda t: facula._foreach_mul_([t], 2),
    "init": lambda t: nn.init.constant_(t, 2),
    "random": lambda t: t.normal_(),
    "thread": by_another_thread,
    "optimizer": by_backward,
    "address": by_address,
    "array": by_array,
    "storage": by_storage,
    "buffer": by_buffer,
    "dlpack": by_dlpack,
    "statistics": by_running_statistics,
    "resize": by_resize,
}


def threads():
    """Threads that make, drop, view and write what others wait for."""
    failures = []
    base = facula.arange(64.0)
    base.sum().item()

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(150):
            x = shared[rng.integers(len(shared))]
            y = (x * 2 + 1).view(8, 8)[1:, ::2]
            if rng.random() < 0.3:
                y = y.t()
            total = (y - y.clone()).abs().sum().item()
            if total != 0:
                failures.append(total)

    shared = [base + i for i in range(8)]
    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for i in range(200):
        shared[i % len(shared)] = base * (i % 7) + i
    for worker in workers:
        worker.join()
    expected = [(base * (i % 7) + i).tolist() for i in range(192, 200)]
    if [shared[i % 8].tolist() for i in range(192, 200)] != expected:
        failures.append("values")
    chain = base
    for _ in range(5000):
        chain = chain + 1
    if chain.tolist() != (base + 5000).tolist():
        failures.append("chain")
    print(json.dumps({"failures": failures, "deferrals": facula._C._deferrals()}))


if __name__ == "__main__":
    assert inspect.isfunction(globals()[sys.argv[1]])
    globals()[sys.argv[1]]()
