"""torch.compile and what programs reach around it: arguments, errors, modules, stances, marks, backends, counters, logs.

What a compiled function does beside its result is asked by test_compile_impure.py; settings and names by test_compile_names.py.
"""

import copy
import functools
import gc
import inspect
import io
import pickle
import threading
import weakref

import pytest

import facula
from facula import _dynamo, nn
from facula._dynamo import config, exc
from facula._dynamo.testing import CompileCounter, CompileCounterWithBackend
from facula._dynamo.utils import counters

in_core = hasattr(facula._C, "_region")
needs_core = pytest.mark.skipif(not in_core, reason="values that Python asks for are seen by the core only")


@pytest.fixture(autouse=True)
def from_nothing():
    _dynamo.reset()
    counters.clear()
    yield
    facula.compiler.set_stance("default")
    facula._logging.set_logs()


def double(x):
    """Twice."""
    return 2 * x


# ---- functions


def test_a_compiled_function_looks_like_the_function():
    compiled = facula.compile(double)
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("double", "Twice.", __name__)
    assert compiled.__wrapped__ is double and inspect.signature(compiled) == inspect.signature(double)
    assert _dynamo.eval_frame.innermost_fn(compiled) is double and compiled.get_compiler_config() == {}
    assert compiled(facula.ones(2)).tolist() == [2, 2] and compiled(x=facula.ones(1)).tolist() == [2]
    assert copy.copy(compiled) is compiled and copy.deepcopy([compiled])[0] is compiled


def test_a_decorator_with_and_without_arguments():
    @facula.compile
    def one(x):
        return x + 1

    @facula.compile(fullgraph=True, dynamic=False, mode="max-autotune")
    def two(x, *, y=0):
        return x + 2 + y

    assert one(facula.zeros(1)).item() == 1 and two(facula.zeros(1), y=1).item() == 3
    assert facula.compile(double, options={"max_autotune": True, "triton.cudagraphs": False}).get_compiler_config() == {
        "max_autotune": True,
        "triton.cudagraphs": False,
    }


def test_methods_classes_and_callable_objects():
    class Thing:
        def __init__(self, factor):
            self.factor = factor

        @facula.compile
        def scaled(self, x):
            return x * self.factor

        def __call__(self, x):
            return x - self.factor

    x = facula.ones(2)
    assert Thing(3).scaled(x).tolist() == [3, 3] and Thing.scaled(Thing(4), x).tolist() == [4, 4]
    assert facula.compile(Thing(5).scaled)(x).tolist() == [5, 5]
    assert facula.compile(Thing(1))(x).tolist() == [0, 0]
    assert facula.compile(Thing) is Thing and Thing(2)(x).tolist() == [-1, -1]


def test_a_compiled_function_is_compiled_anew_from_the_function():
    once = facula.compile(double)
    assert _dynamo.eval_frame.innermost_fn(facula.compile(once)) is double
    model = nn.ReLU()
    assert facula.compile(facula.compile(model))._orig_mod is model

    @functools.wraps(once)
    def more(x):
        return once(x) + 1

    assert facula.compile(more)(facula.ones(1)).item() == 3 and facula.compile(more).function is more
    quiet = functools.wraps(facula.compiler.disable(double))(lambda x: 5 * x)
    assert facula.compile(quiet)(facula.ones(1)).item() == 5


def test_a_call_is_recorded_once_for_tensors_of_the_same_sizes():
    compiled = facula.compile(double)
    assert compiled.state == "look" and compiled.recordings == []
    for _ in range(3):
        compiled(facula.ones(2))
    assert len(compiled.recordings) == 1 and compiled.calls == 3
    assert len(compiled.recordings[0].ops) == 1 and compiled.recordings[0].demands == []
    compiled(facula.ones(3))
    assert len(compiled.recordings) == 2
    _dynamo.reset()
    assert compiled.recordings == [] and compiled.state == "look" and compiled(facula.ones(2)).tolist() == [2, 2]


