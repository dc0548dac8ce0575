"""facula.export: recording modules, sizes that vary, what cannot be recorded, graphs, and files."""

import copy
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import _C, export, nn
from facula.export import Dim


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-6)


def ops_of(program):
    return [node[0].split(".")[0] for node in program.program.nodes]


class Net(nn.Module):
    """Layers, buffers, indexing, writes, a constant, a dict of results."""

    def __init__(self):
        super().__init__()
        self.lin, self.norm, self.out = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
        self.register_buffer("scale", facula.rand(16))
        self.register_buffer("shift", facula.rand(16), persistent=False)
        self.table = facula.rand(4)  # neither a parameter nor a buffer

    def forward(self, x, *, factor=None):
        y = F.relu(self.norm(self.lin(x))) * self.scale + self.shift
        y = facula.cat([y[:, :8], y[..., 8:].sigmoid()], 1)
        y = y.view(y.shape[0], 2, -1).transpose(1, 2).reshape(x.size(0), -1)
        y = 2 - y / 3
        if factor is not None:
            y = y * factor
        z = facula.zeros(y.shape[0], 16)
        z[:, 0] = 1
        z[:, 1:3] += y[:, 1:3]
        result = self.out(F.dropout(y + z, 0.5, self.training)).softmax(-1) + self.table + facula.tensor([1.0, 2, 3, 4])
        return {"out": result, "k": 3, "none": None}


@pytest.fixture
def net():
    facula.manual_seed(0)
    return Net().eval()


def test_a_recorded_module_gives_the_same(net):
    x, factor = facula.randn(5, 8), facula.tensor(2.0)
    ep = export.export(net, (x,), {"factor": factor})
    expected = net(x, factor=factor)
    for found in (ep._run(x, factor=factor), ep.module()(x, factor=factor)):
        close(found["out"], expected["out"])
        assert found["k"] == 3 and found["none"] is None
    with pytest.raises(RuntimeError, match=r"input 'x': expected float32\[5, 8\], got float32\[6, 8\]"):
        ep._run(facula.randn(6, 8), factor=factor)
    with pytest.raises(RuntimeError, match=r"input 'x': expected float32\[5, 8\], got float32\[6, 8\]"):
        ep.module()(facula.randn(6, 8), factor=factor)
    with pytest.raises(ValueError, match="called otherwise than exported"):
        ep._run(x)
    with pytest.raises(RuntimeError, match=r"Unable to call ExportedProgram directly"):
        ep(x)


def test_composites_are_one_node():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.lin = nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, x):
            q = self.norm(x)
            x = x + F.scaled_dot_product_attention(q, q, q)
            return x + F.gelu(self.lin(x))

    ep = export.export(Block(), (facula.randn(2, 4, 8),))
    assert ops_of(ep) == ["layer_norm", "scaled_dot_product_attention", "add", "linear", "gelu", "add"]
    assert [n[4] for n in ep.program.nodes if n[0].startswith("l")] == ["norm", "lin"]
    assert all("test_export.py:" in n[5] for n in ep.program.nodes)


def test_what_the_program_holds(net):
    ep = export.export(net, (facula.randn(5, 8),))
    signature = ep.graph_signature
    assert set(signature.parameters) == {n for n, _ in net.named_parameters()} == {n for n, _ in ep.named_parameters()}
    assert set(signature.buffers) == {n for n, _ in net.named_buffers()} == {n for n, _ in ep.named_buffers()}
    assert signature.non_persistent_buffers == ("shift",)
    assert set(ep.state_dict) == set(net.state_dict())
    assert set(ep.constants) == {"shift", "table", "lifted_tensor_1"}
    assert signature.user_inputs == ("x",) and len(signature.user_outputs) == 3
    assert ep.state_dict["lin.weight"] is net.lin.weight  # by identity: training one trains the other
    module = ep.module()
    assert set(module.state_dict()) == set(net.state_dict())


