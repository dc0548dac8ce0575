"""The kinds of quantisation."""

import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """When the scales of activations are found: with each input, before, while training, or not at all.

    >>> from torch.ao.quantization import QuantType
    >>> QuantType.DYNAMIC.name, int(QuantType.QAT)
    ('DYNAMIC', 2)
    """

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3