def test_compiling_is_told_in_every_call_and_nowhere_else():
    seen = []

    @facula.compile
    def tells(x):
        seen.append((facula.compiler.is_compiling(), _dynamo.is_compiling(), facula.compiler.is_dynamo_compiling()))
        assert not facula.compiler.is_exporting()
        return x + 1

    for _ in range(20):
        tells(facula.ones(2))
    assert seen == [(True, True, True)] * 20 and not facula.compiler.is_compiling()
    with pytest.raises(ZeroDivisionError):
        facula.compile(lambda x: x / (1 // 0))(facula.ones(1))
    assert not facula.compiler.is_compiling()
    outside = []
    thread = threading.Thread(target=lambda: outside.append(facula.compiler.is_compiling()))

    def starts(x):
        thread.start()
        thread.join()
        return x

    facula.compile(starts)(facula.ones(1))
    assert outside == [False]  # a region is its thread's


def test_exceptions_are_those_of_the_function():
    compiled = facula.compile(lambda x: x + facula.ones(7))
    with pytest.raises(RuntimeError) as eager:
        facula.ones(3) + facula.ones(7)
    for _ in range(3):
        with pytest.raises(RuntimeError) as caught:
            compiled(facula.ones(3))
        assert str(caught.value) == str(eager.value) and type(caught.value) is type(eager.value)
    assert compiled(facula.ones(7)).tolist() == [2] * 7


def test_nothing_is_kept_alive():
    model = nn.Linear(2, 2)
    model.compile()
    model(facula.ones(1, 2))
    gone = weakref.ref(model), weakref.ref(facula.compile(model)), weakref.ref(facula.compile(lambda x: x + 1))
    del model
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: facula.compile(3), TypeError, "^compile: .*got int$"),
        (lambda: facula.compile(double, mode="a", options={}), RuntimeError, "^compile: give mode or options.*'a'"),
        (lambda: facula.compile(double, mode="fast"), RuntimeError, "^compile: a mode is one of default, .*got 'fast'$"),
        (lambda: nn.ReLU().compile(mode="fast"), RuntimeError, "^compile: a mode is one of default, .*got 'fast'$"),
        (lambda: facula.compile(double, options={"nope": 1}), RuntimeError, "^compile: an option is .*got 'nope'$"),
        (lambda: facula.compile(double, options={"max_autotune": 3}), RuntimeError, "of type bool, got 3$"),
        (lambda: facula.compile(double, options=[1]), TypeError, "options are a dict, got list$"),
        (lambda: facula.compile(double, backend="nonsense"), exc.InvalidBackend, "a backend is one of .*, got 'nonsense'$"),
        (lambda: facula.compile(double, backend=3), exc.InvalidBackend, ", got 3$"),
        (lambda: facula.compile(double, backend=double), NotImplementedError, "^compile: backends .*got the backend 'double'$"),
        (lambda: facula.compile(double, dynamic="x"), TypeError, "dynamic is True or False, got 'x'$"),
        (lambda: facula.compile(double, fullgraph=1), TypeError, "fullgraph is True or False, got 1$"),
        (lambda: facula.compile(double, recompile_limit=0), ValueError, "from 1 on, got 0$"),
        (lambda: facula.compiler.set_stance("nope"), RuntimeError, "^set_stance: a stance is one of .*, got 'nope'$"),
        (lambda: facula.compiler.set_stance("force_eager", force_backend="eager"), RuntimeError, "goes with .*got 'force_eager'$"),
        (lambda: facula.compiler.set_default_backend("nope"), exc.InvalidBackend, ", got 'nope'$"),
        (lambda: _dynamo.lookup_backend("nope"), exc.InvalidBackend, ", got 'nope'$"),
        (lambda: _dynamo.register_backend(3), TypeError, "a backend is a function, got int$"),
        (lambda: _dynamo.register_backend(double, name="eager"), ValueError, "got 'eager'$"),
        (lambda: _dynamo.allow_in_graph(3), TypeError, "got int$"),
        (lambda: facula.compiler.disable(3), TypeError, "^disable: .*got int$"),
        (lambda: facula.compiler.substitute_in_graph(double)(len), TypeError, "takes what the original does"),
        (lambda: facula.compiler.substitute_in_graph(nn.ReLU), TypeError, "^substitute_in_graph: a function has a substitute"),
        (lambda: facula.compiler.load_cache_artifacts("x"), TypeError, "bytes are loaded, got str$"),
        (lambda: _dynamo.mark_dynamic(3, 0), TypeError, "^mark_dynamic: .*got int$"),
        (lambda: _dynamo.mark_dynamic(facula.ones(2), 1), IndexError, r"of shape \[2\] is expected, got 1$"),
        (lambda: _dynamo.mark_static(facula.ones(2), "0"), TypeError, "a dimension is an int, got '0'$"),
        (lambda: _dynamo.mark_static_address(3), TypeError, "^mark_static_address: .*got int$"),
        (lambda: _dynamo.optimize("eager").__enter__(), RuntimeError, "^optimize: takes a function"),
        (lambda: facula._inductor.list_mode_options("nope"), RuntimeError, "got 'nope'$"),
        (lambda: facula._logging.set_logs(nope=True), TypeError, "no log of this name, got 'nope'$"),
        (lambda: facula._logging.set_logs(dynamo="x"), ValueError, "level of dynamo is one of 50, .*, got 'x'$"),
        (lambda: facula._logging.set_logs(graph_breaks=3), ValueError, "graph_breaks is told or is not"),
        (lambda: facula._logging.getArtifactLogger("m", "nope"), RuntimeError, "got 'nope'$"),
    ],
)  # fmt: skip
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text) as caught:
        use()
    assert caught.type is kind


