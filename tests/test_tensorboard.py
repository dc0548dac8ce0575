"""Event files of SummaryWriter, read back with TensorBoard's own reader."""

import importlib
import io
import sys
import wave
import zlib

import numpy as np
import pytest

import facula as torch
from facula import nn


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "facula.utils.tensorboard", raising=False)
    with pytest.raises(ImportError, match=r"^utils.tensorboard: needs the package tensorboard \(pip install tensorboard\)"):
        importlib.import_module("facula.utils.tensorboard")


@pytest.fixture
def read(tmp_path):
    """Opens a writer on a new directory; calling it gives what TensorBoard finds there."""
    pytest.importorskip("tensorboard")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from facula.utils.tensorboard import SummaryWriter

    class Reader:
        writer = SummaryWriter(tmp_path)
        folder = tmp_path

        def __call__(self, below=""):
            self.writer.close()
            found = accumulator.EventAccumulator(str(tmp_path / below), size_guidance=dict.fromkeys(KINDS, 0))
            return found.Reload()

    reader = Reader()
    yield reader
    reader.writer.close()


KINDS = ("scalars", "histograms", "images", "audio", "tensors", "graph")


def value_of(found, tag):
    """The only summary with this tag that carries a plugin's tensor."""
    (event,) = found.Tensors(tag)
    shape = [dim.size for dim in event.tensor_proto.tensor_shape.dim]
    from tensorboard.util.tensor_util import make_ndarray

    return make_ndarray(event.tensor_proto).reshape(shape)


def test_scalars(read):
    for step in range(3):
        read.writer.add_scalar("loss", torch.tensor(1.5) / (step + 1), step, walltime=100 + step)
    read.writer.add_scalar("precise", 1 / 3, 7, new_style=True, double_precision=True)
    read.writer.add_scalars("both/two", {"up": 1, "down": np.float32(-1)}, 4)
    found = read()
    assert [(e.step, e.wall_time, e.value) for e in found.Scalars("loss")] == [(0, 100, 1.5), (1, 101, 0.75), (2, 102, 0.5)]
    assert value_of(found, "precise") == 1 / 3
    assert [e.value for e in read("both_two_up").Scalars("both/two")] == [1]
    assert [e.value for e in read("both_two_down").Scalars("both/two")] == [-1]
    with pytest.raises(ValueError, match=r"^SummaryWriter.add_scalar: expected one number for 'v', got shape \(2,\)$"):
        read.writer.add_scalar("v", torch.ones(2))
    with pytest.raises(ValueError, match=r"^SummaryWriter: expected a tensor, an array or a number, got str$"):
        read.writer.add_scalar("v", "much")
    for other in ([1.0], None, {}):  # programs catch it to skip what is no number
        with pytest.raises(NotImplementedError, match="^SummaryWriter: expected a tensor, an array or a number, got "):
            read.writer.add_scalar("v", other)
        with pytest.raises(NotImplementedError, match="^SummaryWriter: "):
            read.writer.add_histogram("v", other)


@pytest.mark.parametrize("bins", ["tensorflow", "auto", [-4.0, -1.0, 0.0, 1.0, 4.0]])
def test_histogram(read, bins):
    values = torch.linspace(-3, 2, 501).reshape(3, 167)
    read.writer.add_histogram("h", values, 1, bins=bins, max_bins=40)
    (event,) = read().Histograms("h")
    told = event.histogram_value
    assert told.num == 501 and told.min == -3 and told.max == 2
    assert told.sum == pytest.approx(values.sum().item(), rel=1e-5)
    assert told.sum_squares == pytest.approx((values**2).sum().item(), rel=1e-5)
    assert sum(told.bucket) == 501 and told.bucket[0] == 0 and len(told.bucket) <= 41
    flat = values.numpy().ravel()
    for left, right, count in zip(told.bucket_limit, told.bucket_limit[1:], told.bucket[1:]):
        last = right == told.bucket_limit[-1]
        assert count == ((flat >= left) & ((flat <= right) if last else (flat < right))).sum()


