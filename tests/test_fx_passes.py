"""torch.fx.passes and torch.fx.experimental."""

import operator
import subprocess
import sys

import pytest

import facula as torch
from facula import fx, nn
from facula.fx.experimental import const_fold, merge_matmul, normalize, optimization, symbolic_shapes
from facula.fx.experimental.proxy_tensor import get_isolated_graphmodule, get_proxy_mode, make_fx
from facula.fx.passes import graph_manipulation, operator_support, pass_manager, tools_common
from facula.fx.passes.fake_tensor_prop import FakeTensorProp
from facula.fx.passes.graph_drawer import FxGraphDrawer
from facula.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from facula.fx.passes.infra.pass_base import PassBase, PassResult
from facula.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint
from facula.fx.passes.param_fetch import lift_lowering_attrs_to_nodes
from facula.fx.passes.shape_prop import ShapeProp
from facula.fx.passes.split_module import split_module
from facula.fx.passes.split_utils import split_by_tags
from facula.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from facula.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop, self.lin = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        y = nn.functional.relu(self.norm(self.conv(x)))
        z = self.drop(y.mean((2, 3)))
        return self.lin(z) * self.scale + self.shift, torch.split(z, 2, 1)[0]


X = torch.linspace(-1, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8)


def traced():
    return fx.symbolic_trace(Net().eval())


def same(a, b):
    assert all(map(torch.equal, a, b))


def test_shapes():
    gm = traced()
    ShapeProp(gm).propagate(X)
    meta = {n.name: n.meta.get("tensor_meta") for n in gm.graph.nodes}
    assert meta["conv"].shape == (2, 4, 6, 6) and meta["conv"].requires_grad and meta["x"].stride == (192, 64, 8, 1)
    assert [m.shape for m in meta["split"]] == [(2, 2), (2, 2)] and meta["split"][0].memory_format is None
    assert next(iter(gm.graph.nodes)).meta["type"] is torch.Tensor and meta["x"].memory_format is torch.contiguous_format
    bad = fx.symbolic_trace(lambda x: x.view(7))
    with pytest.raises(RuntimeError, match="^ShapeProp: a node cannot be run: %view"):
        ShapeProp(bad).propagate(X)
    for prop in (FakeTensorProp(gm), ShapeProp(gm, fake_mode=torch._subclasses.fake_tensor.FakeTensorMode())):
        out = prop.propagate(torch.ones(5, 3, 9, 9))
        assert [tuple(o.shape) for o in out] == [(5, 2), (5, 2)] and type(out[0]).__name__ == "FakeTensor"
    assert next(n for n in gm.graph.nodes if n.name == "mean").meta["val"].shape == (5, 4)
    sizes = traced()
    graph_manipulation.get_size_of_all_nodes(sizes, [X])
    found = {n.name: getattr(n, "size_bytes", None) for n in sizes.graph.nodes}
    assert found["lin"] == (4 * 4, 4 * (4 + 10)) and found["x"].output_size == 4 * X.numel()


def test_splitting_a_module():
    gm, parts = traced(), {"conv": 0, "norm": 0, "relu": 1, "mean": 1, "drop": 2, "lin": 2}
    names = {}
    split = split_module(gm, gm, lambda n: parts.get(n.name, 3), names)
    assert [n for n, _ in split.named_children()] == ["submod_0", "submod_1", "submod_2", "submod_3"]
    assert split.code.strip().split("\n")[1:4] == [
        "    scale = self.scale", "    shift = self.shift", "    submod_0 = self.submod_0(x);  x = None"
    ]  # fmt: skip
    assert split.submod_3.code.strip().split("\n")[0] == "def forward(self, lin, scale, shift, drop):"
    assert names == {"submod_0.conv": "conv", "submod_0.norm": "norm", "submod_2.drop": "drop", "submod_2.lin": "lin"}
    same(split(X), gm(X))
    kept = split_module(gm, gm, lambda n: parts.get(n.name, 3), keep_original_order=True, keep_original_input_name=False)
    assert "scale = self.scale" in kept.code.split("submod_2[1]")[1] and "arg_0" in kept.submod_1.code
    same(kept(X), gm(X))
    tuples = split_module(gm, gm, lambda n: parts.get(n.name, 3), tuple_return=True, partition_affix="p")
    assert isinstance(tuples.submod_p_0(X), tuple)
    same(tuples(X), gm(X))
    with pytest.raises(RuntimeError, match="depend on one another in a circle"):
        cyclic = fx.symbolic_trace(lambda x: (x + 1).relu() * 2)
        split_module(cyclic, cyclic, lambda n: int(n.name == "relu"))


