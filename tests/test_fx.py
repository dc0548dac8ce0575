"""torch.fx: tracing, graphs and their text, GraphModules, interpreters."""

import copy
import operator
import pickle
import subprocess
import sys
import textwrap
import threading

import fx_modules
import pytest
from fx_modules import Block, Net, body, calls

import facula as torch
from facula import fx, nn
from facula.fx.proxy import TraceError

F = nn.functional


def test_importing_facula_does_not_import_fx():
    code = "import facula, sys; print([m for m in sys.modules if m.startswith('facula.fx')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


# ---- tracing


def test_a_module_as_code_and_text():
    gm = fx.symbolic_trace(Net())
    assert gm.code.rstrip() + "\n" == textwrap.dedent(
        """\



        def forward(self, x, factor = 2, extra = None):
            lin = self.lin(x);  x = None
            shift = self.shift
            add = lin + shift;  lin = shift = None
            blocks_0_act = getattr(self.blocks, "0").act(add);  add = None
            blocks_0_scale = getattr(self.blocks, "0").scale
            mul = blocks_0_act * blocks_0_scale;  blocks_0_act = blocks_0_scale = None
            blocks_1_act = getattr(self.blocks, "1").act(mul);  mul = None
            blocks_1_scale = getattr(self.blocks, "1").scale
            mul_1 = blocks_1_act * blocks_1_scale;  blocks_1_act = blocks_1_scale = None
            mul_2 = mul_1 * factor;  factor = None
            getattr_1 = mul_1.shape
            getitem = getattr_1[0];  getattr_1 = None
            t = mul_1.t();  mul_1 = None
            return {'out': mul_2, 'rest': [getitem, (t, 4)]}
            """
    )
    lines = str(gm.graph).split("\n")
    assert lines[0] == "graph():"
    assert lines[2] == "    %factor : [num_users=1] = placeholder[target=factor](default=2)"
    assert lines[4] == "    %lin : [num_users=1] = call_module[target=lin](args = (%x,), kwargs = {})"
    assert lines[5] == "    %shift : [num_users=1] = get_attr[target=shift]"
    assert "    %add : [num_users=1] = call_function[target=operator.add](args = (%lin, %shift), kwargs = {})" in lines
    assert "    %getattr_1 : [num_users=1] = call_function[target=builtins.getattr](args = (%mul_1, shape), kwargs = {})" in lines
    assert lines[-1] == "    return {'out': mul_2, 'rest': [getitem, (t, 4)]}"


