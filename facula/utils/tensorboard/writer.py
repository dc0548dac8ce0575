"""Define `SummaryWriter`, which has one method for each kind of data that TensorBoard shows.

Long because one class of PyTorch's has all of them, each with its arguments and an example.
"""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from facula.utils.tensorboard import _media, summary
from facula.utils.tensorboard._graph import module_graph

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module


class FileWriter:
    """Write one event file in `log_dir`, from a thread of its own.

    Args:
        log_dir: the directory, which is made where it is not there.
        max_queue: how many events wait before adding one blocks.
        flush_secs: how often, in seconds, the file is flushed.
        filename_suffix: added to the file's name.

    >>> import os, tempfile
    >>> from tensorboard.compat.proto.summary_pb2 import Summary
    >>> file = torch.utils.tensorboard.FileWriter(tempfile.mkdtemp(), filename_suffix=".first")
    >>> file.add_summary(Summary(value=[Summary.Value(tag="loss", simple_value=0.5)]), global_step=1)
    >>> file.flush()
    >>> len(os.listdir(file.get_logdir()))
    1
    >>> file.close()
    """

    def __init__(self, log_dir: str | PathLike[str], max_queue: int = 10, flush_secs: int = 120,
                 filename_suffix: str = "") -> None:  # fmt: skip
        self.event_writer: EventFileWriter = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the directory of the file."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write an `Event` message.

        Args:
            event: the message of TensorBoard's package.
            step: the step that it is stamped with; None: none.
            walltime: the time that it is stamped with, in seconds; None: now.

        >>> import tempfile
        >>> from tensorboard.compat.proto.event_pb2 import Event
        >>> file = torch.utils.tensorboard.FileWriter(tempfile.mkdtemp())
        >>> file.add_event(Event(), step=3)
        >>> file.close()
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write a `Summary` message, which has values under their tags.

        Args:
            summary: the message.
            global_step, walltime: see `add_event`.
        """
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a `GraphDef` message.

        Args:
            graph: the message.
            walltime: see `add_event`.

        >>> import tempfile
        >>> from tensorboard.compat.proto.graph_pb2 import GraphDef
        >>> file = torch.utils.tensorboard.FileWriter(tempfile.mkdtemp())
        >>> file.add_graph(GraphDef())
        >>> file.close()
        """
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Put on disk what was added."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flush, and end the writing thread."""
        self.event_writer.close()


