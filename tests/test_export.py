"""facula.export: recording modules, sizes that vary, what cannot be recorded, graphs, and files."""

import copy

import pytest
from export_helpers import Net, close, ops_of

import facula
import facula.nn.functional as F
from facula import _C, export, nn
from facula.export import Dim


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
    with pytest.raises(RuntimeError, match=r"it is not called itself"):
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


def test_tensors_that_no_program_made_are_numbers():
    start, size = facula.tensor(1), facula.tensor(2)

    class Uses(nn.Module):
        def forward(self, x):
            return x.narrow(0, start, size), x.view(size, -1), x[start:], x.roll(start, 0), facula.full((2,), start)

    x = facula.rand(4)
    for found, wanted in zip(export.export(Uses(), (x,))._run(x), Uses()(x), strict=True):
        close(found, wanted)


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
        (lambda x: x.narrow(0, x.sum().long(), 1), "narrow"),
        (lambda x: x.roll(x.sum().long(), 0), "roll"),
        (lambda x: x.view(x.sum().long(), -1), "int"),
        (lambda x: facula.zeros(x.sum().long()), "int"),
        (lambda x: nn.functional.pad(x, (x.sum().long(), 0)), "int"),
        (lambda x: x[x.sum().long() :], "item"),
        (lambda x: facula.full((2,), x.sum()), "full"),
        (lambda x: facula.add(x, x, alpha=x.sum()), "add"),
        (lambda x: facula.tensor_split(x, x.sum().long())[0], "tensor_split"),
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
    with pytest.raises(ValueError, match="mod must be an nn.Module"):
        export.export(lambda x: x, (facula.rand(3),))
    with pytest.raises(TypeError, match="args must be a tuple"):
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


@pytest.mark.parametrize("index", [facula.tensor([1, 2, 3, 4]), slice(1, 5), facula.tensor([False] + [True] * 4 + [False])])
def test_values_with_leading_ones_are_assigned(index):
    class Assigns(facula.nn.Module):
        def forward(self, x, value):
            x = x.clone()
            x[index] = value
            return x

    module, arguments = Assigns(), (facula.zeros(6), facula.arange(4.0).view(1, 1, 1, 4))
    program = facula.export.export(module, arguments).module()
    assert facula.equal(program(*arguments), module(*arguments)) and program(*arguments).tolist() == [0, 0, 1, 2, 3, 0]
