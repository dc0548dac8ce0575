"""TorchScript's names: what runs as Python says that it is scripted, what would need a compiler says so."""

import copy
import inspect
import io

import pytest

import facula
from facula import jit, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x):
        return self.norm(self.layer(x)).relu()


def double(x, by: int = 2):
    """Twice."""
    return x * by


@pytest.mark.parametrize("make", [jit.script, lambda net: jit.trace(net, facula.ones(2, 3)), lambda net: jit.trace_module(net, {})])
def test_scripted_modules_run_and_say_what_they_are(make):
    net = Net()
    scripted = make(net)
    assert isinstance(scripted, jit.ScriptModule) and isinstance(scripted, Net) and jit.script(scripted) is scripted
    assert not isinstance(net, jit.ScriptModule) and scripted.original_name == "Net"
    x = facula.randn(4, 3)
    assert facula.equal(scripted(x), net(x)) and repr(scripted) == repr(net)
    assert list(scripted.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(scripted.parameters(), net.parameters()))
    scripted(x).sum().backward()
    assert net.layer.weight.grad is not None


def test_the_twin_has_attributes_of_its_own():
    net = Net()
    scripted = jit.script(net)
    scripted.extra = nn.Linear(1, 1)
    scripted.register_forward_hook(lambda m, args, out: out + 1)
    assert not hasattr(net, "extra") and net(facula.ones(2, 3)).max() <= 1.5
    copied = copy.deepcopy(scripted)
    assert isinstance(copied, jit.ScriptModule) and copied.layer.weight is not scripted.layer.weight
    assert type(jit.script(Net())) is type(scripted)
    stream = io.BytesIO()
    facula.save(scripted.state_dict(), stream)
    stream.seek(0)
    assert copied.load_state_dict(facula.load(stream))


def test_scripted_functions_run_and_say_what_they_are():
    scripted = jit.script(double)
    assert isinstance(scripted, jit.ScriptFunction) and isinstance(jit.trace(double, (facula.ones(1),)), jit.ScriptFunction)
    assert scripted(3) == 6 and scripted(3, by=3) == 9 and jit.script(scripted) is scripted
    assert (scripted.__name__, scripted.__doc__) == ("double", "Twice.")
    assert list(inspect.signature(scripted).parameters) == ["x", "by"]
    assert copy.deepcopy(scripted)(2) == 4

    @jit.script
    class Point:
        pass

    assert isinstance(Point, type)


class Old(jit.ScriptModule):
    @jit.script_method
    def forward(self, x):
        return x + 1


SCRIPTED = pytest.mark.parametrize(
    "make", [lambda: jit.script(Net().eval()), lambda: jit.script(double), Old], ids=["module", "function", "class"]
)


@SCRIPTED
@pytest.mark.parametrize("name", ["code_with_constants", "graph_for", "_save_for_lite_interpreter"])
def test_what_only_a_compiled_program_has_is_named(make, name):
    scripted = make()
    kind = "ScriptFunction" if isinstance(scripted, jit.ScriptFunction) else "ScriptModule"
    with pytest.raises(NotImplementedError, match=rf"^{kind}\.{name} is not supported by Facula: TorchScript .*, got "):
        found = getattr(scripted, name)
        found("file.pt")


@SCRIPTED
def test_what_was_called_once_has_a_program(make):
    scripted = make()
    with pytest.raises(RuntimeError, match="call it once"):
        scripted.save_to_buffer()
    x = facula.randn(4, 3)
    expected = scripted(x)
    loaded = jit.load(io.BytesIO(scripted.save_to_buffer()))
    assert isinstance(loaded, jit.ScriptModule) and facula.allclose(loaded(x), expected, atol=1e-6)
    assert facula.allclose(loaded(x[:3]), expected[:3], atol=1e-6)  # the first dimension may be another one
    assert "torch.ops.aten." in scripted.code and str(scripted.graph)


# ---- traces


def branches(x):
    return x * 2 if x.sum() > 0 else x - 1


@pytest.mark.parametrize("save", [lambda t, f: t.save(f), lambda t, f: jit.save(t, f)])
def test_traces_are_saved_and_loaded(tmp_path, save):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    traced = jit.trace(net, facula.randn(5, 3))
    save(traced, tmp_path / "net.pt")
    loaded = jit.load(str(tmp_path / "net.pt"))
    x = facula.randn(2, 3)
    assert facula.allclose(loaded(x), net(x)) and list(loaded.state_dict()) == list(net.state_dict())
    loaded(x).sum().backward()
    net(x).sum().backward()
    for a, b in zip(loaded.parameters(), net.parameters(), strict=True):
        assert facula.allclose(a.grad, b.grad)
    assert facula.allclose(facula.export.load(tmp_path / "net.pt").module()(x), net(x))
    loaded.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})
    assert not facula.allclose(loaded(x), net(x))


