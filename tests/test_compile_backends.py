"""Backends of their own: what they are given, when, and that what they give is used for that only."""

import warnings

import compile_programs
import numpy
import pytest
from compile_cases import from_nothing  # noqa: F401  before and after each test
from op_samples import all_ops, call, has_samples, samples
from test_compile_impure import CALLS, CASES, plain, trace
from test_ops import dtype_of, rng_for

import facula
import facula.nn.functional as F
from facula import _dynamo, nn
from facula._dynamo import config, exc
from facula._dynamo.backends.common import aot_autograd
from facula._dynamo.testing import AotEagerAndRecordGraphs, CompileCounter
from facula._dynamo.utils import counters
from facula.utils import _pytree as pytree


class Runs:
    """A backend that gives graphs back as they are, and knows how often each has run."""

    def __init__(self):
        self.graphs, self.examples, self.runs = [], [], []

    def __call__(self, graph, examples, **more):
        number = len(self.graphs)
        self.graphs.append(graph)
        self.examples.append(examples)
        self.runs.append(0)

        def run(*inputs):
            self.runs[number] += 1
            return graph.forward(*inputs)

        return run

    def targets(self, number=0):
        return [str(node.target) for node in self.graphs[number].graph.nodes if node.op == "call_function"]


def compiled_by_graphs(function):
    return facula.compile(function, backend=lambda graph, examples: graph.forward)


# ---- nothing but the graph's ops on the same values


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [(6, 4), (128, 96)], ids=["few", "many"])
def test_effects_are_those_of_eager_calls(name, size):
    eager, compiled = trace(CASES[name], size, plain), trace(CASES[name], size, compiled_by_graphs)
    assert [i for i in range(CALLS) if eager[i] != compiled[i]] == []  # the calls that differ


@pytest.mark.parametrize("name", CASES)
def test_effects_are_those_of_eager_calls_where_backward_passes_are_compiled_too(name):
    how = aot_autograd(fw_compiler=lambda graph, examples: graph.forward)
    size = (6, 4)
    eager, compiled = trace(CASES[name], size, plain), trace(CASES[name], size, lambda f: facula.compile(f, backend=how))
    assert [i for i in range(CALLS) if eager[i] != compiled[i]] == []


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_random_programs(first):
    warnings.simplefilter("ignore")
    for seed in range(first, first + 25):
        program = compile_programs.Program(seed)

        def run(p, inputs):
            return p.run(inputs)

        compiled = compiled_by_graphs(run)
        wanted, errors = compile_programs.outcome(program, run)
        for _ in range(3):
            values, raised = compile_programs.outcome(program, compiled)
            assert raised == errors and len(values) == len(wanted), seed
            assert all(map(compile_programs.same, values, wanted)), seed


def bits(value):
    """What tells two results apart; nothing of a NaN but that it is one."""
    if not isinstance(value, facula.Tensor):
        return repr(value)
    plain = value.resolve_conj()
    plain = facula.view_as_real(plain) if plain.is_complex() else plain
    numbers = [repr(number) for number in plain.flatten().tolist()]  # repr tells -0.0 from 0.0
    return value.dtype, value.shape, value.stride(), numbers


@pytest.mark.parametrize("op", [op for op in all_ops() if has_samples(op) and "empty" not in op.name], ids=lambda op: op.id)
def test_every_op_in_a_graph(op):
    """Code is made for one sample and runs another one of its form, too: graphs compute, and by the very ops."""
    warnings.simplefilter("ignore")
    for args, kwargs in samples(op, dtype_of(op), rng_for(op))[:2]:
        leaves, spec = pytree.tree_flatten((args, kwargs))

        def f(*leaves, spec=spec):
            given, named = pytree.tree_unflatten(list(leaves), spec)
            return call(op, *given, **named)

        compiled = compiled_by_graphs(f)
        other = [x.flip(0).clone() if isinstance(x, facula.Tensor) and x.is_floating_point() and x.dim() else x for x in leaves]
        for given in (leaves, other, leaves):
            results = []
            for function in (f, compiled):
                own = [x.clone() if isinstance(x, facula.Tensor) else x for x in given]
                facula.manual_seed(1)
                try:
                    with facula.no_grad():
                        results.append([bits(r) for r in (*pytree.tree_leaves(function(*own)), *own)])
                except (RuntimeError, ValueError, IndexError) as error:  # the other one may not be a sample
                    results.append(str(error))
            assert results[0] == results[1]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x)), inplace=True), 4)
        return self.head(self.mix(x.flatten(2).transpose(1, 2)).mean(1))