def test_a_traced_module_computes_the_same():
    net = Net()
    gm = fx.symbolic_trace(net)
    x = torch.randn(5, 4)
    for args in ((x,), (x, 3)):
        got, expected = gm(*args), net(*args)
        assert torch.equal(got["out"], expected["out"]) and got["rest"][0] == 5 and got["rest"][1][1] == 4
        assert torch.equal(got["rest"][1][0], expected["rest"][1][0])
    gm(x)["out"].sum().backward()
    assert net.lin.weight.grad is not None  # parameters are shared
    assert list(gm.state_dict()) == list(net.state_dict())


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda x: torch.relu(x), ("call_function", "relu", "torch.relu", "(x,)", "{}")),
        (lambda x: F.relu(x), ("call_function", "relu", "torch.nn.functional.relu", "(x,)", "{'inplace': False}")),
        (lambda x: x.relu(), ("call_method", "relu", "relu", "(x,)", "{}")),
        (lambda x: F.gelu(x, approximate="tanh"), ("call_function", "gelu", "torch._C._nn.gelu", "(x,)", "{'approximate': 'tanh'}")),
        (lambda x: F.logsigmoid(x), ("call_function", "log_sigmoid", "torch._C._nn.log_sigmoid", "(x,)", "{}")),
        (
            lambda x: F.dropout(x, 0.3, False),
            ("call_function", "dropout", "torch.nn.functional.dropout", "(x,)", "{'p': 0.3, 'training': False, 'inplace': False}"),
        ),
        (
            lambda x: F.softmax(x, 1),
            ("call_function", "softmax", "torch.nn.functional.softmax", "(x,)", "{'dim': 1, '_stacklevel': 3, 'dtype': None}"),
        ),
        (
            lambda x: F.max_pool2d(x, 2, return_indices=True),
            (
                "call_function",
                "max_pool2d_with_indices",
                "torch.nn.functional.max_pool2d_with_indices",
                "(x, 2)",
                "{'stride': None, 'padding': 0, 'dilation': 1, 'ceil_mode': False, 'return_indices': True}",
            ),
        ),
        (lambda x: torch.einsum("ij,jk", x, x), ("call_function", "einsum", "torch.functional.einsum", "('ij,jk', x, x)", "{}")),
        (lambda x: torch.split(x, 2), ("call_function", "split", "torch.functional.split", "(x, 2)", "{'dim': 0}")),
        (lambda x: torch.linalg.norm(x), ("call_function", "linalg_norm", "torch._C._linalg.linalg_norm", "(x,)", "{}")),
        (lambda x: torch.cat([x, x], dim=1), ("call_function", "cat", "torch.cat", "([x, x],)", "{'dim': 1}")),
        (lambda x: abs(x), ("call_function", "abs_1", "operator.abs", "(x,)", "{}")),
        (lambda x: 2 - x, ("call_function", "sub", "operator.sub", "(2, x)", "{}")),
        (lambda x: x[0, ..., 1:2], ("call_function", "getitem", "operator.getitem", "(x, (0, Ellipsis, slice(1, 2, None)))", "{}")),
        (lambda x: x.max(dim=1), ("call_method", "max_1", "max", "(x,)", "{'dim': 1}")),
        (lambda x: torch.full((2,), x), ("call_function", "full", "torch.full", "((2,), x)", "{}")),
        (lambda x: torch.zeros((x, 2)), ("call_function", "zeros", "torch.zeros", "((x, 2),)", "{}")),
        (
            lambda x: torch.ops.aten.add.Tensor(x, 1),
            ("call_function", "add_tensor", "torch.ops.aten.add.Tensor", "(x, 1)", "{}"),
        ),
    ],
)
def test_calls_are_written_as_in_pytorch(program, expected):
    assert calls(program) == [expected]


def test_proxies_beside_tensors():
    a = torch.arange(6.0).view(2, 3)
    cases = [
        lambda x: a + x, lambda x: a - x, lambda x: a * x, lambda x: a / x, lambda x: a == x, lambda x: a @ x.t(), lambda x: a // x,
        lambda x: 1 - a * x, lambda x: a.to(x), lambda x: a.type_as(x), lambda x: a.masked_fill(x > 1, 0.0), lambda x: a[x > 2],
        lambda x: a.view(x.size(0), -1), lambda x: a.to(x.device), lambda x: torch.ones(x.shape[0], 2), lambda x: a.expand(x.size()),
    ]  # fmt: skip
    x = torch.full((2, 3), 3.0)
    for program in cases:
        gm = fx.symbolic_trace(program)
        assert torch.equal(gm(x), program(x)), gm.code


