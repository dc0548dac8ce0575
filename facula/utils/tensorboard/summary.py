"""Make the contents of events; each function makes one `Summary` message of TensorBoard.

The layouts of the messages (which tensor a plugin expects, under which tag) are those of the `tensorboard` package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom_scalar
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_plugin
from tensorboard.plugins.mesh import metadata as mesh_plugin
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve import metadata as pr_curve_plugin
from tensorboard.plugins.text import metadata as text_plugin
from tensorboard.util import tensor_util

from facula.utils.tensorboard import _media

if TYPE_CHECKING:
    from typing import Any

_MOST_THRESHOLDS = 127  # what the dashboard of precision-recall curves can show
_SMALLEST_COUNT = 1e-7  # keeps precision and recall defined where nothing was counted


def _exponential_edges() -> list[float]:
    """Return the edges of the default histogram: zero, and +-1e-12 growing by a tenth to 1e20."""
    positive = []
    edge = 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return [-edge for edge in reversed(positive)] + [0.0] + positive


_default_edges: list[float] = []


def default_edges() -> list[float]:
    """Return the edges of `bins="tensorflow"`, made once."""
    if not _default_edges:
        _default_edges.extend(_exponential_edges())
    return _default_edges


def _one(tag: str, **content) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, **content)])


def _plugin(name: str) -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name))


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Summary:
    """Return one number. The new style is a tensor of the scalars plugin, in float32 or float64."""
    number = _media.to_numpy(value)
    if number.size != 1:
        raise ValueError(f"SummaryWriter.add_scalar: expected one number for {tag!r}, got shape {tuple(number.shape)}")
    number = float(number.reshape(()))
    if not new_style:
        return _one(tag, simple_value=number)
    if double_precision:
        proto = TensorProto(dtype="DT_DOUBLE", double_val=[number])
    else:
        proto = TensorProto(dtype="DT_FLOAT", float_val=[number])
    return _one(tag, tensor=proto, metadata=_plugin("scalars"))


def tensor(tag: str, value: Any) -> Summary:
    """Return a tensor as it is."""
    return _one(tag, tensor=tensor_util.make_tensor_proto(_media.to_numpy(value)), metadata=_plugin("tensor"))


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """Return the counts of `values` in `bins`: edges, or the name of one of NumPy's rules, or "tensorflow"."""
    values = _media.to_numpy(values).astype(np.float64).reshape(-1)
    if values.size == 0:
        raise ValueError(f"SummaryWriter.add_histogram: expected at least one value for {tag!r}, got none")
    if not np.isfinite(values).all():
        raise ValueError(f"SummaryWriter.add_histogram: expected finite values for {tag!r}, got nan or inf")
    counts, edges = np.histogram(values, bins=default_edges() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        starts = np.arange(0, len(counts), step)
        counts, edges = np.add.reduceat(counts, starts), np.append(edges[starts], edges[-1])
    used = np.flatnonzero(counts)
    if used.size == 0:
        raise ValueError(f"SummaryWriter.add_histogram: no value of {tag!r} lies in the bins, got bins={bins!r}")
    first, last = used[0], used[-1] + 1
    # A bucket reaches from the limit of the one before it: an empty one gives the first its left edge.
    return histogram_raw(
        tag, values.min(), values.max(), values.size, values.sum(), values.dot(values),
        edges[first : last + 1], [0, *counts[first:last]],
    )  # fmt: skip


def histogram_raw(tag: str, least: Any, most: Any, num: int, total: Any, squares: Any, limits: Any, counts: Any) -> Summary:
    """Return a histogram that was counted already; `limits` are the right edges of the buckets."""
    content = HistogramProto(
        min=least, max=most, num=num, sum=total, sum_squares=squares,
        bucket_limit=np.asarray(limits, dtype=float).tolist(), bucket=np.asarray(counts, dtype=float).tolist(),
    )  # fmt: skip
    return _one(tag, histo=content)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """Return a picture of `dataformats`, uint8 or from 0 to 1; a batch as one. It is enlarged by `rescale`."""
    return _picture(tag, _media.resized(_pixels(tensor, dataformats), rescale))


def image_boxes(tag: str, tensor_image: Any, tensor_boxes: Any, rescale: float = 1, dataformats: str = "CHW",
                labels: Any = None) -> Summary:  # fmt: skip
    """Return a picture with red frames (xmin, ymin, xmax, ymax) and their labels."""
    boxes = _media.to_numpy(tensor_boxes)
    return _picture(tag, _media.draw_boxes(_pixels(tensor_image, dataformats), boxes, labels, rescale))


def _pixels(tensor: Any, dataformats: str) -> np.ndarray:
    return _media.to_bytes(_media.to_hwc(_media.to_numpy(tensor), dataformats))


def _calc_scale_factor(tensor: Any) -> int:
    """Return what makes bytes of pixels: 1 for uint8, 255 for others, which are from 0 to 1."""
    return 1 if _media.to_numpy(tensor).dtype == np.uint8 else 255


def half_to_int(f: float) -> int:
    """Return the bits of a number as float16, which is how messages hold it."""
    return int(np.float16(f).view(np.uint16))


def int_to_half(i: int) -> float:
    """Return the number whose bits as float16 are `i`."""
    return float(np.uint16(i).view(np.float16))


#: dtype of NumPy -> its name in messages, the field that holds values, and what makes such of an array
_FIELDS = {
    "float16": ("DT_HALF", "half_val", lambda a: [half_to_int(x) for x in a]),
    "float32": ("DT_FLOAT", "float_val", lambda a: a.tolist()),
    "float64": ("DT_DOUBLE", "double_val", lambda a: a.tolist()),
    "int8": ("DT_INT8", "int_val", lambda a: a.tolist()),
    "uint8": ("DT_UINT8", "int_val", lambda a: a.tolist()),
    "int16": ("DT_INT16", "int_val", lambda a: a.tolist()),
    "int32": ("DT_INT32", "int_val", lambda a: a.tolist()),
    "int64": ("DT_INT64", "int64_val", lambda a: a.tolist()),
    "bool": ("DT_BOOL", "bool_val", lambda a: a.tolist()),
    "complex64": ("DT_COMPLEX64", "scomplex_val", lambda a: a.view(np.float32).tolist()),
    "complex128": ("DT_COMPLEX128", "dcomplex_val", lambda a: a.view(np.float64).tolist()),
}


def tensor_proto(tag: str, tensor: Any) -> Summary:
    """Return a tensor with its values one by one, of its dtype; bfloat16 as float32."""
    array = _media.to_numpy(tensor)
    if str(array.dtype) not in _FIELDS:
        raise ValueError(f"tensor_proto: expected a dtype among {', '.join(_FIELDS)}, got {array.dtype}")
    name, field, values = _FIELDS[str(array.dtype)]
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in array.shape])
    flat = np.ascontiguousarray(array).reshape(-1)
    return _one(tag, tensor=TensorProto(dtype=name, tensor_shape=shape, **{field: values(flat)}), metadata=_plugin("tensor"))