def test_splitting_by_tags():
    def program(a, b, c):
        d = a + b
        return torch.relu(d) * c - torch.sigmoid(d), d

    gm = fx.symbolic_trace(program)
    for node in gm.graph.nodes:
        node.tag = {"add": "p0", "relu": "p1", "mul": "p1", "sigmoid": "p2", "sub": "p3"}.get(node.name)
    split = split_by_tags(gm, ["p0", "p1", "p2", "p3"])
    assert split.code.strip().split("\n")[1:5] == [
        "    p0 = self.p0(a, b);  a = b = None", "    p1 = self.p1(p0, c);  c = None", "    p2 = self.p2(p0)",
        "    p3 = self.p3(p1, p2);  p1 = p2 = None",
    ]  # fmt: skip
    args = torch.randn(2), torch.randn(2), torch.randn(2)
    same(split(*args), program(*args))


def test_partitions():
    def program(x, y):
        a = x + y
        b = a * 2
        c = b - x
        return c + a, b

    gm = fx.symbolic_trace(program)
    support = operator_support.create_op_support(lambda _, n: n.op == "call_function" and n.target in (operator.add, operator.mul))
    partitioner = CapabilityBasedPartitioner(gm, support, allows_single_node_partition=True)
    found = partitioner.propose_partitions()
    assert [(p.id, [n.name for n in p.nodes]) for p in found] == [(0, ["add_1"]), (2, ["add", "mul"])]  # one would be a cycle
    fused = partitioner.fuse_partitions(found)
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == ["fused_1", "fused_0"]
    args = torch.randn(2), torch.randn(2)
    same(fused(*args), program(*args))
    gm = fx.symbolic_trace(program)
    found = CapabilityBasedPartitioner(gm, support).propose_partitions()
    assert [[n.name for n in p.nodes] for p in found] == [["add", "mul"]]

    def items(x):
        a, b = torch.split(x, 1)
        return torch.relu(a) + b

    gm = fx.symbolic_trace(items)
    support = operator_support.create_op_support(lambda _, n: n.target in (torch.relu, torch.split, operator.add))
    fused = CapabilityBasedPartitioner(gm, support).partition_and_fuse()
    assert len([n for n in fused.graph.nodes if n.op == "call_module"]) == 1
    assert torch.equal(fused(torch.ones(2)), items(torch.ones(2)))


def test_supported_ops():
    gm = traced()
    ShapeProp(gm).propagate(X)
    modules = dict(gm.named_modules())
    support = operator_support.OperatorSupport({"torch.nn.modules.conv.Conv2d": None, "_operator.add": (((torch.int64,),), {})})
    answers = {n.name: support.is_node_supported(modules, n) for n in gm.graph.nodes}
    assert answers["conv"] and not answers["norm"] and not answers["add"] and answers["x"]
    floats = operator_support.OpSupports.decline_if_input_dtype(torch.float32)
    names = operator_support.OpSupports.decline_if_node_in_names({"lin"})
    lin = next(n for n in gm.graph.nodes if n.name == "lin")
    assert not floats.is_node_supported(modules, lin) and not names.is_node_supported(modules, lin)
    assert operator_support.any_chain(floats, operator_support.create_op_support(lambda *_: True)).is_node_supported(modules, lin)
    assert not operator_support.chain(names, operator_support.create_op_support(lambda *_: True)).is_node_supported(modules, lin)
    assert tools_common.get_node_target(modules, lin) == "torch.nn.modules.linear.Linear"
    gm.graph.output_node().prepend(next(iter(gm.graph.nodes)))
    with pytest.raises(RuntimeError, match="which comes later in the graph"):
        gm.graph.lint()
    tools_common.legalize_graph(gm).graph.lint()
    tools_common.stable_topological_sort(gm).graph.lint()
    lift_lowering_attrs_to_nodes(fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2))))
    with pytest.raises(RuntimeError, match="^extract_attrs_for_lowering: a module that is known is expected"):
        lift_lowering_attrs_to_nodes(gm)


def test_pass_managers():
    class Change(PassBase):
        def call(self, gm):
            for node in gm.graph.nodes:
                if node.target is torch.add:
                    node.target = torch.mul
                    gm.recompile()
                    return PassResult(gm, True)
            return PassResult(gm, False)

    gm = fx.symbolic_trace(lambda x: torch.add(torch.add(x, 2), 3))
    result = PassManager([Change()], steps=5)(gm)
    assert result.modified and result.graph_module(torch.tensor(2.0)).item() == 12.0
    first, second = lambda gm: PassResult(gm, False), lambda gm: PassResult(gm, False)
    manager = PassManager([first, second], constraints=[this_before_that_pass_constraint(second, first)])
    with pytest.raises(RuntimeError, match="^PassManager: the passes must be in the order of the constraints"):
        manager.validate_constraints()
    manager.solve_constraints()
    assert manager.passes == [second, first]
    with pytest.raises(Exception, match="PassManager: the pass 'bad' failed"):

        def bad(gm):
            return 3

        PassManager([bad])(gm)
    older = pass_manager.PassManager([pass_manager.loop_pass(lambda x: x + 1, n_iter=3)])
    older.add_pass(pass_manager.inplace_wrapper(lambda x: None))
    assert older(1) == 4


