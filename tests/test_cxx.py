"""Modules of torch:: in C++ against those of the same names in Python, and programs that Python exported, in C++."""

import io
import struct
import zipfile
from pathlib import Path

import pytest
from cpp_programs import needs_tools, project, run

import facula
import facula.nn.functional as F
from facula import nn

PROJECT = """
project(outside LANGUAGES CXX)
find_package(Torch REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program "${TORCH_LIBRARIES}")
set_property(TARGET program PROPERTY CXX_STANDARD 20)
"""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        result = self.head(facula.relu(self.body(x)))
        return result, [result.sum(), result * 2]


def numbers(*sizes):
    return facula.linspace(-1, 1.5, facula.Size(sizes).numel()).view(sizes).sin()


def filled(module):
    with facula.no_grad():
        for p in module.parameters():
            p.copy_(facula.linspace(-0.5, 0.7, p.numel()).view(p.shape))
    return module.eval()


def zipped(**records):
    """The bytes of an archive, and where its directory begins."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"archive/{name}", content)
    return whole.getvalue(), whole.getvalue().index(b"PK\1\2")


def overlapping():
    """A checkpoint with a record that lies inside of another one: each of many would be copied."""
    inner, end = zipped(inner=bytes(100))
    outer, begin = zipped(**{"data.pkl": b"\x80\x02}.", "outer": inner[:end]})
    entry, tail = bytearray(inner[end:-22]), bytearray(outer[-22:])
    entry[42:46] = struct.pack("<I", outer.index(inner[:end]))
    tail[8:12], tail[12:16] = struct.pack("<HH", 3, 3), struct.pack("<I", len(outer) - 22 - begin + len(entry))
    return outer[:-22] + entry + tail


@pytest.fixture(scope="module")
def printed(package, tmp_path_factory):
    """What tests/cpp/programs/modules.cpp prints: lines by their names."""
    place = tmp_path_factory.mktemp("cxx")
    facula.manual_seed(7)
    net = Net().eval()
    program = facula.export.export(net, (numbers(2, 3),))
    facula.export.save(program, place / "net.pt2")
    (place / "net.pt2.torchscript").write_bytes((Path(__file__).parent / "data" / "torchscript_script.pt").read_bytes())
    (place / "net.pt2.damaged").write_bytes((place / "net.pt2").read_bytes()[:-200])
    (place / "net.pt2.overlapping").write_bytes(overlapping())
    source = (Path(__file__).parent / "cpp" / "programs" / "modules.cpp").read_text()
    build = project(place / "outside", package, PROJECT, {"program.cpp": source}, "share/cmake")
    lines = {}
    for line in run(build / "program", place / "net.pt2", place / "saved.pt2").splitlines():
        name, _, rest = line.partition(": ")
        lines.setdefault(name, []).append(rest)
    return lines, net, place


@pytest.fixture
def same(printed):
    lines = printed[0]

    def compare(name, expected):
        found = facula.tensor([float(number) for number in lines[name][0].split()])
        facula.testing.assert_close(found, expected.detach().reshape(-1).float(), rtol=1e-5, atol=1e-6, msg=name)

    return compare


@pytest.mark.slow
@needs_tools
def test_attention(same):
    x, y = numbers(3, 2, 8), numbers(4, 2, 8)
    facula.manual_seed(3)
    output, weights = nn.MultiheadAttention(8, 2)(x, x, x)
    same("attention_drawn", output)
    same("attention_weights", weights)
    several = filled(nn.MultiheadAttention(8, 2, kdim=6, vdim=5, add_bias_kv=True))
    hidden = facula.tensor([[False, False, True, False], [True, False, False, False]])
    same("attention_sizes", several(x, numbers(4, 2, 6), numbers(4, 2, 5), hidden)[0])
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    same("encoder", filled(nn.TransformerEncoder(layer, 2, nn.LayerNorm(8)))(x, mask))
    same("decoder", filled(nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, activation="gelu"), 2))(x, y))
    same("transformer", filled(nn.Transformer(8, 2, 1, 1, 16))(y, x))


@needs_tools
def test_tables(same):
    facula.manual_seed(4)
    drawn = nn.EmbeddingBag(10, 3, mode="sum", padding_idx=2)
    places, starts = facula.tensor([1, 2, 4, 5, 4, 3]), facula.tensor([0, 3])
    same("bag", drawn(places, starts))
    same("bag_factors", drawn(places, starts, numbers(6)))
    table = numbers(6, 3)
    same("bag_max", nn.EmbeddingBag.from_pretrained(table, mode="max")(facula.tensor([[1, 2], [5, 0]])))
    same("rows", nn.Embedding.from_pretrained(table.clone(), max_norm=0.5)(facula.tensor([1, 5, 1])))
    adaptive = filled(nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8], div_value=2, head_bias=True))
    output, loss = adaptive(numbers(5, 8), facula.tensor([0, 3, 5, 9, 11]))
    same("adaptive", output)
    same("adaptive_loss", loss)
    same("adaptive_all", adaptive.log_prob(numbers(5, 8)))
    same("adaptive_best", adaptive.predict(numbers(5, 8)))


@needs_tools
def test_losses(same):
    x = numbers(3, 4)
    same("multi_margin", nn.MultiMarginLoss(p=2, weight=numbers(4))(x, facula.tensor([1, 0, 3])))
    labels = facula.tensor([[1, 3, -1, 0], [0, -1, 1, 2], [3, 2, 1, 0]])
    same("multilabel_margin", nn.MultiLabelMarginLoss()(x, labels))
    same("triplet", nn.TripletMarginWithDistanceLoss(swap=True, reduction="sum")(x, x * 2, x.cos()))
    own = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: (a - b).abs().sum(-1), swap=True, reduction="sum"
    )
    same("triplet_own", own(x, x * 2, x.cos()))


@needs_tools
def test_windows(same):
    x = numbers(2, 3, 8, 8)
    facula.manual_seed(5)
    same("fractional2", nn.FractionalMaxPool2d(2, output_size=5)(x))
    same("fractional3", nn.FractionalMaxPool3d(2, output_ratio=0.5)(x))
    same("crossmap", nn.CrossMapLRN2d(3, alpha=0.1)(x))
    same("affine", F.affine_grid(numbers(2, 2, 3), (2, 1, 3, 4), align_corners=True))
    same("average", F.avg_pool2d(x, 3, divisor_override=5))
    same("pdist", facula.pdist(x[0, 0]))
    rows, inverse, counts = facula.unique(
        facula.tensor([[1, 2], [0, 3], [1, 2]]), return_inverse=True, return_counts=True, dim=0
    )
    same("unique_rows", rows)
    same("unique_inverse", inverse)
    same("unique_counts", counts)
    same("aliases", facula.cat([x[0, 0, 0], facula.linspace(-1, 1, 3)]).abs().clamp(0.1, 0.8))
    same("reflected", F.pad(x[0], (1, 2, 0, 1), mode="reflect"))
    same("softmax", x[0, 0].softmax(1))


@needs_tools
def test_projected_recurrent(same):
    lstm = filled(nn.LSTM(3, 5, 2, bidirectional=True, proj_size=2))
    output, (h, c) = lstm(numbers(4, 2, 3))
    same("lstm", output)
    same("lstm_h", h)
    same("lstm_c", c)
    packed = nn.utils.rnn.pack_padded_sequence(numbers(4, 2, 3), facula.tensor([4, 2]))
    some, (_, last) = lstm(packed)
    same("lstm_packed", some.data)
    same("lstm_packed_c", last)


@needs_tools
def test_drawn(same):
    facula.manual_seed(6)
    same("orthogonal", nn.init.orthogonal_(facula.empty(3, 5), 2.0))
    same("sparse", nn.init.sparse_(facula.empty(4, 3), 0.5))
    same("dirac", nn.init.dirac_(facula.empty(3, 2, 3)))
    same("feature_alpha", F.feature_alpha_dropout(numbers(2, 3, 4), training=True))


@needs_tools
def test_chunks(printed):
    lines = printed[0]
    assert lines["chunks"] == [" ".join(str(i) for i in range(20))] * 2
    assert lines["chunk_sizes"] == ["3 3 3 3 3 3 2"] * 2
    assert lines["chunk_failures"] == ["3 1"]


@needs_tools
def test_exported_program(printed, same):
    lines, net, place = printed
    x = numbers(2, 3)
    same("program", net(x)[0])
    assert lines["child"] == ["body", "head"]
    net(x)[1][0].backward()
    with facula.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
    same("program_stepped", net(x)[0])
    same("program_saved_over", net(x)[0])
    same("program_read_again", net(x)[0])
    same("program_double", net(x)[0])
    assert lines["program_training"] == ["1"]
    facula.testing.assert_close(facula.export.load(place / "saved.pt2").module()(x)[0], net(x)[0])


@needs_tools
def test_exported_program_refuses(printed):
    lines, _, place = printed
    texts = iter(lines["refused"])
    assert next(texts) == "program: input 'x': expected float32[2, 3], got float32[2, 4]"
    assert next(texts) == "program: input 'x': expected float32[2, 3], got float64[2, 3]"
    assert next(texts) == "forward: argument 'x' is missing: it takes 1, got 0"
    assert next(texts) == "forward: it takes 1 arguments, got 2"
    assert next(texts) == "forward: argument 'x': a tensor or a number is expected, got TensorList"
    assert "has no attribute 'nothing'" in next(texts)
    assert next(texts).startswith("save: the archive was recorded in evaluation")
    assert next(texts).startswith(f"jit.load: {place / 'net.pt2.torchscript'} is an archive of TorchScript")
    assert next(texts).startswith("load: no archive, or a damaged one")
    assert next(texts).endswith("two of its records overlap")
