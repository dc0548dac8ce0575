"""Generators of CUDA devices: their states, offsets, devices and graphs."""

import pytest
from cuda_random_draws import results

GENERATORS = """
draws = {
    "rand": lambda g, d: t.rand(5000, device=d, generator=g), "randn": lambda g, d: t.randn(7, device=d, generator=g),
    "poisson": lambda g, d: t.poisson(t.full((50,), 30.0, device=d), generator=g),
    "gamma": lambda g, d: t._standard_gamma(t.full((50,), 0.5, device=d), generator=g),
    "binomial": lambda g, d: t.binomial(t.full((50,), 30.0, device=d), t.full((50,), 0.5, device=d), generator=g),
    "bernoulli": lambda g, d: t.bernoulli(t.full((50,), 0.5, device=d), generator=g),
    "multinomial": lambda g, d: t.multinomial(t.ones(4, 9, device=d), 20, True, generator=g),
    "without": lambda g, d: t.multinomial(t.ones(4, 9, device=d), 5, generator=g),
    "randperm": lambda g, d: t.randperm(50, device=d, generator=g),
    "rrelu": lambda g, d: t.rrelu(-t.ones(50, device=d), training=True, generator=g),
    "dirichlet": lambda g, d: t._sample_dirichlet(t.ones(5, 3, device=d), generator=g),
}
g = t.Generator(d)
g.manual_seed(99)
repeats, other, apart, states = {}, {}, {}, {}
t.rand(3, device=d, generator=g)
for name, draw in draws.items():
    state, offset = g.get_state(), g.get_offset()
    first, after = draw(g, d).tolist(), g.get_offset()
    second = draw(g, d).tolist()
    g.set_state(state)
    again = draw(g, d).tolist()
    g.set_offset(offset)
    repeats[name] = first == again == draw(g, d).tolist() and g.get_offset() == after and after > offset and after % 4 == 0
    apart[name] = first != second
    h = t.Generator("cuda:1").manual_seed(99)
    h.set_offset(offset)
    other[name] = draw(h, "cuda:1").tolist() == first
    states[name] = h.get_offset() == after and g.clone_state().get_offset() == after
out["repeats"], out["apart"], out["other"], out["states"] = repeats, apart, other, states
t.manual_seed(5)
first = [t.rand(9, device=f"cuda:{i}").tolist() for i in (0, 1)]
before = t.cuda.get_rng_state(1)
t.rand(9, device="cuda:0")
t.cuda.manual_seed(5)
out["current"] = [t.rand(9, device="cuda:0").tolist() == first[0], t.cuda.get_rng_state(1).tolist() == before.tolist()]
t.cuda.manual_seed_all(5)
out["all"] = [t.rand(9, device=f"cuda:{i}").tolist() for i in (0, 1)] == first and first[0] == first[1]
try:
    t.rand(3, device="cuda:1", generator=g)
except RuntimeError as error:
    out["wrong device"] = str(error)
"""


@pytest.fixture(scope="module")
def generators():
    import facula

    if facula.cuda.is_available() and facula.cuda.device_count() < 2:
        pytest.skip("two devices")
    return results(GENERATORS, FACULA_EMULATED_DEVICES="2")


def test_states_and_offsets_bring_every_draw_back(generators):
    for what in ("repeats", "apart", "states"):
        assert all(generators[what].values()), (what, generators[what])


def test_devices_have_generators_of_their_own(generators):
    assert all(generators["other"].values()), generators["other"]
    assert generators["current"] == [True, True]
    assert generators["all"]
    assert "cuda:1" in generators["wrong device"]