def test_names_are_unlike_each_other():
    graph = fx.Graph()
    x = graph.placeholder("x")
    given = ["a", "a", "a_1", "a_7", "a_7", "a", "max", "for", "1x", "x.y", "torch", "", "foo-bar", "Abc"]
    found = [graph.create_node("call_method", "zz", (x,), name=name).name for name in given]
    assert found == ["a", "a_1", "a_2", "a_7", "a_8", "a_9", "max_1", "for_1", "_1x", "x_y", "torch_1", "_unnamed", "foo_bar", "Abc"]
    made = [graph.call_method(name, (x,)).name for name in ("__add__", "fooBar", "ReLU")]
    made += [graph.call_module(name, (x,)).name for name in ("layer1.0.conv1", "0", "0")]
    assert made == ["add", "foo_bar_1", "re_lu", "layer1_0_conv1", "_0", "_0_1"]


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("return x if x.sum() > 0 else -x", TraceError, "bool of a Proxy is not known while tracing"),
        ("assert x.sum() > 0", TraceError, "bool of a Proxy is not known while tracing"),
        ("return x in [1]", TraceError, "bool of a Proxy is not known while tracing"),
        ("return [i for i in x]", TraceError, "iter of a Proxy is not recorded"),
        ("return 1 in x", TraceError, "iter of a Proxy is not recorded"),
        ("return dict(**x)", TraceError, "iter of a Proxy is not recorded"),
        ("return max(*x)", TraceError, "iter of a Proxy is not recorded"),
        ("a, *b = x", TraceError, "iter of a Proxy is not recorded"),
        ("return len(x)", RuntimeError, "len of a Proxy is not recorded by itself"),
        ("return x.foo({x: 1})", RuntimeError, "a dictionary's key must be known while tracing, got x"),
        ("x[0] = 1", TypeError, "does not support item assignment"),
        ("return int(x)", TypeError, "not 'Proxy'"),
        ("return x.foo(object())", NotImplementedError, "create_arg: an argument that a graph can hold is expected, got <class 'object'>"),
    ],
)
def test_what_a_graph_cannot_hold(tmp_path, source, error, text):
    (tmp_path / "traced.py").write_text(f"def f(x):\n    {source}\n")
    scope = {}
    exec(compile((tmp_path / "traced.py").read_text(), tmp_path / "traced.py", "exec"), scope)
    with pytest.raises(error) as found:
        fx.symbolic_trace(scope["f"])
    assert text in str(found.value)
    if error is TraceError or "len" in text:
        assert "traced.py, line 2: `" + source in str(found.value)


def test_unpacking_and_overriding_what_a_proxy_does():
    def swap(x):
        a, b = x
        return b, a

    assert body(swap)[1:] == ["getitem = x[0]", "getitem_1 = x[1];  x = None", "return (getitem_1, getitem)"]

    class Tracer(fx.Tracer):
        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj[0], obj[1], obj[2]])

        def keys(self, obj):
            return ["a"]

    def program(x):
        first, *rest = x
        return (first if first > 0 else rest), dict(**x)

    graph = Tracer().trace(program)
    assert str(graph.output_node().args[0]) == "(getitem, {'a': getitem_3})"


def test_leaves_module_stacks_and_parameters():
    class Deep(fx.Tracer):
        def is_leaf_module(self, m, name):
            return isinstance(m, Block)

    net = Net()
    names = [n.name for n in Deep().trace(net).nodes]
    assert names[:8] == ["x", "factor", "extra", "lin_weight", "lin_bias", "linear", "shift", "add"] and "blocks_1" in names
    graph = fx.Tracer().trace(net)
    stack = next(n for n in graph.nodes if n.name == "blocks_1_act").meta["nn_module_stack"]
    assert list(stack.items()) == [("blocks.1", ("blocks.1", Block)), ("blocks.1.act", ("blocks.1.act", nn.ReLU))]

    class Shapes(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2, 5))

        def forward(self, x):
            return x.view(self.w.shape[1], self.w.size(0)) if self.w.dim() == 2 else x

    graph = fx.Tracer(param_shapes_constant=True).trace(Shapes())
    assert next(n for n in graph.nodes if n.name == "view").args[1:] == (5, 2)
    with pytest.raises(NameError, match="module is not installed as a submodule"):
        stray = nn.Linear(2, 2)
        fx.symbolic_trace(lambda x: stray(x))
    with pytest.raises(NameError, match="a parameter that the traced module does not hold"):
        fx.symbolic_trace(lambda x: x + nn.Parameter(torch.ones(2)))


def test_tensors_become_attributes_and_are_found_again():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = torch.ones(2)

        def forward(self, x):
            return x + self.plain + torch.full((2,), 3.0)

    gm = fx.symbolic_trace(Holder())
    assert [n.target for n in gm.graph.nodes if n.op == "get_attr"] == ["plain", "_tensor_constant0"]
    assert torch.equal(gm(torch.zeros(2)), torch.full((2,), 4.0))