def test_nothing_is_changed_by_recording(net):
    net.train()
    before = copy.deepcopy(net.state_dict())
    facula.manual_seed(3)
    expected = facula.rand(2)
    facula.manual_seed(3)
    export.export(net, (facula.ones(5, 8),))
    assert facula.equal(facula.rand(2), expected)
    for name, tensor in net.state_dict().items():
        assert facula.equal(tensor, before[name]), name
    assert not _C._recording()


def test_training_programs_write_and_draw_as_eager(net):
    net.train()
    other = copy.deepcopy(net)
    x = facula.randn(5, 8)
    ep = export.export(other, (x,))
    facula.manual_seed(1)
    expected = net(x)["out"]
    facula.manual_seed(1)
    close(ep._run(x)["out"], expected)
    for (name, a), (_, b) in zip(net.named_buffers(), other.named_buffers()):
        close(a, b) if a.is_floating_point() else None
        assert facula.equal(a, b) or a.is_floating_point(), name


def test_gradients_reach_the_parameters(net):
    x = facula.randn(5, 8)
    net(x)["out"].square().sum().backward()
    expected = net.lin.weight.grad.clone()
    net.zero_grad()
    ep = export.export(net, (x,))
    ep._run(x)["out"].square().sum().backward()
    close(net.lin.weight.grad, expected)


def test_forms_of_calls():
    class Forms(nn.Module):
        def forward(self, x, y):
            a = x + y
            a += 1
            a.mul_(2)
            out = facula.empty(2, 3)
            facula.add(a, y, alpha=2, out=out)
            b = 2**out.abs() - 1.5 // y + (-x) % 3
            b[b > 2] = 0.5
            b[0] = y[1]
            c = b.T @ x.double().float()
            values, indices = c.max(1)
            parts = c.split(1, 0) + tuple(c.unbind(1)) + facula.meshgrid(values, values, indexing="ij")
            d = c[facula.tensor([0, 2]), :][..., None, 1]
            return [p.sum() for p in parts], indices, d, x.detach().to(facula.float64), (x == y).any(), x[[1, 0]], c.mT[1:, ::2]

    x, y = facula.rand(2, 3), facula.rand(2, 3) + 1
    expected = Forms()(x.clone(), y.clone())
    ep = export.export(Forms(), (x, y))
    for run in (ep._run, ep.module()):
        for a, b in zip(facula.utils._pytree.tree_leaves(run(x, y)), facula.utils._pytree.tree_leaves(expected)):
            assert a.dtype == b.dtype
            close(a, b)


# ---- sizes that vary


def test_sizes_become_expressions(net):
    ep = export.export(net, (facula.randn(5, 8),), dynamic_shapes={"x": {0: Dim("batch", min=2, max=64)}})
    assert [v[2][1] for v in ep.program.values if v[0] == "view"] == [["batch", 2, 8]]
    assert str(ep.range_constraints) == "{'batch': VR[2, 64]}"
    for n in (2, 5, 64):
        x = facula.randn(n, 8)
        close(ep._run(x)["out"], net(x)["out"])
        close(ep.module()(x)["out"], net(x)["out"])
    with pytest.raises(RuntimeError, match=r"the size batch must be in \[2, 64\], got 1"):
        ep._run(facula.randn(1, 8))
    assert any(node.target == facula.ops.aten.sym_size.int for node in ep.graph.nodes)


