"""Define data pipes, data sets that are built from each other: `source.map(f).shuffle().batch(4)`."""

from . import iter as iter
from . import map as map