def test_drawings():
    gm = traced()
    ShapeProp(gm).propagate(X)
    text = FxGraphDrawer(gm, "net").get_dot_graph().to_string()
    assert text.startswith('digraph "net" {\nrankdir=TB;\n"x" [label="{name=%x\\lop_code=placeholder')
    assert '"conv" -> "norm";' in text and "torch.nn.modules.conv.Conv2d" in text and "shape=(2, 4, 6, 6)" in text
    assert text.count("{") == text.count("}")


def test_named_patterns_and_sources():
    def pattern(x, w):
        product = x @ w
        relu = torch.relu(product)
        return relu, {"product": product, "relu": relu}

    gm = fx.symbolic_trace(lambda a, b: torch.relu(a @ b) + 1)
    found = SubgraphMatcherWithNameNodeMap(fx.symbolic_trace(pattern)).match(gm.graph)
    assert {k: v.name for k, v in found[0].name_node_map.items()} == {"product": "matmul", "relu": "relu"}
    parts = get_source_partitions(traced().graph, [nn.Conv2d, nn.BatchNorm2d])
    assert [n.name for n in parts[nn.Conv2d][0].input_nodes] == ["x"] and parts[nn.BatchNorm2d][0].output_nodes[0].name == "norm"
    assert check_subgraphs_connected(parts[nn.Conv2d][0], parts[nn.BatchNorm2d][0])
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(x))
    graph_manipulation.replace_target_nodes_with(gm, "call_function", torch.relu, "call_method", "tanh")
    assert torch.equal(gm(torch.ones(2)), 2 * torch.ones(2).tanh())


# ---- experimental


def test_folding_batch_norm_and_leaving_dropout_out():
    net = Net()
    net(X)  # running statistics that are not those of the beginning
    net.eval()
    fused = optimization.fuse(net)
    assert "norm" not in dict(fused.named_modules()) and "norm" in dict(net.named_modules())
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(fused(X), net(X)))
    assert "drop" not in optimization.remove_dropout(net).code
    best = optimization.optimize_for_inference(net)
    assert not {"norm", "drop"} & {n.name for n in best.graph.nodes}
    assert torch.allclose(best(X)[0], net(X)[0], atol=1e-5)


def test_normal_forms():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert '(input = _0)' in normalize.NormalizeArgs(gm).transform().code
    gm = fx.symbolic_trace(lambda x, y: torch.add(x, y) + nn.functional.relu(x) + torch.add(x, y, alpha=2))
    new = normalize.NormalizeOperators(gm).transform()
    assert "add = x + y" in new.code and "relu : torch.Tensor =" in new.code and "alpha = 2" in new.code
    args = torch.randn(2), torch.randn(2)
    assert torch.equal(new(*args), gm(*args))
    call = next(n for n in gm.graph.nodes if n.name == "add")
    assert call.normalized_arguments(gm, normalize_to_only_use_kwargs=True).kwargs["other"].name == "y"


def test_constants_are_computed_once():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.v = nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 2.0))

        def forward(self, x):
            return x * (self.w + self.v).relu() + torch.relu(self.w)

    net = Scaled()
    folded = const_fold.split_const_subgraphs(net)
    assert "_FX_CONST_FOLDED_ATTRS" in folded.code and "relu" not in folded.code
    assert torch.equal(folded(torch.ones(2)), net(torch.ones(2))) and folded.has_folding_been_run
    plain = const_fold.split_const_subgraphs(fx.symbolic_trace(lambda x: x + 1))
    assert plain(torch.ones(1)).item() == 2.0


