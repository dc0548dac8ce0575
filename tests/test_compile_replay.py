"""Calls that are made step by step, without the interpreter, give what Python gives, whatever has changed since they were prepared."""

import contextlib
import gc
import weakref
from random import Random

import compile_cases_modules  # noqa: F401  which adds its cases
import compile_cases_tensors  # noqa: F401
import pytest
from compile_cases import CASES
from compile_cases_replay import CASES as CHANGES
from compile_cases_replay import TRUSTED
from test_compile_impure import CALLS, frozen, plain, trace

import facula
from facula.compiler import _looks
from facula.compiler._replay import trusted


@pytest.fixture
def at_once(monkeypatch):
    """Steps are used wherever there are any, from the second call on."""
    monkeypatch.setattr(_looks, "always_replays", True)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [(6, 4), (128, 96)], ids=["few", "many"])
def test_effects_of_impure_functions_are_those_of_eager_calls(name, size, at_once):
    eager, compiled = trace(CASES[name], size, plain), trace(CASES[name], size, facula.compile)
    assert [i for i in range(CALLS) if eager[i] != compiled[i]] == []


def results(case, compile):
    """What a case gives, until it raises."""
    facula.manual_seed(3)
    found, steps = [], case(compile)
    while True:
        try:
            found.append(frozen(next(steps)))
        except StopIteration:
            return found
        except Exception as error:
            return [*found, (type(error).__name__, str(error))]


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen(name, at_once):
    made = []

    def compile(f):
        made.append(facula.compile(f))
        return made[-1]

    eager, compiled = results(CHANGES[name], plain), results(CHANGES[name], compile)
    assert [i for i, (a, b) in enumerate(zip(eager, compiled, strict=True)) if a != b] == []
    functions = [one.forward if isinstance(one, facula.nn.Module) else one for one in made]
    assert (sum(f.replays for f in functions) > 0) == (name in TRUSTED), [f.settings.not_replayed for f in functions]


# ---- random trees of modules


def _leaf(random, width):
    """A module that keeps (N, width)."""
    nn = facula.nn
    kinds = [
        lambda: nn.Linear(width, width, bias=random.random() < 0.7),
        lambda: random.choice([nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid, nn.ELU, nn.Softplus, nn.Identity, nn.PReLU])(),
        lambda: nn.LayerNorm(width, elementwise_affine=random.random() < 0.7),
        lambda: nn.RMSNorm(width),
        lambda: nn.BatchNorm1d(width),
        lambda: nn.Dropout(0.3),
        lambda: nn.LeakyReLU(0.2, inplace=random.random() < 0.3),
        lambda: nn.Softmax(-1),
        lambda: nn.Sequential(nn.Unflatten(1, (1, width)), nn.Conv1d(1, 2, 3, padding=1), nn.MaxPool1d(2, 2), nn.Flatten()),
    ]
    return random.choice(kinds)()


class Residual(facula.nn.Module):
    def __init__(self, *inner):
        super().__init__()
        self.inner, self.gain = facula.nn.ModuleList(inner), 0.5

    def forward(self, x):
        for layer in self.inner:
            x = x + self.gain * layer(x)
        return x


class Branches(facula.nn.Module):
    def __init__(self, **inner):
        super().__init__()
        self.inner = facula.nn.ModuleDict(inner)
        self.mix = facula.nn.Parameter(facula.randn(len(inner)))

    def forward(self, x):
        total = None
        for i, (name, layer) in enumerate(self.inner.items()):
            one = layer(x) * self.mix[i]
            total = one if total is None else total + one if name != "2" else torch.maximum(total, one)
        return total


torch = facula


def _tree(random, depth, width=8):
    if depth == 0:
        return _leaf(random, width)
    inner = [_tree(random, depth - 1) for _ in range(random.randint(1, 3))]
    kind = random.choice(["sequence", "residual", "branches"])
    if kind == "sequence":
        return facula.nn.Sequential(*inner)
    return Residual(*inner) if kind == "residual" else Branches(**{str(i): one for i, one in enumerate(inner)})