def test_arguments_with_stars_defaults_and_types():
    def program(x: torch.Tensor, *args, y: "int" = 3, **kwargs) -> torch.Tensor:
        return x + args[0] + kwargs["z"] + y

    gm = fx.symbolic_trace(program)
    assert gm.code.strip().startswith("def forward(self, x : torch.Tensor, y : _int_ = 3, *args, **kwargs)")
    typed = body(lambda x: x)
    assert typed == ["def forward(self, x):", "return x"]

    def annotated(x: torch.Tensor, sizes: list[int], y: "int | None" = None) -> dict[str, torch.Tensor]:
        return {"a": x}

    first = body(annotated)[0]
    assert first == "def forward(self, x : torch.Tensor, sizes : list[int], y : _int_None_ = None) -> dict[str,torch.Tensor]:"


def test_concrete_arguments():
    def program(x, flag, d):
        return x + d["a"] + d["b"] if flag else x - d["a"]

    gm = fx.symbolic_trace(program, concrete_args={"flag": True, "d": {"a": fx.PH, "b": 2}})
    assert gm(1, True, {"a": 5, "b": 2}) == 8 and fx.Interpreter(gm).run(1, True, {"a": 5, "b": 2}) == 8
    with pytest.raises(AssertionError, match="flag was True while tracing, got another value"):
        gm(1, False, {"a": 5, "b": 2})
    with pytest.raises(AssertionError, match="d was 2 while tracing"):
        gm(1, True, {"a": 5, "b": 3})
    assert body(program, concrete_args={"flag": True, "d": {"a": fx.PH, "b": 2}})[1] == (
        "x, flag_1, d_1, d_2, = fx_pytree.tree_flatten_spec([x, flag, d], self._in_spec)"
    )
    gm = fx.symbolic_trace(lambda x: {"a": x["q"], "b": [x["z"]]}, concrete_args={"x": {"q": fx.PH, "z": fx.PH}})
    assert gm({"q": 1, "z": 2}) == {"a": 1, "b": [2]}
    gm = fx.symbolic_trace(lambda a, b=None: a if b is None else a + b, concrete_args={"b": None})
    assert gm(1) == 1
    with pytest.raises(AssertionError, match="b was None while tracing"):
        gm(1, 2)
    copied = pickle.loads(pickle.dumps(fx.symbolic_trace(program, concrete_args={"flag": True, "d": {"a": fx.PH, "b": 2}})))
    assert copied(1, True, {"a": 5, "b": 2}) == 8


def doubled(x, y):
    if y:
        return x * 2
    return x


@fx.wrap
def decorated(x):
    return x + 1 if len(x.shape) else x


fx.wrap("doubled")
fx.wrap("len")


def test_wrapped_functions_stay_calls():
    gm = fx.symbolic_trace(lambda x: doubled(x, x.numel() > 1) + len(x) + decorated(x) + doubled(3, True))
    assert [n.target for n in gm.graph.nodes if n.meta.get("is_wrapped")] == [doubled, len, decorated]
    assert gm.code.split("\n\n")[0].strip().split("\n") == [
        f'torch.fx._symbolic_trace.wrap("{__name__.replace(".", "_")}_doubled")',
        'torch.fx._symbolic_trace.wrap("len")',
        f'torch.fx._symbolic_trace.wrap("{__name__.replace(".", "_")}_decorated")',
    ]
    assert torch.equal(gm(torch.ones(2)), torch.full((2,), 12.0)) and gm.graph.nodes
    assert doubled(1, True) == 2 and len([1]) == 1  # nothing is left behind
    with pytest.raises(NotImplementedError, match="wrap: expected a call at module scope, got one inside test_"):
        fx.wrap("inside")
    with pytest.raises(RuntimeError, match="wrap: .*or the name of one, got int"):
        fx.wrap(3)


