"""Compiled functions have the effects of eager ones, call by call: values bit by bit, errors, what is printed, drawn, written."""

import copy
import random

import compile_cases_modules  # noqa: F401  which adds its cases
import compile_cases_tensors  # noqa: F401
import pytest
from compile_cases import CASES, World

import facula
from facula.compiler import _looks

CALLS = 20


def frozen(value):
    """A value as it is now, so that two runs can be compared later."""
    if isinstance(value, facula.Tensor):
        plain = value.detach()
        plain = plain.as_subclass(facula.Tensor).contiguous()
        bits = plain.view(facula.uint8) if plain.dim() else plain.reshape(1).view(facula.uint8)
        about = type(value).__name__, str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad, value._version
        return (*about, bits.numpy().tobytes(), vars(value).get("note"))
    if isinstance(value, dict):
        return {key: frozen(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [frozen(inner) for inner in value]
    return value


def trace(make, size, compile):
    """What 20 calls give and leave behind."""
    facula._dynamo.reset()
    facula.manual_seed(7)
    random.seed(7)
    world, found = World(size), []
    try:
        function = compile(make(world))
        for i in range(CALLS):
            world.between(i)
            args = world.args(i)
            try:
                result = frozen(function(*args))
            except Exception as error:
                result = type(error).__name__, str(error)
            found.append((result, frozen(args), frozen(world.log), facula.get_rng_state().sum().item(), random.getstate()[1][-1]))
    finally:
        world.finish()
    return found


def plain(function):
    return function


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [(6, 4), (128, 96)], ids=["few", "many"])
def test_effects_are_those_of_eager_calls(name, size):
    eager = trace(CASES[name], size, plain)
    compiled = trace(CASES[name], size, facula.compile)
    assert [i for i in range(CALLS) if eager[i] != compiled[i]] == []  # the calls that differ


@pytest.mark.parametrize("name", CASES)
def test_effects_are_the_same_where_every_call_follows(name, monkeypatch):
    monkeypatch.setattr(_looks, "always", True)
    size = (128, 96)
    eager, compiled = trace(CASES[name], size, plain), trace(CASES[name], size, facula.compile)
    assert [i for i in range(CALLS) if eager[i] != compiled[i]] == []


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("options", [{"dynamic": True}, {"dynamic": False, "mode": "reduce-overhead"}], ids=["dynamic", "reduce-overhead"])
def test_effects_do_not_depend_on_how_it_is_compiled(name, options):
    size = (128, 96)
    eager, compiled = trace(CASES[name], size, plain), trace(CASES[name], size, lambda f: facula.compile(f, **options))
    assert [i for i in range(CALLS) if eager[i] != compiled[i]] == []


def test_the_cases_find_results_that_are_out_of_date():
    """A way to compile that gives the first call's result again, where the arguments look the same, fails in most cases."""

    def stale(function):
        known = {}

        def call(*args):
            key = tuple((a.shape, a.dtype) if isinstance(a, facula.Tensor) else repr(a) for a in args)
            if key not in known:
                known[key] = function(*args)
            return known[key]

        return call

    found = [name for name, make in CASES.items() if trace(make, (6, 4), stale) != trace(make, (6, 4), plain)]
    assert len(CASES) >= 90 and len(found) >= len(CASES) - 2, sorted(CASES.keys() - found)


def test_the_cases_find_effects_that_are_left_out():
    """A way to compile that calls the function every other time only, with a like result."""

    def skips(function):
        results = []

        def call(*args):
            if len(results) % 2 == 0:
                results.append(function(*args))
                return results[-1]
            results.append(None)
            with facula.no_grad():
                return copy.deepcopy(results[-2]) if not isinstance(results[-2], facula.Tensor) else results[-2].clone()

        return call

    found = [name for name, make in CASES.items() if trace(make, (6, 4), skips) != trace(make, (6, 4), plain)]
    assert len(found) >= len(CASES) - 2, sorted(CASES.keys() - found)
