"""Functions of nn.functional that rearrange channels and pixels."""

from __future__ import annotations

from facula import _C

channel_shuffle = _C.channel_shuffle
native_channel_shuffle = _C.native_channel_shuffle
pixel_shuffle = _C.pixel_shuffle
pixel_unshuffle = _C.pixel_unshuffle
