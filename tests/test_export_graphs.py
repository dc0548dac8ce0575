"""Graphs of exported programs: operators, decompositions, and modules again."""

import copy
import io

import numpy as np
import pytest
from export_helpers import Net, close

import facula
import facula.nn.functional as F
from facula import _C, export, nn
from facula.export import Dim


@pytest.fixture
def net():
    facula.manual_seed(0)
    return Net().eval()


def test_graphs_name_pytorchs_operators(net):
    ep = export.export(net, (facula.randn(5, 8),))
    targets = [str(node.target) for node in ep.graph.nodes if node.op == "call_function"]
    assert "aten.softmax.int" in targets[-4:] or any("softmax.int" in t for t in targets)
    names = [node.name for node in ep.graph.nodes if node.op == "placeholder"]
    assert names[:2] == ["p_lin_weight", "p_lin_bias"] and names[-1] == "x"
    flat = [t for _, _, _, _, t, _ in ep.program.inputs if t is not None]
    close(ep.graph_module(*flat, facula.ones(5, 8))[0], net(facula.ones(5, 8))["out"])


def test_overloads_are_callable_by_pytorchs_arguments():
    x = facula.rand(2, 3)
    aten = facula.ops.aten
    close(aten.softmax.int(x, 1), x.softmax(1))
    close(aten.slice.Tensor(x, 1, 0, 2), x[:, :2])
    close(aten.add.Tensor(x, x, alpha=3), 4 * x)
    out = facula.empty(2, 3)
    assert aten.add.out(x, 1, out=out) is out
    close(aten.linear.default(x, facula.eye(3)), x)
    assert aten.sym_size.int(x, 1) == 3
    assert aten.add.Tensor.name() == "aten::add.Tensor" and "Operand other" in aten.add.Tensor._schema


def test_a_program_is_exported_again(net):
    x = facula.randn(5, 8)
    again = export.export(export.export(net, (x,)).module(), (x,))
    close(again._run(x)["out"], net(x)["out"])


