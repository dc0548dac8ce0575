"""Backends that go about graphs as those do which people use: they look at nodes, partition, translate, trace, exchange memory."""

import copy
import hashlib
import operator
import pickle

import numpy
import pytest
from compile_cases import from_nothing  # noqa: F401  before and after each test

import facula
from facula import fx, nn
from facula._dynamo.backends.common import aot_autograd
from facula.compat.functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from facula.fx.passes.shape_prop import ShapeProp
from facula.fx.passes.split_module import split_module

aten = facula.ops.aten


def in_numpy(graph, examples):
    """Translates nodes one by one for another library; what it lacks runs as it is."""
    table = {
        aten.t.default: lambda x: x.T,
        aten.relu.default: lambda x: numpy.maximum(x, 0),
        aten.mul.Tensor: numpy.multiply,
        aten.add.Tensor: numpy.add,
        aten.addmm.default: lambda bias, a, b: a @ b + bias,
        operator.getitem: operator.getitem,
    }
    if any(node.op == "call_function" and node.target not in table for node in graph.graph.nodes):
        return graph.forward

    class Translated(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return table[target](*args, **kwargs)

    runs = Translated(graph)
    return lambda *inputs: tuple(facula.from_numpy(numpy.array(x)) for x in runs.run(*(x.numpy() for x in inputs)))


def by_parts(graph, examples):
    """Gives products to one engine and the rest to another, each a module of its own."""
    heavy = {aten.addmm.default, aten.mm.default, aten.bmm.default}
    color = {}
    for node in graph.graph.nodes:
        before = max((color[n] for n in node.all_input_nodes if n in color), default=0)
        color[node] = before + ((node.target in heavy) != bool(before % 2))
    parts = split_module(graph, graph, lambda node: color[node])
    assert len(list(parts.children())) >= 1
    return parts


_known = {}


def by_hash(graph, examples):
    """Keeps what it has made by the text of the graph and the sizes of the inputs."""
    key = hashlib.sha256(f"{graph.code}{[(tuple(x.shape), x.dtype) for x in examples]}".encode()).hexdigest()
    return _known.setdefault(key, graph.forward)


def with_weights_inside(graph, examples):
    """Takes parameters for constants of the engine; only what changes is handed over."""
    constants = {i: x.detach().clone() for i, x in enumerate(examples) if isinstance(x, nn.Parameter)}
    assert len(constants) >= 2

    def code(*inputs):
        assert all(facula.equal(inputs[i], value) for i, value in constants.items())
        return list(graph.forward(*(constants.get(i, x.contiguous()) for i, x in enumerate(inputs))))

    return code


def with_static_memory(graph, examples):
    """Copies inputs into buffers of its own, runs there, and gives the same results' memory each time."""
    places = [x.detach().clone() for x in examples]
    results = []

    def code(*inputs):
        for place, x in zip(places, inputs, strict=True):
            place.copy_(x)
        made = graph.forward(*places)
        if not results:
            results.extend(x.clone() for x in made)
        for place, x in zip(results, made, strict=True):
            place.copy_(x)
        return tuple(results)

    return code


def by_dlpack(graph, examples):
    """Exchanges tensors with a library that speaks DLPack."""

    def code(*inputs):
        given = [facula.from_dlpack(numpy.from_dlpack(x)) for x in inputs]
        return tuple(facula.from_dlpack(numpy.from_dlpack(x.contiguous())) for x in graph.forward(*given))

    return code


def on_a_copy(graph, examples):
    """Changes a copy of the graph module and moves it to its device."""
    module = copy.deepcopy(graph).to("cpu").eval()
    for node in list(module.graph.nodes):
        if node.target is aten.relu.default:
            with module.graph.inserting_after(node):
                clamped = module.graph.call_function(aten.clamp_min.default, (node.args[0], 0))
            node.replace_all_uses_with(clamped)
            module.graph.erase_node(node)
    module.graph.lint()
    module.recompile()
    return module


def with_shapes(graph, examples):
    """Finds out shapes and counts what products cost, by `meta`."""
    ShapeProp(graph).propagate(*examples)
    cost = 0
    for node in graph.graph.nodes:
        assert node.op == "output" or node.meta["tensor_meta"].shape == node.meta["val"].shape or isinstance(node.meta["val"], tuple)
        if node.target is aten.addmm.default:
            _, a, b = node.args
            cost += 2 * a.meta["val"].shape[0] * a.meta["val"].shape[1] * b.meta["val"].shape[1]
    graph.cost = cost
    return graph.forward


def rewritten(graph, examples):
    """Replaces patterns."""

    def pattern(x):
        return aten.mul.Tensor(aten.relu.default(x), 2)

    def replacement(x):
        return aten.relu.default(aten.mul.Tensor(x, 2))

    fx.subgraph_rewriter.replace_pattern(graph, pattern, replacement)
    graph.recompile()
    return graph.forward


def reinterpreted(graph, examples):
    """Traces the graph once more, with ops of its own table."""
    traced = fx.experimental.proxy_tensor.make_fx(graph, {aten.relu.default: lambda x: x.clamp_min(0)})(*(x.detach() for x in examples))
    assert aten.relu.default not in {node.target for node in traced.graph.nodes}
    return traced


def sent(graph, examples):
    """Sends the module to another process, as bytes."""
    return pickle.loads(pickle.dumps(graph))


two_passes = aot_autograd(
    fw_compiler=lambda graph, examples: make_boxed_func(graph.forward),
    bw_compiler=lambda graph, examples: make_boxed_func(fx.Interpreter(graph).run),
    partition_fn=min_cut_rematerialization_partition,
)
BACKENDS = [in_numpy, by_parts, by_hash, with_weights_inside, with_static_memory, by_dlpack, on_a_copy, with_shapes, rewritten, reinterpreted,
            sent, two_passes]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.__name__)
def test_inference(backend):
    facula.manual_seed(0)
    layers = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4))

    def f(x):
        return layers(x).relu() * 2

    compiled = facula.compile(f, backend=backend)
    with facula.no_grad():
        for size in (3, 3, 5, 3):
            x = facula.randn(size, 6)
            kept = compiled(x)
            facula.testing.assert_close(compiled(x), f(x))
            compiled(facula.randn(size, 6))
            facula.testing.assert_close(kept, f(x))  # no later call writes to it


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b is not with_weights_inside], ids=lambda b: b.__name__)
def test_training(backend):
    def train(how):
        facula.manual_seed(0)
        layers = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4))
        step = how(layers)
        optimizer = facula.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            loss = (step(facula.randn(8, 6)) * 2).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return [p.detach().clone() for p in layers.parameters()]

    facula.testing.assert_close(train(lambda layers: facula.compile(layers, backend=backend)), train(lambda layers: layers))
