"""Encode arrays as TensorBoard stores them: pixels as PNG and GIF files, sound as WAV files.

The PNG writer follows the format's specification (ISO/IEC 15948): a signature, then chunks of length, type, data and
CRC-32; the pixels are rows, each behind a filter byte, compressed as one zlib stream.
"""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib

import numpy as np

import facula

_PNG_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> gray, gray + alpha, RGB, RGBA


def to_numpy(value) -> np.ndarray:
    """Return a tensor, an array or a number as an array; ValueError for a text, NotImplementedError for anything else."""
    if isinstance(value, facula.Tensor):
        value = value.detach()
        return (value.float() if value.dtype is facula.bfloat16 else value).cpu().numpy()
    is_text = isinstance(value, (str, bytes)) or isinstance(value, np.ndarray) and value.dtype.kind in "SU"
    if is_text or not isinstance(value, (np.ndarray, np.generic, int, float, complex)) or np.asarray(value).dtype == object:
        kind = ValueError if is_text else NotImplementedError
        raise kind(f"SummaryWriter: expected a tensor, an array or a number, got {type(value).__name__}")
    return np.asarray(value)


def to_bytes(image: np.ndarray) -> np.ndarray:
    """Return the pixels as uint8: those of uint8 as they are, others from 0 to 1 times 255."""
    if image.dtype == np.uint8:
        return image
    return np.clip(image.astype(np.float32) * 255, 0, 255).astype(np.uint8)


def to_hwc(image: np.ndarray, dataformats: str) -> np.ndarray:
    """Return an image of `dataformats` (letters N C H W in the order of its dimensions) as (H, W, C), C at least 3.

    A batch becomes one picture, eight images to a row.
    """
    letters = dataformats.upper()
    if sorted(letters) not in (sorted("NCHW"), sorted("CHW"), sorted("HW")) or len(letters) != image.ndim:
        raise ValueError(
            f"SummaryWriter: dataformats names each dimension of the image once, of N C H W, "
            f"got {dataformats!r} for shape {tuple(image.shape)}"
        )
    order = [letters.index(letter) for letter in "NHWC" if letter in letters]
    image = image.transpose(order)
    if "N" in letters:
        image = tile(image)
    if "C" not in letters:
        image = image[:, :, None]
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def tile(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Tile (N, H, W, C) to (rows * H, columns * W, C), empty places black."""
    count, height, width, channels = images.shape
    columns = min(count, columns)
    rows = math.ceil(count / columns) if columns else 0
    sheet = np.zeros((rows * columns, height, width, channels), images.dtype)
    sheet[:count] = images
    return sheet.reshape(rows, columns, height, width, channels).swapaxes(1, 2).reshape(rows * height, -1, channels)


def png(pixels: np.ndarray) -> bytes:
    """Return (H, W, C) uint8, C from 1 to 4, as a PNG file."""
    height, width, channels = pixels.shape
    if channels not in _PNG_COLOR_TYPES:
        raise ValueError(f"SummaryWriter: an image has 1 to 4 channels, got shape (H, W, C) = {tuple(pixels.shape)}")
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # filter byte 0: none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLOR_TYPES[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def pillow():
    """Return the imaging package, which drawing and films need."""
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"SummaryWriter: boxes and films need the package Pillow (pip install pillow), got: {error}", name=error.name
        ) from None
    return Image, ImageDraw


def resized(pixels: np.ndarray, rescale: float) -> np.ndarray:
    """Return (H, W, C) pixels, enlarged."""
    if rescale == 1:
        return pixels
    Image, _ = pillow()
    height, width = (int(size * rescale) for size in pixels.shape[:2])
    return np.asarray(Image.fromarray(pixels).resize((width, height)))


def draw_boxes(pixels: np.ndarray, boxes: np.ndarray, labels, rescale: float) -> np.ndarray:
    """Draw red frames (xmin, ymin, xmax, ymax) on (H, W, C) pixels, with their labels, scaled."""
    Image, ImageDraw = pillow()
    picture = Image.fromarray(pixels)
    pen = ImageDraw.Draw(picture)
    for i, (left, top, right, bottom) in enumerate(boxes.reshape(-1, 4).tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        pen.line(corners, fill="red", width=2)  # around the edge of the box, as PyTorch's lines are
        if labels is not None:
            extent = pen.textbbox((left, bottom), labels[i], anchor="lb")
            pen.rectangle(extent, fill="red")
            pen.text((left, bottom), labels[i], fill="black", anchor="lb")
    if rescale != 1:
        picture = picture.resize((int(picture.width * rescale), int(picture.height * rescale)), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def gif(films: np.ndarray, fps: float) -> tuple[bytes, tuple[int, int, int]]:
    """Return (N, T, C, H, W) uint8 as one GIF, the films side by side in as square a grid as can be; and (H, W, C)."""
    count, frames, channels = films.shape[:3]
    columns = math.ceil(math.sqrt(count))
    sheets = [tile(films[:, t].transpose(0, 2, 3, 1), columns) for t in range(frames)]
    Image, _ = pillow()
    pictures = [Image.fromarray(sheet if channels != 1 else sheet[:, :, 0]) for sheet in sheets]
    file = io.BytesIO()
    pictures[0].save(file, format="GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0)
    return file.getvalue(), sheets[0].shape


def wav(sound: np.ndarray, rate: int) -> bytes:
    """Return (frames, channels) from -1 to 1 as a WAV file of 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(sound.shape[1])
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()