def _picture(tag: str, pixels: np.ndarray) -> Summary:
    """Return (H, W, C) uint8 pixels as a picture."""
    height, width, channels = pixels.shape
    content = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=_media.png(pixels))
    return _one(tag, image=content)


def video(tag: str, films: Any, fps: float) -> Summary:
    """Return (N, T, C, H, W), uint8 or from 0 to 1, as a moving picture."""
    films = _media.to_numpy(films)
    if films.ndim != 5 or films.shape[2] not in (1, 3):
        raise ValueError(
            f"SummaryWriter.add_video: expected (N, T, C, H, W) of 1 or 3 channels for {tag!r}, got shape {tuple(films.shape)}"
        )
    encoded, (height, width, channels) = _media.gif(_media.to_bytes(films), fps)
    return _one(tag, image=Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=encoded))


def audio(tag: str, sound: Any, rate: int) -> Summary:
    """Return (frames,) or (channels, frames) from -1 to 1 as sound."""
    sound = _media.to_numpy(sound)
    if sound.ndim == 2:
        sound = sound.T
    sound = sound.reshape(len(sound), -1)
    content = Summary.Audio(
        sample_rate=rate, num_channels=sound.shape[1], length_frames=len(sound),
        encoded_audio_string=_media.wav(sound, rate), content_type="audio/wav",
    )  # fmt: skip
    return _one(tag, audio=content)