def _change(random, net):
    """One of the things that programs do to a model between calls."""
    nn, leaves = facula.nn, [m for m in net.modules() if not list(m.children())]
    one = random.choice(leaves)
    params = list(one.named_parameters(recurse=False))
    kind = random.randrange(8)
    if kind == 0:
        net.train(not net.training)
    elif kind == 1 and params:
        name, p = random.choice(params)
        setattr(one, name, nn.Parameter(p.detach() + 1))
    elif kind == 2 and params:
        random.choice(params)[1].requires_grad_(random.random() < 0.5)
    elif kind == 3 and hasattr(one, "bias") and isinstance(one, nn.Linear):
        one.bias = None
    elif kind == 4:
        one.register_forward_hook(lambda module, args, result: result * 0.5)
    elif kind == 5 and isinstance(one, nn.Dropout):
        one.p = random.random()
    elif kind == 6 and params:
        with torch.no_grad():
            random.choice(params)[1].mul_(0.9)
    elif kind == 7:
        for m in net.modules():
            if isinstance(m, Residual):
                m.gain = random.random()


def _train(seed, compile):
    """Steps of a random model, each of which is followed by a change; everything that comes out."""
    random = Random(seed)
    facula.manual_seed(seed)
    net = _tree(random, random.randint(0, 3))
    net.train(random.random() < 0.6)
    run, found = compile(net), []
    for _ in range(10):
        for _ in range(2):
            x = facula.randn(random.choice([3, 3, 3, 4]), 8, requires_grad=random.random() < 0.5)
            with torch.set_grad_enabled(random.random() < 0.8):
                try:
                    y = run(x * 1)
                except Exception as error:
                    found.append((type(error).__name__, str(error)))
                    continue
            if y.requires_grad:
                with contextlib.suppress(RuntimeError):  # a value that was written to
                    y.square().sum().backward()
            tensors = [y, x, x.grad, *(p.grad for p in net.parameters()), *net.buffers()]
            found.append([frozen(t) if t is None else frozen(t.clone()) for t in tensors])
            net.zero_grad()
        _change(random, net)
    return found, run


@pytest.mark.parametrize("seed", range(40))
def test_random_models_are_those_of_eager_calls(seed, at_once):
    (eager, _), (compiled, run) = _train(seed, plain), _train(seed, facula.compile)
    assert [i for i, (a, b) in enumerate(zip(eager, compiled, strict=True)) if a != b] == []
    replayed.append(run.forward.replays)


replayed = []


def test_most_calls_of_random_models_are_made_by_steps():
    if replayed:
        assert sum(replayed) > 0.4 * 20 * len(replayed)


# ---- how it comes about


def net():
    nn = facula.nn
    facula.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def test_small_functions_get_steps_when_they_have_passed_for_a_while():
    model, x = net(), facula.randn(2, 4)
    f = facula.compile(lambda x: model(x))
    seen = set()
    for _ in range(700):
        f(x)
        seen.add(f.state)
    assert {"pass", "trial"} <= seen
    assert f.steps is not None
    assert f.replays >= 8


def test_functions_that_are_not_trusted_say_why():
    seen = []
    f = facula.compile(lambda x: seen.append(1) or x)
    for _ in range(700):
        f(facula.ones(2))
    assert (f.state, f.steps, len(seen)) == ("pass", None, 700)
    assert "attribute append" in f.settings.not_replayed


def test_reset_forgets_steps(at_once):
    f = facula.compile(facula.relu)
    f = facula.compile(lambda x: x.relu())
    for _ in range(3):
        f(facula.ones(2))
    assert f.state == "replay"
    f.reset()
    assert (f.state, f.steps) == ("look", None)


def test_steps_that_hold_for_few_calls_are_given_up():
    model, x = facula.nn.Dropout(0.5), facula.randn(2, 4)
    f = facula.compile(lambda x: model(x) if model.training else x)
    for _ in range(520):
        f(x)
    for i in range(60):
        model.train(i % 2 == 0)
        f(x)
    assert f.state == "pass"