def test_arithmetic_on_sizes():
    class Sizes(nn.Module):
        def forward(self, x, y):
            n, m = x.shape[0], y.size(0)
            a = x.reshape(n * 2, -1)[: n // 2 + 1]
            b = facula.arange(n + 3 * m - 1) % (m + 1)
            return a, b, facula.cat([x, y]).view(n + m, 4), n * m, facula.full((len(x.shape), x.numel()), 0.5)

    shapes = {"x": {0: Dim("n")}, "y": {0: Dim("m", min=1)}}
    ep = export.export(Sizes(), (facula.rand(4, 4), facula.rand(7, 4)), dynamic_shapes=shapes)
    for n, m in ((4, 7), (1, 3), (9, 2)):
        x, y = facula.rand(n, 4), facula.rand(m, 4)
        for a, b in zip(ep._run(x, y), Sizes()(x, y)):
            assert facula.equal(a, b) if isinstance(a, facula.Tensor) else a == b


def test_conditions_on_sizes_are_checked_when_it_runs():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] > 3 else x - 1

    x = facula.rand(8, 2)
    ep = export.export(Branch(), (x,), dynamic_shapes={"x": {0: Dim("n", min=4)}})
    assert [g[0] for g in ep.program.guards] == ["3 < n"]
    close(ep._run(facula.rand(4, 2) * 0), facula.ones(4, 2))
    ep = export.export(Branch(), (x,), dynamic_shapes={"x": {0: Dim("n")}})
    with pytest.raises(RuntimeError, match=r"recorded for sizes where 3 < n \(.*test_export.py:\d+\)"):
        ep._run(facula.rand(3, 2))


