"""cond, while_loop, map and scan: as Python runs them, recorded with all their functions, and in files."""

import io
import json
import zipfile

import numpy as np
import onnx_reader
import pytest

import facula
from facula import _C, export, nn
from facula._higher_order_ops import cond, map, scan, while_loop
from facula.utils import _pytree


def close(a, b):
    a, b = _pytree.tree_leaves(a), _pytree.tree_leaves(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-6, atol=1e-6)


class Choice(nn.Module):
    """Branches that read a parameter, a buffer and a tensor made before."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("shift", facula.rand(3))

    def forward(self, x):
        y = x * 2
        made = cond(x.sum() > 0, lambda x: {"a": self.lin(x).sin() + y}, lambda x: {"a": x.cos() + self.shift}, (x,))
        return made["a"] + x


class Repeat(nn.Module):
    def forward(self, x, n):
        return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2 + x), (facula.zeros((), dtype=facula.int64), x))


class EveryRow(nn.Module):
    def forward(self, x, y):
        return map(lambda row, other: (row[0].sin() + other, row[1] * 2), (x, x + 1), y)


class Running(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options, self.weight = options, nn.Parameter(facula.rand(3))

    def forward(self, first, xs):
        return scan(lambda c, x: (c + x * self.weight, c * x), first, xs, **self.options)


class WithoutGradients(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        y = self.lin(x)
        with facula.no_grad():
            z = self.lin(y).exp() * x.shape[0]
        return y * z


ONE, TWO = facula.tensor(1), facula.tensor(4)
CASES = {
    "cond": (Choice, (facula.ones(2, 3),), (-facula.ones(2, 3),)),
    "while_loop": (Repeat, (facula.rand(3), ONE), (facula.rand(3), TWO)),
    "map": (EveryRow, (facula.rand(4, 3), facula.rand(3)), (facula.rand(4, 3), facula.rand(3))),
    "scan": (Running, (facula.rand(3), facula.rand(5, 3)), (facula.rand(3), facula.rand(5, 3))),
    "scan_back": (lambda: Running(reverse=True, dim=1), (facula.rand(3), facula.rand(3, 5)), (facula.rand(3), facula.rand(3, 5))),
    "no_grad": (WithoutGradients, (facula.rand(2, 3),), (facula.rand(2, 3),)),
}
ALL = pytest.mark.parametrize("name", CASES)


def exported(name):
    make, first, other = CASES[name]
    facula.manual_seed(0)
    module = make()
    return module, export.export(module, first), first, other


@ALL
def test_one_program_serves_every_input(name):
    module, program, *inputs = exported(name)
    for args in inputs:
        for run in (program._run, program.module(), program.run_decompositions({}).module()):
            close(run(*args), module(*args))


@ALL
def test_gradients_are_those_of_python(name):
    module, program, *inputs = exported(name)
    for args in inputs:
        for run in (program._run, program.module()):
            grads = []
            for function in (module, run):
                args = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in args]
                total = sum(leaf.sum() for leaf in _pytree.tree_leaves(function(*args)))
                wanted = [t for t in (*args, *module.parameters()) if t.requires_grad]
                found = facula.autograd.grad(total, wanted, allow_unused=True)
                grads.append([facula.zeros(()) if g is None else g for g in found])
            close(*grads)


@ALL
def test_the_text_form_comes_back(name):
    _, program, *_ = exported(name)
    text = program.program.text()
    assert _C._Program.parse(text).text() == text


@ALL
def test_files_have_pytorchs_operators(name):
    _, program, *_ = exported(name)
    stream = io.BytesIO()
    export.save(program, stream)
    with zipfile.ZipFile(stream) as archive:
        path = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        graph = json.loads(archive.read(path))["graph_module"]["graph"]
    word = {"map": "map_impl", "scan_back": "scan", "no_grad": "wrap_with_set_grad_enabled"}.get(name, name)
    (node,) = (n for n in graph["nodes"] if n["target"] == f"torch.ops.higher_order.{word}")
    graphs = [i["arg"]["as_graph"] for i in node["inputs"] if "as_graph" in i["arg"]]
    assert len(graphs) == {"cond": 2, "while_loop": 2}.get(name, 1) and node["is_hop_single_tensor_return"] is False
    assert all(g["graph"]["nodes"] and set(g["graph"]) == set(graph) for g in graphs)
    made = {o["as_tensor"]["name"] for n in graph["nodes"] for o in n["outputs"] if "as_tensor" in o}
    given = {i["as_tensor"]["name"] for i in graph["inputs"]}
    for n in graph["nodes"]:  # every value that a node takes is made outside of the graphs
        for i in n["inputs"]:
            for one in [i["arg"], *i["arg"].get("as_tensors", [])]:
                assert one.get("as_tensor", one).get("name") in made | given | {None}


def test_python_runs_them_as_they_are():
    x = facula.rand(4, 3, requires_grad=True)
    close(map(lambda a: {"b": a * 2}, x)["b"], x * 2)
    carry, ys = scan(lambda c, a: (c + a, c), facula.zeros(3), x)
    close(carry, x.sum(0))
    close(ys, facula.cat([facula.zeros(1, 3), x.cumsum(0)[:-1]]))
    carry, ys = scan(lambda c, a: (c + a, c + a), facula.zeros(3), x, reverse=True)
    close(ys, x.flip(0).cumsum(0).flip(0))
    (end,) = while_loop(lambda a: a.sum() < 100, lambda a: a * 2, (x.abs() + 1,))
    assert 100 <= end.sum() < 200
    facula.autograd.grad(end.sum(), x)
    close(facula.ops.higher_order.cond(x.sum() > 0, lambda a: (a + 1,), lambda a: (a,), (x,))[0], x + 1)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda x: cond(x > 0, lambda: x, lambda: x), "a tensor of one element"),
        (lambda x: cond(True, 3, lambda: x), "two callables"),
        (lambda x: map(lambda a: a, 3), "xs must be tensors"),
        (lambda x: map(lambda a: a, facula.rand(0, 3)), "one length that is not 0"),
        (lambda x: map(lambda a, b: a, (x, facula.rand(2))), "one length that is not 0"),
        (lambda x: scan(lambda c, a: (c, a), 3, x), "init must be tensors"),
        (lambda x: scan(lambda c, a: (c, a), x, []), "xs must be tensors"),
    ],
)
def test_what_does_not_fit_is_named(use, text):
    with pytest.raises(RuntimeError, match=text):
        use(facula.rand(3))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda x: cond(x.sum() > 0, lambda a: a, lambda a: a[0], (x,)), "one dtype and shape"),
        (lambda x: cond(x.sum() > 0, lambda a: a, lambda a: (a,), (x,)), "nested alike"),
        (lambda x: cond(x.sum() > 0, lambda a: 3, lambda a: a, (x,)), "must give tensors, got int"),
        (lambda x: cond(x.sum() > 0, lambda a: a.mul_(2), lambda a: a, (x,)), "writes to what it is given"),
        (lambda x: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a), (0, x)), "must be tensors"),
        (lambda x: while_loop(lambda a: a.sum() < 9, lambda a: a[:1], (x,)), "one dtype and shape"),
        (lambda x: scan(lambda c, a: (c.double(), a), x[0], x), "one dtype and shape"),
    ],
)
def test_what_cannot_be_recorded_is_named(use, text):
    class Uses(nn.Module):
        def forward(self, x):
            return use(x + 1)

    with pytest.raises(RuntimeError, match=text):
        export.export(Uses(), (facula.rand(3),))
    assert not _C._recording()


def test_graphs_are_checked():
    program = _C._Program.parse
    inner = 'input user "a" %a: float32[2]\\n%b: float32[2] = sin.default(%a)\\nreturn %b\\n'.replace('"', '\\"')
    text = f'input user "p" %p: bool[]\ninput user "x" %x: float32[2]\n[%y: float32[2]] = cond.default(%p, graph "{inner}", GRAPH, [%x])\nreturn %y\n'
    good = program(text.replace("GRAPH", f'graph "{inner}"'))
    good.verify()
    x = facula.rand(2)
    close(good.run([facula.tensor(True), x])[0], x.sin())
    for bad in ("3", '"text"', "%x"):
        with pytest.raises(ValueError, match="false_graph"):
            program(text.replace("GRAPH", bad)).verify()
    held = 'graph "input constant \\"c\\" %c: float32[2]\\nreturn %c\\n"'
    with pytest.raises(ValueError, match="given all that it needs"):
        program(text.replace("GRAPH", held)).verify()
    with pytest.raises(ValueError, match="expected"):
        program(text.replace("GRAPH", 'graph "nothing"'))
    with pytest.raises(RuntimeError, match="a bool tensor with one element"):
        _C._boxed_call("cond.default", (facula.rand(2), _graph(), _graph(), [x]))


def _graph():
    return _C._Program.parse('input user "a" %a: float32[2]\n%b: float32[2] = sin.default(%a)\nreturn %b\n')


N = export.Dim("n")
VARYING = {  # which sizes vary: those within a branch or a body too
    "cond": ({0: N},),
    "while_loop": ({0: N}, None),
    "map": ({0: N, 1: export.Dim("m")}, {0: export.Dim("m")}),
    "scan": (None, {0: N}),
}


def longer(args, shapes, times):
    made = []
    for x, dims in zip(args, shapes):
        for d in dims or ():
            x = facula.cat([x] * times, d)
        made.append(x)
    return made


@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary(name):
    make, first, _ = CASES[name]
    module, shapes = make(), VARYING[name]
    program = export.export(module, first, dynamic_shapes=shapes)
    assert _C._Program.parse(program.program.text()).text() == program.program.text()
    stream = io.BytesIO()
    export.save(program, stream)
    stream.seek(0)
    model = onnx_reader.Model(facula.onnx.export(program).serialize())
    runs = [program.module(), export.load(stream).module(), program.run_decompositions({}).module()]
    runs.append(lambda *args: of_onnx(model, args))
    for times in (1, 2, 3):
        args = longer(first, shapes, times)
        for run in runs:
            close(run(*args), module(*args))


def test_a_branch_that_computes_with_a_size_is_named():
    class Halves(nn.Module):
        def forward(self, x):
            return cond(x.sum() > 0, lambda x: x * x.shape[0], lambda x: x, (x,))

    with pytest.raises(RuntimeError, match=r"a function of cond\.default at .* depends on sizes that vary \(n = "):
        export.export(Halves(), (facula.ones(4, 3),), dynamic_shapes=({0: N},))


def test_another_program_in_the_place_of_one():
    program = _C._Program.parse(_while_text())
    (node,) = program.nodes
    inner = node[2][1][1]
    program.set_graph(0, 1, inner)
    assert program.text() == _C._Program.parse(_while_text()).text()
    for bad, error in (((7, 1, inner), IndexError), ((0, 9, inner), IndexError), ((0, 0, inner), TypeError), ((0, 1, 3), TypeError)):
        with pytest.raises(error, match="^set_graph: "):
            program.set_graph(*bad)


def _while_text():
    inner = 'input user "a" %a: float32[2]\\n%b: float32[2] = sin.default(%a)\\nreturn %b\\n'.replace('"', '\\"')
    inputs = 'input user "p" %p: bool[]\ninput user "x" %x: float32[2]\n'
    return f'{inputs}[%y: float32[2]] = cond.default(%p, graph "{inner}", graph "{inner}", [%x])\nreturn %y\n'


def of_onnx(model, args):
    found = model.run(**{name: a.numpy() for name, a in zip(model.inputs, args)})
    return [facula.from_numpy(np.asarray(f)) for f in found]


@pytest.mark.parametrize("opset", [18, 21])
@ALL
def test_in_onnx(name, opset):
    module, program, *inputs = exported(name)
    model = onnx_reader.Model(facula.onnx.export(program, opset_version=opset).serialize())
    op = {"cond": "If", "while_loop": "Loop", "map": "Scan", "scan": "Scan", "scan_back": "Scan"}.get(name)
    assert model.ops().count(op) == (1 if op else 0)
    for args in inputs:
        close(of_onnx(model, args), module(*args))
