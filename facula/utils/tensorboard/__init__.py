"""Write what TensorBoard shows: scalars, histograms, images, text, embeddings, graphs, and others.

Needs the package `tensorboard`, whose record format and plugin messages it uses.
"""

try:
    import tensorboard  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "utils.tensorboard: needs the package tensorboard (pip install tensorboard), got: " + str(error), name=error.name
    ) from None

from tensorboard.summary.writer.record_writer import RecordWriter

from facula.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