def test_what_is_patched_is_put_back():
    before = (nn.Module.__call__, nn.Module.__getattr__, F.dropout, torch.einsum, torch.ops.aten.relu.default.__class__.__call__)
    with pytest.raises(TraceError):
        fx.symbolic_trace(lambda x: [F.dropout(i) for i in x])
    after = (nn.Module.__call__, nn.Module.__getattr__, F.dropout, torch.einsum, torch.ops.aten.relu.default.__class__.__call__)
    assert before == after and not fx._symbolic_trace.is_fx_tracing()


def test_stack_traces():
    class Tracer(fx.Tracer):
        record_stack_traces = True

    tracer = Tracer()
    graph = tracer.trace(Net())
    mul = next(n for n in graph.nodes if n.name == "mul")
    assert fx_modules.__file__ in mul.stack_trace and "return self.act(x) * self.scale" in mul.stack_trace.split("\n")[-1]
    text = fx.GraphModule(tracer.root, graph).print_readable(print_output=False)
    assert "code: return self.act(x) * self.scale" in text and text.startswith("class GraphModule(torch.nn.Module):\n    def forward")


# ---- modules


def test_copies_and_pickles():
    gm = fx.symbolic_trace(Net())
    gm.meta["hi"] = 1
    x = torch.randn(2, 4)
    for other in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        assert other.code == gm.code and str(other.graph) == str(gm.graph) and other.meta == {"hi": 1}
        assert torch.equal(other(x)["out"], gm(x)["out"]) and other.graph is not gm.graph
        assert other.lin.weight is not gm.lin.weight
    assert copy.copy(gm).code == gm.code


