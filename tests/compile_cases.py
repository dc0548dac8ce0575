"""Functions with effects beside their result, for test_compile_impure.py: each is made twice, run eagerly and compiled.

A case makes a function or a module in a `World`: `log` is where it leaves what it did, `args(i)` are the arguments of call i, and
`between(i)` is done before it, outside of the function.
"""

import functools
import itertools
import os
import random
import types
from collections import OrderedDict

import pytest

import facula
from facula import _dynamo, nn
from facula._dynamo.utils import counters

CASES = {}


@pytest.fixture(autouse=True)
def from_nothing():
    """Forget recordings, counts, stances and logs around each test of a file that imports this."""
    _dynamo.reset()
    counters.clear()
    yield
    facula.compiler.set_stance("default")
    facula._logging.set_logs()


class World:
    def __init__(self, size):
        self.log = []
        self.size = size
        self.args = lambda i: (self.tensor(i),)
        self.between = lambda i: None
        self.finish = lambda: None

    def tensor(self, i, *size):
        size = size or self.size
        count = facula.Size(size).numel()
        return facula.linspace(-1, 1, count).reshape(size) * (i + 1)


def case(make):
    CASES[make.__name__] = make
    return make



# ---- counters, flags, containers


@case
def counts_in_a_closure(w):
    count = 0

    def f(x):
        nonlocal count
        count += 1
        w.log.append(count)
        return (x * count).exp() + 1

    return f


total = 0


@case
def counts_in_a_global(w):
    global total
    total = 0

    def f(x):
        global total
        total += 1
        return x.sin() * total - total

    w.between = lambda i: w.log.append(total)
    return f


@case
def counts_in_a_module(w):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.scale = nn.Parameter(facula.ones(()))

        def forward(self, x):
            self.calls += 1
            w.log.append(self.calls)
            return x * self.scale / self.calls + self.calls

    return Counts()


@case
def counts_in_a_class(w):
    class Holder:
        calls = 0

    def f(x):
        Holder.calls += 1
        return x + Holder.calls

    w.between = lambda i: w.log.append(Holder.calls)
    return f