# ---- modules


def test_a_compiled_module_wraps_the_module():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
    compiled = facula.compile(model, mode="reduce-overhead")
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert compiled._orig_mod is model and len(compiled) == 2
    compiled.eval()
    assert not model.training and not model[1].training and not compiled.training
    model.train()
    assert compiled.training
    model.eval()
    compiled.note = 7
    assert model.note == 7 and compiled.note == 7
    del compiled.note
    assert not hasattr(model, "note")
    x = facula.ones(1, 2)
    assert compiled(x).tolist() == model(x).tolist() and compiled.forward.calls == 1
    assert repr(compiled).startswith("OptimizedModule(") and "_orig_mod" in dir(compiled)
    assert isinstance(compiled, _dynamo.OptimizedModule) and _dynamo.OptimizedModule is _dynamo.eval_frame.OptimizedModule


def test_a_compiled_module_has_the_hooks_of_both():
    seen = []
    model = nn.ReLU()
    compiled = facula.compile(model)
    model.register_forward_hook(lambda *_: seen.append(("inside", facula.compiler.is_compiling())))
    compiled.register_forward_hook(lambda *_: seen.append(("outside", facula.compiler.is_compiling())))
    compiled(facula.ones(1))
    model(facula.ones(1))
    assert seen == [("inside", True), ("outside", False), ("inside", False)]


def test_a_compiled_module_is_copied_and_pickled():
    compiled = facula.compile(nn.Linear(2, 2), dynamic=True)
    x = facula.ones(1, 2)
    expected = compiled(x).tolist()
    stream = io.BytesIO()
    facula.save(compiled, stream)
    stream.seek(0)
    others = copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled)), facula.load(stream, weights_only=False)
    for other in others:
        assert other._orig_mod is not compiled._orig_mod and other(x).tolist() == expected
        assert other.forward is not compiled.forward and other.forward.settings.dynamic is True
        assert other.forward.function is other._orig_mod and other.forward.calls == 1
    assert compiled.forward.calls == 1


def test_a_module_is_compiled_in_place():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    expected = model(facula.ones(1, 2)).tolist()
    seen = []
    assert model.compile(dynamic=False) is model
    model.register_forward_pre_hook(lambda *_: seen.append(facula.compiler.is_compiling()))
    assert model(facula.ones(1, 2)).tolist() == expected and seen == [True]
    assert model._compiled_call_impl.calls == 1 and list(model.state_dict()) == ["0.weight", "0.bias"]
    other = copy.deepcopy(model)
    assert other._compiled_call_impl is None and other(facula.ones(1, 2)).tolist() == expected
    assert pickle.loads(pickle.dumps(nn.ReLU().compile()))(facula.ones(1)).tolist() == [1]
    model[0].compile()
    assert model(facula.ones(1, 2)).tolist() == expected and model[0]._compiled_call_impl.calls == 1


def test_what_is_not_to_be_compiled_is_given_back(monkeypatch):
    model = nn.ReLU()
    assert facula.compile(model, disable=True) is model and facula.compile(disable=True)(double) is double
    with config.patch(disable=True):
        assert facula.compile(model) is model and _dynamo.optimize("eager")(double) is double
        assert nn.ReLU().compile()(facula.ones(1)).tolist() == [1]
    assert _dynamo.optimize(disable=True)(double) is double


# ---- fullgraph