def train(compile, optimizer, between=lambda *_: None):
    """Losses, gradients and parameters of some steps, all in one function."""
    facula.manual_seed(5)
    model = net()
    rule = optimizer(model.parameters())
    x, y = facula.randn(8, 4), facula.randn(8, 3)

    def step():
        rule.zero_grad()
        loss = facula.nn.functional.mse_loss(model(x), y)
        loss.backward()
        rule.step()
        return loss

    run, found = compile(step), []
    for i in range(12):
        between(i, model, rule)
        found.append(frozen([run(), *model.parameters(), *(p.grad for p in model.parameters())]))
    return found, run


OPTIMIZERS = {
    "sgd": lambda p: facula.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: facula.optim.Adam(p, lr=0.01),
    "adamw": lambda p: facula.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: facula.optim.RMSprop(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_steps_are_replayed(name, at_once):
    (eager, _), (compiled, run) = train(plain, OPTIMIZERS[name]), train(facula.compile, OPTIMIZERS[name])
    assert run.replays == 11, run.settings.not_replayed
    assert eager == compiled


def hooked_leaf(i, model, rule):
    if i == 4:
        model[0].weight.register_hook(lambda grad: setattr(rule, "step", lambda: None) or grad * 2)


def hooked_accumulation(i, model, rule):
    if i == 4:
        model[0].weight.register_post_accumulate_grad_hook(lambda p: rule.param_groups[0].update(lr=0.5))


def hooked_step(i, model, rule):
    if i == 4:
        rule.register_step_post_hook(lambda rule, args, kwargs: model[0].bias.data.zero_())


def other_rate(i, model, rule):
    rule.param_groups[0]["lr"] = 0.1 / (i + 1)


def patched_step(i, model, rule):
    if i == 4:
        rule.step = lambda: None


def patched_class(i, model, rule):
    class Other(type(rule)):
        def step(self, closure=None):
            pass

    if i == 4:
        rule.__class__ = Other


def scheduled(i, model, rule):
    if i == 4:
        rule.scheduler = facula.optim.lr_scheduler.StepLR(rule, 1)
    if i > 4:
        rule.scheduler.step()


@pytest.mark.parametrize(
    "between", [hooked_leaf, hooked_accumulation, hooked_step, other_rate, patched_step, patched_class, scheduled]
)
def test_training_steps_see_what_changes(between, at_once):
    (eager, _), (compiled, run) = train(plain, OPTIMIZERS["sgd"], between), train(facula.compile, OPTIMIZERS["sgd"], between)
    assert run.replays >= 3, run.settings.not_replayed
    assert eager == compiled


def test_a_promise_of_purity_is_taken(at_once):
    model, scale = net(), [2.0]

    def run(x, more=None):
        try:
            parts = [p * scale[0] for p in model(x).chunk(2, dim=0)]
        finally:
            pass
        with facula.no_grad():
            least = 1 - parts[0].min(dim=1).values
        return {"parts": parts, "least": least, "more": x[:, 1:] > 0, "sizes": len(x), "given": more}

    f = facula.compile(run, options={"pure": True})
    for i in range(9):
        x = facula.randn(2 if i % 4 else 4, 4, requires_grad=i == 6)
        assert _looks.is_same(f(x), run(x))
    assert f.replays == 3  # of calls 3 to 8: 4 and 8 have other sizes, and 6 a gradient
    assert f.settings.not_replayed is None


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x * 2 if x.sum() > 0 else x, "asks for values"),
        (lambda x: x + facula.tensor(x.tolist()), "call of tensor"),
        (lambda x, seen=[]: seen.append(1) or x * len(seen), "do not do the same"),  # noqa: B006
        (lambda x: x + facula.from_numpy(x.numpy()), "call of numpy"),
    ],
    ids=["bool", "tolist", "counts", "numpy"],
)
def test_promises_that_do_not_hold_are_seen_where_they_can_be(function, why, at_once):
    f = facula.compile(function, options={"pure": True})
    for _ in range(12):
        f(facula.ones(2))
    assert f.replays == 0
    assert why in f.settings.not_replayed


def test_the_option_is_checked():
    with pytest.raises(RuntimeError, match="the option pure is of type bool, got 1"):
        facula.compile(lambda x: x, options={"pure": 1})


