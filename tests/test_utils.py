"""Small modules around the library: hub, futures, utils.benchmark, forked generators, names that are not supported."""

import copy
import pickle
import subprocess
import sys
import threading

import pytest

import facula as torch
from facula import futures, hub
from facula.utils import benchmark
from facula.utils.flop_counter import FlopCounterMode

HUBCONF = '''
dependencies = ["json"]
import beside

def net(width, depth=2):
    """A net."""
    import late
    return beside.NAME, late.NAME, width, depth

def _hidden():
    pass
'''


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "hubconf.py").write_text(HUBCONF)
    (tmp_path / "beside.py").write_text("NAME = 'beside'")
    (tmp_path / "late.py").write_text("NAME = 'late'")
    before = list(sys.path)
    yield str(tmp_path)
    assert sys.path == before
    for name in ("beside", "late"):
        sys.modules.pop(name, None)


def test_hub_of_a_directory(repository):
    assert hub.list(repository, source="local") == ["net"]
    assert hub.help(repository, "net", source="local") == "A net."
    assert hub.load(repository, "net", 3, depth=4, source="local") == ("beside", "late", 3, 4)


def test_hub_errors(repository, tmp_path):
    for call in (hub.list, lambda repo: hub.help(repo, "net"), lambda repo: hub.load(repo, "net")):
        with pytest.raises(NotImplementedError, match="hub.*no code is fetched; clone 'owner/name'"):
            call("owner/name")
    with pytest.raises(RuntimeError, match="cannot find callable missing"):
        hub.load(repository, "missing", source="local")
    with pytest.raises(ValueError, match="got 'elsewhere'"):
        hub.load(repository, "net", source="elsewhere")
    with pytest.raises(FileNotFoundError):
        hub.load(str(tmp_path / "nowhere"), "net", source="local")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']")
    with pytest.raises(RuntimeError, match="not installed: no_such_package"):
        hub.load(repository, "net", source="local")


def test_fork_rng():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with torch.random.fork_rng():
        torch.rand(5)
    assert torch.equal(torch.rand(2), expected)
    with torch.random.fork_rng(enabled=False):
        torch.manual_seed(3)
    assert torch.equal(torch.rand(2), expected)
    with pytest.raises(AssertionError, match=r"fork_rng: .* got devices=\[0\]"), torch.random.fork_rng(devices=[0]):
        pass