def text(tag: str, words: str) -> Summary:
    """Return Markdown text as a summary."""
    return _one(
        f"{tag}/text_summary",
        metadata=text_plugin.create_summary_metadata(display_name=None, description=None),
        tensor=TensorProto(
            dtype="DT_STRING", string_val=[words.encode()], tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        ),
    )


# Hyperparameters

_HPARAM_TYPES = ((bool, "DATA_TYPE_BOOL", "bool_value"), ((int, float), "DATA_TYPE_FLOAT64", "number_value"),
                 (str, "DATA_TYPE_STRING", "string_value"))  # fmt: skip


def _hparam(name: str, value):
    """Return (value as Python's, its type's name, the field that holds it)."""
    if not isinstance(value, (bool, int, float, str)):
        value = _media.to_numpy(value).item()
    for kind, data_type, field in _HPARAM_TYPES:
        if isinstance(value, kind):
            return value, data_type, field
    raise ValueError(f"SummaryWriter.add_hparams: {name!r} is to be a bool, a number or a str, got {type(value).__name__}")


def hparams(values: dict[Any, Any], metrics: dict[Any, Any], domains: dict[Any, Any] | None = None) -> list[Summary]:
    """Return the experiment (which hyperparameters and metrics there are), the start of a session, and its end."""
    for name, given in (("hparam_dict", values), ("metric_dict", metrics)):
        if not isinstance(given, dict):
            raise TypeError(f"SummaryWriter.add_hparams: {name} is to be a dict, got {type(given).__name__}")
    infos = []
    start = plugin_data_pb2.SessionStartInfo()
    for name, given in values.items():
        if given is None:
            continue
        value, data_type, field = _hparam(name, given)
        setattr(start.hparams[name], field, value)
        info = api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(data_type))
        for choice in (domains or {}).get(name, ()):
            choice, choice_type, field = _hparam(name, choice)
            if choice_type != data_type:
                raise TypeError(
                    f"SummaryWriter.add_hparams: hparam_domain_discrete[{name!r}] is to hold values like "
                    f"{value!r}, got {choice!r}"
                )
            setattr(info.domain_discrete.values.add(), field, choice)
        infos.append(info)
    experiment = api_pb2.Experiment(
        hparam_infos=infos, metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics]
    )
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    return [
        _hparams_summary(hparams_plugin.EXPERIMENT_TAG, experiment=experiment),
        _hparams_summary(hparams_plugin.SESSION_START_INFO_TAG, session_start_info=start),
        _hparams_summary(hparams_plugin.SESSION_END_INFO_TAG, session_end_info=end),
    ]


def _hparams_summary(tag: str, **data) -> Summary:
    content = plugin_data_pb2.HParamsPluginData(version=hparams_plugin.PLUGIN_DATA_VERSION, **data)
    return _one(tag, metadata=hparams_plugin.create_summary_metadata(content))


# Precision and recall


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int, weights: Any = None) -> Summary:
    """Return the counts of right and wrong answers at thresholds spread evenly from 0 to 1."""
    num_thresholds = min(num_thresholds, _MOST_THRESHOLDS)
    positive = _media.to_numpy(labels).reshape(-1).astype(bool)
    scores = _media.to_numpy(predictions).reshape(-1).astype(np.float64)
    if positive.shape != scores.shape:
        raise ValueError(
            f"SummaryWriter.add_pr_curve: labels and predictions differ in number, got {positive.size} and {scores.size}"
        )
    weight = np.ones(scores.shape) if weights is None else _media.to_numpy(weights).reshape(-1).astype(np.float64)
    # A score counts as positive at every threshold up to its own bucket.
    bucket = np.clip(np.floor(scores * (num_thresholds - 1)), 0, num_thresholds - 1).astype(int)
    reached = [
        np.bincount(bucket[chosen], weight[chosen], num_thresholds)[::-1].cumsum()[::-1] for chosen in (positive, ~positive)
    ]
    true_positive, false_positive = reached
    true_negative, false_negative = false_positive[0] - false_positive, true_positive[0] - true_positive
    precision = true_positive / np.maximum(_SMALLEST_COUNT, true_positive + false_positive)
    recall = true_positive / np.maximum(_SMALLEST_COUNT, true_positive + false_negative)
    return pr_curve_raw(tag, (true_positive, false_positive, true_negative, false_negative, precision, recall), num_thresholds)


