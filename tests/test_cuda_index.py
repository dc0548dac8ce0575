"""Indexing, random numbers and optimizers on the emulated CUDA device, beyond what the samples of ops cover."""

import os
import subprocess
import sys

import pytest

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FACULA_CUDA": "emulated"}
START = "import numpy as np, facula\nd = 'cuda'\n"


def child(program, **extra):
    run = subprocess.run([sys.executable, "-c", START + program], env={**ENV, **extra}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


SCATTERS = """
rng = np.random.default_rng(0)
for count, size, inner in ((9000, 13, 1), (9000, 70000, 1), (300, 7, 40)):
    at, values = rng.integers(0, size, count), rng.integers(-9, 9, (count, inner)).astype('float64')
    there = facula.tensor(at).to(d)
    for name, ufunc, start in (('amax', np.maximum, -3.0), ('amin', np.minimum, 3.0), ('sum', np.add, 1.0)):
        expected = np.full((size, inner), start)
        ufunc.at(expected, at, values)
        full = facula.full((size, inner), start, dtype=facula.float64, device=d)
        made = full.scatter_reduce(0, there[:, None].expand(count, inner), facula.tensor(values).to(d), name)
        assert np.array_equal(made.cpu().numpy(), expected), (count, size, inner, name)
mask = rng.random(5001) < 0.4
chosen = facula.tensor(mask).to(d)
assert np.array_equal(facula.nonzero(chosen).cpu().numpy()[:, 0], np.nonzero(mask)[0])
assert np.array_equal(facula.arange(5001, device=d)[chosen].cpu().numpy(), np.nonzero(mask)[0])
order = facula.randperm(9000, device=d).cpu().numpy()
assert np.array_equal(np.sort(order), np.arange(9000)) and not np.array_equal(order, np.arange(9000))
"""


@pytest.mark.parametrize("extra", [{}, {"FACULA_EMULATED_MODE": "lazy"}, {"FACULA_EMULATED_ORDER": "reverse"},
                                   {"FACULA_EMULATED_ORDER": "random"}], ids=str)  # fmt: skip
def test_scatters_and_selections_do_not_depend_on_the_order_of_threads(extra):
    child(SCATTERS, **extra)


ERRORS = """
x = facula.arange(4.0, device=d)
def message(f):
    try:
        f().cpu()
    except Exception as error:
        assert x.sum().item() == 6  # told once
        return f'{type(error).__name__}: {error}'
at = lambda *i: facula.tensor(i, device=d)
print(message(lambda: x[at(0, 4)]))
print(message(lambda: x.index_add(0, at(-5), facula.ones(1, device=d))))
print(message(lambda: x.clone().index_put_((at(1, 9),), facula.ones(2, device=d))))
print(message(lambda: x.repeat_interleave(at(1, 1, -1, 1))))
print(message(lambda: facula.multinomial(-x, 1)))
print(message(lambda: facula.normal(x, -x)))
"""


def test_bad_values_are_reported_when_the_host_waits():
    lines = child(ERRORS).splitlines()
    assert lines[0].startswith("IndexError: index: index 4 is out of range for a dimension of size 4")
    assert "-5" in lines[1] and "size 4" in lines[1]
    assert lines[2].startswith("IndexError: ") and "9" in lines[2]
    assert lines[3].startswith("RuntimeError: repeat_interleave: repeats must not be negative")
    assert lines[4].startswith("RuntimeError: multinomial: weights must be finite and not negative, got -")
    assert lines[5].startswith("RuntimeError: normal: every std must not be negative, got -")


def test_a_launch_waits_where_that_is_asked_for():
    program = """
x = facula.arange(4.0, device=d)
try:
    x[facula.tensor([9], device=d)]
except IndexError as error:
    print(error)
assert x.sum().item() == 6
"""
    assert child(program, CUDA_LAUNCH_BLOCKING="1").startswith("index: index 9 is out of range for a dimension of size 4")


def test_errors_name_the_op_that_runs_and_none_that_ran():
    program = """
x = facula.ones(4, device=d).exp()
facula.cuda.synchronize()
facula.cuda.set_per_process_memory_fraction(0.001)
for f in (lambda: facula.empty(1 << 30, device=d), lambda: facula.ones(8 << 20, device='cpu').to(d)):
    try:
        f()
    except facula.cuda.OutOfMemoryError as error:
        print(str(error).splitlines()[0])
"""
    assert [line.split(":")[0] for line in child(program).splitlines()] == ["empty", "empty"]


def test_handles_that_are_none():
    child("""
import pytest
for stream in (-1, 1 << 64):
    with pytest.raises(OverflowError):
        facula._C._cuda_set_stream(0, stream)
with pytest.raises(ValueError):
    facula._C._cuda_query_event(object())
with pytest.raises(ValueError):
    facula._C._cuda_graph_replay(object())
""")


RANDOM = """
facula.manual_seed(0)
first = facula.rand(3, device=d).cpu().numpy()
assert np.allclose(first, [0.3990, 0.5167, 0.0249], atol=1e-4), first  # Philox with seed 0, threads 0 to 2
n = 40000
def close(t, mean, variance):
    t = t.cpu().double().numpy()
    assert abs(t.mean() - mean) < 6 * (variance / n) ** 0.5, (t.mean(), mean)
    assert abs(t.var() / variance - 1) < 0.15, (t.var(), variance)
for dtype in (facula.float32, facula.float64, facula.float16):
    full = lambda v: facula.full((n,), v, dtype=dtype, device=d)
    new = full(0.0)
    close(new.uniform_(-1, 3), 1, 16 / 12)
    close(new.normal_(2, 3), 2, 9)
    close(new.exponential_(2), 0.5, 0.25)
    close(new.geometric_(0.25), 4, 12)
    close(new.bernoulli_(0.3), 0.3, 0.21)
    close(facula.bernoulli(full(0.7)), 0.7, 0.21)
    close(facula.poisson(full(3.0)), 3, 3)
    close(facula.poisson(full(30.0)), 30, 30)
    close(facula.binomial(full(100.0), full(0.25)), 25, 18.75)
    close(facula.binomial(full(10.0), full(0.75)), 7.5, 1.875)
    close(facula._C._standard_gamma(full(2.5)) if hasattr(facula._C, '_standard_gamma') else facula._standard_gamma(full(2.5)), 2.5, 2.5)
weights = facula.tensor([1.0, 0, 3, 6], device=d)
counts = np.bincount(facula.multinomial(weights, n, True).cpu().numpy(), minlength=4)
assert np.abs(counts / n - [0.1, 0, 0.3, 0.6]).max() < 0.02, counts
drawn = facula.multinomial(weights.expand(2000, 4), 3).cpu().numpy()
assert (np.sort(drawn, 1) == [0, 2, 3]).all()
assert np.abs(np.bincount(drawn[:, 0], minlength=4) / 2000 - [0.1, 0, 0.3, 0.6]).max() < 0.05
g = facula.Generator(device=d)
g.manual_seed(3)
state = g.get_state()
a, b = facula.rand(1000, generator=g, device=d), facula.rand(1000, generator=g, device=d)
g.set_state(state)
assert facula.equal(a, facula.rand(1000, generator=g, device=d)) and not facula.equal(a, b)
"""


def test_random_numbers():
    child(RANDOM)


OPTIMIZERS = """
from facula import optim
def run(device, kind, **options):
    p = facula.arange(12.0).reshape(3, 4).sub(5).to(device).requires_grad_()
    optimizer = getattr(optim, kind)([p], **options)
    for _ in range(3):
        optimizer.zero_grad()
        (p ** 3).sum().backward()
        optimizer.step()
    return p.detach().cpu().numpy()
for kind, options in [('SGD', {'lr': 0.01, 'momentum': 0.9, 'nesterov': True, 'weight_decay': 0.1}), ('Adam', {}),
                      ('Adam', {'amsgrad': True}), ('AdamW', {}), ('Adamax', {}), ('NAdam', {}), ('RAdam', {}), ('Adagrad', {}),
                      ('Adadelta', {}), ('RMSprop', {}), ('RMSprop', {'centered': True}),
                      ('RMSprop', {'centered': True, 'momentum': 0.9}), ('Rprop', {}), ('ASGD', {})]:
    assert np.allclose(run('cpu', kind, **options), run(d, kind, **options), rtol=1e-5), (kind, options)
"""


def test_optimizers():
    child(OPTIMIZERS)


MANY_PARAMETERS = """
from facula import optim
rng = np.random.default_rng(0)
# more than one launch takes; empty ones; of several blocks; strided, complex and half ones; views of one storage
arrays = [rng.standard_normal(n) for n in [*range(150), 5000, 9000]] + [rng.standard_normal(7) + 1j * rng.standard_normal(7)]
half, strided, shared = rng.standard_normal(33), rng.standard_normal((6, 8)), rng.standard_normal(20)
def run(device, make):
    at = lambda a: facula.tensor(a, device=device)
    whole = at(shared)
    leaves = [at(a) for a in arrays] + [at(half).half(), at(strided).t()[::2], whole[:10], whole[10:]]
    params = [leaf.requires_grad_() for leaf in leaves]
    optimizer = make(params)
    for step in range(3):
        for i, p in enumerate(params):
            p.grad = None if step == 1 and i % 3 == 0 else facula.ones_like(p) * (step - 1.5)
        optimizer.step()
    return [p.detach().cpu().resolve_conj().numpy() for p in params]
for make in (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.SGD(p, lr=0.1), lambda p: optim.AdamW(p, lr=0.1),
             lambda p: optim.Adam(p, lr=0.1, amsgrad=True)):
    for cpu, there in zip(run('cpu', make), run(d, make)):
        assert np.allclose(cpu, there, rtol=1e-3 if cpu.dtype == np.float16 else 1e-6, atol=1e-3 if cpu.dtype == np.float16 else 1e-9)
p = facula.ones(4, device=d).requires_grad_()
q = facula.ones(4, device=d).requires_grad_()
p.grad, q.grad = facula.ones(4, device=d), facula.ones(4, device=d)
optimizer = optim.Adam([p, q], lr=0.1)
optimizer.step()
optimizer.state[q]['exp_avg'] = 3
try:
    optimizer.step()
except TypeError as error:
    assert 'exp_avg' in str(error)
assert p.sum().item() < 4 * 0.85 < q.sum().item() < 4  # the first one had its step
"""


def test_optimizers_of_many_parameters():
    child(MANY_PARAMETERS)


INDICES_ON_THE_HOST = """
import pytest
x, c = facula.arange(12.0).reshape(3, 4).to(d).requires_grad_(), facula.arange(12.0).reshape(3, 4)
i, mask = facula.arange(3), facula.tensor([True, False, True])
for index in (i, (i, i), (range(3), i), mask, [0, 2], (slice(None), [1, 1]), (i.to(d), [2, 1, 0])):
    plain = tuple(k.cpu() if isinstance(k, facula.Tensor) else k for k in index) if isinstance(index, tuple) else index
    got = x[index]
    assert got.device.type == "cuda" and facula.equal(got.cpu(), c[plain])
    a, b = x.detach().clone(), c.clone()
    a[index], b[plain] = 5.0, 5.0
    assert facula.equal(a.cpu(), b)
    a[index], b[plain] = facula.tensor(7.0), 7.0
    assert facula.equal(a.cpu(), b)
x[[0, 2]].sum().backward()
assert facula.equal(x.grad.cpu()[:, 0], facula.tensor([1.0, 0.0, 1.0]))
for f in (lambda: c[i.to(d)], lambda: x.detach().index_put_((i,), c)):
    with pytest.raises(RuntimeError, match="device"):
        f()
"""


def test_indices_may_be_on_the_host():
    child(INDICES_ON_THE_HOST)
