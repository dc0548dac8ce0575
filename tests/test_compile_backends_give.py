"""Backends of their own: what they give, gradients, names, threads."""

import copy
import gc
import importlib.metadata
import threading
import types
import weakref

import pytest
from compile_cases import from_nothing  # noqa: F401  before and after each test
from test_compile_backends import Runs, compiled_by_graphs
from test_compile_impure import plain

import facula
import facula.nn.functional as F
from facula import _dynamo, nn
from facula._dynamo import config, exc
from facula._dynamo.backends.common import aot_autograd
from facula._dynamo.testing import AotEagerAndRecordGraphs, CompileCounter, EagerAndRecordGraphs

# ---- what a backend gives


def test_results_are_what_they_have_to_be():
    def case(code):
        return facula.compile(lambda x: (x + 1, x * 2), backend=lambda graph, examples: code)

    x = facula.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"^compile: the backend '<lambda>': expected result 0 .*float32.* got float64"):
        case(lambda x: (x.double(), x))(x)
    with pytest.raises(RuntimeError, match=r"the backend '<lambda>': expected result 1 .*shape \(2, 3\), got"):
        case(lambda x: (x, x[0]))(x)
    with pytest.raises(RuntimeError, match="must give 2 results, got 1"):
        case(lambda x: (x,))(x)
    for wrong in (3, {"a": x}, (x, None)):
        with pytest.raises(TypeError, match="^compile: the backend '<lambda>': must give a t"):
            case(lambda x, wrong=wrong: wrong)(x)
    with pytest.raises(ZeroDivisionError):
        case(lambda x: 1 // 0)(x)


def test_results_belong_to_the_program():
    held = facula.zeros(4)
    codes = {
        "an input": lambda x: (x, x),
        "one tensor twice": lambda x: [x + 1] * 2,
        "a buffer of its own": lambda x: (held, held.view(4)),
        "other strides": lambda x: (facula.ones(8)[::2], facula.ones(4, 1)[:, 0]),
        "numbers of NumPy's": lambda x: (facula.from_numpy(x.numpy() + 1), facula.from_numpy(x.numpy() * 2)),
        "a subclass": lambda x: (nn.Parameter(x), nn.Parameter(x)),
        "with a history": lambda x: (nn.Parameter(x) + 0, nn.Parameter(x) * 1),
    }
    for what, code in codes.items():
        f = facula.compile(lambda x: (x + 1, x * 2), backend=lambda graph, examples, code=code: code)
        x = facula.ones(4)
        for _ in range(3):
            a, b = f(x)
            before = b.clone()
            a.fill_(9)
            assert facula.equal(b, before) and type(a) is facula.Tensor and not a.requires_grad and a.stride() == (1,), what
            assert x.tolist() == [1] * 4 and held.tolist() == [0] * 4, what


def test_after_an_error_results_are_made_by_the_ops():
    seen = []

    def f(x):
        y = x + 1
        try:
            seen.append(y.sum().item())
        except RuntimeError as error:
            seen.append(str(error))
        return y

    def fails(graph, examples):
        raise ValueError("no")

    compiled = facula.compile(f, backend=fails)
    assert compiled(facula.ones(1)).item() == 2 and "the backend 'fails' raised ValueError: no" in seen[0]
    with pytest.raises(exc.BackendCompilerFailed, match="ValueError: no") as caught:
        facula.compile(lambda x: x + 1, backend=fails)(facula.ones(1))
    assert isinstance(caught.value.inner_exception, ValueError) and caught.value.backend_name == "fails"
    with pytest.raises(exc.BackendCompilerFailed, match="TypeError: compile: a backend must return a function, got int"):
        facula.compile(lambda x: x + 1, backend=lambda graph, examples: 3)(facula.ones(1))
    with config.patch(suppress_errors=True):
        assert facula.compile(lambda x: x + 1, backend=fails)(facula.ones(1)).item() == 2


def test_errors_of_the_program_come_where_they_do():
    def f(x, y):
        z = x + 1
        try:
            return z @ y
        except RuntimeError as error:
            return str(error), z

    compiled = compiled_by_graphs(f)
    for y in (facula.ones(2, 2), facula.ones(3, 3), facula.ones(2, 2)):
        a, b = compiled(facula.ones(2, 2), y), f(facula.ones(2, 2), y)
        assert (a[0], a[1].tolist()) == (b[0], b[1].tolist()) if isinstance(b, tuple) else facula.equal(a, b)

    kept = []

    def raises(x):
        kept.append(x * 3)
        raise KeyError("mine")

    compiled = compiled_by_graphs(raises)
    for i in range(3):
        with pytest.raises(KeyError, match="mine"):
            compiled(facula.ones(2))
        assert kept[i].tolist() == [3, 3]


def test_a_backend_gets_mode_and_options():
    given = []

    def backend(graph, examples, **more):
        given.append(more)
        return graph.forward

    for how in ({}, {"mode": "default"}, {"mode": "fast"}, {"options": {"level": 3}}):
        facula.compile(lambda x: x + 1, backend=backend, **how)(facula.ones(1))
    assert given == [{}, {}, {"mode": "fast"}, {"options": {"level": 3}}]


def test_functions_that_take_a_list():
    def backend(graph, examples):
        def code(inputs):
            assert isinstance(inputs, list)
            found = graph.forward(*inputs)
            inputs.clear()
            return list(found)

        code._boxed_call = True
        return code

    f = facula.compile(lambda x, y: (x + y, x - y), backend=backend)
    for _ in range(2):
        assert [t.item() for t in f(facula.ones(1), facula.ones(1))] == [2, 0]


def test_a_backend_may_compile():
    inner = CompileCounter()
    f = facula.compile(lambda x: (x + 1).exp(), backend=lambda graph, examples: facula.compile(graph.forward, backend=inner))
    for _ in range(3):
        assert facula.equal(f(facula.ones(3)), facula.full((3,), 2.0).exp())
    assert inner.frame_count == 1
    g = facula.compile(lambda x: f(x) * 2, backend=inner)  # the outer call is the one
    assert facula.equal(g(facula.ones(3)), facula.full((3,), 2.0).exp() * 2) and inner.op_count == 2 + 3
    h = facula.compile(lambda x: x.sin().cos(), backend=lambda graph, examples: _dynamo.lookup_backend("inductor")(graph, examples))
    x = facula.randn(200, 100)
    for _ in range(25):
        assert facula.equal(h(x), x.sin().cos())


# ---- gradients


def test_the_tape_is_the_real_one():
    runs = Runs()
    weight = nn.Parameter(facula.randn(3))
    f = facula.compile(lambda x: (x * weight).exp().sum(), backend=runs)
    x = facula.randn(3, requires_grad=True)
    for _ in range(3):
        wanted = facula.autograd.grad((x * weight).exp().sum(), (x, weight))
        y = f(x)
        assert type(y.grad_fn).__name__ == type((x * weight).exp().sum().grad_fn).__name__
        found = facula.autograd.grad(y, (x, weight), create_graph=True)
        assert all(map(facula.equal, found, wanted)) and found[0].requires_grad
    assert len(runs.graphs) == 1 and len(runs.graphs[0].graph.output_node().args[0]) == 2  # the tape keeps the exponential
    with facula.no_grad():
        f(x)
    assert len(runs.graphs) == 1  # it gives what is wanted, and more


def test_backward_passes_have_a_compiler():
    seen = AotEagerAndRecordGraphs()
    layer = nn.Linear(4, 4)
    f = facula.compile(lambda x: layer(x).tanh().sum(), backend=seen)
    x = facula.randn(2, 4, requires_grad=True)
    for _ in range(3):
        layer.zero_grad()
        f(x).backward()
        found = [p.grad.clone() for p in layer.parameters()]
        layer.zero_grad()
        layer(x).tanh().sum().backward()
        x.grad = None
        assert all(map(facula.equal, found, [p.grad for p in layer.parameters()]))
    assert (len(seen.graphs), len(seen.fw_graphs), len(seen.bw_graphs)) == (1, 1, 1)
    targets = [str(n.target) for n in seen.bw_graphs[0].graph.nodes]
    assert "aten.mm.default" in targets and "aten.sum.dim_IntList" in targets
    x.grad = None
    f(x).backward()  # gradients that are there are added to: what is added is made before
    assert len(seen.fw_graphs) == 1


def test_compilers_for_inference_and_decompositions():
    told = []

    def compiler(kind):
        return lambda graph, examples: told.append((kind, [str(n.target) for n in graph.graph.nodes if n.op == "call_function"])) or graph.forward

    aten = facula.ops.aten
    table = {aten.silu.default: lambda x: x * x.sigmoid()}
    how = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"), decompositions=table)
    f = facula.compile(F.silu, backend=how)
    f(facula.ones(2))
    x = facula.ones(3, requires_grad=True)
    f(x).sum().backward()
    product = ["aten.sigmoid.default", "aten.mul.Tensor"]
    assert told[:2] == [("inference", product), ("forward", product)] and {kind for kind, _ in told[2:]} == {"backward"}
    from facula.compat.functorch.compile import min_cut_rematerialization_partition

    aot_autograd(fw_compiler=compiler("forward"), partition_fn=min_cut_rematerialization_partition)
    with pytest.raises(NotImplementedError, match="partition_fn could divide .*got 'plain'"):
        aot_autograd(fw_compiler=compiler("forward"), partition_fn=plain)
    with pytest.raises(NotImplementedError, match="^min_cut_rematerialization_partition: "):
        min_cut_rematerialization_partition(None, None, num_fwd_outputs=1)


def test_functorch_compile(capsys):
    from facula.compat.functorch.compile import (
        aot_function,
        aot_module,
        aot_module_simplified,
        get_aot_graph_name,
        make_boxed_func,
        nop,
        print_compile,
    )

    x = facula.randn(3, requires_grad=True)
    names = []

    def named(graph, examples):
        names.append(get_aot_graph_name())
        return make_boxed_func(graph.forward)

    sine = aot_function(lambda x: x.sin(), named)
    sine(x).sum().backward()
    assert facula.equal(x.grad, x.cos()) and [n.split("_")[-2] for n in names] == ["forward", "backward"]
    layer = nn.Linear(3, 3)
    module = aot_module(layer, nop)
    assert facula.equal(module(x), layer(x)) and [p.shape for p in module.parameters()] == [(3, 3), (3,)]
    aot_function(lambda x: x * 2, print_compile)(facula.ones(1))
    assert "torch.ops.aten.mul.Tensor(arg0_1, 2)" in capsys.readouterr().out
    seen = []

    def backend(graph, examples):
        return aot_module_simplified(graph, examples, fw_compiler=lambda g, e: seen.append("fw") or g.forward, bw_compiler=lambda g, e: seen.append("bw") or make_boxed_func(g.forward))

    exponential = facula.compile(lambda x: x.exp(), backend=backend)
    exponential(x).sum().backward()
    assert seen == ["fw", "bw"]


# ---- names


def test_backends_that_packages_bring(monkeypatch):
    from facula._dynamo.backends import registry

    runs = Runs()
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_tags", {})
    point = types.SimpleNamespace(name="brought", load=lambda: runs)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point] if group == "torch_dynamo_backends" else [])
    registry._installed.cache_clear()
    try:
        assert "brought" in facula.compiler.list_backends()
        assert facula.compile(lambda x: x + 1, backend="brought")(facula.ones(1)).item() == 2 and runs.runs == [1]
        _dynamo.optimize("brought")(lambda x: x + 1)(facula.ones(2))
        assert len(runs.graphs) == 2
    finally:
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
        registry._installed.cache_clear()

    @_dynamo.register_backend(name="mine", tags=("experimental",))
    def other(graph, examples):
        return graph.forward

    assert "mine" not in _dynamo.list_backends() and "mine" in _dynamo.list_backends(exclude_tags=("debug",))
    assert facula.compile(lambda x: x + 1, backend="mine").settings.backend == "mine"


