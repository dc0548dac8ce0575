"""Archives of TorchScript: those that PyTorch wrote run and learn; those that hold anything else are refused, and nothing of them runs."""

import copy
import io
import pickle
import random
import zipfile
from pathlib import Path

import pytest

import facula

DATA = Path(__file__).parent / "data"


def read(name):
    extra = {"io": ""}
    module = facula.jit.load(DATA / f"torchscript_{name}.pt", _extra_files=extra)
    return module, facula.load(io.BytesIO(extra["io"]))


def close(got, wanted):
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    assert facula.allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_a_scripted_program():
    net, (x, y, d, pair, looked_up) = read("script")
    assert isinstance(net, facula.jit.ScriptModule) and isinstance(net, facula.nn.Module) and not net.training
    got = net(x)
    close(got[0], y)
    assert sorted(got[1]) == ["a", "b"]
    close(got[1]["a"], d["a"])
    close(got[2].left, pair[0])
    close(got[2].right, pair[1])
    close(net.look_up([1, 2]), looked_up)
    other = net(x, False, extra=facula.ones(4))
    assert not facula.allclose(other[0], y)
    with pytest.raises(ValueError, match="too large: 101"):
        net(facula.zeros(101, 3, 6, 6))
    with pytest.raises(facula.jit.Error, match="no ids"):
        net.look_up([])


def test_a_traced_program():
    chain, (x, y) = read("trace")
    close(chain(x), y)


def test_a_module_before_and_after_its_first_call():
    net, (x, y, *_) = read("script")
    text = net.code
    assert text.startswith("def forward(self") and "return" in text
    alike = copy.copy(net)
    assert type(alike) is type(net) and next(alike.parameters()) is next(net.parameters())
    close(alike(x)[0], y)
    assert net.code == text and alike.code == text, "the program is compiled now"


def saved(net, **extra):
    file = io.BytesIO()
    facula.jit.save(net, file, _extra_files=extra)
    return file.getvalue()


@pytest.mark.parametrize("name", ["script", "trace"])
def test_a_module_is_saved_with_its_program_and_its_present_state(name):
    net, (x, y, *_) = read(name)
    net.eval()
    with facula.no_grad():
        next(net.parameters()).mul_(2)
    data = saved(net, note="kept")  # before the first call
    extra = {"note": ""}
    other = facula.jit.load(io.BytesIO(data), _extra_files=extra)
    assert extra["note"] == b"kept" and zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    first = lambda result: result[0] if isinstance(result, tuple) else result
    assert facula.equal(first(other(x)), first(net(x))) and not facula.allclose(first(other(x)), y)
    assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in net.parameters()]
    assert other.code == net.code and saved(other, note="kept") == data
    assert facula.jit.load(io.BytesIO(saved(net.double()))).state_dict().keys() == net.state_dict().keys()


HELD = """class Part(Module):
  __parameters__ = []
  __buffers__ = ["b", ]
  b : Tensor
  n : int
  words : Dict[str, int]
  def forward(self, x: Tensor) -> Tensor:
    return torch.add(torch.mul(x, self.b), self.n)
class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  first : __torch__.Part
  second : __torch__.Part
  sizes : List[int]
  pair : Tuple[float, Optional[str]]
  def forward(self, x: Tensor) -> Tensor:
    return (self.second).forward((self.first).forward(x))
"""


def test_attributes_that_are_saved():
    net = facula.jit.load(archive(HELD))
    part = type(net)._script_class.library.named("__torch__.Part").new()
    part._fill({"b": facula.arange(6.0)[1::2], "n": 3, "words": {"a": -(2**40)}})
    net._fill({"training": True, "first": part, "second": part, "sizes": [1, 2], "pair": (0.5, None)})
    other = facula.jit.load(io.BytesIO(saved(net)))
    assert other.first is other.second and other.first.b.stride() == (2,) and other.training
    assert (other.sizes, other.pair, other.first.words) == ([1, 2], (0.5, None), {"a": -(2**40)})
    assert facula.equal(other(facula.ones(3)), net(facula.ones(3)))
    never_called = facula.jit.load(io.BytesIO(saved(net)))
    never_called.first.n = object()  # what no archive holds: as of other modules the program of the first call is saved
    with pytest.raises(RuntimeError, match="nothing was called yet"):
        saved(never_called)
    with pytest.raises(TypeError, match="_extra_files must hold text or bytes, got int"):
        saved(net, bad=3)