def pr_curve_raw(tag: str, rows: tuple[Any, ...], num_thresholds: int) -> Summary:
    """Return `rows`: true and false positives, true and false negatives, precision, recall, each (num_thresholds,)."""
    num_thresholds = min(num_thresholds, _MOST_THRESHOLDS)
    arrays = [np.asarray(row) if isinstance(row, (list, tuple)) else _media.to_numpy(row) for row in rows]
    table = np.stack(arrays).astype(np.float32)
    metadata = pr_curve_plugin.create_summary_metadata(tag, "", num_thresholds)
    return _one(tag, metadata=metadata, tensor=_float_tensor(table))


def _float_tensor(array: np.ndarray) -> TensorProto:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in array.shape])
    return TensorProto(dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(), tensor_shape=shape)


# Charts and meshes


def custom_scalars(layout: dict[Any, Any]) -> Summary:
    """Return `{category: {chart: ["Multiline" or "Margin", tags]}}` as the layout of the dashboard."""
    categories = []
    for title, charts in layout.items():
        made = []
        for name, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise ValueError(
                        f"SummaryWriter.add_custom_scalars: a Margin chart has three tags (value, lower, upper), got {tags}"
                    )
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                made.append(layout_pb2.Chart(title=name, margin=layout_pb2.MarginChartContent(series=[series])))
            else:
                made.append(layout_pb2.Chart(title=name, multiline=layout_pb2.MultilineChartContent(tag=tags)))
        categories.append(layout_pb2.Category(title=title, chart=made))
    content = layout_pb2.Layout(category=categories).SerializeToString()
    metadata = custom_scalar.create_summary_metadata()
    stored = TensorProto(dtype="DT_STRING", string_val=[content])
    return _one(custom_scalar.CONFIG_SUMMARY_TAG, metadata=metadata, tensor=stored)


def mesh(tag: str, vertices: Any, colors: Any = None, faces: Any = None, config: dict[Any, Any] | None = None) -> Summary:
    """Return (B, N, 3) points, with colors (B, N, 3) from 0 to 255 and triangles (B, F, 3) of point numbers."""
    given = ((vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE), (colors, MeshPluginData.COLOR))
    parts = [(_media.to_numpy(value), kind) for value, kind in given if value is not None]
    components = mesh_plugin.get_components_bitmask([kind for _, kind in parts])
    result = Summary()
    for array, kind in parts:
        if array.ndim != 3 or array.shape[2] != 3:
            name = MeshPluginData.ContentType.Name(kind).lower()
            raise ValueError(
                f"SummaryWriter.add_mesh: expected (B, N, 3) for each {name} of {tag!r}, got shape {tuple(array.shape)}"
            )
        metadata = mesh_plugin.create_summary_metadata(
            tag, tag, kind, components, list(array.shape), json_config=json.dumps(config or {}, sort_keys=True)
        )
        stored = array.astype(np.int32 if kind == MeshPluginData.FACE else np.float32)
        proto = tensor_util.make_tensor_proto(stored)
        result.value.add(tag=mesh_plugin.get_instance_name(tag, kind), metadata=metadata, tensor=proto)
    return result


def figure_pixels(figure: Any) -> np.ndarray[Any, Any]:
    """Return what a Matplotlib figure shows, (H, W, 4) uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def label_sheet(images: Any) -> bytes:
    """Return (N, C, H, W) pictures of embedded points as one PNG, in as square a grid as can be."""
    images = _media.to_bytes(_media.to_numpy(images)).transpose(0, 2, 3, 1)
    columns = int(np.ceil(np.sqrt(len(images))))
    return _media.png(_media.tile(images, columns))
