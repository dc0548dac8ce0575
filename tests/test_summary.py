"""utils.summary: layers, shapes, parameters, multiply-adds; and that the model is afterwards what it was."""

import xml.etree.ElementTree as ElementTree

import pytest

import facula
from facula import nn
from facula.utils import summary


class Net(nn.Module):
    """A module that is called twice, one under two names, one that is not called, and a dict as result."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.shared = nn.Linear(8, 8)
        self.again = self.shared
        self.never = nn.Linear(3, 3)
        self.drop = nn.Dropout()
        self.head = nn.Linear(8, 10)

    def forward(self, x, scale=None):
        x = self.stem(x).mean((2, 3))
        x = self.drop(self.again(self.shared(x)))
        if scale is not None:
            x = x * scale
        return {"logits": self.head(x), "both": (x, None)}


def by_name(found):
    return {layer.name: layer for layer in found.layers}


def test_fields():
    found = summary(Net(), facula.randn(2, 1, 28, 28))
    layers = by_name(found)
    assert list(layers) == ["", "stem", "stem.0", "stem.1", "stem.2", "shared", "again", "never", "drop", "head"]
    assert (found.parameters, found.trainable, found.buffers) == (270, 270, 17)
    convolution, linear, head = 2 * 8 * 26 * 26 * 9, 2 * 8 * 8, 2 * 8 * 10
    assert found.multiply_adds == convolution + 2 * linear + head and not found.uncounted
    assert (layers["stem.0"].multiply_adds, layers["stem"].multiply_adds, layers[""].multiply_adds) == (convolution, convolution, found.multiply_adds)
    assert (layers["shared"].calls, layers["shared"].multiply_adds, layers["shared"].output) == (2, 2 * linear, "[2, 8]")
    assert layers["again"].same_as == "shared" and layers["shared"].same_as is None
    assert (layers["never"].calls, layers["never"].ran, layers["never"].parameters) == (0, False, 12)
    assert layers[""].output == "{logits: [2, 10], both: ([2, 8], None)}" and layers["stem.0"].depth == 2


def test_text():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    net[0].weight.requires_grad_(False)
    found = summary(net, facula.ones(3, 4))
    assert repr(found) == str(found)
    assert str(found).splitlines() == [
        "layer         output  parameters  multiply-adds",
        "------------  ------  ----------  -------------",
        "Sequential    [3, 2]          58            144",
        "  0 (Linear)  [3, 8]          40             96",
        "  1 (ReLU)    [3, 8]           -              -",
        "  2 (Linear)  [3, 2]          18             48",
        "------------  ------  ----------  -------------",
        "parameters: 58 (26 trainable), in buffers: 0",
        "multiply-adds: 144",
    ]


def test_the_model_is_afterwards_what_it_was():
    net = Net()
    net.stem[1].eval()
    state = {name: (value, value._version, value.clone()) for name, value in net.state_dict(keep_vars=True).items()}
    drawn, modes = facula.get_rng_state(), [module.training for module in net.modules()]
    summary(net.train(), facula.randn(2, 1, 28, 28))
    net.stem[1].eval()
    assert facula.equal(facula.get_rng_state(), drawn) is False  # the input was drawn
    drawn = facula.get_rng_state()
    summary(net, facula.ones(2, 1, 28, 28))
    assert facula.equal(facula.get_rng_state(), drawn) and [module.training for module in net.modules()] == modes
    for name, value in net.state_dict(keep_vars=True).items():
        kept, version, copy = state[name]
        assert value is kept and value._version == version and facula.equal(value, copy), name
    assert all(p.grad is None for p in net.parameters()) and facula.is_grad_enabled()


def test_buffers_that_a_model_exchanges_are_forgotten():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", facula.zeros(1))
            self.register_buffer("none", None)

        def forward(self, x):
            self.count = self.count + 1
            self.register_buffer("made", x)
            return x * self.count

    net = Counts()
    before = net.count
    summary(net, facula.ones(2))
    assert net.count is before and before.item() == 0 and set(net._buffers) == {"count", "none"}


def test_what_a_model_raises_goes_through_and_leaves_nothing():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(4, 2))
    with pytest.raises(RuntimeError):
        summary(net, facula.ones(2, 3))
    assert net[0].num_batches_tracked.item() == 0
    calls = []
    net.register_forward_hook(lambda *_: calls.append(1))
    assert not facula.nn.modules.module._global_forward_hooks


@pytest.mark.parametrize("inputs", [(facula.ones(1, 1, 5, 5), 2.0), [facula.ones(1, 1, 5, 5)], {"x": facula.ones(1, 1, 5, 5), "scale": 3}])
def test_inputs(inputs):
    assert by_name(summary(Net().eval(), inputs))["stem"].output == "[1, 8, 3, 3]"


def test_a_model_of_one_dict():
    class Takes(nn.Module):
        def forward(self, batch):
            return [batch["x"] @ batch["x"]] * 6

    found = summary(Takes(), ({"x": facula.ones(3, 3)},))
    assert found.multiply_adds == 27 and found.layers[0].output == "([3, 3], [3, 3], [3, 3], [3, 3], ...)"


def test_on_the_device_meta_and_lazy():
    with facula.device("meta"):
        net, x = nn.Linear(1000, 1000), facula.ones(8, 1000)
    assert summary(net, x).multiply_adds == 8_000_000
    lazy = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    found = summary(lazy, facula.ones(2, 5))
    assert found.parameters == 24 and lazy[0].in_features == 5 and lazy[1].running_mean.shape == (3,)


def test_subclasses_go_through():
    class Wrapped(facula.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return facula.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            bare = [a.inner if isinstance(a, Wrapped) else a for a in args]
            return cls(func(*bare, **(kwargs or {})))

    found = summary(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), Wrapped(facula.ones(2, 3)))
    assert found.layers[0].output == "[2, 4]" and found.multiply_adds == 24


def test_what_cannot_be_counted_is_named():
    class Sum(nn.Module):
        def forward(self, x):
            return facula.einsum("...ij,...jk->...ik", x, x)

    found = summary(Sum(), facula.ones(2, 3, 3))
    assert found.uncounted and "not counted: " in str(found)


def test_modules_made_in_the_call():
    class Makes(nn.Module):
        def forward(self, x):
            return nn.ReLU()(x)

    found = summary(Makes(), facula.ones(2))
    assert [call.kind for call in found.calls[0].inside] == ["ReLU"] and len(found.layers) == 1


def test_recurrent_layers_and_attention():
    assert summary(nn.LSTM(3, 4), facula.ones(5, 2, 3)).multiply_adds == 5 * 2 * 16 * (3 + 4)
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    linear = 2 * 5 * 8 * (24 + 8 + 16 + 16)
    assert summary(attention, facula.ones(2, 5, 8)).multiply_adds == linear + 2 * 2 * (2 * 5 * 5 * 4)


def test_no_module_is_refused():
    with pytest.raises(TypeError, match="^summary: model must be a Module, got int$"):
        summary(3, facula.ones(1))


# ---- how it looks


def test_html():
    net = nn.Sequential()
    net.add_module("<b>", nn.Identity())
    text = summary(net, facula.ones(2))._repr_html_()
    assert "&lt;b&gt; (Identity)" in text and "<b>" not in text and text.count("<tr>") == 3
    ElementTree.fromstring(text)


def boxes(text):
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    kinds = [element.get("class") for element in root.iter(f"{space}rect")]
    return root, kinds.count("box"), kinds.count("frame"), [element.text for element in root.iter(f"{space}text")]


def test_drawing(tmp_path):
    found = summary(Net(), facula.randn(2, 1, 28, 28))
    found.draw(tmp_path / "net.svg")
    root, drawn, frames, texts = boxes((tmp_path / "net.svg").read_text())
    assert (drawn, frames) == (7, 2) and len(root.findall(".//{http://www.w3.org/2000/svg}path[@class='line']")) == 6
    assert "0 (Conv2d)" in texts and "[2, 8, 26, 26] · 80 parameters · 97.3k multiply-adds" in texts
    assert texts[-1] == "270 parameters, 97,760 multiply-adds"


def test_drawings_of_large_models_are_bounded():
    many = nn.Sequential(*(nn.Sequential(nn.Identity(), nn.Identity()) for _ in range(100)))
    _, drawn, frames, _ = boxes(summary(many, facula.ones(1)).svg())
    assert (drawn, frames) == (100, 1)
    flat = nn.Sequential(*(nn.Identity() for _ in range(500)))
    assert boxes(summary(flat, facula.ones(1)).svg())[1] == 1


def test_drawings_hold_any_name():
    net = nn.Sequential()
    net.add_module("a&<\x01é\ud800", nn.Identity())
    text = summary(net, facula.ones(2)).svg()
    assert "a&amp;&lt;?é? (Identity)" in text
    ElementTree.fromstring(text)


def test_counting_begins_without_gradients():
    for mode in (facula.no_grad, facula.inference_mode):
        with mode(), facula.utils.flop_counter.FlopCounterMode(display=False) as counter:
            facula.ones(2, 3) @ facula.ones(3, 4)
        assert counter.get_total_flops() == 48