class Writes(nn.Module):
    """Writes to buffers, to an input, and to views of views."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3, affine=False)  # views of split and unbind are written where nothing is recorded only
        self.register_buffer("count", facula.zeros(3))

    def forward(self, x):
        self.count.add_(1)
        y = self.norm(x)
        y[:, 0] = 2
        z = y.t()
        z[1] += 1
        _, b = y.split([1, 2], 1)
        b.mul_(2)
        w = facula.zeros(2, 3, 4)
        w.diagonal(dim1=1, dim2=2).copy_(y[:2])
        w.view(6, 4).select(0, 1).fill_(7)
        w.unbind(1)[2].add_(x[0, 0])
        w.permute(2, 0, 1).narrow(0, 1, 2).zero_()
        w.unsqueeze(0).chunk(2, 3)[1].sub_(1)
        return y + self.count, z, w, x.relu_()


@pytest.mark.parametrize("table", [None, {}], ids=["core", "functional"])
def test_decomposed_programs_write_at_the_end_only(table):
    facula.manual_seed(0)
    net = Writes()
    other, x = copy.deepcopy(net), facula.randn(4, 3)
    ep = export.export(net, (x.clone(),)).run_decompositions(table)
    stream = io.BytesIO()
    export.save(ep, stream)
    written = [i for i, node in enumerate(ep.program.nodes) if _C._boxed_op(node[0])["form"] == "inplace"]
    assert written == list(range(len(ep.program.nodes) - 5, len(ep.program.nodes)))
    assert all(ep.program.nodes[i][0] == "copy_.default" for i in written) and ep.dialect == "ATEN"
    loaded = export.load(stream)
    for run, state in ((ep._run, net), (loaded._run, None)):
        twin = copy.deepcopy(other)
        given, expected_input = x.clone(), x.clone()
        for a, b in zip(run(given), twin(expected_input), strict=True):
            close(a, b)
        close(given, expected_input)
        found = state.state_dict() if state is not None else {**loaded.state_dict, **loaded.constants}
        for name, value in twin.state_dict().items():
            close(found[name].float(), value.float())


def test_decompositions_are_a_table_that_can_be_changed(net):
    x = facula.rand(3, 8)
    ep = export.export(net, (x,), dynamic_shapes={"x": {0: Dim("b")}})
    core = ep.run_decompositions()
    targets = {node[1] for node in core.program.nodes}
    assert {"addmm.default", "_softmax.default", "permute.default"} <= targets
    assert not targets & {"linear.default", "softmax.int", "batch_norm.default", "chunk.default", "zeros.default"}
    table = export.default_decompositions()
    del table[facula.ops.aten.linear.default]
    kept = ep.run_decompositions(table)
    assert "linear.default" in {node[1] for node in kept.program.nodes}
    mine = ep.run_decompositions({facula.ops.aten.relu.default: lambda x: facula.clamp(x, 0)})
    assert "relu.default" not in {node[1] for node in mine.program.nodes}
    for given in (x, facula.rand(5, 8)):
        for program in (core, kept, mine):
            close(program._run(given)["out"], net(given)["out"])


class Many(nn.Module):
    """Ops that rules open up."""

    def __init__(self):
        super().__init__()
        self.conv, self.group = nn.Conv2d(4, 6, 3, 2, 1, groups=2), nn.GroupNorm(2, 6)
        self.layer, self.prelu = nn.LayerNorm(6), nn.PReLU(6)

    def forward(self, x):
        y = self.group(self.conv(x))
        y = F.silu(y) + F.hardswish(y) + F.hardsigmoid(y) + F.relu6(y) + F.softplus(y) + F.mish(y) + F.softsign(y) + self.prelu(y)
        z = self.layer(y.flatten(2).transpose(1, 2))
        q, k, v = z.unsqueeze(1), facula.stack([z * 2], 1), F.dropout(z, 0.5, False).unsqueeze(1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True) + F.scaled_dot_product_attention(q, k, v, attn_mask=k @ q.mT > 0)
        b = facula.addcmul(a, a, a, value=2) + facula.addcdiv(a, a, a.square() + 1) + facula.lerp(a, a + 1, 0.3)
        c, d = b.chunk(2, -1)
        e = F.glu(b, -1) * c.masked_fill(d > 0, 0.5) + facula.std(b, dim=-1, keepdim=True) + facula.ones_like(d) * F.log_softmax(d, -1)
        return e.matmul(facula.ones(3)), F.adaptive_avg_pool2d(y, 1), b.T if b.dim() == 2 else b.mT.contiguous(), e.expand_as(e).double()


class Tied(nn.Module):
    """A module that is called twice, one without gradients, a result that is a dict."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4)), nn.Linear(4, 4)
        self.scale = nn.Parameter(facula.rand(4))

    def forward(self, x):
        y = self.b(x) + self.a(x) * self.scale
        with facula.no_grad():
            y = y + self.b(y).exp()
        return {"y": self.b(y), "z": y.sum(0)}


def test_unflattened_programs_have_the_modules_again():
    net = Tied().eval()
    flat = export.unflatten(export.export(net, (facula.rand(3, 4),), dynamic_shapes={"x": {0: Dim("batch")}}))
    assert set(net.state_dict()) - {"a.2.num_batches_tracked"} <= set(flat.state_dict())
    assert flat.b.weight is net.b.weight and set(flat._modules) == {"a", "b", "b@1", "b@2"}
    assert "addmm" not in flat.a.code and "linear" in flat.a._modules["0"].code and "relu" in flat.a._modules["1"].code
    x = facula.rand(5, 4)
    for key, value in net(x).items():
        close(flat(x)[key], value)
    grads = [facula.autograd.grad(m(x)["y"].sum(), list(net.parameters()), allow_unused=True) for m in (net, flat)]
    for a, b in zip(*grads, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b)
    flat.a = nn.Identity()  # another module in its place, with a list of results as the first had
    flat.a.forward = lambda x: (x,)
    with facula.no_grad():
        y = net.b(x) + x * net.scale
        close(flat(x)["z"], (y + net.b(y).exp()).sum(0))
    with pytest.raises(RuntimeError, match="input 'x'"):
        flat(facula.rand(5, 3))
    with pytest.raises(TypeError, match="an ExportedProgram"):
        export.unflatten(net)

    class Adapter(export.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[:1]

    adapted = export.unflatten(export.export(net, (facula.rand(5, 4),)), Adapter())
    close(adapted(x, 3)["z"], net(x)["z"])


class Block(nn.Module):
    """Sizes that vary reach views, products, attention and writes."""

    def __init__(self):
        super().__init__()
        self.qkv, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, -1)
        z = facula.zeros(b, t + 1, c)
        z[:, 1:] += y
        return z.flatten(0, 1), y.chunk(2, -1)[1] @ facula.ones(4), facula.arange(t) * 2