@needs_core
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: x if x.sum() > 0 else -x, "bool"),
        (lambda x: x if not x[0] else -x, "bool"),
        (lambda x: x[0] and x[1], "bool"),
        (lambda x: str(x + 1), "repr"),
        (lambda x: x if facula.equal(x, x + 1) else -x, "equal"),
        (lambda x: [1, 2, 3][x.long()[0]], "index"),
    ],
)  # fmt: skip
def test_fullgraph_refuses_where_python_wants_a_value(function, kind):
    compiled = facula.compile(function, fullgraph=True)
    line = function.__code__.co_firstlineno
    for _ in range(2):
        with pytest.raises(exc.Unsupported, match=f"^compile: with fullgraph=True .*{kind}.* at .*test_compile.py:{line}$") as caught:
            compiled(facula.ones(3))
        assert caught.value.gb_type == kind and caught.value.real_stack[0].lineno == line
    assert not facula.compiler.is_compiling()
    assert facula.compile(function)(facula.ones(3)) is not None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.sum().item(),
        lambda x: x * int(x.sum()) + float(x[0]),
        lambda x: x[x > 0] + x.nonzero().sum(),
        lambda x: facula.from_numpy(x.numpy() + 1),
        lambda x: x * x.shape[0] + len(x),
        lambda x: f"{x.sum()}",
        lambda x: x * x.long().tolist()[0],
    ],
)  # fmt: skip
def test_fullgraph_takes_what_graphs_can_have(function):
    """As in PyTorch 2.13, where numbers and sizes of tensors can be in a graph."""
    x = facula.ones(3)
    found, expected = facula.compile(function, fullgraph=True)(x), function(x)
    assert str(found) == str(expected)


def test_fullgraph_refuses_breaks_by_name():
    @facula.compiler.disable(reason="it prints")
    def outside(x):
        return x + 1

    def breaks(x):
        _dynamo.graph_break("here")
        return x

    for function, text in ((lambda x: outside(x), r"disable\(\) leaves out: it prints at"), (breaks, r"graph_break\(\): here at")):
        with pytest.raises(exc.Unsupported, match=f"^compile: with fullgraph=True .*{text} .*test_compile.py:[0-9]+$"):
            facula.compile(function, fullgraph=True)(facula.ones(1))
        assert facula.compile(function)(facula.ones(1)) is not None
    _dynamo.graph_break()  # outside of a recording it does nothing


def test_breaks_are_errors_within_a_block():
    def breaks(x):
        _dynamo.graph_break()
        return x + 1

    @_dynamo.error_on_graph_break(True)
    def strict(x):
        return breaks(x)

    @_dynamo.error_on_graph_break(False)
    def lenient(x):
        return breaks(x)

    with pytest.raises(exc.Unsupported, match="graph_break"):
        facula.compile(strict)(facula.ones(1))
    assert facula.compile(lenient, fullgraph=True)(facula.ones(1)).item() == 2
    assert facula.compile(breaks)(facula.ones(1)).item() == 2


# ---- what is left out


def test_disabled_functions_leave_the_region():
    seen = []

    @facula.compiler.disable
    def outside(x):
        seen.append(facula.compiler.is_compiling())
        return x + 1

    def f(x):
        seen.append(facula.compiler.is_compiling())
        y = outside(x * 2)
        seen.append(facula.compiler.is_compiling())
        return y * 2

    compiled = facula.compile(f)
    assert [compiled(facula.ones(1)).item() for _ in range(2)] == [6, 6] and seen == [True, False, True] * 2
    assert [op[0] for op in compiled.recordings[0].ops].count("add") == 0 and len(compiled.recordings[0].ops) == 2
    assert outside(facula.ones(1)).item() == 2 and outside.__name__ == "outside" and outside._torchdynamo_disable
    assert facula.compile(outside)(facula.ones(1)).item() == 2 and seen[-1]  # what is compiled explicitly is compiled
    assert facula.compiler.disable(compiled) is not f and facula.compiler.disable(compiled).__wrapped__ is f
    assert _dynamo.is_dynamo_disable_recursive(facula.compiler.disable(double, recursive=False)) is False


def test_a_disabled_function_that_raises_leaves_the_region_as_it_was():
    @facula.compiler.disable
    def outside(x):
        raise KeyError("x")

    def f(x):
        try:
            outside(x)
        except KeyError:
            return x + facula.compiler.is_compiling()

    assert facula.compile(f)(facula.zeros(1)).item() == 1