@pytest.mark.parametrize("backend", [Runs, AotEagerAndRecordGraphs])
def test_training_gives_the_same_bits(backend):
    def train(how):
        facula.manual_seed(3)
        model = Small()
        step = how(model)
        optimizer = facula.optim.AdamW(model.parameters(), lr=0.01)
        losses = []
        for _ in range(12):
            loss = F.cross_entropy(step(facula.randn(6, 3, 16, 16)), facula.randint(5, (6,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [t.clone() for t in model.state_dict().values()]

    (eager, state), (losses, other) = train(plain), train(lambda m: facula.compile(m, backend=backend()))
    assert losses == eager and all(map(facula.equal, state, other))


# ---- what a backend is given


def test_a_graph_of_aten_targets_and_the_tensors_that_it_reads():
    runs = Runs()
    layer = nn.Linear(3, 2)
    f = facula.compile(lambda x, scale: (layer(x) * scale).relu(), backend=runs)
    x = facula.randn(4, 3)
    with facula.no_grad():
        y = f(x, 0.5)
    assert runs.runs == [1]  # also the first call is run by what the backend gave
    assert runs.targets() == ["aten.t.default", "aten.addmm.default", "aten.mul.Tensor", "aten.relu.default"]
    nodes = list(runs.graphs[0].graph.nodes)
    assert [n.name for n in nodes if n.op == "placeholder"] == ["arg0_1", "arg1_1", "arg2_1"]
    assert [e.shape for e in runs.examples[0]] == [(4, 3), (2, 3), (2,)]
    assert runs.examples[0][1] is layer.weight and runs.examples[0][2] is layer.bias
    assert nodes[-1].op == "output" and isinstance(nodes[-1].args[0], tuple) and nodes[0].meta["val"].shape == (4, 3)
    assert facula.equal(y, (layer(x) * 0.5).relu())


def test_code_is_used_for_the_same_ops_on_tensors_of_the_same_form_only():
    runs = Runs()
    f = facula.compile(lambda x, y, n: (x + y) * n, backend=runs)
    a, b = facula.randn(4, 3), facula.randn(4, 3)
    for x, y, n in [(a, b, 2), (b, a, 2), (a, a.t().contiguous().t(), 2), (a, b, 3), (a, b, 2.0), (a.double(), b, 2), (a, b[:1], 2), (a, a, 2)]:
        for _ in range(2):
            assert facula.equal(f(x, y, n), (x + y) * n)
    # the strides, the number, its type, the dtype, the sizes, and which operands are one tensor
    assert runs.runs == [4, 2, 2, 2, 2, 2, 2] and len(f.recordings) == 7
    zeros = facula.compile(lambda x, n: facula.copysign(x, n), backend=runs)
    assert [zeros(a.abs(), n).sum().sign().item() for n in (0.0, -0.0, 0.0)] == [1, -1, 1]


def test_dead_ops_are_left_out_and_what_the_program_holds_is_a_result():
    runs = Runs()
    kept = []

    def f(x):
        y = x.sin()
        x.cos()
        kept.append(x.exp())
        return y * 2

    facula.compile(f, backend=runs)(facula.ones(2))
    assert runs.targets() == ["aten.sin.default", "aten.exp.default", "aten.mul.Tensor"]
    assert len(next(n for n in runs.graphs[0].graph.nodes if n.op == "output").args[0]) == 2


def test_a_call_that_holds_more_is_compiled_once_more():
    runs, kept = Runs(), []

    def f(x, keep):
        y = x.sin()
        if keep:
            kept.append(y)
        return y * 2

    compiled = facula.compile(f, backend=runs)
    for keep in (False, True, False, True):
        compiled(facula.ones(2), keep)
    assert runs.runs == [1, 2 + 1] or runs.runs == [2, 2]
    assert all(facula.equal(k, facula.ones(2).sin()) for k in kept) and len(kept) == 2


def test_views_and_writes_to_what_waits_are_ops():
    runs = Runs()

    def f(x):
        y = x[:, 1:].clone()
        y[0].mul_(3)
        y += 1
        return y.t()

    compiled = facula.compile(f, backend=runs)
    x = facula.arange(6.0).reshape(2, 3)
    for _ in range(3):
        assert facula.equal(compiled(x), f(x)) and compiled(x)._version == f(x)._version
    assert runs.targets() == ["aten.slice.Tensor", "aten.clone.default", "aten.select.int", "aten.mul_.Tensor", "aten.add_.Tensor"]


@pytest.mark.parametrize(
    ("write", "graphs"),
    [
        (lambda x: x.add_(1), 2),
        (lambda x: x[0].zero_(), 2),
        (lambda x: x.detach().mul_(2), 2),
        (lambda x: x.copy_(facula.zeros(3)), 2),
        (lambda x: x.numpy().fill(5), 2),
        (lambda x: facula.add(x, 1, out=x), 2),
        (lambda x: x.resize_(1), 2),
        (lambda x: None, 1),
    ],
)
def test_what_is_written_is_read_before(write, graphs):
    runs = Runs()

    def f(x):
        y = x * 2
        write(x)
        return y, x[:1] + 1

    compiled = facula.compile(f, backend=runs)
    for _ in range(3):
        assert [t.tolist() for t in compiled(facula.ones(3))] == [t.tolist() for t in f(facula.ones(3))]
    assert len(runs.graphs) >= graphs


def test_memory_that_others_write_is_read_at_the_call():
    array = numpy.ones(3, dtype=numpy.float32)
    x = facula.from_numpy(array)

    def f():
        y = x + 1
        z = x[1:]
        array[:] *= 2
        return y, z * 1, x * 1

    compiled = compiled_by_graphs(f)
    for i in range(4):
        y, z, w = compiled()
        assert y.tolist() == [2.0**i + 1] * 3 and z.tolist() == [2.0 ** (i + 1)] * 2 and w.tolist() == [2.0 ** (i + 1)] * 3


@pytest.mark.parametrize("name", "silu gelu relu elu celu softplus mish".split())
def test_activations_are_ops_of_graphs_forwards_and_backwards(name):
    seen = AotEagerAndRecordGraphs()
    f, x = facula.compile(getattr(F, name), backend=seen), facula.randn(3, requires_grad=True)
    f(x).sum().backward()
    assert len(seen.fw_graphs) == 1 and len(seen.bw_graphs) == 1


def test_what_fails_by_value():
    """A factorization fails at its line; an index is looked at where the stretch ends."""

    def f(x):
        try:
            return facula.linalg.cholesky(x + 0) * 2
        except RuntimeError:
            return x - 1

    compiled = compiled_by_graphs(f)
    for x in (facula.eye(2), -facula.eye(2), facula.eye(2)):
        assert facula.equal(compiled(x), f(x))
    take = compiled_by_graphs(lambda x, i: x[i] + 1)
    assert take(facula.ones(3), facula.tensor([0])).item() == 2
    with pytest.raises(IndexError):
        take(facula.ones(3), facula.tensor([5]))
    assert take(facula.ones(3), facula.tensor([1])).item() == 2


def test_random_numbers_are_drawn_at_the_call_and_are_inputs():
    runs = Runs()
    f = facula.compile(lambda x: F.dropout(x, 0.5) + facula.rand(4), backend=runs)
    for _ in range(3):
        facula.manual_seed(5)
        wanted = F.dropout(facula.ones(4), 0.5) + facula.rand(4)
        facula.manual_seed(5)
        assert facula.equal(f(facula.ones(4)), wanted)
    assert "rand" not in str(runs.targets()) and runs.runs == [3]


def test_sizes_that_depend_on_values_are_no_ops_of_graphs():
    runs = Runs()
    f = facula.compile(lambda x: x[x > 0] * 2, backend=runs)
    for values in ([1.0, -1.0, 2.0], [-1.0, -1.0, 2.0], [1.0, 1.0, 1.0]):
        assert f(facula.tensor(values)).tolist() == [2 * v for v in values if v > 0]


def test_stretches_end_where_the_program_asks():
    runs = Runs()

    def f(x):
        y = x + 1
        if y.sum() > 0:
            y = y * 2
        _dynamo.graph_break()
        y = y - 1
        facula.compiler.disable(lambda: None)()
        return y.exp()

    compiled = facula.compile(f, backend=runs)
    for _ in range(2):
        assert facula.equal(compiled(facula.ones(2)), ((facula.ones(2) + 1) * 2 - 1).exp())
    assert [runs.targets(i) for i in range(4)] == [
        ["aten.add.Tensor", "aten.sum.default", "aten.gt.Scalar"], ["aten.mul.Tensor"], ["aten.sub.Tensor"], ["aten.exp.default"],
    ]  # fmt: skip
    assert runs.runs == [2, 2, 2, 2]
    compiled(facula.full((2,), -5.0))  # the other branch: new from the question on
    assert len(runs.graphs) == 4 and runs.runs == [3, 2, 3, 3]
    with pytest.raises(exc.Unsupported, match="one graph"):
        facula.compile(f, backend=runs, fullgraph=True)(facula.ones(2))
    assert facula.compile(lambda x: (x + 1).sin(), backend=runs, fullgraph=True)(facula.zeros(1)).item() == facula.ones(1).sin().item()


def test_counters_limits_and_stances():
    count = CompileCounter()
    compiled = facula.compile(lambda x: x.sin() + 1, backend=count, recompile_limit=2)
    for _ in range(3):
        compiled(facula.ones(2))
    assert (count.frame_count, count.op_count) == (1, 2) and counters["frames"] == {"total": 1, "ok": 1}
    assert compiled.state == "follow" and compiled.calls == 3
    with config.patch(error_on_recompile=True), pytest.raises(exc.RecompileError):
        compiled(facula.ones(3))
    with facula.compiler.set_stance("eager_on_recompile"):
        assert facula.equal(compiled(facula.ones(3)), facula.ones(3).sin() + 1)
    with facula.compiler.set_stance("force_eager"):
        compiled(facula.ones(4))
    assert count.frame_count == 1
    for size in (3, 4, 5, 6, 3):
        assert facula.equal(compiled(facula.ones(size)), facula.ones(size).sin() + 1)
    assert count.frame_count == 2 and len(compiled.recordings) == 2
    compiled.reset()
    compiled(facula.ones(2))
    assert count.frame_count == 3


def test_more_numbers_than_are_kept_run_eagerly():
    count = CompileCounter()
    compiled = facula.compile(lambda x, n: x * n, backend=count, recompile_limit=1000)
    for n in range(150):
        assert compiled(facula.ones(1), n).item() == n
    assert count.frame_count <= 64
