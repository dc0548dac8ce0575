"""torch.fx: graphs that are edited, checked, copied and printed."""

import copy
import textwrap

import pytest
from fx_modules import Net

import facula as torch
from facula import fx, nn


def test_editing_a_graph():
    gm = fx.symbolic_trace(lambda x, y: torch.relu(x) + y)
    relu, add = (n for n in gm.graph.nodes if n.op == "call_function")
    with gm.graph.inserting_before(add):
        neg = gm.graph.call_function(torch.neg, (relu,))
    add.replace_input_with(relu, neg)
    with gm.graph.inserting_after(add):
        absolute = gm.graph.call_method("abs", (add,))
    changed = add.replace_all_uses_with(absolute, delete_user_cb=lambda user: user.op == "output")
    assert changed == [gm.graph.output_node()] and list(add.users) == [absolute] and relu < neg < add < absolute
    gm.graph.lint()
    gm.recompile()
    x, y = torch.randn(3), torch.randn(3)
    assert torch.equal(gm(x, y), (y - x.relu()).abs())
    assert gm.graph.find_nodes(op="call_method", target="abs") == [absolute] and gm.graph.find_nodes(op="output")
    with pytest.raises(RuntimeError, match=r"^erase_node: no other node may use add, got 1 users: \[abs_1\]"):
        gm.graph.erase_node(add)
    assert [n.name for n in reversed(gm.graph.nodes)][:2] == ["output", "abs_1"] and len(gm.graph.nodes) == 7
    add.update_arg(1, 5)
    add.update_kwarg("alpha", 2)
    add.insert_arg(0, relu)
    assert add.args == (relu, neg, 5) and add.kwargs == {"alpha": 2} and add.all_input_nodes == [relu, neg]


def test_arguments_do_not_change_by_themselves():
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.cat, ([x, x],), {"dim": 1})
    assert type(node.args[0]).__name__ == "immutable_list" and hash(node.args[0]) == hash((x, x))
    for change in (lambda: node.args[0].append(x), lambda: node.kwargs.update(dim=2), lambda: node.args[0].__setitem__(0, 1)):
        with pytest.raises(TypeError, match="cannot be changed in place"):
            change()
    node.args = ([x],)
    assert list(x.users) == [node]
    node.args = ([],)
    assert not x.users


def test_lint_finds_what_is_wrong():
    graph = fx.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    neg = graph.call_function(torch.neg, (relu,))
    graph.output(neg)
    graph.lint()
    neg.append(relu)
    with pytest.raises(RuntimeError, match="lint: neg has the argument relu, which comes later"):
        graph.lint()
    other = fx.Graph()
    other.call_function(torch.relu, (x,))
    with pytest.raises(RuntimeError, match="lint: relu has the argument x, a node of another graph"):
        other.lint()
    with pytest.raises(AssertionError, match="^create_node: op must be 'placeholder', .* got 'foo'"):
        graph.create_node("foo", "x")
    with pytest.raises(ValueError, match="must be a Callable, got '"):
        graph.call_function("x")
    with pytest.raises(ValueError, match="must be a str, got "):
        graph.call_method(torch.relu)
    gm = fx.symbolic_trace(Net())
    del gm.lin
    with pytest.raises(RuntimeError, match="^Graph.lint: the target of node .* must be in the module"):
        gm.graph.lint()


def test_dead_code():
    def program(x):
        x.relu()
        torch._assert(x, "m")
        torch.bernoulli(x)
        x.abs().neg()
        return x + 1

    gm = fx.symbolic_trace(program)
    assert gm.graph.eliminate_dead_code() and not gm.graph.eliminate_dead_code()
    assert [n.name for n in gm.graph.nodes] == ["x", "_assert", "bernoulli", "add", "output"]

    @fx.has_side_effect
    def effect(x):
        return x

    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(effect, (x,))
    graph.call_function(torch.ops.aten.relu_.default, (x,))
    graph.call_function(torch.ops.aten.relu.default, (x,))
    graph.output(x)
    graph.eliminate_dead_code()
    assert [n.name for n in graph.nodes] == ["x", "effect", "relu__default", "output"]


def test_copying_graphs():
    gm = fx.symbolic_trace(Net())
    graph, values = fx.Graph(), {}
    result = graph.graph_copy(gm.graph, values)
    graph.output(result)
    assert str(graph) == str(gm.graph) == str(copy.deepcopy(gm.graph)) and all(n.graph is graph for n in values.values())
    assert graph.node_copy(next(iter(gm.graph.nodes))).name == "x_1"


def test_tables(capsys):
    fx.symbolic_trace(lambda x: x + 1).graph.print_tabular()
    assert capsys.readouterr().out == textwrap.dedent(
        """\
        opcode         name    target                   args    kwargs
        -------------  ------  -----------------------  ------  --------
        placeholder    x       x                        ()      {}
        call_function  add     <built-in function add>  (x, 1)  {}
        output         output  output                   (add,)  {}
        """
    )


def test_graphs_of_ops():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.ops.aten.linear.default, (x, graph.get_attr("w")))
    y.meta["val"] = torch.empty(2, 3, device="meta")
    graph.output((graph.call_function(torch.ops.aten.sum.dim_IntList, (y, [1])),))
    gm = fx.GraphModule({"w": torch.ones(3, 4)}, graph)
    assert "torch.ops.aten.sum.dim_IntList(linear_default, [1])" in gm.code
    assert torch.equal(gm(torch.ones(2, 4))[0], torch.full((2,), 12.0))
    assert 'linear_default: "f32[2, 3]" = torch.ops.aten.linear.default' in gm.print_readable(print_output=False)


ASSERTS = """
def program(x, y):
    assert x
    assert x > y, "no text is traced"
    assert not x or y
    if x:
        assert y
    if not y:
        raise AssertionError
    return x
"""


def test_what_asserts_is_traced():  # by a text: pytest writes its own asserts into this file
    class Asserting(fx.Tracer):
        trace_asserts = True

        def to_bool(self, obj):
            asked.append(obj.node.name)
            return True

    asked, scope = [], {}
    exec(ASSERTS, scope)
    graph = Asserting().trace(scope["program"])
    asserted = [node.args[0].name for node in graph.nodes if node.target is fx.proxy.assert_fn]
    assert asserted == ["x", "gt", "y", "y"] and asked == ["x", "x", "y"]


def test_concrete_arguments_of_a_module_that_takes_any_number():
    class Total(nn.Module):
        def forward(self, *parts, **options):
            return parts[0] + parts[1]

    traced = fx.symbolic_trace(Total(), concrete_args=(fx.PH, 2.0))
    assert traced(torch.ones(2)).tolist() == [3, 3]
    assert [node.name for node in traced.graph.nodes if node.op == "placeholder"] == ["input_0"]