def test_products_with_one_matrix_are_joined():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(3, 4))

        def forward(self, x, y):
            return torch.matmul(x, self.w) + torch.matmul(y, self.w)[:2]

    net = Two()
    gm = merge_matmul.merge_matmul(net)
    assert sum(n.target is torch.matmul for n in gm.graph.nodes) == 1
    args = torch.randn(2, 3), torch.randn(5, 3)
    assert torch.allclose(gm(*args), net(*args), atol=1e-6)
    chained = merge_matmul.merge_matmul(lambda x, w: torch.matmul(torch.matmul(x, w), w))
    assert sum(n.target is torch.matmul for n in chained.graph.nodes) == 2


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_make_fx(mode):
    weight = torch.randn(4, 3)

    def program(x, rest):
        return nn.functional.linear(x, weight).relu() * 2 + rest["b"], rest["a"]

    args = torch.randn(2, 3), {"a": torch.ones(1), "b": torch.ones(4)}
    gm = make_fx(program, tracing_mode=mode)(*args)
    targets = [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]
    assert targets == ["aten.t.default", "aten.mm.default", "aten.relu.default", "aten.mul.Tensor", "aten.add.Tensor"]
    assert gm.code.strip().split("\n")[1] == "    x_1, rest_1, rest_2, = fx_pytree.tree_flatten_spec([x, rest], self._in_spec)"
    assert next(n for n in gm.graph.nodes if n.name == "mm").meta["val"].shape == (2, 4)
    if mode == "real":
        same(gm(*args), program(*args))
    assert get_proxy_mode() is None


def test_make_fx_records_gradients_writes_and_replacements():
    def gradient(x):
        y = (x.sin() * x).sum()
        return torch.autograd.grad(y, x)

    x = torch.randn(3, requires_grad=True)
    gm = make_fx(gradient)(x)
    assert "aten.cos.default" in gm.code
    other = torch.randn(3)
    assert torch.allclose(gm(other)[0], other.cos() * other + other.sin(), atol=1e-6)
    gm = make_fx(lambda x: x.add_(1).mul_(2))(torch.ones(2))
    assert gm(torch.ones(2)).tolist() == [4.0, 4.0]
    swapped = {torch.ops.aten.relu.default: lambda x: torch.sigmoid(x)}
    assert "sigmoid" in make_fx(lambda x: torch.relu(x), swapped)(torch.ones(2)).code
    layer = nn.Linear(2, 2)
    assert torch.equal(make_fx(layer)(torch.ones(1, 2))(torch.ones(1, 2)), layer(torch.ones(1, 2)))
    assert "aten.neg.default" in get_isolated_graphmodule(lambda x, y: -x, (torch.ones(1),), {"y": torch.ones(1)}).code
    with pytest.raises(NotImplementedError, match="tracing_mode is 'real' or 'fake'"):
        make_fx(gradient, tracing_mode="symbolic")


def test_sizes_are_numbers():
    assert symbolic_shapes.free_symbols(torch.ones(2)) == set() and not symbolic_shapes.guard_or_false(0)
    assert symbolic_shapes.statically_known_true(3 > 2) and symbolic_shapes.sym_eq([1, 2], (1, 2)) and symbolic_shapes.hint_int(3) == 3
    with pytest.raises(RuntimeError, match="why"):
        raise symbolic_shapes.GuardOnDataDependentSymNode("u0", "why")


def test_the_names_of_torch():
    code = """
        import torch, torch.fx
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
        from torch.fx.node import Argument, Node, Target, base_types, map_aggregate
        from torch.fx.graph import _PyTreeCodeGen, magic_methods
        gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(1, 1)))
        print(torch.fx.GraphModule is __import__("facula").fx.GraphModule, type(gm).__name__, gm.graph._codegen.__class__.__name__)
    """
    done = subprocess.run(
        [sys.executable, "-m", "facula", "-c", "\n".join(line.strip() for line in code.split("\n"))],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "True Sequential CodeGen", done.stderr


_TRANSFORMED = {
    "grad": torch.func.grad(lambda x: x.sin().sum()),
    "grad_of_grad": torch.func.grad(lambda x: torch.func.grad(lambda y: y.sin().sum())(x).sum()),
    "jacrev": torch.func.jacrev(torch.func.jacrev(lambda x: x.sin().sum())),
    "jacfwd": torch.func.jacfwd(torch.sin),
    "hessian": torch.func.hessian(lambda x: x.sin().sum()),
    "vmap": torch.vmap(torch.func.grad(torch.sin)),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    "vjp": lambda x: torch.func.vjp(torch.sin, x)[1](x)[0],
    "detach": lambda x: x.detach() * 2,
    "result": lambda x: x.sin().detach(),
}


@pytest.mark.parametrize("name", _TRANSFORMED)
def test_graphs_of_transforms_hold_no_values_of_the_example(name):
    function, x = _TRANSFORMED[name], torch.tensor([1.0, 2.0, 3.0])
    graph = make_fx(function)(torch.tensor([0.1, 0.2, 0.3]))
    assert torch.allclose(graph(x), function(x))