def test_backends_that_look():
    from facula._dynamo.backends import debugging

    told = debugging.ExplainWithBackend("eager")

    def f(x):
        y = x + 1
        _dynamo.graph_break()
        return y * 2

    facula.compile(f, backend=told)(facula.ones(2))
    output = told.output()
    assert (output.graph_count, output.graph_break_count, output.op_count) == (2, 1, 2) and "aten.mul.Tensor" in str(output)
    seen = EagerAndRecordGraphs()
    facula.compile(f, backend=seen)(facula.ones(2))
    assert len(seen.graphs) == 2
    for backend in (debugging.eager, debugging.eager_noexcept, debugging.aot_eager, debugging.boxed_nop):
        assert facula.compile(f, backend=backend)(facula.ones(2)).tolist() == [4, 4]


# ---- threads, memory


def test_threads_share_code():
    runs = Runs()
    f = facula.compile(lambda x, n: ((x + n).sin() * n).sum(), backend=runs)
    wrong = []

    def work(n):
        for i in range(200):
            x = facula.full((4,), float(i))
            if not facula.equal(f(x, n), ((x + n).sin() * n).sum()):
                wrong.append((n, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [] and 3 <= len(runs.graphs) <= 9


def test_what_waits_is_made_for_another_thread():
    def f(x):
        y = x * 2
        found = []
        thread = threading.Thread(target=lambda: found.append(y.tolist()))
        thread.start()
        thread.join()
        return y + 1, found

    compiled = compiled_by_graphs(f)
    for _ in range(3):
        y, found = compiled(facula.ones(2))
        assert y.tolist() == [3, 3] and found == [[2, 2]]


def test_nothing_is_held_after_a_call():
    f = compiled_by_graphs(lambda x: (x * 2).sin() + 1)
    x = facula.ones(1000)
    f(x)
    seen = weakref.ref(x)
    y = f(x)
    del x
    gc.collect()
    assert seen() is None and y.untyped_storage().nbytes() == 4000


def test_copies_of_compiled_functions_share_code():
    runs = Runs()
    model = facula.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), backend=runs)
    other = copy.deepcopy(model)
    x = facula.ones(1, 2)
    assert facula.equal(model(x), other(x))
