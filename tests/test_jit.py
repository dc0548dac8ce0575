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
    assert isinstance(scripted, jit.ScriptFunction) and isinstance(jit.trace(double, (1,)), jit.ScriptFunction)
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


@pytest.mark.parametrize("make", [lambda: jit.script(Net()), lambda: jit.script(double), Old], ids=["module", "function", "class"])
@pytest.mark.parametrize("name", ["save", "save_to_buffer", "code", "graph", "inlined_graph"])
def test_what_only_a_compiled_program_has_is_named(make, name):
    scripted = make()
    kind = "ScriptFunction" if isinstance(scripted, jit.ScriptFunction) else "ScriptModule"
    with pytest.raises(NotImplementedError, match=rf"^{kind}\.{name} is not supported by Facula: TorchScript .*, got "):
        found = getattr(scripted, name)
        found("file.pt")


def test_a_class_of_the_old_style_runs():
    assert Old()(1) == 2