def test_a_folder(tmp_path):
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    with pytest.warns(UserWarning, match="so they are pickled"):
        gm.to_folder(tmp_path / "folder", "Made")
    assert {p.name for p in (tmp_path / "folder").iterdir()} >= {"__init__.py", "module.py", "state_dict.pt"}
    code = "import sys, torch; sys.path.insert(0, sys.argv[1]); from folder import Made; print(Made()(torch.ones(1, 3)).tolist())"
    done = subprocess.run([sys.executable, "-m", "facula", "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(gm(torch.ones(1, 3)).tolist()), done.stderr


def test_submodules():
    module = nn.Module()
    module.a, module.b = nn.Linear(2, 2), nn.Dropout()
    graph = fx.Graph()
    graph.output(graph.call_module("a", (graph.placeholder("x"),)))
    gm = fx.GraphModule(module, graph, "Named")
    assert type(gm).__name__ == "Named" and isinstance(gm, fx.GraphModule) and [n for n, _ in gm.named_children()] == ["a"]
    assert gm.add_submodule("q.r.s", nn.ReLU()) and isinstance(gm.q.r.s, nn.ReLU)
    assert gm.delete_submodule("q.r") and not gm.delete_submodule("none")
    gm.delete_all_unused_submodules()
    assert [n for n, _ in gm.named_modules()] == ["", "a"]
    with pytest.raises(RuntimeError, match="which the dictionary root lacks"):
        fx.GraphModule({}, graph)
    with pytest.raises(AttributeError, match="foo"):
        bad = fx.Graph()
        bad.call_module("foo", ())
        fx.GraphModule(nn.Module(), bad)


def test_errors_say_where_in_the_code(capsys):
    gm = fx.symbolic_trace(lambda x: torch.relu(x).view(7, 7))
    with pytest.raises(RuntimeError, match="invalid for input of size 2"):
        gm(torch.ones(2))
    text = capsys.readouterr().err
    assert "GraphModule: the error came from line 6 of its generated forward:" in text
    assert "view = relu.view(7, 7)" in text


# ---- running


def test_interpreters():
    gm = fx.symbolic_trace(Net())
    seen = []

    class Watch(fx.Interpreter):
        def run_node(self, n):
            seen.append(n.op)
            return super().run_node(n)

    x = torch.randn(2, 4)
    assert torch.equal(Watch(gm).run(x)["out"], gm(x)["out"]) and seen.count("call_module") == 3
    args = [x, 3, None]
    assert torch.equal(fx.Interpreter(gm).boxed_run(args)["out"], gm(x, 3)["out"]) and args == []
    with pytest.raises(RuntimeError, match="^Interpreter: a value is expected for the argument x, got none"):
        fx.Interpreter(gm).run()
    with pytest.raises(RuntimeError, match=r"While executing %view : .*call_method\[target=view\]"):
        fx.Interpreter(fx.symbolic_trace(lambda x: x.view(7))).run(torch.ones(2))


def test_transformers():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.mul if target is operator.add else target, args, kwargs)

    gm = Swap(fx.symbolic_trace(lambda x, y=2: x + y)).transform()
    assert gm(torch.tensor(3.0), 4).item() == 12.0 and gm(torch.tensor(3.0)).item() == 6.0


def test_replacing_patterns():
    def program(x, w1, w2):
        m1, m2 = torch.cat([w1, w2]).sum(), torch.cat([w1, w2]).sum()
        return x + torch.max(m1) + torch.max(m2)

    gm = fx.symbolic_trace(program)
    matches = fx.replace_pattern(gm, lambda w1, w2: torch.cat([w1, w2]).sum(), lambda w1, w2: torch.stack([w1, w2]))
    assert len(matches) == 2 and [n.name for n in gm.graph.nodes if n.name.startswith("stack")] == ["stack", "stack_1"]
    a, b = torch.randn(3), torch.randn(3)
    assert torch.allclose(gm(0.0, a, b), 2 * torch.stack([a, b]).max())
    gm.graph.lint()

    gm = fx.symbolic_trace(lambda x: torch.relu(torch.relu(x)) + 1)
    found = fx.subgraph_rewriter.replace_pattern_with_filters(
        gm, lambda x: torch.relu(x), lambda x: torch.sigmoid(x), [lambda match, *_: match.returning_nodes[0].name == "relu_1"]
    )
    assert len(found) == 1 and [n.name for n in found[0].replacements] == ["sigmoid"]
    assert torch.equal(gm(torch.ones(2)), torch.ones(2).sigmoid() + 1)

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(x)

    gm = fx.symbolic_trace(lambda x: x.tanh() * 2)
    fx.replace_pattern(gm, lambda x: x.tanh(), Wide())
    assert isinstance(gm.inner, nn.Linear) and gm(torch.ones(1, 2)).shape == (1, 2)


def test_ranges_of_profiles_can_be_in_graphs():
    graph = fx.Graph()
    x = graph.placeholder("x")
    handle = graph.call_function(torch.ops.profiler._record_function_enter, ("part of it",))
    y = graph.call_function(torch.relu, (x,))
    graph.call_function(torch.ops.profiler._record_function_exit, (handle,))
    graph.output(y)
    with torch.profiler.profile() as profile:
        fx.GraphModule(nn.Module(), graph)(torch.ones(2))
    assert "part of it" in [event.name for event in profile.events()]


def test_other_threads_run_their_modules():
    inside, done, results = threading.Event(), threading.Event(), []

    def other():
        inside.wait(20)
        results.append(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))(torch.ones(1, 2)).shape)
        done.set()

    class Slow(nn.Module):
        def forward(self, x):
            inside.set()
            assert done.wait(20)
            return x + 1

    thread = threading.Thread(target=other)
    thread.start()
    gm = fx.symbolic_trace(Slow())
    thread.join()
    assert results == [(1, 2)] and [n.name for n in gm.graph.nodes] == ["x", "add", "output"]


def test_nodes_are_found_by_a_target_that_was_set():
    gm = fx.symbolic_trace(lambda x: torch.relu(x))
    (node,) = gm.graph.find_nodes(op="call_function", target=torch.relu)
    node.target = torch.tanh
    gm.graph.lint()
    assert gm.graph.find_nodes(op="call_function", target=torch.tanh) == [node]
    assert not gm.graph.find_nodes(op="call_function", target=torch.relu)
    node.op, node.target = "call_method", "sigmoid"
    gm.graph.lint()
    assert gm.graph.find_nodes(op="call_method", target="sigmoid") == [node]
    gm.recompile()
    assert gm(torch.tensor(0.0)) == 0.5