class SummaryWriter:
    """Write event files for TensorBoard, which shows them: ``tensorboard --logdir runs``.

    Values may be tensors, NumPy arrays or numbers.

    Args:
        log_dir: directory of the run; the default is ``runs/<date>_<host><comment>``.
        comment: ends the default name of the run.
        purge_step: what an earlier, crashed run wrote from this step on is not shown.
        max_queue: how many events wait before adding one blocks.
        flush_secs: how often, in seconds, the files are flushed.
        filename_suffix: added to the files' names.

    Arguments of methods:
        tag: the name under which values are shown.
        global_step: the step at which they hold; None for no step.
        walltime: the time in seconds since 1970; None for now.

    >>> import os, tempfile
    >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (step + 1), step)
    ...         writer.add_scalars("accuracy", {"train": 0.5 + 0.1 * step, "test": 0.5}, step)
    ...     writer.add_histogram("weights", torch.randn(100))
    ...     writer.add_tensor("first weights", torch.ones(2, 2))
    ...     writer.add_pr_curve("is a cat", labels=torch.tensor([1, 0, 1]), predictions=torch.tensor([0.9, 0.2, 0.6]))
    ...     writer.add_text("notes", "what the run is *for*")
    ...     writer.add_image("first", torch.rand(3, 8, 8))
    ...     writer.add_images("batch", torch.rand(4, 3, 8, 8))
    ...     writer.add_audio("a tone", torch.sin(torch.arange(441) * 0.06), sample_rate=4410)
    ...     writer.add_embedding(torch.randn(3, 5), metadata=["one", "two", "three"])
    ...     writer.add_graph(nn.Linear(2, 3), torch.ones(1, 2))
    ...     writer.add_hparams({"lr": 0.1, "layers": 2}, {"hparam/loss": 0.3})
    ...     writer.flush()
    >>> os.path.isdir(writer.get_logdir())
    True
    """

    file_writer: FileWriter | None

    def __init__(self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
                 flush_secs: int = 120, filename_suffix: str = "") -> None:  # fmt: skip
        if not log_dir:
            started = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{started}_{socket.gethostname()}{comment}")
        self.log_dir: str = str(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.default_bins: list[float] = summary.default_edges()
        self._projector = ProjectorConfig()
        self.file_writer = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _open(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """Return the run's own file, opened again after `close`."""
        if self.file_writer is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                restart = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                self.file_writer.add_event(Event(session_log=restart), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _add(self, made, global_step, walltime) -> None:
        self._get_file_writer().add_summary(made, global_step, walltime)

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return self.log_dir

    # Numbers

    def add_scalar(self, tag: str, scalar_value: Tensor | float, global_step: int | None = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:  # fmt: skip
        """Add one number of a curve.

        Args:
            scalar_value: the number.
            new_style: whether it is stored as a tensor.
            double_precision: whether that tensor is float64.
        """
        self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
                    walltime: float | None = None) -> None:  # fmt: skip
        """Add a number of each of several curves in one chart; each curve is in a file of its own below the run.

        Args:
            main_tag: the name of the chart.
            tag_scalar_dict: ``{name of the curve: number}``.
        """
        walltime = time.time() if walltime is None else walltime
        own = self._get_file_writer().get_logdir()
        for name, value in tag_scalar_dict.items():
            folder = f"{own}/{main_tag.replace('/', '_')}_{name}"
            writer = self.all_writers.get(folder)
            if writer is None:
                writer = self.all_writers[folder] = self._open(folder)
            writer.add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Tensor, global_step: int | None = None, walltime: float | None = None) -> None:
        """Add a tensor of any shape, which plugins may read; TensorBoard itself shows none.

        Args:
            tensor: the tensor.
        """
        self._add(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(self, tag: str, values: Tensor, global_step: int | None = None,
                      bins: Sequence[float] | str = "tensorflow", walltime: float | None = None,
                      max_bins: int | None = None) -> None:  # fmt: skip
        """Add how values are distributed.

        Args:
            values: a tensor of any shape.
            bins: the edges, or a rule of `numpy.histogram` ("auto", "fd", ...), or "tensorflow": edges that grow
                exponentially on both sides of zero.
            max_bins: neighboring bins are joined until no more than so many remain.

        Errors: ValueError for no values, nan or inf.
        """
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag: str, min: float, max: float, num: Any, sum: Any, sum_squares: float, bucket_limits: Any,
                          bucket_counts: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Add a histogram that was counted elsewhere.

        Args:
            min, max, num, sum, sum_squares: of the values: the smallest, the largest, how many there are, their sum and that
                of their squares.
            bucket_limits: limits of the bins: bin i reaches from limit i - 1 to limit i.
            bucket_counts: how many values each has.

        Errors: ValueError unless there are as many limits as counts.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_histogram_raw("sizes", 0, 2, 3, 3, 5, bucket_limits=[1, 2], bucket_counts=[1, 2])
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                f"SummaryWriter.add_histogram_raw: each bucket has a limit and a count, "
                f"got {len(bucket_limits)} and {len(bucket_counts)}"
            )
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
                     weights: Any = None, walltime: float | None = None) -> None:  # fmt: skip
        """Add precision and recall of a binary classifier.

        Args:
            labels: the truth, (N,), zero or one.
            predictions: probabilities of one, (N,).
            num_thresholds: points of the curve, 127 at most.
            weights: of the samples, (N,).
        """
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: str,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a precision-recall curve that was counted elsewhere. Each of its rows is (num_thresholds,).

        Args:
            true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts: what came of the
                samples at each threshold.
            precision, recall: what follows from them.
            num_thresholds: points of the curve.
            weights: not looked at.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_pr_curve_raw("cats", [2, 1], [1, 0], [0, 1], [0, 1], [0.67, 1.0], [1.0, 0.5], num_thresholds=2)
        """
        positives, negatives = (true_positive_counts, false_positive_counts), (true_negative_counts, false_negative_counts)
        rows = (*positives, *negatives, precision, recall)
        self._add(summary.pr_curve_raw(tag, rows, num_thresholds), global_step, walltime)

    # Pictures, sound, text

    def add_image(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                  dataformats: str = "CHW") -> None:  # fmt: skip
        """Add a picture.

        Args:
            img_tensor: the picture, uint8 or from 0 to 1.
            dataformats: names its dimensions: CHW, HWC or HW.
        """
        pixels = _media.to_bytes(_media.to_hwc(_media.to_numpy(img_tensor), dataformats))
        self._add(summary._picture(tag, pixels), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                   dataformats: str = "NCHW") -> None:  # fmt: skip
        """Add a batch of pictures as one, eight to a row.

        Args:
            img_tensor: the pictures, uint8 or from 0 to 1, as one tensor or a list of tensors.
            dataformats: names the dimensions: NCHW, NHWC, ...
        """
        if isinstance(img_tensor, (list, tuple)):
            img_tensor = np.stack([_media.to_numpy(image) for image in img_tensor])
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None,
                             walltime: float | None = None, rescale: int = 1, dataformats: str = "CHW",
                             labels: Any = None) -> None:  # fmt: skip
        """Add a picture with frames on it, which needs Pillow.

        Args:
            img_tensor: the picture, uint8 or from 0 to 1.
            box_tensor: (N, 4), each xmin, ymin, xmax, ymax in pixels.
            rescale: factor for the size of the picture.
            dataformats: names the picture's dimensions: CHW, HWC or HW.
            labels: text for each frame.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_image_with_boxes("found", torch.rand(3, 16, 16), torch.tensor([[2, 2, 10, 12]]), labels=["cat"])
        """
        pixels = _media.to_bytes(_media.to_hwc(_media.to_numpy(img_tensor), dataformats))
        boxes = _media.to_numpy(box_tensor)
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != boxes.size // 4:
            raise ValueError(
                f"SummaryWriter.add_image_with_boxes: each box has a label, got {boxes.size // 4} and {len(labels)}"
            )
        self._add(summary._picture(tag, _media.draw_boxes(pixels, boxes, labels, rescale)), global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True,
                   walltime: float | None = None) -> None:  # fmt: skip
        """Add a figure of Matplotlib as a picture.

        Args:
            figure: the figure, or a list of figures of one size.
            close: if True, close it afterwards.

        >>> import tempfile
        >>> from matplotlib.figure import Figure
        >>> from matplotlib.backends.backend_agg import FigureCanvasAgg
        >>> figure = FigureCanvasAgg(Figure()).figure
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_figure("plot", figure, close=False)
        """
        figures = figure if isinstance(figure, list) else [figure]
        pixels = np.stack([summary.figure_pixels(each) for each in figures])
        if close:
            import matplotlib.pyplot

            for each in figures:
                matplotlib.pyplot.close(each)
        if isinstance(figure, list):
            self.add_images(tag, pixels, global_step, walltime, "NHWC")
        else:
            self.add_image(tag, pixels[0], global_step, walltime, "HWC")

    def add_video(self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: int = 4,
                  walltime: float | None = None) -> None:  # fmt: skip
        """Add films, side by side, which needs Pillow.

        Args:
            vid_tensor: (N, T, C, H, W), uint8 or from 0 to 1.
            fps: pictures a second.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_video("films", torch.rand(2, 3, 3, 8, 8), fps=2)
        """
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100,
                  walltime: float | None = None) -> None:  # fmt: skip
        """Add sound.

        Args:
            snd_tensor: (frames,) or (channels, frames), from -1 to 1.
            sample_rate: frames a second.
        """
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """Add text.

        Args:
            text_string: the text, read as Markdown.
        """
        self._add(summary.text(tag, text_string), global_step, walltime)

    # What a run is

    def add_hparams(self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
                    hparam_domain_discrete: dict[str, Sequence[int]] | None = None, run_name: str | None = None,
                    global_step: int | None = None) -> None:  # fmt: skip
        """Add hyperparameters, and the metrics they led to, as a run of their own below this one.

        Args:
            hparam_dict: ``{name: bool, number or str}``.
            metric_dict: ``{tag: number}``.
            hparam_domain_discrete: ``{name: values it can take}``.
            run_name: name of that run; the default is the time.
        """
        made = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for each in made:
                writer._add(each, global_step, None)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def add_graph(self, model: Module, input_to_model: Tensor | None = None, verbose: bool = False,
                  use_strict_trace: bool = True) -> None:  # fmt: skip
        """Add the ops that a module runs. It is called once, without gradients.

        Args:
            model: the module.
            input_to_model: what it is called with: a tensor, or a tuple of arguments.
            verbose: if True, print the nodes.
            use_strict_trace: if True, refuse results in a dict, as PyTorch's tracer does.

        Errors: ValueError without input_to_model; RuntimeError for results in a dict where use_strict_trace is True.
        """
        if input_to_model is None:
            raise ValueError("SummaryWriter.add_graph: the module is run on input_to_model, got None")
        graph = module_graph(model, input_to_model, use_strict_trace)
        if verbose:
            print(text_format.MessageToString(graph))
        self._get_file_writer().add_graph(graph)

    def add_onnx_graph(self, prototxt: str) -> None:
        """Raise NotImplementedError: Facula does not read ONNX.

        Args:
            prototxt: the file.

        Errors: NotImplementedError always.

        >>> torch.utils.tensorboard.SummaryWriter.add_onnx_graph(None, "model.onnx")
        Traceback (most recent call last):
            ...
        NotImplementedError: SummaryWriter.add_onnx_graph: ONNX files are not read, got 'model.onnx'
        """
        raise NotImplementedError(f"SummaryWriter.add_onnx_graph: ONNX files are not read, got {prototxt!r}")

    def add_embedding(self, mat: Any, metadata: Sequence[Sequence[int | str] | str] | None = None,
                      label_img: Tensor | None = None, global_step: int | None = None, tag: str = "default",
                      metadata_header: Sequence[str] | None = None) -> None:  # fmt: skip
        """Add points for the projector.

        Args:
            mat: (N, D).
            metadata: a label for each point, or a list of labels, one for each name in `metadata_header`.
            label_img: a picture for each point, (N, C, H, W), from 0 to 1.
            metadata_header: names of the labels, where each point has several.

        Errors: ValueError unless there are as many labels and pictures as points.
        """
        points = _media.to_numpy(mat)
        if points.ndim != 2:
            raise ValueError(f"SummaryWriter.add_embedding: mat is (N, D), got shape {tuple(points.shape)}")
        for name, given in (("metadata", metadata), ("label_img", label_img)):
            if given is not None and len(given) != len(points):
                raise ValueError(
                    f"SummaryWriter.add_embedding: {name} has one for each point, got {len(given)} for {len(points)}"
                )
        step = 0 if global_step is None else int(global_step)
        place = f"{step:05d}/{tag.replace('/', '_')}"
        folder = Path(self._get_file_writer().get_logdir())
        (folder / place).mkdir(parents=True, exist_ok=True)
        entry = self._projector.embeddings.add(tensor_name=f"{tag}:{step:05d}", tensor_path=f"{place}/tensors.tsv")
        _write_table(folder / entry.tensor_path, points.tolist())
        if metadata is not None:
            entry.metadata_path = f"{place}/metadata.tsv"
            rows = [row if metadata_header else [row] for row in metadata]
            _write_table(folder / entry.metadata_path, [metadata_header, *rows] if metadata_header else rows)
        if label_img is not None:
            entry.sprite.image_path = f"{place}/sprite.png"
            (folder / entry.sprite.image_path).write_bytes(summary.label_sheet(label_img))
            entry.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
        (folder / "projector_config.pbtxt").write_text(text_format.MessageToString(self._projector))

    def add_mesh(self, tag: str, vertices: Any, colors: Any = None, faces: Any = None,
                 config_dict: dict[str, Any] | None = None, global_step: int | None = None,
                 walltime: float | None = None) -> None:  # fmt: skip
        """Add points in space, with colors and triangles.

        Args:
            vertices: (B, N, 3).
            colors: (B, N, 3), from 0 to 255.
            faces: (B, F, 3), numbers of points.
            config_dict: camera, lights and material, as the mesh plugin takes them.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_mesh("triangle", torch.rand(1, 3, 3), faces=torch.tensor([[[0, 1, 2]]]))
        """
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    # Layout of the dashboard

    def add_custom_scalars(self, layout: dict[str, dict[str, Sequence[Any]]]) -> None:
        """Say which curves share a chart. Called once, before or after the curves are written.

        Args:
            layout: ``{category: {chart: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}``.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_custom_scalars({"losses": {"both": ["Multiline", ["loss/train", "loss/test"]]}})
        """
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """Say that several curves share a chart.

        Args:
            tags: the tags of the curves.
            category: the heading above the chart.
            title: its own.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_custom_scalars_multilinechart(["loss/train", "loss/test"], title="losses")
        """
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: Sequence[str], category: str = "default", title: str = "untitled") -> None:
        """Say that a chart has a curve with its lower and upper bounds.

        Args:
            tags: the tags of the curve, of the lower and of the upper bound.
            category: the heading above the chart.
            title: its own.

        >>> import tempfile
        >>> with torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     writer.add_custom_scalars_marginchart(["mean", "low", "high"], title="between runs")
        """
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    # Files

    def flush(self) -> None:
        """Put on disk what was added."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flush and close the files; a later ``add_*`` opens a new one. The end of a ``with`` does it.

        >>> import tempfile
        >>> writer = torch.utils.tensorboard.SummaryWriter(tempfile.mkdtemp())
        >>> writer.add_scalar("loss", 0.5, 1)
        >>> writer.close()
        """
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _write_table(path: Path, rows) -> None:
    """Write rows of cells, tab between cells."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines("\t".join(str(cell) for cell in row) + "\n" for row in rows)