def test_histogram_of_nothing_or_nan(read):
    for values, got in ((torch.empty(0), "none"), (torch.tensor([1.0, float("nan")]), "nan or inf")):
        with pytest.raises(ValueError, match=f"^SummaryWriter.add_histogram: .* got {got}$"):
            read.writer.add_histogram("h", values)


def decode_png(data: bytes) -> np.ndarray:
    """Pixels of a PNG whose rows are not filtered."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    start = data.index(b"IDAT")
    length = int.from_bytes(data[start - 4 : start], "big")
    body, crc = data[start : start + 4 + length], data[start + 4 + length : start + 8 + length]
    assert zlib.crc32(body) == int.from_bytes(crc, "big")
    rows = np.frombuffer(zlib.decompress(body[4:]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, -1)


def test_images(read):
    picture = torch.arange(2 * 3 * 4, dtype=torch.uint8).reshape(3, 2, 4)
    read.writer.add_image("chw", picture)
    read.writer.add_image("hw", torch.tensor([[0.0, 0.5], [1.0, 2.0]]), dataformats="HW")
    read.writer.add_images("batch", torch.stack([picture] * 9))
    found = read()
    (event,) = found.Images("chw")
    assert (event.height, event.width) == (2, 4)
    assert (decode_png(event.encoded_image_string) == picture.permute(1, 2, 0).numpy()).all()
    grey = decode_png(found.Images("hw")[0].encoded_image_string)
    assert grey.shape == (2, 2, 3) and grey[:, :, 1].tolist() == [[0, 127], [255, 255]]
    sheet = decode_png(found.Images("batch")[0].encoded_image_string)
    assert sheet.shape == (4, 32, 3) and (sheet[2:, :4] == sheet[:2, :4]).all() and not sheet[2:, 4:].any()
    with pytest.raises(ValueError, match=r"^SummaryWriter: dataformats .* got 'CHW' for shape \(2, 2\)$"):
        read.writer.add_image("bad", torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"^SummaryWriter: an image has 1 to 4 channels, got .* \(2, 2, 5\)$"):
        read.writer.add_image("bad", torch.ones(5, 2, 2))


def test_figure(read):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(2, 1), dpi=50)
    read.writer.add_figure("one", figure, 3)
    assert not plt.fignum_exists(figure.number)
    read.writer.add_figure("many", [plt.figure(figsize=(2, 1), dpi=50) for _ in range(3)])
    found = read()
    assert [(e.step, e.height, e.width) for e in found.Images("one")] == [(3, 50, 100)]
    assert [(e.height, e.width) for e in found.Images("many")] == [(50, 300)]


def test_boxes_and_video(read):
    image = pytest.importorskip("PIL.Image")
    read.writer.add_image_with_boxes("box", torch.zeros(3, 20, 30), torch.tensor([[4, 5, 12, 15]]), labels=["a"], rescale=2)
    read.writer.add_image_with_boxes("frame", torch.zeros(3, 20, 30), torch.tensor([4, 5, 12, 15]))
    read.writer.add_video("film", torch.rand(2, 3, 1, 8, 9), fps=10)
    found = read()
    assert (found.Images("box")[0].height, found.Images("box")[0].width) == (40, 60)
    frame = decode_png(found.Images("frame")[0].encoded_image_string)
    assert frame[5, 4].tolist() == [255, 0, 0] and frame[10, 8].tolist() == [0, 0, 0]
    film = image.open(io.BytesIO(found.Images("film")[0].encoded_image_string))
    assert film.n_frames == 3 and film.size == (18, 8) and film.info["duration"] == 100


def test_audio(read):
    tone = torch.sin(torch.arange(800) * 0.3).repeat(2, 1)
    read.writer.add_audio("tone", tone, sample_rate=8000)
    (event,) = read().Audio("tone")
    assert (event.sample_rate, event.length_frames) == (8000, 800)
    with wave.open(io.BytesIO(event.encoded_audio_string)) as file:
        assert (file.getnchannels(), file.getframerate()) == (2, 8000)
        samples = np.frombuffer(file.readframes(800), "<i2").reshape(-1, 2).T
    assert np.abs(samples / 32767 - tone.numpy()).max() < 1 / 32767


def test_text_tensor_and_layout(read):
    from tensorboard.plugins.custom_scalar import layout_pb2

    read.writer.add_text("note", "some *words*", 2)
    read.writer.add_tensor("t", torch.arange(6).reshape(2, 3))
    read.writer.add_custom_scalars_marginchart(["mid", "low", "high"], title="band")
    found = read()
    assert value_of(found, "note/text_summary").tolist() == [b"some *words*"]
    assert value_of(found, "t").tolist() == [[0, 1, 2], [3, 4, 5]]
    layout = layout_pb2.Layout.FromString(value_of(found, "custom_scalars__config__").item())
    chart = layout.category[0].chart[0]
    assert chart.title == "band" and chart.margin.series[0].lower == "low"
    with pytest.raises(ValueError, match="three tags"):
        read.writer.add_custom_scalars({"a": {"b": ["Margin", ["one"]]}})


def test_hparams(read):
    from tensorboard.plugins.hparams import metadata

    values = {"lr": 0.1, "layers": 2, "kind": "small", "bias": True, "scale": torch.tensor(3.0)}
    read.writer.add_hparams(values, {"accuracy": 0.75}, {"layers": [1, 2, 3]}, run_name="first")
    found = read("first")
    assert found.Scalars("accuracy")[0].value == 0.75
    content = found.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    told = metadata.parse_session_start_info_plugin_data(content).hparams
    assert told["lr"].number_value == 0.1 and told["layers"].number_value == 2 and told["kind"].string_value == "small"
    assert told["bias"].bool_value is True and told["scale"].number_value == 3
    content = found.SummaryMetadata(metadata.EXPERIMENT_TAG).plugin_data.content
    experiment = metadata.parse_experiment_plugin_data(content)
    assert [info.name for info in experiment.hparam_infos] == list(values)
    assert [v.number_value for v in experiment.hparam_infos[1].domain_discrete.values] == [1, 2, 3]
    assert experiment.metric_infos[0].name.tag == "accuracy"
    with pytest.raises(TypeError, match=r"^SummaryWriter.add_hparams: hparam_dict is to be a dict, got list$"):
        read.writer.add_hparams([], {})
    with pytest.raises(TypeError, match=r"^SummaryWriter.add_hparams: hparam_domain_discrete\['lr'\] .* got 'x'$"):
        read.writer.add_hparams({"lr": 0.1}, {}, {"lr": ["x"]})


def test_precision_and_recall(read):
    labels = torch.tensor([1, 1, 0, 0, 1])
    scores = torch.tensor([0.9, 0.6, 0.55, 0.1, 0.3])
    read.writer.add_pr_curve("pr", labels, scores, num_thresholds=11)
    table = value_of(read(), "pr")
    assert table.shape == (6, 11)
    hits, false_hits, right_refusals, misses, precision, recall = table
    assert hits[0] == 3 and false_hits[0] == 2 and hits[5] == 2 and false_hits[5] == 1
    assert (hits + misses == 3).all() and (false_hits + right_refusals == 2).all()
    assert precision[5] == pytest.approx(2 / 3) and recall[5] == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="labels and predictions differ in number, got 5 and 4$"):
        read.writer.add_pr_curve("pr", labels, scores[:4])


def test_embedding(read):
    points = torch.arange(8.0).reshape(4, 2)
    read.writer.add_embedding(points, ["a", "b", "c", "d"], torch.rand(4, 3, 5, 6), global_step=7, tag="dots/x")
    read.writer.add_embedding(points, [[1, "p"], [2, "q"], [3, "r"], [4, "s"]], metadata_header=["n", "letter"])
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    config = text_format.Parse((read.folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
    first, second = config.embeddings
    assert np.loadtxt(read.folder / first.tensor_path).tolist() == points.tolist()
    assert (read.folder / first.metadata_path).read_text() == "a\nb\nc\nd\n"
    assert list(first.sprite.single_image_dim) == [6, 5]
    assert decode_png((read.folder / first.sprite.image_path).read_bytes()).shape == (10, 12, 3)
    assert (read.folder / second.metadata_path).read_text().splitlines()[:2] == ["n\tletter", "1\tp"]
    with pytest.raises(ValueError, match=r"^SummaryWriter.add_embedding: metadata .* got 1 for 4$"):
        read.writer.add_embedding(points, ["a"])


def test_mesh(read):
    corners = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]])
    read.writer.add_mesh("m", corners, faces=torch.tensor([[[0, 1, 2]]]), colors=torch.full((1, 3, 3), 200))
    found = read()
    assert value_of(found, "m_VERTEX").tolist() == corners.tolist()
    assert value_of(found, "m_FACE").tolist() == [[[0, 1, 2]]]
    assert value_of(found, "m_COLOR").max() == 200
    with pytest.raises(ValueError, match=r"^SummaryWriter.add_mesh: .* got shape \(3, 3\)$"):
        read.writer.add_mesh("m", corners[0])


def test_graph(read):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
            self.head = nn.LSTM(4, 2)

        def forward(self, x):
            y, _ = self.head(self.body(x) * 2)
            return y.max(0)

    read.writer.add_graph(Net(), torch.randn(5, 1, 3))
    nodes = {node.name: node for node in read().Graph().node}
    assert nodes["Net/Sequential[body]/Linear[0]/linear"].input == [
        "input/0", "Net/Sequential[body]/Linear[0]/weight", "Net/Sequential[body]/Linear[0]/bias",
    ]  # fmt: skip
    assert nodes["Net/Sequential[body]/ReLU[1]/relu"].input == ["Net/Sequential[body]/Linear[0]/linear"]
    assert nodes["Net/mul"].input == ["Net/Sequential[body]/ReLU[1]/relu"]
    shape = nodes["Net/max"].attr["_output_shapes"].list.shape[0]
    assert [dim.size for dim in shape.dim] == [1, 2]
    assert nodes["output/0"].input == ["Net/max"]
    for node in nodes.values():
        assert all(source in nodes for source in node.input), node
    with pytest.raises(NotImplementedError, match="^SummaryWriter.add_onnx_graph"):
        read.writer.add_onnx_graph("model.onnx")
    with pytest.raises(TypeError, match="^SummaryWriter.add_graph: expected a Module, got int$"):
        read.writer.add_graph(3, torch.ones(1))


class _OfDict(torch.nn.Module):
    def forward(self, x):
        return [{"out": x * 2}]


def test_results_in_a_dict(read):
    with pytest.raises(RuntimeError, match="^SummaryWriter.add_graph: results in a dict .*got list of _OfDict$"):
        read.writer.add_graph(_OfDict(), torch.ones(2))
    read.writer.add_graph(_OfDict(), torch.ones(2), use_strict_trace=False)


def test_frames_lie_around_the_edge_of_a_box(read):
    from facula.utils.tensorboard._media import draw_boxes

    pixels = draw_boxes(np.zeros((12, 12, 3), np.uint8), np.array([[3, 3, 9, 9]]), None, 1)
    assert "".join("#" if p else "." for p in pixels[:, 6, 0]) == "..##.....##.", "lines of two pixels, on the box's edge"
    assert (pixels[:, :, 1:] == 0).all()


def test_a_closed_writer_opens_again_and_purges(read):
    from facula.utils.tensorboard import SummaryWriter

    with read.writer as writer:
        for step in range(5):
            writer.add_scalar("x", step, step)
    writer.add_scalar("y", 1)
    writer.flush()
    found = read()
    assert len(found.Scalars("x")) == 5 and len(found.Scalars("y")) == 1
    with SummaryWriter(read.folder, purge_step=2, filename_suffix=".again") as writer:
        writer.add_scalar("x", 20, 2)
    assert sum(path.name.endswith(".again") for path in read.folder.iterdir()) == 1
    assert [e.value for e in read().Scalars("x")] == [0, 1, 20]
