"""Functions of nn.functional that rearrange channels and pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from facula._C import channel_shuffle as channel_shuffle
    from facula._C import native_channel_shuffle as native_channel_shuffle
    from facula._C import pixel_shuffle as pixel_shuffle
    from facula._C import pixel_unshuffle as pixel_unshuffle
else:
    channel_shuffle = _C.channel_shuffle
    native_channel_shuffle = _C.native_channel_shuffle
    pixel_shuffle = _C.pixel_shuffle
    pixel_unshuffle = _C.pixel_unshuffle