def test_decomposed_programs_keep_sizes_that_vary():
    facula.manual_seed(0)
    net = Block()
    ep = export.export(net, (facula.rand(2, 5, 8),), dynamic_shapes={"x": {0: Dim("b"), 1: Dim("t", min=2)}})
    for program in (ep.run_decompositions(), ep.run_decompositions({})):
        assert program.range_constraints.keys() == {"b", "t"}
        for sizes in ((2, 5, 8), (4, 3, 8), (1, 9, 8)):
            x = facula.rand(*sizes)
            for a, b in zip(program._run(x), net(x), strict=True):
                close(a, b)
    assert "linear.default" not in {node[1] for node in ep.run_decompositions().program.nodes}


def test_every_rule_gives_what_its_op_gives():
    facula.manual_seed(0)
    net, x = Many(), facula.randn(2, 4, 6, 6)
    core = export.export(net, (x,)).run_decompositions()
    for a, b in zip(core._run(x), net(x), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-5)
    kept = {node[1] for node in core.program.nodes} & set(export._decompositions.RULES)
    assert kept <= {"split_with_sizes.default"}, kept
    facula.autograd.grad(sum(t.sum() for t in core._run(x)), list(net.parameters()), allow_unused=True)


def test_programs_without_writes_give_what_they_would_write():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", facula.zeros(1))
            self.register_buffer("last", facula.zeros(3), persistent=False)

        def forward(self, x):
            self.calls += 1
            self.last.copy_(x[:, 0])
            x.mul_(2)
            return x + self.calls

    program = facula.export.export(Counts(), (facula.ones(3, 2),)).run_decompositions({})
    signature = program.graph_signature
    assert list(signature.buffers_to_mutate.values()) == ["calls", "last"] and list(signature.user_inputs_to_mutate.values()) == ["x"]
    assert [spec.kind.name for spec in signature.output_specs] == [
        "BUFFER_MUTATION", "BUFFER_MUTATION", "USER_INPUT_MUTATION", "USER_OUTPUT",
    ]  # fmt: skip
    given = next(node for node in program.graph.nodes if node.op == "output").args[0]
    assert [node.name for node in given] == [spec.arg.name for spec in signature.output_specs]
    assert not any(getattr(node.target, "__name__", "").startswith("copy_") for node in program.graph.nodes)
    results = program.graph_module(facula.zeros(1), facula.zeros(3), facula.ones(3, 2))
    assert [r.tolist() for r in results[:2]] == [[1.0], [1.0, 1.0, 1.0]] and results[3].tolist() == [[3.0, 3.0]] * 3
    module, x = program.module(), facula.ones(3, 2)
    assert module(x).tolist() == [[3.0, 3.0]] * 3 and module.calls.tolist() == [1.0] and x.tolist() == [[2.0, 2.0]] * 3


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("name", ["relu6", "relu", "elu", "hardswish", "hardtanh", "leaky_relu", "threshold", "celu", "mish"])
def test_functions_that_write_when_they_are_told(name, inplace):
    class Writes(nn.Module):
        def forward(self, x):
            y = x * 2
            z = getattr(nn.functional, name)(y, *((0.1, 20.0) if name == "threshold" else ()), inplace=inplace)
            return y + 1, z

    x = facula.linspace(-3, 3, 13)
    exported = export.export(Writes(), (x,))
    for program in (exported, exported.run_decompositions()):
        for found, expected in zip(program.module()(x), Writes()(x)):
            close(found, expected)
    if not inplace:
        assert not any(node[0].split(".")[0].endswith("_") for node in exported.run_decompositions().program.nodes)