def test_generators():
    g = torch.Generator().manual_seed(5)
    torch.rand(3, generator=g)
    for other in (g.clone_state(), copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert other is not g and torch.equal(torch.rand(4, generator=other), torch.rand(4, generator=g.clone_state()))
    with pytest.raises(RuntimeError, match="offset"):
        g.get_offset()
    with pytest.raises(NotImplementedError, match="graphsafe"):
        g.graphsafe_get_state()


def test_futures():
    future = futures.Future()
    seen = []
    future.add_done_callback(lambda f: seen.append(f.value()))
    follower = future.then(lambda f: f.wait() + 1)
    assert not future.done()
    with pytest.raises(RuntimeError, match="not"):
        future.value()
    threading.Timer(0.01, future.set_result, (3,)).start()
    assert future.wait() == 3 and follower.wait() == 4 and seen == [3]
    with pytest.raises(RuntimeError, match="once, got 4"):
        future.set_result(4)
    assert futures.wait_all([future, follower]) == [3, 4]
    assert futures.collect_all([]).wait() == []
    broken = futures.Future()
    broken.set_exception(KeyError("lost"))
    for waiting in (broken, futures.collect_all([future, broken])):
        with pytest.raises(KeyError, match="lost"):
            waiting.wait()
    with pytest.raises(RuntimeError, match="callback raised ZeroDivisionError"):
        future.then(lambda f: 1 / 0).wait()


def test_benchmark_timer():
    timer = benchmark.Timer("f(x)", setup="x = torch.ones(3)", globals={"f": torch.neg}, label="negation", num_threads=1)
    once = timer.timeit(20)
    assert once.number_per_run == 20 and len(once.times) == 1 and once.median == once.mean > 0
    calls = []
    several = timer.blocked_autorange(callback=lambda number, seconds: calls.append(number), min_run_time=0.005)
    assert sum(several.raw_times) >= 0.005 and calls == [several.number_per_run] * len(several.times)
    steady = timer.adaptive_autorange(threshold=0.5, min_run_time=0.001, max_run_time=0.05)
    assert steady.title == "negation" and "thread" in repr(steady)
    for arguments, kind in (
        ({"stmt": 3}, ValueError), ({"language": "c++"}, NotImplementedError), ({"language": "basic"}, ValueError),
        ({"global_setup": "int x;"}, ValueError),
    ):  # fmt: skip
        with pytest.raises(kind):
            benchmark.Timer(**arguments)


def made_measurement(times, **names):
    return benchmark.Measurement(10, [10 * t for t in times], benchmark.TaskSpec("x", "pass", **names))


def test_benchmark_measurement():
    one = made_measurement([1e-6, 2e-6, 3e-6, 4e-6, 5e-6])
    assert one.median == pytest.approx(3e-6) and one.iqr == pytest.approx(2e-6) and one.mean == pytest.approx(3e-6)
    assert one.has_warnings and not one.meets_confidence() and one.significant_figures == 1
    assert made_measurement([1.0001, 1.0002, 1.0003, 1.0004]).significant_figures >= 4
    merged = benchmark.Measurement.merge([one, made_measurement([7e-6]), made_measurement([1.0], label="other")])
    assert [len(m.raw_times) for m in merged] == [6, 1]
    assert benchmark.select_unit(2e-5) == ("us", 1e-6) and benchmark.select_unit(5.0) == ("s", 1.0)
    assert benchmark.trim_sigfig(1234.5, 2) == 1200 and benchmark.unit_to_english("ms") == "millisecond"


def test_benchmark_compare():
    table = benchmark.Compare(
        [
            made_measurement([1e-6], label="L", sub_label="small", description="old"),
            made_measurement([5e-7], label="L", sub_label="small", description="new"),
            made_measurement([3e-5], label="L", sub_label="large", description="old"),
            made_measurement([2e-6], label="L", sub_label="small", description="old", num_threads=2),
        ]
    )
    lines = [line.split() for line in str(table).splitlines()]
    assert ["|", "old", "|", "new"] in lines and ["small", "|", "1000.0", "|", "500.0"] in lines
    assert ["large", "|", "30000.0", "|"] in lines and ["small", "|", "2000.0", "|"] in lines
    table.colorize()
    assert "\033[92m\033[1m500.0" in str(table).replace("  ", "")
    table.trim_significant_figures()
    assert "500.0" not in str(table)


def count(call, **options):
    with FlopCounterMode(display=False, **options) as counter:
        call()
    return counter


def test_flop_counter():
    F, ones = torch.nn.functional, torch.ones
    x = ones(1, 2, 3, 4, requires_grad=True)
    rows = [
        (lambda: ones(2, 3) @ ones(3, 4), 2 * 2 * 3 * 4),
        (lambda: torch.addmm(ones(4), ones(2, 3), ones(3, 4)), 2 * 2 * 3 * 4),
        (lambda: ones(5, 2, 3) @ ones(5, 3, 4), 5 * 2 * 2 * 3 * 4),
        (lambda: torch.einsum("ij,jk,kl->il", ones(2, 3), ones(3, 4), ones(4, 5)), 2 * 2 * 3 * 4 + 2 * 2 * 4 * 5),
        (lambda: F.conv2d(ones(1, 3, 8, 8), ones(4, 3, 3, 3)), 2 * 36 * 4 * 27),
        (lambda: F.conv1d(ones(2, 4, 8), ones(4, 2, 3), groups=2), 2 * 2 * 4 * 6 * 6),
        (lambda: F.conv_transpose1d(ones(1, 3, 8), ones(3, 4, 3)), 2 * 24 * 12),
        (lambda: F.scaled_dot_product_attention(x, ones(1, 2, 5, 4), ones(1, 2, 5, 6)), 2 * 2 * 15 * (4 + 6)),
        (lambda: F.scaled_dot_product_attention(x, ones(1, 2, 5, 4), ones(1, 2, 5, 6)).sum().backward(), 2 * 2 * 15 * 10 * 2),
        (lambda: ones(3) + 1, 0),
    ]
    for call, expected in rows:
        assert count(call).get_total_flops() == expected


def test_flop_counter_follows_modules():
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
    counter = count(lambda: net(torch.ones(2, 4)).sum().backward())
    addmm, mm = torch.ops.aten.addmm, torch.ops.aten.mm
    assert counter.get_flop_counts() == {
        "Global": {addmm: 100, mm: 120},
        "Sequential": {addmm: 100, mm: 120},
        "Sequential.0": {addmm: 80, mm: 80},
        "Sequential.2": {addmm: 20, mm: 40},
    }
    assert "Sequential.2" in counter.get_table() and "Sequential.2" not in counter.get_table(1)
    custom = count(lambda: torch.sort(torch.ones(8)), custom_mapping={torch.sort: lambda x, out_val: 24})
    assert custom.get_flop_counts()["Global"] == {"sort": 24}


def test_flop_counter_sees_what_runs():
    class Squares(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.mm(x, x)

        @staticmethod
        def backward(ctx, gradient):
            return torch.mm(gradient, gradient) + torch.mm(gradient, gradient)

    class InDict(torch.nn.Module):
        def forward(self, x):
            return {"y": (torch.mm(x["x"], x["x"]),)}

    x = torch.randn(5, 5, requires_grad=True)
    mm = torch.ops.aten.mm
    assert count(lambda: Squares.apply(x).sum().backward()).get_flop_counts() == {"Global": {mm: 750}}
    counts = count(lambda: InDict()({"x": x * 1})["y"][0].sum().backward()).get_flop_counts()
    assert counts == {"Global": {mm: 750}, "InDict": {mm: 750}}
    again = count(lambda: torch.utils.checkpoint.checkpoint(torch.mm, x, x, use_reentrant=False).sum().backward())
    assert again.get_total_flops() == 1000
    made = torch.mm(x, x).sum()
    assert count(made.backward).get_flop_counts() == {"Global": {mm: 500}}
    image, kernel = torch.randn(1, 4, 5, 5, requires_grad=True), torch.randn(6, 2, 2, 2, requires_grad=True)
    forward, backward = torch.ops.aten.convolution, torch.ops.aten.convolution_backward
    for call in (
        lambda: torch.nn.functional.conv2d(image, kernel, groups=2),
        lambda: torch.nn.functional.conv_transpose2d(image.repeat(1, 2, 1, 1)[:, :6], kernel, groups=2),
    ):
        counts = count(lambda call=call: call().sum().backward()).get_flop_counts()["Global"]
        assert counts[backward] == 2 * counts[forward] > 0
    flops = torch.utils.flop_counter.sdpa_flop_count
    assert flops((2, 8, 6, 4), (2, 2, 6, 4), (2, 2, 6, 4)) == flops((2, 8, 6, 4), (2, 8, 6, 4), (2, 8, 6, 4))
    with pytest.raises(AssertionError, match="^sdpa_flop_count: "):
        flops((2, 8, 6, 4), (2, 3, 6, 4), (2, 3, 6, 4))


def test_names_that_are_not_supported():
    for name, call in (
        ("torch.utils.cpp_extension.SyclExtension", lambda: torch.utils.cpp_extension.SyclExtension("x", [])),
        ("torch.sparse.as_sparse_gradcheck", lambda: torch.sparse.as_sparse_gradcheck(1)),
    ):
        with pytest.raises(NotImplementedError, match=name):
            call()
    assert not isinstance(3, torch.distributed.tensor.DTensor) and torch.fx is torch.fx
    assert torch.onnx.is_in_onnx_export() is False and torch._C._log_api_usage_once("x") is None
    for module in (torch, torch.fx, torch.utils, torch.distributed, torch._C):
        assert not hasattr(module, "no_such_name")


def test_private_modules_are_facula_s_own():
    code = "import facula; from facula import _utils; from facula.utils import _pytree; print(_utils.__name__, _pytree.__name__)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["facula._serialization.rebuild", "facula.utils._pytree"]


def test_flop_counter_sees_recurrent_layers():
    x = torch.ones(5, 2, 8, requires_grad=True)
    for layer, gates in ((torch.nn.LSTM(8, 16), 4), (torch.nn.GRU(8, 16), 3), (torch.nn.RNN(8, 16), 1)):
        width, rows = gates * 16, 5 * 2
        inputs, hidden = 2 * rows * 8 * width, 2 * rows * 16 * width
        assert count(lambda layer=layer: layer(x)).get_total_flops() == inputs + hidden
        # nobody wants the gradient of the initial state: one step's product less
        both = count(lambda layer=layer: layer(x)[0].sum().backward()).get_total_flops()
        assert both == 3 * inputs + 2 * hidden + hidden * 4 // 5
    assert count(lambda: torch.nn.LSTM(8, 16)(x)).get_total_flops() == 30720
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(5, 3, 8), torch.tensor([5, 3, 2]))
    assert count(lambda: torch.nn.LSTM(8, 16)(packed)).get_total_flops() == 30720


def test_formulas_of_programs_for_operators():
    from facula.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula

    with pytest.raises(ValueError, match="operators"):
        register_flop_formula(torch.ops.aten.add.Tensor)
    register_flop_formula(torch.ops.aten.lgamma)(lambda shape, out_shape: 100 * shape.numel())
    try:
        raw = lambda *args, out_val: out_val.numel()  # noqa: E731
        raw._get_raw = True
        mapping = {torch.ops.aten.add: lambda *args, out_shape: 5, torch.ops.aten.mul: raw}
        with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
            x = torch.ones(3) + torch.ones(3)
            (x * x).lgamma()
        assert counter.get_total_flops() == 5 + 3 + 300
    finally:
        del flop_registry[torch.ops.aten.lgamma]
    with pytest.warns(UserWarning, match="not needed"):
        FlopCounterMode(torch.nn.Linear(1, 1))


def test_measurements_of_one_task_merge_whatever_their_blocks():
    from facula.utils.benchmark import Measurement, TaskSpec

    task = TaskSpec("x", "pass", label="l")
    (merged,) = Measurement.merge([Measurement(10, [10.0], task), Measurement(2, [4.0], task)])
    assert merged.number_per_run == 1 and merged.raw_times == [1.0, 2.0]


def test_specs_of_named_tuples_and_defaultdicts_as_text():
    import collections

    from facula.utils import _cxx_pytree, _pytree

    Point = collections.namedtuple("Point", "x y")
    spec = _pytree.tree_structure({"p": Point(1, 2), "d": collections.defaultdict(list, a=[1])})
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        _pytree.treespec_dumps(spec)
    _pytree._register_namedtuple(Point, serialized_type_name="tests.Point")
    assert _pytree.treespec_loads(_pytree.treespec_dumps(spec)) == spec
    assert repr(_pytree.tree_structure((1, [2, 3]))) == "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *])])"
    assert _cxx_pytree.__all__ == _pytree.__all__ and _cxx_pytree.tree_map is _pytree.tree_map
    for wrong, kind in (("text", TypeError), (lambda: 0, TypeError)):
        with pytest.raises(kind, match="^treespec_dumps: expected a TreeSpec"):
            _pytree.treespec_dumps(wrong)
    with pytest.raises(ValueError, match="the protocol must be"):
        _pytree.treespec_dumps(spec, -1)


def test_weak_dictionaries_compare_tensors_by_identity():
    import gc

    from facula.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

    x, y = torch.ones(2), torch.ones(2)
    names = WeakTensorKeyDictionary({x: "x", y: "y"})
    assert names[x] == "x" and names[y] == "y" and len(names) == 2 and torch.ones(2) not in names
    ref = TensorWeakRef(x)
    bare = torch._C._WeakTensorRef(x)
    assert ref() is x and not bare.expired()
    del x
    gc.collect()
    assert bare.expired()
    assert ref() is None and list(names.values()) == ["y"]


def test_callbacks_of_futures_that_raise_disturb_nobody(caplog):
    future, called = torch.futures.Future(), []
    future.add_done_callback(lambda f: 1 / 0)
    future.add_done_callback(lambda f: called.append(f.value()))
    future.set_result(3)
    future.add_done_callback(lambda f: 1 / 0)
    assert called == [3] and caplog.text.count("ZeroDivisionError") == 2
