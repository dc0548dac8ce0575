"""Define the module classes of facula.nn, one file per topic."""

from typing import TYPE_CHECKING

from .module import Module as Module  # isort: skip
from .activation import *
from .adaptive import *
from .batchnorm import *
from .channelshuffle import *
from .container import *
from .conv import *
from .distance import *
from .dropout import *
from .flatten import *
from .fold import *
from .instancenorm import *
from .linear import *
from .linear_cross_entropy_options import *
from .loss import *
from .normalization import *
from .padding import *
from .pixelshuffle import *
from .pooling import *
from .rnn import *
from .sparse import *
from .transformer import *
from .upsampling import *

if not TYPE_CHECKING:  # checkers take all that is imported
    __all__ = sorted(name for name, value in globals().items() if isinstance(value, type))