def test_a_trace_never_takes_the_other_branch_silently(tmp_path):
    traced = jit.trace(branches, facula.ones(3))
    assert facula.equal(traced(facula.full((3,), 2.0)), facula.full((3,), 4.0))
    with pytest.raises(RuntimeError, match=r"bool\(\) at .*test_jit\.py:\d+ was True when the program was recorded"):
        traced(facula.full((3,), -1.0))
    assert facula.equal(traced(facula.full((4,), -1.0)), facula.full((4,), -2.0))  # recorded anew, with the other branch
    traced.save(tmp_path / "f.pt")
    loaded = jit.load(tmp_path / "f.pt")
    assert facula.equal(loaded(facula.ones(3)), facula.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="was True when the program was recorded"):
        loaded(facula.full((3,), -1.0))


@pytest.mark.parametrize("use", [lambda x: x * x[0].item(), lambda x: x * x.tolist()[0], lambda x: x * x.numpy()[0], lambda x: x * int(x[0])])
def test_values_that_python_asks_for_are_checked(use):
    x = facula.tensor([3.0, 1.0])
    traced = jit.trace(use, x)
    assert facula.equal(traced(x), use(x))
    with pytest.raises(RuntimeError, match="when the program was recorded"):
        traced(x + 1)


def test_traces_keep_the_mode_that_they_were_recorded_in_and_follow_the_module():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval()
    traced = jit.trace(net, facula.ones(2, 3))
    net.train()
    assert facula.equal(traced(facula.ones(4, 3)), net[0](facula.ones(4, 3)))
    traced.double()
    assert traced(facula.ones(2, 3, dtype=facula.float64)).dtype == facula.float64
    copied = copy.deepcopy(traced)
    with facula.no_grad():
        copied[0].weight.zero_()
    x = facula.ones(2, 3, dtype=facula.float64)
    assert not facula.equal(copied(x), traced(x)) and facula.equal(copied(x), copied[0].bias.expand(2, 3))


def test_methods_are_traced_by_name():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(facula.ones(3))

        def forward(self, x):
            return x * self.weight

        def more(self, x, y):
            return x + self.weight * y

    traced = jit.trace_module(Two(), {"forward": facula.ones(3), "more": (facula.ones(3), facula.ones(3))})
    assert facula.equal(traced.more(facula.ones(3), facula.full((3,), 2.0)), facula.full((3,), 3.0))
    assert set(traced._traces) == {"forward", "more"} and all(len(t.programs) == 1 for t in traced._traces.values())


def test_is_tracing_while_a_trace_is_recorded():
    seen = []

    def f(x):
        seen.append((jit.is_tracing(), facula.compiler.is_exporting()))
        return x + 1

    jit.trace(f, facula.ones(2), check_trace=False)
    f(facula.ones(2))
    assert seen == [(True, False), (False, False)]


def test_what_cannot_be_recorded_runs_after_a_warning():
    def f(x):
        return x * 2 if facula.equal(x, x) else x

    with pytest.warns(jit.TracerWarning, match="cannot be recorded"):
        traced = jit.trace(f, facula.ones(2))
    assert facula.equal(traced(facula.ones(2)), facula.full((2,), 2.0))
    with pytest.raises(RuntimeError, match="cannot be recorded"):
        traced.save_to_buffer()


def test_a_trace_that_differs_from_its_function_is_found():
    count = iter(range(10))
    with pytest.raises(jit.TracingCheckError, match="another result"):
        jit.trace(lambda x: x + next(count), facula.ones(2))


def test_a_class_of_the_old_style_runs():
    assert Old()(1) == 2


def test_extra_files():
    file = io.BytesIO()
    facula.jit.save(facula.jit.trace(nn.ReLU(), facula.ones(2)), file, _extra_files={"a.txt": "text", "b.bin": b"\x00"})
    extra = {"a.txt": "", "b.bin": "", "none": "before"}
    facula.jit.load(io.BytesIO(file.getvalue()), _extra_files=extra)
    assert extra == {"a.txt": b"text", "b.bin": b"\x00", "none": b""}
    program, file = facula.export.export(nn.ReLU(), (facula.ones(2),)), io.BytesIO()
    facula.export.save(program, file, extra_files={"a.txt": "text"})
    extra = {"a.txt": "", "none": "before"}
    facula.export.load(io.BytesIO(file.getvalue()), extra_files=extra)
    assert extra == {"a.txt": "text", "none": "before"}
    with pytest.raises(AssertionError, match="^save: extra_files must hold text, got bytes"):
        facula.export.save(program, io.BytesIO(), extra_files={"a": b""})
