"""Name the kinds of quantization."""

import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """Name when the scales of activations are computed: with each input, before, in training, or not at all.

    >>> from torch.ao.quantization import QuantType
    >>> QuantType.DYNAMIC.name, int(QuantType.QAT)
    ('DYNAMIC', 2)
    """

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3
