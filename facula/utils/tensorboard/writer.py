"""`SummaryWriter`: one method for each kind of thing that TensorBoard shows."""

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
    """One event file in `log_dir`; events are written by a thread of their own.

    Args:
        max_queue: how many events wait before adding one blocks.
        flush_secs: how often, in seconds, the file is flushed.
        filename_suffix: added to the file's name.
    """

    def __init__(self, log_dir: str | PathLike[str], max_queue: int = 10, flush_secs: int = 120,
                 filename_suffix: str = "") -> None:  # fmt: skip
        self.event_writer: EventFileWriter = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The directory of the file."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an `Event` message, stamped with the step and the time (now, unless given in seconds)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes a `Summary` message."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Writes a `GraphDef` message."""
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Puts on disk what was added."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flushes, and ends the writing thread."""
        self.event_writer.close()


class SummaryWriter:
    """Writes event files for TensorBoard.

        with SummaryWriter("runs/first") as writer:
            writer.add_scalar("loss", loss, step)

    Args:
        log_dir: directory of the run; the default is `runs/<date>_<host><comment>`.
        comment: ends the default name of the run.
        purge_step: what an earlier, crashed run wrote from this step on is not shown.
        max_queue, flush_secs, filename_suffix: see `FileWriter`.

    Every method takes the `global_step` at which its values hold, and the time in seconds as `walltime` (now, unless
    given). Values may be tensors, NumPy arrays or numbers.
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
        """The run's own file, opened again after `close`."""
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
        """The directory of the run."""
        return self.log_dir

    # Numbers

    def add_scalar(self, tag: str, scalar_value: Tensor | float, global_step: int | None = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:  # fmt: skip
        """One number of a curve; `new_style` stores it as a tensor, in float64 if `double_precision`."""
        self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
                    walltime: float | None = None) -> None:  # fmt: skip
        """Several curves in one chart: `{name: number}`, each in a file of its own below the run."""
        walltime = time.time() if walltime is None else walltime
        own = self._get_file_writer().get_logdir()
        for name, value in tag_scalar_dict.items():
            folder = f"{own}/{main_tag.replace('/', '_')}_{name}"
            writer = self.all_writers.get(folder)
            if writer is None:
                writer = self.all_writers[folder] = self._open(folder)
            writer.add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Tensor, global_step: int | None = None, walltime: float | None = None) -> None:
        """A tensor of any shape."""
        self._add(summary.tensor(tag, tensor), global_step, walltime)

    def add_histogram(self, tag: str, values: Tensor, global_step: int | None = None,
                      bins: Sequence[float] | str = "tensorflow", walltime: float | None = None,
                      max_bins: int | None = None) -> None:  # fmt: skip
        """How `values`, of any shape, are distributed.

        Args:
            bins: the edges, or a rule of `numpy.histogram` ("auto", "fd", ...), or "tensorflow": edges that grow
                exponentially on both sides of zero.
            max_bins: neighbouring bins are joined until no more than so many remain.

        Raises ValueError for no values, nan or inf.
        """
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag: str, min: float, max: float, num: Any, sum: Any, sum_squares: float, bucket_limits: Any,
                          bucket_counts: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """A histogram counted elsewhere: bucket i reaches from limit i - 1 to limit i."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                f"SummaryWriter.add_histogram_raw: each bucket has a limit and a count, "
                f"got {len(bucket_limits)} and {len(bucket_counts)}"
            )
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
                     weights: Any = None, walltime: float | None = None) -> None:  # fmt: skip
        """Precision and recall of a binary classifier.

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
        """A precision-recall curve counted elsewhere, each row (num_thresholds,)."""
        positives, negatives = (true_positive_counts, false_positive_counts), (true_negative_counts, false_negative_counts)
        rows = (*positives, *negatives, precision, recall)
        self._add(summary.pr_curve_raw(tag, rows, num_thresholds), global_step, walltime)

    # Pictures, sound, text

    def add_image(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                  dataformats: str = "CHW") -> None:  # fmt: skip
        """A picture, uint8 or from 0 to 1; `dataformats` names its dimensions: CHW, HWC, HW."""
        pixels = _media.to_bytes(_media.to_hwc(_media.to_numpy(img_tensor), dataformats))
        self._add(summary.image(tag, pixels), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                   dataformats: str = "NCHW") -> None:  # fmt: skip
        """A batch of pictures as one, eight to a row; `dataformats` is NCHW, NHWC, ... or a list of tensors of CHW."""
        if isinstance(img_tensor, (list, tuple)):
            img_tensor = np.stack([_media.to_numpy(image) for image in img_tensor])
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None,
                             walltime: float | None = None, rescale: int = 1, dataformats: str = "CHW",
                             labels: Any = None) -> None:  # fmt: skip
        """A picture with frames on it, which needs Pillow.

        Args:
            box_tensor: (N, 4), each xmin, ymin, xmax, ymax in pixels.
            rescale: factor for the size of the picture.
            labels: text for each frame.
        """
        pixels = _media.to_bytes(_media.to_hwc(_media.to_numpy(img_tensor), dataformats))
        boxes = _media.to_numpy(box_tensor)
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != boxes.size // 4:
            raise ValueError(
                f"SummaryWriter.add_image_with_boxes: each box has a label, got {boxes.size // 4} and {len(labels)}"
            )
        self._add(summary.image(tag, _media.draw_boxes(pixels, boxes, labels, rescale)), global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True,
                   walltime: float | None = None) -> None:  # fmt: skip
        """A Matplotlib figure, or a list of figures of one size, as a picture; closed afterwards unless told."""
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
        """Films (N, T, C, H, W), uint8 or from 0 to 1, side by side at `fps` pictures a second; needs Pillow."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100,
                  walltime: float | None = None) -> None:  # fmt: skip
        """Sound (frames,) or (channels, frames) from -1 to 1, `sample_rate` frames a second."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """Text, read as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    # What a run is

    def add_hparams(self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
                    hparam_domain_discrete: dict[str, Sequence[int]] | None = None, run_name: str | None = None,
                    global_step: int | None = None) -> None:  # fmt: skip
        """Hyperparameters, and the metrics they led to, as a run of their own below this one.

        Args:
            hparam_dict: `{name: bool, number or str}`.
            metric_dict: `{tag: number}`.
            hparam_domain_discrete: `{name: values it can take}`.
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
        """The ops that a module runs on `input_to_model`, a tensor or a tuple of arguments.

        The module is called once, without gradients. `verbose` prints the nodes; `use_strict_trace` has no meaning
        here, since nothing is compiled.
        """
        if input_to_model is None:
            raise ValueError("SummaryWriter.add_graph: the module is run on input_to_model, got None")
        graph = module_graph(model, input_to_model)
        if verbose:
            print(text_format.MessageToString(graph))
        self._get_file_writer().add_graph(graph)

    def add_onnx_graph(self, prototxt: str) -> None:
        """Not supported: Facula does not read ONNX."""
        raise NotImplementedError(f"SummaryWriter.add_onnx_graph: ONNX files are not read, got {prototxt!r}")

    def add_embedding(self, mat: Any, metadata: Sequence[Sequence[int | str] | str] | None = None,
                      label_img: Tensor | None = None, global_step: int | None = None, tag: str = "default",
                      metadata_header: Sequence[str] | None = None) -> None:  # fmt: skip
        """Points for the projector.

        Args:
            mat: (N, D).
            metadata: a label for each point, or a list of labels, one for each name in `metadata_header`.
            label_img: a picture for each point, (N, C, H, W), from 0 to 1.
        """
        points = _media.to_numpy(mat)
        if points.ndim != 2:
            raise ValueError(f"SummaryWriter.add_embedding: mat is (N, D), got shape {points.shape}")
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
        """Points in space, with colours and triangles.

        Args:
            vertices: (B, N, 3).
            colors: (B, N, 3), from 0 to 255.
            faces: (B, F, 3), numbers of points.
            config_dict: camera, lights and material, as the mesh plugin takes them.
        """
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    # Layout of the dashboard

    def add_custom_scalars(self, layout: dict[str, dict[str, Sequence[Any]]]) -> None:
        """Which curves share a chart: `{category: {chart: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}`.

        Called once, before or after the curves are written.
        """
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """One chart of several curves."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: Sequence[str], category: str = "default", title: str = "untitled") -> None:
        """One chart of a curve with its lower and upper bounds."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    # Files

    def flush(self) -> None:
        """Puts on disk what was added."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flushes and closes the files; a later `add_*` opens a new one."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _write_table(path: Path, rows) -> None:
    """Rows of cells, tab between cells."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines("\t".join(str(cell) for cell in row) + "\n" for row in rows)
