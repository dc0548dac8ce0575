"""Define data pipes that are streams."""

from .branches import DemultiplexerIterDataPipe as Demultiplexer
from .branches import ForkerIterDataPipe as Forker
from .combinatorics import SamplerIterDataPipe as Sampler
from .combinatorics import ShufflerIterDataPipe as Shuffler
from .files import FileListerIterDataPipe as FileLister
from .files import FileOpenerIterDataPipe as FileOpener
from .files import StreamReaderIterDataPipe as StreamReader
from .streams import BatcherIterDataPipe as Batcher
from .streams import CollatorIterDataPipe as Collator
from .streams import ConcaterIterDataPipe as Concater
from .streams import FilterIterDataPipe as Filter
from .streams import GrouperIterDataPipe as Grouper
from .streams import IterableWrapperIterDataPipe as IterableWrapper
from .streams import MapperIterDataPipe as Mapper
from .streams import MultiplexerIterDataPipe as Multiplexer
from .streams import ShardingFilterIterDataPipe as ShardingFilter
from .streams import UnBatcherIterDataPipe as UnBatcher
from .streams import ZipperIterDataPipe as Zipper

__all__ = [
    "Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter", "Forker", "Grouper",
    "IterableWrapper", "Mapper", "Multiplexer", "Sampler", "ShardingFilter", "Shuffler", "StreamReader", "UnBatcher", "Zipper",
]  # fmt: skip