def test_modules_and_classes_are_left_out():
    class Tells(nn.Module):
        def forward(self, x):
            return x + facula.compiler.is_compiling()

    inner = facula.compiler.disable(Tells())
    assert isinstance(inner, _dynamo.OptimizedModule) and inner(facula.zeros(1)).item() == 0
    assert facula.compile(lambda x: inner(x) + 10 * facula.compiler.is_compiling())(facula.zeros(1)).item() == 10

    @facula.compiler.disable
    class Made:
        def __init__(self):
            self.compiling = facula.compiler.is_compiling()

        def __call__(self):
            return facula.compiler.is_compiling()

    def f():
        made = Made()
        return made.compiling, made(), facula.compiler.is_compiling()

    assert facula.compile(f)() == (False, False, True)


def test_a_compiled_function_within_a_disabled_one_is_compiled():
    inner = facula.compile(lambda x: x + facula.compiler.is_compiling())
    outside = facula.compiler.disable(lambda x: inner(x) + 10 * facula.compiler.is_compiling())
    assert facula.compile(lambda x: outside(x))(facula.zeros(1)).item() == 1 and len(inner.recordings) == 1


# ---- stances


def test_a_stance_that_is_eager():
    compiled = facula.compile(lambda x: x + facula.compiler.is_compiling())
    x = facula.zeros(1)
    with facula.compiler.set_stance("force_eager"):
        assert compiled(x).item() == 0 and compiled.recordings == []
        with facula.compiler.set_stance("default"):
            assert compiled(x).item() == 1
        assert compiled(x).item() == 0
    assert compiled(x).item() == 1

    @facula.compiler.set_stance("force_eager")
    def within(x):
        return compiled(x)

    assert compiled(x).item() == 1 and within(x).item() == 0 and within(x).item() == 0 and compiled(x).item() == 1
    facula.compiler.set_stance("force_eager")
    assert compiled(x).item() == 0
    facula.compiler.set_stance("default")
    assert compiled(x).item() == 1
    with pytest.raises(KeyError), facula.compiler.set_stance("force_eager"):
        raise KeyError
    assert compiled(x).item() == 1


def test_stances_about_recording():
    compiled = facula.compile(double)
    with facula.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="^compile: .*'fail_on_recompile'.*double"):
        compiled(facula.ones(2))
    with facula.compiler.set_stance("eager_on_recompile"):
        assert compiled(facula.ones(2)).tolist() == [2, 2] and compiled.recordings == []
    compiled(facula.ones(2))
    with facula.compiler.set_stance("fail_on_recompile"):
        assert compiled(facula.ones(2)).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(facula.ones(3))
    with facula.compiler.set_stance("eager_on_recompile"):
        assert compiled(facula.ones(3)).tolist() == [2, 2, 2] and len(compiled.recordings) == 1
    late = facula.compile(double)
    with facula.compiler.set_stance("eager_then_compile"):
        late(facula.ones(2))
        assert late.recordings == []
        late(facula.ones(2))
        assert len(late.recordings) == 1
    run = _dynamo.run(facula.compile(double))
    assert run(facula.ones(2)).tolist() == [2, 2] and _dynamo.run()(double)(facula.ones(1)).tolist() == [2]


def test_limits_of_recording():
    def sizes(compiled, count):
        return [compiled(facula.ones(i + 1)).numel() for i in range(count)]

    few = facula.compile(double, recompile_limit=2)
    assert sizes(few, 5) == [1, 2, 3, 4, 5] and len(few.recordings) == 2
    with config.patch(recompile_limit=3, fail_on_recompile_limit_hit=True):
        compiled = facula.compile(double)
        assert sizes(compiled, 3) == [1, 2, 3]
        with pytest.raises(exc.FailOnRecompileLimitHit, match="^compile: at most 3 .*double"):
            compiled(facula.ones(9))
        assert compiled(facula.ones(2)).tolist() == [2, 2]
    with config.patch(error_on_recompile=True):
        compiled = facula.compile(double)
        compiled(facula.ones(1))
        with pytest.raises(exc.RecompileError, match="^compile: .*got number 2 of double"):
            compiled(facula.ones(2))


def test_a_backend_that_takes_the_place_of_others():
    with facula.compiler.set_stance(force_backend="eager"):
        assert facula.compile(double).settings.backend == "eager"
    assert facula.compile(double).settings.backend == "inductor"
    facula.compiler.set_default_backend("aot_eager")
    try:
        assert facula.compiler.get_default_backend() == "aot_eager" and facula.compile(double).settings.backend == "aot_eager"
    finally:
        facula.compiler.set_default_backend(None)
    assert facula.compiler.get_default_backend() == "inductor"


