"""What tests/test_defer.py runs in processes of their own, with and without FACULA_DEFER.

    python tests/deferred_cases.py values|doors|writes|threads
"""

from __future__ import annotations

import hashlib
import json
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
        strides = tuple(value.stride())
        version = None if value.is_inference() else value._version
        shape = (tuple(value.shape), strides, str(value.dtype), value.requires_grad, version, value.storage_offset())
        plain = value.detach().resolve_conj()
        raw = bytes(plain.reshape(-1).contiguous().view(facula.uint8).numpy().tobytes()) if plain.numel() else b""
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
                    found.append(digest(facula.autograd.grad(total, leaves, allow_unused=True)))
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
        lambda: facula.ones(3).add_(facula.ones(2, 3) * 1),
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


# ---- threads


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
    sys.modules["deferred_cases"] = sys.modules["__main__"]
    import deferred_doors

    what = sys.argv[1]
    (globals().get(what) or getattr(deferred_doors, what))()