def test_parameters_learn_and_state_is_the_modules():
    net, (x, *_) = read("script")
    names = dict(net.named_parameters())
    assert "conv.weight" in names and "layers.1.bias" in names and "shift" in dict(net.named_buffers())
    optimizer = facula.optim.SGD(net.parameters(), lr=0.1)
    before = net.fc.weight.detach().clone()
    net.train()
    net(x)[0].sum().backward()
    optimizer.step()
    assert not facula.equal(before, net.fc.weight)
    twin = copy.deepcopy(net)
    fresh, _ = read("script")
    fresh.load_state_dict(net.state_dict())
    close(fresh.eval()(x)[0], net.eval()(x)[0])
    close(twin.eval()(x)[0], net(x)[0])
    assert int(net.bn.num_batches_tracked) == 1
    assert net.original_name == "Net" and "original_name=Conv2d" in repr(net) and len(net.layers) == 2


def archive(source, state=b"}", constants=b")", name="__torch__", cls="Net"):
    """A hand-made archive: a class, and a pickle that makes an instance of it with `state`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as z:
        z.writestr("m/code/__torch__.py", source)
        z.writestr("m/data.pkl", b"\x80\x02c" + f"{name}\n{cls}\n".encode() + b")\x81" + state + b"b.")
        z.writestr("m/constants.pkl", b"\x80\x02" + constants + b".")
        z.writestr("m/version", "3\n")
    file.seek(0)
    return file


def module(body, **kwargs):
    lines = "\n".join("    " + line for line in body.splitlines())
    source = f"class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n  def forward(self,\n    x: Tensor):\n{lines}\n"
    return facula.jit.load(archive(source, **kwargs))


def test_a_program_of_numbers_and_lists():
    net = module(
        "a = [1, 2, 3]\n_0 = torch.append(a, 4)\nd = {'k': torch.len(a)}\ntotal = 0\nfor _1 in range(torch.len(a)):\n"
        "  total = torch.add(total, a[_1])\ntext = torch.format('{} of {}', total, d['k'])\n"
        "b = torch.slice(a, 1, None, 2)\nreturn (text, b, torch.__contains__(a, 3), torch.div(7, 2), torch.floordiv(7, 2), -a[0])"
    )
    assert net(facula.ones(1)) == ("10 of 4", [2, 4], True, 3.5, 3, -1)


REFUSED = {
    "import os\nreturn x": "Import",
    "return __import__('os')": "__import__",
    "return open('/etc/hostname')": "nothing is called open",
    "return eval('1')": "nothing is called eval",
    "return x.__class__": "no attribute __class__",
    "return x.__class__.__subclasses__()": "no attribute __class__",
    "return getattr(x, '__reduce__')": "no attribute __reduce__",
    "return (x).tofile('/tmp/x')": "tofile",
    "return torch.load('/tmp/x')": "load",
    "return torch.save(x, '/tmp/x')": "save",
    "return torch.from_file('/tmp/x')": "from_file",
    "return torch.hub.load('a', 'b')": "hub",
    "return torch.utils.cpp_extension.load('a')": "cpp_extension",
    "return ops.prim.system('id')": "system",
    "return ops.evil.run(x)": "evil",
    "return [y for y in x]": "ListComp",
    "return lambda: 1": "Lambda",
    "return f'{x}'": "JoinedStr",
    "return (self)._modules.clear()": "no method clear|no attribute",
    "return self.__dict__": "no attribute __dict__",
    "self.__class__ = x\nreturn x": "no attribute __class__ that can be set",
    "self._modules = x\nreturn x": "no attribute _modules that can be set",
    "self.forward = x\nreturn x": "no attribute forward that can be set",
    "return CONSTANTS.c7": "no constant",
    "return __torch__.other.thing(x)": "no __torch__",
    "try:\n  pass\nexcept:\n  pass": "Try",
    "with x:\n  pass": "With",
    "return 'a'.format": "no attribute format",
    "return range.__self__": "no attribute",
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda b: b.split("\n")[0][:40])
def test_what_an_archive_may_not_do(body):
    net = module(body)
    with pytest.raises((RuntimeError, NotImplementedError, TypeError, AttributeError), match=REFUSED[body]):
        net(facula.ones(2))
    assert type(net).__mro__[1].__name__ == "LoadedModule"


@pytest.mark.parametrize("name", ["os\nsystem", "builtins\neval", "torch.jit._pickle\nrun", "subprocess\nPopen"])
def test_what_its_pickle_may_not_name(name):
    state = b"}X\x01\x00\x00\x00ac" + name.encode() + b"\ns"
    with pytest.raises(pickle.UnpicklingError, match=r"jit\.load: data\.pkl names"):
        facula.jit.load(archive("class Net(Module):\n  pass\n", state=state))


@pytest.mark.parametrize("name", ["_modules", "_forward_hooks", "__class__", "__dict__"])
def test_what_its_state_may_not_set(name):
    state = b"}X" + len(name).to_bytes(4, "little") + name.encode() + b"}s"
    with pytest.raises(pickle.UnpicklingError, match=f"has an attribute {name}"):
        facula.jit.load(archive("class Net(Module):\n  pass\n", state=state))


def test_sources_that_are_none():
    deep = "(" * 5000 + ")" * 5000
    for source, words in ((f"def f():\n  return {deep}", "nests deeper"), ("class Net(Module:", "is no source"), ("\0", "is no source|no __torch__")):
        with pytest.raises(RuntimeError, match=words):
            facula.jit.load(archive(source))
    with pytest.raises(RuntimeError, match="no __torch__.Net"):
        facula.jit.load(archive("x = 1\n"))
    with pytest.raises(RuntimeError, match="more than 100 calls|recursion depth"):
        module("return (self).forward(x, )")(facula.ones(1))
    with pytest.raises(ValueError, match="does not exist"):
        facula.jit.load("/nonexistent/file.pt")
    with pytest.raises(RuntimeError, match="no zip file"):
        facula.jit.load(io.BytesIO(b"something else"))


def test_mutated_archives():
    """Bytes changed at random: an exception, or a module that may run; never anything else."""
    whole = (DATA / "torchscript_trace.pt").read_bytes()
    draw = random.Random(0)
    x = facula.zeros(2, 3, 6, 6)
    loaded = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 2, 8))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            net = facula.jit.load(io.BytesIO(bytes(data)))
            loaded += 1
            net(x)
        except (RuntimeError, pickle.UnpicklingError, ValueError, TypeError, NotImplementedError, AttributeError, KeyError, IndexError):
            pass
    assert loaded < 300  # checksums see most of it
    for _ in range(200):  # and what checksums do not see: the source itself
        source = bytearray(b"class Net(Module):\n  def forward(self,\n    x: Tensor) -> Tensor:\n    return torch.add(x, torch.neg(x), alpha=2)\n")
        for _ in range(draw.choice((1, 2, 4))):
            source[draw.randrange(len(source))] = draw.choice(b"()[]{}.,:= _abcxyz0129'\n-+*")
        try:
            facula.jit.load(archive(bytes(source)))(facula.ones(2))
        except (RuntimeError, ValueError, TypeError, NotImplementedError, AttributeError, KeyError, IndexError, ArithmeticError):
            pass


def test_a_checkpoint_that_is_an_archive():
    with pytest.raises(RuntimeError, match=r"TorchScript archive.*jit\.load"):
        facula.load(DATA / "torchscript_trace.pt")
    with pytest.warns(UserWarning, match=r"TorchScript archive.*jit\.load"):
        chain = facula.load(DATA / "torchscript_trace.pt", weights_only=False)
    assert isinstance(chain, facula.jit.ScriptModule)
