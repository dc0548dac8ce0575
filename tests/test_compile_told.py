"""Compiled modules; stances, limits and backends; what is counted, explained and logged; marks on tensors and functions."""

import copy
import io
import pickle
import re
import threading
import types
from pathlib import Path

import pytest
from compile_cases import from_nothing  # noqa: F401  before and after each test

import facula
from facula import _dynamo, nn
from facula._dynamo import config, exc
from facula._dynamo.testing import CompileCounter, CompileCounterWithBackend
from facula._dynamo.utils import counters


def fresh(function):
    """The function with a code of its own: functions with the same one share their recordings."""
    return types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__)


def double(x):
    """Twice."""
    return 2 * x


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


def test_how_a_module_was_compiled_can_be_done_to_its_methods():
    """As Lightning does, which calls the steps of the module inside."""

    class Steps(nn.Module):
        def training_step(self, x):
            return x + facula.compiler.is_compiling()

    compiled = facula.compile(Steps(), dynamic=False)
    model = compiled._orig_mod
    assert compiled.training_step(facula.zeros(1)).item() == 0
    model.training_step = compiled.dynamo_ctx(model.training_step)
    assert compiled.training_step(facula.zeros(1)).item() == 1 and model.training_step.settings is compiled.forward.settings
    assert isinstance(compiled.dynamo_ctx(nn.ReLU()), _dynamo.OptimizedModule)


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
    assert copy.deepcopy(nn.ReLU().compile()).__dict__.keys() == nn.ReLU().__dict__.keys()
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
    late = facula.compile(fresh(double))
    with facula.compiler.set_stance("eager_then_compile"):
        late(facula.ones(2))
        assert late.recordings == []
        late(facula.ones(2))
        assert len(late.recordings) == 1
    run = _dynamo.run(facula.compile(fresh(double)))
    assert run(facula.ones(2)).tolist() == [2, 2] and _dynamo.run()(double)(facula.ones(1)).tolist() == [2]


def test_limits_of_recording():
    def sizes(compiled, count):
        return [compiled(facula.ones(i + 1)).numel() for i in range(count)]

    few = facula.compile(fresh(double), recompile_limit=2)
    assert sizes(few, 5) == [1, 2, 3, 4, 5] and len(few.recordings) == 2
    with config.patch(recompile_limit=3, fail_on_recompile_limit_hit=True):
        compiled = facula.compile(fresh(double))
        assert sizes(compiled, 3) == [1, 2, 3]
        with pytest.raises(exc.FailOnRecompileLimitHit, match="^compile: at most 3 .*double"):
            compiled(facula.ones(9))
        assert compiled(facula.ones(2)).tolist() == [2, 2]
    with config.patch(error_on_recompile=True):
        compiled = facula.compile(fresh(double))
        compiled(facula.ones(1))
        with pytest.raises(exc.RecompileError, match="^compile: .*got number 2 of double"):
            compiled(facula.ones(2))


@pytest.mark.parametrize("backend", ["inductor", "eager"])
def test_sizes_and_dtypes_that_are_known_are_not_recorded_again(backend):
    compiled = facula.compile(lambda x, *, y=0: x + y, backend=backend)
    for call in range(12):
        compiled(facula.ones(2 + call % 3))
    assert counters["frames"] == {"total": 3, "ok": 3}
    for _ in range(3):
        compiled(facula.ones(2).double())
    assert counters["frames"]["total"] == 4
    for _ in range(3):
        compiled(facula.ones(2), y=facula.ones(5, 2))
    assert counters["frames"]["total"] == 5


def test_what_is_looked_at_again_after_a_thousand_calls_is_nothing_new():
    compiled = facula.compile(lambda x: x + 1)
    with config.patch(error_on_recompile=True), facula.compiler.set_stance("default"):
        for _ in range(2200):
            compiled(facula.ones(2))
        assert counters["frames"]["total"] == 1
        with facula.compiler.set_stance("fail_on_recompile"):
            for _ in range(1100):
                compiled(facula.ones(2))


def test_a_refused_call_leaves_the_others_as_they_are():
    compiled = facula.compile(lambda x: x * 3)
    compiled(facula.ones(2))
    with facula.compiler.set_stance("eager_on_recompile"):
        assert compiled(facula.ones(3)).tolist() == [3, 3, 3]
    assert len(compiled.recordings) == 1
    compiled(facula.ones(2))
    assert len(compiled.recordings) == 1
    compiled(facula.ones(3))
    assert len(compiled.recordings) == 2


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
    assert facula.compile(double, backend="mine")(facula.ones(1)).item() == 2


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
    facula.compile(fresh(double), backend=other)(facula.ones(1))
    assert other.frame_count == 1 and other.op_count == 1
    assert "recorded calls: 4" in _dynamo.utils.compile_times()  # inductor has recorded one as well
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
        assert f"test_compile_told.py:{line}" in text and "Graph Count: 2" in text and "ms" in told.compile_times
    with pytest.warns(FutureWarning, match="^explain: "):
        assert _dynamo.explain(f, facula.ones(2)).graph_count == 2
    assert _dynamo.explain(nn.ReLU())(facula.ones(1)).op_count == 1 and _dynamo.explain(lambda: 3)().graph_count == 0


def test_an_explained_call_is_a_compiled_one():
    seen = []
    _dynamo.explain(lambda x: seen.append(facula.compiler.is_compiling()))(facula.ones(1))
    assert seen == [True] and not facula.compiler.is_compiling()
    with pytest.raises(KeyError):
        _dynamo.explain(lambda x: {}[x])(1)
    assert not facula.compiler.is_compiling()


def test_the_page_shows_what_is_true(tmp_path, monkeypatch, capsys):
    docs = Path(__file__).resolve().parents[1] / "docs"
    page, backends = (docs / "compile.md").read_text(), (docs / "compile_backends.md").read_text()
    first, program = re.findall(r"```python\n(.*?)```", page, re.S)
    (backend,) = re.findall(r"```python\n(.*?)```", backends, re.S)
    scope = {"torch": facula}
    exec(compile(first, "first.py", "exec"), scope)
    x, y = facula.linspace(-2, 2, 9), facula.zeros(9)
    assert scope["loss"](x, y).item() == nn.functional.smooth_l1_loss(x, y).item()
    exec(compile(program, "example.py", "exec"), scope)
    shown = next(text for text in re.findall(r"```text\n(.*?)```", page, re.S) if text.startswith("Graph Count"))
    assert capsys.readouterr().out.startswith(shown)
    exec(compile(backend, "backend.py", "exec"), scope)
    assert f"```text\n{capsys.readouterr().out}```" in backends


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
    assert f"[__graph_breaks] mine: {f.__qualname__}" in text and f"test_compile_told.py:{line}: the program calls graph_break()" in text
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