def test_sizes_that_get_lost_are_found():
    class Lost(nn.Module):
        def forward(self, x):
            return x.sum() * len(x)

    class Loop(nn.Module):
        def forward(self, x):
            total = x[0]
            for i in range(1, len(x)):
                total = total + x[i]
            return total

    class Parts(nn.Module):
        def forward(self, x):
            return x.chunk(4)

    class Fixed(nn.Module):
        def forward(self, x):
            return x.view(5, 4)

    shapes = {"x": {0: Dim("n")}}
    with pytest.raises(RuntimeError, match=r"an argument of mul.default at .*test_export.py:\d+ is 5 .* and 6 where n = 6"):
        export.export(Lost(), (facula.rand(5, 4),), dynamic_shapes=shapes)
    with pytest.raises(RuntimeError, match=r"another one for other sizes \(n = 5 or 6\)"):
        export.export(Loop(), (facula.rand(5, 4),), dynamic_shapes=shapes)
    with pytest.raises(RuntimeError, match=r"chunk.default at .* gives 3 tensors and then 4; mark the dimension static"):
        export.export(Parts(), (facula.rand(5, 4),), dynamic_shapes=shapes)
    with pytest.raises(RuntimeError, match="runs with n = 5 only"):
        export.export(Fixed(), (facula.rand(5, 4),), dynamic_shapes=shapes)
    ep = export.export(Loop(), (facula.rand(5, 4),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
    assert list(ep.range_constraints) == ["x_1"]  # the first dimension is fixed, as it has to be
    close(ep._run(facula.ones(5, 7)), facula.full((7,), 5.0))


@pytest.mark.parametrize("hint", [Dim.DYNAMIC, Dim.AUTO])
def test_sizes_that_have_to_be_equal_are_one(hint):
    class Three(nn.Module):
        def forward(self, a, b, c):
            return a * b.unsqueeze(-1), a.sum(1) + c

    shapes = [{0: hint, 1: hint}, {0: hint, 1: hint}, {0: hint, 1: hint} if hint is Dim.AUTO else {0: hint}]
    ep = export.export(Three(), (facula.rand(2, 3, 2), facula.rand(2, 3), facula.rand(2, 2)), dynamic_shapes=shapes)
    assert list(ep.range_constraints) == ["a_0", "a_1"]
    given = facula.rand(5, 7, 2), facula.rand(5, 7), facula.rand(5, 2)
    for got, wanted in zip(ep.module()(*given), Three()(*given)):
        close(got, wanted)
    with pytest.raises(RuntimeError, match="input 'b'"):
        ep.module()(given[0], facula.rand(4, 7), given[2])


def test_forms_of_dynamic_shapes():
    class Two(nn.Module):
        def forward(self, pair, named):
            return pair[0] + pair[1] + named["a"]

    n = Dim("n", max=100)
    args = ([facula.rand(4, 2), facula.rand(4, 2)], {"a": facula.rand(2)})
    for shapes in (
        {"pair": [{0: n}, {0: n}], "named": {"a": None}},
        ([(n, None), (n, Dim.STATIC)], {"a": {0: None}}),
    ):
        ep = export.export(Two(), args, dynamic_shapes=shapes)
        assert list(ep.range_constraints) == ["n"]
        assert [v[0] for v in ep.program.values][:3] == ["pair_0", "pair_1", "named_a"]
        assert ep._run([facula.rand(9, 2), facula.rand(9, 2)], {"a": facula.rand(2)}).shape == (9, 2)
        with pytest.raises(RuntimeError, match=r"'pair\[1\]': expected float32\[n, 2\], got float32\[8, 2\]"):
            ep._run([facula.rand(9, 2), facula.rand(8, 2)], {"a": facula.rand(2)})
    collection = export.ShapesCollection()
    collection[args[0][0]] = {0: n}
    collection[args[0][1]] = {0: n}
    assert list(export.export(Two(), args, dynamic_shapes=collection).range_constraints) == ["n"]
    with pytest.raises(ValueError, match="names an input that there is not"):
        export.export(Two(), args, dynamic_shapes={"other": None})
    with pytest.raises(ValueError, match="n is 4 in one input and 2 in dimension 0"):
        export.export(Two(), args, dynamic_shapes={"pair": [{0: n}, None], "named": {"a": {0: n}}})
    with pytest.raises(ValueError, match=r"is 4, outside of \[5, None\]"):
        export.export(Two(), args, dynamic_shapes={"pair": [{0: Dim("m", min=5)}, None], "named": None})


# ---- what cannot be recorded


@pytest.mark.parametrize(
    "use, name",
    [
        (lambda x: x if x.sum() > 0 else -x, r"bool\(\)"),
        (lambda x: x * x.sum().item(), r"item\(\)"),
        (lambda x: x * float(x.sum()), "float"),
        (lambda x: x[int(x.sum())], "int"),
        (lambda x: facula.tensor(x.tolist()), r"tolist\(\)"),
        (lambda x: facula.from_numpy(x.numpy()), r"numpy\(\)"),
        (lambda x: x if facula.equal(x, x) else -x, "equal"),
    ],
)
def test_control_flow_on_values_is_an_error(use, name):
    class Uses(nn.Module):
        def forward(self, x):
            return use(x + 1)

    with pytest.raises(RuntimeError, match=rf"export: {name}.* at .*test_export.py:\d+"):
        export.export(Uses(), (facula.rand(3),))
    assert not _C._recording()


def test_export_checks_its_arguments():
    with pytest.raises(ValueError, match="instance of `torch.nn.Module`"):
        export.export(lambda x: x, (facula.rand(3),))
    with pytest.raises(TypeError, match="a tuple of example positional inputs"):
        export.export(nn.Linear(3, 3), facula.rand(3))
    with pytest.raises(ValueError, match="an identifier"):
        Dim("a b")


def test_eager_code_is_untouched_after_an_error():
    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError("inside")

    with pytest.raises(KeyError):
        export.export(Fails(), (facula.rand(3),))
    assert not _C._recording() and facula.rand(3).tolist() and nn.Module.__call__.__name__ == "__call__"


# ---- graphs


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
        self.norm = nn.BatchNorm1d(3)
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


# ---- files


def saved(ep):
    file = io.BytesIO()
    export.save(ep, file)
    return file


def test_files_are_read_as_they_were_written(net, tmp_path):
    shapes = {"x": {0: Dim("batch", min=3, max=64)}}
    x = facula.randn(5, 8)
    ep = export.export(net, (x,), dynamic_shapes=shapes)
    export.save(ep, tmp_path / "net.pt2")
    again = export.load(tmp_path / "net.pt2")
    renamed = {"_view_or_copy": "view", "rsub": "sub"}
    names = [renamed.get(name, name) for name in ops_of(again) if not name.startswith(("int_", "sym_"))]
    assert names == ops_of(ep)
    assert set(again.state_dict) == set(ep.state_dict) and isinstance(again.state_dict["lin.weight"], nn.Parameter)
    assert facula.equal(again.example_inputs[0][0], x)
    for n in (3, 9):
        x = facula.randn(n, 8)
        close(again._run(x)["out"], net(x)["out"])
        close(again.module()(x)["out"], net(x)["out"])
    with pytest.raises(RuntimeError, match=r"\[3, 64\], got 2"):
        again._run(facula.randn(2, 8))


def test_arguments_of_all_kinds_survive():
    class Kinds(nn.Module):
        def forward(self, x):
            a = facula.full_like(x, float("inf"), dtype=facula.float64).clamp(max=3)
            b = x.to(facula.bfloat16).contiguous(memory_format=facula.channels_last).float()
            c = facula.nn.functional.interpolate(x, scale_factor=(2.0, 1.5), mode="bilinear", align_corners=False)
            d = x[:, None, facula.tensor([0, 1])] + facula.ones(1, dtype=facula.complex64)
            return a, b, c, facula.view_as_real(d), facula.div(x, 3, rounding_mode="floor"), facula.einsum("abcd,abcd->ab", x, x)

    x = facula.rand(2, 3, 4, 4)
    again = export.load(saved(export.export(Kinds(), (x,))))
    for a, b in zip(again._run(x), Kinds()(x)):
        assert a.dtype == b.dtype
        close(a, b)


def test_files_that_are_no_programs():
    with pytest.raises(RuntimeError, match="no archive"):
        export.load(io.BytesIO(b"nothing"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/b", "c")
    with pytest.raises(RuntimeError, match="there is no archive_format"):
        export.load(file)


def changed(file, name, change):
    """The archive with one entry changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info.filename, change(data) if info.filename.endswith(name) else data)
    return made


def edited(file, edit):
    def change(data):
        model = json.loads(data)
        edit(model)
        return json.dumps(model)

    return changed(file, "models/model.json", change)


@pytest.mark.parametrize(
    "edit, message",
    [
        (lambda m: m["schema_version"].update(major=9), "schema 8 is expected, got 9"),
        (lambda m: m["graph_module"]["graph"]["nodes"][0].update(target="torch.ops.aten.no_such.default"), "aten.no_such.default is not known"),
        (lambda m: m["graph_module"]["graph"]["nodes"][0].update(target="os.system"), "os.system is not known"),
        (lambda m: m["graph_module"]["graph"]["nodes"][0].update(inputs=[]), "needs the argument"),
        (lambda m: m["graph_module"]["graph"]["tensor_values"].clear(), "nothing is said of the tensor"),
        (lambda m: m["graph_module"]["signature"]["input_specs"].pop(), "a value that is defined before"),
        (lambda m: m.pop("graph_module"), "damaged: .*'graph_module' is missing"),
    ],
)  # fmt: skip
def test_damaged_programs(net, edit, message):
    file = saved(export.export(net, (facula.randn(5, 8),)))
    with pytest.raises(RuntimeError, match=message):
        export.load(edited(file, edit))


def test_tensors_that_do_not_fit_are_refused(net):
    file = saved(export.export(net, (facula.randn(5, 8),)))
    with pytest.raises(RuntimeError, match="reaches beyond its 4 bytes"):
        export.load(changed(file, "weights/weight_0", lambda data: data[:4]))
    with pytest.raises(RuntimeError, match="nested at most 200 deep"):
        export.load(changed(file, "models/model.json", lambda data: b"[" * 100_000))
    with pytest.raises(RuntimeError, match="lin.weight is pickled"):
        export.load(changed(file, "weights/model_weights_config.json", lambda d: d.replace(b'"use_pickle": false', b'"use_pickle": true')))


def test_archives_may_be_deflated(net):
    x = facula.randn(5, 8)
    made = io.BytesIO()
    with zipfile.ZipFile(saved(export.export(net, (x,)))) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    close(export.load(made)._run(x)["out"], net(x)["out"])


def test_files_are_found_by_paths(net, tmp_path):
    x = facula.randn(5, 8)
    path = tmp_path / "n\u00e9t.pt2"
    export.save(export.export(net, (x,)), path)
    for form in (path, str(path)):
        close(export.load(form)._run(x)["out"], net(x)["out"])
    with pytest.raises(FileNotFoundError):
        export.load(tmp_path / "none.pt2")
    with pytest.raises(RuntimeError, match="is no file of a disk"):
        export.load(tmp_path)


def test_tied_and_frozen_parameters_stay_so():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3)
            self.b.weight = self.a.weight
            self.b.bias.requires_grad_(False)

        def forward(self, x):
            return self.b(self.a(x))

    x = facula.rand(2, 3)
    net = Tied()
    ep = export.load(saved(export.export(net, (x,))))
    assert not ep.state_dict["b.bias"].requires_grad and isinstance(ep.state_dict["b.bias"], nn.Parameter)
    ep.module()(x).sum().backward()
    net(x).sum().backward()
    close(sum(p.grad for p in {id(p): p for p in ep.parameters()}.values() if p.grad is not None), net.a.weight.grad)


def programs_of_pytorch():
    """(name, bytes, inputs, results) of the stored programs, see data/make_pytorch_programs.py."""
    with zipfile.ZipFile(Path(__file__).parent / "data" / "pytorch_programs.zip") as stored:
        for name in stored.namelist():
            if name.endswith(".pt2"):
                arrays = np.load(io.BytesIO(stored.read(name.partition(".")[0] + ".npz")))
                parts = [[arrays[k] for k in arrays.files if k[0] == word] for word in "xy"]
                yield pytest.param(stored.read(name), *parts, id=name.removesuffix(".pt2"))


@pytest.mark.parametrize("data, inputs, results", list(programs_of_pytorch()))
def test_programs_of_pytorch_run(data, inputs, results):
    inputs = [facula.from_numpy(x) if x.ndim else int(x) for x in inputs]
    ep = export.load(io.BytesIO(data))
    assert ep.example_inputs is not None
    for run in (ep._run, export.load(io.BytesIO(data)).module()):
        found = facula.utils._pytree.tree_leaves(run(*inputs))
        assert len(found) == len(results)
        for a, b in zip(found, results):
            assert a.detach().numpy().dtype == b.dtype
            np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-4, atol=1e-5)


def test_lists_of_tensors_lack_some_only_where_they_may():
    x = facula.rand(2, 3)
    with pytest.raises(TypeError, match=r"argument 'tensors' is a Tensor\[\]"):
        facula.ops.aten.cat.default([None, x])
    lines = ['input user "x" %x: float32[2, 3]', "%y: float32[4, 3] = cat.default([none, %x], 0)", "return %y"]
    with pytest.raises(ValueError, match="another value than a Tensor.* for 'tensors'"):
        _C._Program.parse("\n".join(lines)).verify()
    lines[1] = "%y: float32[2] = index.Tensor(%x, [none, %i])"
    lines.insert(1, 'input user "i" %i: int64[1]')
    index = facula.tensor([1])
    close(_C._Program.parse("\n".join(lines)).run([x, index])[0], x[:, index])


def test_mutated_archives_never_crash(net):
    data = saved(export.export(net, (facula.randn(5, 8),))).getvalue()
    rng = np.random.default_rng(7)
    model = next(i for i in zipfile.ZipFile(io.BytesIO(data)).infolist() if i.filename.endswith("model.json"))
    loaded = 0
    for round in range(300):
        broken = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(data))) if round % 2 else int(rng.integers(model.header_offset + 60, model.header_offset + model.file_size))
            broken[at] = int(rng.integers(256))
        if round % 2 == 0:  # past the sum of the zip: the JSON itself
            with zipfile.ZipFile(io.BytesIO(data)) as old:
                text = bytearray(old.read(model))
            for _ in range(int(rng.integers(1, 5))):
                at = int(rng.integers(len(text)))
                text[at : at + 1] = bytes(rng.choice(list(b'0129"[]{}:,-ea_.'), int(rng.integers(3))).tolist())
            broken = changed(io.BytesIO(data), "models/model.json", lambda _, text=text: bytes(text)).getvalue()
        try:
            export.load(io.BytesIO(bytes(broken)))._run(facula.randn(5, 8))
            loaded += 1
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            pass
    assert 0 < loaded < 300
