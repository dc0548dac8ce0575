"""Random numbers: PyTorch's own values for a seed, distributions, errors, and the dropout family."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

import facula as torch

GOLDEN = json.loads((Path(__file__).parent / "data" / "rng_golden.json").read_text())


def element_bytes(tensor):
    """The bytes of the elements in logical order; bfloat16 has no NumPy dtype and goes as its bits."""
    t = tensor.contiguous()
    if t.dtype == torch.bfloat16:
        t = t.view(torch.int16)
    return t.numpy().tobytes()


def evaluate(row):
    torch.manual_seed(row["seed"])
    return eval(row["call"], {"torch": torch})


@pytest.mark.parametrize("row", GOLDEN["values"], ids=lambda r: f"{r['seed']}-{r['call']}")
def test_golden_values(row):
    result = evaluate(row)
    assert str(result.dtype).removeprefix("torch.") == row["dtype"]
    assert list(result.shape) == row["shape"]
    data = element_bytes(result)
    size = len(data) // max(result.numel(), 1)
    first = [data[i * size : (i + 1) * size].hex() for i in range(len(row["first"]))]
    assert first == row["first"]
    if "sha256" in row:
        assert hashlib.sha256(data).hexdigest() == row["sha256"]


@pytest.mark.parametrize("row", GOLDEN["states"], ids=lambda r: f"seed {r['seed']} {r['call']}")
def test_golden_states(row):
    torch.manual_seed(row["seed"])
    if row["call"]:
        eval(row["call"], {"torch": torch})
    assert hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest() == row["sha256"]


def test_generator_argument():
    def generator():
        return torch.Generator().manual_seed(3)

    state = torch.get_rng_state()
    makers = [
        lambda g: torch.rand(20, generator=g), lambda g: torch.randn(20, generator=g),
        lambda g: torch.randint(9, (20,), generator=g), lambda g: torch.randint(2, 9, (20,), generator=g),
        lambda g: torch.randperm(20, generator=g), lambda g: torch.normal(0.0, 1.0, (20,), generator=g),
        lambda g: torch.normal(torch.zeros(20), 2.0, generator=g),
        lambda g: torch.normal(1.0, torch.ones(20), generator=g),
        lambda g: torch.bernoulli(torch.full((20,), 0.5), generator=g),
        lambda g: torch.multinomial(torch.ones(30), 20, generator=g),
        lambda g: torch.poisson(torch.full((20,), 3.0), generator=g),
        lambda g: torch.binomial(torch.full((20,), 9.0), torch.full((20,), 0.4), generator=g),
        lambda g: torch.zeros(20).normal_(generator=g), lambda g: torch.zeros(20).uniform_(2, 3, generator=g),
        lambda g: torch.zeros(20).random_(generator=g), lambda g: torch.zeros(20).bernoulli_(0.3, generator=g),
        lambda g: torch.zeros(20).exponential_(generator=g), lambda g: torch.zeros(20).cauchy_(generator=g),
        lambda g: torch.zeros(20).geometric_(0.2, generator=g), lambda g: torch.zeros(20).log_normal_(generator=g),
    ]  # fmt: skip
    for make in makers:
        a, b = make(generator()), make(generator())
        assert a.numpy().tobytes() == b.numpy().tobytes()
        g = generator()
        assert make(g).numpy().tobytes() != make(g).numpy().tobytes()
    assert torch.equal(torch.get_rng_state(), state)


def test_moments():
    torch.manual_seed(1)
    n = 100_000
    x = torch.randn(n, dtype=torch.float64).numpy()
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02
    u = torch.rand(n).numpy()
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
    p = torch.poisson(torch.full((n,), 20.0)).numpy()
    assert abs(p.mean() - 20) < 0.1 and abs(p.var() - 20) < 0.6
    p = torch.poisson(torch.full((n,), 2.0)).numpy()
    assert abs(p.mean() - 2) < 0.05 and abs(p.var() - 2) < 0.1
    for prob in (0.02, 0.4, 0.9):
        b = torch.binomial(torch.full((n,), 50.0), torch.full((n,), prob)).numpy()
        assert abs(b.mean() - 50 * prob) < 0.1 and abs(b.var() - 50 * prob * (1 - prob)) < 0.5
        assert b.min() >= 0 and b.max() <= 50
    e = torch.zeros(n).exponential_(2.0).numpy()
    assert abs(e.mean() - 0.5) < 0.01
    g = torch.zeros(n, dtype=torch.int64).geometric_(0.25).numpy()
    assert abs(g.mean() - 4) < 0.1 and g.min() >= 1


def test_randperm_and_ranges():
    assert sorted(torch.randperm(1000).tolist()) == list(range(1000))
    assert torch.randperm(0).shape == (0,)
    r = torch.randint(-3, 4, (5000,))
    assert r.min().item() == -3 and r.max().item() == 3
    assert torch.randint(5, (3,), dtype=torch.float32).dtype == torch.float32
    x = torch.zeros(4000, dtype=torch.uint8).random_()
    assert x.max().item() > 250
    low = torch.zeros(100, dtype=torch.int64).random_(-(2**63), None)
    assert (low < 0).any().item()


def test_memory_order_of_targets():
    """A dense tensor is filled in the order in which its elements lie."""
    torch.manual_seed(0)
    flat = torch.rand(12)
    torch.manual_seed(0)
    turned = torch.zeros(4, 3).t().uniform_()
    np.testing.assert_array_equal(turned.t().numpy().ravel(), flat.numpy())
    torch.manual_seed(0)
    gaps = torch.zeros(12, 2)[:, 0].uniform_()
    np.testing.assert_array_equal(gaps.numpy(), flat.numpy())


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: torch.zeros(3).uniform_(1, 0), RuntimeError),
        (lambda: torch.zeros(3).normal_(0, -1), RuntimeError),
        (lambda: torch.zeros(3).exponential_(0), RuntimeError),
        (lambda: torch.zeros(3).geometric_(0), RuntimeError),
        (lambda: torch.zeros(3).cauchy_(0, -1), RuntimeError),
        (lambda: torch.zeros(3).log_normal_(0, -1), RuntimeError),
        (lambda: torch.zeros(3).random_(5, 5), RuntimeError),
        (lambda: torch.zeros(3, dtype=torch.int8).random_(0, 300), RuntimeError),
        (lambda: torch.zeros(3, dtype=torch.int64).uniform_(), NotImplementedError),
        (lambda: torch.zeros(3, dtype=torch.int64).normal_(), NotImplementedError),
        (lambda: torch.zeros(3, dtype=torch.int64).exponential_(), RuntimeError),
        (lambda: torch.zeros(3).bernoulli_(1.5), RuntimeError),
        (lambda: torch.bernoulli(torch.zeros(3, dtype=torch.int64)), NotImplementedError),
        (lambda: torch.randperm(-1), RuntimeError),
        (lambda: torch.randperm(300, dtype=torch.int8), RuntimeError),
        (lambda: torch.randint(5, 2, (3,)), RuntimeError),
        (lambda: torch.poisson(torch.tensor([-1.0])), RuntimeError),
        (lambda: torch.multinomial(torch.tensor([1.0, 2.0]), 3), RuntimeError),
        (lambda: torch.multinomial(torch.tensor([1, 2]), 1), RuntimeError),
        (lambda: torch.multinomial(torch.tensor([-1.0, 2.0]), 1), RuntimeError),
        (lambda: torch.normal(torch.zeros(3), torch.tensor(-1.0)), RuntimeError),
        (lambda: torch.dropout(torch.ones(3), 1.5, True), RuntimeError),
        (lambda: torch.feature_dropout(torch.ones(3), 0.5, True), RuntimeError),
        (lambda: torch.zeros(3).expand(2, 3).uniform_(), RuntimeError),
    ],
)
def test_errors(call, error):
    with pytest.raises(error):
        call()


def test_fill_ends_history():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad is None or x.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError):
        x.normal_()


def test_normal_gradients_are_zero():
    mean, std = torch.zeros(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.normal(mean, std).sum().backward()
    assert mean.grad.tolist() == [[0, 0, 0]] * 2 and std.grad.tolist() == [0, 0, 0]
    p = torch.full((4,), 0.5, requires_grad=True)
    torch.bernoulli(p).sum().backward()
    assert p.grad.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"])
def test_dropout_family(name):
    x = torch.ones(8, 6, 5, dtype=torch.float64, requires_grad=True)
    f = getattr(torch, name)
    assert f(x, 0.3, False) is x or torch.equal(f(x, 0.3, False), x)
    assert f(x, 1.0, True).abs().sum().item() == 0
    y = f(x, 0.3, True)
    assert len(np.unique(y.detach().numpy().round(12))) == 2
    if "feature" in name:
        assert (y == y[:, :, :1]).all().item()
    (grad,) = torch.autograd.grad(y.sum(), x)
    kept = y.detach().numpy() == y.detach().numpy().max()
    p, limit = 0.3, 1.7580993408473766
    factor = 1 / math.sqrt((limit**2 * p + 1) * (1 - p)) if "alpha" in name else 1 / (1 - p)
    np.testing.assert_allclose(grad.numpy(), np.where(kept, factor, 0))
    torch.manual_seed(5)
    expected = f(x.detach(), 0.3, True)
    torch.manual_seed(5)
    z = x.detach().clone()
    assert getattr(torch, name + "_")(z, 0.3, True) is z
    np.testing.assert_array_equal(z.numpy(), expected.numpy())


def test_native_dropout():
    x = torch.ones(1000)
    y, mask = torch.native_dropout(x, 0.25, True)
    assert mask.dtype == torch.bool
    np.testing.assert_allclose(y.numpy(), mask.numpy() / 0.75, rtol=1e-6)
    y, mask = torch.native_dropout(x, 0.25, False)
    assert mask.all().item() and torch.equal(y, x)


def test_native_dropout_draws_in_the_order_of_memory():
    x = torch.ones(4, 6, 5).permute(2, 0, 1)
    torch.manual_seed(5)
    result, mask = torch.native_dropout(x, 0.4, True)
    torch.manual_seed(5)
    assert mask.stride() == x.stride() and torch.equal(result, torch.nn.functional.dropout(x, 0.4))


def test_rrelu():
    x = torch.linspace(-2, 2, 401, dtype=torch.float64, requires_grad=True)
    y = torch.rrelu(x, 0.1, 0.3, True)
    slope = (y / x).detach().numpy()
    negative = x.detach().numpy() < 0
    slope = slope[negative]
    assert (slope >= 0.1 - 1e-12).all() and (slope <= 0.3 + 1e-12).all() and slope.std() > 0.03
    np.testing.assert_allclose(y.detach().numpy()[~negative], x.detach().numpy()[~negative])
    y = torch.rrelu(x, 0.1, 0.3)
    np.testing.assert_allclose(y.detach().numpy()[negative], 0.2 * x.detach().numpy()[negative])
    with pytest.raises(RuntimeError):
        torch.rrelu(x, 0.5, 0.1, True)


def test_multinomial():
    weights = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 2.0]])
    many = torch.multinomial(weights, 20_000, replacement=True).numpy()
    share = [np.bincount(row, minlength=3) / 20_000 for row in many]
    np.testing.assert_allclose(share, [[0, 0.75, 0.25], [0.5, 0, 0.5]], atol=0.02)
    assert sorted(torch.multinomial(torch.ones(10), 10).tolist()) == list(range(10))


def test_like_functions_and_out():
    x = torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for f in (torch.rand_like, torch.randn_like, lambda t: torch.randint_like(t, 9)):
        assert f(x).stride() == x.stride() and f(x).dtype == x.dtype
    assert torch.rand_like(x, dtype=torch.float64).dtype == torch.float64
    out = torch.zeros(6)
    torch.manual_seed(2)
    assert torch.rand(2, 3, out=out.view(2, 3)).shape == (2, 3)
    torch.manual_seed(2)
    np.testing.assert_array_equal(torch.rand(6).numpy(), out.numpy())


def test_integers_beyond_the_significand():
    """PyTorch moves an end only where rounding would pass it."""
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="to - 1"):
        assert torch.randint(0, 2**24 + 50, (3,), dtype=torch.float32).tolist() == [8318804, 12881073, 1475255]
    with pytest.warns(UserWarning, match="from|to - 1"):
        x = torch.zeros(1000, dtype=torch.float16).random_(-3000, 3000)
    assert x.min().item() >= -3000 and x.max().item() <= 3000