# ---- backends


def test_backends_have_names():
    known = ["cudagraphs", "inductor", "openxla", "tvm"]
    assert facula.compiler.list_backends() == _dynamo.list_backends() == known
    assert {"eager", "aot_eager", "inductor"} < set(facula.compiler.list_backends(exclude_tags=()))
    for backend in ("inductor", "eager", "aot_eager", "cudagraphs"):
        assert facula.compile(double, backend=backend, mode="reduce-overhead")(facula.ones(1)).item() == 2
    graph = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    for backend in ("inductor", "eager", "aot_eager"):
        run = _dynamo.lookup_backend(backend)(graph, [facula.ones(2)])
        assert run(facula.ones(2)).tolist() == graph(facula.ones(2)).tolist()


def test_backends_are_registered(monkeypatch):
    from facula._dynamo.backends import registry

    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_tags", {})

    @_dynamo.register_backend
    def mine(graph, inputs):
        return graph.forward

    _dynamo.register_backend(lambda graph, inputs: graph.forward, name="quiet", tags=("debug",))
    assert "mine" in _dynamo.list_backends() and "quiet" not in _dynamo.list_backends()
    assert "quiet" in _dynamo.list_backends(None) and _dynamo.lookup_backend("mine") is mine
    with pytest.raises(ValueError, match="got 'mine'$"):
        _dynamo.register_backend(mine)
    with pytest.raises(NotImplementedError, match="got the backend 'mine'$"):
        facula.compile(double, backend="mine")


def test_backends_of_installed_packages(monkeypatch):
    import importlib.metadata

    from facula._dynamo.backends import registry

    class Point:
        name = "installed"

        def load(self):
            return double

    asked = []
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_tags", {})
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: asked.append(group) or [Point()])
    registry._installed.cache_clear()
    try:
        assert "installed" in _dynamo.list_backends() and _dynamo.lookup_backend("installed") is double
        assert asked == ["torch_dynamo_backends"]
    finally:
        registry._installed.cache_clear()


# ---- what is told


def test_counters():
    count = CompileCounter()

    def f(x):
        y = x.sin() + 1
        _dynamo.graph_break()
        return y * 2

    compiled = facula.compile(f, backend=count)
    for _ in range(3):
        compiled(facula.ones(2))
    assert (count.frame_count, count.op_count) == (2, 3)
    assert counters["stats"] == {"calls_captured": 3, "unique_graphs": 2} and counters["frames"] == {"total": 1, "ok": 1}
    assert list(counters["graph_break"].values()) == [1]
    compiled(facula.ones(3))
    assert (count.frame_count, count.op_count) == (4, 6)
    count.clear()
    assert count.frame_count == 0
    other = CompileCounterWithBackend("inductor")
    facula.compile(double, backend=other)(facula.ones(1))
    assert other.frame_count == 1 and other.op_count == 1
    assert "recorded calls: 3" in _dynamo.utils.compile_times()
    assert _dynamo.utils.compile_times(repr="csv")[0][0] == "recorded calls"


def test_an_explanation():
    def f(x):
        y = x.sin() + 1
        _dynamo.graph_break("why not")
        return y * 2

    line = f.__code__.co_firstlineno + 2
    for function in (f, facula.compile(f)):
        told = _dynamo.explain(function)(facula.ones(2))
        assert (told.graph_count, told.graph_break_count, told.op_count) == (2, 1, 3)
        assert [len(ops) for ops in told.ops_per_graph] == [2, 1] and len(told.graphs) == 2 and told.out_guards == []
        (reason,) = told.break_reasons
        assert reason.graph_break and "graph_break(): why not" in reason.reason and reason.user_stack[0].lineno == line
        text = str(told)
        assert f"test_compile.py:{line}" in text and "Graph Count: 2" in text and "ms" in told.compile_times
    with pytest.warns(FutureWarning, match="^explain: "):
        assert _dynamo.explain(f, facula.ones(2)).graph_count == 2
    assert _dynamo.explain(nn.ReLU())(facula.ones(1)).op_count == 1 and _dynamo.explain(lambda: 3)().graph_count == 0


