"""torch.compile: what compiled functions are, what is refused, fullgraph, and what is left out.

What they do beside their result is asked by test_compile_impure.py; modules, stances, backends and logs by test_compile_told.py;
settings and names by test_compile_names.py.
"""

import copy
import functools
import gc
import inspect
import pickle
import threading
import weakref

import pytest
from compile_cases import from_nothing  # noqa: F401  before and after each test

import facula
from facula import _dynamo, nn
from facula._dynamo import exc


def double(x):
    """Twice."""
    return 2 * x


@facula.compile
def tripled(x):
    return 3 * x


# ---- functions


def test_a_compiled_function_looks_like_the_function():
    compiled = facula.compile(double)
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("double", "Twice.", __name__)
    assert compiled.__wrapped__ is double and inspect.signature(compiled) == inspect.signature(double)
    assert _dynamo.eval_frame.innermost_fn(compiled) is double
    assert compiled(facula.ones(2)).tolist() == [2, 2] and compiled(x=facula.ones(1)).tolist() == [2]
    assert copy.copy(compiled) is compiled and copy.deepcopy([compiled])[0] is compiled
    assert repr(compiled) == f"<compiled {double!r}>" and not hasattr(facula, "CompiledFunction")
    assert pickle.loads(pickle.dumps(tripled)) is tripled
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(compiled)


def test_a_decorator_with_and_without_arguments():
    @facula.compile
    def one(x):
        return x + 1

    @facula.compile(fullgraph=True, dynamic=False, mode="max-autotune")
    def two(x, *, y=0):
        return x + 2 + y

    assert one(facula.zeros(1)).item() == 1 and two(facula.zeros(1), y=1).item() == 3
    options = {"max-autotune": True, "triton.cudagraphs": True}
    chosen = facula.compile(double, options=options).get_compiler_config()
    assert chosen["max_autotune"] and chosen["triton.cudagraphs"] and not chosen["freezing"]
    assert facula.compile(double, mode="reduce-overhead").get_compiler_config()["triton.cudagraphs"]
    assert not facula.compile(double).get_compiler_config()["triton.cudagraphs"]
    assert facula.compile(double, backend="eager", mode="reduce-overhead").get_compiler_config() is None


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
        (lambda: facula.compile(double, mode="fast"), RuntimeError, "^compile: a mode must be 'default', .*got 'fast'$"),
        (lambda: nn.ReLU().compile(mode="fast"), RuntimeError, "^compile: a mode must be 'default', .*got 'fast'$"),
        (lambda: facula.compile(double, options={"nope": 1}), RuntimeError, "^compile: an option is .*got 'nope'$"),
        (lambda: facula.compile(double, options={"max_autotune": 3}), RuntimeError, "of type bool, got 3$"),
        (lambda: facula.compile(double, options=[1]), TypeError, "options are a dict, got list$"),
        (lambda: facula.compile(double, backend="nonsense"), exc.InvalidBackend, "a backend must be .*, got 'nonsense'$"),
        (lambda: facula.compile(double, backend="indutcor"), exc.InvalidBackend, r"got 'indutcor'. Did you mean: 'inductor'\?$"),
        (lambda: facula.compile(double, backend=3), exc.InvalidBackend, ", got 3$"),
        (lambda: facula.compile(double, dynamic="x"), TypeError, "dynamic is True or False, got 'x'$"),
        (lambda: facula.compile(double, fullgraph=1), TypeError, "fullgraph is True or False, got 1$"),
        (lambda: facula.compile(double, recompile_limit=0), ValueError, "from 1 on, got 0$"),
        (lambda: facula.compiler.set_stance("nope"), RuntimeError, "^set_stance: a stance must be .*, got 'nope'$"),
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
        (lambda: _dynamo.mark_dynamic(facula.ones(2), 1), IndexError, r"of shape \(2,\) is expected, got 1$"),
        (lambda: _dynamo.mark_static(facula.ones(2), "0"), TypeError, "a dimension is an int, got '0'$"),
        (lambda: _dynamo.mark_static_address(3), TypeError, "^mark_static_address: .*got int$"),
        (lambda: _dynamo.optimize("eager").__enter__(), RuntimeError, "^optimize: takes a function"),
        (lambda: facula._inductor.list_mode_options("nope"), RuntimeError, "got 'nope'$"),
        (lambda: facula._logging.set_logs(nope=True), TypeError, "no log of this name, got 'nope'$"),
        (lambda: facula._logging.set_logs(dynamo="x"), ValueError, "level of dynamo is one of 50, .*, got 'x'$"),
        (lambda: facula._logging.set_logs(graph_breaks=3), ValueError, "graph_breaks is told or is not"),
        (lambda: facula._logging.getArtifactLogger("m", "nope"), ValueError, "got 'nope'$"),
    ],
)  # fmt: skip
def test_what_is_refused(use, kind, text):
    with pytest.raises(kind, match=text) as caught:
        use()
    assert caught.type is kind


# ---- fullgraph


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: x if x.sum() > 0 else -x, "bool"),
        (lambda x: x if not x[0] else -x, "bool"),
        (lambda x: x[0] and x[1], "bool"),
        (lambda x: str(x + 1), "repr"),
        (lambda x: [1, 2, 3][x.long()[0]], "index"),
        (lambda x: x if facula.equal(x, x + 1) else -x, "equal"),
        (lambda x: x if x.allclose(x + 1) else -x, "allclose"),
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
    with pytest.raises(exc.Unsupported, match="graph_break"):  # fullgraph holds
        facula.compile(lenient, fullgraph=True)(facula.ones(1))
    assert facula.compile(_dynamo.error_on_graph_break(True)(lambda x: lenient(x)))(facula.ones(1)).item() == 2
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