GRAPHS = """
own = t.Generator(device=d)
x, rates = t.ones(1001, device=d), t.full((300,), 20.0, device=d)
def draw():
    return (
        F.dropout(x, 0.3), t.poisson(rates, generator=own), t.randperm(500, device=d, generator=own), t.bernoulli(x * 0.5),
        t._standard_gamma(x, generator=own), t.multinomial(x, 50, True), t.multinomial(x, 50), t.binomial(rates, rates / 100),
        t.empty(100, device=d).log_normal_(), F.rrelu(-x, training=True), t.randint(0, 9, (77,), device=d, generator=own),
    )
def seed():
    t.manual_seed(11), own.manual_seed(12)
seed()
eager = []
for _ in range(3):
    eager.append([[v.tolist() for v in draw()], own.get_offset(), default.get_offset()])
graph = t.cuda.CUDAGraph()
graph.register_generator_state(own)
with t.cuda.graph(graph):
    made = draw()
seed()
replayed = []
for _ in range(3):
    graph.replay()
    replayed.append([[v.tolist() for v in made], own.get_offset(), default.get_offset()])
out["same"] = [[a == b for a, b in zip(e[0], r[0])] for e, r in zip(eager, replayed)]
out["offsets"] = [e[1:] == r[1:] for e, r in zip(eager, replayed)]
out["apart"] = [a != b for a, b in zip(eager[0][0], eager[1][0])]
"""


@pytest.mark.parametrize("mode", ({}, {"FACULA_EMULATED_MODE": "lazy"}), ids=("async", "lazy"))
def test_replays_go_on_like_eager_draws(mode):
    found = results(GRAPHS, **mode)
    assert all(all(row) for row in found["same"]), found["same"]
    assert found["offsets"] == [True] * 3
    assert all(found["apart"])


CHECKPOINTS = """
from facula.utils.checkpoint import checkpoint, get_device_states, set_device_states
x = t.ones(3000, device="cuda:0", requires_grad=True)
y = t.ones(3000, device="cuda:1")
def f(x):
    return F.dropout(x.exp(), 0.5) + F.dropout(y.exp(), 0.5).to("cuda:0") * x
for reentrant in (True, False):
    t.manual_seed(3)
    made = checkpoint(f, x, use_reentrant=reentrant)
    t.rand(5, device="cuda:0"), t.rand(9, device="cuda:1")
    before = [s.tolist() for s in t.cuda.get_rng_state_all()]
    made.sum().backward()
    restored = before == [s.tolist() for s in t.cuda.get_rng_state_all()]
    t.manual_seed(3)
    expected, = t.autograd.grad(f(x).sum(), x)
    out[f"reentrant {reentrant}"] = bool(t.equal(x.grad, expected)) and restored
    x.grad = None
devices, states = get_device_states(x, [y, {"a": t.ones(1)}])
out["devices"] = devices
first = t.rand(4, device="cuda:1").tolist()
set_device_states(devices, states)
out["again"] = first == t.rand(4, device="cuda:1").tolist()
"""


def test_checkpoints_restore_every_device():
    import facula

    if facula.cuda.is_available() and facula.cuda.device_count() < 2:
        pytest.skip("two devices")
    found = results(CHECKPOINTS, FACULA_EMULATED_DEVICES="2")
    assert found["reentrant True"] and found["reentrant False"] and found["devices"] == [0, 1] and found["again"]


FUTURES = """
future = t.futures.Future(devices=["cuda:0"])
side, event = t.cuda.Stream(), None
with t.cuda.stream(side):
    future.set_result([t.full((1000,), 3.0, device="cuda") * 2])
out["value"] = future.wait()[0].sum().item()
doubled = future.then(lambda f: f.value()[0] * 2)
out["then"] = doubled.wait().sum().item()
def refused(call):
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
out["cpu"] = refused(lambda: t.futures.Future(devices=["cpu"]))
out["number"] = refused(lambda: t.futures.Future(devices=["cuda:7"]))
out["elsewhere"] = refused(lambda: t.futures.Future(devices=["cuda:0"]).set_result(t.ones(1, device="cuda:1")))
"""


def test_futures_of_values_on_devices():
    found = results(FUTURES, FACULA_EMULATED_DEVICES="2")
    assert found["value"] == 6000.0 and found["then"] == 12000.0
    assert found["cpu"].startswith("ValueError: Future: ") and found["number"].startswith("RuntimeError: Future: ")
    assert found["elsewhere"].startswith("ValueError: Future.set_result: ")