@needs_core
def test_an_explanation_says_where_values_are_asked_for():
    def f(x):
        y = x.sin()
        if y.sum() > 0:
            y = y.cos()
        return y * y.max().item()

    told = _dynamo.explain(f)(facula.ones(2))
    first = f.__code__.co_firstlineno
    assert [reason.user_stack[0].lineno - first for reason in told.break_reasons] == [2, 4] and told.graph_count == 3
    with config.patch(capture_scalar_outputs=True):
        assert _dynamo.explain(f)(facula.ones(2)).graph_break_count == 1


def test_logs(capsys):
    def f(x):
        _dynamo.graph_break()
        return x + 1

    facula._logging.set_logs(graph_breaks=True, recompiles=True, output_code=True)
    compiled = facula.compile(f, name="mine")
    compiled(facula.ones(2))
    text = capsys.readouterr().err
    line = f.__code__.co_firstlineno + 1
    assert f"[__graph_breaks] mine: {f.__qualname__}" in text and f"test_compile.py:{line}: the program calls graph_break()" in text
    assert "[__output_code]" in text and "add" in text and "[__recompiles]" not in text
    compiled(facula.ones(3))
    assert "[__recompiles] mine: " in capsys.readouterr().err
    facula._logging.set_logs()
    compiled(facula.ones(4))
    assert capsys.readouterr().err == ""


# ---- marks


def test_marks_are_kept_on_tensors():
    x = facula.ones(4, 3)
    assert _dynamo.mark_dynamic(x, 0, min=2, max=8) is None and _dynamo.maybe_mark_dynamic(x, [1]) is None
    assert x._dynamo_dynamic_indices == {0} and x._dynamo_weak_dynamic_indices == {1}
    assert [tuple(r) for r in x._dynamo_dynamic_range] == [(0, 2, 8)]
    _dynamo.mark_static(x, -1)
    assert x._dynamo_static_indices == {1}
    _dynamo.mark_static(x)
    assert x._dynamo_static_indices == {0, 1}
    _dynamo.mark_static_address(x)
    assert x._dynamo_static_input_type == "unguarded"
    assert facula.compile(double)(x).shape == (4, 3)


def test_marks_on_functions_give_them_back():
    for mark in (
        _dynamo.allow_in_graph, _dynamo.assume_constant_result, _dynamo.forbid_in_graph, _dynamo.disallow_in_graph,
        _dynamo.nonstrict_trace, _dynamo.dont_skip_tracing, facula.compiler.nested_compile_region,
    ):  # fmt: skip
        assert mark(double) is double
    assert _dynamo.allow_in_graph([double, len]) == [double, len] and double._dynamo_marked_constant
    assert facula.compiler.substitute_in_graph(double)(lambda x: x)(3) == 3
    assert _dynamo.skip_frame() is None and _dynamo.step_unsupported() is None
    del double._dynamo_marked_constant


def test_other_ways_to_say_compile():
    x = facula.ones(2)
    assert _dynamo.optimize("eager")(double)(x).tolist() == [2, 2]
    assert _dynamo.optimize("inductor", dynamic=True)(double).settings.dynamic is True
    assert _dynamo.optimize_assert("eager")(double).settings.fullgraph
    assert isinstance(_dynamo.optimize()(nn.ReLU()), _dynamo.OptimizedModule)


def test_guard_filters_and_arrays():
    class Entry:
        guard_type, is_global, value = "TENSOR_MATCH", True, facula.ones(1)

    compiler = facula.compiler
    assert compiler.skip_all_guards_unsafe([Entry, Entry]) == [False, False]
    assert compiler.skip_guard_on_globals_unsafe([Entry]) == [False] == compiler.keep_portable_guards_unsafe([Entry])
    assert compiler.keep_tensor_guards_unsafe([Entry]) == [True] == compiler.skip_guard_on_all_nn_modules_unsafe([Entry])
    assert compiler.skip_guard_on_inbuilt_nn_modules_unsafe([Entry]) == [True]
    facula.compile(double, options={"guard_filter_fn": compiler.skip_all_guards_unsafe})
    added = compiler.wrap_numpy(lambda a, b: {"sum": a + b})(facula.ones(2), b=facula.ones(2))
    assert added["sum"].tolist() == [2, 2]


def test_compiled_functions_in_threads():
    compiled = facula.compile(lambda x: (x.exp() * 2 + 1).sum())
    expected, found = compiled.function(facula.ones(64)).item(), []

    def work():
        found.extend(compiled(facula.ones(64)).item() for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 200 and len(compiled.recordings) >= 1