@case
def counts_in_a_default(w):
    def f(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        w.log.append(list(seen))
        return x * len(seen) + sum(seen)

    return f


@case
def flag_from_outside(w):
    flags = {"on": False}
    w.between = lambda i: flags.update(on=i % 3 == 0)

    def f(x):
        y = x.exp() if flags["on"] else x.cos()
        return y * 2 + 1

    return f


@case
def list_of_results(w):
    kept = []

    def f(x):
        y = x.tanh() + len(kept)
        kept.append(y)
        return sum(kept[-3:])

    w.between = lambda i: w.log.append(kept[-1].sum() if kept else 0)
    return f


@case
def dictionary_of_results(w):
    known = {}

    def f(x, key):
        if key not in known:
            w.log.append(key)
            known[key] = (x * 3).exp()
        return known[key] - x

    w.args = lambda i: (w.tensor(i), i % 4)
    return f


@case
def tensors_that_are_dropped(w):
    kept = OrderedDict()

    def f(x):
        kept[len(w.log)] = x.sin() + 1
        if len(kept) > 2:
            w.log.append(kept.popitem(last=False)[1].sum())
        else:
            w.log.append(None)
        return x * len(kept)

    return f


@case
def remembers_calls(w):
    @functools.lru_cache
    def factor(n):
        w.log.append(n)
        return n / 7

    def f(x, n):
        return x * factor(n) + factor(n + 1)

    w.args = lambda i: (w.tensor(i), i % 5)
    return f


@case
def iterator_across_calls(w):
    numbers = itertools.count(3)
    return lambda x: x * next(numbers) + next(numbers)


@case
def generator_across_calls(w):
    def factors():
        for i in itertools.count():
            w.log.append(i)
            yield i * 0.5

    factor = factors()
    return lambda x: (x + next(factor)).relu() * next(factor)


@case
def set_of_names(w):
    seen = set()

    def f(x, name):
        new = name not in seen
        seen.add(name)
        w.log.append(sorted(seen))
        return x.exp() if new else x.exp() + 1

    w.args = lambda i: (w.tensor(i), "abc"[i % 3])
    return f


# ---- what is looked up is another thing


def helper(x):
    return x + 1


def other_helper(x):
    return x * x - 1


@case
def global_function_replaced(w):
    first = helper

    def between(i):
        globals()["helper"] = other_helper if i % 4 == 3 else first

    w.between, w.finish = between, lambda: globals().update(helper=first)
    return lambda x: helper(x.sin()) * 2


@case
def global_tensor_replaced(w):
    def between(i):
        globals()["factor"] = facula.full((), float(i))

    w.between, w.finish = between, lambda: globals().pop("factor")
    return lambda x: x * factor + factor  # noqa: F821


@case
def closure_replaced(w):
    bias = facula.zeros(())

    def between(i):
        nonlocal bias
        bias = facula.full((), 0.5 * i)

    w.between = between
    return lambda x: (x + bias).sigmoid()


@case
def method_patched(w):
    model = nn.Sequential(nn.Tanh(), nn.Softplus())

    def between(i):
        if i == 5:
            model[0].forward = lambda x: x * 2
        if i == 11:
            del model[0].forward

    w.between = between
    return model


@case
def module_of_functions_patched(w):
    ops = types.ModuleType("ops")
    ops.f = facula.exp

    def between(i):
        ops.f = (facula.exp, facula.sin, facula.abs)[i % 3]

    w.between = between
    return lambda x: ops.f(x) + 1


@case
def list_of_functions_grows(w):
    steps = [facula.sin]

    def between(i):
        if i in (4, 9):
            steps.append((facula.exp, facula.tanh)[i == 9])
        if i == 15:
            steps.pop(0)

    w.between = between

    def f(x):
        for step in steps:
            x = step(x) + 0.5
        return x

    return f


@case
def attributes_by_getattr(w):
    class Loose:
        def __getattr__(self, name):
            w.log.append(name)
            return float(len(name))

    loose = Loose()
    return lambda x: x * loose.abc + loose.abcdef


@case
def property_with_an_effect(w):
    class Meter:
        reads = 0

        @property
        def scale(self):
            self.reads += 1
            w.log.append(self.reads)
            return self.reads

    meter = Meter()
    return lambda x: x * meter.scale - meter.scale


@case
def environment_variable(w):
    w.between = lambda i: os.environ.update(FACULA_TEST_COMPILE=str(i % 3))
    w.finish = lambda: os.environ.pop("FACULA_TEST_COMPILE", None)
    return lambda x: x.exp() * int(os.environ["FACULA_TEST_COMPILE"])


@case
def attribute_deleted(w):
    model = nn.Module()
    model.extra = 2.0

    def between(i):
        if i == 7:
            del model.extra

    def f(x):
        return x * model.extra + 1 if hasattr(model, "extra") else x.cos()

    w.between = between
    return f


# ---- errors


@case
def raises_now_and_then(w):
    def f(x):
        w.log.append(len(w.log))
        y = x.exp() + 1
        if len(w.log) % 4 == 0:
            raise ValueError(f"call {len(w.log)}")
        return y * 2

    return f


@case
def raises_after_a_write(w):
    state = facula.zeros(w.size)

    def f(x):
        y = x * 2
        state.add_(y)
        if len(w.log) % 3 == 2:
            w.log.append(state.sum())
            raise KeyError("late")
        w.log.append(None)
        return state + y

    return f


@case
def shapes_that_do_not_fit(w):
    def f(x):
        y = x.sin() + 1
        try:
            return y + facula.ones(5, 7, 3)
        except RuntimeError as error:
            w.log.append(type(error).__name__)
            return y * 3

    return f


@case
def indices_that_are_not_there(w):
    def f(x, i):
        return (x * 2).index_select(0, facula.tensor([i])) + 1

    w.args = lambda i: (w.tensor(i), w.size[0] if i % 5 == 4 else 0)
    return f


@case
def cleans_up(w):
    depth = []

    def f(x):
        depth.append(1)
        try:
            if len(w.log) % 2:
                raise RuntimeError("odd")
            return x.exp() * len(depth)
        finally:
            depth.pop()
            w.log.append(len(depth))

    return f


# ---- random numbers


@case
def numbers_of_python(w):
    def f(x):
        factor = random.random()
        w.log.append(factor)
        return x * factor + random.randint(0, 9)

    return f


@case
def draws(w):
    return lambda x: (x + facula.rand_like(x)) * facula.randn(x.shape[-1]).exp()


@case
def dropout_and_noise(w):
    return lambda x: nn.functional.dropout(x.exp(), 0.3) + facula.bernoulli(facula.full_like(x, 0.5))


@case
def seeds_within(w):
    def f(x):
        facula.manual_seed(len(w.log))
        w.log.append(facula.initial_seed())
        return x + facula.randn_like(x)

    return f


@case
def generator_of_its_own(w):
    generator = facula.Generator().manual_seed(3)
    return lambda x: x.relu() + facula.rand(x.shape, generator=generator)


@case
def chooses_at_random(w):
    def f(x):
        if random.random() < 0.5:
            w.log.append("sin")
            return x.sin() + 1
        return x.cos() * 2

    return f
