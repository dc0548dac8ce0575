"""Check what notebooks show of tensors and modules: HTML that is escaped, bounded in size, and reads no more than it shows."""

import html.parser

import pytest

import facula
from facula import nn
from facula._tensor import html as of_tensors
from facula.nn.modules import _html as of_modules

VOID = {"br", "hr", "img", "input", "meta"}


class Reader(html.parser.HTMLParser):
    """Collects cells and texts; tags must nest, and none may be a script."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.texts, self.tags = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        assert tag not in VOID and not any(name.startswith("on") for name, _ in attributes)
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] == "td":
            self.cells.append(data)

    @property
    def text(self):
        return "".join(self.texts)


def shown(thing):
    text = thing._repr_html_()
    found = Reader(text)
    assert "script" not in found.tags
    return found


def test_small_tensors_show_all():
    found = shown(facula.tensor([[1.5, -2.0], [0.25, 3.0]], requires_grad=True))
    assert found.text.startswith("Tensor shape (2, 2) · float32 · cpu · requires_grad")
    assert found.cells == ["1.5000", "-2.0000", "0.2500", "3.0000"]


@pytest.mark.parametrize(
    ("tensor", "cells", "words"),
    [
        (facula.tensor(3), ["3"], "shape () · int64"),
        (facula.tensor([True, False]), ["True", "False"], "shape (2,) · bool"),
        (facula.tensor([1 + 2j]), ["1.+2.j"], "complex64"),
        (facula.tensor([float("nan"), float("inf")]), ["nan", "inf"], "float32"),
        (facula.arange(24).reshape(2, 3, 4)[:, :1], ["0", "1", "2", "3"], "[0, :, :]"),
        (nn.Parameter(facula.zeros(1)), ["0."], "Parameter shape (1,)"),
        (facula.ones(1, requires_grad=True) * 2, ["2."], "grad_fn=MulBackward0"),
        (facula.empty(0, 3), [], "no elements"),
        (facula.empty(3, device="meta"), [], "no data on the device meta"),
        (facula.empty(10**15, device="meta", dtype=facula.int8), [], "shape (1000000000000000,)"),
    ],
)  # fmt: skip
def test_tensors(tensor, cells, words):
    found = shown(tensor)
    assert found.cells == cells and words in found.text


def test_large_tensors_are_elided():
    found = shown(facula.arange(10_000).reshape(100, 100))
    assert len(found.cells) == (2 * of_tensors.EDGE + 1) ** 2
    assert found.cells[: of_tensors.EDGE + 1] == ["0", "1", "2", "3", "…"] and found.cells[-1] == "9999" and "⋮" in found.cells


def test_huge_tensors_are_not_read():
    x = facula.zeros(1).expand(10, of_tensors.READ)
    assert "1,000,000,000 elements, not read" in shown(x).text


def test_what_is_no_table_is_its_repr():
    for x in (facula.eye(2).to_sparse(), facula.quantize_per_tensor(facula.ones(2), 0.5, 0, facula.qint8), facula.nested.nested_tensor([facula.ones(2)])):
        found = shown(x)
        assert repr(x).strip() in found.text and not found.cells


def test_subclasses_show_themselves():
    class Wrapped(facula.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return facula.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        def __repr__(self):
            return "<b>Wrapped</b>"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("nothing is computed to show a tensor")

    found = shown(Wrapped(facula.ones(2)))
    assert found.text == "Wrapped shape (2,) · float32 · cpu<b>Wrapped</b>"


def test_a_batch_has_no_elements_to_show():
    seen = []
    facula.vmap(lambda x: seen.append(x._repr_html_()) or x)(facula.ones(2, 3))
    assert "BatchedTensor shape (3,)" in Reader(seen[0]).text and "<td>" not in seen[0]


def test_showing_changes_nothing():
    x = facula.ones(3, 3, requires_grad=True)
    y = x * 2
    version, node = y._version, y.grad_fn
    with facula.utils.flop_counter.FlopCounterMode(display=False) as counter:
        y._repr_html_()
    assert y._version == version and y.grad_fn is node and facula.is_grad_enabled() and counter.get_total_flops() == 0


# ---- modules


class Odd(nn.Module):
    def extra_repr(self):
        return "<script>alert(1)</script>"


def test_modules_are_trees():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
    found = shown(net)
    assert found.tags.count("details") == 3 and found.texts[0] == "Sequential "
    assert "15 parameters" in found.text and "weight parameter shape (3, 2) · float32 · cpu" in found.text
    assert "running_mean buffer shape (3,)" in found.text and "in_features=2, out_features=3" in found.text


def test_texts_are_escaped():
    net = nn.Sequential()
    net.add_module("<img src=x onerror=alert(1)>", Odd())
    found = shown(net)
    assert "img" not in found.tags and "<script>alert(1)</script>" in found.text and "<img src=x" in found.text


def test_trees_are_bounded():
    wide = nn.Sequential(*(nn.Linear(1, 1) for _ in range(3 * of_modules.NODES)))
    text = wide._repr_html_()
    assert f"… and {2 * of_modules.NODES + 1:,} more" in text and len(text) < 400_000
    deep = nn.Linear(1, 1)
    for _ in range(3 * of_modules.DEEP):
        deep = nn.Sequential(deep)
    assert len(shown(deep).tags) < 10 * of_modules.DEEP
    shared = nn.Linear(1, 1)
    assert shown(nn.Sequential(shared, shared)).text.count("Linear") == 2


def test_lazy_modules_and_reprs_of_programs():
    assert "weight parameter UninitializedParameter" in shown(nn.LazyLinear(3)).text

    class Named(nn.Module):
        def __repr__(self):
            return "I am <named>"

    assert "I am <named>" in shown(nn.Sequential(Named())).text

    class Broken(nn.Module):
        def extra_repr(self):
            raise RuntimeError("not now")

        def __repr__(self):
            return "broken"

    assert shown(Broken()).text == "broken"


def test_a_module_inside_of_itself():
    net = nn.Sequential()
    net._modules["self"] = net
    assert shown(net).text.count("self") == 1