def test_results_can_be_compared(at_once, monkeypatch):
    monkeypatch.setattr(_looks, "checks_replays", True)
    model, x = net(), facula.randn(2, 4)
    f = facula.compile(lambda x: model(x))
    for _ in range(5):
        f(x)
    assert f.replays == 4
    monkeypatch.setattr(_looks, "is_same", lambda a, b: False)
    with pytest.raises(AssertionError, match="by steps"):
        f(x)


def test_nothing_is_held_that_a_program_has_let_go(at_once):
    model, x = net(), facula.randn(2, 4)
    f = facula.compile(lambda x: model(x))  # noqa: F821
    for _ in range(3):
        f(x)
    gone = weakref.ref(model)
    del f, model
    gc.collect()
    assert gone() is None


def arguments_of(name):
    operands = {
        "linear": [(3, 4), (2, 4), (2,)], "addmm": [(3, 2), (3, 4), (4, 2)], "bmm": [(2, 3, 4), (2, 4, 2)], "mm": [(3, 4), (4, 2)],
        "matmul": [(3, 4), (4, 2)], "mv": [(3, 4), (4,)], "dot": [(4,), (4,)],
    }  # fmt: skip
    return [facula.randn(shape).abs().requires_grad_() for shape in operands.get(name, [(3, 4)])]


@pytest.mark.parametrize("name", sorted(trusted.DIRECT))
@pytest.mark.parametrize("way", ["function", "method"])
def test_what_is_called_directly_is_what_python_calls(name, way, at_once):
    facula.manual_seed(2)
    room = facula if hasattr(facula, name) else facula.nn.functional
    args, function = arguments_of(name), getattr(room, name)
    if way == "method" and not hasattr(facula.Tensor, name):
        return

    runs = {
        ("function", 1): lambda a: function(a),
        ("function", 2): lambda a, b: function(a, b),
        ("function", 3): lambda a, b, c: function(a, b, c),
        ("method", 1): lambda a: getattr(a, name)(),
        ("method", 2): lambda a, b: getattr(a, name)(b),
        ("method", 3): lambda a, b, c: getattr(a, name)(b, c),
    }
    run = runs[way, len(args)]
    f = facula.compile(run)
    f(*args)
    made, expected = f(*args), run(*args)
    assert f.replays == 1
    assert frozen(made) == frozen(expected)
    assert type(made.grad_fn).__name__ == type(expected.grad_fn).__name__
    weights = facula.randn(made.shape)
    for one, other in zip(
        facula.autograd.grad(made, args, weights), facula.autograd.grad(expected, args, weights), strict=True
    ):
        assert frozen(one) == frozen(other)
    dtypes = facula.int32, facula.int64, facula.bool, facula.complex64, facula.bfloat16, facula.float16, facula.uint8
    for bad in (*(facula.ones(3, dtype=dtype) for dtype in dtypes), facula.ones(2, 2, 2, 2), facula.ones(3, 4).to_sparse()):
        given = [bad, *args[1:]]
        assert outcome(f, given) == outcome(run, given)


def outcome(function, args):
    try:
        result = function(*args)
        return frozen(result.to_dense() if result.layout is not facula.strided else result)
    except Exception as error:
        return type(error).__name__, str(error)


def test_a_try_that_only_raises_is_followed():
    def plain_step(x):
        try:
            y = x * 2
        except RuntimeError as error:
            raise ValueError("in other words") from error
        return y + 1

    def kept(x):
        try:
            return x * 2
        except RuntimeError:
            return x

    counter = facula.zeros(1)

    def behind_an_effect(x):  # Python could not make the call again
        counter.add_(1)
        try:
            return x * 2
        except RuntimeError as error:
            raise ValueError("in other words") from error

    for function, replayed in ((plain_step, True), (kept, False), (behind_an_effect, False)):
        f, x = facula.compile(function), facula.randn(2, 4)
        for _ in range(600):
            assert facula.equal(f(x), function(x))
        assert (f.replays > 0) is replayed, function
    assert counter.item() == 1200
