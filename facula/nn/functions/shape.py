"""Functions of nn.functional that rearrange channels and pixels."""

from __future__ import annotations

from .._native import op

channel_shuffle = op("channel_shuffle")
native_channel_shuffle = op("native_channel_shuffle")
pixel_shuffle = op("pixel_shuffle")
pixel_unshuffle = op("pixel_unshuffle")
